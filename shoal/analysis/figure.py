"""Bands as a figure: what a person sees of several learning curves. Matplotlib without its global state, and without a screen."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal.analysis.curves import Band
from shoal.base.errors import InputError, ShoalError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's, which people with any kind of colour vision can tell apart; the darkest first."""
INK, FAINT = "#222222", "#767676"
FORMATS = (".png", ".svg", ".pdf")
SHOWN = 12
"""Runs of a band that are also drawn by themselves; more would hide it."""

LABEL_POINTS = 32.0
"""Height of a label of two lines."""
AXIS_WORDS = {"steps": "environment steps", "seconds": "wall time", "updates": "updates of the policy"}
WORDS = {
    "rollout/ep_rew_mean": "Training return, mean of the last 100 episodes",
    "rollout/agent_return": "Training return of an agent, mean of the last 100 episodes",
    "rollout/ep_len_mean": "Length of an episode, mean of the last 100, in steps",
    "eval/mean_reward": "Return of greedy episodes, mean",
    "time/fps": "Environment steps per second",
}
"""What to write over a figure, where a column's name would not do."""


@dataclass(frozen=True)
class Drawing:
    """Everything that one panel of a figure shows."""

    bands: Sequence[Band]
    metric: str
    axis: str
    title: str
    """What was learned: the environment, where all runs share it."""
    goals: Sequence[float] = ()
    """Levels to reach."""
    by_chance: float | None = None
    """What random play earns, where it is known."""


def has_matplotlib() -> bool:
    """The extra is there."""
    return importlib.util.find_spec("matplotlib") is not None


def require_matplotlib(what: str = "shoal plot") -> None:
    """Fail with the remedy where the extra is missing."""
    if not has_matplotlib():
        raise InputError(f"{what} needs matplotlib: pip install 'shoal[plot]'")


def check_format(path: Path, option: str = "--out") -> None:
    """The file's name says what kind of figure it is."""
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"{option} {path}: a figure's name ends in one of {', '.join(FORMATS)}")


def save(drawings: Sequence[Drawing], path: Path) -> None:
    """Draw them into a file."""
    written(lambda: draw(drawings), path)


def written(draws: Callable[[], Figure], path: Path) -> None:
    """A figure as a file, by Matplotlib's own settings: a `matplotlibrc` in the current folder may be anybody's."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        figure = draws()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            figure.savefig(path, dpi=150)
        except OSError as error:
            raise ShoalError(f"{path} cannot be written ({error.strerror})") from None


def draw(drawings: Sequence[Drawing]) -> Figure:
    """A figure with a pair of axes for each, below one title."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5 * len(drawings)), layout="constrained", facecolor="white")
    figure.get_layout_engine().set(w_pad=0.14, h_pad=0.12)  # type: ignore[union-attr, call-arg]
    FigureCanvasAgg(figure)
    panels = [figure.add_subplot(len(drawings), 1, i + 1) for i in range(len(drawings))]
    for axes, drawing in zip(panels, drawings, strict=True):
        _draw_panel(axes, drawing, first=axes is panels[0])
    if words := _reading(drawings):
        figure.supxlabel(words, x=0.015, ha="left", fontsize=9.5, color=FAINT, linespacing=1.4)
    for axes, drawing in zip(panels, drawings, strict=True):
        _draw_labels(figure, axes, drawing.bands)
    return figure


def _draw_panel(axes: Axes, drawing: Drawing, *, first: bool) -> None:
    _frame(axes, drawing, titled=first)
    for i, band in enumerate(drawing.bands):
        _draw_band(axes, band, COLOURS[i % len(COLOURS)], several=len(drawing.bands) > 1)
    for goal in drawing.goals:
        _draw_level(axes, goal, f"goal {goal:g}")
    if drawing.by_chance is not None:
        _draw_level(axes, drawing.by_chance, f"random play {drawing.by_chance:.1f}", side="right")
    axes.margins(x=0.01, y=0.08)
    axes.set_xlim(left=min(0.0, *(float(band.x[0]) for band in drawing.bands)))


