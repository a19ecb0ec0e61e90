"""One Godot game: its process, its connection and its rows of the arrays."""

from __future__ import annotations

import contextlib
import logging
import time
from pathlib import Path
from typing import Any

import numpy as np

from shoal.api.env import Array
from shoal.base.errors import ShoalError
from shoal.envs.game_process import GameError, GameProcess, environment_of, log_path
from shoal.envs.godot.layout import Layout, lay_out
from shoal.envs.godot.link import Link
from shoal.envs.godot.settings import EDITOR_PORT, GodotConfig
from shoal.envs.outside_env import OutsideGame
from shoal.envs.outside_rows import OutsideRows

LOG = logging.getLogger("shoal")
LOOK = 0.05
"""Seconds between two looks at whether the process still lives."""
PATIENCE = 0.5
"""Seconds in which a game that closed its connection may turn out to have ended."""
HANDSHAKE = {"type": "handshake", "major_version": "0", "minor_version": "7"}


class GodotGame(OutsideGame):
    """`file` is the executable; None: the editor is waited for. `join` says which rows are its own."""

    layout: Layout

    def __init__(self, file: Path | None, name: str, config: GodotConfig) -> None:
        super().__init__()
        self.name, self.editor = name, file is None
        self._file, self._config = file, config
        self._link: Link | None = None
        self._process: GameProcess | None = None
        self._deadline, self._starts = 0.0, 0
        self._numbers: dict[str, float] = {}

    def join(self, layout: Layout, arrays: OutsideRows, first: int, used: int) -> None:
        """Rows `first` to `first + used`; areas beyond those are played with default actions, and nobody looks."""
        self.rows, self._arrays = np.arange(first, first + used), arrays
        self._ours: dict[str, tuple[list[int], Array]] = {}
        for name, numbers in layout.members.items():
            count = len(layout.groups[name].agents)
            self._ours[name] = numbers[: used * count], np.arange(used * count) + first * count

    def launch(self, seed: int) -> None:
        config, self._starts = self._config, self._starts + 1
        self._deadline = time.monotonic() + config.start_timeout
        self._link = Link(config.port or (EDITOR_PORT if self._file is None else 0))
        if self._file is None:
            LOG.warning("%s: waiting on port %d: press Play in the editor", self.name, self._link.port)
            return
        command = [str(self._file), f"--port={self._link.port}", f"--env_seed={seed}", *self._options(), *config.args]
        log = log_path(config.log_folder, self._file, self.name, self._starts)
        try:
            self._process = GameProcess(command, self.name, environment_of({}), log, config.log_limit)
        except BaseException:
            self.close()
            raise

    def greet(self) -> None:
        """Shake hands, and hear who its agents are: the same as when it was first started."""
        try:
            info = self._hear_agents()
            layout = lay_out(info, self._config, self.name)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            self.close()
            raise ShoalError(f"{self.name}: what the game says of its agents makes no sense: {error}") from error
        except BaseException:
            self.close()
            raise
        if "layout" in vars(self) and layout.groups != self.layout.groups:
            raise ShoalError(f"{self.name} has other agents than before it was started anew")
        self.layout = layout

    def reset(self, stage: int) -> None:
        self._send({"type": "reset"})

    def absorb(self, timeout: float) -> bool:
        message = self._receive(time.monotonic() + timeout, f"did not answer in {timeout:.3g} s")
        try:
            if message.get("type") == "reset":
                self._begin(message["obs"])
            else:
                self._go_on(message["obs"], message["reward"], message["done"], message.get("info"))
        except (ValueError, TypeError, KeyError, IndexError) as error:
            raise self.failure(f"a message makes no sense: {type(error).__name__}: {error}") from error
        return True

    def reply(self, actions: dict[str, Array] | None) -> None:
        chosen: list[dict[str, Any]] = [{}] * self.layout.agents
        for name, kind in self.layout.kinds.items():
            numbers, at = self._ours[name]
            for number in self.layout.members[name][len(numbers) :]:
                chosen[number] = kind.default
            own = None if actions is None else actions[name].reshape(-1, *actions[name].shape[2:])[at]
            encoded = [kind.default] * len(numbers) if own is None else kind.encode(own)
            for number, action in zip(numbers, encoded, strict=True):
                chosen[number] = action
        self._send({"type": "action", "action": chosen})

    def failure(self, why: str) -> GameError:
        return GameError(f"{self.name}: {why}") if self._process is None else self._process.failure(why)

    def usage(self) -> tuple[int, int]:
        return (0, 0) if self._process is None else self._process.usage()

    def close(self, *, kill: bool = False) -> None:
        if self._link is not None:
            if self._link.connected and not kill:
                self._send({"type": "close"})
            self._link.close()
            self._link = None
        if self._process is not None:
            self._process.close(*([0.0] if kill else []))
            self._process = None

    def numbers(self) -> dict[str, float]:
        numbers, self._numbers = self._numbers, {}
        return numbers

    # ------------------------------------------------------------ messages

    def _begin(self, seen: list[dict[str, Any]]) -> None:
        for name, (numbers, at) in self._ours.items():
            group = self._arrays.groups[name]
            group.see(at, self.layout.kinds[name].read([seen[number] for number in numbers]))
            group.act(at, np.zeros(len(at)))
        self._arrays.mark_births()

    def _go_on(self, seen: list[dict[str, Any]], rewards: list[float], done: list[Any], info: Any) -> None:
        """All agents act all the time: who is done begins anew at once, from what came with its end."""
        earned, ended = np.array(rewards, np.float64), np.array(done).astype(bool)
        if not np.isfinite(earned).all():
            raise ValueError("a reward is not finite")
        for name, (numbers, at) in self._ours.items():
            group, over = self._arrays.groups[name], ended[numbers]
            group.see(at, self.layout.kinds[name].read([seen[number] for number in numbers]))
            if over.any():
                cut = np.full(int(over.sum()), self._config.done == "truncated")
                group.end(at[over], earned[numbers][over], cut)
        self._arrays.mark_ends()
        for name, (numbers, at) in self._ours.items():
            self._arrays.groups[name].act(at, earned[numbers])
        self._arrays.mark_births()
        for number in np.flatnonzero(ended).tolist() if info else ():
            told = {key: value for key, value in info[number].items() if isinstance(value, int | float)}
            self._numbers |= {key: float(value) for key, value in told.items()}

    def _hear_agents(self) -> dict[str, Any]:
        waited = f"did not call within env.kwargs.start_timeout = {self._config.start_timeout:g} s"
        assert self._link is not None, "launch comes first"
        while not self._link.accept(LOOK):
            self._check(self._deadline, waited)
        self._send(HANDSHAKE)
        self._send({"type": "env_info"})
        return self._receive(self._deadline, waited)

    def _send(self, message: dict[str, Any]) -> None:
        """To one who has closed nothing can be said: the next `absorb` tells why."""
        assert self._link is not None, "launch comes first"
        with contextlib.suppress(OSError):
            self._link.send(message)

    def _receive(self, deadline: float, late: str) -> dict[str, Any]:
        assert self._link is not None, "launch comes first"
        try:
            while (message := self._link.take(LOOK)) is None:
                self._check(deadline, late)
        except EOFError:
            if self._process is not None:
                self._process.check(PATIENCE)
            raise self.failure("the game closed the connection") from None
        except ValueError as error:
            raise self.failure(f"the game sent what is no message of Godot RL Agents: {error}") from error
        return message

    def _check(self, deadline: float, late: str) -> None:
        if self._process is not None:
            self._process.check()
        if time.monotonic() > deadline:
            raise self.failure(f"the game {late}")

    def _options(self) -> list[str]:
        config = self._config
        options = [] if config.show_window else ["--disable-render-loop", "--headless"]
        if config.framerate is not None:
            options += ["--fixed-fps", str(config.framerate)]
        if config.action_repeat is not None:
            options.append(f"--action_repeat={config.action_repeat}")
        if config.speedup is not None:
            options.append(f"--speedup={config.speedup:g}")
        return options
