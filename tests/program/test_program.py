"""A Program is data: it goes through JSON unchanged, follows from the experiment alone, and holds nothing that is built or open."""

from __future__ import annotations

import functools
import gc
import os
import subprocess
import sys
import types
from typing import Any

import pytest
import torch
from torch import nn

from shoal.api.algorithm import Algorithm
from shoal.api.env import Env
from shoal.api.experiment import Experiment, load_experiment
from shoal.api.program import (
    CONTROLLER,
    MailboxStream,
    Program,
    RingStream,
    SharedStream,
    TallyStream,
)
from shoal.api.worker import Worker
from shoal.program.expand import expand
from shoal.recipes import find
from shoal.rollout.plans import Plans
from shoal.streams import names

RECIPES = [
    "acrobot", "cartpole", "cartpole-a2c", "cartpole-a3c", "cartpole-a4c", "cartpole-a4q", "cartpole-appo", "cartpole-dqn",
    "cartpole-impala", "cartpole-memory", "cartpole-memory-r2d2", "deep-sea", "deep-sea-stages", "memory-corridor",
    "multi-cartpole", "pendulum", "pendulum-sac", "reference", "speaker-listener", "spread", "tag", "two-step-game",
]  # fmt: skip
DQN = {"name": "dqn", "unroll": 4, "batch": 32, "capacity": 1024, "warmup": 64}
DUEL: dict[str, Any] = {
    "env": {"id": "tests.launchers.duel:pair", "num_envs": 8},
    "agents": {"player_0": "one", "*": "two"},
}
EVALUATED = {"every": "1m", "episodes": 4}
SHAPES: dict[str, dict[str, Any]] = {
    "one process": {},
    "actors": {"placement": {"actors": 4, "max_lag": 1}},
    "ring of envs": {"placement": {"actors": 2, "ring": 2, "max_lag": 1}},
    "a range of actors": {"placement": {"actors": {"min": 2, "max": 4}, "envs_per_actor": 2, "max_lag": 1}},
    "policy worker": {"placement": {"actors": 4, "inference": "worker", "policy_workers": 2}},
    "replicas in step": {"placement": {"trainers": 2}},
    "replicas beside actors": {"placement": {"trainers": 2, "actors": 4}},
    "hogwild": {"algorithm": {"name": "a3c", "unroll": 8}, "placement": {"trainers": 2}},
    "averaged replicas": {"placement": {"trainers": 2, "actors": 4, "agree": "average"}},
    "replay": {"algorithm": DQN},
    "buffers": {"algorithm": DQN, "placement": {"actors": 4, "buffers": 2}},
    "prioritised buffers": {"algorithm": {**DQN, "prioritised": True}, "placement": {"actors": 2, "buffers": 2}},
    "evaluation": {"evaluation": EVALUATED, "placement": {"actors": 2}},
    "two policies": {**DUEL, "placement": {"actors": 2}},
    "two policies and policy workers": {**DUEL, "placement": {"actors": 2, "inference": "worker"}},
    "two policies, replicas in step, evaluation": {**DUEL, "placement": {"trainers": 2}, "evaluation": EVALUATED},
    "self-play": {
        **DUEL,
        "deal": "shuffled",
        "policies": {"one": {}, "two": {"past": {"of": "one", "every": 2, "keep": 3, "spread": True}}},
        "placement": {"actors": 2},
    },
    "opponents": {**DUEL, "policies": {"one": {"model": "gru"}, "two": {"play": "random"}}},
    "a team": {"env": {"id": "shoal/two-step", "num_envs": 8}, "algorithm": {"name": "qmix", "unroll": 2}},
    "a central critic": {
        "env": {"id": "shoal/spread", "num_envs": 8},
        "algorithm": {"name": "ppo", "unroll": 8, "minibatch": 48, "critic": "central"},
    },
}


def experiment(name: str) -> Experiment:
    """A shape by its name, or a recipe."""
    if name not in SHAPES:
        return load_experiment(find(name), [])
    tree: dict[str, Any] = {
        "env": {"id": "CartPole-v1", "num_envs": 8},
        "algorithm": {"name": "ppo", "unroll": 8, "minibatch": 32},
        "model": {"name": "mlp", "hidden": [8]},
        "stop": {"updates": 4},
        "name": "shape",
    }
    return Experiment.parse({**tree, **SHAPES[name]})


