"""A seat: one policy's place in one Env. Its lanes, their memory, their share of randomness, and, in training, their builder."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from gymnasium import Space
from gymnasium.spaces import MultiDiscrete

from shoal.api.env import Array, Turn
from shoal.api.explorer import Explorer
from shoal.base.seeding import Noise
from shoal.base.tree import Tree, tree_map
from shoal.rollout.global_state import Seen, StoredObservations
from shoal.rollout.team import TeamLanes
from shoal.rollout.trajectory import TrajectoryBuilder, View
from shoal.streams.inference import Answer, Ask, InferenceClient


class Seat:
    """Lays its agents of one group out as lanes `[num_envs * agents]`, asks for decisions, remembers recurrent state.

    columns   the agents' places in the group; None: all of them
    team      one lane per env copy, its agents side by side; None: one per agent
    explorer  who sets the knobs of each lane's episodes; None: there are none
    owned     bool `[lanes]` where agents are dealt anew each episode: the lanes that are this policy's now
    """

    def __init__(
        self, policy: str, group: str, client: InferenceClient, noise: Noise, state: Tree | None,
        builder: TrajectoryBuilder | None = None, *, columns: list[int] | None = None, decisions: int = 0,
        notes: StoredObservations | None = None, team: TeamLanes | None = None, explorer: Explorer | None = None,
    ) -> None:  # fmt: skip
        self.policy, self.group, self.client, self.builder, self.columns = policy, group, client, builder, columns
        self.owned: np.ndarray | None = None
        self._noise, self._state, self._team = noise, state, team
        self.notes = notes or StoredObservations(len(noise.lanes), 0, global_state=False)
        self._first = builder.first if builder else np.ones(len(noise.lanes), np.bool_)
        self._view: View | None = None
        self._decisions = decisions
        self._pinned = -1
        self.explorer = explorer
        self._knobs: np.ndarray | None = None
        self._returns = np.zeros(len(noise.lanes))

    @property
    def learns(self) -> bool:
        """What it plays is written down."""
        return self.builder is not None

    @property
    def is_team(self) -> bool:
        """A lane is a whole env copy."""
        return self._team is not None

    def places(self, copies: int, agents: int) -> np.ndarray:
        """bool `[copies, agents of its group]`: whom it plays now."""
        everyone = np.zeros((copies, agents), np.bool_)
        everyone[:, slice(None) if self.columns is None else self.columns] = (
            True if self.owned is None else self.owned.reshape(copies, -1)
        )
        return everyone

    def ready(self, round_: int = -1) -> bool:
        """There is a slot to write into and the version of its round to act with; who does not learn plays the round of others."""
        if self.builder is None:
            if round_ > self._pinned and self.client.pin(round_):
                self._pinned = round_
            return round_ <= self._pinned
        if self._pinned == self.builder.posted:
            return True
        # Slot first: it is freed after the version of this round is published, so waiting for it is waiting for both.
        if not (self.builder.begin(self._state) and self.client.pin(self.builder.posted)):
            return False
        self._pinned = self.builder.posted
        return True

    def flush(self, round_: int) -> bool:
        """Post the fragment of that round as it is; False: it was posted already, or there is no slot."""
        builder = self.builder
        if builder is None or builder.posted != round_ or not builder.begin(self._state):
            return False
        builder.flush(self._seen())
        return True

    def ask(self) -> None:
        """Send what the lanes see."""
        view = self._seen()
        noise = self._noise.at(self._decisions)
        observation = self.notes.policy_input(view.observation)
        self.client.ask(Ask(observation, self._first, noise, self._state, view.action_mask, self._knobs, view.acting))

    def take(self, answer: Answer) -> Array:
        """Note the decision; the actions, by agent."""
        view = self._seen()
        if self.explorer is not None and self._knobs is not None:
            answer = replace(answer, extras=self.explorer.shape(answer.extras, self._knobs, view.acting))
        if self.builder is not None:
            self.builder.decide(view, answer, self._state)
        else:
            self._first &= ~view.acting
        if self._state is not None:
            self._remember(answer.state, view.acting)
        self._decisions += 1
        return answer.action if self._team is None else answer.action.reshape(-1)

    def see(self, turn: Turn, steps: int, owned: np.ndarray | None = None, state: Seen | None = None) -> bool:
        """Take in the outcome; True: a fragment was posted. `owned`: the lanes that are its own from now on, if they change."""
        self._view = view = self._look(turn, state)
        ended = view.terminated | view.truncated
        if self.owned is not None:
            if self._team is None:  # a team has all places of an env copy or none, and learns only where it has all
                self._view = view = masked(view, self.owned, self.owned if owned is None else owned)
            self.owned = self.owned if owned is None else owned
        if self.explorer is not None:
            self._explore_on(self.explorer, view, ended)
        posted = self.builder.observe(view, steps) if self.builder is not None else False
        self._first |= ended
        return posted

    def start(self, turn: Turn, owned: np.ndarray | None = None, state: Seen | None = None) -> None:
        """The first view, after a reset."""
        if self._team is not None:
            self._team.restart()
        if self.builder is not None:
            self.builder.restart()
        self._view, self.owned = self._look(turn, state), owned
        if owned is not None and self._team is None:
            self._view = masked(self._view, owned, owned)
        self._first[:] = True
        if self.explorer is not None:
            self._knobs = self.explorer.begin(np.arange(len(self._first))).copy()
            self._returns[:] = 0.0

    # ------------------------------------------------------------ in the middle of episodes

    def snapshot(self) -> Tree | None:
        """All it needs to go on between two fragments; None: it cannot be taken up again."""
        explorer = self.explorer.snapshot() if self.explorer is not None else None
        if self.client.remembers or (self.explorer is not None and explorer is None):
            return None
        kept = {"view": vars(self._seen()), "state": self._state, "first": self._first, "knobs": self._knobs}
        return {
            **tree_map(np.copy, kept),
            "decisions": self._decisions, "returns": self._returns.copy(), "explorer": explorer,
            "owned": None if self.owned is None else self.owned.copy(),
            "alive": None if self._team is None else self._team.alive,
            "builder": None if self.builder is None else self.builder.snapshot(),
        }  # fmt: skip

    def restore(self, tree: Tree) -> None:
        """Go on from `snapshot`."""
        self._view, self.owned, self._decisions = View(**tree["view"]), tree["owned"], tree["decisions"]
        tree_map(np.copyto, self._state, tree["state"])
        self._first[:], self._returns[:] = tree["first"], tree["returns"]
        if self._team is not None:
            self._team.alive = tree["alive"]
        if self.explorer is not None:
            self.explorer.restore(tree["explorer"])
            self._knobs = tree["knobs"].copy()
        if self.builder is not None:
            self.builder.restore(tree["builder"])

    @property
    def wants_state(self) -> bool:
        """Its lanes note what there is beside their own."""
        return self.notes.global_state or self._team is not None

    def _look(self, turn: Turn, state: Seen | None) -> View:
        if self._team is None:
            return self.notes.of(as_lanes(turn, self.columns), state)
        assert state is not None, "a team sees the global state"
        return self._team.view(of_columns(turn, self.columns), state)

    def _seen(self) -> View:
        assert self._view is not None, "start comes first"
        return self._view

    def _explore_on(self, explorer: Explorer, view: View, ended: np.ndarray) -> None:
        """Tell what episodes earned, and set the knobs of those that follow. `ended`: also of lanes that were another's."""
        self._returns += view.reward
        if not np.count_nonzero(ended):
            return
        own, rows = np.flatnonzero(view.terminated | view.truncated), np.flatnonzero(ended)
        assert self._knobs is not None, "start comes first"
        if own.size:
            explorer.end(own, self._returns[own])
        self._returns[rows] = 0.0
        self._knobs[rows] = explorer.begin(rows)

    def _remember(self, state: Tree, acting: np.ndarray) -> None:
        everyone = np.count_nonzero(acting) == len(acting)

        def put(array: np.ndarray, values: np.ndarray) -> None:
            array[...] = values if everyone else np.where(acting.reshape(-1, *[1] * (values.ndim - 1)), values, array)

        tree_map(put, self._state, state)


