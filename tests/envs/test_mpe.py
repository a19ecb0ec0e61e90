"""The particle environments against the package mpe2: put into the same state, under the same actions they stay equal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from shoal.api.env import Array
from shoal.api.experiment import EnvConfig
from shoal.base.errors import InputError
from shoal.envs import make_env
from shoal.envs.mpe.formation import match
from shoal.envs.mpe.particles import Particles
from shoal.testing.env import check_env
from tests.envs.mpe_peers import COPIES, PEERS, Peer, assert_close, both, by_agent, field

VARIED: list[tuple[str, dict[str, Any]]] = [
    ("shoal/spread", {"N": 5, "local_ratio": 0.2, "max_cycles": 12}),
    ("shoal/spread", {"N": 1, "local_ratio": 1.0}),
    ("shoal/spread", {"N": 4, "num_agent_neighbors": 2, "num_landmark_neighbors": 6}),
    ("shoal/spread", {"N": 2, "curriculum": True, "num_agent_neighbors": 3}),
    ("shoal/spread", {"N": 2, "terminate_on_success": True, "max_cycles": 12}),
    ("shoal/reference", {"local_ratio": 0.9}),
    ("shoal/tag", {"num_good": 3, "num_adversaries": 5, "num_obstacles": 4}),
    ("shoal/tag", {"num_good": 2, "num_agent_neighbors": 3, "num_landmark_neighbors": 1}),
    ("shoal/tag", {"num_agent_neighbors": 9, "num_landmark_neighbors": 9, "curriculum": True}),
    ("shoal/tag", {"terminate_on_success": True, "num_adversaries": 8}),
    ("shoal/adversary", {"N": 4}),
    ("shoal/adversary", {"N": 3, "num_agent_neighbors": 2, "num_landmark_neighbors": 2}),
    ("shoal/world-comm", {"num_good": 3, "num_adversaries": 3, "num_food": 4, "num_forests": 5, "num_obstacles": 2}),
    ("shoal/formation", {"N": 6}),
    ("shoal/formation", {"N": 2, "terminate_on_success": True, "max_cycles": 12}),
    ("shoal/line", {"N": 1, "terminate_on_success": True, "max_cycles": 12}),
    ("shoal/line", {"N": 5}),
    ("shoal/treasure", {"num_collectors": 5, "num_deposits": 3, "num_treasures": 12, "max_cycles": 40}),
    ("shoal/treasure", {"num_collectors": 2, "num_deposits": 1, "num_treasures": 1}),
]
CASES = [(env_id, {}) for env_id in PEERS] + VARIED


@pytest.mark.parametrize("continuous", [False, True], ids=["discrete", "continuous"])
@pytest.mark.parametrize(
    ("env_id", "kwargs", "seed"),
    [(env_id, {}, seed) for env_id in PEERS for seed in (0, 1, 2)] + [(*case, 3) for case in VARIED],
    ids=str,
)
def test_equal_to_mpe2(env_id: str, kwargs: dict[str, Any], seed: int, continuous: bool) -> None:
    assert play_both(env_id, {**kwargs, "continuous_actions": continuous}, seed) >= COPIES


@pytest.mark.parametrize(
    "env_id", ["shoal/spread", "shoal/tag", "shoal/world-comm", "shoal/push", "shoal/formation", "shoal/line"]
)
def test_equal_to_mpe2_where_bodies_push(env_id: str) -> None:
    """Random play from a random start has few contacts."""
    assert play_both(env_id, {"max_cycles": 10}, 4, crowd=0.1) >= COPIES


def play_both(env_id: str, kwargs: dict[str, Any], seed: int, crowd: float = 1.0) -> int:
    """Compare all that is seen, earned and ended; the number of episodes that ended."""
    ends = 0
    for env, peers, step, answers in both(env_id, kwargs, seed, kwargs.get("max_cycles", 25) + 3, crowd):
        for row, (peer, (seen, reward, terminated, truncated, _)) in enumerate(zip(peers, answers, strict=True)):
            assert_close(by_agent(env, field(step, "reward"), row), reward)
            assert by_agent(env, field(step, "terminated"), row) == terminated
            assert by_agent(env, field(step, "truncated"), row) == truncated
            if any(terminated.values()) or any(truncated.values()):
                assert_close(by_agent(env, field(step, "final_observation"), row), seen)
                seen, ends = peer.begin(env, row), ends + 1
            assert_close(by_agent(env, field(step, "observation"), row), seen)
            np.testing.assert_allclose(step.state[row], peer.env.state(), rtol=1e-5, atol=1e-5)
    return ends


@pytest.mark.parametrize(
    ("env_id", "kwargs"),
    [("shoal/spread", {"N": 2}), ("shoal/tag", {}), ("shoal/formation", {}), ("shoal/line", {"N": 3})],
)
def test_a_success_ends_both(env_id: str, kwargs: dict[str, Any]) -> None:
    """Put everyone where the scenario wants it, and one copy almost there."""
    kwargs = {**kwargs, "terminate_on_success": True}
    env = make_env(EnvConfig(id=env_id, kwargs=kwargs), 2)
    assert isinstance(env, Particles)
    env.reset(0)
    world, scenario = env.physics, env.scenario
    world.position[0] = [[0.1, 0.1], [0.3, 0.3]]
    if env_id == "shoal/tag":
        world.position[world.landmarks] = np.array([-0.8, 0.8])[:, None, None]
        world.position[world.agents] = np.array([[0.0, 0.2, 0.4, 0.1], [0.0] * 4]).T[:, :, None]
        world.position[-3, 0, 1] += 0.6
    else:
        goals = scenario.places(world) if hasattr(scenario, "places") else np.array([[[-0.5] * 2] * 2, [[0.5] * 2] * 2])
        world.position[world.agents] = goals
        if env_id == "shoal/spread":
            world.position[world.landmarks] = goals
        world.position[0, 0, 1] += 0.12
    peers = [Peer(env_id, kwargs) for _ in range(2)]
    for row, peer in enumerate(peers):
        peer.begin(env, row)
    step = env.step({name: np.zeros((2, len(group.agents)), np.int64) for name, group in env.groups.items()})
    for row, peer in enumerate(peers):
        terminated = peer.env.step(dict.fromkeys(peer.env.agents, 0))[2]
        assert by_agent(env, field(step, "terminated"), row) == terminated
        assert set(terminated.values()) == {row == 0}


@pytest.mark.parametrize("continuous", [False, True])
@pytest.mark.parametrize(("env_id", "kwargs"), CASES, ids=str)
def test_agents_and_spaces_are_those_of_mpe2(env_id: str, kwargs: dict[str, Any], continuous: bool) -> None:
    kwargs = {**kwargs, "continuous_actions": continuous}
    env = make_env(EnvConfig(id=env_id, kwargs=kwargs), 2)
    peer = Peer(env_id, kwargs).env
    assert [agent for group in env.groups.values() for agent in group.agents] == peer.possible_agents
    for group in env.groups.values():
        for agent in group.agents:
            assert group.observation_space == peer.observation_space(agent)
            assert group.action_space == peer.action_space(agent)


@pytest.mark.parametrize("env_id", PEERS)
def test_worlds_begin_as_mpe2_lets_them(env_id: str) -> None:
    env = make_env(EnvConfig(id=env_id), 4096)
    assert isinstance(env, Particles)
    env.reset(5)
    peer = Peer(env_id, {})
    peer.begin(env, 0)
    assert peer.script is not None
    drawn = env.physics.position[: len(peer.script.ranges)]  # a line's second landmark is not drawn
    for (low, high), place in zip(peer.script.ranges, drawn, strict=False):
        assert low <= place.min() < low + 0.02
        assert high - 0.02 < place.max() <= high
        assert abs(place.mean()) < 0.03
        assert place.std() == pytest.approx((high - low) / 12**0.5, rel=0.03)
    for name in env.physics.memory.keys() & {"goal", "key", "kind"}:
        goal = env.physics.memory[name]
        counts = np.bincount(goal.ravel())
        assert counts.min() / counts.max() > 0.85


@pytest.mark.parametrize("continuous", [False, True])
@pytest.mark.parametrize("env_id", PEERS)
def test_particle_worlds_conform(env_id: str, continuous: bool) -> None:
    config = EnvConfig(id=env_id, kwargs={"continuous_actions": continuous, "max_cycles": 20})
    checks = check_env(lambda copies: make_env(config, copies), steps=50)
    assert [check for check in checks if not check.passed] == []
    remarks = " ".join(check.detail for check in checks)
    assert "no snapshots" not in remarks
    assert "no episode ended" not in remarks
    assert "the seed changes nothing" not in remarks


@pytest.mark.parametrize("env_id", PEERS)
def test_a_copy_lives_the_same_life_however_copies_are_split(env_id: str) -> None:
    def life(copies: int, first_slot: int) -> list[Array]:
        env = make_env(EnvConfig(id=env_id, kwargs={"max_cycles": 4}), copies, first_slot=first_slot)
        step = env.reset(2)
        seen = []
        for time in range(10):
            seen.append(step.state)
            shape = {name: (copies, len(group.agents)) for name, group in env.groups.items()}
            step = env.step({name: np.full(each, time % 4, np.int64) for name, each in shape.items()})
        return seen

    for whole, left, right in zip(life(12, 0), life(5, 0), life(7, 5), strict=True):
        assert np.array_equal(whole, np.concatenate([left, right]))


@pytest.mark.parametrize("env_id", PEERS)
def test_the_games_return_is_stated_as_for_mpe2(env_id: str) -> None:
    """And `mean` only where everybody earns alike, but for a share of their own."""
    env = make_env(EnvConfig(id=env_id), 4)
    assert env.game_return == make_env(EnvConfig(id=f"mpe2/{PEERS[env_id]}"), 1).game_return
    if env.game_return == "mean" and env_id not in ("shoal/spread", "shoal/reference"):
        env.reset(0)
        step = env.step({name: np.ones((4, len(group.agents)), np.int64) for name, group in env.groups.items()})
        rewards = np.concatenate([turn.reward for turn in step.turns.values()], axis=1)
        assert (rewards == rewards[:, :1]).all()


def test_bodies_on_one_spot_stay_finite() -> None:
    env = make_env(EnvConfig(id="shoal/spread"), 2)
    assert isinstance(env, Particles)
    env.reset(0)
    env.physics.position[:2] = 0.25
    step = env.step({"agent": np.zeros((2, 3), np.int64)})
    assert np.isfinite(step.state).all()


def test_the_matching_is_the_cheapest() -> None:
    from scipy.optimize import linear_sum_assignment

    random = np.random.default_rng(0)
    for places in range(1, 8):
        cost = random.random((places, places, 5))
        for copy, found in enumerate(match(cost).T):
            row, column = linear_sum_assignment(cost[..., copy])
            np.testing.assert_allclose(found, cost[row, column, copy])


@pytest.mark.parametrize(
    ("env_id", "kwargs", "words"),
    [
        ("shoal/spread", {"local_ratio": 2}, "local_ratio"),
        ("shoal/spread", {"n": 3}, "unexpected keyword argument 'n'"),
        ("shoal/tag", {"num_good": 0}, "num_good"),
        ("shoal/world-comm", {"num_adversaries": 1}, "num_adversaries"),
        ("shoal/formation", {"N": 20}, "from 1 to 12"),
        ("shoal/simple", {"max_cycles": 0}, "max_cycles"),
    ],
)
def test_wrong_settings_are_explained(env_id: str, kwargs: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match="env.kwargs") as caught:
        make_env(EnvConfig(id=env_id, kwargs=kwargs), 2)
    assert words in str(caught.value)
