"""Policies of other runs: where a `from` leads."""

from __future__ import annotations

from pathlib import Path

from shoal.api.env import AgentGroup
from shoal.api.experiment import Experiment
from shoal.api.policy import Policy
from shoal.base.errors import InputError
from shoal.base.table import did_you_mean
from shoal.checkpoints.store import CheckpointStore
from shoal.monitoring.run_folder import RunFolder
from shoal.workers.trainer import load_policy


def load_from(source: str, name: str) -> tuple[Policy, AgentGroup]:
    """The newest version of a policy of another run, `runs/EXPERIMENT/TRIAL` or `...:POLICY`, and the agents it was trained as."""
    from shoal.program.program import expand

    path, _, wanted = source.partition(":")
    folder = RunFolder.find(path)
    program = expand(Experiment.parse(folder.read_config()))
    found = wanted or (name if name in program.policies else next(iter(program.policies)))
    if found not in program.policies:
        raise InputError(f"policies.{name}.from = '{source}': {did_you_mean(found, program.policies)}")
    plan = program.policies[found]
    load_policy(plan.algorithm, CheckpointStore(Path(folder.checkpoints)).latest().tensors, found)
    return plan.copy_policy()[0], plan.group


def begin_from(policy: Policy, source: str, name: str) -> None:
    """Give a policy the weights of another run's."""
    other = load_from(source, name)[0]
    try:
        policy.load_state_dict(other.state_dict())
    except RuntimeError as error:
        cause = " ".join(str(error).split())
        raise InputError(
            f"policies.{name}.from = '{source}' does not fit: use its model and spaces ({cause})"
        ) from None