@functools.cache
def program(name: str) -> Program:
    return expand(experiment(name))


everything = pytest.mark.parametrize("name", [*SHAPES, *RECIPES])


# ---------------------------------------------------------------- data


@everything
def test_it_goes_through_json_unchanged(name: str) -> None:
    before = program(name)
    after = Program.from_json(before.to_json())
    assert after == before
    assert after.to_json() == before.to_json()
    assert [type(worker) for worker in after.workers] == [type(worker) for worker in before.workers]
    assert list(after.streams) == list(before.streams)
    assert list(after.policies) == list(before.policies)


@everything
def test_equal_experiments_give_equal_programs(name: str) -> None:
    again = expand(experiment(name))
    assert again == program(name)
    assert again.to_json() == program(name).to_json()


def test_another_experiment_gives_another_program() -> None:
    assert program("actors") != program("one process")
    seeded = experiment("actors").model_copy(update={"seed": 12345})
    assert expand(seeded) != program("actors")


@pytest.mark.parametrize("name", ["two policies, replicas in step, evaluation", "prioritised buffers", "spread"])
def test_another_process_makes_the_same_of_it(name: str) -> None:
    """Whatever it hashes words with."""
    code = (
        "import sys; from tests.program.test_program import program; sys.stdout.write(program(sys.argv[1]).to_json())"
    )
    environ = {**os.environ, "PYTHONHASHSEED": "77"}
    made = subprocess.run([sys.executable, "-c", code, name], capture_output=True, text=True, check=True, env=environ)
    assert made.stdout == program(name).to_json()


@pytest.mark.parametrize("name", SHAPES)
def test_what_was_resolved_expands_to_the_same(name: str) -> None:
    first = program(name)
    again = expand(Experiment.parse(first.experiment.model_dump()))
    assert again.experiment == first.experiment
    assert (again.processes, again.streams) == (first.processes, first.streams)


@pytest.mark.parametrize("name", ["two policies", "a team", "buffers", "a central critic"])
def test_processes_build_equal_policies_from_it(name: str) -> None:
    one, two = Plans(program(name)), Plans(Program.from_json(program(name).to_json()))
    assert list(one) == list(two) == list(program(name).learners)
    for policy in one:
        assert torch.equal(one[policy].algorithm.flat.block, two[policy].algorithm.flat.block)
        assert one[policy].algorithm.needs == two[policy].algorithm.needs
        assert one[policy].algorithm.flat.nbytes == program(name).policies[policy].facts.nbytes


# ---------------------------------------------------------------- nothing built, nothing open

BUILT = (nn.Module, torch.Tensor, torch.optim.Optimizer, Algorithm, Env, Worker)
"""What no Program may lead to."""
_SHARED = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType, property)
"""Code, not data: what a class refers to is nobody's."""


def reached(start: Any) -> list[Any]:
    """Everything that an object holds, and all that these hold, but for code."""
    found: dict[int, Any] = {}
    waiting = [start]
    while waiting:
        thing = waiting.pop()
        if id(thing) in found or isinstance(thing, _SHARED):
            continue
        found[id(thing)] = thing
        waiting += gc.get_referents(thing)
    return list(found.values())


@everything
def test_no_network_and_no_environment_hangs_on_it(name: str) -> None:
    everything_held = reached(program(name))
    held = {type(thing).__name__ for thing in everything_held}
    assert {"PolicySpec", "Process", "RingStream", "Experiment", "Layout"} <= held, "the walk goes all the way"
    assert [thing for thing in everything_held if isinstance(thing, BUILT)] == []


def test_the_walk_would_find_them() -> None:
    plans = Plans(program("one process"))
    built = reached([plans["agent"]])
    assert any(isinstance(thing, nn.Module) for thing in built)
    assert any(isinstance(thing, torch.Tensor) for thing in built)


# ---------------------------------------------------------------- processes and streams