def _frame(axes: Axes, drawing: Drawing, *, titled: bool) -> None:
    """Titles, axes, a light grid behind everything."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    # The title's second line is empty: there goes a smaller one, in a colour of its own.
    axes.set_title(f"{drawing.title if titled else ''}\n", loc="left", fontsize=15, fontweight="bold", color=INK)
    what = WORDS.get(drawing.metric, drawing.metric)
    axes.text(0, 1.03, what, transform=axes.transAxes, fontsize=11.5, color=INK)
    axes.set_xlabel(AXIS_WORDS[drawing.axis], fontsize=11.5, color=INK, labelpad=6)
    axes.xaxis.set_major_formatter(FuncFormatter(_short(drawing.axis)))
    axes.xaxis.set_major_locator(MaxNLocator(7, steps=[1, 2, 2.5, 5, 10]))
    axes.grid(axis="y", color="#e6e6e6", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=FAINT, labelsize=11, length=0, pad=6)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color("#bbbbbb")


def _reading(drawings: Sequence[Drawing]) -> str:
    """How to read them, as far as it applies."""
    lines, bands = [], [band for drawing in drawings for band in drawing.bands]
    if any(len(band.curves) > 1 for band in bands):
        lines.append("Line: interquartile mean of the runs. Band: 95 % interval by stratified bootstrap.")
    if any(band.ends_apart for band in bands):
        reached = any(each.reached for band in bands for each in band.curves)
        full = " (full: goal confirmed by greedy episodes)" if reached else ""
        lines.append(f"Dots: where a run ended{full}. Dotted: the runs that are left.")
    return "\n".join(lines)


def _short(axis: str) -> Any:
    """Numbers of the axis as people say them: `20 k`, `1.5 M`, `2:30 min`."""

    def count(value: float, _: int | None = None) -> str:
        for size, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
            if abs(value) >= size:
                return f"{value / size:g}{unit}"
        return f"{value:g}"

    def seconds(value: float, _: int | None = None) -> str:
        if abs(value) >= 7200:
            return f"{value / 3600:.3g} h"
        return f"{value / 60:.3g} min" if abs(value) >= 120 else f"{value:g} s"

    return seconds if axis == "seconds" else count


def _draw_band(axes: Axes, band: Band, colour: str, *, several: bool) -> None:
    """The runs by themselves, faint; the band; the line, solid while all runs are there."""
    if 1 < len(band.curves) <= SHOWN and not several:
        for each in band.curves:
            axes.plot(each.x, each.y, color=colour, linewidth=0.8, alpha=0.4)
    for piece in band.pieces():
        whole = bool(band.present[:, piece.start].all())
        x = band.x[piece]
        fill = 0.25 if whole else 0.12
        axes.fill_between(
            x, band.low[piece], band.high[piece], color=colour, alpha=fill, linewidth=0
        )  # NaN is not filled
        axes.plot(x, band.line[piece], color=colour, linewidth=2.2 if whole else 1.8, linestyle="-" if whole else ":")
    for each in band.curves if band.ends_apart else ():
        face, edge = (colour, "white") if each.reached else ("white", colour)
        axes.plot(each.x[-1:], each.y[-1:], "o", markersize=6, markerfacecolor=face, markeredgecolor=edge)


def _draw_level(axes: Axes, level: float, words: str, *, side: str = "left") -> None:
    """A dashed line with its words: a goal's where curves begin, that of random play where they have left it."""
    right = side == "right"
    axes.axhline(level, color=FAINT, linewidth=1, linestyle=(0, (5, 4)), zorder=1)
    axes.annotate(
        words, (float(right), level), xycoords=axes.get_yaxis_transform(), xytext=(-4 if right else 4, 4),
        textcoords="offset points", ha=side, color=FAINT, fontsize=10, bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
    )  # fmt: skip


def _draw_labels(figure: Figure, axes: Axes, bands: Sequence[Band]) -> None:
    """Names where the lines end, in their colours, moved up or down until none covers another."""
    from matplotlib.patheffects import withStroke

    figure.draw_without_rendering()
    ends = [band.end for band in bands]
    heights = [float(axes.transData.transform(end)[1]) * 72 / figure.dpi for end in ends]
    for i, moved in enumerate(spread(heights, LABEL_POINTS)):
        axes.annotate(
            label_of(bands[i]), ends[i], xytext=(9, moved - heights[i]), textcoords="offset points", fontsize=11,
            color=COLOURS[i % len(COLOURS)], fontweight="bold", va="center", annotation_clip=False,
            path_effects=[withStroke(linewidth=3, foreground="white")],
        )  # fmt: skip


def label_of(band: Band) -> str:
    """Its name, and of how many runs it is."""
    count = len(band.curves)
    return band.label if count == 1 else f"{band.label}\n{count} runs"


def spread(heights: Sequence[float], least: float) -> list[float]:
    """The heights, moved as little as possible (in squares) so that neighbours are `least` apart."""
    order = sorted(range(len(heights)), key=heights.__getitem__)
    # Less what is due to its rank, each may be no lower than the one before: pools of neighbours that push share their mean.
    pools: list[list[float]] = []
    for rank, i in enumerate(order):
        pools.append([heights[i] - rank * least])
        while len(pools) > 1 and _mean(pools[-2]) > _mean(pools[-1]):
            pools[-2:] = [pools[-2] + pools[-1]]
    level = [_mean(pool) for pool in pools for _ in pool]
    moved = {i: level[rank] + rank * least for rank, i in enumerate(order)}
    return [moved[i] for i in range(len(heights))]


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
