"""What a round may cost on a device: calls that wait for it, and bytes that go over. One more in a loop, and these fail."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import pytest

from shoal.algorithms.learner import Collecting, SoloLearner
from shoal.api.algorithm import Update
from shoal.api.experiment import Experiment
from shoal.api.messages import Updated
from shoal.base.transfer import Road
from shoal.base.tree import tree_leaves
from shoal.program.expand import expand
from shoal.rollout.plans import Plans
from shoal.streams import names
from shoal.streams.gate import GateKeeper
from shoal.streams.stream_set import MemoryStreams
from shoal.testing.device import Transfers, counted
from shoal.workers.actor import ActorSpec
from shoal.workers.context import Context, Life
from shoal.workers.trainer import TrainerSpec

REPLAYED = {"batch": 32, "updates": 4, "capacity": 400, "warmup": 32}
CASES: dict[str, tuple[dict[str, Any], int]] = {
    "ppo": ({"unroll": 16, "minibatch": 32, "epochs": 4}, 1),
    "impala": ({"unroll": 16}, 1),
    "dqn": ({"unroll": 4, **REPLAYED}, 4),
    "sac": ({"unroll": 1, **REPLAYED, "warmup": 4}, 4),
}
"""Algorithm -> settings, and updates per round."""


def experiment(name: str, **placement: Any) -> Experiment:
    kwargs = {"continuous": name == "sac"}
    return Experiment.parse(
        {
            "env": {"id": "tests.workers.wide:Wide", "num_envs": 4, "kwargs": kwargs, "vector": "loop"},
            "algorithm": {"name": name, **CASES[name][0]},
            "model": {"name": "mlp", "hidden": [16]},
            "placement": {"device": "shoal.testing.device:pretend", "max_lag": 0, **placement},
        }
    )


@pytest.mark.parametrize("name", ["dqn", "sac"])
def test_replay_that_lies_there_sends_what_is_new(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer bytes than batches have: each row once, and where to look for what is drawn."""
    costs = []
    for where in ("cpu", "trainer"):
        with second_round(name, monkeypatch, replay_device=where) as (transfers, _):
            assert transfers.synchronising <= 2 * CASES[name][1] + 1, transfers.waits
            costs.append(transfers.to_device)
    assert costs[1] < 0.5 * costs[0]


@contextmanager
def second_round(
    name: str, monkeypatch: pytest.MonkeyPatch, order: list[str] | None = None, **placement: Any
) -> Iterator[tuple[Transfers, int]]:
    """Play and learn; what the second round of learning cost, and the bytes of its batches and of the version it published."""
    program, sent, order = expand(experiment(name, **placement)), [0], [] if order is None else order
    streams = MemoryStreams(program)
    context = Context(program, Plans(program), streams, Life(starts=dict.fromkeys(program.learners, 0)), alone=True)
    (policy,) = program.learners
    GateKeeper(streams.mailbox(names.gate(policy, 0))).open(3)

    def send(self: Road, tree: Any) -> Any:
        sent[0] += sum(leaf.nbytes for _, leaf in tree_leaves(tree))
        order.append("send")
        return real(self, tree)

    real = Road.send
    monkeypatch.setattr(Road, "send", send)
    with ExitStack() as stack:
        trainer, *actors = [
            stack.enter_context(closing(spec.build(context)))
            for kind in (TrainerSpec, ActorSpec)
            for spec in program.workers
            if isinstance(spec, kind)
        ]
        for count in (False, False, True):
            for actor in actors:
                while actor.poll(0.0):
                    pass
            sent[0] = 0
            order.clear()
            with counted() as transfers:
                said = trainer.poll(0.0)
            assert isinstance(said[0], Updated)
            if count:
                assert said[0].metrics["train/grad_norm" if name != "sac" else "train/critic_grad_norm"].value > 0
                yield transfers, sent[0] + context.plans[policy].algorithm.flat.nbytes


@pytest.mark.parametrize("name", CASES)
def test_a_round_stays_within_its_budget(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    updates = CASES[name][1]
    with second_round(name, monkeypatch) as (transfers, nbytes):
        # each update waits for its rows and for its metrics, the round for its version
        assert transfers.synchronising <= 2 * updates + 1, transfers.waits
        assert transfers.nbytes <= 1.1 * nbytes
        assert transfers.to_device >= 0.5 * nbytes, "it did learn there"


def test_one_more_in_the_loop_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    step = SoloLearner.step

    def curious(self: SoloLearner, *args: Any) -> float:
        norm = step(self, *args)
        assert norm > 0
        return norm

    monkeypatch.setattr(SoloLearner, "step", curious)
    with second_round("ppo", monkeypatch) as (transfers, _):
        assert transfers.synchronising > 3
        assert transfers.waits["item"] == 8


@pytest.mark.parametrize(("name", "prioritised"), [("dqn", False), ("sac", False), ("dqn", True)])
def test_the_next_batch_is_on_its_way_before_the_last_is_waited_for(
    name: str, prioritised: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless what the last one was worth decides what is drawn. The numbers of waits and bytes are those of the budget."""
    settings, updates = CASES[name]
    monkeypatch.setitem(CASES, name, ({**settings, "prioritised": prioritised}, updates))
    order: list[str] = []
    real = Collecting.collect

    def collect(self: Collecting, update: Update) -> Update:
        order.append("wait")
        return real(self, update)

    monkeypatch.setattr(Collecting, "collect", collect)
    with second_round(name, monkeypatch, order) as (transfers, nbytes):
        assert (
            order == ["send", "wait"] * updates if prioritised else ["send", *["send", "wait"] * (updates - 1), "wait"]
        )
        assert transfers.synchronising <= 2 * updates + 1, transfers.waits
        assert transfers.nbytes <= 1.1 * nbytes
