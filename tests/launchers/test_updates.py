"""What trainers say of their updates, in order."""

from __future__ import annotations

from shoal.api.messages import Updated
from shoal.api.metric import Last, Metric, Total
from shoal.launchers.threads import joined
from shoal.launchers.updates import Updates


def said(policy: str, version: int, replica: int = 0, **metrics: Metric) -> Updated:
    return Updated(policy, version, replica, 100 * version, metrics)


def names(messages: list[Updated]) -> list[tuple[str, int]]:
    return [(message.policy, message.version) for message in messages]


def always(policy: str, version: int) -> bool:
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
    assert names(updates.take(lambda policy, version: version < 2)) == [("a", 1)]
    assert names(updates.take(always)) == [("a", 2)]


def test_policies_wait_for_no_other() -> None:
    """Each has a clock of its own; of those that are whole, the first policy's come first, version by version."""
    updates = Updates(["a", "b"], 1)
    for version in (2, 1):
        updates.add(said("b", version))
    assert names(updates.take(always)) == [("b", 1), ("b", 2)]
    for policy, version in (("b", 3), ("a", 1), ("b", 4), ("a", 2)):
        updates.add(said(policy, version))
    assert names(updates.take(lambda policy, version: version < 4)) == [("a", 1), ("a", 2), ("b", 3)]
    assert updates.due
    assert names(updates.rest()) == [("b", 4)]
    assert not updates.due
    assert updates.rest() == []


def test_a_policy_whose_actors_are_slow_to_speak_holds_up_no_other() -> None:
    updates = Updates(["a", "b"], 1)
    for policy in "ab":
        updates.add(said(policy, 1))
    assert names(updates.take(lambda policy, version: policy == "b")) == [("b", 1)]
    assert names(updates.take(always)) == [("a", 1)]


def test_a_policy_that_runs_away_does_not_fill_the_memory() -> None:
    updates = Updates(["a", "b"], 1)
    heard: list[Updated] = []
    for version in range(1, 256):
        updates.add(said("a", version))
        heard += updates.take(always)
        assert not updates.due
    assert names(heard) == [("a", version) for version in range(1, 256)]
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
    assert names(updates.take(always)) == [("a", 4), ("b", 3), ("b", 4)]
