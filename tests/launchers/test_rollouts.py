"""Episodes that `shoal rollout` writes are what happened: played again, step by step, one copy at a time, they are the same."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

from shoal.api.env import Env, Step
from shoal.api.experiment import EnvConfig
from shoal.base.seeding import derive_seed
from shoal.base.tree import tree_leaves
from shoal.envs import make_env
from shoal.runs.evaluate import evaluate, load_run
from shoal.runs.rollout import MAX_COPIES, rollout
from tests.launchers.small_runs import PPO, SMALL, trained


def arrays_of(folder: Path) -> list[dict[str, np.ndarray]]:
    found = []
    for path in sorted(folder.glob("episode-*.npz")):
        with np.load(path, allow_pickle=False) as file:
            found.append(dict(file))
    return found


def table_of(folder: Path) -> list[dict[str, str]]:
    with open(folder / "episodes.csv", newline="") as file:
        return list(csv.DictReader(file))


# ---------------------------------------------------------------- playing it again


def play_again(env: Env, episodes: list[dict[str, np.ndarray]], seed: int) -> None:
    """One copy, from its reset on, through the episodes that were recorded of it."""
    step = env.reset(derive_seed(seed, "evaluation"))
    for arrays in episodes:
        steps = len(next(array for name, array in arrays.items() if name.endswith("/reward")))
        last = seen(step)
        for t in range(steps):
            check_seen(arrays, seen(step), t)
            for group, turn in step.turns.items():
                np.testing.assert_array_equal(arrays[f"{group}/acting"][t], turn.acting[0])
                if turn.action_mask is not None:
                    np.testing.assert_array_equal(arrays[f"{group}/action_mask"][t], turn.action_mask[0])
            last = seen(step)
            step = env.step({group: arrays[f"{group}/action"][t][None] for group in env.groups})
            for group, turn in step.turns.items():
                for name in ("reward", "terminated", "truncated"):
                    np.testing.assert_array_equal(arrays[f"{group}/{name}"][t], getattr(turn, name)[0])
            assert bool(step.episodes) == (t == steps - 1)
        check_seen(arrays, seen_last(step, last), steps)
        assert step.episodes[0].length == steps


def seen(step: Step) -> dict[str, np.ndarray]:
    result = {}
    for group, turn in step.turns.items():
        for path, leaf in tree_leaves(turn.observation):
            result[name_of(group, path)] = leaf[0].copy()
    return result


def name_of(group: str, path: str) -> str:
    return f"{group}/observation/{path}".rstrip("/")


def seen_last(step: Step, before: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Agent by agent: its final observation if it ended now, else what it had seen."""
    result = {name: leaf.copy() for name, leaf in before.items()}
    for group, turn in step.turns.items():
        for path, leaf in tree_leaves(turn.final_observation):
            for agent in range(leaf.shape[1]):
                if turn.terminated[0, agent] or turn.truncated[0, agent]:
                    result[name_of(group, path)][agent] = leaf[0, agent]
    return result


def check_seen(arrays: dict[str, np.ndarray], expected: dict[str, np.ndarray], t: int) -> None:
    for name, leaf in expected.items():
        np.testing.assert_array_equal(arrays[name][t], leaf, err_msg=f"{name} at {t}")
        assert arrays[name].dtype == leaf.dtype


WORLDS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("a loop over copies", {"id": "CartPole-v1", "vector": "loop"}, {}),
    ("nested observations", {"id": "tests.launchers.notebook_world:Notebook"}, {"model": {"name": "dict"}}),
    ("agents that die", {"id": "shoal/multi-cartpole", "kwargs": {"agents": 3}}, {}),
    ("several groups", {"id": "shoal/multi-cartpole", "kwargs": {"groups": "own"}}, {}),
    ("numbers to act by", {"id": "shoal/speaker-listener", "kwargs": {"continuous_actions": True}}, {}),
    ("turns and masks", {"id": "shoal/connect-four"}, {}),
    ("turns by PettingZoo", {"id": "classic/tictactoe_v3"}, {}),
]


@pytest.mark.parametrize(("env", "rest"), [pytest.param(env, rest, id=name) for name, env, rest in WORLDS])
def test_episodes_played_again_are_the_same(env: dict[str, Any], rest: dict[str, Any], tmp_path: Path) -> None:
    run = trained(tmp_path, env, **rest)
    copies = MAX_COPIES - 3
    scores, folder = rollout(run, episodes=2 * copies, seed=7, stochastic=True)
    episodes = arrays_of(folder)
    assert len(episodes) == len(scores.returns) == 2 * copies
    for row in range(copies):
        one = make_env(EnvConfig(**env), 1, first_slot=row)
        play_again(one, episodes[row::copies], 7)
        one.close()


