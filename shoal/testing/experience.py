"""Experience as an algorithm would get it, without an environment: random observations, played by its own policy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from gymnasium import Space

from shoal.api.algorithm import Algorithm, Task
from shoal.api.env import AgentGroup, Array
from shoal.api.explorer import Explorer
from shoal.api.fragment import Fragment
from shoal.api.policy import Request
from shoal.api.sight import Sight
from shoal.base.tree import Tree, tree_map
from shoal.rollout.team import team_group
from shoal.testing.examples import draw, draw_mask


def stored_group(algorithm: Algorithm, task: Task) -> AgentGroup:
    """The task's group, with the spaces of what a fragment holds."""
    needs, group = algorithm.needs, task.group
    if needs.lane == "env":
        assert task.state_space is not None, "a lane that is a whole environment needs Task.state_space"
        return team_group(group, task.state_space)
    sight = Sight(group.observation_space, algorithm.policy.agents, task.state_space if needs.global_state else None)
    return replace(group, observation_space=sight.stored)


def requested_group(algorithm: Algorithm, task: Task) -> AgentGroup:
    """The task's group, with the spaces of what a request holds."""
    if algorithm.needs.lane == "env":
        return stored_group(algorithm, task)
    return replace(
        task.group, observation_space=Sight(task.group.observation_space, algorithm.policy.agents).policy_input
    )


def fragment_of(algorithm: Algorithm, task: Task, *, seed: int, masked: bool) -> Fragment:
    """A fragment of arrays as an actor plays it, before `prepare`: ends of both kinds, actions and extras of the policy."""
    random, needs = np.random.default_rng(seed), algorithm.needs
    rows, lanes = needs.burn_in + needs.unroll + needs.bootstrap, _lanes(algorithm, task)
    group = stored_group(algorithm, task)
    terminated, truncated, first, acted = _episodes(rows, lanes, random)
    valid = acted.copy()
    valid[: needs.burn_in] = valid[needs.burn_in + needs.unroll :] = False
    observation = draw(group.observation_space, (rows, lanes), random)
    mask = draw_mask(group.action_space, (rows, lanes), random) if masked else None
    state = tree_map(lambda tensor: tensor.numpy().copy(), algorithm.policy.initial_state(lanes))
    actions, extras = _play(algorithm, task, observation, first, mask, random)
    reward = (random.normal(size=(rows, lanes)) * acted).astype(np.float32)
    return Fragment(
        observation, actions, reward, terminated, truncated, valid, first, np.where(acted, 0, -1), extras, mask, state,
        lanes=np.arange(lanes) % max(task.all_lanes or task.lanes, 1),
    )  # fmt: skip


def batch_of(algorithm: Algorithm, task: Task, *, seed: int, masked: bool) -> Fragment:
    """A batch of tensors as `update` gets it."""
    fragment = algorithm.prepare(fragment_of(algorithm, task, seed=seed, masked=masked))
    batch = replace(fragment, priority=None).map(lambda array: torch.from_numpy(np.array(array)))
    replay = algorithm.needs.replay
    if replay is None or replay.priorities is None:
        return batch
    count = len(batch.lanes)
    weights = np.random.default_rng(seed).uniform(0.5, 1.0, count).astype(np.float32)
    return replace(batch, keys=torch.arange(count), weights=torch.from_numpy(weights))


def _lanes(algorithm: Algorithm, task: Task) -> int:
    replay = algorithm.needs.replay
    if replay is not None:
        return replay.sequences
    lanes = task.lanes // task.replicas
    return lanes // len(task.group.agents) if algorithm.needs.lane == "env" else lanes


def _episodes(rows: int, lanes: int, random: np.random.Generator) -> tuple[Array, Array, Array, Array]:
    """terminated, truncated, first and who acted: a cut is followed by a row that is only seen."""
    terminated, truncated, first = (np.zeros((rows, lanes), bool) for _ in range(3))
    acted = np.ones((rows, lanes), bool)
    first[0] = random.random(lanes) < 0.5
    for row in range(rows - 1):
        ends = acted[row] & (random.random(lanes) < 0.2)
        cut = ends & (random.random(lanes) < 0.5)
        terminated[row], truncated[row] = ends & ~cut, cut
        acted[row + 1] = ~cut
        first[row + 1] = (ends & ~cut) | ~acted[row]
    acted[-1] = False
    return terminated, truncated, first, acted


@torch.no_grad()
def _play(
    algorithm: Algorithm, task: Task, observation: Tree, first: Array, mask: Array | None, random: np.random.Generator
) -> tuple[Array, dict[str, Array]]:
    """Row by row, with recurrent state and Explorer, as an actor does."""
    policy, (rows, lanes) = algorithm.policy, first.shape
    state, explorer = policy.initial_state(lanes), algorithm.explorer(np.arange(lanes))
    knobs = None if explorer is None else explorer.begin(np.arange(lanes))
    actions, extras = [], []
    for row in range(rows):
        decision = policy.act(
            Request(
                observation=tree_map(lambda a, row=row: torch.from_numpy(a[row]), _requested(algorithm, observation)),
                first=torch.from_numpy(first[row]),
                noise=torch.from_numpy(random.random((lanes, policy.noise_size), np.float32)),
                state=state,
                action_mask=None if mask is None else torch.from_numpy(mask[row]),
                knobs=None if knobs is None else torch.from_numpy(knobs),
            ),
            explore=True,
        )
        state = decision.state
        actions.append(decision.action.numpy().copy())
        extras.append(_stored(explorer, {k: v.numpy().copy() for k, v in decision.extras.items()}, knobs, lanes))
    return np.stack(actions), {name: np.stack([row[name] for row in extras]) for name in extras[0]}


def _requested(algorithm: Algorithm, observation: Tree) -> Tree:
    """The part of stored observations that the policy is shown."""
    sight = Sight(_ANYTHING, algorithm.policy.agents, _ANYTHING if algorithm.needs.global_state else None)
    if algorithm.needs.lane == "env" or sight.plain:
        return observation
    names = sight.policy_input.spaces if algorithm.policy.agents else None  # type: ignore[attr-defined]
    return {name: observation[name] for name in names} if names is not None else observation["own"]


_ANYTHING: Space[Any] = Space()


def _stored(explorer: Explorer | None, extras: dict[str, Array], knobs: Array | None, lanes: int) -> dict[str, Array]:
    if explorer is None or knobs is None:
        return extras
    return {name: np.array(value) for name, value in explorer.shape(extras, knobs, np.ones(lanes, bool)).items()}
