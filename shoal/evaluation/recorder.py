"""Whole episodes, as they happened: watches a Rollout and gives each episode, once it ended, as plain arrays.

Row t of an array is step t: what was seen, what was done there, what came of it. Observations have one row more, the last. Of
each group of agents there is a set of arrays, `[steps, agents, ...]`, named `group/what`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from shoal.api.env import Array, Env, Episode, Step, Turn
from shoal.base.tree import tree_leaves
from shoal.rollout.rollout import Watcher
from shoal.rollout.seat import Seat
from shoal.streams.inference import Answer

NOBODY = -1
"""In `group/policy`: no policy."""


@dataclass(frozen=True)
class Record:
    """One episode. `number`: counted over all copies, as an evaluation counts."""

    number: int
    episode: Episode
    arrays: dict[str, Array]

    def ended(self, how: str) -> bool:
        """Whether the last step ended anybody's episode this way: `terminated` or `truncated`."""
        return any(array[-1].any() for name, array in self.arrays.items() if name.endswith(f"/{how}"))


class Camera(ABC):
    """Is shown every step of every episode that is recorded."""

    @abstractmethod
    def shoot(self, number: int, row: int, step: int, earned: float) -> None:
        """The copy `row` shows episode `number` after so many steps."""

    @abstractmethod
    def cut(self, number: int, row: int, episode: Episode, *, seen: bool) -> None:
        """The episode ended; `seen`: the copy still shows its last step, otherwise already the next episode's first."""


@dataclass
class _Take:
    """The open episode of one copy."""

    number: int
    rows: dict[str, list[Array]] = field(default_factory=lambda: defaultdict(list))
    steps: int = 0
    earned: float = 0.0

    def add(self, name: str, row: Array) -> None:
        self.rows[name].append(np.array(row))

    def record(self, episode: Episode) -> Record:
        arrays = {name: np.stack(rows) for name, rows in self.rows.items() if not name.endswith("/policy")}
        who = {name: rows[0] for name, rows in self.rows.items() if name.endswith("/policy")}
        return Record(self.number, episode, arrays | who)


