"""Small learning curves for the cards of the gallery, as SVG: lines over environment steps, with what they start and end at."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, LEGEND = 280, 130, 46, 24, 14, 14
COLOURS = ("#0072B2", "#B84E00", "#007A5A", "#A0447C")
FAINT = "#666666"
MOST = 120
"""Points of a line: a card is 280 wide."""
Points = list[tuple[float, float]]


@dataclass(frozen=True)
class Figure:
    """What a card shows: lines by name (one line needs none), and a level to compare with."""

    what: str
    lines: dict[str, Points]
    random: float | None = None

    @property
    def last(self) -> float:
        return max(points[-1][0] for points in self.lines.values())

    def save(self, path: Path) -> None:
        size = f"viewBox='0 0 {WIDTH} {HEIGHT}' width='{WIDTH}' height='{HEIGHT}'"
        paper = f"<rect width='{WIDTH}' height='{HEIGHT}' fill='#ffffff'/>"
        head = f"<svg xmlns='http://www.w3.org/2000/svg' {size} role='img'>{paper}"
        path.write_text("\n".join([head, *self._parts(), "</svg>"]) + "\n")

    def _parts(self) -> list[str]:
        levels = [y for points in self.lines.values() for _, y in points]
        levels += [self.random] if self.random is not None else []
        low, high = min(levels), max(levels)
        high = high if high > low else low + 1
        top = TOP + LEGEND * (len(self.lines) > 1)

        def at(x: float, y: float) -> tuple[float, float]:
            across = LEFT + (WIDTH - LEFT - 8) * x / self.last
            return across, top + (HEIGHT - top - BOTTOM) * (high - y) / (high - low)

        parts = []
        for i, (name, points) in enumerate(self.lines.items()):
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(*point) for point in thinned(points)))
            parts.append(f"<polyline points='{path}' fill='none' stroke='{COLOURS[i]}' stroke-width='1.8'/>")
            if len(self.lines) > 1:
                across = LEFT + (WIDTH - LEFT) * i / len(self.lines)
                parts.append(words(across, 12, name, "start", COLOURS[i]))
        if self.random is not None:
            y = at(0, self.random)[1]
            parts.append(f"<path d='M{LEFT},{y:.1f} H{WIDTH - 8}' stroke='{FAINT}' stroke-dasharray='4 3'/>")
            parts.append(words(WIDTH - 8, y - 4 if y > 30 else y + 13, "random play", "end"))
        parts += [words(LEFT - 5, at(0, level)[1] + 4, number(level), "end") for level in (low, high)]
        parts.append(words(LEFT, HEIGHT - 7, f"{self.what}, {self.last:,.0f} steps", "start"))
        return parts


def thinned(points: Points) -> Points:
    return points[:: max(1, len(points) // MOST)] + points[-1:]


def words(x: float, y: float, text: str, anchor: str, fill: str = FAINT) -> str:
    font = "font-family='system-ui, sans-serif' font-size='11'"
    return f"<text x='{x:.0f}' y='{y:.0f}' {font} fill='{fill}' text-anchor='{anchor}'>{escape(text)}</text>"


def number(level: float) -> str:
    """In five letters or so: there is no room for more."""
    return f"{level:.3f}" if 0 < abs(level) < 0.01 else f"{level:.3g}"
