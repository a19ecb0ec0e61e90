"""SHOAL_FAULT: what it says, what it does, and what it does not understand."""

from __future__ import annotations

import multiprocessing
import signal

import pytest

from shoal.base.errors import InputError
from shoal.base.faults import NO_FAULTS, Fault, Faults
from shoal.base.faults import parse_faults as parse
from shoal.workers import WORKERS

EVENTS = {kind.kind: kind.events for kind in map(WORKERS.load, WORKERS.entries)}


def parse_faults(text: str) -> list[Fault]:
    """In a run that has workers of every kind."""
    return parse(text, EVENTS)


def test_faults_are_read_in_their_order() -> None:
    assert parse_faults("trainer@update=37:kill, actor-1@step=5:hang,,policy-a.b-0@batch=0:raise") == [
        Fault("trainer", "update", 37, "kill"),
        Fault("actor-1", "step", 5, "hang"),
        Fault("policy-a.b-0", "batch", 0, "raise"),
    ]
    assert parse_faults("") == parse_faults(" , ") == []


@pytest.mark.parametrize(
    "text",
    ["actor", "actor@step:kill", "actor@step=x:kill", "actor@step=-1:kill", "actor@update=1:kill", "buffer@step=1:kill",
     "actor@step=1:burn", "Actor@step=1:kill", "actor@step=1:kill;trainer@update=1:kill"],
)  # fmt: skip
def test_what_makes_no_sense_is_answered_with_the_form(text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_faults(f"trainer@update=1:kill,{text}")
    known = (
        "actor@step=N, policy@batch=N, buffer@insert=N, trainer@update=N, evaluation@step=N, "
        "league@match=N, league@freeze=N, league@step=N, league@write=N, confirmation@step=N"
    )
    assert f"SHOAL_FAULT={text}: write one of {known}, then :kill, :raise or :hang" in str(caught.value)


def strikes(faults: Faults, event: str, count: int) -> bool:
    try:
        faults.at(event, count)
    except RuntimeError as error:
        return "ordered by SHOAL_FAULT" in str(error)
    return False


def test_a_fault_strikes_once_when_its_number_is_reached_or_passed() -> None:
    faults = Faults(parse_faults("actor@step=10:raise"), "actor", "actor-0")
    assert [strikes(faults, "step", count) for count in (4, 9, 12, 13)] == [False, False, True, False]
    assert not strikes(Faults(parse_faults("actor@step=1:raise"), "actor", "actor-0"), "update", 5)


def test_a_kind_means_all_of_it_and_a_name_means_one() -> None:
    faults = parse_faults("actor-1@step=1:raise,trainer@update=1:raise")
    assert strikes(Faults(faults, "actor", "actor-1"), "step", 1)
    assert not strikes(Faults(faults, "actor", "actor-11"), "step", 1)
    assert all(strikes(Faults(faults, "trainer", f"trainer-agent-{rank}"), "update", 1) for rank in range(2))


def test_each_life_has_its_own_fault() -> None:
    faults = parse_faults("actor-0@step=1:raise,actor-1@step=9:raise,actor@step=5:raise")
    lives = [Faults(faults, "actor", "actor-0", life) for life in range(3)]
    assert [strikes(life, "step", 1) for life in lives] == [True, False, False]
    assert [strikes(life, "step", 5) for life in lives] == [False, True, False]


def test_nothing_strikes_where_nothing_was_ordered() -> None:
    assert not strikes(NO_FAULTS, "step", 10**9)


@pytest.mark.parametrize(("action", "code"), [("kill", -signal.SIGKILL), ("hang", None)])
def test_killing_and_hanging_are_real(action: str, code: int | None) -> None:
    faults = Faults(parse_faults(f"actor@step=1:{action}"), "actor", "actor-0")
    process = multiprocessing.get_context("spawn").Process(target=faults.at, args=("step", 1), daemon=True)
    process.start()
    process.join(30 if code is not None else 2)
    assert process.exitcode == code
    process.kill()
    process.join()
    process.close()
