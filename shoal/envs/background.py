"""An Env that steps in a thread of its own: `send` returns at once. For environments that sleep, wait or compute outside Python."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from shoal.api.env import Array, Env, Step
from shoal.base.tree import Tree


class BackgroundEnv(Env):
    """Wraps another Env; `done` is called, from the thread, after each step."""

    def __init__(self, env: Env, *, done: Callable[[], None]) -> None:
        self._env, self._done = env, done
        self.groups, self.num_envs = env.groups, env.num_envs
        self.game_return, self.render_fps = env.game_return, env.render_fps
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="env")
        self._step: Future[Step] | None = None

    def reset(self, seed: int) -> Step:
        self._env.wants_state, self._env.between = self.wants_state, self.between
        self._env.waits_for_all = self.waits_for_all
        return self._env.reset(seed)

    def send(self, actions: dict[str, Array]) -> None:
        self._env.between = self._note
        self._step = self._thread.submit(self._env.step, actions)
        self._step.add_done_callback(lambda _: self._done())

    def ready(self) -> bool:
        return self._step is not None and self._step.done()

    def recv(self, timeout: float) -> Step:
        assert self._step is not None, "send comes first"
        step, self._step = self._step, None
        return step.result(timeout)

    def _note(self) -> None:
        """In the thread."""
        self.came_back = time.monotonic()

    def render(self, row: int) -> Array | None:
        return self._env.render(row)

    def set_stage(self, number: int) -> bool:
        return self._env.set_stage(number)

    def snapshot(self) -> Tree | None:
        return self._env.snapshot()

    def restore(self, tree: Tree) -> None:
        self._env.restore(tree)

    def close(self) -> None:
        self._thread.shutdown()
        self._env.close()
