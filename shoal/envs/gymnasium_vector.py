"""A gymnasium `VectorEnv` as an Env: environments that step all their copies in one call.

Batched actions go in, a batched `Step` comes out. Both of gymnasium's autoreset habits are kept as they are: in the
same step (the last observations come in `info["final_obs"]`), or in the next one (an idle call, no environment step).
"""

from __future__ import annotations

import json
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv
from gymnasium.vector import AutoresetMode, VectorEnv

from shoal.api.env import AgentGroup, Array, Codec, Env, Episode, Step, Tree, Turn
from shoal.base.errors import InputError, ShoalError
from shoal.base.seeding import derive_seed
from shoal.base.tree import tree_map
from shoal.envs.codec import SpaceCodec
from shoal.envs.gymnasium_masks import METHOD
from shoal.envs.info_metrics import InfoMetrics
from shoal.envs.registry import AGENT
from shoal.envs.spaces import (
    MASK,
    OBSERVATION,
    Columns,
    action_decoder,
    action_space,
    add_agent_axis,
    flat_mask,
    mask_width,
    observation_space,
    split_mask,
)
from shoal.envs.stages import tell_stage

CARTPOLE = ("state", "steps", "prev_done")
"""What a vector CartPole is made of, beside its chance."""


class GymnasiumVector(Env):
    """`env` and its own copies, one group of one agent. `name` is what errors call the environment."""

    def __init__(self, env: VectorEnv[Any, Any, Any], name: str, *, first_slot: int = 0) -> None:
        self._env, self._name, self._first_slot = env, name, first_slot
        self._same_step = _autoreset_mode(env, name) is AutoresetMode.SAME_STEP
        self.num_envs = rows = env.num_envs
        seen, self._masked_view, self._bare = split_mask(env.single_observation_space, env.single_action_space, name)
        self._space = observation_space(seen, name)
        self.groups = {AGENT: AgentGroup((AGENT,), self._space, action_space(env.single_action_space, name))}
        self.render_fps = float(env.metadata.get("render_fps") or self.render_fps)
        self._decode = action_decoder(env.single_action_space)
        self._mask_width = mask_width(env.single_action_space)
        self._final = Columns(self._space, rows)
        self._masked = False
        self._idle = np.zeros(rows, bool)
        self._returns, self._lengths = np.zeros(rows), np.zeros(rows, np.int64)
        self._actions: Array | None = None
        self._images: Any = None
        """Of all copies, rendered at once by the first call."""
        self._numbers: InfoMetrics | None = None

    def reset(self, seed: int) -> Step:
        """Episode 0 of every copy. Later episodes follow from it, inside the environment."""
        self._numbers = InfoMetrics(self.watched) if self.watched else None
        self._idle[:] = False
        self._returns[:] = 0.0
        self._lengths[:] = 0
        self._images = None
        observation, info = self._call(self._env.reset, seed=self._seeds(seed))
        self._masked = MASK in self._with_mask(observation, info)
        nothing = np.zeros(self.num_envs, bool)
        return Step({AGENT: self._turn(observation, np.zeros(self.num_envs), nothing, nothing, info)})

    def send(self, actions: dict[str, Array]) -> None:
        """Keeps the actions; the environment steps in `recv`."""
        self._actions = self._chosen(actions)

    def recv(self, timeout: float) -> Step:
        """Step all copies. `timeout` cannot be kept: the environment runs in this thread."""
        self._images = None
        observation, reward, terminated, truncated, info = self._answer()
        live = ~self._idle
        reward = np.where(self._idle, 0.0, np.asarray(reward, np.float64))
        terminated, truncated = np.asarray(terminated, bool) & live, np.asarray(truncated, bool) & live
        self._returns += reward
        self._lengths += live
        ended = terminated | truncated
        turn = self._turn(observation, reward, terminated, truncated, info)
        if self._numbers is not None:
            self._call(self._watch, self._numbers, info, live, ended)
        if self._same_step:
            turn.final_observation = self._final_observation(ended, info) if ended.any() else None
        else:
            turn.acting = ~ended[:, None]
            self._idle = ended
        episodes = [self._close_episode(row, info) for row in np.flatnonzero(ended).tolist()]
        return Step({AGENT: turn}, advanced=int(live.sum()), episodes=episodes)

    def render(self, row: int) -> Array | None:
        """One image of those the environment draws of all its copies."""
        if self._env.render_mode != "rgb_array":
            return None
        if self._images is None:
            try:
                self._images = self._env.render()
            except gymnasium.error.DependencyNotInstalled as error:
                raise InputError(f"{self._name} cannot be drawn: {error}") from error
        return None if self._images is None else np.asarray(self._images[row])

    def codec(self, agent: str, rows: int) -> Codec:
        """By the spaces of a single copy."""
        acts = self._env.single_action_space
        return SpaceCodec(self._space, acts, rows, masked=self._masked_view, bare=self._bare)

    def limit_time(self, steps: int) -> bool:
        """CartPole counts its steps itself; of others nobody knows how to cut one copy off."""
        env = self._env.unwrapped
        if not isinstance(env, CartPoleVectorEnv):
            return False
        env.max_episode_steps = min(env.max_episode_steps, steps)
        return True

    def set_stage(self, number: int) -> bool:
        """Passed on to the environment, if it has such a method."""
        return tell_stage([self._env.unwrapped], number)

    def snapshot(self) -> Tree | None:
        """Of environments whose internal state is known: CartPole's."""
        env = self._env.unwrapped
        if type(env) is not CartPoleVectorEnv:
            return None
        random = json.dumps(env.np_random.bit_generator.state).encode()
        inside = {name: np.copy(getattr(env, name)) for name in CARTPOLE}
        counts = {"idle": self._idle, "returns": self._returns, "lengths": self._lengths}
        return {"env": inside, "random": np.frombuffer(random, np.uint8), **tree_map(np.copy, counts)}

    def restore(self, tree: Tree) -> None:
        """Go on from a snapshot of as many copies."""
        env = self._env.unwrapped
        for name, values in tree["env"].items():
            setattr(env, name, values.copy())
        env.np_random.bit_generator.state = json.loads(tree["random"].tobytes())
        self._idle = tree["idle"].copy()
        self._returns[:], self._lengths[:] = tree["returns"], tree["lengths"]

    def close(self) -> None:
        """Close the environment."""
        self._env.close()

    # ------------------------------------------------------------ parts of a step

    def _seeds(self, seed: int) -> Any:
        """What `reset` is told: the first copy's seed; the environment gives the others theirs."""
        return derive_seed(seed, "episode", self._first_slot, 0)

    def _chosen(self, actions: dict[str, Array]) -> Array:
        chosen = actions[AGENT][:, 0]
        if self._idle.any():
            # Nobody decided for an idle copy: what stands there may lie outside the space, which some environments refuse.
            chosen = chosen.copy()
            chosen[self._idle] = 0
        return self._decode(chosen)

    def _answer(self) -> Any:
        return self._call(self._env.step, self._actions)

    def _turn(
        self, observation: Tree, reward: Array, terminated: Array, truncated: Array, info: dict[str, Any]
    ) -> Turn:
        try:
            info = self._with_mask(observation, info)
            seen = add_agent_axis(self._space, self._rest(observation), self.num_envs)
            mask = self._action_mask(info)
        except (TypeError, ValueError, LookupError) as error:
            raise self._failure(error) from error
        acting = np.ones((self.num_envs, 1), bool)
        return Turn(seen, reward[:, None].astype(np.float32), terminated[:, None], truncated[:, None], acting, mask)

    def _with_mask(self, observation: Tree, info: dict[str, Any]) -> dict[str, Any]:
        """`info` with the mask, wherever the environment keeps it: see `shoal.envs.gymnasium_masks`."""
        if self._masked_view:
            return {**info, MASK: observation[MASK]}
        method = getattr(self._env.unwrapped, METHOD, None) if self._mask_width and MASK not in info else None
        return {**info, MASK: np.asarray(self._call(method))} if callable(method) else info

    def _rest(self, observation: Tree) -> Tree:
        return observation[OBSERVATION] if self._bare else observation

    def _action_mask(self, info: dict[str, Any]) -> Array | None:
        given = info.get("action_mask")
        if given is not None and not self._masked:
            raise ValueError("info['action_mask'] came with step() but not with reset(): give it with both")
        if not self._masked:
            return None
        mask = np.ones((self.num_envs, 1, self._mask_width), bool)
        if given is not None:
            present = info.get("_action_mask", np.ones(self.num_envs, bool))
            for row in np.flatnonzero(present):
                mask[row, 0] = flat_mask(given[row], self._mask_width)
        return mask

    def _final_observation(self, ended: Array, info: dict[str, Any]) -> Tree:
        final = info.get("final_obs")
        if final is None:
            raise self._failure("copies ended, but info['final_obs'] does not hold what they saw last")
        try:
            for row in np.flatnonzero(ended).tolist():
                self._final.put(row, self._rest(_row_of(final, row)))
        except (TypeError, ValueError, LookupError) as error:
            raise self._failure(error) from error
        return self._final.tree

    def _watch(self, numbers: InfoMetrics, info: dict[str, Any], live: Array, ended: Array) -> None:
        """In the same step, `info` is already of what follows an end; what belongs to the end is apart."""
        numbers.take_batch(info, live & ~ended if self._same_step else live)
        if self._same_step and ended.any():
            numbers.take_batch(info.get("final_info", {}), ended)

    def _close_episode(self, row: int, info: dict[str, Any]) -> Episode:
        source = info.get("final_info", {}) if self._same_step else info
        metrics = self._call(_read_metrics, source.get("metrics", {}), row)
        if self._numbers is not None:
            metrics |= self._numbers.close(row)
        returns = {AGENT: self._returns[row : row + 1].copy()}
        episode = Episode(row, int(self._lengths[row]), returns, metrics)
        self._returns[row] = 0.0
        self._lengths[row] = 0
        return episode

    # ------------------------------------------------------------ faults

    def _call(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            raise self._failure(error) from error

    def _failure(self, cause: Exception | str) -> ShoalError:
        text = cause if isinstance(cause, str) else f"{type(cause).__name__}: {cause}"
        last = self._first_slot + self.num_envs - 1
        return ShoalError(f"{self._name}, copies {self._first_slot} to {last}: {' '.join(text.split())}")


def _autoreset_mode(env: VectorEnv[Any, Any, Any], name: str) -> AutoresetMode:
    mode = env.metadata.get("autoreset_mode")
    if mode not in (AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP):
        said = mode.value if isinstance(mode, AutoresetMode) else mode
        raise InputError(
            f"env.id = '{name}': its vector environment declares autoreset_mode = {said}, "
            "and SameStep or NextStep is needed; set it in its metadata, or write env.vector=loop"
        )
    return AutoresetMode(mode)


def _row_of(batch: Tree, row: int) -> Tree:
    """One copy's part of a batch: an array of observations (of objects in gymnasium's own), or a tree of arrays."""
    if isinstance(batch, dict):
        return {key: _row_of(part, row) for key, part in batch.items()}
    if isinstance(batch, tuple):
        return tuple(_row_of(part, row) for part in batch)
    return batch[row]


def _read_metrics(batch: dict[str, Any], row: int) -> dict[str, float]:
    """A copy's numbers, from gymnasium's batched form: `{key: [rows], _key: which rows have it}`."""
    names = [key for key in batch if not key.startswith("_")]
    return {key: float(batch[key][row]) for key in names if f"_{key}" not in batch or batch[f"_{key}"][row]}
