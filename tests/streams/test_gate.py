"""The update gate: trainers rest until they are released, drain when told to, and a new life waits for its own release."""

from __future__ import annotations

from shoal.streams.gate import NBYTES, Gate, GateKeeper
from shoal.streams.transports.memory import MemoryMailbox, NoWaiting


def pair() -> tuple[GateKeeper, Gate, MemoryMailbox]:
    box = MemoryMailbox(NBYTES, 1)
    return GateKeeper(box), Gate(box, NoWaiting()), box


def test_the_first_update_needs_no_release() -> None:
    _, gate, _ = pair()
    assert gate.passed(0, 0.0)
    assert not gate.passed(1, 0.0)
    assert not gate.drain


def test_each_update_needs_its_release() -> None:
    keeper, gate, _ = pair()
    for update in range(1, 4):
        assert not gate.passed(update, 0.0)
        keeper.open(update)
        assert gate.passed(update, 0.0)
        assert not gate.passed(update + 1, 0.0)


def test_a_policy_that_is_through_goes_on_without_learning() -> None:
    keeper, gate, _ = pair()
    keeper.open(1)
    assert gate.passed(1, 0.0)
    assert not gate.drain
    keeper.open(2, drain=True)
    assert gate.passed(2, 0.0)
    assert gate.drain
    keeper.open(3)
    assert gate.passed(3, 0.0)
    assert not gate.drain


def test_draining_opens_no_gate_by_itself() -> None:
    keeper, gate, _ = pair()
    keeper.open(0, drain=True)
    assert not gate.passed(1, 0.0)


def test_a_new_life_waits_for_its_own_release() -> None:
    keeper, _, box = pair()
    keeper.open(7)
    keeper.close()
    later = Gate(box, NoWaiting())
    assert not later.passed(0, 0.0)
    keeper.open(0)
    assert later.passed(0, 0.0)
    assert not later.passed(1, 0.0)


def test_a_life_before_its_gate_was_ever_written_may_begin() -> None:
    keeper, gate, box = pair()
    assert gate.passed(0, 0.0)
    keeper.open(4)
    assert Gate(box, NoWaiting()).passed(4, 0.0), "what was said before it was made counts"


def test_a_policy_that_is_through_stays_so_in_its_next_life() -> None:
    keeper, _, box = pair()
    keeper.open(3, drain=True)
    keeper.close()
    later = Gate(box, NoWaiting())
    assert not later.passed(0, 0.0)
    keeper.open(0, drain=True)
    assert later.passed(0, 0.0)
    assert later.drain