@everything
def test_every_stream_joins_processes_that_exist(name: str) -> None:
    found = program(name)
    known = {process.name for process in found.processes}
    for stream, plan in found.streams.items():
        match plan:
            case RingStream():
                assert plan.writer in known | {CONTROLLER}, stream
                assert plan.reader in known | {CONTROLLER}, stream
                assert {plan.writer, plan.reader} != {CONTROLLER}, stream
                assert plan.slots > 0, stream
            case MailboxStream():
                assert {plan.writer, *plan.readers} <= known | {CONTROLLER}, stream
                assert plan.readers, stream
                assert plan.versions > 0, stream
            case TallyStream():
                assert set(plan.ranks) <= known, stream
                assert len(plan.ranks) == found.trainers, stream
            case SharedStream():
                assert {*plan.writers, *plan.readers} <= known, stream
                assert len(plan.writers) == found.trainers, stream


@everything
def test_every_port_of_a_worker_is_an_end_of_its_stream(name: str) -> None:
    """And every ring has exactly one worker at each end."""
    found = program(name)
    plans, ends = Plans(found), {}
    for process in found.processes:
        for spec in process.workers:
            for port in spec.ports(found, plans):
                ends.setdefault((port.stream, port.end), []).append(process.name)
    for (stream, end), processes in ends.items():
        plan = found.streams[stream]
        if isinstance(plan, RingStream):
            assert processes == [plan.writer if end == "write" else plan.reader], (stream, end)
        elif isinstance(plan, MailboxStream) and end == "write":
            assert processes == [plan.writer], stream
        elif isinstance(plan, MailboxStream):
            assert set(processes) == set(plan.readers), stream
    rings = [stream for stream, plan in found.streams.items() if isinstance(plan, RingStream)]
    orders = {names.orders(process.name) for process in found.processes}
    assert orders <= set(rings), "every process has its orders"
    for stream in set(rings) - orders:
        assert {(stream, "write"), (stream, "read")} <= set(ends), stream


@everything
def test_workers_and_processes_have_names_of_their_own(name: str) -> None:
    found = program(name)
    workers, processes = [worker.name for worker in found.workers], [process.name for process in found.processes]
    assert len(set(workers)) == len(workers)
    assert len(set(processes)) == len(processes)
    assert CONTROLLER not in processes
    leading = [max(spec.leads for spec in process.workers) for process in found.processes]
    assert leading == sorted(leading, reverse=True), "trainers first"
    for process in found.processes:
        ranks = [spec.rank_in_process for spec in process.workers]
        assert ranks == sorted(ranks)
        assert found.process(process.name) is process


def test_who_works_where() -> None:
    def layout(name: str) -> dict[str, list[str]]:
        return {process.name: [spec.name for spec in process.workers] for process in program(name).processes}

    assert layout("one process") == {"trainer": ["actor-0", "trainer-agent-0"]}
    assert layout("replicas in step") == {
        "trainer-0": ["actor-0", "trainer-agent-0"],
        "trainer-1": ["actor-1", "trainer-agent-1"],
    }
    assert layout("evaluation") == {
        "trainer": ["trainer-agent-0"], "actor-0": ["actor-0"], "actor-1": ["actor-1"], "evaluation": ["evaluation"],
    }  # fmt: skip
    assert layout("buffers") == {
        "trainer": ["trainer-agent-0"], **{f"actor-{n}": [f"actor-{n}"] for n in range(4)},
        "buffer-agent-0": ["buffer-agent-0"], "buffer-agent-1": ["buffer-agent-1"],
    }  # fmt: skip
    assert layout("two policies and policy workers") == {
        "trainer": ["trainer-one-0", "trainer-two-0"], "actor-0": ["actor-0"], "actor-1": ["actor-1"],
        "policy-one-0": ["policy-one-0"], "policy-two-0": ["policy-two-0"],
    }  # fmt: skip


def test_who_falls_with_whom_and_who_must_be_there() -> None:
    fates = {process.name: process.fate for process in program("replicas beside actors").processes}
    assert {name: fate for name, fate in fates.items() if fate} == {"trainer-0": "trainers", "trainer-1": "trainers"}
    assert {process.fate for process in program("hogwild").processes} == {""}, "each for itself"
    needed = {process.name: process.needed for process in program("a range of actors").processes}
    assert [name for name, must in needed.items() if not must] == ["actor-2", "actor-3"]
