"""One check of a contract: its name, whether it passed, and what to do where it did not."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    """The outcome of one check."""

    name: str
    """The promise, in words."""
    passed: bool
    detail: str = ""
    """On a failure the cause and the remedy; on a pass a remark, mostly empty."""


class Broken(Exception):  # noqa: N818 (a finding, not a fault)
    """A promise that is not kept. The text names the cause and the remedy."""


def expect(holds: object, text: str) -> None:
    """Raise Broken unless the condition holds."""
    if not holds:
        raise Broken(text)


def run_check(name: str, function: Callable[[], str]) -> Check:
    """Run one check. It returns a remark, or raises Broken; any other exception is a failure with its place."""
    try:
        return Check(name, True, function())
    except Broken as finding:
        return Check(name, False, str(finding))
    except Exception as error:
        return Check(name, False, describe_error(error))


def describe_error(error: BaseException) -> str:
    """The text of an exception, and the line its first cause came from."""
    cause = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    frames = traceback.extract_tb(cause.__traceback__)
    place = f" (raised at {frames[-1].filename}:{frames[-1].lineno} in {frames[-1].name})" if frames else ""
    return f"{type(error).__name__}: {' '.join(str(error).split())}{place}"


def words(function: Callable[..., str]) -> str:
    """The name of a check, as it is shown."""
    return function.__name__.replace("_", " ")


def require(checks: list[Check]) -> None:
    """Raise AssertionError, with cause and remedy of each, unless all checks passed: for a test of your own."""
    failed = [f"{check.name}: {check.detail}" for check in checks if not check.passed]
    assert not failed, "\n".join(failed)
