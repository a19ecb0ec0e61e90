"""`shoal league`: where everyone stands, as a table and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import shoal
from shoal.base.errors import InputError
from shoal.cli.app import app
from tests.workers.test_league import experiment


def printed(*words: str) -> str:
    done = CliRunner().invoke(app, ["league", *words], catch_exceptions=False)
    assert done.exit_code == 0
    return done.output


def test_the_table_of_a_league(tmp_path: Path) -> None:
    folder = shoal.train(experiment(), root=tmp_path, on="inline", quiet=True).folder
    found = json.loads(printed(str(folder), "--json"))
    members = {row["member"]: row for row in found["members"]}
    assert len(members) == 4
    assert members["main"]["learns"]
    assert sum(row["rating"] for row in members.values()) == pytest.approx(0.0, abs=1e-6)
    for row in members.values():
        assert row["interval"][0] < row["rating"] < row["interval"][1]
        assert row["games"] > 0
    ratings = [row["rating"] for row in found["members"]]
    assert ratings == sorted(ratings, reverse=True)
    payoffs = found["payoffs"]
    assert payoffs[0][1] == pytest.approx(-payoffs[1][0])
    assert payoffs[2][2] is None
    lines = printed(str(folder)).splitlines()
    assert lines[0].split()[:3] == ["member", "role", "rating"]
    assert any(line.startswith("main meets ") for line in lines)
    assert len(lines) == 1 + 4 + 1 + 1 + 2 + 4


def test_a_run_without_a_league(tmp_path: Path) -> None:
    folder = shoal.train(experiment(league=None, stop={"updates": 1}), root=tmp_path, on="inline", quiet=True).folder
    with pytest.raises(InputError, match="has no league"):
        CliRunner().invoke(app, ["league", str(folder)], catch_exceptions=False)


def test_the_figure(tmp_path: Path) -> None:
    """A cell for each two that met, an interval for each member."""
    pytest.importorskip("matplotlib", reason="the extra `plot`")
    from shoal.analysis.league_figure import draw_payoffs
    from shoal.analysis.league_table import league_of

    folder = shoal.train(experiment(), root=tmp_path, on="inline", quiet=True).folder
    file = tmp_path / "league.png"
    printed(str(folder), "--plot", str(file))
    assert file.read_bytes().startswith(b"\x89PNG")
    found = league_of(str(folder))
    table, _, ratings = draw_payoffs(found).axes
    written = [text.get_text() for text in table.texts]
    met = [f"{value:.2f}" for row in found["payoffs"] for value in row if value is not None]
    assert written[: len(met)] == met
    assert [label.get_text() for label in table.get_yticklabels()] == [row["member"] for row in found["members"]]
    assert len(ratings.lines) == 2 * len(found["members"]) + 1
    with pytest.raises(InputError, match=r"--plot x.gif"):
        CliRunner().invoke(app, ["league", str(folder), "--plot", "x.gif"], catch_exceptions=False)
