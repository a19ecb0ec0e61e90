"""A Player decides what `shoal evaluate` decides: episodes that an evaluation played are played again by players, step by step."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import Space
from gymnasium.spaces import Dict, Tuple

from shoal.api.experiment import EnvConfig
from shoal.base.errors import InputError
from shoal.base.seeding import derive_seed
from shoal.checkpoints.store import CheckpointStore
from shoal.envs import make_env
from shoal.envs.partial import HideVelocity
from shoal.runs.load import LoadedRun, load
from shoal.runs.rollout import rollout
from tests.evaluation.player_envs import Film, Shop
from tests.launchers.small_runs import trained

SHOP = {"id": "tests.evaluation.player_envs:Shop"}
FILM = {"id": "tests.evaluation.player_envs:Film", "images": {"size": [6, 4], "grey": True, "stack": 3}}
MEMORY = {"id": "CartPole-v1", "wrappers": ["shoal.envs.partial:HideVelocity"]}
STACKED = {**SHOP, "wrappers": ["one_hot", {"frame_stack": 3}, "flatten", "normalise"]}
TWICE = {**FILM, "wrappers": [{"frame_stack": 2}]}
GRU = {"name": "gru", "hidden": [16, 16]}
PPO = {"name": "ppo", "unroll": 8, "minibatch": 32}
SPREAD = {"id": "shoal/spread"}
CENTRAL = {**PPO, "critic": "central"}
SELF_PLAY = {
    "agents": {"player_0": "learner", "player_1": "rival"}, "deal": "shuffled",
    "policies": {"learner": {}, "rival": {"past": {"of": "learner", "every": 1}}},
}  # fmt: skip
QMIX = {"name": "qmix", "unroll": 8, "batch": 8, "warmup": 32, "capacity": 1000}
DQN = {"name": "dqn", "warmup": 32, "capacity": 1000}

CASES: dict[str, tuple[dict[str, Any], int, dict[str, Any]]] = {
    "cartpole": ({"id": "CartPole-v1"}, 60, {}),
    "pendulum": ({"id": "Pendulum-v1"}, 5, {"algorithm": {**PPO, "normalise_observations": True}}),
    "pendulum, sac": ({"id": "Pendulum-v1"}, 5, {"algorithm": {"name": "sac", "warmup": 32, "capacity": 1000}}),
    "cartpole, dqn": ({"id": "CartPole-v1"}, 110, {"algorithm": DQN}),
    "memory": (MEMORY, 120, {"model": GRU, "algorithm": {**PPO, "normalise_observations": True}}),
    "dict and mask": (SHOP, 25, {"model": {"name": "auto"}}),
    "spread": (SPREAD, 14, {"algorithm": CENTRAL}),
    "spread, told apart": (SPREAD, 14, {"algorithm": {**CENTRAL, "agent_ids": True}}),
    "spread, a team with memory": (SPREAD, 14, {"algorithm": QMIX, "model": GRU}),
    "connect four": ({"id": "shoal/connect-four"}, 110, SELF_PLAY),
    "tictactoe": ({"id": "classic/tictactoe_v3"}, 200, {}),
}


def episodes_of(run: str, episodes: int) -> list[dict[str, np.ndarray]]:
    """What an evaluation plays, greedily."""
    _, folder = rollout(run, episodes=episodes, seed=4)
    found = []
    for path in sorted(folder.glob("episode-*.npz")):
        with np.load(path, allow_pickle=False) as file:
            found.append(dict(file))
    return found


def seen(space: Space[Any], arrays: dict[str, np.ndarray], name: str, t: int, agent: int) -> Any:
    """One agent's observation, out of the arrays of an episode."""
    if isinstance(space, Dict):
        return {key: seen(part, arrays, f"{name}/{key}", t, agent) for key, part in space.spaces.items()}
    if isinstance(space, Tuple):
        return tuple(seen(part, arrays, f"{name}/{i}", t, agent) for i, part in enumerate(space.spaces))
    return arrays[name][t, agent]


def players_of(run: LoadedRun) -> Any:
    """Of all agents; one policy plays both sides of Connect Four."""
    names = [*run.policies][:1] if run.experiment.deal == "shuffled" else run.policies
    return {agent: run.policy(name).player(agent) for name in names for agent in run.policies[name]}


