"""The opponents of an evaluation: those that a Program names, as policies around an Env of the evaluation's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from shoal.api.env import Env
from shoal.api.evaluation import SELF
from shoal.api.policy import Policy
from shoal.api.policy_spec import Opponent, PolicyPlan, PolicySpec
from shoal.api.program import Program
from shoal.base.errors import InputError
from shoal.base.seeding import Noise
from shoal.evaluation.evaluator import Evaluator, Watch
from shoal.evaluation.matches import Matches, Meeting, Schedule
from shoal.evaluation.sides import opposed, sides_of
from shoal.rollout.plans import fixed_policy, load_script, load_source
from shoal.rollout.players import FixedInference, RandomPolicy, ScriptedPolicy
from shoal.rollout.seat import Seat
from shoal.rollout.seats import make_seat
from shoal.streams.inference import InlineInference
from shoal.streams.parameter import ParameterReader
from shoal.streams.primitives import Mailbox

Blocks = Mapping[str, np.ndarray]
"""Policy that learns -> parameters of one version."""
Past = Mapping[int, Blocks]
"""Version -> those of it."""
MOST_PAST = 5
"""Earlier versions that are met at most: the oldest, the newest, and others between them."""
OPENING = 2
"""Steps of an opening against named opponents, if nobody says how many."""


@dataclass(frozen=True)
class Standin:
    """A policy in the place of another."""

    policy: Policy
    draws: bool
    """It plays by chance or by rule, however the others play."""
    plan: PolicyPlan | None = None
    """Of the run itself, if it is a version of it."""


Player = dict[str, Standin]
"""Policy of the run -> who plays in its place."""


class Opponents:
    """Those of a Program. Who never changes is loaded once."""

    def __init__(self, program: Program, plans: Mapping[str, PolicyPlan]) -> None:
        self._program, self._plans = program, plans
        self._sides = sides_of(program)
        self._specs = {name: program.policies[name] for name in opposed(self._sides)}
        self._fixed: dict[str, Player] = {}

    def seat(
        self, mailboxes: Mapping[str, Mailbox], past: Past, env: Env, watch: Watch | None = None, plies: int = 0
    ) -> Matches:  # fmt: skip
        """Everyone around `env`; `plies`: steps of an opening."""
        watch = watch or Watch(self._program.experiment.seed, env.num_envs, explore=False, thoughts=False)
        seats, readers = self._own_seats(mailboxes, env, watch)
        meetings = []
        for opponent in self._program.opponents:
            others, players = [], []
            for label, player in self._players(opponent, mailboxes, past, env).items():
                names = {policy: self._name(label, policy, player) for policy in player}
                others += [self._seat(names[policy], policy, player[policy], env, watch) for policy in player]
                players.append(names)
            schedule = Schedule(self._sides, players)
            evaluator = Evaluator(
                env, [*seats, *others], readers, list(self._plans), schedule.dealing(env), schedule.opening(env, plies)
            )
            meetings.append(Meeting(opponent.name, schedule, evaluator))
        return Matches(env, meetings)

    def _own_seats(
        self, mailboxes: Mapping[str, Mailbox], env: Env, watch: Watch
    ) -> tuple[list[Seat], list[ParameterReader]]:  # fmt: skip
        """Those of the policies that are evaluated."""
        seats, readers = [], []
        for name, plan in self._plans.items():
            policy, flat = plan.copy_policy()
            readers.append(ParameterReader(mailboxes[name], flat))
            client = InlineInference(policy.eval(), readers[-1], explore=watch.explore)
            noise = _noise(name, env.num_envs * self._width(plan.spec), policy, watch)
            seats.append(make_seat(plan.spec, plan, client, policy, noise, watched=watch.thoughts))
        return seats, readers

    def _seat(self, name: str, role: str, standin: Standin, env: Env, watch: Watch) -> Seat:
        spec, plan = self._specs[role], standin.plan
        width = len(spec.columns) if plan is None else self._width(plan.spec)
        return standin_seat(name, spec, standin, env.num_envs * width, watch)

    def _width(self, spec: PolicySpec) -> int:
        """Lanes of an env copy."""
        return spec.lanes // self._program.experiment.env.num_envs

    def _name(self, label: str, policy: str, player: Player) -> str:
        """Of a seat, unlike those of the run's own."""
        name = label if len(player) == 1 else f"{label}:{policy}"
        return f"opponent {name}" if name in self._plans else name

    # ------------------------------------------------------------ who they are

    def _players(
        self, opponent: Opponent, mailboxes: Mapping[str, Mailbox], past: Past, env: Env
    ) -> dict[str, Player]:  # fmt: skip
        """Name -> player, of all that an opponent stands for."""
        name = opponent.name
        if name == SELF:
            return {name: self._version({policy: self._newest(policy, box) for policy, box in mailboxes.items()})}
        if name == "past":
            return {f"past@{version}": self._version(past[version]) for version in spread(sorted(past), MOST_PAST)}
        if name not in self._fixed:
            self._fixed[name] = {policy: standin_of(opponent, policy, env, s) for policy, s in self._specs.items()}
        return {name: self._fixed[name]}

    def _newest(self, policy: str, mailbox: Mailbox) -> np.ndarray:
        block = np.empty(self._plans[policy].algorithm.flat.nbytes, np.uint8)
        mailbox.read(mailbox.latest(), block)
        return block

    def _version(self, blocks: Blocks) -> Player:
        """A version of the run. Who does not learn is replaced by one of its group that does, if there is one."""
        player = {}
        for name, spec in self._specs.items():
            alike = [learner for learner, plan in self._plans.items() if plan.spec.home == spec.home]
            of = spec.plays_as if spec.plays_as in self._plans else next(iter(alike), None)
            if of is not None:
                policy, flat = self._plans[of].copy_policy()
                flat.block.numpy()[:] = blocks[of]
                player[name] = Standin(policy, draws=False, plan=self._plans[of])
            else:
                player[name] = Standin(fixed_policy(spec), draws=spec.config.play is not None)
        return player


