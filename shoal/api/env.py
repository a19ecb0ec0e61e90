"""The environment, seen as a batch: `num_envs` copies of one multi-agent environment, stepped in one call.

A single-agent task is an environment with one group of one agent. This module needs numpy alone, so that a process with another
Python can serve an Env.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from gymnasium import Space

Array = np.ndarray
Tree = Any
Reduction = Literal["sum", "mean", "last", "max"]
"""How numbers of many steps become one of an episode."""


@dataclass(frozen=True)
class AgentGroup:
    """Agents with equal spaces. Their arrays lie side by side: `[num_envs, len(agents), ...]`."""

    agents: tuple[str, ...]
    observation_space: Space[Any]
    action_space: Space[Any]
    stacked: int = 0
    """Observations are so many images, `[stacked, ...]`, the oldest first: at each step the oldest leaves and a new one
    comes; an episode starts with one image beside black ones or repetitions. Replay then keeps each image once. 0: no such
    promise."""


@dataclass
class Turn:
    """What one group sees and must answer. Leading axes `[rows, agents]`. Arrays are valid until the next `send`."""

    observation: Tree
    """What to act on now; where an agent does not act, its last observation."""
    reward: Array
    """float32: earned since the last step."""
    terminated: Array
    """bool: the agent's episode ended by the rules of the environment: there is no future to value."""
    truncated: Array
    """bool: the agent's episode was cut off: the future exists, nobody will see it."""
    acting: Array
    """bool: this agent must act now. Turn-taking, death, birth and the idle call of next-step autoreset are this mask."""
    action_mask: Array | None = None
    """bool `[rows, agents, actions]`: True where an action is allowed."""
    final_observation: Tree | None = None
    """Same-step autoreset only: the last observation of the rows that ended; other rows hold anything."""


@dataclass(frozen=True)
class Episode:
    """One finished episode of one env copy."""

    row: int
    length: int
    """Steps the copy advanced."""
    returns: dict[str, Array]
    """Group -> float `[agents]`: undiscounted sum of raw rewards."""
    metrics: dict[str, float] = field(default_factory=dict)
    """Numbers from the last `info` under the key `metrics`, and those that are `watched`."""
    played: dict[str, Array] = field(default_factory=dict)
    """Policy -> returns of the agents it played. Filled in by who knows who played whom, not by the environment; so is the rest."""
    match: list[int] = field(default_factory=list)
    """Of a league: player who asked, place of its first agent, player and member of each opponent, number of the copy's episode."""
    producer: int = 0
    """Which Env of the run."""
    round: int = 0
    """The round in which it ended: version `round + 1` is the first that may have learned from its end."""
    told: dict[str, Any] = field(default_factory=dict)
    """What explorers had to tell when it ended: name -> Metric."""


@dataclass
class Step:
    """The answer to `reset` or to `send`: what every group sees now, and which episodes ended on the way."""

    turns: dict[str, Turn]
    state: Tree | None = None
    """`[rows, ...]`: the global state, where the environment has one."""
    final_state: Tree | None = None
    """Same-step autoreset where there is a state: that of the ended copies before they began anew; other rows as in `state`."""
    advanced: int = 0
    """Env copies that really advanced: idle autoreset calls are no environment steps."""
    episodes: list[Episode] = field(default_factory=list)


@dataclass(frozen=True)
class Footprint:
    """What processes of an environment's own take."""

    games: int
    """Each with what it starts itself."""
    copies: int
    """Of the environment that one of them holds."""
    threads: int
    memory: int
    """Bytes."""


class Codec(ABC):
    """One agent's observations and actions: from what the environment's own code gives and takes to arrays, and back."""

    observation: Tree
    """`[rows, ...]` in the space of the agent's group."""
    mask: Array
    """bool `[rows, actions]`; `[rows, 0]` where actions cannot be masked."""

    @abstractmethod
    def begin(self, row: int) -> None:
        """An episode begins in this row."""

    @abstractmethod
    def put(self, row: int, observation: Any, mask: Any) -> bool:
        """What the agent sees now; whether a mask came with it. ValueError, TypeError or LookupError: it does not fit."""

    @abstractmethod
    def decode(self, action: Array) -> Any:
        """A policy's action `[...]` as the environment takes it."""


