"""Draws the games of the gallery that cannot draw themselves, as diagrams: seas, corridors, cards, tables of payoffs.

Run from the repository: `.venv/bin/python docs/images/games.py`. Numbers are those of the environments.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

from shoal.envs.games.matrix import RockPaperScissors
from shoal.envs.games.poker import Kuhn, Leduc
from shoal.envs.native.two_step import RISKY, SAFE, TwoStep

FOLDER = Path(__file__).parent / "recipes"
WIDTH, HEIGHT = 280, 150
INK, FAINT, WARM, COOL, PALE = "#333333", "#767676", "#D55E00", "#0072B2", "#e8eef2"


def box(x: float, y: float, width: float, height: float, fill: str = "none", line: str = FAINT, round_: int = 0) -> str:
    size = f"x='{x:.1f}' y='{y:.1f}' width='{width:.1f}' height='{height:.1f}' rx='{round_}'"
    return f"<rect {size} fill='{fill}' stroke='{line}'/>"


def text(x: float, y: float, said: Any, size: int = 12, fill: str = INK, anchor: str = "middle") -> str:
    font = f"font-family='system-ui, sans-serif' font-size='{size}' fill='{fill}' text-anchor='{anchor}'"
    return f"<text x='{x:.1f}' y='{y:.1f}' {font}>{escape(str(said))}</text>"


def line(points: list[tuple[float, float]], colour: str, width: float = 1.5) -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f"<polyline points='{path}' fill='none' stroke='{colour}' stroke-width='{width}'/>"


def disc(x: float, y: float, radius: float, fill: str) -> str:
    return f"<circle cx='{x:.1f}' cy='{y:.1f}' r='{radius}' fill='{fill}'/>"


# ---------------------------------------------------------------- the games


def deep_sea(rows: int = 10) -> Iterator[str]:
    """A triangle of cells, the one path to the treasure, another that drifts to the left."""
    side = 13.0
    left, top = (WIDTH - rows * side) / 2, 8.0

    def at(row: float, column: float) -> tuple[float, float]:
        return left + (column + 0.5) * side, top + (row + 0.5) * side

    yield from (
        box(left + column * side, top + row * side, side, side, PALE)
        for row in range(rows)
        for column in range(row + 1)
    )
    yield line([at(row, row) for row in range(rows)], WARM, 2)
    yield line(
        [at(0, 0), at(1, 1), at(2, 0), at(3, 1), at(4, 2), at(5, 1), at(6, 2), at(7, 1), at(8, 0), at(9, 1)], FAINT
    )
    yield disc(*at(0, 0), 4, COOL)
    yield disc(*at(rows - 1, rows - 1), 4.5, WARM)
    yield text(left + rows * side + 6, top + rows * side - 2, "treasure", anchor="start", fill=WARM)
    yield text(left + 22, top + 12, "one right path of all", anchor="start", fill=FAINT)


def memory_corridor(length: int = 10) -> Iterator[str]:
    """A corridor with the cue at its beginning and two ways at its end."""
    side, top = 22.0, 62.0
    yield from (box(14 + i * side, top, side, side, WARM if i == 0 else PALE) for i in range(length))
    end = 14 + length * side
    yield from (box(end, top + shift * side, side, side, PALE) for shift in (-1, 0, 1))
    yield text(25, top + 16, "L", 13, "#ffffff")
    yield text(14, top - 10, "the cue is seen here alone", anchor="start", fill=WARM)
    yield text(end - 6, top - 6, "left: 1", anchor="end", fill=INK)
    yield text(end - 6, top + side * 2 - 6, "right: 0", anchor="end", fill=INK)


def multi_cartpole() -> Iterator[str]:
    """Two carts, a pole each."""
    for x, lean, name in ((80, 12, "pole_0"), (200, -20, "pole_1")):
        yield line([(x - 48, 106), (x + 48, 106)], FAINT)
        yield box(x - 22, 88, 44, 18, INK, INK, 2)
        yield line([(x, 90), (x + lean, 26)], WARM, 7)
        yield disc(x, 90, 4, COOL)
        yield text(x, 128, name, fill=FAINT)


def table(left: float, top: float, values: Any, rows: list[str], columns: list[str], cell: float = 36) -> Iterator[str]:
    """Payoffs, the first player's choice down, the second's across."""
    for j, name in enumerate(columns):
        yield text(left + (j + 0.5) * cell, top - 6, name, 11, FAINT)
    for i, name in enumerate(rows):
        yield text(left - 6, top + i * 26 + 17, name, 11, FAINT, "end")
        for j in range(len(columns)):
            value = float(values[i][j])
            best = value == max(float(each) for row in values for each in row)
            yield box(left + j * cell, top + i * 26, cell, 26, PALE if best else "none")
            yield text(left + (j + 0.5) * cell, top + i * 26 + 17, f"{value:g}", 12, WARM if best else INK)


def two_step_game() -> Iterator[str]:
    """The first agent's choice, and the two games that it leads to."""
    yield disc(WIDTH / 2, 26, 6, COOL)
    yield text(WIDTH / 2, 13, "agent_0 chooses the game", 11, FAINT)
    for middle, place, action in ((76, SAFE, 0), (204, RISKY, 1)):
        yield line([(WIDTH / 2, 32), (middle, 64)], FAINT)
        yield text((WIDTH / 2 + middle) / 2 + (-12 if action == 0 else 12), 46, action, 11, FAINT)
        yield from table(middle - 36, 84, TwoStep.PAYOFF[place], ["0", "1"], ["0", "1"])


