"""From an experiment to a Program. Networks are built on the way, to see how large everything is, and dropped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from shoal.api.algorithm import Algorithm, Task
from shoal.api.evaluation import SELF
from shoal.api.experiment import Experiment
from shoal.api.policy_spec import Opponent, PolicyFacts, PolicyPlan, PolicySpec, Source
from shoal.api.program import Program
from shoal.base.arithmetic import networks_of
from shoal.base.config import Named
from shoal.base.errors import InputError, ShoalError
from shoal.base.seeding import derive_seed
from shoal.base.table import did_you_mean
from shoal.base.tree import tree_map
from shoal.checkpoints.store import CheckpointStore, parse_which
from shoal.checkpoints.tags import LATEST
from shoal.envs.wrappers import chosen_wrappers
from shoal.evaluation.sides import opposed, sides_of
from shoal.models import resolved_model
from shoal.monitoring.run_folder import DEFAULT_ROOT, RunFolder
from shoal.program.env_facts import EnvFacts, inspect_env
from shoal.program.league_roles import check_league, league_roles
from shoal.program.league_sources import league_source
from shoal.program.normalising import with_normaliser
from shoal.program.placement import check_shares, lanes_per_batch, resolve_placement, with_all_copies
from shoal.program.processes import lay_out
from shoal.program.roles import Role, assign_roles
from shoal.rollout.plans import algorithm_class, build_algorithm, fixed_policy, load_script
from shoal.rollout.team import team_group
from shoal.streams.inference import Ask, decide
from shoal.workers.replay_shards import nbytes_of, sequences_of


def check_settings(experiment: Experiment) -> None:
    """Of algorithms: what is wrong there shows before an environment is opened."""
    sections = {"algorithm": experiment.algorithm}
    sections |= {
        f"policies.{name}.algorithm": config.algorithm
        for name, config in experiment.policies.items()
        if config.algorithm
    }
    for at, section in sections.items():
        algorithm_class(section, at).Config.parse(section.rest, at=at)
    chosen_wrappers(experiment.env)


def expand(
    experiment: Experiment, *, exact: bool = True, facts: EnvFacts | None = None, against: list[str] | None = None
) -> Program:
    """Fill in what the experiment leaves open, and lay it out.

    `exact`: whether a run with lag is, if it does not say. `facts`: of its environment, where they are known already. `against`:
    the opponents of an evaluation by hand; None: those of evaluations beside training and of the confirmation of `stop.return`.
    """
    experiment = with_all_copies(experiment)
    check_shares(experiment)
    facts = facts or inspect_env(experiment)
    roles = (assign_roles if experiment.league is None else league_roles)(experiment, facts.groups)
    alone = sum(role.learns for role in roles) == 1
    specs: dict[str, PolicySpec] = {}
    plans: dict[str, PolicyPlan] = {}
    for role in roles:
        spec = _spec(experiment, role, facts, alone=alone)
        if spec.config.play is not None:
            _try_script(spec, facts)
        if spec.learns:
            plans[role.policy] = _plan(experiment, spec, facts)
            spec = plans[role.policy].spec
        specs[role.policy] = spec
    _check_pasts(specs, plans)
    check_league(experiment, specs, plans)
    placement = resolve_placement(experiment, plans.values(), exact=exact)
    resolved = experiment.model_copy(update={"placement": placement, **_sections_in_use(experiment, specs)})
    program = Program(resolved, specs, facts.game_return, footprint=facts.footprint)
    if against is None and (experiment.evaluation is not None or experiment.stop.return_ is not None):
        against = default_opponents(experiment)
        if "past" in against and not experiment.plays_itself:
            raise InputError(
                "evaluation.against = 'past': no policy keeps its past; add one with policies.NAME.past, or use "
                "`shoal evaluate RUN --against past`, which takes earlier checkpoints"
            )
    found = find_opponents(program, against or [], opposed(sides_of(program)))
    return lay_out(replace(program, opponents=found), plans)


def default_opponents(experiment: Experiment) -> list[str]:
    """Whom its policies are evaluated against, if nobody else is named; none: everyone plays as in training."""
    if experiment.evaluation is not None and experiment.evaluation.against is not None:
        return experiment.evaluation.against
    return ["random", "past"] if experiment.plays_itself else []


def find_opponents(program: Program, names: list[str], roles: list[str]) -> tuple[Opponent, ...]:
    """With the versions of other runs that they stand for. `roles`: the policies in whose place they play."""
    if names and not roles:
        raise InputError(f"against = '{names[0]}': this environment has one agent, which has no opponents")
    return tuple(_find_opponent(program, name, roles) for name in dict.fromkeys(names))


def _find_opponent(program: Program, name: str, roles: list[str]) -> Opponent:
    if name in ("random", "past", SELF):
        return Opponent(name)
    run, function, _ = parse_source(name)
    if run.endswith(".py") or (function and "/" not in run and not Path(DEFAULT_ROOT, run).is_dir()):
        load_script(name, "against")
        return Opponent(name)
    if not function and not any(Path(folder, run).is_dir() for folder in ("", DEFAULT_ROOT)):
        raise InputError(
            f"against = '{name}': there is no such run; choose from: random, past, self, RUN[:POLICY][@TAG], file.py:function"
        )
    sources = {role: find_source(name, role, "against") for role in roles}
    for role, source in sources.items():
        here, there = program.policies[role].group, source.policy.group
        if (here.observation_space, here.action_space) != (there.observation_space, there.action_space):
            raise InputError(f"against = '{name}': it was trained for other spaces than '{role}' has here")
    return Opponent(name, sources)


def _spec(experiment: Experiment, role: Role, facts: EnvFacts, *, alone: bool) -> PolicySpec:
    group, config = facts.groups[role.group], role.config
    own = replace(group, agents=tuple(group.agents[column] for column in role.columns))
    lanes, whole = experiment.env.num_envs * len(role.columns), len(role.columns) == len(group.agents)
    source = None if config.from_ is None else find_source(config.from_, role.policy, f"policies.{role.policy}.from")
    spec = PolicySpec(
        role.policy, config, role.group, role.columns, role.count, own, lanes, facts.mask_widths[role.group], whole,
        source=source, members=role.members,
    )  # fmt: skip
    if not role.learns:
        return spec
    where = f"policies.{role.policy}."
    section, at = (config.algorithm, f"{where}algorithm") if config.algorithm else (experiment.algorithm, "algorithm")
    section = with_normaliser(experiment.env, section, at)
    settings = algorithm_class(section, at).Config.parse(section.rest, at=at)
    body, at = (config.model, f"{where}model") if config.model else (experiment.model, "model")
    model = Named.parse(resolved_model(body, own.observation_space, at=at), at=at)
    seed = experiment.seed if alone else derive_seed(experiment.seed, f"policy {role.policy}")  # they begin apart
    batch, replicas = lanes_per_batch(experiment, lanes), experiment.placement.trainers or 1
    task = Task(own, batch, seed, experiment.stop.steps, replicas, facts.state_space, all_lanes=lanes)
    return replace(spec, algorithm=Named(**{**settings.model_dump(), "name": section.name}), model=model, task=task)


def _try_script(spec: PolicySpec, facts: EnvFacts) -> None:
    """Ask it once, for what its agents see after a reset: its mistakes come out before anything is launched."""
    seen, lanes = facts.first[spec.home], list(spec.columns)
    policy = fixed_policy(spec)
    noise = np.full((len(lanes), policy.noise_size), 0.5, np.float32)
    observation, mask = tree_map(lambda array: array[lanes], (seen.observation, seen.action_mask))
    try:
        decide(policy, Ask(observation, np.ones(len(lanes), bool), noise, None, mask), explore=True, version=0)
    except ShoalError as error:
        raise InputError(str(error)) from error


def _plan(experiment: Experiment, spec: PolicySpec, facts: EnvFacts) -> PolicyPlan:
    """With its algorithm, and what is known of it once it is built."""
    algorithm = build_algorithm(spec)
    needs, flat = algorithm.needs, algorithm.flat
    if needs.lane == "env":
        if experiment.shuffles:
            assert spec.algorithm is not None
            raise InputError(
                f"deal = 'shuffled': '{spec.algorithm.name}' learns as a team, whose agents stay; remove it"
            )
        own, width = team_group(spec.group, facts.state_space), spec.mask_width
        width = width and width * len(own.agents)
        spec = replace(spec, group=own, lanes=experiment.env.num_envs, mask_width=width)
    plan = PolicyPlan(spec, algorithm)
    known = PolicyFacts(
        flat.parameters.numel(), flat.parameters.nbytes, flat.nbytes, needs.unroll,
        needs.burn_in + needs.unroll + needs.bootstrap, needs.max_lag, needs.replay is not None,
        sequences_of(plan), nbytes_of(plan) if needs.replay is not None else 0,
        0 if needs.replay is None else needs.replay.sequences, _learner_nbytes(algorithm),
        (*algorithm.notes, *_notes(experiment, algorithm)),
    )  # fmt: skip
    return PolicyPlan(replace(spec, facts=known), algorithm)


def _notes(experiment: Experiment, algorithm: Algorithm) -> Iterator[str]:
    """What a user should know of settings that are not the algorithm's own."""
    placement = experiment.placement
    if experiment.league is not None and placement.exact:
        yield "placement.exact: whom players of a league meet depends on who comes first; only inline runs repeat"
    if (placement.precision == "bf16" or placement.compile) and not any(
        list(networks_of(flat.module)) for flat in algorithm.flats()
    ):
        if placement.precision == "bf16":
            yield "placement.precision = 'bf16' changes nothing here: heads and recurrent cores stay in fp32"
        if placement.compile:
            yield "placement.compile = true: losses alone are compiled here, heads and recurrent cores are not"


