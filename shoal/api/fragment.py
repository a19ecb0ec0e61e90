"""Experience on its way from actors to trainers.

A fragment is `R = burn_in + unroll + bootstrap` rows of B *lanes*, time-major. A lane follows one agent slot through its
episodes. Row t+1 is what the decision of row t led to; a truncation adds one row that is seen but not acted on, so every
final observation lies in the row after the decision that led to it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from shoal.base.tree import Tree, tree_map

Array = Any
"""numpy on the way, torch in the trainer."""

PER_LANE = ("state", "lanes", "keys", "weights", "priority")
"""Fields of a Fragment whose first axis is the lane; of the others it is the second."""


class FragmentId(NamedTuple):
    """Who made it: worker, which life of that worker, and its count. Unique in a run."""

    producer: int
    incarnation: int
    sequence: int


@dataclass
class Fragment:
    """Shapes are `[R, B, ...]` unless said otherwise."""

    observation: Tree
    action: Array
    reward: Array
    """float32: everything earned between this decision and the lane's next."""
    terminated: Array
    """bool: this decision ended the episode; nothing follows."""
    truncated: Array
    """bool: the episode was cut after this decision; row t+1 is the final observation."""
    valid: Array
    """bool: a decision with its outcome, to learn from. False: burn-in, final observation, open or unfilled row."""
    first: Array
    """bool: an episode starts with this observation; recurrent state restarts."""
    version: Array
    """int64: the policy version that decided; -1: nobody did, the row is only looked at."""
    extras: dict[str, Array]
    """What the policy stored when it decided, for example `log_prob`."""
    action_mask: Array | None
    state: Tree | None
    """`[B, ...]`: recurrent state before row 0."""
    lanes: Array
    """int64 `[B]`: run-wide lane numbers."""
    keys: Array | None = None
    """int64 `[B]`, from prioritised replay alone: what new priorities are reported under."""
    weights: Array | None = None
    """float32 `[B]`, from prioritised replay alone: what each lane counts, so that drawing some more often does no harm."""
    priority: Array | None = None
    """float32 `[B]`, with `Priorities.first` alone: what the actor thinks each lane is worth to replay; NaN: it does not know."""

    def map(self, fn: Any) -> Fragment:
        """Apply `fn` to every array."""
        return Fragment(**{f.name: tree_map(fn, getattr(self, f.name)) for f in fields(self)})
