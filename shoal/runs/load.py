"""A run that is on disk, in a program of one's own: its folder in, policies and players out."""

from __future__ import annotations

import secrets
from contextlib import closing
from functools import cached_property
from pathlib import Path

from shoal.api.env import Env
from shoal.api.experiment import Experiment
from shoal.api.policy import Policy
from shoal.base.errors import InputError
from shoal.base.table import did_you_mean
from shoal.base.threads import torch_threads
from shoal.envs.codec import codec_of
from shoal.envs.curriculum import make_staged
from shoal.evaluation.player import ROWS, Player, TeamCodec
from shoal.rollout.plans import fixed_policy
from shoal.runs.evaluate import Loaded, load_run


def load(
    run: str | Path, *, checkpoint: str | int = "latest", overrides: list[str] | None = None, root: Path | str = "runs"
) -> LoadedRun:
    """A run as a checkpoint of it left it: `latest`, `best`, a tag of your own, or a version."""
    with torch_threads(1):  # the program around us keeps its own
        return LoadedRun(load_run(str(run), overrides=overrides, checkpoint=str(checkpoint), root=root))


class LoadedRun:
    """What `shoal.load` gives."""

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded

    @property
    def version(self) -> int:
        """Of the checkpoint."""
        return self._loaded.version

    @property
    def experiment(self) -> Experiment:
        """Its settings."""
        return self._loaded.program.experiment

    @property
    def policies(self) -> dict[str, tuple[str, ...]]:
        """Policy -> the agents that it plays."""
        return {name: spec.group.agents for name, spec in self._loaded.program.policies.items() if not spec.members}

    def policy(self, name: str | None = None, *, agent: str | None = None) -> LoadedPolicy:
        """The policy of that name, or that which plays `agent`; where there is only one, neither is needed."""
        names = self._candidates(name, agent)
        if len(names) == 1:
            return LoadedPolicy(self._loaded, self._env, names[0], agent)
        raise InputError(f"run.policy: several are there; choose one by its name: {', '.join(names)}")

    def _candidates(self, name: str | None, agent: str | None) -> list[str]:
        policies = self.policies
        if name is not None and name not in policies:
            raise InputError(f"run.policy: there is no policy '{name}'; {did_you_mean(name, policies)}")
        names = [name] if name is not None else list(policies)
        found = [each for each in names if agent is None or agent in policies[each]]
        if not found:
            agents = {known for each in names for known in policies[each]}
            raise InputError(f"run.policy: nobody plays the agent '{agent}'; {did_you_mean(str(agent), agents)}")
        return found

    @cached_property
    def _env(self) -> Env:
        """One copy, closed again: it is only asked for its spaces."""
        with closing(make_staged(self.experiment, self._loaded.stage, 1)) as env:
            return env


class LoadedPolicy:
    """One policy of a run. Players of it share its parameters, and nothing else."""

    def __init__(self, loaded: Loaded, env: Env, name: str, agent: str | None) -> None:
        self._spec = spec = loaded.program.policies[name]
        self._env, self._agent = env, agent
        plan = loaded.plans.get(spec.plays_as)
        self.module: Policy = (fixed_policy(spec) if plan is None else plan.copy_policy()[0]).eval()
        """The network, as PyTorch has it."""
        self._team = plan is not None and plan.algorithm.needs.lane == "env"

    @property
    def name(self) -> str:
        """As the experiment calls it."""
        return self._spec.name

    @property
    def agents(self) -> tuple[str, ...]:
        """Those that it plays."""
        return self._spec.group.agents

    def player(self, agent: str | None = None, *, seed: int | None = None) -> Player:
        """Somebody who plays one of its agents, at the start of an episode. `seed`: of what `explore` draws; None: any."""
        number = self.agents.index(self._chosen(agent))
        own = codec_of(self._env, self._spec.home, self.agents[number], ROWS)
        seed = secrets.randbits(63) if seed is None else seed
        by_rule = self._spec.config.play is not None
        if self._team:
            own = TeamCodec(own, number, len(self.agents))
        told = self.module.agents > 0 and not self._team
        return Player(self.module, own, number if told else None, by_rule=by_rule, seed=seed)

    def _chosen(self, agent: str | None) -> str:
        agent = agent or self._agent
        if agent is None and self.module.agents and len(self.agents) > 1:
            raise InputError(
                f"policy.player: '{self.name}' tells its agents apart; name one of them: {', '.join(self.agents)}"
            )
        if agent is not None and agent not in self.agents:
            raise InputError(
                f"policy.player: '{self.name}' does not play '{agent}'; {did_you_mean(agent, self.agents)}"
            )
        return agent or self.agents[0]
