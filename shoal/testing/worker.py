"""The conformance suite of `WorkerSpec` and `Worker`: a worker of one's own in, checks out."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass

from shoal.api.experiment import Experiment
from shoal.api.messages import Message
from shoal.api.orders import Order, Pause, Save, SetStage
from shoal.api.program import Program, WorkerSpec
from shoal.api.worker import Worker
from shoal.base.plain import from_plain, to_plain
from shoal.checkpoints.contents import from_tensors, to_bytes, to_tensors
from shoal.program.expand import expand
from shoal.rollout.plans import Plans
from shoal.streams.control import pack, unpack
from shoal.streams.stream_set import MemoryStreams
from shoal.testing.check import Check, expect, run_check, words
from shoal.workers.context import Context, Life

LONG = 1.0
"""Seconds that a poll which may wait for nothing, or an order, takes at most."""
POLLS = 20

CARTPOLE = {"env": {"id": "CartPole-v1", "num_envs": 2}, "algorithm": {"unroll": 8, "minibatch": 16}}


class Unheard(Order):
    """An order that no worker knows."""


@dataclass(frozen=True)
class Trial:
    """A worker's spec, in a Program that has it."""

    program: Program
    spec: WorkerSpec

    def build(self) -> Worker:
        """The worker, with streams of its own."""
        life = Life(starts=dict.fromkeys(self.program.learners, 0))
        context = Context(self.program, Plans(self.program), MemoryStreams(self.program), life)
        worker = self.spec.build(context)
        expect(
            isinstance(worker, Worker),
            f"build returned a {type(worker).__name__}: inherit from shoal.api.worker.Worker",
        )
        return worker


def check_worker(target: str, experiment: Experiment | None = None) -> list[Check]:
    """Check the WorkerSpec that `module:Class` or `file.py:Class` names, in an experiment; left out: in a small CartPole.

    Every check builds a worker anew, in one process and without the others around it.
    """
    experiment = experiment or Experiment.parse(CARTPOLE)
    program = expand(experiment.model_copy(update={"workers": {"under-test": target}}))
    found = [spec for spec in program.workers if spec.kind == "under-test"]
    if not found:
        return [Check("there is a worker", False, "place(program) gave none for this experiment")]
    return [run_check(words(check), lambda check=check: check(Trial(program, found[0]))) for check in _CHECKS]  # type: ignore[misc]


def a_spec_is_data(trial: Trial) -> str:
    again = from_plain(json.loads(json.dumps(to_plain(trial.spec))))
    expect(again == trial.spec, "the spec changes on its way through JSON: give it fields of plain types")
    return ""


def a_worker_has_the_name_of_its_spec(trial: Trial) -> str:
    with closing(trial.build()) as worker:
        expect(
            worker.name == trial.spec.name, f"worker.name is {worker.name!r}: set it to the spec's {trial.spec.name!r}"
        )
    return ""


def polls_return_messages_at_once(trial: Trial) -> str:
    with closing(trial.build()) as worker:
        for _ in range(POLLS):
            began = time.monotonic()
            said = worker.poll(0.0)
            expect(time.monotonic() - began < LONG, "poll(0.0) took over a second: it must not wait for anything")
            _expect_messages(said, "poll")
    return ""


def messages_can_be_sent(trial: Trial) -> str:
    with closing(trial.build()) as worker:
        said = [message for _ in range(POLLS) for message in worker.poll(0.0)]
        for message in said:
            again = unpack(pack(message))
            expect(
                type(again) is type(message),
                f"{type(message).__name__} cannot be sent: make it a dataclass of plain values",
            )
    return f"{len(said)} messages"


def orders_that_it_does_not_know_are_passed_over(trial: Trial) -> str:
    with closing(trial.build()) as worker:
        for order in (Unheard(), SetStage(1), Pause(True), Pause(False)):
            _expect_messages(worker.handle(order), "handle")
    return ""


def a_save_is_answered_with_a_state_that_can_be_written(trial: Trial) -> str:
    with closing(trial.build()) as worker:
        worker.poll(0.0)
        _expect_messages(worker.handle(Save(1, 0)), "handle")
        to_bytes(worker.state(0))
    return ""


def a_state_can_be_restored(trial: Trial) -> str:
    with closing(trial.build()) as first:
        for _ in range(POLLS):
            first.poll(0.0)
        saved = to_bytes(first.state(0))
    if not saved:
        return "it keeps none"
    with closing(trial.build()) as second:
        second.restore(from_tensors(to_tensors(saved)))
        expect(to_bytes(second.state(0)) == saved, "state(restore(s)) is not s: restore everything that state gives")
    return ""


def it_can_be_closed_at_once(trial: Trial) -> str:
    trial.build().close()
    return ""


def _expect_messages(said: object, what: str) -> None:
    expect(isinstance(said, list), f"{what} returned {type(said).__name__}: return a list of messages, empty for none")
    for message in _all(said):
        expect(
            isinstance(message, Message),
            f"{what} gave a {type(message).__name__}: inherit from shoal.api.messages.Message",
        )


def _all(said: object) -> Iterator[object]:
    yield from said  # type: ignore[misc]


_CHECKS: tuple[Callable[[Trial], str], ...] = (
    a_spec_is_data, a_worker_has_the_name_of_its_spec, polls_return_messages_at_once, messages_can_be_sent,
    orders_that_it_does_not_know_are_passed_over, a_save_is_answered_with_a_state_that_can_be_written,
    a_state_can_be_restored, it_can_be_closed_at_once,
)  # fmt: skip
