"""How streams are called, in one place. A name says nothing to anybody: what a stream is like stands in the Program."""

from __future__ import annotations


def sample(producer: int, policy: str) -> str:
    """Fragments of one Env."""
    return f"sample/{producer}/{policy}"


def ask(producer: int, policy: str) -> str:
    """Requests for decisions."""
    return f"ask/{producer}/{policy}"


def answer(producer: int, policy: str) -> str:
    """Decisions."""
    return f"answer/{producer}/{policy}"


def version(policy: str) -> str:
    """Parameter versions."""
    return f"version/{policy}"


def evaluated(policy: str) -> str:
    """Parameters on their way to be evaluated."""
    return f"evaluated/{policy}"


def own_version(policy: str, rank: int) -> str:
    """Parameter versions of one replica, where each has its own."""
    return f"version/{policy}/{rank}"


def weights(policy: str, rank: int) -> str:
    """What a replica gives to be averaged."""
    return f"weights/{policy}/{rank}"


def up(policy: str, rank: int) -> str:
    """What a replica of a child gives to a parent elsewhere."""
    return f"up/{policy}/{rank}"


def down(policy: str) -> str:
    """What has come of it."""
    return f"down/{policy}"


def shadow(policy: str, rank: int) -> str:
    """A copy of all that a replica has learned, for its next life."""
    return f"shadow/{policy}/{rank}"


def past(player: str) -> str:
    """Earlier versions that a policy plays as."""
    return f"past/{player}"


def members(player: str) -> str:
    """Frozen versions of a player of a league, by their numbers."""
    return f"members/{player}"


def gate(policy: str, rank: int) -> str:
    """Updates that a replica of a trainer may make."""
    return f"gate/{policy}/{rank}"


def tally(policy: str) -> str:
    """Where replicas in step meet."""
    return f"tally/{policy}"


def ready(policy: str, rank: int) -> str:
    """Updates that a replica in step is ready for; the first replica's: that all may begin."""
    return f"ready/{policy}/{rank}"


def batch(shard: int, policy: str) -> str:
    """Parts of batches, from a buffer worker."""
    return f"batch/{shard}/{policy}"


def priority(shard: int, policy: str) -> str:
    """Priorities, on their way back."""
    return f"priority/{shard}/{policy}"


def orders(process: str) -> str:
    """What the workers of a process are told."""
    return f"orders/{process}"


def trainer_process(rank: int, replicas: int) -> str:
    """The process of a trainer's replica."""
    return "trainer" if replicas == 1 else f"trainer-{rank}"
