"""Unity builds as an Env: every copy is an area of a build, builds step side by side.

A build that crashes, hangs, leaks or is old enough is started anew; the episodes that were open in it are cut off (truncated).
"""

from __future__ import annotations

import logging
import math
import time

import numpy as np

from shoal.api.env import Array, Env, Footprint, Step
from shoal.base.closing import close_all
from shoal.base.errors import InputError
from shoal.base.seeding import derive_seed
from shoal.envs.game_process import GameError, find_game_file
from shoal.envs.outside_rows import OutsideRows
from shoal.envs.unity.build import Build
from shoal.envs.unity.build_rows import BuildRows
from shoal.envs.unity.first_look import look_at
from shoal.envs.unity.layout import lay_out
from shoal.envs.unity.settings import UnityConfig
from shoal.envs.unity.side_channels import reduced

LOG = logging.getLogger("shoal")
EDITOR = "editor"
CALM = 10_000
"""Good steps after which earlier failures of a build are forgotten."""
MEASURED = 64
"""Steps between two looks at the memory of a build."""
SHARE = 0.8
"""Of `env.timeout`: a build that hangs is seen to here, before the worker around it is taken for hung."""


class UnityEnv(Env):
    """`target` is the path of an executable, or `editor`."""

    def __init__(self, env_id: str, target: str, config: UnityConfig, num_envs: int, *, first_slot: int = 0) -> None:
        self._id, self._config, self._first_slot = env_id, config, first_slot
        self._file = None if target == EDITOR else find_game_file(env_id, target, (".x86_64", ".x86"))
        self.num_envs, self.repeats = num_envs, config.reseed
        self._seed, self._stage, self._restarts = config.seed, 0, 0
        self._builds: list[BuildRows] = []
        started: list[Build] = []
        try:
            first = self._start(1, started)[0]
            layout = lay_out(look_at(first, config), config, env_id)
            count = math.ceil(num_envs / layout.areas)
            if self._file is None and count > 1:
                raise InputError(f"env.num_envs = {num_envs}: the editor holds {layout.areas}: set it to that or less")
            builds = [first, *self._start(count - 1, started)]
        except BaseException:
            close_all(started)
            raise
        self.groups, self._areas = layout.groups, layout.areas
        self.game_return = "mean" if layout.shared_reward else "sum"
        widths = {s.group: s.behaviour.codec.mask_width for s in layout.sides.values() if layout.masked[s.group]}
        self._rows = OutsideRows(self.groups, num_envs, widths)
        for i, build in enumerate(builds):
            row = i * layout.areas
            self._builds.append(BuildRows(build, layout, self._rows, row, min(layout.areas, num_envs - row)))

    def reset(self, seed: int) -> Step:
        """Episodes of all copies begin; with `reseed`, in players that begin anew too."""
        self._rows.open()
        if self._config.reseed:
            self._seed = seed
            for each in self._builds:
                each.build.close()
                each.build.launch(self._seed_of(each, 0))
            for each in self._builds:
                each.build.greet()
        for each in self._builds:
            each.begin()
            each.build.reset(self._config.parameters_in(self._stage))
        for each in self._builds:
            self._await_turn(each, self._config.start_timeout)
        return self._rows.answer({}, first=True)

    def send(self, actions: dict[str, Array]) -> None:
        """To all builds at once."""
        for each in self._builds:
            each.reply(actions)

    def recv(self, timeout: float) -> Step:
        """Wait for every build until one of its agents acts."""
        self._rows.clear()
        for each in self._builds:
            try:
                self._await_turn(each, SHARE * timeout)
            except GameError as failure:
                self._restart(each, failure)
                continue
            each.steps += 1
            if each.steps % CALM == 0:
                each.failures = 0
            if (why := self._due(each)) and not self._just_began(each):
                LOG.info("%s: started anew: %s", each.build.name, why)
                self._restart(each, None)
        return self._rows.answer(self._metrics())

    def set_stage(self, number: int) -> bool:
        """Parameters with a value for each stage change with the next reset."""
        self._stage = number
        return self._config.staged

    def footprint(self) -> Footprint:
        """As the builds are now."""
        used = [each.build.usage() for each in self._builds]
        return Footprint(len(used), self._areas, sum(threads for threads, _ in used), sum(size for _, size in used))

    def close(self) -> None:
        """Let all players quit."""
        close_all(each.build for each in self._builds)

    # ------------------------------------------------------------ builds

    def _start(self, count: int, started: list[Build]) -> list[Build]:
        """Further builds, side by side; whoever is started is told at once."""
        builds = []
        for _ in range(count):
            number = len(started)
            name = self._id if self._file is None else f"{self._id}, build {self._first_slot + number}"
            build = Build(self._file, name, self._config)
            builds.append(build)
            build.launch(derive_seed(self._config.seed, "player", self._first_slot + number) & 0x7FFFFFFF)
            started.append(build)
        for build in builds:
            build.greet()
        return builds

    def _await_turn(self, each: BuildRows, limit: float) -> None:
        """Take in its messages until somebody of its rows decides. Not every message asks for a decision."""
        if self.between is not None:
            self.between()
        deadline = time.monotonic() + limit
        while not each.absorb(each.build.take(max(0.1, deadline - time.monotonic()))):
            if time.monotonic() > deadline:
                raise each.build.failure(f"nobody had to decide for {limit:.3g} s")
            each.reply(None)

    def _due(self, each: BuildRows) -> str | None:
        """Why a build should be started anew."""
        rules = self._config.restart
        if self._file is None:
            return None
        if rules.steps is not None and each.steps >= rules.steps:
            return f"{each.steps:,} steps"
        if rules.memory is None or each.steps % MEASURED:
            return None
        memory = each.build.usage()[1]
        return f"{memory / 1e6:,.0f} MB of memory" if memory > rules.memory else None

    def _just_began(self, each: BuildRows) -> bool:
        """Somebody ended and began in this very step: one step has room for one end of an agent."""
        parts = self._rows.groups.values()
        return any((g.lives & (g.terminated | g.truncated))[each.rows].any() for g in parts)

    def _restart(self, each: BuildRows, failure: GameError | None) -> None:
        for group in self._rows.groups.values():
            group.cut(each.rows)
        self._rows.mark_ends()
        while True:
            if failure is not None:
                each.failures += 1
                if self._file is None or each.failures > self._config.restart.failures:
                    raise failure
                LOG.warning("%s; started anew (failure %d)", failure, each.failures)
            try:
                self._start_again(each, kill=failure is not None)
                return
            except GameError as another:
                failure = another

    def _start_again(self, each: BuildRows, *, kill: bool) -> None:
        self._restarts += 1
        each.build.close(kill=kill)
        if self.between is not None:
            self.between()
        each.build.launch(self._seed_of(each, self._restarts))
        each.build.greet()
        each.steps = 0
        each.begin()
        each.build.reset(self._config.parameters_in(self._stage))
        self._await_turn(each, self._config.start_timeout)

    def _seed_of(self, each: BuildRows, start: int) -> int:
        return derive_seed(self._seed, "player", self._first_slot + int(each.rows[0]), start) & 0x7FFFFFFF

    def _metrics(self) -> dict[int, dict[str, float]]:
        """Row -> what its game reported since its last episode."""
        metrics: dict[int, dict[str, float]] = {}
        over = np.flatnonzero(self._rows.over)
        for each in self._builds:
            if each.statistics and np.isin(each.rows, over).any():
                numbers = reduced(each.statistics)
                metrics |= {row: dict(numbers) for row in each.rows.tolist()}
                each.statistics = []
        if self._restarts:
            for row in over.tolist():
                metrics.setdefault(row, {})["restarts"] = float(self._restarts)
        return metrics


def make(env_id: str, target: str, kwargs: dict[str, object], num_envs: int, first_slot: int) -> Env:
    """What the factory calls."""
    config = UnityConfig.parse(kwargs, at="env.kwargs")
    return UnityEnv(env_id, target, config, num_envs, first_slot=first_slot)
