"""Members of a league as players: their parameters, and who decides for lanes that are theirs."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from shoal.api.env import Array
from shoal.api.league import LIVE, Member
from shoal.api.policy import Policy
from shoal.base.flat import Flat
from shoal.rollout.matchmaking import member_of
from shoal.rollout.players import joined_answers
from shoal.streams.inference import Answer, Ask, InferenceClient, ask_rows, decide
from shoal.streams.parameter import ParameterReader
from shoal.streams.primitives import Mailbox


@dataclass
class PlayerVersions:
    """Where the versions of one player come from."""

    policy: Policy
    """As it was made: others are copies of it with their own parameters."""
    members: Mailbox
    live: ParameterReader | None = None
    """Of the player as it learns; None: only members are played."""
    live_policy: Policy | None = None
    """What that reader fills."""


@dataclass
class MemberPool:
    """The members that somebody plays as, loaded when they are first needed."""

    players: list[PlayerVersions]
    _loaded: dict[Member, Policy] = field(default_factory=dict)

    def has(self, member: Member) -> bool:
        """It can be played."""
        if member in self._loaded:
            return True
        versions = self.players[member[0]]
        if member[1] == LIVE:
            return versions.live is not None and versions.live.latest() >= 0
        policy = copy.deepcopy(versions.policy)
        if not versions.members.read(member[1], Flat(policy, gradients=False).block.numpy()):
            return False
        self._loaded[member] = policy.eval()
        return True

    def policy(self, member: Member) -> Policy:
        """Who plays. After `has`."""
        if member[1] != LIVE:
            return self._loaded[member]
        found = self.players[member[0]].live_policy
        assert found is not None, "it can be played"
        return found

    def refresh(self, in_use: set[Member]) -> None:
        """Take the newest versions of those that learn, and let go of members that nobody meets any more."""
        for number, versions in enumerate(self.players):
            if versions.live is not None and (number, LIVE) in in_use:
                versions.live.latest()
        for member in set(self._loaded) - in_use:
            del self._loaded[member]


class MemberInference(InferenceClient):
    """Each lane is played by the member that `codes` names for it; where that is nobody, it decides nothing."""

    remembers = True

    def __init__(
        self, pool: MemberPool, codes: Callable[[], Array], in_use: Callable[[], set[Member]], *, explore: bool
    ) -> None:
        self._pool, self._codes, self._in_use, self._explore = pool, codes, in_use, explore
        self._answer: Answer | None = None
        self._idle: Answer | None = None

    def pin(self, round_: int) -> bool:
        self._pool.refresh(self._in_use())
        return True

    def ask(self, ask: Ask) -> None:
        codes, parts = self._codes(), []
        for code in np.unique(codes[codes >= 0]).tolist():
            rows = np.flatnonzero(codes == code)
            policy = self._pool.policy(member_of(code))
            parts.append((rows, decide(policy, ask_rows(ask, rows), explore=self._explore, version=LIVE)))
        self._answer = joined_answers(parts or [(np.zeros(1, np.int64), self._nothing(ask))], len(ask.first))

    def _nothing(self, ask: Ask) -> Answer:
        """What an answer looks like; nobody acts on it."""
        if self._idle is None:
            first = ask_rows(ask, np.zeros(1, np.int64))
            self._idle = decide(self._pool.players[0].policy, first, explore=self._explore, version=LIVE)
        return self._idle

    def answer(self, timeout: float) -> Answer | None:
        answer, self._answer = self._answer, None
        return answer
