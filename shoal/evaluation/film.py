"""A video per episode: `Env.render` after every step, above its number, the return so far, and who plays whom."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from shoal.api.env import Array, Env, Episode
from shoal.base.errors import InputError
from shoal.evaluation.recorder import Camera
from shoal.evaluation.video import Video
from shoal.rollout.seat import Seat

HOLD = 1.0
"""Seconds for which the last image stays, with the return of the episode."""


class Film(Camera):
    """Writes to the path that `path_of` gives for an episode's number. `scored`: policies whose rewards are the return."""

    def __init__(self, env: Env, seats: list[Seat], path_of: Callable[[int], Path], *, scored: list[str]) -> None:
        self._env, self._seats, self._path_of, self._scored = env, seats, path_of, scored
        self._videos: dict[int, Video] = {}
        self._players: dict[int, str] = {}
        self._last: dict[int, Array] = {}

    @property
    def hold(self) -> int:
        """Images behind those of the steps."""
        return max(1, round(HOLD * self._env.render_fps))

    def shoot(self, number: int, row: int, step: int, earned: float) -> None:
        self._last[number] = self._image(row)
        if number not in self._videos:
            self._videos[number] = Video(self._path_of(number), fps=self._env.render_fps)
            self._players[number] = players(self._env, self._seats, row)
        self._videos[number].add(self._last[number], caption(number, step, earned) + self._players[number])

    def cut(self, number: int, row: int, episode: Episode, *, seen: bool) -> None:
        last = self._last.pop(number)
        if seen:
            last = self._image(row)
        earned = sum(float(episode.played[policy].sum()) for policy in self._scored)
        video = self._videos.pop(number)
        who = self._players.pop(number)
        for _ in range(self.hold):
            video.add(last, caption(number, episode.length, earned) + who)
        video.close()

    def close(self) -> None:
        """Leave nothing of what has not ended."""
        for video in self._videos.values():
            video.discard()
        self._videos.clear()

    def _image(self, row: int) -> Array:
        image = self._env.render(row)
        if image is None:
            raise InputError(
                "--video: this environment draws no images: remove --video, let its Env have a `render` (or its environment a "
                "render mode rgb_array), or try env.vector=loop if its batch cannot draw and its single copies can"
            )
        return image


def caption(number: int, step: int, earned: float) -> str:
    """What stands below an image."""
    return f"episode {number}   step {step}   return {earned:.2f}"


def players(env: Env, seats: list[Seat], row: int) -> str:
    """A line with the agents of each policy in one copy, as they are dealt now; none where one policy plays all."""
    if len(seats) < 2:
        return ""
    cast = []
    for seat in seats:
        agents = env.groups[seat.group].agents
        own = range(len(agents)) if seat.columns is None else seat.columns
        if seat.owned is not None:
            own = [int(column) for column in seat.owned.reshape(env.num_envs, -1)[row].nonzero()[0]]
        cast.append(f"{' '.join(agents[column] for column in own)}: {seat.policy}")
    return "\n" + "   ".join(sorted(cast))
