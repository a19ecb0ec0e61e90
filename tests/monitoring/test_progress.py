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


def test_the_time_left_does_not_jump() -> None:
    """A hundred rows a second, every fiftieth of which takes half a second: what is left goes down, and by what has passed."""
    clock = Clock()
    progress = Progress(stop(steps=1_000_000), clock)
    began, ends = clock.now, []
    for i in range(1, 3001):
        clock.now += 0.5 if i % 50 == 0 else 0.01
        progress.add({"step": 100 * i, "update": i, "time/elapsed": clock.now - began})
        if i > 500:
            left = progress.nearest().seconds_left
            assert left is not None
            ends.append(clock.now - began + left)
    assert max(ends) - min(ends) < 0.05 * (sum(ends) / len(ends)), "when it will end is always about the same moment"


def test_the_time_left_follows_the_speed() -> None:
    clock = Clock()
    progress = Progress(stop(steps=1_000_000), clock)
    for i in range(1, 121):
        clock.now += 1.0
        progress.add({"step": 1000 * i, "update": i, "time/elapsed": float(i)})
    for i in range(1, 61):
        clock.now += 1.0
        progress.add({"step": 120_000 + 100 * i, "update": 120 + i, "time/elapsed": 120.0 + i})
    assert progress.nearest().seconds_left == pytest.approx(874_000 / 100, rel=0.01), (
        "a minute later, only the new one counts"
    )


def test_the_time_left_is_no_more_exact_than_anybody_knows() -> None:
    clock = Clock()
    shown = []
    for seconds in (8.2, 63.0, 187.0, 754.0, 3590.0, 7812.0):
        progress = Progress(stop(seconds=seconds), clock)
        progress.add({"step": 1})
        shown.append(progress.left_text())
    assert shown == ["~8 s", "~1m 05s", "~3m 05s", "~13m", "~1h 00m", "~2h 10m"]


def test_the_best_return_is_one_of_enough_episodes() -> None:
    progress = Progress(stop(), Clock())
    for value, episodes in ((90.0, 5), (40.0, 100), (60.0, 200), (50.0, 300)):
        progress.add({"step": 1, "rollout/ep_rew_mean": value, "rollout/episodes": episodes})
    assert progress.best == {"rollout/ep_rew_mean": 60.0}


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


def test_the_best_evaluation_is_told_once_it_is_not_the_newest() -> None:
    progress = Progress(stop(), Clock())
    told = []
    for mean, version in ((20.0, 3), (50.0, 5), (30.0, 7), (float("nan"), 9)):
        progress.add({"step": 1, **judged(mean, version)})
        told.append(progress.best_text())
    assert told == ["", "", "best 50.0 by version 5", "best 50.0 by version 5"]
    progress.add({"step": 2, **judged(1.0, 11), "eval/stage": 1})
    assert progress.best_text() == "", "a later stage counts for more"


def test_faults_add_up() -> None:
    progress = Progress(stop(), Clock())
    progress.add({"step": 1, "rollout/restarts": 2, "rows/lost": 10, "rows/stale": 5, "rows/surplus": 7})
    progress.add({"step": 2, "rows/lost": 30, "rows/stale": 5, "rows/surplus": 7})
    progress.add(
        {"step": 3, "rollout/restarts": 1, "rows/lost": 30, "rows/stale": 5, "train/a/lag": 1, "train/b/lag": 3}
    )
    assert (progress.restarts, progress.dropped, progress.lag) == (3, 35, 3)
