"""One build and its rows of the arrays: messages in, births, decisions and ends out; and from actions back to messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from shoal.api.env import Array
from shoal.base.errors import ShoalError
from shoal.envs.game_process import GameError
from shoal.envs.outside_env import OutsideGame
from shoal.envs.outside_rows import OutsideRows
from shoal.envs.unity.build import Build
from shoal.envs.unity.layout import Layout, Side
from shoal.envs.unity.places import Place, Places
from shoal.envs.unity.side_channels import Statistic, read_statistics, reduced

NOBODY = -1
"""Who decides and has no row: agents of areas that nobody wants."""


class Steady(NamedTuple):
    """The agents of one behaviour as they were in the last message: mostly they are the same in the next."""

    numbers: list[int]
    """The player's own."""
    at: list[int]
    """Row * agents + slot of each."""
    rows: Array
    """The same."""


class BuildRows(OutsideGame):
    """Rows `first` to `first + used`; areas beyond those are played with default actions, and nobody looks."""

    def __init__(self, build: Build, first: int, used: int, layout: Layout, arrays: OutsideRows) -> None:
        super().__init__()
        self._build, self._layout, self._arrays, self._first, self._used = build, layout, arrays, first, used
        self.name, self.rows, self.editor = build.name, np.arange(first, first + used), build.file is None
        self._places = Places(layout)
        self._deciding: dict[str, list[int]] = {}
        self._steady: dict[str, Steady] = {}
        """Behaviours whose last message was of agents that all live and decide."""
        self._statistics: list[Statistic] = []

    def launch(self, seed: int) -> None:
        self._build.launch(seed)

    def greet(self) -> None:
        self._build.greet()

    def reset(self, stage: int) -> None:
        """The player begins anew: it may number its agents as it likes."""
        self._places, self._deciding, self._steady = Places(self._layout), {}, {}
        self._build.reset(stage)

    def absorb(self, timeout: float) -> bool:
        output = self._build.take(timeout)
        try:
            if output.side_channel:
                self._statistics += read_statistics(output.side_channel)
            return self._absorb(output)
        except (ValueError, IndexError) as error:
            raise self._build.failure(str(error)) from error

    def failure(self, why: str) -> GameError:
        return self._build.failure(why)

    def usage(self) -> tuple[int, int]:
        return self._build.usage()

    def close(self, *, kill: bool = False) -> None:
        self._build.close(kill=kill)

    def numbers(self) -> dict[str, float]:
        numbers, self._statistics = reduced(self._statistics), []
        return numbers

    def _absorb(self, output: Any) -> bool:
        messages = [(self._side(name), infos.value) for name, infos in output.agents.items() if len(infos.value)]
        for side, infos in messages:
            if any(info.done for info in infos):
                self._end(side, [info for info in infos if info.done])
        self._arrays.mark_ends()
        self._deciding = {side.behaviour.name: self._decide(side, infos) for side, infos in messages}
        self._arrays.mark_births()
        return any(at != NOBODY for places in self._deciding.values() for at in places)

    def reply(self, actions: dict[str, Array] | None) -> None:
        chosen = {}
        for name, places in self._deciding.items():
            side = self._layout.sides[name]
            codec = side.behaviour.codec
            if actions is None:
                chosen[name] = [codec.default] * len(places)
                continue
            own = actions[side.group].reshape(-1, *actions[side.group].shape[2:])
            if NOBODY not in places:
                chosen[name] = codec.encode(own[places])
                continue
            encoded = iter(codec.encode(own[[at for at in places if at != NOBODY]]))
            chosen[name] = [codec.default if at == NOBODY else next(encoded) for at in places]
        self._build.step(chosen)

    # ------------------------------------------------------------ parts of a message

    def _side(self, name: str) -> Side:
        if name not in self._layout.sides:
            raise ShoalError(
                f"{self.name}: behaviour '{name}' appeared late: name it in env.kwargs.agents, with how many an area has"
            )
        return self._layout.sides[name]

    def _end(self, side: Side, infos: Sequence[Any]) -> None:
        """Who ends without having decided is nobody's."""
        self._steady.pop(side.behaviour.name, None)
        left = [(info, self._places.leave(side.behaviour.name, info.id)) for info in infos]
        known = [(info, self._at(place)) for info, place in left if place is not None and place.area < self._used]
        if not known:
            return
        infos, at = [info for info, _ in known], np.array([at for _, at in known])
        group = self._arrays.groups[side.group]
        group.see(at, [sensor.read(infos) for sensor in side.behaviour.sensors])
        group.end(at, _rewards(infos), np.array([info.max_step_reached for info in infos]))

    def _decide(self, side: Side, infos: Sequence[Any]) -> list[int]:
        """Where each decides, in the order of the message. Who ends later in the same message decides nothing any more."""
        name, numbers = side.behaviour.name, [info.id for info in infos]
        steady = self._steady.get(name)
        if steady is not None and steady.numbers == numbers:  # nobody came, and whoever ends is struck off before
            self._show(side, infos, steady.rows)
            return steady.at
        last = {info.id: info.done for info in infos}
        deciding = [info for info in infos if not info.done]
        for info in sorted(deciding, key=lambda info: info.id):
            if not last[info.id] and self._places.of(name, info.id) is None:
                self._welcome(side, info)
        found = [None if last[info.id] else self._places.of(name, info.id) for info in deciding]
        at = [self._at(place) if place is not None and place.area < self._used else NOBODY for place in found]
        ours = [(info, i) for info, i in zip(deciding, at, strict=True) if i != NOBODY]
        if ours:
            self._show(side, [info for info, _ in ours], np.array([i for _, i in ours]))
        if len(ours) == len(infos):
            self._steady[name] = Steady(numbers, at, np.array(at))
        return at

    def _welcome(self, side: Side, info: Any) -> None:
        name = side.behaviour.name
        if self._places.take(name, info.id, info.group_id) is None:
            stem, count = side.behaviour.stem, side.count
            raise ShoalError(
                f"{self.name}: more than {count * self._layout.areas} agents of '{name}' live at once: set "
                f"env.kwargs.agents.{stem} to what one area has at most (now {count})"
            )

    def _show(self, side: Side, infos: Sequence[Any], at: Array) -> None:
        group, codec = self._arrays.groups[side.group], side.behaviour.codec
        group.see(at, [sensor.read(infos) for sensor in side.behaviour.sensors])
        group.act(at, _rewards(infos))
        if not codec.mask_width:
            return
        for info, i in zip(infos, at.tolist(), strict=True):
            if info.mask and group.mask is not None:
                group.mask.reshape(-1, codec.mask_width)[i] = codec.allowed(np.frombuffer(info.mask, np.uint8))
            elif any(info.mask):
                raise ShoalError(
                    f"{self.name}: '{side.behaviour.name}' masks actions, which the first look did not show: set masks=true in "
                    "env.kwargs"
                )

    def _at(self, place: Place) -> int:
        return (self._first + place.area) * self._arrays.groups[place.group].shape[1] + place.slot


def _rewards(infos: Sequence[Any]) -> Array:
    """Each agent's own, and what its group earned."""
    rewards = np.array([info.reward + info.group_reward for info in infos])
    if not np.isfinite(rewards).all():
        raise ValueError("a reward is not finite")
    return rewards
