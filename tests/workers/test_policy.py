"""The policy worker without a run around it: batches of whatever waits, versions by round, and each answer to its own client."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from shoal.api.env import AgentGroup
from shoal.api.messages import Numbers
from shoal.api.metric import Mean
from shoal.api.policy import Decision, Policy, Request
from shoal.base.faults import Faults, parse_faults
from shoal.base.flat import Flat
from shoal.streams.inference import Ask
from shoal.streams.inference_rings import SLOTS, AskLine, RingInference, inference_layouts
from shoal.streams.parameter import ParameterReader
from shoal.streams.transports.memory import MemoryMailbox, MemoryRing, NoWaiting
from shoal.workers.policy import PolicyWorker, PolicyWorkerSpec, joined
from tests.workers.said import only

GROUP = AgentGroup(("a",), spaces.Box(-9, 9, (1,), np.float32), spaces.Box(-9, 9, (), np.float32))
LANES = 3


class Scaling(Policy):
    """Acts with what it sees times its parameter, and counts its forwards."""

    noise_size = 1
    extras = {"seen": ()}

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))
        self.forwards: list[int] = []

    def initial_state(self, batch: int) -> None:
        return None

    def act(self, request: Request, *, explore: bool) -> Decision:
        assert explore
        self.forwards.append(len(request.first))
        seen = request.observation[:, 0]
        return Decision(seen * self.scale, {"seen": seen}, None)


class World:
    """Some clients, one worker, and a trainer's mailbox."""

    def __init__(self, clients: int, *, exact: bool = True, max_lag: int = 0, faults: str = "") -> None:
        self.policy = Scaling()
        flat = Flat(self.policy, gradients=False)
        self.nbytes = flat.nbytes
        self.box = MemoryMailbox(flat.nbytes, max_lag + 1)
        ask, answer = inference_layouts(GROUP, self.policy, LANES, None)
        self.rings = [(MemoryRing(ask, SLOTS), MemoryRing(answer, SLOTS)) for _ in range(clients)]
        self.clients = [RingInference(*pair) for pair in self.rings]
        reader = ParameterReader(self.box, flat, max_lag=max_lag, exact=exact)
        orders = Faults(parse_faults(faults, {"policy": PolicyWorkerSpec.events}), "policy", "policy-agent-0")
        lines = [AskLine(*pair) for pair in self.rings]
        self.worker = PolicyWorker("policy-agent-0", self.policy, reader, lines, NoWaiting(), faults=orders)

    def publish(self, version: int) -> None:
        """Its parameter is ten times its version."""
        self.box.publish(version, np.full(self.nbytes // 4, version * 10, np.float32).view(np.uint8))

    def ask(self, client: int, number: float, round_: int = 0) -> None:
        self.clients[client].pin(round_)
        seen = np.full((LANES, 1), number, np.float32)
        self.clients[client].ask(Ask(seen, np.zeros(LANES, np.bool_), np.zeros((LANES, 1), np.float32), None, None))

    def heard(self, client: int) -> tuple[float, int] | None:
        """What it was told to do, and by which version."""
        answer = self.clients[client].answer(0.0)
        if answer is None:
            return None
        assert len(set(answer.action.tolist())) == 1
        return float(answer.action[0]), answer.version


def test_an_idle_worker_says_nothing() -> None:
    world = World(2)
    world.publish(0)
    assert world.worker.poll(0.0) == []


def test_whatever_waits_is_one_forward() -> None:
    world = World(3)
    world.publish(0)
    world.publish(1)
    for client, number in ((2, 3.0), (0, 1.0)):
        world.ask(client, number, round_=1)
    said = only(world.worker.poll(0.0), Numbers)
    assert said.metrics["inference/batch"] == Mean(2 * LANES)
    assert world.policy.forwards == [16]  # padded
    assert [world.heard(client) for client in range(3)] == [(10.0, 1), None, (30.0, 1)]
    assert world.worker.poll(0.0) == []


def test_nobody_waits_for_company() -> None:
    world = World(2)
    world.publish(0)
    for number in range(1, 6):
        world.ask(0, number)
        assert only(world.worker.poll(0.0), Numbers).metrics["inference/batch"] == Mean(LANES)
        assert world.heard(0) == (0.0, 0)


def test_rounds_of_different_actors_have_their_own_versions() -> None:
    world = World(3, max_lag=1)
    world.publish(0)
    world.publish(1)
    world.ask(0, 1.0, round_=2)
    world.ask(1, 1.0, round_=1)
    world.ask(2, 1.0, round_=3)  # version 2 is not there yet
    assert only(world.worker.poll(0.0), Numbers).metrics["inference/batch"] == Mean(2 * LANES)
    assert len(world.policy.forwards) == 2
    assert [world.heard(client) for client in range(3)] == [(10.0, 1), (0.0, 0), None]
    assert world.worker.poll(0.0) == []
    world.publish(2)
    assert world.worker.poll(0.0)
    assert world.heard(2) == (20.0, 2)


def test_a_round_whose_version_is_gone_is_answered_all_the_same() -> None:
    """A trainer died in round 0: actor 1 is still in it when version 1 comes and takes the only place."""
    world = World(2)
    world.publish(0)
    world.ask(1, 1.0, round_=0)
    assert world.worker.poll(0.0)
    assert world.heard(1) == (0.0, 0)
    world.publish(1)
    world.ask(0, 1.0, round_=1)
    assert world.worker.poll(0.0)
    world.ask(1, 1.0, round_=0)
    assert world.worker.poll(0.0)
    assert [world.heard(client) for client in range(2)] == [(10.0, 1), (10.0, 1)]


def test_the_newest_version_decides_where_runs_need_not_be_exact() -> None:
    world = World(2, exact=False, max_lag=1)
    world.ask(0, 1.0)
    assert world.worker.poll(0.0) == []
    world.publish(4)
    assert world.worker.poll(0.0)
    assert world.heard(0) == (40.0, 4)
    world.publish(5)
    world.ask(1, 1.0, round_=99)
    assert world.worker.poll(0.0)
    assert world.heard(1) == (50.0, 5)


def test_faults_count_batches() -> None:
    world = World(1, faults="policy@batch=2:raise")
    world.publish(0)
    world.ask(0, 1.0)
    assert world.worker.poll(0.0)
    assert world.heard(0) is not None
    world.ask(0, 1.0)
    with pytest.raises(RuntimeError, match="ordered by SHOAL_FAULT"):
        world.worker.poll(0.0)
    assert world.heard(0) is not None  # it died with its work done


def test_joining_keeps_the_order_and_what_is_not_there() -> None:
    asks = [
        Ask({"x": np.full((n, 2), n)}, np.ones(n, np.bool_), np.zeros((n, 1)), (np.full((n, 1), n),), None)
        for n in (1, 3)
    ]
    whole = joined(asks)
    assert whole.observation["x"][:, 0].tolist() == [1, 3, 3, 3]
    assert whole.state[0][:, 0].tolist() == [1, 3, 3, 3]
    assert whole.action_mask is None
    assert joined(asks[:1]) is asks[0]
