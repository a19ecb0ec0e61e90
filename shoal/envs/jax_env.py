"""Environments written in JAX: all copies move in one compiled call, on the CPU, in the actor's own thread.

A package gives its rules as pure functions of one copy (`JaxRules`); here they are vectorised over copies and compiled. Random keys
follow from the seed, the run-wide number of the copy, its episode and its time, so that a copy plays the same episodes however
copies are split over processes.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from shoal.api.env import AgentGroup, Array, Tree
from shoal.base.seeding import derive_seed
from shoal.base.tree import tree_map
from shoal.envs.native.native_env import ByGroup, NativeEnv, Outcome

FLAGS, POOL = "XLA_FLAGS", "NPROC"
"""Variables that JAX reads when it starts: the second is the size of its pool of threads."""


@cache
def start_jax() -> Any:
    """The module `jax`, on the CPU and without threads that compute: they would fight torch's for the cores.

    Only whoever starts it first can say so; where the process has used JAX before, it stays as it is.
    """
    before = {name: os.environ.get(name) for name in (FLAGS, POOL)}
    flags = before[FLAGS] or ""
    if "xla_cpu_multi_thread_eigen" not in flags:
        os.environ[FLAGS] = f"{flags} --xla_cpu_multi_thread_eigen=false".strip()
    os.environ.setdefault(POOL, "1")
    try:
        import jax

        jax.config.update("jax_platforms", "cpu")
        jax.config.update("jax_cpu_enable_async_dispatch", False)
        jax.jit(abs)(1)  # flags are read by the first that compiles
    finally:
        for name, value in before.items():  # what this process starts has the variables that it had
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
    return jax


class View(NamedTuple):
    """What one copy shows after a move. Arrays of JAX by group, `[agents, ...]`, in dicts."""

    observation: ByGroup
    reward: ByGroup
    terminated: ByGroup
    truncated: ByGroup
    acting: ByGroup
    mask: ByGroup
    """bool `[agents, actions]`, of the groups whose actions are not always all allowed."""
    over: Any
    """bool: the episode ended."""
    state: Any = None
    """The global state, where the game has one."""


class JaxRules(ABC):
    """A game as pure functions of one copy. Actions come by group, `[agents, ...]`."""

    groups: dict[str, AgentGroup]
    shared: bool = False
    """All agents earn one reward."""

    @abstractmethod
    def begin(self, key: Any) -> tuple[Any, View]:
        """A new episode: what the game remembers, and what it shows."""

    @abstractmethod
    def move(self, key: Any, time: Any, memory: Any, actions: ByGroup) -> tuple[Any, View]:
        """The next of both; `time` counts the moves of the episode, from 1."""


@cache
def compiled(rules: JaxRules) -> tuple[Any, Any, Any]:
    """Begin all copies, move all, restart some; compiled once for all environments with these rules."""
    jax = start_jax()
    fold = jax.random.fold_in

    def begin(key: Any) -> Any:
        return rules.begin(fold(key, 0))

    def move(key: Any, time: Any, memory: Any, actions: ByGroup) -> Any:
        return rules.move(fold(key, time), time, memory, actions)

    def restart(keys: Any, which: Any, old: Any) -> Any:
        def choose(fresh: Any, kept: Any) -> Any:
            return jax.numpy.where(which.reshape(-1, *[1] * (kept.ndim - 1)), fresh, kept)

        return jax.tree.map(choose, jax.vmap(begin)(keys), old)

    return jax.jit(jax.vmap(begin)), jax.jit(jax.vmap(move)), jax.jit(restart)


class JaxEnv(NativeEnv):
    """Copies of one game by its rules."""

    def __init__(self, rules: JaxRules, num_envs: int, *, first_slot: int = 0) -> None:
        super().__init__(rules.groups, num_envs, first_slot)
        self._jax = start_jax()
        self.game_return = "mean" if rules.shared else "sum"
        self._keys = np.zeros((num_envs, 2), np.uint32)
        self._memory: Any = None
        self._shown: Any = None
        self._view: Any = None
        self._begin_all, self._move_all, self._restart = compiled(rules)

    # ------------------------------------------------------------ the rules of the game

    def begin(self, rows: Array) -> None:
        for row in rows.tolist():
            seed = derive_seed(self._seed, "episode", self.first_slot + row, int(self._episode[row]))
            self._keys[row] = 0, seed
        if len(rows) == self.num_envs:
            self._take(self._begin_all(self._keys))
            return
        which = np.zeros(self.num_envs, bool)
        which[rows] = True
        self._take(self._restart(self._keys, which, (self._memory, self._shown)))

    def advance(self, actions: ByGroup) -> Outcome:
        time = self.time.astype(np.int32)
        self._take(self._move_all(self._keys, time, self._memory, actions))
        view = self._view
        return Outcome(view.reward, view.terminated, view.truncated, view.over)

    def _take(self, result: Any) -> None:
        """Copies of what is shown, since JAX's own arrays cannot be written to."""
        self._memory, self._shown = result
        self._view = View(*(tree_map(np.array, part) for part in self._shown))

    def observe(self) -> ByGroup:
        return dict(self._view.observation)

    def acting(self) -> ByGroup:
        return dict(self._view.acting)

    def action_masks(self) -> ByGroup:
        return dict(self._view.mask)

    def global_state(self, seen: ByGroup) -> Array | None:
        return self._view.state

    # ------------------------------------------------------------ snapshots

    def snapshot(self) -> Tree:
        """And what the games remember and show."""
        inside = tuple(np.array(leaf) for leaf in self._jax.tree.leaves((self._memory, self._shown)))
        return {**super().snapshot(), "keys": self._keys.copy(), "inside": inside}

    def restore(self, tree: Tree) -> None:
        """Go on from a snapshot of an environment built with the same settings, once it was reset."""
        super().restore(tree)
        self._keys[:] = tree["keys"]
        structure = self._jax.tree.structure((self._memory, self._shown))
        self._take(self._jax.tree.unflatten(structure, [self._jax.numpy.asarray(leaf) for leaf in tree["inside"]]))
