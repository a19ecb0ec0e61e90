"""Games of members against each other, in environments of their own: what a payoff table is made of.

Each next game is one of those that another game tells most about. Members play as in training: they draw their actions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from shoal.api.env import Array, Env, Episode
from shoal.api.league import MATCH
from shoal.api.policy_spec import PolicyPlan
from shoal.api.program import Program
from shoal.base.seeding import Noise
from shoal.league.profiles import Profile
from shoal.rollout.deal import Deal
from shoal.rollout.matchmaking import Cast, code_of
from shoal.rollout.members import MemberInference, MemberPool
from shoal.rollout.rollout import Progress, Rollout
from shoal.rollout.seat import Seat
from shoal.rollout.seats import make_seat


class Measuring:
    """Plays what `choose` says, one step of all env copies at a time. `choose` answers None where all is known well enough."""

    def __init__(
        self, program: Program, plans: Mapping[str, PolicyPlan], pool: MemberPool, env: Env,
        choose: Callable[[], Profile | None], *, seed: int,
    ) -> None:  # fmt: skip
        self._cast, self._pool, self._choose = Cast.of(program), pool, choose
        copies = env.num_envs
        self._profiles: list[Profile | None] = [None] * copies
        self._seats: list[Sequence[int]] = [()] * copies
        """Where agents are equal: the place of each member of a profile."""
        self._codes = {group: np.full((copies, count), -1, np.int64) for group, count in self._cast.agents.items()}
        self._begun = 0
        deal = Deal(self._order, copies, first_slot=0)
        seats = [self._seat(program, plans, name, copies, seed) for name in dict.fromkeys(self._cast.rivals.values())]
        self._rollout = Rollout(env, seats, seed=seed, timeout=program.experiment.env.timeout, deal=deal)
        self._before = list(zip(self._profiles, self._seats, strict=True))

    def _seat(
        self, program: Program, plans: Mapping[str, PolicyPlan], name: str, copies: int, seed: int
    ) -> Seat:  # fmt: skip
        spec = program.policies[name]
        policy = plans[spec.members[0]].algorithm.policy
        lanes = np.arange(copies * len(spec.columns))
        client = MemberInference(self._pool, partial(self._lanes, spec.home, spec.columns), set, explore=True)
        noise = Noise(seed, f"measuring {name}", lanes, policy.noise_size, policy.noise_hold)
        return make_seat(spec, None, client, policy, noise)

    def _lanes(self, group: str, columns: Sequence[int]) -> Array:
        return self._codes[group][:, list(columns)].reshape(-1)

    @property
    def under_way(self) -> list[Profile]:
        """The games that are being played."""
        return [profile for profile in self._profiles if profile is not None]

    def step(self) -> Array:
        """One step of every copy; the matches that ended with it."""
        progress = Progress()
        self._before = list(zip(self._profiles, self._seats, strict=True))
        self._rollout.advance(progress)
        found = [record for each in progress.episodes for record in self._records(each, *self._before[each.row])]
        return np.array(found, MATCH)

    def _order(self, slot: int, episode: int) -> dict[str, Sequence[str]]:
        """Whom a copy plays next. Where nothing is left to play it goes on with whoever was there, and nobody counts that."""
        cast, profile = self._cast, self._choose()
        if profile is None or not all(self._pool.has(member) for member in profile):
            self._profiles[slot] = None
            return self._everyone()
        self._profiles[slot], self._begun = profile, self._begun + 1
        if cast.equal:
            ((group, _),) = cast.agents.items()
            self._seats[slot] = seats = _seating(self._begun, cast.parties)
            self._codes[group][slot, seats] = [code_of(member) for member in profile]
        else:
            for player, member in zip(cast.players, profile, strict=True):
                group, columns = cast.places[player]
                self._codes[group][slot, list(columns)] = code_of(member)
        return self._everyone()

    def _everyone(self) -> dict[str, Sequence[str]]:
        cast = self._cast
        dealt = {group: [""] * agents for group, agents in cast.agents.items()}
        for player, (group, columns) in cast.places.items():
            for column in columns:
                dealt[group][column] = cast.rivals[player]
        return dict(dealt)

    def _records(self, episode: Episode, profile: Profile | None, seats: Sequence[int]) -> list[tuple[float, ...]]:
        """One for each opponent of the first."""
        if profile is None:
            return []
        first, *others = self._cast.earned(episode, seats, range(self._cast.parties))
        side, (asker, own) = seats[0] if self._cast.equal else 0, profile[0]
        where = 0, episode.length, episode.row, self._begun
        return [
            (asker, opponent, side, 1, own, member, *where, first, earned)
            for (opponent, member), earned in zip(profile[1:], others, strict=True)
        ]

    def close(self) -> None:
        """Free the environments."""
        self._rollout.close()


def _seating(number: int, parties: int) -> list[int]:
    """A place for each, another one with each number; of more than two also the other way round."""
    way = -1 if parties > 2 and number // parties % 2 else 1
    return [(number + way * party) % parties for party in range(parties)]
