"""One player: its process, its connection and the order of their talk. Commands in, what its agents see out.

Legal order: `launch`, `greet`, then `reset` or `step` and `take` in turn, then `close`; `launch` again after `close`.
"""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError

from shoal.base.errors import ShoalError
from shoal.envs.game_process import GameError, GameProcess, environment_of, log_path
from shoal.envs.unity.display import Display
from shoal.envs.unity.protocol import OK, QUIT, RESET, STEP, VERSION, Message
from shoal.envs.unity.server import ExchangeServer
from shoal.envs.unity.settings import EDITOR_PORT, UnityConfig
from shoal.envs.unity.side_channels import engine_messages, parameter_messages

LOG = logging.getLogger("shoal")
CAN = ("base", "many_pngs", "mapping", "hybrid", "variable", "groups")
"""Capabilities of this client; analytics are not among them."""
LOOK = 0.05
"""Seconds between two looks at whether the process still lives."""


class Build:
    """`file` is the executable; None: the editor is waited for. `name` is what errors call it."""

    def __init__(self, file: Path | None, name: str, config: UnityConfig) -> None:
        self.file, self.name, self._config = file, name, config
        self.behaviours: dict[str, Any] = {}
        """What the player said of each: name -> its BehaviourInfo."""
        self._server: ExchangeServer | None = None
        self._process: GameProcess | None = None
        self._display: Display | None = None
        self._starts = self._seed = 0
        self._deadline = 0.0

    def launch(self, seed: int) -> None:
        """Start the process: many may start side by side."""
        self._seed, self._deadline = seed, time.monotonic() + self._config.start_timeout
        self._server = ExchangeServer(self._config.port or (EDITOR_PORT if self.file is None else 0))
        try:
            if self.file is None:
                LOG.warning("%s: waiting on port %d: press Play in the editor", self.name, self._server.port)
            else:
                self._launch(self.file, self._server.port)
        except BaseException:
            self.close()
            raise

    def greet(self) -> None:
        """Wait for its first call: afterwards the player waits for its first command."""
        try:
            self._greet()
        except BaseException:
            self.close()
            raise

    def reset(self, stage: int) -> None:
        """New episodes everywhere, with the parameters of a stage."""
        config = self._config
        size = None if config.width is None or config.height is None else (config.width, config.height)
        engine = engine_messages(config.time_scale, config.capture_frame_rate, size, config.quality_level)
        message = _command(RESET)
        message.input.rl_input.side_channel = engine + parameter_messages(config.parameters_in(stage))
        self._reply(message)

    def step(self, actions: dict[str, list[Any]]) -> None:
        """Go on with these actions: behaviour -> those of its deciding agents, in the order of their messages."""
        message = _command(STEP)
        for behaviour, chosen in actions.items():
            message.input.rl_input.actions[behaviour].value.extend(chosen)
        self._reply(message)

    def take(self, timeout: float) -> Any:
        """What came of it: an RLOutput. GameError: it crashed, hung, or cannot be understood."""
        message = self._receive(time.monotonic() + timeout, f"did not answer in {timeout:.3g} s")
        for behaviour in message.output.initialisation.behaviours:
            self.behaviours[behaviour.name] = behaviour
        return message.output.rl_output

    def failure(self, why: str) -> GameError:
        """With the end of the player's log, where there is one."""
        return GameError(f"{self.name}: {why}") if self._process is None else self._process.failure(why)

    def usage(self) -> tuple[int, int]:
        """Threads and bytes of memory; of the editor nothing is known."""
        return (0, 0) if self._process is None else self._process.usage()

    def close(self, *, kill: bool = False) -> None:
        """Tell the player to quit, and see to it; `kill`: without telling it."""
        if self._server is not None:
            self._server.close(b"" if kill else _command(QUIT).SerializeToString())
            self._server = None
        if self._process is not None:
            self._process.close(*([0.0] if kill else []))
            self._process = None
        if self._display is not None:
            self._display.close()
            self._display = None

    # ------------------------------------------------------------ starting

    def _launch(self, file: Path, port: int) -> None:
        config, self._starts = self._config, self._starts + 1
        self._display = Display(config.display)
        drawing = ["-nographics", "-batchmode"] if config.no_graphics else []
        command = [str(file), *drawing, "-logFile", "-", "--mlagents-port", str(port), *config.args]
        log = log_path(config.log_folder, file, self.name, self._starts)
        variables = environment_of(self._display.variables)
        self._process = GameProcess(command, self.name, variables, log, config.log_limit)

    def _greet(self) -> None:
        waited = f"did not call within env.kwargs.start_timeout = {self._config.start_timeout:g} s"
        said = self._receive(self._deadline, waited).output.initialisation
        if said.version.partition(".")[0] != VERSION.partition(".")[0]:
            raise ShoalError(
                f"{self.name} speaks version {said.version or 'unknown'} of the protocol and Shoal {VERSION}: build it with "
                "another release of the ML-Agents package (com.unity.ml-agents 1.8 to 4)"
            )
        message = Message()
        message.header.status = OK
        hello = message.input.initialisation
        hello.seed, hello.version, hello.package = self._seed, VERSION, VERSION
        hello.num_areas = self._config.num_areas
        for name in CAN:
            setattr(hello.can, name, True)
        self._reply(message)
        self._receive(self._deadline, waited)  # an empty call, which the first command answers

    # ------------------------------------------------------------ talking

    def _reply(self, message: Any) -> None:
        assert self._server is not None, "launch comes first"
        self._server.reply(message.SerializeToString())

    def _receive(self, deadline: float, late: str) -> Any:
        assert self._server is not None, "launch comes first"
        while (data := self._server.take(LOOK)) is None:
            if self._process is not None:
                self._process.check()
            if time.monotonic() > deadline:
                raise self.failure(f"the player {late}")
        try:
            message = Message.FromString(data)
        except DecodeError as error:
            raise self.failure("the player sent what is no message of ML-Agents") from error
        if message.header.status != OK:
            raise self.failure(f"the player closed the connection (status {message.header.status})")
        return message


def _command(command: int) -> Any:
    message = Message()
    message.header.status = OK
    message.input.rl_input.command = command
    return message
