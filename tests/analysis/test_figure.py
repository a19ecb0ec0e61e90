"""The figure: what is on it, by matplotlib's own objects; how it looks is for eyes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("matplotlib", reason="the extra `plot`")

from matplotlib.colors import to_hex

from shoal.analysis.curves import Band, Curve, summarise
from shoal.analysis.figure import COLOURS, Drawing, check_format, draw, save, spread
from shoal.base.errors import InputError, ShoalError

X = np.linspace(0, 100, 11)


def curves(*ends: int, reached: bool = False) -> list[Curve]:
    """A curve each that ends there."""
    return [Curve(X[: end + 1], X[: end + 1] + i, reached) for i, end in enumerate(ends)]


def a_band(label: str, *ends: int, reached: bool = False) -> Band:
    return summarise(label, curves(*ends, reached=reached), [list(range(len(ends)))])


def texts(drawing: Drawing) -> str:
    figure = draw([drawing])
    parts = [text.get_text() for text in figure.axes[0].texts]
    return "\n".join(
        [*parts, figure.axes[0].get_title(loc="left"), figure.axes[0].get_xlabel(), figure.get_supxlabel()]
    )


def test_a_picture_says_what_it_shows() -> None:
    said = texts(
        Drawing([a_band("one", 10, 10), a_band("two", 10)], "rollout/ep_rew_mean", "steps", "World-v1", [90.0])
    )
    for words in (
        "World-v1",
        "Training return, mean of the last 100",
        "environment steps",
        "one\n2 runs",
        "two",
        "goal 90",
    ):
        assert words in said
    assert "95 % interval" in said
    assert "Dots" not in said, "all ended together"
    assert "own/number" in texts(Drawing([a_band("one", 10)], "own/number", "seconds", "x"))


def test_random_play_is_a_level() -> None:
    known = Drawing([a_band("one", 10)], "rollout/agent_return", "steps", "x", by_chance=-26.61)
    assert "random play -26.6" in texts(known)
    assert "Training return of an agent" in texts(known)
    assert "random play" not in texts(Drawing([a_band("one", 10)], "rollout/agent_return", "steps", "x"))


def test_runs_that_end_early_are_marked() -> None:
    said = texts(Drawing([a_band("one", 5, 10, reached=True)], "m", "steps", "x"))
    assert "Dots: where a run ended (full: goal confirmed by greedy episodes). Dotted: the runs that are left." in said
    assert "full" not in texts(Drawing([a_band("one", 5, 10)], "m", "steps", "x"))
    lines = draw([Drawing([a_band("one", 5, 10)], "m", "steps", "x")]).axes[0].lines
    styles = [(line.get_linestyle(), float(line.get_xdata()[0]), float(line.get_xdata()[-1])) for line in lines]
    assert ("-", 0.0, 50.0) in styles
    dotted = next(style for style in styles if style[0] == ":")
    assert dotted[1] == pytest.approx(50)
    assert dotted[2] == 100
    assert sum(line.get_marker() == "o" for line in lines) == 2


def test_bands_have_colours_of_their_own() -> None:
    figure = draw([Drawing([a_band(str(i), 10, 10) for i in range(3)], "m", "steps", "x")])
    drawn = [to_hex(line.get_color()).upper() for line in figure.axes[0].lines]
    assert drawn == [colour.upper() for colour in COLOURS[:3]]
    assert len(figure.axes[0].collections) == 3, "a band each"


def test_every_word_is_on_the_picture() -> None:
    """Long names, many bands: nothing sticks out."""
    long = [a_band(f"an-experiment-with-a-long-name-{i}", 5, 10, reached=True) for i in range(5)]
    figure = draw([Drawing(long, "rollout/ep_rew_mean", "steps", "World-v1", [50.0])])
    figure.draw_without_rendering()
    width, height = figure.get_size_inches() * figure.dpi
    words = [*figure.axes[0].texts, figure.axes[0].xaxis.label, *figure.texts]
    for text in words:
        box = text.get_window_extent()
        assert box.x0 >= 0, text
        assert box.y0 >= 0, text
        assert box.x1 <= width, text
        assert box.y1 <= height, text


def test_a_panel_for_every_number() -> None:
    bands = [a_band("one", 10, 10), a_band("two", 10)]
    figure = draw([Drawing(bands, name, "steps", "World-v1") for name in ("rollout/ep_rew_mean", "train/loss")])
    first, second = figure.axes
    assert "Training return, mean of the last 100 episodes" in [text.get_text() for text in first.texts]
    assert "train/loss" in [text.get_text() for text in second.texts]
    assert [axes.get_title(loc="left").strip() for axes in figure.axes] == ["World-v1", ""], "one title for all"
    assert first.get_window_extent().y0 > second.get_window_extent().y1, "one below the other"


def test_files(tmp_path: Path) -> None:
    drawing = Drawing([a_band("one", 10, 10)], "m", "steps", "x")
    save([drawing], tmp_path / "new/a.png")
    assert (tmp_path / "new/a.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "new/a.png").stat().st_size > 10_000
    with pytest.raises(InputError, match=r"--out a.gif: a figure's name ends in one of .png, .svg, .pdf"):
        check_format(Path("a.gif"))
    with pytest.raises(ShoalError, match="cannot be written"):
        save([drawing], Path("/proc/no/a.png"))


@settings(deadline=None)
@given(st.lists(st.floats(-100, 100), min_size=1, max_size=7))
def test_labels_keep_apart_and_in_order(heights: list[float]) -> None:
    moved = spread(heights, 10.0)
    apart = np.diff(sorted(moved))
    assert (apart >= 10 - 1e-6).all()
    for i, a in enumerate(heights):
        for j, b in enumerate(heights):
            assert not (a < b and moved[i] > moved[j])
    if (np.diff(sorted(heights)) >= 10).all():
        assert moved == pytest.approx(heights), "moved for nothing"
    assert np.mean(moved) == pytest.approx(np.mean(heights), abs=1e-6), "up as much as down"
