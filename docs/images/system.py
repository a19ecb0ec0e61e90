"""Draws `system.svg`: the whole system, its workers and the streams between them.

Run from the repository: `.venv/bin/python docs/images/system.py`.
"""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
WIDTH, HEIGHT = 960, 560
INK, FAINT, PAPER = "#1f2933", "#5b6770", "#ffffff"
FONT = "font-family='system-ui, sans-serif'"


class Box(NamedTuple):
    """A worker, or what is no worker."""

    x: int
    y: int
    width: int
    height: int
    title: str
    lines: tuple[str, ...]
    colour: str


TEAL, BLUE, SAND, ROSE = "#d7f0ec", "#dbe9fb", "#f7efd9", "#f9e1e4"
BOXES = (
    Box(40, 150, 250, 150, "actor", ("steps a batch of copies", "asks a policy for actions", "writes fragments"), TEAL),
    Box(400, 40, 190, 84, "policy worker", ("acts for many actors", "or acts inside the actor"), BLUE),
    Box(400, 190, 190, 84, "buffer worker", ("keeps rows for replay", "or inside the trainer"), BLUE),
    Box(690, 150, 230, 150, "trainer", ("takes a batch", "algorithm.update(batch)", "publishes a version"), TEAL),
    Box(40, 372, 250, 84, "evaluation worker", ("greedy episodes of a version", "scores, best, videos"), BLUE),
    Box(690, 372, 230, 84, "league manager", ("who meets whom, ratings", "frozen members"), BLUE),
    Box(400, 372, 190, 84, "controller", ("hears all, gives orders", "stop rules, checkpoints"), SAND),
    Box(40, 494, 880, 46, "run folder", ("config.yaml   metrics.jsonl   events.jsonl   checkpoints/   videos/   logs/",), ROSE),
)  # fmt: skip


def box(each: Box) -> str:
    """A rectangle, its title and its lines."""
    x, y, width, height, title, lines, colour = each
    parts = [
        f"<rect x='{x}' y='{y}' width='{width}' height='{height}' rx='8' fill='{colour}' stroke='{INK}' stroke-width='1.2'/>"
    ]
    if height < 60:
        parts.append(text(x + 16, y + 28, title, bold=True))
        return "".join([*parts, text(x + 130, y + 28, lines[0], size=14)])
    parts.append(text(x + 16, y + 28, title, bold=True))
    return "".join([*parts, *(text(x + 16, y + 52 + 22 * i, line, size=14) for i, line in enumerate(lines))])


def text(
    x: int, y: int, words: str, *, size: int = 17, bold: bool = False, colour: str = INK, at: str = "start"
) -> str:
    weight = " font-weight='600'" if bold else ""
    return f"<text x='{x}' y='{y}' font-size='{size}' fill='{colour}' text-anchor='{at}' {FONT}{weight}>{escape(words)}</text>"


def arrow(points: str, *, dashed: bool = False) -> str:
    dash = " stroke-dasharray='5 4'" if dashed else ""
    return f"<polyline points='{points}' fill='none' stroke='{FAINT}' stroke-width='1.8' marker-end='url(#tip)'{dash}/>"


def label(x: int, y: int, words: str) -> str:
    width = 7 * len(words) + 8
    back = f"<rect x='{x - width // 2}' y='{y - 13}' width='{width}' height='18' fill='{PAPER}'/>"
    return back + text(x, y, words, size=13, colour=FAINT, at="middle")


ARROWS = (
    arrow("290,212 396,212"), arrow("590,212 686,212"), label(343, 206, "fragments"), label(638, 206, "batches"),
    arrow("686,245 594,245"), label(638, 261, "priorities"),
    arrow("290,289 686,289"), label(490, 293, "on-policy: straight to the trainer"),
    arrow("205,150 205,70 396,70"), label(205, 112, "observations"), arrow("400,100 255,100 255,146"), label(318, 94, "actions"),
    arrow("805,150 805,82 594,82"), label(805, 112, "versions"),
    arrow("805,300 805,326 165,326 165,304"), label(480, 331, "versions: parameters, to actors and to whoever evaluates"),
    arrow("235,326 235,368"),
    arrow("290,414 396,414", dashed=True), arrow("690,414 594,414", dashed=True), arrow("495,456 495,490"),
    label(343, 408, "scores"), label(640, 408, "matches"),
)  # fmt: skip


def main() -> None:
    """Write the file."""
    tip = "<marker id='tip' viewBox='0 0 10 10' refX='8' refY='5' markerWidth='7' markerHeight='7' orient='auto-start-reverse'>"
    tip += f"<path d='M0,0 L10,5 L0,10 z' fill='{FAINT}'/></marker>"
    body = "\n".join([*ARROWS, *map(box, BOXES)])
    size = f"viewBox='0 0 {WIDTH} {HEIGHT}' width='{WIDTH}' height='{HEIGHT}'"
    paper = f"<rect width='{WIDTH}' height='{HEIGHT}' fill='{PAPER}'/>"
    title = "<title>Workers of a run and the streams between them</title>"
    (HERE / "system.svg").write_text(
        f"<svg xmlns='http://www.w3.org/2000/svg' {size} role='img'>{title}<defs>{tip}</defs>{paper}\n{body}\n</svg>\n"
    )


if __name__ == "__main__":
    main()
