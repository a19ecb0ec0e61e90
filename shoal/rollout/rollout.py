"""One Env and the seats around it, advanced without ever waiting: what waits, and for what, is told to whoever runs it."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from shoal.api.env import Array, Env, Episode, Step
from shoal.api.metric import Metric, merge_into
from shoal.base.errors import ShoalError
from shoal.base.seeding import derive_seed
from shoal.base.tree import Tree
from shoal.rollout.deal import Deal
from shoal.rollout.global_state import GlobalStateView
from shoal.rollout.openings import Openings
from shoal.rollout.seat import Seat, allows_something
from shoal.streams.inference import Answer

Wait = Literal["slot", "answer", "env"]
"""What a rollout waits for: a free slot and the version of its round, a decision, or its env copies."""


@dataclass
class Progress:
    """What some steps brought."""

    steps: int = 0
    posted: Counter[str] = field(default_factory=Counter)
    """Fragments by policy."""
    episodes: list[Episode] = field(default_factory=list)


class Watcher(ABC):
    """Looks over the table: told of all that happens, in its order. Arrays are valid until the next call."""

    @abstractmethod
    def start(self, step: Step) -> None:
        """The environment was reset."""

    @abstractmethod
    def act(self, actions: dict[str, Array], answers: dict[Seat, Answer]) -> None:
        """What goes to the environment, and what every seat was answered."""

    @abstractmethod
    def see(self, step: Step, episodes: list[Episode]) -> None:
        """What came of it; `episodes` are those of the step, with who played them."""


class Stages(ABC):
    """Which stage of a curriculum the environments are in, and which they should be in."""

    stage: int

    @property
    @abstractmethod
    def due(self) -> int:
        """The stage that the run is in."""

    @abstractmethod
    def enter(self, stage: int, env: Env) -> Env:
        """`env`, or others in its place, in that stage from the next reset on."""


class Rollout:
    """Plays on and on: ask every seat, step the environment, show every seat what came of it.

    `mark`, where policies decide in this process, is told when they begin (`inference`) and when they are done (`worked`).
    `keep`: of the last so many rounds, remember how each began. `producer`: its number among all Envs of the run. `openings`: how
    episodes begin, where policies do not decide from the first step on.
    """

    def __init__(
        self,
        env: Env,
        seats: list[Seat],
        *,
        seed: int,
        timeout: float = 60.0,
        mark: Callable[[str], object] | None = None,
        deal: Deal | None = None,
        keep: int = 0,
        stages: Stages | None = None,
        producer: int = 0,
        watcher: Watcher | None = None,
        openings: Openings | None = None,
    ) -> None:
        self._keep, self._beginnings = keep, dict[int, Tree]()
        self._seed, self._stages = seed, stages
        self._env, self._seats, self._timeout, self._mark, self._deal = env, seats, timeout, mark, deal
        self._watcher, self._openings, self.producer = watcher, openings, producer
        self._learners = [seat for seat in seats if seat.learns]
        self._exploring = [seat for seat in seats if seat.explorer is not None]
        self._groups: dict[str, list[Seat]] = {}
        for seat in seats:
            self._groups.setdefault(seat.group, []).append(seat)
        self._answers: list[Answer] | None = None
        self._stepping = False
        self._sent = 0.0
        step = self._start(seed)
        if watcher is not None:
            watcher.start(step)

    def advance(self, progress: Progress) -> Wait | None:
        """As far as possible without waiting, one step of every env copy at most; what it waits for, None after a step.

        It asks for the next decisions at the end of a step: while they are made, the other rollouts of a ring go on. Not so after
        a fragment is posted: the next one should begin with the newest version, and a trainer in this process comes first.
        """
        if not self._stepping:
            if self._answers is None and not self._ask():
                return "slot"
            if not self._act():
                return "answer"
        if not self._env.ready():
            if time.monotonic() - max(self._sent, self._env.came_back) > self._timeout:
                raise TimeoutError(f"a step took longer than env.timeout = {self._timeout:g} s")
            return "env"
        self._stepping = False
        if not self._show(self._env.recv(self._timeout), progress):
            self._ask()
        return None

    def close(self) -> None:
        """Close the environment."""
        self._env.close()

    def flush(self, policy: str, round_: int) -> bool:
        """Post what a policy has of that round, full or not; False: it was posted already, or cannot be now.

        Only while it waits for a slot or a version: then no decision is under way.
        """
        seat = next((seat for seat in self._learners if seat.policy == policy), None)
        if seat is None or self._answers is not None or self._stepping or not seat.flush(round_):
            return False
        if self._keep:
            self._note_beginning()
        return True

    @property
    def round(self) -> int:
        """That it is in; of several policies that learn, the first that is not over for all of them."""
        return min((seat.builder.posted for seat in self._learners if seat.builder is not None), default=0)

    @property
    def rounds(self) -> dict[str, int]:
        """Policy -> the round that it is in, of all that learn."""
        return {seat.policy: seat.builder.posted for seat in self._learners if seat.builder is not None}

    # ------------------------------------------------------------ in the middle of episodes

    def beginning(self, round_: int) -> Tree | None:
        """How things stood when the round began; None: it is not known, or the environment cannot tell."""
        if self._round == round_:
            return self._snapshot()
        return self._beginnings.get(round_)

    def restore(self, tree: Tree) -> None:
        """Go on from the beginning of a round, whatever was before."""
        if self._stages is not None and self._stages.stage != tree["stage"]:
            self._enter(self._stages, tree["stage"])
        self._env.restore(tree["env"])
        for seat, part in zip(self._seats, tree["seats"], strict=True):
            seat.restore(part)
        if self._deal is not None:
            self._deal.restore(tree["deal"])
        if self._state_view is not None:
            self._state_view.restore(tree["state_view"])

    @property
    def _round(self) -> int | None:
        """The round that is about to begin; None: somebody is in the middle of one."""
        builders = [seat.builder for seat in self._learners if seat.builder is not None]
        rounds = {builder.posted if builder.between else -1 for builder in builders}
        return rounds.pop() if len(rounds) == 1 and -1 not in rounds else None

    def _snapshot(self) -> Tree | None:
        seats = [seat.snapshot() for seat in self._seats]
        env = self._env.snapshot() if None not in seats else None
        if env is None:
            self._keep = 0
            return None
        deal, view = self._deal, self._state_view
        return {
            "env": env, "seats": tuple(seats), "deal": None if deal is None else deal.snapshot(),
            "state_view": None if view is None else view.snapshot(),
            "stage": 0 if self._stages is None else self._stages.stage,
        }  # fmt: skip

    def _note_beginning(self) -> None:
        round_ = self._round
        if round_ is None:
            return
        begun = self._snapshot()
        if begun is not None:
            self._beginnings[round_] = begun
            self._beginnings.pop(round_ - self._keep, None)

    def _start(self, seed: int) -> Step:
        """New episodes everywhere."""
        env, deal = self._env, self._deal
        env.wants_state = any(seat.wants_state for seat in self._seats)
        self._state_view = GlobalStateView(env) if env.wants_state else None
        step = env.reset(seed)
        self._check_masks(step)
        if self._openings is not None:
            self._openings.see(step)
        state = None if self._state_view is None else self._state_view.see(step)
        for seat in self._seats:
            owned = None if deal is None else deal.owned(seat.policy, seat.group, seat.columns)
            seat.start(step.turns[seat.group], owned, state)
        return step

    def _enter(self, stages: Stages, stage: int) -> None:
        """The environment changes: open episodes are cut short, and nobody learns from what was left of them."""
        self._env = stages.enter(stage, self._env)
        if self._deal is not None:
            self._deal.anew(list(range(self._env.num_envs)))
        self._start(derive_seed(self._seed, "stage", stage))

    def _ask(self) -> bool:
        stages = self._stages
        if stages is not None and stages.due != stages.stage and self._round is not None:
            self._enter(stages, stages.due)
        for seat in self._learners:
            if not seat.ready():
                return False
        if len(self._learners) < len(self._seats) and not self._others_ready():
            return False
        if self._mark is not None:
            self._mark("inference")
        for seat in self._seats:
            seat.ask()
        if self._mark is not None:
            self._mark("worked")
        self._answers = []
        return True

    def _others_ready(self) -> bool:
        """Who does not learn plays the round of the first who does; where nobody learns there are no rounds."""
        if not self._learners or self._learners[0].builder is None:
            return True
        round_ = self._learners[0].builder.posted
        return all(seat.ready(round_) for seat in self._seats if not seat.learns)

    def _act(self) -> bool:
        """Send the actions, once every seat has its decision."""
        assert self._answers is not None
        for seat in self._seats[len(self._answers) :]:
            answer = seat.client.answer(0.0)
            if answer is None:
                return False
            self._answers.append(answer)
        decided = {seat: seat.take(answer) for seat, answer in zip(self._seats, self._answers, strict=True)}
        actions = {name: self._actions(seats, decided) for name, seats in self._groups.items()}
        if self._openings is not None:
            actions = self._openings.play(actions)
        if self._watcher is not None:
            self._watcher.act(actions, dict(zip(self._seats, self._answers, strict=True)))
        self._env.send(actions)
        self._answers, self._stepping, self._sent = None, True, time.monotonic()
        return True

    def _actions(self, seats: list[Seat], decided: dict[Seat, np.ndarray]) -> np.ndarray:
        """`[num_envs, agents, ...]` of one group: what each seat decided for its own agents."""
        copies, agents = self._env.num_envs, len(self._env.groups[seats[0].group].agents)
        parts = [decided[seat].reshape(copies, -1, *decided[seat].shape[1:]) for seat in seats]
        if len(parts) == 1:
            return parts[0]
        actions = np.empty((copies, agents, *parts[0].shape[2:]), parts[0].dtype)
        for seat, part in zip(seats, parts, strict=True):
            if seat.owned is None:
                actions[:, seat.columns] = part
            else:
                actions[seat.places(copies, agents)] = part[seat.owned.reshape(copies, -1)]
        return actions

    def _show(self, step: Step, progress: Progress) -> int:
        """Show every seat what came of its decisions; how many fragments were posted."""
        posted = 0
        self._check_masks(step)
        place: dict[str, Any] = {"producer": self.producer, "round": self.round} if step.episodes else {}
        deal = self._deal
        episodes = [
            replace(e, played=self._played(e), match=[] if deal is None else deal.match(e.row), **place)
            for e in step.episodes
        ]
        if self._openings is not None:
            self._openings.see(step)
        if self._deal is not None and step.episodes:
            self._deal.anew([episode.row for episode in step.episodes])
        state = None if self._state_view is None else self._state_view.see(step)
        for seat in self._seats:
            owned = None
            if self._deal is not None and step.episodes:
                owned = self._deal.owned(seat.policy, seat.group, seat.columns)
            if seat.see(step.turns[seat.group], step.advanced, owned, state):
                progress.posted[seat.policy] += 1
                posted += 1
        if self._watcher is not None:  # the next episodes are dealt: who watches them sees who plays
            self._watcher.see(step, episodes)
        progress.steps += step.advanced
        if self._exploring and episodes:
            episodes[-1] = replace(episodes[-1], told=self._told())
        progress.episodes += episodes
        if self._keep and posted:
            self._note_beginning()
        return posted

    def _check_masks(self, step: Step) -> None:
        """Everybody who acts has something to choose from."""
        for name, turn in step.turns.items():
            if turn.action_mask is None:
                continue
            group = self._env.groups[name]
            nothing = turn.acting & ~allows_something(turn.action_mask, group.action_space)
            if nothing.any():
                row, agent = np.argwhere(nothing)[0]
                raise ShoalError(
                    f"the action mask of '{group.agents[agent]}' in copy {row} forbids every action: allow one to all who act"
                )

    def _told(self) -> dict[str, Metric]:
        """What explorers have to tell; of several policies that learn, each has its own numbers under its name."""
        metrics: dict[str, Metric] = {}
        for seat in self._exploring:
            assert seat.explorer is not None
            place = f"rollout/{seat.policy}" if len(self._learners) > 1 else "rollout"
            told = seat.explorer.metrics()
            merge_into(metrics, {f"{place}/{name}": metric for name, metric in told.items()})
        return metrics

    def _played(self, episode: Episode) -> dict[str, np.ndarray]:
        """What each policy earned, by the deal that the episode was played with."""
        earned = {}
        for seat in self._seats:
            returns = episode.returns[seat.group]
            if seat.owned is not None:
                earned[seat.policy] = returns[seat.places(self._env.num_envs, len(returns))[episode.row]]
            else:
                earned[seat.policy] = returns if seat.columns is None else returns[seat.columns]
        return earned


def run_one(rollout: Rollout, progress: Progress) -> None:
    """A whole step of a rollout that waits for nobody."""
    wait = rollout.advance(progress)
    if wait is not None:
        raise ShoalError(f"a rollout on its own waits for its {wait}")
