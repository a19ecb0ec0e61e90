"""The league of a run in the browser, and that its journal is read below ROOT alone."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import made_runs
import pytest

pytest.importorskip("starlette", reason="an extra: pip install 'shoal[dashboard]'")

import shoal
from shoal.api.experiment import Experiment
from shoal.base.errors import ShoalError
from shoal.dashboard.below import Root
from shoal.dashboard.pages.league import Tables


def train_league(root: Path) -> Path:
    tree = {
        "env": {"id": "shoal/kuhn", "num_envs": 8},
        "algorithm": {"name": "ppo", "unroll": 16, "minibatch": 64},
        "model": {"name": "mlp", "hidden": [8]},
        "league": {"match": "uniform", "freeze": {"steps": 1000}, "games": 4},
        "stop": {"steps": 4000},
        "log": {"tensorboard": False},
        "name": "cards",
    }
    return shoal.train(Experiment.parse(tree), root=root, trial="a", on="inline", quiet=True).folder


def test_the_league_of_a_run(tmp_path: Path, dashboard: Any, visit: Any) -> None:
    train_league(tmp_path)
    made_runs.make_run(tmp_path, "cart", "alone")
    address = dashboard(tmp_path)
    seen = visit(address, "/run/cards/a")
    page = seen.page
    page.wait_for_selector("role=tab[name='League']")
    page.click("role=tab[name='League']")
    page.wait_for_selector("#panel-league .payoffs tbody tr >> nth=3")
    members = page.locator("#panel-league table >> nth=0").locator("tbody tr td:first-child").all_inner_texts()
    assert {"main", "main-0", "main-1"} <= set(members)
    names = page.locator(".payoffs tbody th").all_inner_texts()
    assert names == members, "both by strength"
    assert page.locator(".payoffs tbody td").count() == len(members) ** 2
    met = [line.split()[0] for line in page.locator(".meets").all_inner_texts()]
    assert met
    assert set(met) <= set(members)


def test_a_run_without_a_league_offers_none(tmp_path: Path, dashboard: Any, visit: Any) -> None:
    made_runs.make_run(tmp_path, "cart", "alone")
    seen = visit(dashboard(tmp_path), "/run/cart/alone")
    seen.page.wait_for_selector(".pipeline")
    assert not seen.page.locator("#tab-league").is_visible()


def test_a_journal_elsewhere_is_not_read(tmp_path: Path) -> None:
    outside = train_league(tmp_path / "outside")
    inside = train_league(tmp_path / "runs")
    root = Root(tmp_path / "runs")
    tables = Tables(root)
    found = tables.of("cards/a")
    assert found is not None
    assert tables.of("cards/a") is found, "nothing changed, so nothing is read again"
    for name in ("matches.bin", "decisions.jsonl"):  # one by one
        (inside / "league" / name).unlink()
        os.symlink(outside / "league" / name, inside / "league" / name)
        with pytest.raises(ShoalError, match="no regular file") if name != "matches.bin" else nullcontext():
            assert Tables(root).of("cards/a") is None
    (inside / "league").rename(tmp_path / "league")
    os.symlink(outside / "league", inside / "league")
    assert Tables(root).of("cards/a") is None
    root.close()