@pytest.mark.parametrize("case", CASES)
def test_a_player_decides_as_an_evaluation_does(case: str, tmp_path: Path) -> None:
    """All agents of an episode are played side by side, by players of one policy: their memories are apart."""
    env, episodes, rest = CASES[case]
    folder = trained(tmp_path, env, **rest)
    players = players_of(load(folder))
    with closing(make_env(EnvConfig(**env), 1)) as one:
        ((name, group),) = one.groups.items()
    actions = []
    for arrays in episodes_of(folder, episodes):
        for player in players.values():
            player.reset()
        masks = arrays.get(f"{name}/action_mask")
        for t, column in zip(*np.nonzero(arrays[f"{name}/acting"]), strict=True):
            mask = None if masks is None else masks[t, column]
            observation = seen(group.observation_space, arrays, f"{name}/observation", t, column)
            if "classic" in env["id"]:
                observation, mask = {"observation": observation, "action_mask": mask}, None
            actions.append(players[group.agents[column]].act(observation, mask))
            np.testing.assert_array_equal(actions[-1], as_sent(env["id"], arrays[f"{name}/action"][t, column]))
    assert len(actions) >= 1000
    assert len({np.asarray(action).tobytes() for action in actions}) > 1, "it is not always the same"


def as_sent(env: str, action: Any) -> Any:
    """What an environment gets of a policy's action."""
    return np.clip(action, -2, 2) if env == "Pendulum-v1" else action + 2 if env == SHOP["id"] else action


# ---------------------------------------------------------------- in a program of one's own


def plain_episodes(
    run: str, make: Callable[[], Any], episodes: int
) -> Iterator[tuple[Any, int, dict[str, np.ndarray]]]:
    """The environments of an evaluation, as Gymnasium or PettingZoo makes them, with the seed of each and what was played."""
    for row, arrays in enumerate(episodes_of(run, episodes)):
        yield make(), derive_seed(derive_seed(4, "evaluation"), "episode", row, 0), arrays


@pytest.mark.parametrize(
    ("env", "make", "rest"),
    [
        pytest.param(SHOP, Shop, {"model": {"name": "auto"}}, id="dict and mask"),
        pytest.param(MEMORY, lambda: HideVelocity(gymnasium.make("CartPole-v1")), {"model": GRU}, id="memory"),
        pytest.param({"id": "Pendulum-v1"}, lambda: gymnasium.make("Pendulum-v1"), {}, id="pendulum"),
        pytest.param(STACKED, Shop, {}, id="wrappers by name"),
    ],
)
def test_a_gymnasium_environment_is_played_as_in_an_evaluation(
    env: dict[str, Any], make: Callable[[], Any], rest: dict[str, Any], tmp_path: Path
) -> None:
    run = trained(tmp_path, env, **rest)
    player = load(run).policy().player()
    for plain, seed, arrays in plain_episodes(run, make, 3):
        observation, info = plain.reset(seed=seed)
        player.reset()
        over, rewards = False, []
        while not over:
            action = player.act(observation, info.get("action_mask"))
            assert plain.action_space.contains(action)
            observation, reward, terminated, truncated, info = plain.step(action)
            rewards.append(np.float32(reward))
            over = terminated or truncated
        np.testing.assert_array_equal(rewards, arrays["agent/reward"][:, 0])


@pytest.mark.parametrize("env", [FILM, TWICE], ids=["images", "images, stacked"])
def test_a_pettingzoo_game_with_images_is_played_as_in_an_evaluation(env: dict[str, Any], tmp_path: Path) -> None:
    """Frames are shrunk and stacked, for each agent from the first of its episode on; actions are clipped."""
    run = trained(tmp_path, env)
    policy = load(run).policy()
    players = {agent: policy.player(agent) for agent in Film.possible_agents}
    for plain, seed, arrays in plain_episodes(run, Film, 3):
        observations, _ = plain.reset(seed=seed)
        for player in players.values():
            player.reset()
        for t in range(10):
            actions = {agent: players[agent].act(observations[agent]) for agent in plain.agents}
            kept = np.clip(arrays["left/action"][t], np.float32(-0.01), np.float32(0.01))
            np.testing.assert_array_equal([*actions.values()], kept)
            observations, *_ = plain.step(actions)


def test_players_of_one_policy_remember_apart(tmp_path: Path) -> None:
    """And `reset` forgets: the same observations again, the same decisions again."""
    policy = load(trained(tmp_path, {"id": "Pendulum-v1"}, model=GRU)).policy()
    one, other = policy.player(), policy.player()
    rows = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
    first = [one.act(row) for row in rows]
    alone = other.act(rows[-1])
    one.reset()
    assert [one.act(row) for row in rows] == first
    assert alone != first[-1], "memory counts"


