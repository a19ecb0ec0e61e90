"""Games outside as an Env: every copy is an area of a game, games step side by side.

A game that crashes, hangs, leaks or is old enough is started anew; the episodes that were open in it are cut off (truncated).
"""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod

import numpy as np

from shoal.api.env import AgentGroup, Array, Env, Footprint, Step
from shoal.base.closing import close_all
from shoal.base.seeding import derive_seed
from shoal.envs.game_process import GameError
from shoal.envs.outside_rows import OutsideRows
from shoal.envs.outside_settings import OutsideConfig

LOG = logging.getLogger("shoal")
CALM = 10_000
"""Good steps after which earlier failures of a game are forgotten."""
MEASURED = 64
"""Steps between two looks at the memory of a game."""
SHARE = 0.8
"""Of `env.timeout`: a game that hangs is seen to here, before the worker around it is taken for hung."""


class OutsideGame(ABC):
    """One game and its rows of the arrays. Legal order: `launch`, `greet`, `reset`, then `absorb` and `reply` in turn."""

    name: str
    rows: Array
    """The copies that it holds."""
    editor: bool = False
    """Somebody else starts and ends it."""

    def __init__(self) -> None:
        self.steps = self.failures = 0

    @abstractmethod
    def launch(self, seed: int) -> None:
        """Start the process; many may start side by side."""

    @abstractmethod
    def greet(self) -> None:
        """Wait until it is ready for a reset."""

    @abstractmethod
    def reset(self, stage: int) -> None:
        """Tell it to begin new episodes everywhere."""

    @abstractmethod
    def absorb(self, timeout: float) -> bool:
        """Take in its next message; whether somebody of its rows decides. GameError: it crashed, hung, or makes no sense."""

    @abstractmethod
    def reply(self, actions: dict[str, Array] | None) -> None:
        """Group -> `[rows, agents, ...]` of all rows; None: default actions, where nobody of its rows decides."""

    @abstractmethod
    def failure(self, why: str) -> GameError:
        """With the end of its log."""

    @abstractmethod
    def usage(self) -> tuple[int, int]:
        """Threads and bytes of memory."""

    @abstractmethod
    def close(self, *, kill: bool = False) -> None:
        """Tell it to quit, and see to it; `kill`: without telling it."""

    def numbers(self) -> dict[str, float]:
        """What it reported since the last call."""
        return {}


class OutsideEnv(Env):
    """Subclasses start their games and call `_open`."""

    def __init__(self, config: OutsideConfig, num_envs: int, first_slot: int) -> None:
        self._config, self.num_envs, self._first_slot = config, num_envs, first_slot
        self.repeats = config.reseed
        self._seed, self._stage, self._restarts = config.seed, 0, 0

    def _open(self, groups: dict[str, AgentGroup], areas: int, rows: OutsideRows, games: list[OutsideGame]) -> None:
        self.groups, self._areas, self._rows, self._games = groups, areas, rows, games

    def reset(self, seed: int) -> Step:
        """Episodes of all copies begin; with `reseed`, in games that begin anew too."""
        self._rows.open()
        if self._config.reseed:
            self._seed = seed
            for game in self._games:
                game.close()
                game.launch(self._seed_of(game, 0))
            for game in self._games:
                game.greet()
        for game in self._games:
            game.reset(self._stage)
        for game in self._games:
            self._await_turn(game, self._config.start_timeout)
        return self._rows.answer({}, first=True)

    def send(self, actions: dict[str, Array]) -> None:
        """To all games at once."""
        for game in self._games:
            game.reply(actions)

    def recv(self, timeout: float) -> Step:
        """Wait for every game until one of its agents acts."""
        self._rows.clear()
        for game in self._games:
            try:
                self._await_turn(game, SHARE * timeout)
            except GameError as failure:
                self._restart(game, failure)
                continue
            game.steps += 1
            if game.steps % CALM == 0:
                game.failures = 0
            if (why := self._due(game)) and not self._just_began(game):
                LOG.info("%s: started anew: %s", game.name, why)
                self._restart(game, None)
        return self._rows.answer(self._metrics())

    def set_stage(self, number: int) -> bool:
        """What a game is told of it, it is told with the next reset."""
        self._stage = number
        return False

    def footprint(self) -> Footprint:
        """As the games are now."""
        used = [game.usage() for game in self._games]
        return Footprint(len(used), self._areas, sum(threads for threads, _ in used), sum(size for _, size in used))

    def close(self) -> None:
        """Let all games quit."""
        close_all(self._games)

    # ------------------------------------------------------------ games

    def _await_turn(self, game: OutsideGame, limit: float) -> None:
        """Take in its messages until somebody of its rows decides. Not every message asks for a decision."""
        if self.between is not None:
            self.between()
        deadline = time.monotonic() + limit
        while not game.absorb(max(0.1, deadline - time.monotonic())):
            if time.monotonic() > deadline:
                raise game.failure(f"nobody had to decide for {limit:.3g} s")
            game.reply(None)

    def _due(self, game: OutsideGame) -> str | None:
        """Why a game should be started anew."""
        rules = self._config.restart
        if game.editor:
            return None
        if rules.steps is not None and game.steps >= rules.steps:
            return f"{game.steps:,} steps"
        if rules.memory is None or game.steps % MEASURED:
            return None
        memory = game.usage()[1]
        return f"{memory / 1e6:,.0f} MB of memory" if memory > rules.memory else None

    def _just_began(self, game: OutsideGame) -> bool:
        """Somebody ended and began in this very step: one step has room for one end of an agent."""
        parts = self._rows.groups.values()
        return any((g.lives & (g.terminated | g.truncated))[game.rows].any() for g in parts)

    def _restart(self, game: OutsideGame, failure: GameError | None) -> None:
        for group in self._rows.groups.values():
            group.cut(game.rows)
        self._rows.mark_ends()
        while True:
            if failure is not None:
                game.failures += 1
                if game.editor or game.failures > self._config.restart.failures:
                    raise failure
                LOG.warning("%s; started anew (failure %d)", failure, game.failures)
            try:
                self._start_again(game, kill=failure is not None)
                return
            except GameError as another:
                failure = another

    def _start_again(self, game: OutsideGame, *, kill: bool) -> None:
        self._restarts += 1
        game.close(kill=kill)
        if self.between is not None:
            self.between()
        game.launch(self._seed_of(game, self._restarts))
        game.greet()
        game.steps = 0
        game.reset(self._stage)
        self._await_turn(game, self._config.start_timeout)

    def _seed_of(self, game: OutsideGame, start: int) -> int:
        return player_seed(self._seed, self._first_slot + int(game.rows[0]), start)

    def _metrics(self) -> dict[int, dict[str, float]]:
        """Row -> what its game reported since its last episode."""
        metrics: dict[int, dict[str, float]] = {}
        over = np.flatnonzero(self._rows.over)
        for game in self._games if over.size else ():
            if np.isin(game.rows, over).any() and (numbers := game.numbers()):
                metrics |= {row: dict(numbers) for row in game.rows.tolist()}
        if self._restarts:
            for row in over.tolist():
                metrics.setdefault(row, {})["restarts"] = float(self._restarts)
        return metrics


def player_seed(seed: int, slot: int, start: int) -> int:
    """Of a game that holds the copies from `slot` on, and is started for that time. Games take 31 bits."""
    return derive_seed(seed, "player", slot, start) & 0x7FFFFFFF
