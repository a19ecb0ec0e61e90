"""Who else is told of a run while it goes on: Weights & Biases, and the commands of `log.notify`. None of them holds it up."""

from __future__ import annotations

import contextlib
from types import TracebackType
from typing import Any, Self

from shoal.api.experiment import LogConfig
from shoal.base.errors import ShoalError, one_line
from shoal.monitoring.notify import Notifier
from shoal.monitoring.run_folder import RunFolder
from shoal.monitoring.wandb_sink import Tell, WandbSink, wandb_mode

END = 30.0
"""Seconds that the end of a run waits for them."""
HURRIED = 2.0
"""The same, where somebody asked twice for the end."""


class Watchers:
    """Those that the settings ask for. Nobody is started before `begin`; who is left when the run fails is told so.

    `name`: what is watched, where that is no run.
    """

    def __init__(self, folder: RunFolder, config: LogConfig, name: str | None = None) -> None:
        self._folder, self._config, self._name = folder, config, name
        self._wandb: WandbSink | None = None
        self._notifier: Notifier | None = None
        self._step, self._update = 0, 0

    def begin(self, tell: Tell, stop: Tell) -> list[Any]:
        """Start them; what can be waited for. The rows of an earlier start are as they stay."""
        if self._config.wandb is not None and (mode := wandb_mode(self._config.wandb)) is not None:
            self._wandb = WandbSink(self._folder, self._config.wandb, mode, tell, stop)
        if self._config.notify:
            self._notifier = Notifier(self._folder, self._config.notify, self._config.notify_after, self._name)
        return [each.companion for each in (self._wandb, self._notifier) if each is not None]

    def look(self, step: int, update: int, state: str) -> None:
        """Where the run stands; and what they say."""
        self._step, self._update = step, update
        if self._wandb is not None:
            self._wandb.poll()
        if self._notifier is not None:
            self._notifier.progress(step, update, state)
            self._notifier.poll()

    def end(self, reason: str, step: int, update: int, *, failed: bool = False, seconds: float = END) -> None:
        """The run is over: what is under way has some seconds to end."""
        wandb, notifier, self._wandb, self._notifier = self._wandb, self._notifier, None, None
        if wandb is not None:
            wandb.end(int(failed))
        if notifier is not None:
            notifier.end("error" if failed else "end", reason, step, update)
        with contextlib.ExitStack() as stack:
            for each in (notifier, wandb):
                if each is not None:
                    stack.callback(each.companion.close)
            if wandb is not None:
                wandb.wait(seconds)
                wandb.say_missing()
            if notifier is not None:
                notifier.wait(seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: TracebackType | None) -> None:
        """Where another writes the folder now, or the disk is full, that has been said."""
        if error is not None:
            reason = str(error) if isinstance(error, ShoalError) else one_line(error)
            with contextlib.suppress(ShoalError, OSError):
                seconds = HURRIED if isinstance(error, KeyboardInterrupt) else END
                self.end(reason, self._step, self._update, failed=True, seconds=seconds)
