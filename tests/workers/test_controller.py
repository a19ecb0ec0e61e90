"""The controller alone: messages in, decisions out. Every policy has a clock of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from shoal.api.env import Episode
from shoal.api.evaluation import Evaluation, Scores
from shoal.api.experiment import Experiment
from shoal.api.messages import Episodes, Evaluated, Evaluating, Note, Numbers, Reconfigured, Requested, Updated
from shoal.api.metric import Last, Total
from shoal.api.orders import Pause
from shoal.streams.sample import NOTHING
from shoal.workers import controller as module
from shoal.workers.controller import Controller
from shoal.workers.decisions import Confirm, Decision, EnterStage, Give, KeepScore, SaveNow, Say, WriteRow


class Desk:
    """A controller, and somebody who carries out what it decides."""

    def __init__(self, *policies: str, **sections: Any) -> None:
        tree = {"env": {"id": "CartPole-v1"}, "name": "x", "checkpoint": {"every": "1h"}, **sections}
        self.experiment = Experiment.parse(tree)
        self.controller = Controller(self.experiment, list(policies or ("agent",)))
        self.rows: list[dict[str, Any]] = []
        self.others: list[Decision] = []

    def hear(self, *messages: Any) -> None:
        for message in messages:
            self.controller.receive(message)
            while self.controller.todo:
                decision = self.controller.todo.popleft()
                if isinstance(decision, WriteRow):
                    self.rows.append(dict(self.controller.row(NOTHING)))
                else:
                    self.others.append(decision)

    def update(self, policy: str, version: int, steps: int | None = None, **facts: Any) -> None:
        steps = 100 * version if steps is None else steps
        self.hear(Updated(policy, version, facts.pop("replica", 0), steps, facts.pop("metrics", {}), **facts))

    @property
    def updates(self) -> list[tuple[int, int]]:
        """Update and step of every row."""
        return [(int(row["update"]), int(row["step"])) for row in self.rows]

    @property
    def done(self) -> dict[str, bool]:
        return {policy: clock.done for policy, clock in self.controller.clocks.items()}


# ---------------------------------------------------------------- clocks


def test_one_policy_has_a_row_per_update() -> None:
    desk = Desk()
    for version in (1, 2, 3):
        desk.update("agent", version)
    assert desk.updates == [(1, 100), (2, 200), (3, 300)]
    assert desk.others == []
    assert "train/agent/version" not in desk.rows[0], "with one policy it is the update"


def test_policies_at_equal_pace_share_their_rows() -> None:
    desk = Desk("a", "b")
    for version in (1, 2):
        desk.update("a", version)
        assert len(desk.rows) == version - 1, "the other may be about to speak"
        desk.update("b", version)
    assert desk.updates == [(1, 100), (2, 200)]
    assert [(row["train/a/version"], row["train/b/version"]) for row in desk.rows] == [(1, 1), (2, 2)]


def test_rows_follow_the_faster_of_two() -> None:
    """`a` makes three versions while `b` makes one: nothing of `a` waits for `b` longer than until its next version."""
    desk = Desk("a", "b")
    for version in range(1, 7):
        desk.update("a", version)
        if version % 3 == 0:
            desk.update("b", version // 3, 50 * version)
    assert [update for update, _ in desk.updates] == [1, 2, 3, 4, 5]
    seen = [(row["train/a/version"], row["train/b/version"]) for row in desk.rows]
    assert seen == [(2, 0), (3, 0), (4, 1), (5, 1), (6, 1)]
    assert desk.controller.counters.steps == 600, "those of whoever has most"
    assert (desk.controller.clocks["a"].version, desk.controller.clocks["b"].version) == (6, 2)


def test_it_does_not_matter_which_is_the_faster() -> None:
    desk = Desk("a", "b")
    for version in range(1, 4):
        desk.update("b", version)
    desk.update("a", 1, 10)
    assert [update for update, _ in desk.updates] == [1, 2]
    desk.update("a", 2, 20)
    desk.update("a", 3, 30)
    assert [update for update, _ in desk.updates] == [1, 2, 3], "both have made the third"
    assert desk.controller.counters.update == 3


def test_numbers_of_several_policies_have_their_names() -> None:
    desk = Desk("a", "b")
    desk.update("a", 1, metrics={"train/loss": Last(1.0), "time/train": Total(2)})
    desk.update("b", 1, metrics={"train/loss": Last(5.0), "time/train": Total(3)})
    (row,) = desk.rows
    assert (row["train/a/loss"], row["train/b/loss"], row["time/train"]) == (1.0, 5.0, 5)
    assert "train/loss" not in row


def test_replicas_that_go_their_own_way_are_counted_together() -> None:
    desk = Desk()
    desk.update("agent", 1, 40, replica=0)
    desk.update("agent", 2, 30, replica=1)
    desk.update("agent", 3, 80, replica=0)
    assert desk.controller.clocks["agent"].steps == desk.controller.counters.steps == 110
    assert desk.updates == [(1, 40), (2, 70), (3, 110)]


def test_what_is_said_late_takes_nothing_back() -> None:
    desk = Desk()
    desk.update("agent", 3, 300)
    desk.update("agent", 2, 200)
    assert desk.controller.clocks["agent"].version == 3
    assert desk.controller.counters.steps == 300
    assert [update for update, _ in desk.updates] == [3]


# ---------------------------------------------------------------- stop rules


def test_each_policy_ends_by_its_own_clock_and_the_run_with_the_last() -> None:
    desk = Desk("a", "b", stop={"updates": 3})
    for version in (1, 2, 3):
        desk.update("a", version)
    assert desk.done == {"a": True, "b": False}
    assert desk.controller.reason is None
    desk.update("b", 1)
    desk.update("b", 2)
    assert desk.controller.reason is None
    desk.update("b", 3)
    assert desk.done == {"a": True, "b": True}
    assert desk.controller.reason == "stop.updates = 3 reached"
    assert desk.controller.counters.update == 3
    assert desk.updates[-1][0] == 3, "the last row is written"


def test_steps_end_each_policy_by_those_behind_it() -> None:
    desk = Desk("a", "b", stop={"steps": 1000})
    desk.update("a", 1, 1000)
    assert desk.done == {"a": True, "b": False}
    desk.update("b", 1, 400)
    desk.update("b", 2, 800)
    assert desk.controller.reason is None
    desk.update("b", 3, 1200)
    assert desk.controller.reason == "stop.steps = 1,000 reached"


def test_a_policy_that_is_done_holds_up_no_row() -> None:
    desk = Desk("a", "b", stop={"updates": 2})
    desk.update("a", 1)
    desk.update("b", 1)
    desk.update("a", 2)
    assert desk.done == {"a": True, "b": False}
    desk.update("b", 2)
    assert [update for update, _ in desk.updates] == [1, 2]


def test_what_a_policy_that_is_done_lets_go_changes_no_clock() -> None:
    desk = Desk("a", "b", stop={"updates": 2})
    for version in (1, 2):
        desk.update("a", version)
    rows = len(desk.rows)
    for version in (3, 4, 5):
        desk.update("a", version, 9999, trained=False, metrics={"train/dropped_surplus": Total(7)})
    clock = desk.controller.clocks["a"]
    assert (clock.version, clock.steps, clock.done) == (2, 200, True)
    assert (desk.controller.counters.steps, len(desk.rows), desk.controller.reason) == (200, rows, None)
    for version in (1, 2):
        desk.update("b", version)
    assert desk.controller.reason == "stop.updates = 2 reached"
    assert sum(row.get("train/a/dropped_surplus", 0) for row in desk.rows) == 21, "but it is told"


def test_time_ends_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(module.time, "monotonic", lambda: now)
    desk = Desk("a", "b", stop={"seconds": 5})
    now = 104.9
    desk.update("a", 1)
    desk.hear(Numbers())
    assert desk.controller.reason is None
    now = 105.0
    desk.hear(Numbers())
    assert desk.controller.reason == "stop.seconds = 5 reached"


def test_the_first_reason_stays() -> None:
    desk = Desk(stop={"updates": 1})
    desk.controller.stop("stopped by order")
    desk.update("agent", 1)
    assert desk.controller.reason == "stopped by order"
    assert desk.updates == [(1, 100)]


def test_a_resumed_run_goes_on_by_its_clocks() -> None:
    desk = Desk("a", "b", stop={"updates": 4})
    for version in (1, 2, 3, 4):
        desk.update("a", version)
    desk.update("b", 1)
    state = desk.controller.state_dict(NOTHING)
    again = Desk("a", "b", stop={"updates": 4})
    again.controller.load_state_dict(state, {"a": 4, "b": 1}, {"a": 400, "b": 100})
    assert again.done == {"a": True, "b": False}
    assert again.controller.reason is None
    assert again.controller.counters == desk.controller.counters
    for version in (2, 3):
        again.update("b", version)
    assert again.controller.reason is None
    again.update("b", 4)
    assert again.controller.reason == "stop.updates = 4 reached"
    over = Desk("a", "b", stop={"updates": 4})
    over.controller.load_state_dict(again.controller.state_dict(NOTHING), {"a": 4, "b": 4}, {"a": 400, "b": 400})
    assert over.controller.reason == "stop.updates = 4 reached"


# ---------------------------------------------------------------- decisions


def test_checkpoints_and_evaluations_are_due_at_their_time() -> None:
    desk = Desk(checkpoint={"every": "3 updates"}, evaluation={"every": "2 updates", "episodes": 1})
    found: list[tuple[int, bool]] = []
    for version in range(1, 7):
        desk.update("agent", version)
        for decision in desk.others:
            assert isinstance(decision, SaveNow)
            desk.controller.saved()
            if decision.evaluate:
                desk.controller.order_evaluation()
            found.append((version, decision.evaluate))
        desk.others.clear()
    assert found == [(2, True), (3, False), (4, True), (6, True)], "a version that is evaluated is saved, and only once"


def test_what_others_are_told_goes_through_it() -> None:
    desk = Desk()
    desk.hear(Requested("actor", Pause(True)), Note("look"), Reconfigured("agent", {"lr": 0.5}))
    assert desk.others == [
        Give("actor", Pause(True)),
        Say("look", "noted", {"text": "look"}),
        Say("agent goes on with lr = 0.5", "reconfigured", {"policy": "agent", "lr": 0.5}),
    ]
    assert desk.controller.settings == {"agent": {"lr": 0.5}}


def episodes(value: float, count: int = 20) -> Episodes:
    return Episodes(count, {}, [Episode(0, 5, {"agent": np.array([value])}) for _ in range(count)])


@pytest.mark.parametrize("passed", [True, False])
def test_a_goal_is_confirmed_before_the_row_is_written(passed: bool) -> None:
    desk = Desk(stop={"return": 10.0, "episodes": 5})
    desk.hear(episodes(12.0))
    desk.update("agent", 1)
    assert desk.others == [Confirm()]
    assert desk.rows == [], "it waits for the answer"
    desk.controller.confirm(Scores([11.0 if passed else 9.0] * 5, [5] * 5))
    desk.hear(Numbers())
    assert desk.updates == [(1, 100)]
    assert desk.rows[0]["eval/mean_reward"] == (11.0 if passed else 9.0)
    assert desk.rows[0].get("rollout/recent_return") == (12.0 if passed else None), (
        "what was not confirmed is forgotten"
    )
    said = [decision.text for decision in desk.others if isinstance(decision, Say)]
    verdict = "reached" if passed else "not yet"
    played = f"greedy mean of 5 episodes {11 if passed else 9}.0"
    assert said == [f"100 steps: training return 12.0 (last 20 episodes), {played} against 10: {verdict}"]
    assert (desk.controller.reason is not None) == passed
    desk.others.clear()
    desk.update("agent", 2)
    assert desk.others == [], "as many new episodes must pass first"


def test_scores_are_kept_and_end_stages() -> None:
    stages = [{}, {"kwargs": {"x": 1}, "at": 5.0}]
    desk = Desk(evaluation={"every": "1 updates", "episodes": 1}, curriculum=stages)
    for version, mean in ((1, 4.0), (2, 6.0), (3, 7.0)):
        stage = desk.controller.stage
        desk.hear(Evaluating(version), Evaluated(Evaluation(version, 10, Scores([mean], [1]), 0.1, stage=stage)))
    kept = [decision.event["version"] for decision in desk.others if isinstance(decision, KeepScore)]
    assert kept == [1, 2, 3]
    assert [decision for decision in desk.others if isinstance(decision, EnterStage)] == [EnterStage(1)]
    assert desk.controller.stage == 1


def test_deaths_are_counted_and_said() -> None:
    desk = Desk()
    desk.controller.restarted("actor-3", "it was killed")
    desk.update("agent", 1)
    assert desk.rows[0]["rollout/restarts"] == 1
    assert desk.others == [Say("actor-3 was started again: it was killed")]
