"""A best response that is trained wins no more than the best of all, which is computed; and it wins more than chance."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import shoal
from shoal.api.policy import Request
from shoal.cli.app import app
from shoal.envs.games.poker import Kuhn
from shoal.envs.games.table import Table
from shoal.program.expand import find_source
from shoal.rollout.mixture import MixturePolicy
from shoal.rollout.plans import load_source
from shoal.runs.exploit import exploit
from shoal.testing.exploitability import exploitability
from shoal.testing.strategies import exact_exploitability, mixed, strategy_of, strategy_of_source
from tests.workers.test_league import experiment

QUICK = ["stop.steps=20_000", "algorithm.lr=3e-3", "env.num_envs=32", "algorithm.minibatch=256", "algorithm.gamma=1.0"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A league that hardly learned."""
    root = tmp_path_factory.mktemp("exploit")
    return shoal.train(experiment(), root=root, on="inline", quiet=True).folder


@pytest.mark.parametrize("of", ["", ":main-0", ":mixture"])
def test_the_bound_is_below_what_is_computed(folder: Path, tmp_path: Path, of: str) -> None:
    found = exploit(f"{folder}{of}", overrides=QUICK, on="inline", games=2000, root=tmp_path, quiet=True)
    exact = exact_exploitability(found.outcome.folder, found.source)
    assert exact is not None
    low, high = found.interval
    error = (high - low) / 4
    assert found.bounds
    assert found.mean <= exact + 3.5 * error
    assert low > 0.1, "players that hardly learned are beaten"
    assert low < found.mean < high


def test_the_mixture_of_a_league(folder: Path) -> None:
    """It plays as its members do, each in as many episodes as its share says, and is computed from theirs."""
    source = find_source(f"{folder}:mixture", "main", "against")
    assert len(source.mixture) == 3
    assert sum(share for share, _ in source.mixture) == pytest.approx(1.0, abs=1e-3)
    table = Table(Kuhn())
    members = [strategy_of(load_source(each), table) for _, each in source.mixture]
    wanted = mixed(table, members, np.array([share for share, _ in source.mixture]))
    found = strategy_of_source(source, table)
    assert found is not None
    np.testing.assert_allclose(found[0], wanted[0], atol=1e-3)
    assert exploitability(table, found) <= max(exploitability(table, member) for member in members)


def test_whom_a_mixture_draws(folder: Path) -> None:
    parts = [load_source(find_source(f"{folder}:main-{number}", "main", "against")).eval() for number in (2, 3)]
    policy = MixturePolicy(parts, [0.25, 0.75])
    rows = 4000
    seen = torch.zeros(rows, 11)
    noise = torch.rand(rows, policy.noise_size, generator=torch.Generator().manual_seed(0))
    first = Request(seen, torch.ones(rows, dtype=torch.bool), noise, policy.initial_state(rows))
    decision = policy.act(first, explore=True)
    drawn = decision.state["drawn"]
    assert drawn.double().mean().item() == pytest.approx(0.75, abs=0.03)
    for number, part in enumerate(parts):
        own = part.act(Request(seen, first.first, noise[:, :-1]), explore=True).action
        assert (decision.action == own)[drawn == number].all()
    later = Request(seen, torch.zeros(rows, dtype=torch.bool), 1 - noise, decision.state)
    assert (policy.act(later, explore=True).state["drawn"] == drawn).all(), "until the next episode"


def test_the_command(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["exploit", f"{folder}:main-0", "stop.steps=2_000", "--on", "inline", "--games", "100"]
    said = CliRunner().invoke(app, words, catch_exceptions=False).stdout.splitlines()
    assert "a lower bound that more training may raise; computed exactly it is " in said[-2]
    assert "a game on average" in said[-3]
    document = json.loads(CliRunner().invoke(app, [*words, "--json"], catch_exceptions=False).stdout)
    assert document["games"] == 100
    assert document["bounds"]
    assert document["low"] <= document["mean"] <= document["high"]
    assert 0.0 < document["exact"] < 1.0
