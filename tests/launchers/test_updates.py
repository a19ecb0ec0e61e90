"""What trainers say of their updates, in order."""

from __future__ import annotations

from shoal.api.metric import Last, Metric, Total
from shoal.api.worker import Report
from shoal.launchers.updates import AHEAD, Updates, joined


def said(policy: str, version: int, replica: int = 0, **metrics: Metric) -> Report:
    return Report(True, policy=policy, version=version, replica=replica, trained_steps=100 * version, metrics=metrics)


def names(reports: list[Report]) -> list[tuple[str, int | None]]:
    return [(report.policy, report.version) for report in reports]


def always(version: int) -> bool:
    return True


def test_replicas_are_joined_in_the_order_of_ranks() -> None:
    updates = Updates(["a"], 3)
    for rank in (2, 0):
        updates.add(said("a", 1, rank, rows=Total(rank), rate=Last(rank)))
    assert updates.take(always) == []
    assert updates.due
    updates.add(said("a", 1, 1, rows=Total(1), rate=Last(1)))
    assert updates.take(always) == [said("a", 1, 0, rows=Total(3), rate=Last(2))]
    assert not updates.due


def test_joined_keeps_the_words_of_the_first() -> None:
    assert joined([said("a", 4), said("a", 4, 1, rows=Total(2))]) == said("a", 4, rows=Total(2))


def test_versions_wait_for_actors() -> None:
    updates = Updates(["a"], 1)
    updates.add(said("a", 1))
    updates.add(said("a", 2))
    assert names(updates.take(lambda version: version < 2)) == [("a", 1)]
    assert names(updates.take(always)) == [("a", 2)]


def test_policies_take_turns() -> None:
    updates = Updates(["a", "b"], 1)
    for version in (1, 2):
        updates.add(said("b", version))
    assert updates.take(always) == []
    updates.add(said("a", 1))
    assert names(updates.take(always)) == [("a", 1), ("b", 1)]
    assert not updates.due
    assert names(updates.rest()) == [("b", 2)]
    assert updates.rest() == []


def test_a_policy_that_runs_away_does_not_fill_the_memory() -> None:
    updates = Updates(["a", "b"], 1)
    heard: list[Report] = []
    for version in range(1, 4 * AHEAD):
        updates.add(said("a", version))
        heard += updates.take(lambda version: False)
    assert names(heard) == [("a", version) for version in range(1, 3 * AHEAD)]
    updates.add(said("b", 1))
    assert names(updates.take(always)) == [("b", 1)], "late is better than never"


def test_deaths_leave_gaps() -> None:
    updates = Updates(["a", "b"], 2)
    for policy in "ab":
        updates.add(said(policy, 1, 0, rows=Total(5)))
        updates.add(said(policy, 2, 1))
    assert updates.take(always) == []
    updates.break_off()
    assert names(updates.take(always)) == [("a", 1), ("b", 1)], "the other died before it spoke"
    for policy, version in (("b", 3), ("a", 4), ("b", 4)):
        for rank in (0, 1):
            updates.add(said(policy, version, rank))
    assert names(updates.take(always)) == [("b", 3), ("a", 4), ("b", 4)]