def test_a_plain_gymnasium_world_agrees(tmp_path: Path) -> None:
    run = trained(tmp_path, {"id": "CartPole-v1", "vector": "loop"})
    _, folder = rollout(run, episodes=3, seed=4)
    for row, arrays in enumerate(arrays_of(folder)):
        world = gymnasium.make("CartPole-v1")
        observation, _ = world.reset(seed=derive_seed(derive_seed(4, "evaluation"), "episode", row, 0))
        for t, action in enumerate(arrays["agent/action"][:, 0]):
            np.testing.assert_array_equal(arrays["agent/observation"][t, 0], observation)
            observation, reward, terminated, truncated, _ = world.step(int(action))
            kept = [arrays[f"agent/{name}"][t, 0] for name in ("reward", "terminated", "truncated")]
            assert kept == [reward, terminated, truncated]
        np.testing.assert_array_equal(arrays["agent/observation"][-1, 0], observation)
        assert terminated or truncated


def test_a_batch_that_begins_anew_in_the_next_step(tmp_path: Path) -> None:
    """Gymnasium's own batch of CartPoles: an idle call between episodes, which no array has."""
    run = trained(tmp_path, {"id": "CartPole-v1"})
    _, folder = rollout(run, episodes=40, seed=1)
    world = gymnasium.make_vec("CartPole-v1", 1)
    episodes = arrays_of(folder)
    assert len(episodes) == 40
    for arrays in episodes:
        action, reward = arrays["agent/action"], arrays["agent/reward"]
        assert len(arrays["agent/observation"]) == len(action) + 1 == len(reward) + 1
        assert (reward == 1).all()
        assert arrays["agent/acting"].all()
        np.testing.assert_array_equal(arrays["agent/terminated"].nonzero()[0], [len(action) - 1])
        world.reset(seed=0)
        world.unwrapped.state = arrays["agent/observation"][0, 0].astype(np.float64)[:, None]  # type: ignore[attr-defined]
        seen = [world.step(action[t])[0][0] for t in range(len(action))]
        np.testing.assert_allclose(arrays["agent/observation"][1:, 0], seen, rtol=2e-4, atol=1e-5)


def test_groups_that_end_apart(tmp_path: Path) -> None:
    """Who ended first keeps what it saw last, when its copy already shows the next episode."""
    run = trained(tmp_path, {"id": "tests.launchers.notebook_world:make_farewell"})
    _, folder = rollout(run, episodes=3)
    for arrays, row in zip(arrays_of(folder), table_of(folder), strict=True):
        assert arrays["early/observation"].ravel().tolist() == [0, 1, 2, 2, 2]
        assert arrays["late/observation"].ravel().tolist() == [10, 11, 12, 13, 14]
        assert arrays["early/acting"].ravel().tolist() == [True, True, False, False]
        assert arrays["early/terminated"].ravel().tolist() == [False, True, False, False]
        assert arrays["late/truncated"].ravel().tolist() == [False, False, False, True]
        np.testing.assert_array_equal(np.isnan(arrays["early/value"].ravel()), [False, False, True, True])
        ends = [row[name] for name in ("length", "terminated", "truncated", "return/early", "return/late")]
        assert ends == ["4", "False", "True", "3.0", "0.0"]


# ---------------------------------------------------------------- what the policy thinks


def thoughts(run: str, arrays: dict[str, np.ndarray]) -> Any:
    """The policy's own words on a whole episode at once, `[T, 1]`, which is not how it was asked."""
    plan = load_run(run).plans["agent"]
    policy = plan.algorithm.policy.eval()
    steps = len(arrays["agent/action"])
    observation = torch.from_numpy(arrays["agent/observation"][:steps])
    first = torch.zeros(steps, 1, dtype=torch.bool)
    first[0] = True
    with torch.no_grad():
        return policy, observation, first, torch.from_numpy(arrays["agent/action"])


