"""Which mind plays which agent: patterns, opponents that do not learn, roles dealt anew, earlier selves."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import shoal
from shoal.api.experiment import Experiment
from shoal.base.errors import InputError
from shoal.checkpoints.store import CheckpointStore
from shoal.program.expand import expand
from shoal.rollout.deal import Deal, shuffled
from shoal.rollout.plans import Plans

train = functools.partial(shoal.train, on="inline", quiet=True)
PAIR = "tests.launchers.duel:pair"


def experiment(**sections: Any) -> Experiment:
    tree: dict[str, Any] = {
        "env": {"id": PAIR, "num_envs": 8},
        "algorithm": {"name": "ppo", "unroll": 16, "minibatch": 32, "lr": 1e-2},
        "model": {"name": "mlp", "hidden": [16]},
        "stop": {"updates": 4},
        "name": "duel",
    }
    return Experiment.parse({**tree, **sections})


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return CheckpointStore(folder / "checkpoints", keep=9).latest().tensors


def last_row(folder: Path) -> dict[str, float]:
    return json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])


def test_a_policy_per_group_unless_said_otherwise() -> None:
    program = expand(experiment())
    assert list(program.policies) == ["player"]
    assert program.policies["player"].lanes == 16


def test_agents_of_one_group_may_have_minds_of_their_own() -> None:
    program = expand(experiment(agents={"player_0": "one", "player_*": "two"}))
    assert {name: spec.columns for name, spec in program.policies.items()} == {"one": (0,), "two": (1,)}
    assert [spec.lanes for spec in program.policies.values()] == [8, 8]
    one, two = (plan.algorithm.flat.parameters for plan in Plans(program).values())
    assert not torch.equal(one, two), "they begin apart"


def test_what_is_resolved_expands_to_the_same() -> None:
    program = expand(experiment(agents={"player_0": "one", "*": "two"}, policies={"one": {}, "two": {"model": "gru"}}))
    again = expand(Experiment.parse(program.experiment.model_dump()))
    assert again.experiment == program.experiment
    for name in ("one", "two"):
        one, two = (Plans(p)[name].algorithm.flat.parameters for p in (program, again))
        assert torch.equal(one, two)


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        ({"agents": {"player_0": "one"}}, "nobody plays 'player_1'; this environment has player_0, player_1"),
        ({"agents": {"*": "one", "referee": "two"}}, "agents.referee: no agent is left for this pattern"),
        ({"agents": {"*": "one"}, "policies": {"won": {}}}, "policies.won: it plays nobody; did you mean 'one'"),
        ({"agents": {"*": "one"}, "policies": {"one": {"play": "random"}}}, "none of them learns"),
        ({"policies": {"players": {}}}, "policies.players: agents names no policy of that name; did you mean 'player'"),
        (
            {"agents": {"player_0": "one", "*": "two"}, "policies": {"one": {}, "two": {"past": {"of": "won"}}}},
            "policies.two.past.of = 'won' does not learn; did you mean 'one'",
        ),
        ({"policies": {"player": {"frozen": True}}}, "frozen = true: name the run"),
        ({"policies": {"player": {"play": "random", "past": {"of": "x"}}}}, "play and past exclude each other"),
        ({"policies": {"player": {"algorithm": {"name": "ppo", "clipp": 1}}}}, "policies.player.algorithm.clipp"),
    ],
)
def test_mistakes_are_one_line(sections: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        expand(experiment(**sections))
    assert words in str(caught.value)


def test_a_deal_is_a_permutation_for_each_episode() -> None:
    deal = Deal(shuffled({"player": ["a", "b"]}, seed=3), 6, first_slot=0)
    seen = set()
    for _ in range(20):
        a, b = deal.owned("a", "player").reshape(6, 2), deal.owned("b", "player").reshape(6, 2)
        assert (a ^ b).all()
        assert (a.sum(1) == 1).all()
        seen |= {tuple(row) for row in a.tolist()}
        deal.anew(list(range(6)))
    assert seen == {(True, False), (False, True)}
    before = deal.owned("a", "player").copy()
    deal.anew([2])
    assert np.array_equal(
        np.delete(before.reshape(6, 2), 2, 0), np.delete(deal.owned("a", "player").reshape(6, 2), 2, 0)
    )


def test_one_learns_against_random_play(tmp_path: Path) -> None:
    """An environment that pays the one who says 1: the learner wins, the random rival gets half of what there is."""
    tree = experiment(
        agents={"player_0": "learner", "player_1": "rival"},
        policies={"learner": {}, "rival": {"play": "random"}},
        stop={"updates": 30},
    )
    row = last_row(train(tree, root=tmp_path).folder)
    assert row["rollout/learner/agent_return"] > 8.5
    assert 3.5 < row["rollout/rival/agent_return"] < 6.5
    assert row["rollout/ep_rew_mean"] == pytest.approx(row["rollout/learner/agent_return"])
    assert row["rollout/team_return"] == pytest.approx(2 * row["rollout/agent_return"])
    assert 7.0 < row["baseline/random_team_return"] < 13.0
    by_policy = [row[f"baseline/{policy}/random_agent_return"] for policy in ("learner", "rival")]
    assert sum(by_policy) == pytest.approx(row["baseline/random_team_return"])


@pytest.mark.parametrize("deal", ["fixed", "shuffled"])
def test_a_script_plays_by_its_rule(tmp_path: Path, deal: str) -> None:
    tree = experiment(
        agents={"player_0": "learner", "player_1": "rival"},
        policies={"learner": {}, "rival": {"play": "tests.launchers.duel:always_zero"}},
        deal=deal,
        stop={"updates": 30},
    )
    row = last_row(train(tree, root=tmp_path).folder)
    assert row["rollout/rival/agent_return"] == 0.0
    assert row["rollout/learner/agent_return"] > 8.5


@pytest.mark.parametrize(
    ("placement", "spread"),
    [
        ({"actors": 2}, False),
        ({"actors": 2}, True),
        ({"actors": 2, "inference": "worker"}, True),
        ({"trainers": 2}, False),
    ],
)
def test_self_play_is_exact_under_every_launcher(tmp_path: Path, placement: dict[str, Any], spread: bool) -> None:
    tree = experiment(
        agents={"player_0": "learner", "player_1": "rival"},
        policies={"learner": {}, "rival": {"past": {"of": "learner", "every": 2, "keep": 2, "spread": spread}}},
        deal="shuffled",
        stop={"updates": 9},
        placement=placement,
    )
    one = train(tree, root=tmp_path / "inline")
    two = shoal.train(tree, root=tmp_path / "local", on="local", quiet=True)
    assert all(torch.equal(value, weights(two.folder)[name]) for name, value in weights(one.folder).items())


def test_policies_of_another_run(tmp_path: Path) -> None:
    first = train(experiment(stop={"updates": 30}), root=tmp_path)
    roles = {"player_0": "learner", "player_1": "rival"}
    frozen = experiment(
        agents=roles, policies={"learner": {}, "rival": {"from": f"{first.folder}:player", "frozen": True}}
    )
    row = last_row(train(frozen, root=tmp_path).folder)
    assert row["rollout/rival/agent_return"] > 7.5, "it has learned to say 1"
    begun = expand(
        experiment(agents=roles, policies={"learner": {"from": str(first.folder)}, "rival": {"play": "random"}})
    )
    old = weights(first.folder)["player/policy.value.weight"]
    assert torch.equal(Plans(begun)["learner"].algorithm.policy.value.weight, old)


def test_evaluation_with_other_opponents(tmp_path: Path) -> None:
    tree = experiment(
        agents={"player_0": "learner", "player_1": "rival"},
        policies={"learner": {}, "rival": {"past": {"of": "learner", "every": 5}}},
        deal="shuffled",
        stop={"updates": 30},
    )
    run = train(tree, root=tmp_path)
    scores, _ = shoal.evaluate(
        str(run.folder),
        overrides=["policies.rival.past=null", "policies.rival.play=tests.launchers.duel:always_zero"],
        episodes=10,
        root=tmp_path,
    )
    assert scores.mean == 10.0
    assert scores.by_policy == {"learner": 10.0, "rival": 0.0}


@pytest.mark.parametrize("placement", [{"actors": 1}, {"actors": 1, "inference": "worker"}])
def test_policies_may_learn_at_different_paces(tmp_path: Path, placement: dict[str, Any]) -> None:
    """A pole that fell waits for the other: whose agent lives longer has its round first, and nobody waits for ever."""
    tree = experiment(
        env={"id": "shoal/multi-cartpole", "num_envs": 4, "kwargs": {"agents": 2}},
        agents={"*_0": "one", "*": "two"},
        placement=placement,
        stop={"updates": 12},
    )
    outcome = shoal.train(tree, root=tmp_path, on="local", quiet=True)
    assert outcome.version == 12
    row = last_row(outcome.folder)
    assert (row["train/one/version"], row["train/two/version"]) == (12, 12), "each ends by its own clock"


def test_replicas_in_step_may_have_several_policies(tmp_path: Path) -> None:
    tree = experiment(agents={"player_0": "one", "*": "two"}, placement={"trainers": 2})
    one = train(tree, root=tmp_path / "inline")
    two = shoal.train(tree, root=tmp_path / "local", on="local", quiet=True)
    assert (one.version, two.version) == (4, 4)
    assert weights(one.folder).keys() == weights(two.folder).keys()
    assert all(torch.equal(value, weights(two.folder)[name]) for name, value in weights(one.folder).items())