def _learner_nbytes(algorithm: Algorithm) -> int:
    gradients = [flat.gradients for flat in algorithm.flats() if flat.gradients is not None]
    return sum(each.nbytes for each in gradients) + 2 * sum(block.nbytes for block in algorithm.blocks())


def _check_pasts(specs: dict[str, PolicySpec], plans: dict[str, PolicyPlan]) -> None:
    for name, spec in specs.items():
        past = spec.config.past
        if past is not None and past.of in plans and plans[past.of].algorithm.needs.lane == "env":
            raise InputError(f"policies.{name}.past.of = '{past.of}' learns as a team: it cannot be met as a past one")


def _sections_in_use(experiment: Experiment, specs: dict[str, PolicySpec]) -> dict[str, Any]:
    """For `config.yaml`: a single policy's settings are the experiment's, several have their own."""
    learning = {name: spec for name, spec in specs.items() if spec.learns}
    if len(learning) == 1 and not experiment.policies:
        (spec,) = learning.values()
        return {"algorithm": spec.algorithm, "model": spec.model}
    own = {
        name: spec.config.model_copy(update={"algorithm": spec.algorithm, "model": spec.model})
        for name, spec in learning.items()
    }
    return {"policies": {**experiment.policies, **own}}


def parse_source(text: str) -> tuple[str, str, str]:
    """`RUN[:POLICY][@CHECKPOINT]` -> run, policy or "", checkpoint. A folder's name has no `@`; one on the way to it may."""
    path, at, which = text.rpartition("@")
    if not at or "/" in which:
        path, which = text, LATEST
    run, _, policy = path.partition(":")
    return run, policy, which


def find_source(text: str, name: str, key: str) -> Source:
    """A version of a policy of another run: the named one, or else that called `name`, or the first that learned."""
    run, wanted, which = parse_source(text)
    folder = RunFolder.find(run)
    program = expand(Experiment.parse(folder.read_config()))
    found = wanted or (name if name in program.learners else program.learners[0])
    if found not in program.learners:
        if (member := league_source(folder, program, found, name)) is not None:
            return member
        raise InputError(f"{key} = '{text}': {did_you_mean(found, program.learners)}")
    store = CheckpointStore(folder.checkpoints)
    try:
        version = store.load(parse_which(which, store.versions(), store.tags())).version
    except InputError as error:
        raise InputError(f"{key} = '{text}': {error}") from None
    return Source(program.policies[found], str(folder.checkpoints), version)
