from typing import Any

import pytest

from shoal.api.experiment import StopConfig
from shoal.monitoring.progress import Progress, elapsed_text, sparkline


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def stop(**rules: Any) -> StopConfig:
    return StopConfig.parse(rules)


def feed(progress: Progress, clock: Clock, rows: int, steps: int = 1000, **values: Any) -> None:
    for i in range(1, rows + 1):
        clock.now += 1.0
        progress.add({"step": i * steps, "update": i, "time/elapsed": float(i), **values})


def test_the_nearest_rule_is_shown() -> None:
    clock = Clock()
    progress = Progress(stop(steps=100_000, updates=20, seconds=1000), clock)
    feed(progress, clock, 5)
    fractions = {rule.name: rule.fraction for rule in progress.rules()}
    assert fractions == {"steps": 0.05, "updates": 0.25, "time": 0.005}
    assert progress.nearest().name == "updates"
    assert progress.nearest().text == "5 of 20"


def test_time_left_is_that_of_the_first_rule_to_strike() -> None:
    clock = Clock()
    progress = Progress(stop(steps=10_000, updates=1000), clock)
    assert progress.left_text() == "-"
    feed(progress, clock, 4)
    assert progress.left_text() == "~6 s"
    clock.now += 2.0
    assert progress.left_text() == "~4 s", "the clock goes on between rows"
    assert progress.elapsed == 6.0


def test_a_goal_makes_the_time_left_an_upper_bound() -> None:
    clock = Clock()
    progress = Progress(stop(steps=10_000, **{"return": 475}), clock)
    feed(progress, clock, 4)
    assert progress.left_text() == "<6 s"


def test_return_counts_from_where_it_began() -> None:
    progress = Progress(stop(**{"return": 100}), Clock())
    fractions = []
    for value in (20.0, 60.0, 10.0, float("nan"), 120.0):
        progress.add({"step": 1, "rollout/ep_rew_mean": value})
        fractions.append(progress.rules()[-1].fraction)
    assert fractions == [0.0, 0.5, 0.0, 0.0, 1.0]


def test_a_goal_below_the_start_is_no_division_by_zero() -> None:
    progress = Progress(stop(**{"return": -10}), Clock())
    for value, fraction in ((-10.0, 1.0), (-20.0, 0.0), (-5.0, 1.0)):
        progress.add({"step": 1, "rollout/ep_rew_mean": value})
        assert progress.rules()[-1].fraction == fraction


def test_rows_that_stand_still_are_no_division_by_zero() -> None:
    progress = Progress(stop(steps=10), Clock())
    for _ in range(3):
        progress.add({"step": 5})
    assert progress.rules()[0].seconds_left is None


def test_history_is_bounded_and_keeps_its_shape() -> None:
    progress = Progress(stop(), Clock())
    for i in range(10_000):
        progress.add({"step": i, "rollout/ep_rew_mean": float(i)})
    returns = progress.history("rollout/ep_rew_mean")
    assert len(returns) < 256
    assert returns == sorted(returns)
    assert returns[-1] == pytest.approx(10_000, rel=0.02)


def test_sparkline() -> None:
    assert sparkline([], 10) == ""
    assert sparkline([5.0], 10) == "▁"
    assert sparkline([1.0, 1.0, 1.0], 10) == "▁▁▁"
    assert sparkline([float(i) for i in range(8)], 8) == "▁▂▃▄▅▆▇█"
    assert sparkline([float(i) for i in range(800)], 8) == "▁▂▃▄▅▆▇█"
    assert len(sparkline([float(i) for i in range(37)], 10)) == 10
    assert sparkline([1.0], 0) == ""


def test_elapsed_text() -> None:
    assert [elapsed_text(s) for s in (1.66, 59.4, 59.97, 61.0, 7300.0)] == [
        "1.7 s",
        "59.4 s",
        "1m 00s",
        "1m 01s",
        "2h 01m",
    ]


def judged(mean: float, version: int) -> dict[str, float]:
    return {
        "eval/mean_reward": mean,
        "eval/ci_low": mean - 5,
        "eval/ci_high": mean + 5.5,
        "eval/version": version,
        "eval/steps": 1,
    }


def test_the_newest_evaluation_stays_until_the_next() -> None:
    progress = Progress(stop(steps=100), Clock())
    progress.add({"step": 1, "eval/mean_reward": 3.0})  # of a confirmation
    assert progress.evaluated_text() == ""
    progress.add({"step": 2, **judged(1040.0, 7)})
    progress.add({"step": 3})
    assert progress.evaluated_text() == "1,040.0 (1,035.0 to 1,045.5) by version 7"
    progress.add({"step": 4, **judged(20.0, 9)})
    assert progress.evaluated_text() == "20.0 (15.0 to 25.5) by version 9"


def test_a_goal_is_held_against_evaluations_where_there_are_any() -> None:
    progress = Progress(stop(**{"return": 100}), Clock())
    progress.add({"step": 1, "rollout/ep_rew_mean": 0.0})
    progress.add({"step": 2, "rollout/ep_rew_mean": 10.0})
    assert next(rule for rule in progress.rules() if rule.name == "return").fraction == pytest.approx(0.1)
    progress.add({"step": 3, "rollout/ep_rew_mean": 10.0, **judged(80.0, 7)})
    progress.add({"step": 4, "rollout/ep_rew_mean": 10.0})
    rule = next(rule for rule in progress.rules() if rule.name == "return")
    assert (rule.fraction, rule.text) == (pytest.approx(0.8), "80.0 of 100")


def test_a_goal_is_held_against_the_episodes_that_promise_it() -> None:
    progress = Progress(stop(**{"return": 100}), Clock())
    progress.add({"step": 1, "rollout/ep_rew_mean": 0.0})
    progress.add({"step": 2, "rollout/ep_rew_mean": 40.0, "rollout/recent_return": 90.0})
    assert progress.rules()[-1].text == "90.0 of 100"
