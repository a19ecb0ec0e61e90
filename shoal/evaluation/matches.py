"""Evaluation against named opponents: one after the other is met in as many games, on every side equally often.

Game number g is played on side g modulo their number; of an opponent that stands for several players (`past`) they take turns, and
so do the openings: both change when all sides were played. So every opening is played from every side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from shoal.api.env import Env, Episode
from shoal.api.evaluation import SELF, Match, Scores
from shoal.evaluation.episodes import EpisodeBatch, scores_of
from shoal.evaluation.evaluator import Evaluator
from shoal.evaluation.sides import Place, Side
from shoal.rollout.deal import Deal
from shoal.rollout.openings import Openings
from shoal.rollout.rollout import Watcher


class Schedule:
    """Which game is played by whom. `players`: for each, policy of the run -> the name of the seat in its place. `own`: the same
    for the side that is evaluated; left out, its seats are called as the policies are."""

    def __init__(self, sides: list[Side], players: list[dict[str, str]], own: dict[str, str] | None = None) -> None:
        self._sides, self._players, self._own = sides, players, own or {}

    def side(self, game: int) -> Side:
        """That is played."""
        return self._sides[game % len(self._sides)]

    def seats(self, game: int) -> dict[str, Sequence[str]]:
        """Group -> the seat of each agent."""
        against = self._players[game // len(self._sides) % len(self._players)]

        def seat(place: Place) -> str:
            return self._own.get(place.policy, place.policy) if place.own else against[place.policy]

        return {group: [seat(place) for place in places] for group, places in self.side(game).items()}

    def dealing(self, env: Env) -> Callable[[int], Deal]:
        """The same for the copies of an Env, as an Evaluator has it."""

        def order(slot: int, episode: int) -> dict[str, Sequence[str]]:
            return self.seats(episode * env.num_envs + slot)

        return lambda seed: Deal(order, env.num_envs, first_slot=0)

    def opening(self, env: Env, plies: int) -> Callable[[int], Openings | None]:
        """The openings of those games."""

        def number(row: int, episode: int) -> int:
            return (episode * env.num_envs + row) // len(self._sides)

        return lambda seed: Openings(env, plies, number, seed=seed) if plies else None


@dataclass(frozen=True)
class Meeting:
    """An opponent, and all that is needed to play against it."""

    opponent: str
    schedule: Schedule
    evaluator: Evaluator

    def match(self, game: int, episode: Episode) -> Match:
        """A game that was played."""
        side, seats, groups = self.schedule.side(game), self.schedule.seats(game), self.evaluator.env.groups
        agents = {group: groups[group].agents for group in side}
        return Match(
            self.opponent,
            {agent: seat for group in side for agent, seat in zip(agents[group], seats[group], strict=True)},
            {agent: float(value) for g in side for agent, value in zip(agents[g], episode.returns[g], strict=True)},
            [agent for g in side for agent, place in zip(agents[g], side[g], strict=True) if place.own],
        )  # fmt: skip


@dataclass
class Matches:
    """Evaluates as an Evaluator does, against one opponent after the other."""

    env: Env
    meetings: list[Meeting]

    @property
    def first(self) -> Evaluator:
        """For one episode to look at: against the first opponent."""
        return self.meetings[0].evaluator

    def evaluate(
        self, episodes: int, *, seed: int, watcher: Watcher | None = None, tell: Callable[[str], None] | None = None
    ) -> Scores:
        """`episodes` against each opponent. `tell` hears how far it is, a word per step."""
        batch, steps = self.begin(episodes, seed=seed, watcher=watcher), 0
        while not batch.over:
            batch.step()
            steps += 1
            if tell is not None:
                tell(f"evaluating: {episodes} games against each of {len(self.meetings)} opponents, {steps:,} steps")
        return batch.scores()

    def begin(
        self, episodes: int, *, seed: int, seconds: float | None = None, timeout: float = 60.0,
        watcher: Watcher | None = None,
    ) -> MatchBatch:  # fmt: skip
        """The same, a step at a time. `seconds` are shared out among the opponents."""
        share = None if seconds is None else seconds / len(self.meetings)
        batches = (
            meeting.evaluator.begin(episodes, seed=seed, seconds=share, timeout=timeout, watcher=watcher)
            for meeting in self.meetings
        )  # fmt: skip
        return MatchBatch(self.env, self.meetings, batches)

    def close(self) -> None:
        """Free the environments."""
        self.env.close()


class MatchBatch:
    """Whole games against all opponents, one step of all copies at a time."""

    def __init__(self, env: Env, meetings: list[Meeting], batches: Iterable[EpisodeBatch]) -> None:
        self._env, self._meetings = env, meetings
        self._batches = iter(batches)  # made in their turn: each resets the Env
        self._done: list[EpisodeBatch] = []
        self._open = next(self._batches)

    @property
    def over(self) -> bool:
        """All were met."""
        return len(self._done) == len(self._meetings)

    def step(self) -> None:
        """Go on by a step of every copy."""
        self._open.step()
        if self._open.over:
            self._done.append(self._open)
            self._open = next(self._batches, self._open)

    def scores(self) -> Scores:
        """What came of it, once it is over."""
        played = [(meeting, batch.counted()) for meeting, batch in zip(self._meetings, self._done, strict=True)]
        counting = [pair for pair in played if pair[0].opponent != SELF] or played
        episodes = [episode for _, games in counting for episode in games.values()]
        scored = {name for meeting in self._meetings for name in meeting.evaluator.scored}
        matches = [meeting.match(game, episode) for meeting, games in played for game, episode in games.items()]
        repeated = any(batch.repeated for batch in self._done)
        return replace(scores_of(self._env, episodes, scored), matches=matches, repeated=repeated)
