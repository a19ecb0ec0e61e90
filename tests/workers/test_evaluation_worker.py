"""The evaluation worker without a run around it: what it takes, what it holds, what it tells."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from shoal.api.env import Env
from shoal.api.evaluation import Evaluation
from shoal.api.experiment import EvaluationConfig, PastConfig, StopConfig
from shoal.api.messages import Evaluated, Evaluating, Numbers
from shoal.api.orders import Evaluate, SetStage
from shoal.base.seeding import Noise
from shoal.envs.gymnasium_loop import GymnasiumLoop
from shoal.evaluation.evaluator import Evaluator
from shoal.rollout.players import FixedInference, RandomPolicy
from shoal.rollout.seat import Seat
from shoal.streams.past import Pool
from shoal.streams.transports.memory import MemoryMailbox, NoWaiting
from shoal.workers.evaluation import STEPS_PER_POLL, EvaluationWorker, Rules
from shoal.workers.weights import EarlierVersions, Weights
from tests.envs.sample_worlds import Counting
from tests.workers.said import only

NBYTES = 8


class Staged(GymnasiumLoop):
    """Environments that note which stage they are put into."""

    def __init__(self, worlds: list[Any]) -> None:
        super().__init__(worlds, "counting")
        self.stages: list[int] = []

    def enter(self, stage: int) -> None:
        self.stages.append(stage)


class Desk:
    """A worker, and what a run would do with it."""

    def __init__(self, *, evaluated: int = -1, length: int = 3, last_stage: int = 0, **stop: Any) -> None:
        self.arriving = MemoryMailbox(NBYTES, 2)
        plan: Any = SimpleNamespace(algorithm=SimpleNamespace(flat=SimpleNamespace(nbytes=NBYTES)))
        self.weights = Weights({"agent": self.arriving}, {"agent": plan})
        self.seated: list[int] = []
        self.worlds = [Counting(length) for _ in range(2)]
        self.env: Any = Staged(list(self.worlds))
        config = EvaluationConfig(every=1.0, episodes=4)
        rules = Rules(config, StopConfig(**stop), seed=1, timeout=60.0, last_stage=last_stage)
        self.worker = EvaluationWorker(
            "evaluation", self.env, self.weights, self._seat, rules, NoWaiting(), evaluated=evaluated
        )

    @property
    def held(self) -> int:
        """The number in the parameters that the worker has now."""
        block, box = np.zeros(NBYTES, np.uint8), self.weights.held["agent"]
        assert box.read(box.latest(), block)
        return int(block[0])

    def _seat(self, env: Env) -> Evaluator:
        self.seated.append(self.held)
        policy = RandomPolicy(env.groups["agent"])
        seat = Seat("agent", "agent", FixedInference(policy, explore=True), Noise(1, "x", np.arange(2), 1), None)
        return Evaluator(env, [seat], scored=["agent"])

    def save(self, version: int, *, order: bool = True, stage: int = 0) -> None:
        """Its parameters are its number."""
        self.arriving.publish(version, np.full(NBYTES, version, np.uint8))
        if order:
            self.order(version, stage)

    def order(self, version: int, stage: int = 0) -> None:
        assert self.worker.handle(Evaluate(version, 10 * version, stage)) == []

    def begin(self) -> int:
        return only(self.worker.poll(0.0), Evaluating).version

    def finish(self, polls: int = 100) -> Evaluation:
        for _ in range(polls):
            (message,) = self.worker.poll(0.0)
            if isinstance(message, Evaluated):
                return message.evaluation
            assert message == Numbers()
        raise AssertionError("it does not come to an end")


def test_it_waits_for_orders_not_for_parameters() -> None:
    desk = Desk()
    assert desk.worker.poll(0.0) == []
    desk.save(1, order=False)
    assert desk.worker.poll(0.0) == []
    assert desk.worker.handle(SetStage(3)) == []
    assert desk.worker.poll(0.0) == [], "that was no order of this kind"
    desk.save(2)
    assert desk.begin() == 2
    evaluation = desk.finish()
    assert (evaluation.version, evaluation.steps, evaluation.scores.lengths) == (2, 20, [3, 3, 3, 3])
    assert evaluation.confirmation is None
    assert desk.worker.poll(0.0) == []


def test_an_order_waits_for_its_parameters() -> None:
    desk = Desk()
    desk.save(1, order=False)
    desk.order(2)
    assert desk.worker.poll(0.0) == []
    desk.save(2, order=False)
    assert desk.begin() == 2


def test_what_comes_meanwhile_waits_and_the_newest_is_next() -> None:
    desk = Desk()
    desk.save(1)
    assert desk.begin() == 1
    desk.save(2)
    desk.save(3)
    assert desk.finish().version == 1
    assert desk.begin() == 3
    assert desk.finish().version == 3
    assert desk.seated == [1, 3]


def test_a_poll_is_short() -> None:
    desk = Desk(length=1000)
    desk.save(1)
    desk.begin()
    desk.worker.poll(0.0)
    assert len(desk.worlds[0].actions) == STEPS_PER_POLL


def test_equal_versions_are_evaluated_alike_whatever_was_evaluated_before() -> None:
    desk = Desk()
    desk.save(4)
    desk.begin()
    desk.finish()
    seeds = [world.seeds[-3:-1] for world in desk.worlds]
    desk.save(5)
    desk.begin()
    desk.finish()
    assert [world.seeds[-3:-1] for world in desk.worlds] != seeds, "other versions have other seeds"
    again = Desk(evaluated=4)
    again.save(4)
    assert again.worker.poll(0.0) == [], "an earlier life did"
    again.save(5)
    again.begin()
    again.finish()
    assert [world.seeds for world in again.worlds] == [world.seeds[3:] for world in desk.worlds]


def test_what_is_evaluated_stays_as_it_is_while_newer_parameters_arrive() -> None:
    desk = Desk(length=1000)  # two versions have a place on their way
    desk.save(1)
    desk.begin()
    for version in (2, 3, 4):
        desk.save(version)
        desk.worker.poll(0.0)
        assert desk.held == 1
    assert desk.finish(1000).version == 1
    assert desk.begin() == 4
    assert desk.held == 4


def test_a_version_that_is_gone_is_passed_over() -> None:
    desk = Desk()
    desk.save(1)
    desk.save(2, order=False)
    desk.save(3, order=False)
    assert not desk.arriving.read(1, np.zeros(NBYTES, np.uint8))
    assert desk.worker.poll(0.0) == [Numbers()]
    assert desk.seated == []
    assert desk.worker.poll(0.0) == []
    desk.save(4)
    assert desk.begin() == 4


def test_environments_are_in_the_stage_of_the_version() -> None:
    desk = Desk(last_stage=2, return_=6.0, episodes=5)
    desk.save(1, stage=1)
    desk.begin()
    first = desk.finish()
    desk.save(2, stage=2)
    desk.begin()
    second = desk.finish()
    assert desk.env.stages == [1, 2]
    assert (first.stage, second.stage) == (1, 2)
    assert (first.confirmation is None, second.confirmation is None) == (True, False), "the goal is that of the last"


def test_a_goal_is_confirmed_by_the_same_version_on_fresh_seeds() -> None:
    desk = Desk(return_=6.0, episodes=5)  # 1 + 2 + 3
    desk.save(1)
    desk.begin()
    desk.save(2)
    evaluation = desk.finish()
    assert evaluation.version == 1
    assert evaluation.confirmation is not None
    assert (len(evaluation.scores.returns), len(evaluation.confirmation.returns)) == (4, 5)
    assert desk.seated == [1]
    seeds = desk.worlds[0].seeds
    assert len(seeds) == len(set(seeds))


def test_a_goal_that_is_not_reached_is_not_confirmed() -> None:
    desk = Desk(return_=6.1)
    desk.save(1)
    desk.begin()
    assert desk.finish().confirmation is None


def test_earlier_versions_are_those_that_training_keeps_and_never_itself() -> None:
    box = MemoryMailbox(NBYTES, 8)
    for number in range(6):
        box.publish(number, np.full(NBYTES, number, np.uint8))
    earlier = EarlierVersions(
        PastConfig(of="agent", every=2, keep=3, spread=True), Pool([0], 3, spread=True), box, NBYTES
    )
    weights = Weights({}, {}, [earlier])
    assert weights.arrived(7)
    assert weights.hold(7)
    assert {version: int(blocks["agent"][0]) for version, blocks in weights.past.items()} == {0: 0, 4: 2, 6: 3}
    weights.hold(10)
    assert sorted(weights.past) == [0, 8]


def test_what_training_no_longer_keeps_is_not_met() -> None:
    box = MemoryMailbox(NBYTES, 1)
    earlier = EarlierVersions(PastConfig(of="agent", every=1), Pool([0], 5, spread=False), box, NBYTES)
    weights = Weights({}, {}, [earlier])
    assert not weights.arrived(3)
    box.publish(9, np.full(NBYTES, 9, np.uint8))
    assert weights.arrived(3)
    weights.hold(3)
    assert list(weights.past) == [9]
