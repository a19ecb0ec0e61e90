"""Draws `pong.svg`: the score of the recipe `pong` over minutes, from the rows of a run.

Run from the repository: `.venv/bin/python docs/images/pong.py runs/pong/TRIAL`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

HERE = Path(__file__).parent
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 320, 48, 24, 28, 48
LOW, HIGH, BAR = -21, 21, 18

Point = tuple[float, float, int]
"""Minutes, mean score of the last 100 games, steps."""


def points_of(run: Path) -> list[Point]:
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    scored = [row for row in rows if "rollout/ep_rew_mean" in row]
    return [(row["time/elapsed"] / 60, row["rollout/ep_rew_mean"], row["step"]) for row in scored]


def draw(points: list[Point]) -> str:
    """A curve, the bar as a dashed line, steps under the minutes."""
    longest = points[-1][0]

    def x(minutes: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * minutes / longest

    def y(score: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (HIGH - score) / (HIGH - LOW)

    def level(score: float, style: str) -> str:
        return f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(score):.1f}" y2="{y(score):.1f}" {style}/>'

    parts = [f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>']
    for score in (-21, -10, 0, 10, 21):
        parts.append(level(score, 'stroke="#ddd"'))
        parts.append(f'<text x="{LEFT - 8}" y="{y(score) + 4:.1f}" text-anchor="end">{score}</text>')
    for minutes in range(0, int(longest) + 1, 10):
        steps = max((each[2] for each in points if each[0] <= minutes), default=0)
        words = f"{minutes} min, {steps / 1e6:.1f} M steps" if minutes else "0"
        parts.append(f'<text x="{x(minutes):.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{words}</text>')
    curve = " ".join(f"{x(minutes):.1f},{y(score):.1f}" for minutes, score, _ in points)
    parts += [
        level(BAR, 'stroke="#888" stroke-dasharray="6 4"'),
        f'<text x="{LEFT + 4}" y="{y(BAR) - 6:.1f}">{BAR}</text>',
        f'<polyline points="{curve}" fill="none" stroke="#1f77b4" stroke-width="2"/>',
        f'<text x="{LEFT}" y="{TOP - 10}">score of a game, mean of the last 100 in training</text>',
    ]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">'
    return "\n".join([head, *parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    (HERE / "pong.svg").write_text(draw(points_of(Path(sys.argv[1]))))