def masked(view: View, before: np.ndarray, after: np.ndarray) -> View:
    """What concerns one owner of the lanes: ends and rewards of those it had, turns of those it has."""
    return replace(
        view,
        reward=np.where(before, view.reward, 0.0).astype(np.float32),
        terminated=view.terminated & before,
        truncated=view.truncated & before,
        acting=view.acting & after,
    )


def as_lanes(turn: Turn, columns: list[int] | None = None) -> View:
    """`[rows, agents, ...]` -> `[rows * agents, ...]`, without a copy unless only some columns are wanted."""
    turn = of_columns(turn, columns)

    def lanes(array: Any) -> Any:
        return array.reshape(-1, *array.shape[2:])

    mask, final = turn.action_mask, turn.final_observation
    return View(
        tree_map(lanes, turn.observation),
        turn.reward.reshape(-1),
        turn.terminated.reshape(-1),
        turn.truncated.reshape(-1),
        turn.acting.reshape(-1),
        None if mask is None else lanes(mask),
        None if final is None else tree_map(lanes, final),
    )


def of_columns(turn: Turn, columns: list[int] | None) -> Turn:
    """Some agents of a group; None: all."""
    if columns is None:
        return turn
    return Turn(**{name: tree_map(lambda array: array[:, columns], part) for name, part in vars(turn).items()})


def allows_something(mask: Array, space: Space[Any]) -> Array:
    """`[..., actions]` -> `[...]`: at least one choice of each part of an action is legal."""
    starts: Any = np.cumsum(space.nvec.reshape(-1))[:-1] if isinstance(space, MultiDiscrete) else []
    return np.all([part.any(-1) for part in np.split(mask, starts, -1)], 0)