@pytest.mark.parametrize("model", [SMALL, {"name": "gru", "hidden": [8, 8]}], ids=["mlp", "gru"])
@pytest.mark.parametrize("stochastic", [False, True], ids=["greedy", "stochastic"])
def test_values_and_probabilities_of_ppo(model: dict[str, Any], stochastic: bool, tmp_path: Path) -> None:
    algorithm = {**PPO, "normalise_observations": True, "normalise_values": True, "entropy": 0.0}
    run = trained(tmp_path, {"id": "CartPole-v1", "vector": "loop"}, algorithm, model)
    _, folder = rollout(run, episodes=3, stochastic=stochastic)
    best = 0
    for arrays in arrays_of(folder):
        policy, observation, first, action = thoughts(run, arrays)
        with torch.no_grad():
            said = policy.evaluate(policy.normalised(observation), policy.initial_state(1), first, action, None)
            value = policy.value_scale.restored(said.value)
        np.testing.assert_allclose(arrays["agent/value"], value.numpy(), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(arrays["agent/log_prob"], said.log_prob.numpy(), rtol=1e-4, atol=1e-5)
        best += int((said.log_prob.exp() < 0.5).sum())
    assert (best > 0) == stochastic, "greedy play takes the likelier choice"


def test_values_of_dqn(tmp_path: Path) -> None:
    run = trained(tmp_path, {"id": "CartPole-v1", "vector": "loop"}, {"name": "dqn", "warmup": 1, "epsilon": 0.5})
    for stochastic in (False, True):
        _, folder = rollout(run, episodes=2, stochastic=stochastic)
        for arrays in arrays_of(folder):
            policy, observation, first, action = thoughts(run, arrays)
            with torch.no_grad():
                values = policy.values(observation, None, first)[0]
            taken = values.gather(-1, action.unsqueeze(-1)).squeeze(-1)
            np.testing.assert_allclose(arrays["agent/value"], taken.numpy(), rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(arrays["agent/best"], values.amax(-1).numpy(), rtol=1e-4, atol=1e-5)
            assert (arrays["agent/value"] < arrays["agent/best"] - 1e-6).any() == stochastic


def test_a_central_critic_sees_the_world(tmp_path: Path) -> None:
    run = trained(tmp_path, {"id": "shoal/spread"}, {**PPO, "critic": "central", "agent_ids": True})
    _, folder = rollout(run, episodes=2)
    policy = load_run(run).plans["agent"].algorithm.policy.eval()
    for arrays in arrays_of(folder):
        own = torch.from_numpy(arrays["agent/observation"][:-1])  # [T, 3, 18]
        world = own.flatten(1).unsqueeze(1).expand(-1, 3, -1)  # what all see, side by side
        noted = {"own": own, "agent": torch.arange(3).expand(len(own), 3), "state": world}
        first = torch.ones(len(own), 3, dtype=torch.bool)
        with torch.no_grad():
            value = policy.values(policy.normalised(noted), None, first)
        np.testing.assert_allclose(arrays["agent/value"], value.numpy(), rtol=1e-4, atol=1e-5)
        assert np.ptp(arrays["agent/value"]) > 0


def test_a_team_has_a_value_for_each_of_its_agents(tmp_path: Path) -> None:
    run = trained(tmp_path, {"id": "shoal/spread"}, {"name": "qmix", "unroll": 4, "warmup": 1})
    scores, folder = rollout(run, episodes=2)
    for i, arrays in enumerate(arrays_of(folder)):
        assert arrays["agent/value"].shape == arrays["agent/action"].shape == (25, 3)
        assert np.isfinite(arrays["agent/value"]).all()
        assert arrays["agent/reward"].sum() == pytest.approx(scores.returns[i], rel=1e-5)


def test_sac_knows_its_probabilities(tmp_path: Path) -> None:
    run = trained(tmp_path, {"id": "Pendulum-v1", "num_envs": 2}, {"name": "sac", "unroll": 4, "warmup": 1})
    _, folder = rollout(run, episodes=1, stochastic=True)
    (arrays,) = arrays_of(folder)
    assert "agent/value" not in arrays
    assert arrays["agent/log_prob"].shape == (200, 1)
    assert np.isfinite(arrays["agent/log_prob"]).all()


# ---------------------------------------------------------------- who plays


def test_who_played_whom_is_written_down(tmp_path: Path) -> None:
    """A learner and one who plays at random, in seats that are dealt anew; only one of them acts at a time."""
    cast = {"agents": {"player_0": "learner", "player_1": "rival"}, "deal": "shuffled"}
    run = trained(tmp_path, {"id": "shoal/connect-four"}, policies={"learner": {}, "rival": {"play": "random"}}, **cast)
    _, folder = rollout(run, episodes=12)
    names = json.loads((folder / "rollout.json").read_text())["policies"]
    learner, rival = names.index("learner"), names.index("rival")
    firsts = set()
    for arrays, row in zip(arrays_of(folder), table_of(folder), strict=True):
        who, acting = arrays["player/policy"], arrays["player/acting"]
        assert sorted(who) == sorted([learner, rival])
        firsts.add(int(who[0]))
        np.testing.assert_array_equal(acting.sum(1), 1)
        np.testing.assert_array_equal(np.isnan(arrays["player/log_prob"]), ~(acting & (who == learner)))
        assert (arrays["player/action"][~acting] == 0).all()
        earned = arrays["player/reward"].sum(0)
        assert float(row["return"]) == float(row["return/learner"]) == earned[who == learner].item()
        assert float(row["return/rival"]) == earned[who == rival].item()
    assert firsts == {learner, rival}


def test_two_policies_in_groups_of_their_own(tmp_path: Path) -> None:
    run = trained(tmp_path, {"id": "shoal/speaker-listener"})
    _, folder = rollout(run, episodes=2)
    summary = json.loads((folder / "rollout.json").read_text())
    assert summary["policies"] == ["speaker", "listener"]
    assert list(summary["groups"]) == ["speaker", "listener"]
    for arrays in arrays_of(folder):
        assert arrays["speaker/policy"].tolist() == [0]
        assert arrays["listener/policy"].tolist() == [1]
        assert np.isfinite(arrays["speaker/value"]).all()
        assert arrays["listener/action"].shape == (25, 1)


# ---------------------------------------------------------------- the folder


def test_the_table_and_the_summary(tmp_path: Path) -> None:
    env = {"id": "tests.launchers.notebook_world:Notebook"}
    run = trained(tmp_path, env, model={"name": "dict"})
    scores, folder = rollout(run, episodes=3, overrides=["env.kwargs={length: 4, cut: true}"])
    assert folder == Path(run) / "rollouts" / "1-0"
    rows = table_of(folder)
    assert [row["episode"] for row in rows] == ["0", "1", "2"]
    for row, arrays, returned in zip(rows, arrays_of(folder), scores.returns, strict=True):
        assert (row["length"], row["info/steps_twice"]) == ("4", "8.0")
        assert (row["terminated"], row["truncated"]) == ("False", "True")
        assert float(row["return"]) == returned == arrays["agent/reward"].sum()
        assert arrays["agent/observation/pair/1"].dtype == np.uint8
        assert arrays["agent/observation/pair/0"].tolist() == [[0], [1], [2], [3], [0]]
    summary = json.loads((folder / "rollout.json").read_text())
    assert (summary["format"], summary["version"], summary["seed"], summary["stochastic"]) == (1, 1, 0, False)
    assert summary["overrides"] == ["env.kwargs={length: 4, cut: true}"]
    assert summary["groups"]["agent"]["agents"] == ["agent"]


def test_equal_seeds_give_equal_bytes(tmp_path: Path) -> None:
    run = trained(tmp_path, {"id": "CartPole-v1"})
    folders = {}
    for name, seed, stochastic in (("a", 3, True), ("b", 3, True), ("c", 4, True), ("d", 3, False)):
        _, folders[name] = rollout(run, episodes=3, out=tmp_path / name, seed=seed, stochastic=stochastic)
    first = {path.name: path.read_bytes() for path in folders["a"].iterdir()}
    assert first == {path.name: path.read_bytes() for path in folders["b"].iterdir()}
    one = "episode-00000.npz"
    assert len({(folders[name] / one).read_bytes() for name in "acd"}) == 3
    start = {name: arrays_of(folders[name])[0]["agent/observation"][0] for name in "ad"}
    np.testing.assert_array_equal(start["a"], start["d"], "the worlds are the same, the actions are not")


def test_returns_are_those_of_shoal_evaluate(tmp_path: Path) -> None:
    run = trained(tmp_path, {"id": "CartPole-v1"})
    scores, _ = rollout(run, episodes=5, seed=2)
    assert scores.returns == evaluate(run, episodes=5, seed=2)[0].returns


def test_what_an_earlier_rollout_left_goes(tmp_path: Path) -> None:
    run = trained(tmp_path, {"id": "CartPole-v1"})
    out = tmp_path / "mine" / "here"
    rollout(run, episodes=3, out=out)
    (out / "notes.txt").write_text("keep me")
    rollout(run, episodes=1, out=out)
    assert sorted(path.name for path in out.iterdir()) == [
        "episode-00000.npz",
        "episodes.csv",
        "notes.txt",
        "rollout.json",
    ]
