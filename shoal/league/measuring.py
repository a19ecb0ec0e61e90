"""Games of members against each other, in environments of their own: what a payoff table is made of.

Each next game is one of the pair that another game tells most about. Members play as in training: they draw their actions.
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
from shoal.league.standings import Pair
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
        choose: Callable[[], Pair | None], *, seed: int,
    ) -> None:  # fmt: skip
        self._cast, self._pool, self._choose, self._agents = Cast.of(program), pool, choose, env.groups
        copies = env.num_envs
        self._pairs: list[Pair | None] = [None] * copies
        self._sides = [0] * copies
        self._codes = {group: np.full((copies, count), -1, np.int64) for group, count in self._cast.agents.items()}
        self._begun = 0
        deal = Deal(self._order, copies, first_slot=0)
        seats = [self._seat(program, plans, name, copies, seed) for name in dict.fromkeys(self._cast.rivals.values())]
        self._rollout = Rollout(env, seats, seed=seed, timeout=program.experiment.env.timeout, deal=deal)
        self._before = list(zip(self._pairs, self._sides, strict=True))

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
    def under_way(self) -> list[Pair]:
        """The games that are being played."""
        return [pair for pair in self._pairs if pair is not None]

    def step(self) -> Array:
        """One step of every copy; the matches that ended with it."""
        progress = Progress()
        self._before = list(zip(self._pairs, self._sides, strict=True))
        self._rollout.advance(progress)
        found = [self._record(episode, *self._before[episode.row]) for episode in progress.episodes]
        return np.array([record for record in found if record is not None], MATCH)

    def _order(self, slot: int, episode: int) -> dict[str, Sequence[str]]:
        """Whom a copy plays next. Where nothing is left to play it goes on with whoever was there, and nobody counts that."""
        cast, pair = self._cast, self._choose()
        if pair is None or not (self._pool.has(pair[0]) and self._pool.has(pair[1])):
            self._pairs[slot] = None
            return self._everyone()
        self._pairs[slot], self._begun = pair, self._begun + 1
        if cast.equal:
            ((group, agents),) = cast.agents.items()
            self._sides[slot] = side = self._begun % agents
            self._codes[group][slot] = code_of(pair[1])
            self._codes[group][slot, side] = code_of(pair[0])
        else:
            for player, member in zip(cast.players, pair, strict=True):
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

    def _record(self, episode: Episode, pair: Pair | None, side: int) -> tuple[float, ...] | None:
        if pair is None:
            return None
        first, second = self._earned(episode, side)
        (asker, own), (opponent, member) = pair
        return (asker, opponent, side, 1, own, member, 0, episode.length, episode.row, self._begun, first, second)

    def _earned(self, episode: Episode, side: int) -> tuple[float, float]:
        """What both earned, each on average over its agents."""
        cast = self._cast
        if cast.equal:
            (returns,) = episode.returns.values()
            return float(returns[side]), float(np.delete(returns, side).mean())
        (home, own), (there, theirs) = (cast.places[player] for player in cast.players)
        return float(episode.returns[home][list(own)].mean()), float(episode.returns[there][list(theirs)].mean())

    def close(self) -> None:
        """Free the environments."""
        self._rollout.close()
