"""Leave to go on: trainers rest until they are released, hand in their state when asked, and lose nothing in a new life."""

from __future__ import annotations

from shoal.streams.leave import NBYTES, Leave, LeaveGiver
from shoal.streams.transports.memory import MemoryMailbox, NoWaiting


def pair() -> tuple[LeaveGiver, Leave, MemoryMailbox]:
    box = MemoryMailbox(NBYTES, 1)
    return LeaveGiver(box), Leave(box, NoWaiting()), box


def test_the_first_update_needs_no_leave() -> None:
    _, leave, _ = pair()
    assert leave.granted(0, 0.0)
    assert not leave.granted(1, 0.0)
    assert not leave.state_due


def test_each_update_needs_its_leave() -> None:
    giver, leave, _ = pair()
    for update in range(1, 4):
        assert not leave.granted(update, 0.0)
        giver.grant(update)
        assert leave.granted(update, 0.0)
        assert not leave.granted(update + 1, 0.0)


def test_a_state_is_handed_in_once_for_each_time_it_is_asked_for() -> None:
    giver, leave, _ = pair()
    for _ in range(3):
        assert not leave.state_due
        giver.ask_state()
        assert leave.state_due
        leave.state_given()
        assert not leave.state_due


def test_asking_changes_no_leave_and_granting_asks_for_nothing() -> None:
    giver, leave, _ = pair()
    giver.ask_state()
    assert not leave.granted(1, 0.0)
    leave.state_given()
    giver.grant(1)
    assert not leave.state_due


def test_a_new_life_waits_for_its_own_leave() -> None:
    giver, _, box = pair()
    giver.grant(7)
    giver.renew()
    later = Leave(box, NoWaiting())
    assert not later.granted(0, 0.0)
    giver.grant(0)
    assert later.granted(0, 0.0)
    assert not later.granted(1, 0.0)


def test_what_was_asked_of_the_dead_is_not_asked_of_the_next() -> None:
    giver, _, box = pair()
    giver.ask_state()
    giver.renew()
    assert not Leave(box, NoWaiting()).state_due


def test_what_is_asked_while_a_new_life_is_on_its_way_is_heard_by_it() -> None:
    giver, leave, box = pair()
    giver.ask_state()
    leave.state_given()
    giver.renew()
    giver.ask_state()
    assert Leave(box, NoWaiting()).state_due