class Env(ABC):
    """A batch of environments. Legal order: `reset`, then `send` and `recv` in turn, then `close`."""

    groups: dict[str, AgentGroup]
    num_envs: int
    game_return: Literal["sum", "mean"] = "sum"
    """How this game states the return of an episode: the sum over all agents, or the mean over them (a reward they share)."""
    render_fps: float = 30.0
    """Images of `render` per second at which it looks like the environment it is."""
    wants_state: bool = True
    """Whether anybody looks at `Step.state`. Set before `reset`; False: an environment may save itself the work."""
    watched: dict[str, Reduction] = {}
    """Names in `info` that become `Episode.metrics`, and how an episode's steps become one number. Set before `reset`."""
    between: Callable[[], None] | None = None
    """Called between copies that are slow and take turns: `env.timeout` is for each of them, not for all together. Set before
    `reset`."""
    waits_for_all: bool = True
    """`recv` waits for every copy. False: where copies are slow one by one, it may answer without some of them; they act in none
    of its answers until they are back, and `advanced` does not count them. Set before `reset`."""
    repeats: bool = True
    """Equal seeds and equal actions give equal environments. False: a game outside that cannot promise it."""
    relives: bool = False
    """`restore` plays the open episodes through again: it is worth keeping as it is instead."""
    came_back: float = 0.0
    """Of an environment that steps while others work: when a copy last came back, by `time.monotonic`; 0: not known."""

    @abstractmethod
    def reset(self, seed: int) -> Step:
        """Start new episodes everywhere. Equal seeds and equal actions give equal environments, where it `repeats`."""

    @abstractmethod
    def send(self, actions: dict[str, Array]) -> None:
        """Group -> `[num_envs, agents, ...]`. Returns at once where the environment can; entries of idle agents are ignored."""

    def ready(self) -> bool:
        """Whether `recv` would answer at once."""
        return True

    @abstractmethod
    def recv(self, timeout: float) -> Step:
        """The outcome of the last `send`; TimeoutError if the environment does not answer in `timeout` seconds."""

    def step(self, actions: dict[str, Array], timeout: float = 60.0) -> Step:
        """`send` and `recv`."""
        self.send(actions)
        return self.recv(timeout)

    def render(self, row: int) -> Array | None:
        """An RGB image `[height, width, 3]` of one copy, or None where there is none."""
        return None

    def describe(self, agent: str, observation: Tree) -> str | None:
        """What an agent sees, in words or drawn with letters, for a person who plays it; None: nobody wrote that down."""
        return None

    def action_names(self, agent: str) -> list[str] | None:
        """What its actions are called by people; None: they have numbers."""
        return None

    def codec(self, agent: str, rows: int) -> Codec | None:
        """From what the environment's own code gives this agent to arrays, and back; None: both are as the group's spaces say."""
        return None

    def set_stage(self, number: int) -> bool:
        """A stage of a curriculum begins with the next `reset`; False: this environment knows no stages."""
        return False

    def limit_time(self, steps: int) -> bool:
        """Truncate episodes after so many steps of their copy, if they have not ended; False: this environment cannot.

        Before the first `reset`. Of several limits the shortest counts.
        """
        return False

    def footprint(self) -> Footprint | None:
        """Of processes that it started, as they are now; None: there are none."""
        return None

    def snapshot(self) -> Tree | None:
        """Everything needed to go on from here, or None: this environment cannot."""
        return None

    def restore(self, tree: Tree) -> None:
        """Go on from a snapshot."""
        raise NotImplementedError(f"{type(self).__name__} cannot restore")

    def close(self) -> None:
        """Free what the environment holds."""
        return
