"""Single gymnasium environments, stepped one after the other: for environments without a vector implementation.

Batched actions go in, a batched `Step` comes out. A copy that ends is reset within the same step. What one copy lives
through depends on the seed and on its own run-wide number alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from gymnasium.wrappers import (
    FrameStackObservation,
    OrderEnforcing,
    PassiveEnvChecker,
    RecordEpisodeStatistics,
    TimeLimit,
)

from shoal.api.env import AgentGroup, Array, Codec, Env, Episode, Step, Tree, Turn
from shoal.base.closing import close_all
from shoal.base.errors import InputError, ShoalError
from shoal.base.seeding import derive_seed
from shoal.envs.action_log import ActionLog, check_repeated, copied
from shoal.envs.codec import SpaceCodec
from shoal.envs.gymnasium_masks import MaskInInfo, with_mask_in_info
from shoal.envs.info_metrics import InfoMetrics
from shoal.envs.registry import AGENT
from shoal.envs.spaces import Columns, action_decoder, action_space, flat_mask, mask_width, observation_space
from shoal.envs.stages import tell_stage

TRANSPARENT = (OrderEnforcing, PassiveEnvChecker, RecordEpisodeStatistics, TimeLimit)
"""Wrappers that leave observations as they are."""
SLOW = 0.05
"""Seconds of a step of all copies, above which the next one gives a sign of life with each copy; and of resets, until the next
sign. Oftener they would cost more than they are worth."""


class _End(NamedTuple):
    row: int
    terminated: bool
    truncated: bool
    info: dict[str, Any]


class GymnasiumLoop(Env):
    """`envs` in a Python loop; same-step autoreset. `name` is what errors call the environment.

    Every array is allocated once and written in place, so a Step is valid until the next `send`.
    """

    relives = True

    def __init__(self, envs: list[gymnasium.Env[Any, Any]], name: str, *, first_slot: int = 0) -> None:
        _check_alike(envs, name)
        stacked = stacked_by(envs[0])
        envs = [with_mask_in_info(env, name) for env in envs]
        self._envs, self._name, self._first_slot = envs, name, first_slot
        self.num_envs = rows = len(envs)
        first = envs[0]
        space = observation_space(first.observation_space, name)
        self.groups = {AGENT: AgentGroup((AGENT,), space, action_space(first.action_space, name), stacked)}
        self.render_fps = float(first.metadata.get("render_fps") or self.render_fps)
        self._decode = action_decoder(first.action_space)
        self._mask_width = mask_width(first.action_space)
        self._limit = 0
        self._step_functions: list[Callable[[Any], Any]] = [env.step for env in envs]
        self._signed_steps = [partial(self._signed, step) for step in self._step_functions]

        self._columns, self._final_columns = Columns(space, rows), Columns(space, rows)
        self._reward = np.zeros((rows, 1), np.float32)
        self._terminated, self._truncated = np.zeros((rows, 1), bool), np.zeros((rows, 1), bool)
        self._acting = np.ones((rows, 1), bool)
        self._mask: Array | None = None

        self._seed = self._count = 0
        self._episode, self._began = [0] * rows, [0] * rows
        self._returns, self._earned = np.zeros(rows), np.zeros(rows)
        self._actions: list[Any] = []
        self._log = ActionLog()
        self._seen: list[Any] = [None] * rows
        self._rewards: list[Any] = [0.0] * rows
        self._flagged, self._slow, self._moment = False, True, 0.0
        self._numbers: InfoMetrics | None = None
        self._read_info = self._read_mask

    def reset(self, seed: int) -> Step:
        """Episode 0 of every copy."""
        self._numbers = InfoMetrics(self.watched) if self.watched else None
        self._read_info = self._read_all if self.watched else self._read_mask
        self._seed, self._count = seed, 0
        self._log.clear()
        self._episode[:] = [0] * self.num_envs
        self._returns[:] = self._reward[:] = 0.0
        self._clear_flags()
        infos = [self._begin(row) for row in range(self.num_envs)]
        masked = any("action_mask" in info for info in infos)
        self._mask = np.ones((self.num_envs, 1, self._mask_width), bool) if masked else None
        for row, info in enumerate(infos):
            self._read_mask(row, info)
        self._write_observations()
        return Step({AGENT: self._turn(None)})

    def send(self, actions: dict[str, Array]) -> None:
        """Keeps the actions, as the environment's own space wants them; the copies step in `recv`."""
        self._actions = list(self._decode(actions[AGENT][:, 0]))
        self._log.add({AGENT: actions[AGENT]}, self._began)

    def recv(self, timeout: float) -> Step:
        """Step every copy. `timeout` cannot be kept: the copies run in this very thread."""
        if self._flagged:
            self._clear_flags()
        ends = self._step_copies()
        self._take_rewards()
        self._count += 1
        episodes = [self._turn_over(end) for end in ends]
        self._write_observations()
        final = self._final_columns.tree if ends else None
        return Step({AGENT: self._turn(final)}, advanced=self.num_envs, episodes=episodes)

    def render(self, row: int) -> Array | None:
        """The copy's own image, where the environment was built with `render`."""
        if self._envs[row].render_mode != "rgb_array":
            return None
        try:
            return np.asarray(self._envs[row].render())
        except gymnasium.error.DependencyNotInstalled as error:
            raise InputError(f"{self._name} cannot be drawn: {error}") from error
        except Exception as error:
            raise self._failure(row, error) from error

    def codec(self, agent: str, rows: int) -> Codec:
        """By the spaces of the copies' own."""
        env = self._envs[0]
        masked, bare = (env.masked, env.bare) if isinstance(env, MaskInInfo) else (False, False)
        return SpaceCodec(self.groups[AGENT].observation_space, env.action_space, rows, masked=masked, bare=bare)

    def set_stage(self, number: int) -> bool:
        """Those of the copies' own that have such a method are told."""
        return tell_stage([env.unwrapped for env in self._envs], number)

    def limit_time(self, steps: int) -> bool:
        """Counted around the copies."""
        if not self._limit:
            self._step_functions = [partial(self._limited, row, step) for row, step in enumerate(self._step_functions)]
            self._signed_steps = [partial(self._signed, step) for step in self._step_functions]
        self._limit = min(self._limit or steps, steps)
        return True

    def snapshot(self) -> Tree | None:
        """Seed, number and actions of every open episode."""
        log = self._log.snapshot(self._began)
        if log is None:
            return None
        counts = {"seed": self._seed, "count": self._count, "episode": np.array(self._episode)}
        return {"log": log, **counts, "returns": self._returns.copy(), "seen": copied(self._columns.tree)}

    def restore(self, tree: Tree) -> None:
        """Live through the open episodes again. Whether there are masks is known from `reset`."""
        self._log.restore(tree["log"])
        self._seed, self._count = tree["seed"], tree["count"]
        self._episode[:] = tree["episode"].tolist()
        self._clear_flags()
        for row in range(self.num_envs):
            self._begin(row)
        self._began[:] = tree["log"]["began"].tolist()
        for rows, actions in self._log.episodes(self._began):
            chosen = list(self._decode(actions[AGENT][:, 0]))
            for row in rows:
                self._seen[row] = self._repeat(row, chosen[row])
        self._returns[:] = tree["returns"]
        self._write_observations()
        check_repeated(self._name, tree["seen"], self._columns.tree)

    def close(self) -> None:
        """Close every copy."""
        close_all(self._envs)

    # ------------------------------------------------------------ stepping

    def _step_copies(self) -> list[_End]:
        """The hot loop: results go to `_seen` and `_rewards`; what remains to do for ended copies comes back."""
        seen, rewards, ends = self._seen, self._rewards, []
        row, read_info, began = 0, self._read_info, time.monotonic()
        steps: Sequence[Callable[[Any], Any]] = self._signed_steps if self._slow else self._step_functions
        if self._mask is not None:
            self._mask.fill(True)
        try:
            for row, (step, action) in enumerate(zip(steps, self._actions, strict=True)):
                seen[row], rewards[row], terminated, truncated, info = step(action)
                if info:
                    read_info(row, info)
                if terminated or truncated:
                    ends.append(_End(row, terminated, truncated, info or {}))
        except Exception as error:
            raise self._failure(row, error) from error
        self._moment = time.monotonic()
        self._slow = self._moment - began > SLOW
        return ends

    def _signed(self, step: Callable[[Any], Any], action: Any) -> Any:
        if self.between is not None:
            self.between()
        return step(action)

    def _limited(self, row: int, step: Callable[[Any], Any], action: Any) -> Any:
        seen, reward, terminated, truncated, info = step(action)
        late = self._count + 1 - self._began[row] >= self._limit
        return seen, reward, terminated, truncated or (late and not terminated), info

    def _repeat(self, row: int, action: Any) -> Any:
        try:
            return self._signed_steps[row](action)[0]
        except Exception as error:
            raise self._failure(row, error) from error

    def _turn_over(self, end: _End) -> Episode:
        """Record the episode of an ended copy, keep its final observation, and start its next episode."""
        row, terminated, truncated, info = end
        self._flagged = True
        self._terminated[row], self._truncated[row] = terminated, truncated
        metrics = self._read_metrics(row, info)
        returns = {AGENT: self._returns[row : row + 1].copy()}
        episode = Episode(row, self._count - self._began[row], returns, metrics)
        self._returns[row] = 0.0
        self._put(self._final_columns, row)
        self._episode[row] += 1
        info = self._begin(row)
        if self._mask is not None:
            self._mask[row] = True
        self._read_mask(row, info)
        return episode

    def _begin(self, row: int) -> dict[str, Any]:
        seed = derive_seed(self._seed, "episode", self._first_slot + row, self._episode[row])
        self._began[row] = self._count
        if self.between is not None and (now := time.monotonic()) - self._moment > SLOW:
            self._moment = now
            self.between()
        try:
            self._seen[row], info = self._envs[row].reset(seed=seed)
        except Exception as error:
            raise self._failure(row, error) from error
        return info or {}

    def _read_metrics(self, row: int, info: dict[str, Any]) -> dict[str, float]:
        try:
            metrics = {key: float(value) for key, value in info.get("metrics", {}).items()}
        except (AttributeError, TypeError, ValueError) as error:
            raise self._failure(row, "info['metrics'] is not a dict of numbers") from error
        return metrics if self._numbers is None else metrics | self._numbers.close(row)

    # ------------------------------------------------------------ arrays

    def _turn(self, final: Any) -> Turn:
        seen = self._columns.tree
        return Turn(seen, self._reward, self._terminated, self._truncated, self._acting, self._mask, final)

    def _take_rewards(self) -> None:
        try:
            self._earned[:] = self._rewards
        except (TypeError, ValueError):
            self._refuse_rewards()
        self._returns += self._earned
        self._reward[:, 0] = self._earned

    def _clear_flags(self) -> None:
        self._terminated.fill(False)
        self._truncated.fill(False)
        self._flagged = False

    def _read_all(self, row: int, info: dict[str, Any]) -> None:
        """What `_read_info` is where numbers are watched."""
        assert self._numbers is not None
        self._numbers.take(row, info)
        self._read_mask(row, info)

    def _read_mask(self, row: int, info: dict[str, Any]) -> None:
        mask = info.get("action_mask")
        if mask is None:
            return
        if self._mask is None:
            raise self._failure(row, "info['action_mask'] came with step() but not with reset(): give it with both")
        try:
            self._mask[row, 0] = flat_mask(mask, self._mask_width)
        except ValueError as error:
            raise self._failure(row, error) from error

    def _write_observations(self) -> None:
        try:
            self._columns.write(self._seen)
        except (TypeError, ValueError, LookupError) as error:
            for row in range(self.num_envs):
                self._put(self._columns, row)
            raise ShoalError(f"{self._name}: observations do not fit their space: {error}") from error

    def _put(self, columns: Columns, row: int) -> None:
        try:
            columns.put(row, self._seen[row])
        except (TypeError, ValueError, LookupError) as error:
            raise self._failure(row, error) from error

    # ------------------------------------------------------------ faults

    def _refuse_rewards(self) -> None:
        for row, reward in enumerate(self._rewards):
            if not isinstance(reward, int | float | np.number):
                raise self._failure(row, f"the reward is {reward}; return one number")

    def _failure(self, row: int, cause: Exception | str) -> ShoalError:
        if isinstance(cause, ShoalError):
            return cause
        text = cause if isinstance(cause, str) else f"{type(cause).__name__}: {cause}"
        return ShoalError(f"{self._name}, copy {self._first_slot + row}: {' '.join(text.split())}")


def _check_alike(envs: list[gymnasium.Env[Any, Any]], name: str) -> None:
    first = envs[0].observation_space, envs[0].action_space
    for env in envs[1:]:
        if (env.observation_space, env.action_space) != first:
            raise InputError(
                f"env.id = '{name}': the spaces of its copies differ; every copy must have those of the first"
            )


def stacked_by(env: gymnasium.Env[Any, Any]) -> int:
    """How many images gymnasium's own wrapper stacks, if all wrappers around it leave observations unchanged.

    First stacks that are filled up with images of the user's own are no such stacks.
    """
    while isinstance(env, TRANSPARENT):
        env = env.env
    if not isinstance(env, FrameStackObservation) or not isinstance(env.observation_space, Box):
        return 0
    return env.stack_size if env.padding_type == "reset" or not np.any(env.padding_value) else 0
