"""An Env that steps in a thread of its own: `send` returns at once. For environments that sleep, wait or compute outside Python."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from shoal.api.env import Array, Env, Step
from shoal.envs.wrappers.wrapper import EnvWrapper


class BackgroundEnv(EnvWrapper):
    """Wraps another Env; `done` is called, from the thread, after each step."""

    def __init__(self, env: Env, *, done: Callable[[], None]) -> None:
        super().__init__(env)
        self._done, self._came_back = done, 0.0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="env")
        self._step: Future[Step] | None = None

    @property
    def came_back(self) -> float:  # type: ignore[override]
        """By the thread's account."""
        return self._came_back

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
        self._came_back = time.monotonic()

    def close(self) -> None:
        self._thread.shutdown()
        self._env.close()
