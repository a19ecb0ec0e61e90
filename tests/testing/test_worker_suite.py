"""The conformance suite of workers: the worker of the documentation passes, and each fault is found."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest

from shoal.api.messages import Message, Note
from shoal.api.program import WorkerSpec
from shoal.api.worker import Worker
from shoal.testing.check import require
from shoal.testing.worker import check_worker

PAGE = Path(__file__).parents[2] / "docs" / "tasks" / "your-own-worker.md"


def test_the_worker_of_the_documentation_conforms(tmp_path: Path) -> None:
    (code,) = re.findall(r'```python title="halver.py"\n(.*?)```', PAGE.read_text(), re.S)
    (tmp_path / "halver.py").write_text(code.replace("self.last < 10", "self.last < 0"))
    require(check_worker(f"{tmp_path}/halver.py:HalverSpec"))


class Counting(Worker):
    """Counts its polls."""

    def __init__(self, name: str) -> None:
        self.name, self.polls = name, 0

    def poll(self, timeout: float) -> list[Message]:
        self.polls += 1
        return [Note(f"{self.polls} polls")]

    def state(self, round_: int) -> Any:
        return {"polls": self.polls}

    def restore(self, state: Any) -> None:
        self.polls = state["polls"]


class Nameless(Counting):
    def __init__(self, name: str) -> None:
        super().__init__("nobody")


class Slow(Counting):
    def poll(self, timeout: float) -> list[Message]:
        time.sleep(0.0 if self.polls else 1.1)
        return super().poll(timeout)


class Wordy(Counting):
    def poll(self, timeout: float) -> list[Message]:
        return ["I did something"]  # type: ignore[list-item]


class Picky(Counting):
    def handle(self, order: Any) -> list[Message]:
        raise NotImplementedError(type(order).__name__)


class Forgetful(Counting):
    def restore(self, state: Any) -> None:
        return


class Unsaveable(Counting):
    def state(self, round_: int) -> Any:
        return {"self": self}


class Spec(WorkerSpec):
    def build(self, context: Any) -> Worker:
        worker: Worker = globals()[type(self).__name__.removesuffix("Spec") or "Counting"](self.name)
        return worker


for _name in ("Counting", "Nameless", "Slow", "Wordy", "Picky", "Forgetful", "Unsaveable"):
    globals()[f"{_name}Spec"] = type(Spec)(f"{_name}Spec", (Spec,), {"__module__": __name__})


def failed(name: str) -> dict[str, str]:
    return {check.name: check.detail for check in check_worker(f"{__name__}:{name}Spec") if not check.passed}


def test_a_good_one_passes() -> None:
    assert failed("Counting") == {}


@pytest.mark.parametrize(("name", "promise", "remedy"), [
    ("Nameless", "a worker has the name of its spec", "set it to the spec's"),
    ("Slow", "polls return messages at once", "must not wait"),
    ("Wordy", "polls return messages at once", "inherit from shoal.api.messages.Message"),
    ("Picky", "orders that it does not know are passed over", "NotImplementedError"),
    ("Forgetful", "a state can be restored", "restore everything"),
    ("Unsaveable", "a save is answered with a state that can be written", "cannot be written down"),
])  # fmt: skip
def test_each_fault_is_found(name: str, promise: str, remedy: str) -> None:
    assert remedy in failed(name)[promise]


def test_what_is_never_placed_is_said() -> None:
    class_ = f"{__name__}:Absent"
    (check,) = check_worker(class_)
    assert not check.passed
    assert "place(program) gave none" in check.detail


class Absent(Spec):
    @classmethod
    def place(cls, program: Any) -> list[Any]:
        return []
