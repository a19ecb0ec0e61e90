"""What a controller makes of evaluations: columns, the best version, what was passed over, what it cost."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.api.evaluation import Evaluation, Match, Scores
from shoal.api.messages import Evaluated, Evaluating
from shoal.evaluation.cost import EvaluationCost
from shoal.evaluation.scoreboard import Scoreboard
from shoal.streams.control import pack, unpack


def judged(version: int, *returns: float, confirmation: Scores | None = None) -> Evaluation:
    return Evaluation(version, 100 * version, Scores(list(returns), [3] * len(returns)), 2.0, confirmation)


def test_the_best_is_the_first_with_the_highest_mean() -> None:
    board = Scoreboard()
    told = [board.end(judged(*each), None)["best"] for each in [(1, 5, 7), (2, 1, 2), (3, 6, 6), (4, 10, 20)]]
    assert told == [True, False, False, True]
    assert board.best is not None
    assert (board.best.version, board.best.mean, board.evaluated) == (4, 15.0, 4)


def test_a_score_that_is_not_finite_is_never_the_best() -> None:
    board = Scoreboard()
    assert not board.end(judged(1, float("nan")), None)["best"]
    assert board.end(judged(2, -5.0), None)["best"]


def test_a_confirmed_version_is_the_best() -> None:
    board = Scoreboard()
    board.end(judged(1, 20.0, confirmation=Scores([3.0], [1])), 10.0)
    assert board.confirmed is None
    event = board.end(judged(2, 12.0, confirmation=Scores([11.0], [1])), 10.0)
    assert event["best"]
    assert event["confirmation"]["mean_reward"] == 11.0
    assert board.confirmed is not None
    assert board.confirmed.version == 2


def test_numbers_that_no_info_held_are_said_once() -> None:
    board = Scoreboard()
    scores = Scores([1.0, 3.0], [4, 6], metrics={"here": 1.0})
    assert board.missed(["here", "gone"], scores) == ["evaluation.metrics.gone: no info held 'gone' in 2 episodes"]
    assert board.missed(["here", "gone"], scores) == []


def test_scores_that_say_nothing_are_doubted_once_and_never_the_best() -> None:
    board = Scoreboard()
    scores = Scores([0.0, 0.0], [9, 9], repeated=True, cancels=True)
    assert not board.end(Evaluation(1, 100, scores, 2.0), None)["best"]
    alone, again = board.doubts(scores)
    assert alone.endswith("the returns cancel out: name opponents, evaluation.against: [random]")
    assert again.endswith("nothing is random: set evaluation.openings: 4")
    assert board.doubts(scores) == []
    assert board.end(judged(2, -5.0), None)["best"]


def test_opponents_have_columns_of_their_own() -> None:
    board = Scoreboard()
    games = [
        Match(who, {"a": "one", "b": who}, {"a": earned, "b": -earned}, ["a"])
        for who, earned in (("x", 1.0), ("y", -1.0))
    ]
    event = board.end(Evaluation(1, 100, Scores([1.0, -1.0], [9, 9], matches=games), 2.0), None)
    assert (event["against"]["x"]["wins"], event["against"]["y"]["losses"]) == (1, 1)
    columns = board.columns()
    assert (columns["eval/against/x/win_rate"], columns["eval/against/y/mean_return"]) == (1.0, -1.0)


def test_columns_are_told_once() -> None:
    board = Scoreboard()
    scores = Scores([1.0, 3.0], [4, 6], {"a": 0.5, "b": 1.5}, 2.0, {"x_position": 7.0})
    board.end(Evaluation(8, 800, scores, 2.5), None)
    assert board.untold
    columns = board.columns()
    assert {
        "eval/version": 8,
        "eval/steps": 800,
        "eval/mean_reward": 2.0,
        "eval/std_reward": 1.0,
    }.items() <= columns.items()
    assert {
        "eval/episodes": 2,
        "eval/length": 5.0,
        "eval/seconds": 2.5,
        "eval/passed_over": 0,
    }.items() <= columns.items()
    assert {
        "eval/game_return": 2.0,
        "eval/a/agent_return": 0.5,
        "eval/metrics/x_position": 7.0,
    }.items() <= columns.items()
    assert columns["eval/ci_low"] <= 2.0 <= columns["eval/ci_high"]
    assert not board.untold
    assert board.columns() == {}


def test_what_newer_versions_overtook_is_counted() -> None:
    board = Scoreboard()
    for version in (1, 2, 3):
        board.order(version)
    board.begin(1)
    assert board.evaluating == 1
    assert board.end(judged(1, 0.0), None)["passed_over"] == 0
    assert (board.evaluating, board.due) == (None, 3)
    board.begin(3)
    assert board.end(judged(3, 0.0), None)["passed_over"] == 1
    board.begin(3)  # its worker died, and began again
    assert board.end(judged(3, 0.0), None)["passed_over"] == 0
    line = board.line()
    assert line is not None
    assert line.startswith("evaluation: 3 versions in 6.0 s, 1 passed over")


def event(version: int, mean: float | None, best: bool) -> dict[str, Any]:
    return {"kind": "evaluation", "version": version, "mean_reward": mean, "best": best}


def test_events_tell_a_resumed_run_what_was_judged() -> None:
    first = [event(3, 1.0, True), event(6, 9.0, True), event(7, None, True)]
    board = Scoreboard()
    board.recall([{"kind": "start", "version": 0}, *first, {"kind": "note"}, {"kind": "start", "version": 5}])
    assert (board.evaluated, board.best and board.best.version) == (3, 3), "the run went back to version 5"
    board.recall([{"kind": "start", "version": 0}, *first, {"kind": "start", "version": 7}])
    assert (board.evaluated, board.best and board.best.version) == (7, 6)
    nothing = Scoreboard()
    nothing.recall([])
    assert (nothing.newest, nothing.best) == (None, None)


def test_evaluations_travel() -> None:
    sent = Evaluated(judged(4, 1.5, 2.5, confirmation=Scores([1.0], [2], {"a": 1.0}, 3.0)))
    assert unpack(pack(sent)) == sent
    assert unpack(pack(Evaluating(4))) == Evaluating(4)


# ---------------------------------------------------------------- cost


def test_steps_are_shared_out_by_time() -> None:
    now = 0.0
    cost = EvaluationCost(lambda: now)

    def pass_(seconds: float) -> None:
        nonlocal now
        now += seconds

    pass_(100)
    cost.count(500)  # where counting begins
    assert cost.line(1, 2.0, 0) == "evaluation: 1 version in 2.0 s"
    pass_(1)
    cost.count(1500)
    pass_(0.5)
    cost.switch(True)
    pass_(1.5)
    cost.count(2500)  # a quarter of them before it played
    assert cost.rate(False) == pytest.approx((1000 + 250) / 1.5)
    assert cost.rate(True) == pytest.approx(750 / 1.5)
    assert cost.line(2, 1.5, 3) == (
        "evaluation: 2 versions in 1.5 s, 3 passed over; training made 500 steps/s meanwhile, 833 otherwise (40 % less)"
    )