class Recorder(Watcher):
    """Gives `finished` the first `episodes` of them, counted as an evaluation does: an equal share of each copy.

    scored    policies whose rewards are the return
    camera    who makes images of it; None: nobody
    """

    def __init__(
        self, env: Env, seats: list[Seat], episodes: int, finished: Callable[[Record], object], *,
        scored: list[str], camera: Camera | None = None,
    ) -> None:  # fmt: skip
        self._env, self._episodes, self._finished, self._camera = env, episodes, finished, camera
        self.policies = [seat.policy for seat in seats]
        self._scored = [i for i, policy in enumerate(self.policies) if policy in scored]
        self._begun = np.zeros(env.num_envs, np.int64)
        self._takes: dict[int, _Take] = {}
        self._turns: dict[str, Turn] = {}
        self._players: dict[str, Array] = {}

    # ------------------------------------------------------------ Watcher

    def start(self, step: Step) -> None:
        self._turns = step.turns
        for row in range(self._env.num_envs):
            self._begin(row)

    def act(self, actions: dict[str, Array], answers: dict[Seat, Answer]) -> None:
        self._players = {group: self._who(group, answers) for group in actions}
        thoughts = {group: self._thoughts(group, answers) for group in actions}
        for row, take in self._takes.items():
            for group, turn in self._turns.items():
                acting = turn.acting[row]
                take.add(f"{group}/action", _where(acting, actions[group][row], 0))
                take.add(f"{group}/acting", acting)
                if turn.action_mask is not None:
                    take.add(f"{group}/action_mask", turn.action_mask[row])
                for name, values in thoughts[group].items():
                    take.add(f"{group}/{name}", _where(acting, values[row], np.nan))
                if not take.steps:
                    take.add(f"{group}/policy", self._players[group][row])

    def see(self, step: Step, episodes: list[Episode]) -> None:
        self._turns = step.turns
        for row, take in self._takes.items():
            self._outcome(take, row)
        over = {episode.row: episode for episode in episodes}
        for row, episode in over.items():
            self._end(row, episode)
        for row in set(range(self._env.num_envs)) - over.keys():
            if row in self._takes:
                self._look(self._takes[row], row)
            elif self._acts(row):
                self._begin(row)

    # ------------------------------------------------------------ one copy

    def _begin(self, row: int) -> None:
        number = int(self._begun[row]) * self._env.num_envs + row
        if number >= self._episodes:
            return
        self._begun[row] += 1
        self._takes[row] = _Take(number)
        self._look(self._takes[row], row)

    def _look(self, take: _Take, row: int) -> None:
        for group, turn in self._turns.items():
            for path, leaf in tree_leaves(turn.observation, f"{group}/observation"):
                take.add(path, leaf[row])
        if self._camera is not None:
            self._camera.shoot(take.number, row, take.steps, take.earned)

    def _outcome(self, take: _Take, row: int) -> None:
        take.steps += 1
        for group, turn in self._turns.items():
            take.add(f"{group}/reward", turn.reward[row])
            take.add(f"{group}/terminated", turn.terminated[row])
            take.add(f"{group}/truncated", turn.truncated[row])
            scored = np.isin(self._players[group][row], self._scored)
            take.earned += float(turn.reward[row][scored].sum(dtype=np.float64))

    def _end(self, row: int, episode: Episode) -> None:
        began = self._acts(row)  # same-step autoreset: this step already shows the next episode
        take = self._takes.pop(row, None)
        if take is not None:
            self._look_back(take, row, began=began)
            if self._camera is not None:
                self._camera.cut(take.number, row, episode, seen=not began)
            self._finished(take.record(episode))
        if began:
            self._begin(row)

    def _look_back(self, take: _Take, row: int, *, began: bool) -> None:
        """What everyone saw last. Who ended before the others saw it then."""
        for group, turn in self._turns.items():
            ended = (turn.terminated | turn.truncated)[row]
            final = turn.observation if turn.final_observation is None else turn.final_observation
            for path, leaf in tree_leaves(final, f"{group}/observation"):
                take.add(path, _where(ended, leaf[row], take.rows[path][-1]) if began else leaf[row])

    def _acts(self, row: int) -> bool:
        return any(turn.acting[row].any() for turn in self._turns.values())

    # ------------------------------------------------------------ who played, and what they thought

    def _who(self, group: str, answers: dict[Seat, Answer]) -> Array:
        """Numbers in `policies`, `[num_envs, agents]`."""
        who = np.full((self._env.num_envs, len(self._env.groups[group].agents)), NOBODY)
        for i, seat in enumerate(answers):
            if seat.group == group:
                who[seat.places(*who.shape)] = i
        return who

    def _thoughts(self, group: str, answers: dict[Seat, Answer]) -> dict[str, Array]:
        """What policies stored beside their actions, `[num_envs, agents, ...]`; NaN where a policy does not store it."""
        extras: dict[str, Array] = {}
        copies, agents = self._env.num_envs, len(self._env.groups[group].agents)
        for seat, answer in answers.items():
            for name, values in answer.extras.items() if seat.group == group else ():
                each = _by_agent(seat, values, copies, agents if seat.columns is None else len(seat.columns))
                array = extras.setdefault(name, np.full((copies, agents, *each.shape[2:]), np.nan, np.float32))
                own = np.ones(each.shape[:2], np.bool_) if seat.owned is None else seat.owned.reshape(copies, -1)
                array[seat.places(copies, agents)] = each[own]
        return extras


def _by_agent(seat: Seat, values: Array, copies: int, agents: int) -> Array:
    """What lanes stored, as `[num_envs, agents of the seat, ...]`. What a team says as one holds for each of its agents."""
    if not seat.is_team:
        return values.reshape(copies, agents, *values.shape[1:])
    return np.repeat(values[:, None], agents, axis=1) if values.ndim == 1 else values


def _where(flags: Array, values: Array, otherwise: Array | float) -> Array:
    """`[agents]`, `[agents, ...]` -> `[agents, ...]` of the type of `values`."""
    shaped = flags.reshape(-1, *[1] * (values.ndim - 1))
    return np.where(shaped, values, np.asarray(otherwise).astype(values.dtype))
