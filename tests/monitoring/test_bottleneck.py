from typing import Any

import pytest

from shoal.api.metric import Mean, Total
from shoal.monitoring.bottleneck import TimeAccount, bottleneck


def shares(**kinds: tuple[float, ...]) -> dict[str, dict[str, float]]:
    """worked, waited_input, waited_slot, and for actors inference."""
    names = ("worked", "waited_input", "waited_slot", "inference")
    return {kind: dict(zip(names, numbers, strict=False)) for kind, numbers in kinds.items()}


def line(kinds: dict[str, dict[str, float]], **how: Any) -> str:
    found = bottleneck(kinds, **{"max_lag": 1, **how})
    assert found is not None
    return found


def test_sampling_overlapped() -> None:
    said = line(shares(actor=(0.93, 0.01, 0.02, 0.04), trainer=(0.10, 0.90, 0.0)))
    assert said.startswith(
        "bottleneck: sampling (actors stepped 93 % of the time, the trainer waited 90 % for experience): "
        "more placement.actors would move it"
    )
    assert "env.vector" in said
    assert "max_lag" not in said


def test_sampling_in_lock_step() -> None:
    said = line(shares(actor=(0.60, 0.0, 0.35, 0.05), trainer=(0.35, 0.65, 0.0)), max_lag=0)
    assert "sampling (actors stepped 60 % of the time" in said
    assert "more placement.actors would move it, or placement.max_lag: 1" in said


def test_learning_overlapped() -> None:
    said = line(shares(actor=(0.30, 0.0, 0.60, 0.10), trainer=(0.97, 0.03, 0.0)))
    assert said == (
        "bottleneck: learning (the trainer learned 97 % of the time, actors waited 60 % for free slots): "
        "fewer algorithm.epochs or updates would move it, or more placement.trainers"
    )


def test_learning_in_lock_step() -> None:
    said = line(shares(actor=(0.25, 0.0, 0.70, 0.05), trainer=(0.70, 0.30, 0.0)), max_lag=0)
    assert "bottleneck: learning" in said
    assert (
        "fewer algorithm.epochs or updates would move it, or placement.max_lag: 1, so that sampling and learning overlap"
        in said
    )


def test_inference_of_policy_workers() -> None:
    said = line(shares(actor=(0.20, 0.78, 0.02, 0.0), policy=(0.95, 0.05, 0.0), trainer=(0.40, 0.60, 0.0)))
    assert said == (
        "bottleneck: inference (policy workers decided 95 % of the time, actors waited 78 % for decisions): "
        "more placement.policy_workers would move it, or placement.inference: inline"
    )


@pytest.mark.parametrize("max_lag", [0, 1])
def test_inference_in_the_actors(max_lag: int) -> None:
    said = line(shares(actor=(0.20, 0.0, 0.05, 0.75), trainer=(0.30, 0.70, 0.0)), max_lag=max_lag)
    assert said.startswith("bottleneck: inference (actors decided 75 % of the time, the trainer waited 70 %")
    assert "placement.inference: worker would move it" in said


def test_policy_workers_count_and_not_what_actors_say_of_inference() -> None:
    said = line(shares(actor=(0.50, 0.0, 0.0, 0.50), policy=(0.1, 0.9, 0.0), trainer=(0.40, 0.60, 0.0)))
    assert "bottleneck: sampling" in said


@pytest.mark.parametrize(
    ("actor", "trainer", "name"),
    [((0.6, 0.0, 0.3, 0.1), 0.3, "sampling"), ((0.2, 0.0, 0.3, 0.5), 0.3, "inference"), ((0.2, 0.0, 0.7, 0.1), 0.7, "learning")],
)  # fmt: skip
def test_workers_that_share_a_process_need_processes(actor: tuple[float, ...], trainer: float, name: str) -> None:
    said = line(shares(actor=actor, trainer=(trainer, 1 - trainer, 0.0)), max_lag=0, one_process=True)
    assert f"bottleneck: {name}" in said
    assert "--on local" in said


def test_buffer_workers_may_be_what_holds_it_back() -> None:
    known = shares(actor=(0.5, 0.0, 0.5, 0.0), trainer=(0.4, 0.6, 0.0))
    said = line({**known, **shares(buffer=(0.9, 0.1, 0.0))}, max_lag=1)
    assert said.startswith("bottleneck: replay (buffer workers kept and drew 90 % of the time, the trainer waited 60 %")
    assert said.endswith("more placement.buffers would move it")
    assert "bottleneck: sampling" in line({**known, **shares(buffer=(0.4, 0.6, 0.0))}, max_lag=1)


def test_half_a_picture_says_nothing() -> None:
    assert bottleneck(shares(trainer=(0.9, 0.1, 0.0)), max_lag=0) is None
    assert bottleneck({}, max_lag=0) is None


def report(kind: str, worked: float, seconds: float) -> dict[str, Any]:
    return {
        f"time/{kind}_worked": Mean(worked, seconds),
        f"time/{kind}_waited_input": Mean(1 - worked, seconds),
        "train/rows": Total(5),
    }


def test_the_account_weighs_by_seconds() -> None:
    account = TimeAccount()
    for kind, worked, seconds in (("actor", 1.0, 3.0), ("actor", 0.0, 1.0), ("trainer", 0.5, 2.0)):
        account.add(report(kind, worked, seconds))
    assert account.shares() == {
        "actor": {"worked": 0.75, "waited_input": 0.25},
        "trainer": {"worked": 0.5, "waited_input": 0.5},
    }
    assert account.seconds == 2.0
    said = account.line(max_lag=1)
    assert said is not None
    assert "actors stepped 75 %" in said


def test_less_than_a_second_says_nothing() -> None:
    account = TimeAccount()
    assert account.line(max_lag=0) is None
    account.add(report("actor", 0.9, 50.0))
    account.add(report("trainer", 0.1, 0.9))
    assert account.line(max_lag=0) is None
    account.add(report("trainer", 0.1, 0.2))
    assert account.line(max_lag=0) is not None