def plies_of(program: Program, wanted: int | None = None) -> int:
    """Steps of an opening: as wanted, else as the experiment says, else by whether there are opponents."""
    evaluation = program.experiment.evaluation
    if wanted is None and evaluation is not None:
        wanted = evaluation.openings
    return wanted if wanted is not None else OPENING if program.opponents else 0


def joined(kept: Mapping[str, Mapping[int, np.ndarray]]) -> Past:
    """Policy -> version -> parameters, as versions of all policies: beside one of the first, of the others the nearest."""
    return {
        version: {policy: blocks[min(blocks, key=lambda one: abs(one - version))] for policy, blocks in kept.items()}
        for version in next(iter(kept.values()), {})
    }


def spread(versions: list[int], most: int) -> list[int]:
    """At most so many of them, at even distances, the first and the last among them."""
    places = np.linspace(0, len(versions) - 1, min(most, len(versions))).round().astype(int)
    return [versions[place] for place in places.tolist()]


def standin_of(opponent: Opponent, policy: str, env: Env, spec: PolicySpec) -> Standin:
    """One that never changes, in the place of a policy."""
    if opponent.name == "random":
        return Standin(RandomPolicy(env.groups[spec.home]), draws=True)
    if opponent.sources:
        return Standin(load_source(opponent.sources[policy]), draws=False)
    script, space = load_script(opponent.name, "against"), env.groups[spec.home].action_space
    return Standin(ScriptedPolicy(script, space, f"against = '{opponent.name}'"), draws=True)


def standin_seat(name: str, spec: PolicySpec, standin: Standin, lanes: int, watch: Watch) -> Seat:
    """A seat of that name, in which somebody plays in the place of a policy."""
    policy = standin.policy
    if policy.agents not in (0, len(spec.columns)):
        raise InputError(
            f"against '{name}': it tells {policy.agents} agents apart; here it would play {len(spec.columns)}"
        )
    client = FixedInference(policy, explore=standin.draws or watch.explore)
    noise = _noise(name, lanes, policy, watch)
    return make_seat(replace(spec, name=name), standin.plan, client, policy, noise, watched=watch.thoughts)


def _noise(name: str, lanes: int, policy: Policy, watch: Watch) -> Noise:
    return Noise(watch.seed, f"evaluation of {name}", np.arange(lanes), policy.noise_size)
