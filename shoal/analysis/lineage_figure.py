"""The branches of a population as a figure: a line per member over steps, coloured by score, with an arrow for each copy."""

from __future__ import annotations

from pathlib import Path

from shoal.analysis.figure import FAINT, INK
from shoal.base.errors import ShoalError
from shoal.population.journal import Line
from shoal.population.lineage import branches_of


def draw_lineage(lines: list[Line], title: str, path: Path) -> None:
    """Draw it into a file."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.collections import LineCollection
    from matplotlib.figure import Figure

    found = branches_of(lines)
    places = {member: place for place, member in enumerate(found)}
    segments, colours = [], []
    for member, branches in found.items():
        for branch in branches:
            before = branch.begin
            for steps, score in branch.scores:
                segments.append([(before, places[member]), (steps, places[member])])
                colours.append(score)
                before = steps
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        figure = Figure(figsize=(8, 1.5 + 0.4 * len(found)), layout="constrained", facecolor="white")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        drawn = axes.add_collection(LineCollection(segments, linewidths=4, cmap="viridis"))
        drawn.set_array(colours)
        for branch in (branch for branches in found.values() for branch in branches if branch.parent is not None):
            ends = (branch.begin, places[branch.parent.member]), (branch.begin, places[branch.member])  # type: ignore[union-attr]
            axes.annotate("", ends[1], ends[0], arrowprops={"arrowstyle": "->", "color": INK, "linewidth": 1})
        axes.set_yticks(list(places.values()), list(places))
        axes.set_xlim(0, max((branch.end for branches in found.values() for branch in branches), default=1) or 1)
        axes.set_ylim(len(found) - 0.5, -0.5)
        axes.set_xlabel("environment steps of a member", color=FAINT)
        axes.set_title(title, loc="left", fontsize=13, fontweight="bold", color=INK)
        figure.colorbar(drawn, ax=axes, label="score")
        try:
            figure.savefig(path, dpi=150)
        except OSError as error:
            raise ShoalError(f"{path} cannot be written ({error.strerror})") from None
