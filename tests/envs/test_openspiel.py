"""OpenSpiel's games as environments: the contract, the same games as ours, every mistake in one line."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shoal
from shoal.api.env import Env
from shoal.api.experiment import EnvConfig, Experiment
from shoal.base.errors import InputError
from shoal.envs import make_env
from shoal.envs.games.poker import Kuhn, Leduc
from shoal.envs.games.rules import OVER, Rules
from shoal.envs.games.table import Table
from shoal.envs.openspiel import OpenSpielEnv
from shoal.envs.openspiel_rules import OpenSpielRules
from shoal.testing.check import require
from shoal.testing.env import main_check
from shoal.testing.exploitability import nash_conv, uniform, values

pyspiel = pytest.importorskip("pyspiel", reason="open_spiel comes with the dev extra")


def made(name: str, copies: int = 1, **kwargs: Any) -> OpenSpielEnv:
    env = make_env(EnvConfig(id=f"openspiel/{name}", kwargs=kwargs), copies)
    assert isinstance(env, OpenSpielEnv)
    return env


@pytest.mark.parametrize(
    ("name", "kwargs"),
    [
        ("leduc_poker", {}),
        ("kuhn_poker", {"players": 3}),
        ("kuhn_poker", {"tensor": "observation"}),
        ("tic_tac_toe", {}),
        ("goofspiel", {"num_cards": 4, "players": 3}),  # all at once, and chance turns the prizes
        ("matrix_pd", {}),  # what one wins the other does not lose
        ("liars_dice", {"numdice": 2}),
        ("pig", {"players": 3}),
        ("turn_based_simultaneous_game", {"game": {"name": "goofspiel", "num_cards": 3}}),
    ],
)
def test_the_contract_of_environments(name: str, kwargs: dict[str, Any]) -> None:
    require(main_check(EnvConfig(id=f"openspiel/{name}", kwargs=kwargs)))


# ---------------------------------------------------------------- the same games as ours

NATIVE = {"shoal/kuhn": "kuhn_poker", "shoal/leduc": "leduc_poker", "shoal/tic-tac-toe": "tic_tac_toe"}


@pytest.mark.parametrize("ours", NATIVE)
def test_equal_seeds_play_the_same_games_as_in_ours(ours: str) -> None:
    """Cards, turns, masks, rewards and ends, step by step."""
    envs: list[Env] = [make_env(EnvConfig(id=env_id), 8) for env_id in (ours, f"openspiel/{NATIVE[ours]}")]
    dice, ended = np.random.default_rng(1), 0
    steps = [env.reset(3) for env in envs]
    for _ in range(120):
        first, second = (step.turns["player"] for step in steps)
        assert np.array_equal(first.acting, second.acting)
        assert first.action_mask is not None
        assert second.action_mask is not None
        allowed = first.action_mask & first.acting[..., None]
        assert np.array_equal(allowed, second.action_mask & second.acting[..., None])
        for name in ("reward", "terminated", "truncated"):
            assert np.array_equal(getattr(first, name), getattr(second, name))
        ended += len(steps[0].episodes)
        actions = (dice.random(allowed.shape) * (allowed + 1e-9)).argmax(axis=-1)
        steps = [env.step({"player": actions}) for env in envs]
    assert ended > 40


@pytest.mark.parametrize(("name", "rules"), [("kuhn_poker", Kuhn()), ("leduc_poker", Leduc())])
def test_tables_of_their_rules_are_those_of_ours(name: str, rules: Rules) -> None:
    theirs, ours = Table(OpenSpielRules(made(name))), Table(rules)
    assert len(theirs.mover) >= len(ours.mover)  # theirs tell cards of equal rank apart
    for table in (theirs, ours):
        assert (table.payoff[table.mover == OVER].sum(axis=1) == 0).all()
    assert values(theirs, uniform(theirs)) == pytest.approx(values(ours, uniform(ours)))
    assert nash_conv(theirs, uniform(theirs)) == pytest.approx(nash_conv(ours, uniform(ours)))


def test_three_players_of_kuhn_poker_as_a_table() -> None:
    from open_spiel.python import policy
    from open_spiel.python.algorithms import exploitability

    env = made("kuhn_poker", players=3)
    table = Table(OpenSpielRules(env))
    found = exploitability.nash_conv(env.game, policy.UniformRandomPolicy(env.game))
    assert nash_conv(table, uniform(table)) == pytest.approx(found)


# ---------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("name", "kwargs", "said"),
    [
        ("leduc_pokr", {}, "is not a game of OpenSpiel; did you mean 'openspiel/leduc_poker'?"),
        (
            "kuhn_poker",
            {"player": 3},
            "env.kwargs.player is no parameter of 'openspiel/kuhn_poker'; did you mean 'players'?",
        ),
        ("kuhn_poker", {"players": "x"}, "does not suit 'openspiel/kuhn_poker': SpielError: Wrong type for parameter"),
        ("kuhn_poker", {"tensor": "state"}, "'openspiel/kuhn_poker' has information_state and observation"),
        ("coin_game", {}, "shows its players no tensor"),
        ("mfg_garnet", {}, "a game of one player and a crowd"),
        ("bridge_uncontested_bidding", {}, "draws its chance by itself"),
    ],
)
def test_mistakes_are_one_line(name: str, kwargs: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as caught:
        made(name, **kwargs)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_only_games_in_turn_become_a_table() -> None:
    with pytest.raises(InputError, match="only games whose players move in turn"):
        OpenSpielRules(made("goofspiel", num_cards=3))


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspiel", None)
    with pytest.raises(InputError, match=r'pip install "shoal\[openspiel\]"'):
        made("leduc_poker")


def test_an_action_that_is_not_allowed_is_an_error() -> None:
    env = made("leduc_poker", 2)
    env.reset(0)
    with pytest.raises(ValueError, match="player_0 takes the action 0, which its mask does not allow"):
        env.step({"player": np.zeros((2, 2), np.int64)})


# ---------------------------------------------------------------- training


def test_a_run_is_exact_and_goes_on(tmp_path: Path) -> None:
    tree = {
        "env": {"id": "openspiel/kuhn_poker", "num_envs": 8, "kwargs": {"players": 3}}, "name": "spiel",
        "algorithm": {"name": "ppo", "unroll": 8, "minibatch": 64}, "model": {"name": "mlp", "hidden": [8]},
        "stop": {"updates": 4}, "log": {"tensorboard": False},
    }  # fmt: skip
    outcome = shoal.train(Experiment.parse(tree), root=tmp_path, on="inline", quiet=True)
    assert outcome.reason == "stop.updates = 4 reached"
