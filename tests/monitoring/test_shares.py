import timeit

import pytest

from shoal.api.metric import Mean, Metric, merge_into
from shoal.monitoring.shares import Shares, busy, by_kind, percent


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def values(metrics: dict[str, Metric]) -> dict[str, float]:
    return {name: metric.value for name, metric in metrics.items()}


def spend(shares: Shares, clock: Clock, **seconds: float) -> None:
    for state, span in seconds.items():
        shares.switch(state)
        clock.now += span


def test_every_second_is_in_one_state() -> None:
    clock = Clock()
    shares = Shares("actor", clock)
    spend(shares, clock, worked=3.0, inference=1.0, waited_slot=5.0, waited_input=1.0)
    taken = shares.take()
    assert values(taken) == pytest.approx(
        {
            "time/actor_worked": 0.3,
            "time/actor_inference": 0.1,
            "time/actor_waited_input": 0.1,
            "time/actor_waited_slot": 0.5,
        }
    )
    assert sum(values(taken).values()) == pytest.approx(1.0)
    assert all(metric.weight == pytest.approx(10.0) for metric in taken.values() if isinstance(metric, Mean))


def test_taking_starts_anew_and_the_state_goes_on() -> None:
    clock = Clock()
    shares = Shares("trainer", clock)
    spend(shares, clock, worked=1.0, waited_input=1.0)
    shares.take()
    clock.now += 4.0
    assert values(shares.take()) == {
        "time/trainer_worked": 0.0,
        "time/trainer_waited_input": 1.0,
        "time/trainer_waited_slot": 0.0,
    }
    assert shares.take() == {}, "no time has passed"


def test_a_switch_gives_the_way_back() -> None:
    clock = Clock()
    shares = Shares("actor", clock)
    before = shares.switch("inference")
    assert (before, shares.switch(before)) == ("worked", "inference")


def test_a_state_that_is_none_is_found() -> None:
    shares = Shares("trainer")
    shares.switch("inference")
    with pytest.raises(KeyError, match="inference"):
        shares.take()


def test_merged_shares_add_up_whatever_the_spans() -> None:
    clock = Clock()
    merged: dict[str, Metric] = {}
    for worked, waited in ((9.0, 1.0), (0.0, 0.5), (0.25, 2.0)):
        shares = Shares("actor", clock)
        spend(shares, clock, worked=worked, waited_slot=waited)
        merge_into(merged, shares.take())
    assert values(merged)["time/actor_worked"] == pytest.approx(9.25 / 12.75)
    assert sum(values(merged).values()) == pytest.approx(1.0)


def test_a_switch_costs_well_below_a_microsecond() -> None:
    seconds = min(
        timeit.repeat("switch('waited_slot')", globals={"switch": Shares("actor").switch}, number=2000, repeat=50)
    )
    print(f"{seconds / 2000 * 1e9:.0f} ns a switch")
    assert seconds / 2000 < 0.8e-6


def test_names_are_taken_apart() -> None:
    row = {
        "step": 5,
        "time/fps": 9.0,
        "time/trainer_waited_input": 0.6,
        "time/actor_worked": 0.9,
        "time/odd_worked": 0.1,
    }
    assert by_kind(row) == {"actor": {"worked": 0.9}, "trainer": {"waited_input": 0.6}, "odd": {"worked": 0.1}}
    assert list(by_kind(row)) == ["actor", "trainer", "odd"]


def test_words() -> None:
    assert busy({"worked": 0.5, "inference": 0.25, "waited_slot": 0.25}) == 0.75
    assert busy({"worked": 0.5}) == 0.5
    assert [percent(share) for share in (0.934, 0.0, 1.0, None)] == ["93 %", "0 %", "100 %", "-"]
