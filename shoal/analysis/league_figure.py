"""The payoff table of a league as a figure: rows earn from columns, the strongest first, with ratings beside them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.analysis.figure import FAINT, INK, written

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST = 48
"""Members that are drawn."""
NUMBERED = 16
"""Up to so many, cells have numbers in them."""
LOSES, WINS = "#D55E00", "#0072B2"
"""Told apart by people with any kind of colour vision."""


def save_payoffs(found: dict[str, Any], path: Path) -> None:
    """`found`: as `league_table` has it."""
    written(lambda: draw_payoffs(found), path)


def draw_payoffs(found: dict[str, Any]) -> Figure:
    """The figure."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.figure import Figure

    rows = found["members"][:MOST]
    earned = np.array([[np.nan if v is None else v for v in row[:MOST]] for row in found["payoffs"][:MOST]], float)
    most = max(float(np.nanmax(np.abs(earned))) if np.isfinite(earned).any() else 0.0, 1e-9)
    side = max(4.5, 0.62 * len(rows) if len(rows) <= NUMBERED else 0.24 * len(rows))
    figure = Figure(figsize=(side + 4.5, side + 1.6), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(1, 2, width_ratios=[side, 2.4])
    axes = figure.add_subplot(grid[0])
    colours = LinearSegmentedColormap.from_list("payoffs", [LOSES, "#ffffff", WINS]).with_extremes(bad="#eeeeee")
    shown = axes.imshow(np.ma.masked_invalid(earned), cmap=colours, vmin=-most, vmax=most, aspect="auto")
    names = [row["member"] for row in rows]
    axes.set_yticks(range(len(rows)), names)
    axes.set_xticks(range(len(rows)), names, rotation=90)
    axes.tick_params(colors=INK, labelsize=10 if len(rows) <= NUMBERED else 7, length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    if len(rows) <= NUMBERED:
        for (i, j), value in np.ndenumerate(earned):
            if np.isfinite(value):
                colour = "white" if abs(value) > 0.6 * most else INK
                axes.text(j, i, f"{value:.2f}", ha="center", va="center", fontsize=9, color=colour)
    axes.set_title(f"{found['run']}\n", loc="left", fontsize=15, fontweight="bold", color=INK)
    axes.text(0, 1.02, "What each row earns from each column, on average", transform=axes.transAxes, fontsize=11.5)
    figure.colorbar(shown, ax=axes, shrink=0.8, label="earned")
    _draw_ratings(figure.add_subplot(grid[1], sharey=axes), rows)
    return figure


def _draw_ratings(axes: Any, rows: list[dict[str, Any]]) -> None:
    """Beside the table: points with their intervals."""
    for place, row in enumerate(rows):
        low, high = row["interval"]
        colour = WINS if row["learns"] else INK
        axes.plot([low, high], [place, place], color=colour, linewidth=1.6, solid_capstyle="round")
        axes.plot([row["rating"]], [place], "o", color=colour, markersize=5)
    axes.axvline(0, color="#dddddd", linewidth=1, zorder=0)
    axes.tick_params(axis="y", left=False, labelleft=False)
    axes.tick_params(axis="x", colors=FAINT, labelsize=9, length=0)
    for name in ("top", "right", "left"):
        axes.spines[name].set_visible(False)
    axes.spines["bottom"].set_color("#bbbbbb")
    axes.text(0, 1.02, "Rating, 95 % (blue: it learns)", transform=axes.transAxes, fontsize=11.5)
