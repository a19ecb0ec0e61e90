"""Environments that hang, die or fail before the run begins: in processes of their own, with one line for each."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from shoal.api.worker import Heartbeat
from shoal.base.errors import InputError, ShoalError
from shoal.launchers.errand import Errand, nothing, said_once
from shoal.launchers.links import Limits
from tests.launchers.processes import nothing_left

LIMITS = Limits(env=0.5, hang=0.5)


def send(function: Any, *args: Any) -> Any:
    with nothing_left():
        return Errand("a look at it", LIMITS, nothing).run(function, *args)


def answer(heartbeat: Heartbeat, value: int) -> tuple[int, int]:
    return value, os.getpid()


def hang(heartbeat: Heartbeat) -> None:
    heartbeat.beat()
    time.sleep(600)


def beat_slowly(heartbeat: Heartbeat) -> str:
    for _ in range(10):
        heartbeat.beat()
        time.sleep(0.1)
    return "done"


def leave(heartbeat: Heartbeat, how: str) -> None:
    if how == "exit":
        os._exit(0)
    if how == "kill":
        os.kill(os.getpid(), signal.SIGSEGV)
    sys.exit(3)


def fail(heartbeat: Heartbeat, kind: type[Exception]) -> None:
    raise kind("it cannot be")


class LocalError(Exception):
    """One that cannot travel."""

    def __init__(self, a: int, b: int) -> None:
        super().__init__(f"{a} is not {b}")


def fail_oddly(heartbeat: Heartbeat) -> None:
    raise LocalError(1, 2)


def test_what_it_finds_comes_back_from_another_process() -> None:
    value, pid = send(answer, 7)
    assert value == 7
    assert pid != os.getpid()


def test_one_that_hangs_is_given_up() -> None:
    with pytest.raises(ShoalError, match=r"a look at it was killed: a step took longer than env.timeout = 0.5 s"):
        send(hang)


def test_one_that_is_slow_is_not() -> None:
    assert send(beat_slowly) == "done"


@pytest.mark.parametrize(
    ("how", "words"),
    [("exit", "exit code 0"), ("kill", "by SIGSEGV"), ("sys.exit", r"called sys.exit\(3\)")],
)
def test_one_that_ends_its_process_is_an_error(how: str, words: str) -> None:
    with pytest.raises(ShoalError, match=words):
        send(leave, how)


@pytest.mark.parametrize("kind", [InputError, ShoalError, ValueError])
def test_errors_come_back_as_they_are(kind: type[Exception]) -> None:
    with pytest.raises(kind, match="it cannot be"):
        send(fail, kind)


def test_an_error_that_cannot_travel_is_told() -> None:
    with pytest.raises(ShoalError, match="LocalError: 1 is not 2"):
        send(fail_oddly)


def test_people_are_told_within_the_first_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    tell = said_once("looking ...")
    tell(0.5)
    assert capsys.readouterr().err == ""
    tell(1.0)
    tell(1.1)
    assert capsys.readouterr().err == "looking ...\n"


def wait_for(heartbeat: Heartbeat, own: str, other: str) -> str:
    """Until the other is under way, too."""
    open(own, "w").close()
    for _ in range(1000):
        heartbeat.beat()
        if os.path.exists(other):
            return own
        time.sleep(0.01)
    raise RuntimeError("nobody came")


def fail_or_hang(heartbeat: Heartbeat, fails: bool) -> None:
    if fails:
        raise InputError("it cannot be")
    hang(heartbeat)


def test_several_are_under_way_at_once(tmp_path: Path) -> None:
    first, second = str(tmp_path / "a"), str(tmp_path / "b")
    with nothing_left():
        errand = Errand("a look at it", Limits(env=30.0, hang=30.0), nothing)
        assert errand.run_all(wait_for, [((first, second), {}), ((second, first), {})]) == [first, second]


def test_one_that_fails_ends_all_of_them() -> None:
    began = time.monotonic()
    with nothing_left(), pytest.raises(InputError, match="it cannot be"):
        Errand("a look at it", Limits(env=60.0, hang=60.0), nothing).run_all(
            fail_or_hang, [((False,), {}), ((True,), {})]
        )
    assert time.monotonic() - began < 30
