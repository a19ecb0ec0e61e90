"""mpe2's particle environments, put into the state of a native copy and played beside it."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from shoal.api.env import Array, Step
from shoal.api.experiment import EnvConfig
from shoal.envs import make_env
from shoal.envs.mpe.particles import Particles
from shoal.envs.mpe.physics import Physics
from shoal.testing.sampler import ActionSampler

PEERS = {
    "shoal/simple": "simple_v3",
    "shoal/spread": "simple_spread_v3",
    "shoal/speaker-listener": "simple_speaker_listener_v4",
    "shoal/reference": "simple_reference_v3",
    "shoal/crypto": "simple_crypto_v3",
    "shoal/tag": "simple_tag_v3",
    "shoal/world-comm": "simple_world_comm_v3",
    "shoal/adversary": "simple_adversary_v3",
    "shoal/push": "simple_push_v3",
    "shoal/formation": "simple_formation_v1",
    "shoal/line": "simple_line_v1",
    "shoal/treasure": "collect_treasure_v1",
}
COPIES = 2


class Script:
    """Stands in for mpe2's generator: hands out what the native copy has drawn, in mpe2's order."""

    def __init__(self, env: Particles, row: int) -> None:
        physics, memory = env.physics, env.physics.memory
        self.places = list(physics.position[..., row].copy())
        drawn = [memory[name] for name in ("goal", "key", "kind") if name in memory]
        self.goals = [int(value) for array in drawn for value in np.atleast_2d(array)[:, row]]
        self.ranges: list[tuple[float, float]] = []
        forests = getattr(env.scenario, "_forests", None)
        if forests is not None:  # mpe2 places food and forests a second time
            self.places += self.places[env.scenario._food] + self.places[forests]  # type: ignore[attr-defined]

    def __deepcopy__(self, memo: dict[int, Any]) -> Script:
        return self  # the treasures' environment keeps a copy of its generator

    def uniform(self, low: float = 0.0, high: float = 1.0, size: int | None = None) -> Any:
        if size is None and high == 1.0:  # whether a treasure comes back: always
            return 0.0
        if size is None:  # the direction of a line
            way = self.places[0] - self.line_begins
            return np.arctan2(way[1], way[0])
        self.ranges.append((low, high))
        self.line_begins = self.places.pop(0)
        return self.line_begins

    def integers(self, *bounds: int) -> int:
        goal = self.goals.pop(0)
        assert 0 <= goal < bounds[-1]
        return goal


class Peer:
    """One copy of mpe2's environment."""

    def __init__(self, env_id: str, kwargs: dict[str, Any]) -> None:
        self.env = importlib.import_module(f"mpe2.{PEERS[env_id]}").parallel_env(**kwargs)
        self.script: Script | None = None

    def begin(self, env: Particles, row: int) -> dict[str, Array]:
        self.script = Script(env, row)
        self.env.unwrapped.np_random = self.script
        return self.env.reset()[0]


def by_agent(env: Particles, values: dict[str, Array], row: int) -> dict[str, Any]:
    return {agent: values[name][row, i] for name, group in env.groups.items() for i, agent in enumerate(group.agents)}


def assert_close(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    assert ours.keys() == theirs.keys()
    for agent, value in ours.items():
        np.testing.assert_allclose(value, theirs[agent], rtol=1e-5, atol=1e-5, err_msg=agent)


def field(step: Step, name: str) -> dict[str, Array]:
    return {group: getattr(turn, name) for group, turn in step.turns.items()}


def note_returns(env: Particles) -> list[tuple[int, Array, int]]:
    """A list that each step fills with the treasures that come back: copy, place and kind."""
    found: list[tuple[int, Array, int]] = []
    inner = env.scenario.after

    def after(world: Physics, batch: Any) -> None:
        gone = ~world.memory["alive"] if "alive" in world.memory else np.zeros((0, 0), bool)
        inner(world, batch)
        for treasure, row in np.argwhere(gone):
            place = world.position[world.landmarks][treasure, :, row].copy()
            found.append((int(row), place, int(world.memory["kind"][treasure, row])))

    env.scenario.after = after  # type: ignore[method-assign]
    return found


def both(
    env_id: str, kwargs: dict[str, Any], seed: int, steps: int, crowd: float = 1.0
) -> Iterator[tuple[Particles, list[Peer], Step, Any]]:
    """Play both; yields the native step and what each peer answered. `crowd` < 1 brings the agents together first."""
    env = make_env(EnvConfig(id=env_id, kwargs=kwargs), COPIES)
    assert isinstance(env, Particles)
    came_back = note_returns(env)
    peers = [Peer(env_id, kwargs) for _ in range(COPIES)]
    step, sampler = env.reset(seed), ActionSampler(env.groups, COPIES, seed)
    for row, peer in enumerate(peers):
        env.physics.position[env.physics.agents, :, row] *= crowd
        seen = peer.begin(env, row)
        if crowd == 1.0:
            assert_close(by_agent(env, field(step, "observation"), row), seen)
    for _ in range(steps):
        actions = sampler.sample(step)
        came_back.clear()
        step = env.step(actions)
        for row, place, kind in came_back:
            peers[row].script.places.append(place)
            peers[row].script.goals.append(kind)
        answers = [
            peer.env.step({a: v if v.ndim else int(v) for a, v in by_agent(env, actions, row).items()})
            for row, peer in enumerate(peers)
        ]
        yield env, peers, step, answers