def test_exploring_draws_as_training_does(tmp_path: Path) -> None:
    policy = load(trained(tmp_path, {"id": "CartPole-v1"})).policy()
    still = np.zeros(4, np.float32)
    one, same, greedy = policy.player(seed=3), policy.player(seed=3), policy.player()
    drawn = [one.act(still, explore=True) for _ in range(300)]
    assert drawn == [same.act(still, explore=True) for _ in range(300)]
    assert len({greedy.act(still) for _ in range(10)}) == 1
    shares = torch.softmax(policy.module.head(policy.module.actor(torch.zeros(1, 1, 4), None, torch.ones(1, 1))[0]), -1)
    assert np.mean(drawn) == pytest.approx(shares[0, 0, 1].item(), abs=0.1)


def test_a_policy_that_plays_by_a_rule_can_be_played(tmp_path: Path) -> None:
    run = load(
        trained(
            tmp_path,
            SPREAD,
            agents={"agent_0": "learner", "*": "other"},
            policies={"learner": {}, "other": {"play": "random"}},
        )
    )
    player = run.policy("other").player()
    assert len({int(player.act(np.zeros(18, np.float32))) for _ in range(50)}) == 5


def test_the_threads_of_the_program_stay(tmp_path: Path) -> None:
    run = trained(tmp_path, {"id": "CartPole-v1"})
    torch.set_num_threads(2)
    try:
        load(run).policy().player().act(np.zeros(4))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)


@pytest.mark.parametrize(
    ("observation", "mask", "said"),
    [
        (np.zeros(5), None, "has shape (5,) and dtype float64 where the space says (4,) and float32"),
        (np.zeros(4), [True], "action_mask has 1 entries where the action space has 2 actions"),
        ({"a": 1}, None, "has shape () and dtype object"),
    ],
)
def test_what_does_not_fit_is_said(observation: Any, mask: Any, said: str, tmp_path: Path) -> None:
    player = load(trained(tmp_path, {"id": "CartPole-v1"})).policy().player()
    with pytest.raises(InputError, match=re.escape(said)):
        player.act(observation, mask)
    assert player.act(np.zeros(4)) in (0, 1)


# ---------------------------------------------------------------- finding a policy


def test_checkpoints_are_found_by_tag_and_version(tmp_path: Path) -> None:
    run = trained(tmp_path, {"id": "CartPole-v1"}, stop={"updates": 3}, checkpoint={"every": "1 updates"})
    CheckpointStore(Path(run) / "checkpoints").tag("best", 2)
    found = {which: load(run, checkpoint=which) for which in ("latest", "best", 1, "1")}
    assert [each.version for each in found.values()] == [3, 2, 1, 1]
    weights = [each.policy().module.head.linear.weight for each in found.values()]
    assert not torch.equal(weights[0], weights[1])
    assert torch.equal(weights[2], weights[3])


def test_policies_are_found_by_name_and_by_agent(tmp_path: Path) -> None:
    run = load(trained(tmp_path, {"id": "shoal/multi-cartpole"}, agents={"pole_0": "left", "pole_1": "right"}))
    assert run.policies == {"left": ("pole_0",), "right": ("pole_1",)}
    assert run.policy("right").name == run.policy(agent="pole_1").name == "right"
    for said, ask in {
        "several are there; choose one by its name: left, right": lambda: run.policy(),
        "there is no policy 'rigt'; did you mean 'right'?": lambda: run.policy("rigt"),
        "nobody plays the agent 'pole_7'; did you mean": lambda: run.policy(agent="pole_7"),
        "'left' does not play 'pole_1'; did you mean 'pole_0'?": lambda: run.policy("left").player("pole_1"),
    }.items():
        with pytest.raises(InputError, match=re.escape(said)):
            ask()


def test_a_policy_that_tells_its_agents_apart_must_be_told(tmp_path: Path) -> None:
    run = load(trained(tmp_path, SPREAD, algorithm={**PPO, "agent_ids": True}))
    with pytest.raises(InputError, match="tells its agents apart; name one of them: agent_0, agent_1, agent_2"):
        run.policy().player()
    assert run.policy(agent="agent_2").player() is not None
