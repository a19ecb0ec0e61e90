"""The inference stream between processes: an actor's asks in one ring, a policy worker's answers in another."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np

from shoal.api.env import AgentGroup
from shoal.api.policy import Policy
from shoal.api.policy_spec import PolicyPlan
from shoal.api.program import RingShape
from shoal.base.arrays import Layout
from shoal.base.errors import ShoalError
from shoal.base.tree import Tree, tree_leaves, tree_map
from shoal.streams.inference import Answer, Ask, InferenceClient
from shoal.streams.primitives import Ring, Slot
from shoal.streams.sample import action_dtype, space_columns

SLOTS = 2
"""Per ring: an ask may be written while the slot of the one before is on its way back."""
PATIENCE = 60.0
"""Seconds either side waits for the other; a worker that died is back long before."""


def inference_shapes(plan: PolicyPlan, lanes: int) -> tuple[RingShape, RingShape]:
    """Of the rings in which one Env asks a policy, and is answered."""
    group = replace(plan.spec.group, observation_space=plan.sight.policy_input)
    ask, answer = inference_layouts(group, plan.algorithm.policy, lanes, plan.spec.mask_width)
    return RingShape(ask, SLOTS), RingShape(answer, SLOTS)


def inference_layouts(group: AgentGroup, policy: Policy, lanes: int, mask_width: int | None) -> tuple[Layout, Layout]:
    """What the slots of an ask and of an answer ring hold. `note`: the ask's number, and its round or the version that answered."""

    def column(shape: tuple[int, ...] = (), dtype: Any = np.float32) -> np.ndarray:
        return np.zeros((lanes, *shape), dtype)

    state = tree_map(lambda t: t.cpu().numpy(), policy.initial_state(lanes))
    ask = Ask(
        observation=space_columns(group.observation_space, column),
        first=column(dtype=np.bool_),
        noise=column((policy.noise_size,)),
        state=state,
        action_mask=column((mask_width,), np.bool_) if mask_width else None,
        knobs=column((len(policy.knobs),)) if policy.knobs else None,
        acting=column(dtype=np.bool_),
    )
    answer = {
        "action": column(group.action_space.shape or (), action_dtype(group)),
        "extras": {name: column(shape) for name, shape in policy.extras.items()},
        "state": state,
    }
    note = np.zeros(2, np.int64)
    return Layout.of({**vars(ask), "note": note}), Layout.of({**answer, "note": note})


class RingInference(InferenceClient):
    """The policy lives in a policy worker; asks and answers lie in slots. An answer to a dead predecessor is passed over."""

    def __init__(self, asks: Ring, answers: Ring) -> None:
        self._asks, self._answers = asks, answers
        self._answers.reclaim()
        self._number = asks.posted
        self._round = 0
        self._held: Slot | None = None

    def pin(self, round_: int) -> bool:
        self._round = round_
        return True

    def ask(self, ask: Ask) -> None:
        self._let_go()
        slot = self._asks.begin(PATIENCE)
        if slot is None:
            raise ShoalError(f"no policy worker took a request for {PATIENCE:.0f} s: see the logs of the run")
        for field in fields(Ask):
            _put(slot.arrays[field.name], getattr(ask, field.name))
        self._number += 1
        slot.arrays["note"][:] = self._number, self._round
        self._asks.post(slot)

    def answer(self, timeout: float) -> Answer | None:
        slot = self._answers.take(timeout)
        while slot is not None and slot.arrays["note"][0] != self._number:
            self._answers.free(slot)
            slot = self._answers.take(timeout)
        if slot is None:
            return None
        self._held = slot
        arrays = slot.arrays
        return Answer(arrays["action"], arrays["extras"], arrays["state"], int(arrays["note"][1]))

    def _let_go(self) -> None:
        if self._held is not None:
            self._answers.free(self._held)
            self._held = None


class AskLine:
    """A policy worker's end of one client's two rings. After a death no ask is lost and none is answered twice."""

    def __init__(self, asks: Ring, answers: Ring) -> None:
        self._asks, self._answers = asks, answers
        self._slot: Slot | None = None
        for slot in asks.held():
            if answers.posted and answers.look(answers.posted - 1).arrays["note"][0] >= slot.arrays["note"][0]:
                asks.free(slot)
            else:
                self._slot = slot

    def take(self) -> bool:
        """There is an ask to answer."""
        if self._slot is None:
            self._slot = self._asks.take(0.0)
        return self._slot is not None

    @property
    def round(self) -> int:
        """Of the ask in hand."""
        assert self._slot is not None
        return int(self._slot.arrays["note"][1])

    @property
    def ask(self) -> Ask:
        """The ask in hand: views of its slot."""
        assert self._slot is not None
        return Ask(**{field.name: self._slot.arrays[field.name] for field in fields(Ask)})

    def answer(self, answer: Answer) -> None:
        """Post the answer, then give the ask's slot back."""
        assert self._slot is not None
        slot = self._answers.begin(PATIENCE)
        if slot is None:
            raise ShoalError(f"an actor left its answers lying for {PATIENCE:.0f} s")
        for name in ("action", "extras", "state"):
            _put(slot.arrays[name], getattr(answer, name))
        slot.arrays["note"][:] = self._slot.arrays["note"][0], answer.version
        self._answers.post(slot)
        self._asks.free(self._slot)
        self._slot = None


def _put(arrays: Tree, values: Tree) -> None:
    """Copy into a slot. A mask that is left out this time allows everything, or says that all must decide."""
    if values is None:
        for _, leaf in tree_leaves(arrays):
            leaf[...] = True
    else:
        tree_map(np.copyto, arrays, values)
