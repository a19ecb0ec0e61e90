"""The policies of a Program, built when a process needs them: algorithms of those that learn, policies of those that do not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from textwrap import shorten

import torch
from torch import Tensor

from shoal.algorithms import ALGORITHMS
from shoal.api.algorithm import Algorithm
from shoal.api.orders import LoadWeights
from shoal.api.policy import Policy
from shoal.api.policy_spec import PolicyPlan, PolicySpec, Source
from shoal.api.program import Program
from shoal.base.config import Named
from shoal.base.errors import InputError, ShoalError, own_code
from shoal.base.files import read_small
from shoal.base.table import import_target
from shoal.checkpoints.store import CheckpointStore
from shoal.rollout.mixture import MixturePolicy
from shoal.rollout.players import RandomPolicy, Script, ScriptedPolicy

LEAGUE = "league"
"""The folder of a run's league, beside its checkpoints."""


class Plans(Mapping[str, PolicyPlan]):
    """Policy -> its plan, of all that learn. Whoever asks twice gets the same algorithm."""

    def __init__(self, program: Program) -> None:
        self._specs = {name: program.policies[name] for name in program.learners}
        self._built: dict[str, PolicyPlan] = {}

    def __getitem__(self, policy: str) -> PolicyPlan:
        if policy not in self._built:
            self._built[policy] = PolicyPlan(self._specs[policy], build_algorithm(self._specs[policy]))
        return self._built[policy]

    def __iter__(self) -> Iterator[str]:
        return iter(self._specs)

    def __len__(self) -> int:
        return len(self._specs)


def algorithm_class(section: Named, at: str) -> type[Algorithm]:
    """The class that a section names."""
    cls = ALGORITHMS.load(section.name)
    if not (isinstance(cls, type) and issubclass(cls, Algorithm)):
        raise InputError(
            f"{at}.name = '{section.name}' is no Algorithm: let the class inherit from shoal.api.algorithm.Algorithm"
        )
    if not hasattr(cls, "Config"):
        raise InputError(f"{at}.name = '{section.name}' has no Config: name its settings in a nested class")
    return cls


def build_algorithm(spec: PolicySpec) -> Algorithm:
    """As the spec says, with the weights of another run's policy where it names one."""
    assert spec.algorithm is not None, "it learns"
    assert spec.model is not None
    assert spec.task is not None
    where = f"policies.{spec.name}.algorithm" if spec.config.algorithm else "algorithm"
    cls = algorithm_class(spec.algorithm, where)
    name = spec.algorithm.name
    with own_code(f"{where}.name = '{name}'") if ":" in name else nullcontext():
        built = cls(cls.Config.parse(spec.algorithm.rest, at=where), spec.model, spec.task)
        if unset := [each for each in ("needs", "policy", "flat", "optimisers") if not hasattr(built, each)]:
            raise InputError(f"{where}.name = '{name}' has no {unset[0]}: set self.{unset[0]} in __init__")
    if spec.source is not None:
        _begin_from(built.policy, spec.source, spec)
    return built


def load_ordered(algorithm: Algorithm, order: LoadWeights, spec: PolicySpec | None) -> None:
    """From a checkpoint, or as `spec` says it was made: for that no file is needed, so any machine of a cluster can."""
    if order.checkpoints:
        load_policy(algorithm, CheckpointStore(Path(order.checkpoints)).load(order.version).tensors, order.source)
        return
    assert spec is not None, "a trainer of a run has one"
    with torch.random.fork_rng(devices=[]):  # nobody else who draws notices
        algorithm.load_state_dict(build_algorithm(spec).state_dict())


def _begin_from(policy: Policy, source: Source, spec: PolicySpec) -> None:
    """Give a policy the weights of another run's."""
    try:
        policy.load_state_dict(load_source(source).state_dict())
    except RuntimeError as error:
        cause = shorten(str(error), 200)
        raise InputError(
            f"policies.{spec.name}.from = '{spec.config.from_}' does not fit: use its model and spaces ({cause})"
        ) from None


def load_source(source: Source) -> Policy:
    """A policy of another run, as a checkpoint holds it."""
    if source.mixture:
        return MixturePolicy([load_source(each) for _, each in source.mixture], [share for share, _ in source.mixture])
    algorithm, checkpoints = build_algorithm(source.policy), Path(source.checkpoints)
    if source.member:
        load_member(algorithm.policy, member_file(checkpoints.with_name(LEAGUE), source.member))
    else:
        load_policy(algorithm, CheckpointStore(checkpoints).load(source.version).tensors, source.policy.name)
    return PolicyPlan(source.policy, algorithm).copy_policy()[0]


def member_file(folder: Path, name: str) -> Path:
    """Where a member of a league lies: `main-3.safetensors`."""
    return folder / f"{name}.safetensors"


def load_member(policy: Policy, path: Path) -> None:
    """Give a policy the parameters of a member."""
    import safetensors.torch

    try:
        policy.load_state_dict(safetensors.torch.load(read_small(path)))
    except (OSError, RuntimeError, ValueError) as error:
        raise ShoalError(f"{path} cannot be read as a member of the league ({error}): restore it") from error


def load_policy(algorithm: Algorithm, tensors: dict[str, Tensor], policy: str) -> None:
    """Give one policy its part of a checkpoint; settings that it was not made with are an error."""
    prefix = f"{policy}/"
    part = {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
    try:
        algorithm.load_state_dict(part)
    except (KeyError, RuntimeError, ValueError) as error:
        cause = shorten(str(error), 200)
        raise InputError(
            f"the checkpoint of policy '{policy}' does not fit: leave env, model and algorithm as they were ({cause})"
        ) from None


def load_script(target: str, key: str) -> Script:
    """A function of the user's that plays."""
    script: Script = import_target(target, key=key)
    if not callable(script):
        raise InputError(f"{key} = '{target}' is no function")
    return script


def fixed_policy(spec: PolicySpec) -> Policy:
    """A policy that does not learn: at random, by a function, or as another run left it."""
    config = spec.config
    if config.play == "random":
        return RandomPolicy(spec.group)
    if config.play is not None:
        key = f"policies.{spec.name}.play"
        return ScriptedPolicy(load_script(config.play, key), spec.group.action_space, f"{key} = '{config.play}'")
    source = spec.source
    assert source is not None, "checked by PolicyConfig, found by expand"
    group, policy = source.policy.group, load_source(source)
    if (group.observation_space, group.action_space) != (spec.group.observation_space, spec.group.action_space):
        raise InputError(f"policies.{spec.name}.from = '{config.from_}' was trained for other spaces")
    if policy.agents not in (0, len(spec.columns)):
        raise InputError(
            f"policies.{spec.name}.from = '{config.from_}' tells {policy.agents} agents apart; here it would play "
            f"{len(spec.columns)}"
        )
    return policy
