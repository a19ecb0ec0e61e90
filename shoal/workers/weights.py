"""What an evaluation plays with: parameters of a version that the controller sends, and earlier ones that are its opponents."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from shoal.api.env import Env
from shoal.api.experiment import PastConfig
from shoal.api.policy_spec import PolicyPlan
from shoal.api.program import MailboxShape, Port, Program
from shoal.base.seeding import derive_seed
from shoal.evaluation.evaluator import Evaluator, Watch
from shoal.evaluation.matches import Matches
from shoal.evaluation.opponents import Opponents, Past, joined, plies_of
from shoal.evaluation.seating import seat_everyone
from shoal.rollout.plans import Plans
from shoal.rollout.seats import make_pool
from shoal.streams import names
from shoal.streams.past import Pool
from shoal.streams.primitives import Mailbox
from shoal.streams.transports.memory import MemoryMailbox
from shoal.workers.context import Context


def weight_ports(program: Program, plans: Mapping[str, PolicyPlan]) -> list[Port]:
    """Of a worker that plays versions which the controller names."""
    ports = [
        Port(names.evaluated(policy), "read", MailboxShape(plan.algorithm.flat.nbytes, 2), from_controller=True)
        for policy, plan in plans.items()
    ]
    return ports + [Port(names.past(policy), "read") for policy in _pasts(program)]


def make_weights(context: Context, plans: Plans) -> Weights:
    """At the other end of those ports."""
    arriving = {policy: context.streams.mailbox(names.evaluated(policy)) for policy in plans}
    return Weights(arriving, plans, _earlier(context, plans))


def seating(program: Program, plans: Plans, weights: Weights) -> Callable[[Env], Evaluator | Matches]:
    """Who plays the version that is held: against the opponents of the Program, if there are any, else as in training."""
    opponents, plies = Opponents(program, plans) if program.opponents else None, plies_of(program)

    def seat(env: Env) -> Evaluator | Matches:
        if opponents is None:
            return seat_everyone(program, plans, weights.held, env, plies=plies)
        version = next(iter(weights.held.values())).latest()
        drawn = derive_seed(program.experiment.seed, "players", counter=version)
        watch = Watch(drawn, env.num_envs, explore=False, thoughts=False)
        return opponents.seat(weights.held, weights.past, env, watch, plies)

    return seat


def _pasts(program: Program) -> dict[str, PastConfig]:
    """Policies that play as the past of others, where it is evaluated against."""
    if not any(opponent.name == "past" for opponent in program.opponents):
        return {}
    return {name: spec.config.past for name, spec in program.policies.items() if spec.config.past is not None}


def _earlier(context: Context, plans: Plans) -> list[EarlierVersions]:
    life, found = context.life, []
    for name, past in _pasts(context.program).items():
        pool = make_pool(past, life.starts[past.of], life.pools.get(name, []))
        nbytes = plans[past.of].algorithm.flat.nbytes
        found.append(EarlierVersions(past, pool, context.streams.mailbox(names.past(name)), nbytes))
    return found


@dataclass(frozen=True)
class EarlierVersions:
    """Those that an opponent of training may be played by when a version is made."""

    past: PastConfig
    pool: Pool
    mailbox: Mailbox
    nbytes: int

    def read(self, version: int) -> dict[int, np.ndarray]:
        """Version -> parameters. Training goes on: what it no longer keeps is missing, but never the newest of all."""
        newest = max(version // self.past.every, 0)
        numbers = [number for number in self.pool.at(newest) if number * self.past.every < version]
        found: dict[int, np.ndarray] = {}
        while not found:
            for number in numbers:
                block = np.empty(self.nbytes, np.uint8)
                if self.mailbox.read(number, block):
                    found[number * self.past.every] = block
            numbers = [self.mailbox.latest()]
        return found


class Weights:
    """The parameters that are to be evaluated: they come from the controller, and stay until the next version is begun."""

    def __init__(
        self, arriving: Mapping[str, Mailbox], plans: Mapping[str, PolicyPlan], earlier: Sequence[EarlierVersions] = ()
    ) -> None:  # fmt: skip
        self._arriving, self._earlier = arriving, earlier
        self.past: Past = {}
        """Earlier versions, as they were kept when the present one was begun."""
        self._nbytes = {name: plan.algorithm.flat.nbytes for name, plan in plans.items()}
        self.held: dict[str, Mailbox] = {name: MemoryMailbox(nbytes, 1) for name, nbytes in self._nbytes.items()}

    def arrived(self, version: int) -> bool:
        """Those of a version are there, or newer ones."""
        whole = all(mailbox.latest() >= version for mailbox in self._arriving.values())
        return whole and all(earlier.mailbox.latest() >= 0 for earlier in self._earlier)

    def hold(self, version: int) -> bool:
        """Keep a copy; False: a newer version has taken its place."""
        blocks = {name: np.empty(nbytes, np.uint8) for name, nbytes in self._nbytes.items()}
        if not all(self._arriving[name].read(version, block) for name, block in blocks.items()):
            return False
        for name, block in blocks.items():
            self.held[name].publish(version, block)
        kept: dict[str, dict[int, np.ndarray]] = {}
        for earlier in self._earlier:
            kept.setdefault(earlier.past.of, {}).update(earlier.read(version))
        self.past = joined(kept)
        return True