def rps_league() -> Iterator[str]:
    names = RockPaperScissors(biased=True).action_names()
    yield from table(92, 36, RockPaperScissors.BIASED, names, names, cell=54)
    yield text(WIDTH / 2, 138, "what the first player earns", 11, FAINT)


def cards(names: list[str], hidden: int) -> Iterator[str]:
    """A deck; below it what each player holds, seen from the first."""
    gap = 34.0
    left = (WIDTH - gap * len(names)) / 2
    for i, name in enumerate(names):
        yield box(left + i * gap + 2, 12, 28, 40, "#ffffff", INK, 3)
        yield text(left + i * gap + 16, 38, name, 16)
    for i in range(hidden):
        x = WIDTH / 2 + (i - hidden / 2) * 62 + 15
        yield box(x, 82, 32, 44, "#ffffff" if i == 0 else COOL, INK, 3)
        yield text(x + 16, 110 if i == 0 else 111, names[0] if i == 0 else "?", 18, INK if i == 0 else "#ffffff")
        yield text(x + 16, 142, ("you", "the other", "open")[i], 11, FAINT)


def kuhn_psro() -> Iterator[str]:
    yield from cards(["K", "Q", "J"][: Kuhn.CARDS], 2)


def leduc_ppo() -> Iterator[str]:
    yield from cards(["K", "K", "Q", "Q", "J", "J"][: Leduc.CARDS], 3)


def tictactoe_league() -> Iterator[str]:
    """A board in the middle of a game."""
    side = 40.0
    left, top = (WIDTH - 3 * side) / 2, 15.0
    yield from (line([(left + i * side, top), (left + i * side, top + 3 * side)], INK) for i in (1, 2))
    yield from (line([(left, top + i * side), (left + 3 * side, top + i * side)], INK) for i in (1, 2))
    for place, mark in {0: "x", 4: "x", 8: "o", 2: "o", 6: "x"}.items():
        x, y = left + (place % 3 + 0.5) * side, top + (place // 3 + 0.5) * side + 10
        yield text(x, y, mark, 32, WARM if mark == "x" else COOL)


def main() -> None:
    """A file for each."""
    games = (
        deep_sea,
        memory_corridor,
        multi_cartpole,
        two_step_game,
        rps_league,
        kuhn_psro,
        leduc_ppo,
        tictactoe_league,
    )
    for game in games:
        size = f"viewBox='0 0 {WIDTH} {HEIGHT}' width='{WIDTH}' height='{HEIGHT}'"
        parts = [
            f"<svg xmlns='http://www.w3.org/2000/svg' {size} role='img'>",
            box(0, 0, WIDTH, HEIGHT, "#ffffff", "none"),
        ]
        path = FOLDER / f"{game.__name__.replace('_', '-')}-still.svg"
        path.write_text("\n".join([*parts, *game(), "</svg>"]) + "\n")
        print(path.name)


if __name__ == "__main__":
    main()
