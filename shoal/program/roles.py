"""Maps agents to policies: patterns of agent names in, roles out. Every mistake is one line."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from shoal.api.env import AgentGroup
from shoal.api.experiment import Experiment, PolicyConfig
from shoal.base.errors import InputError
from shoal.base.files import check_name
from shoal.base.table import did_you_mean


@dataclass(frozen=True)
class Role:
    """What one policy plays: some agents of one group."""

    policy: str
    config: PolicyConfig
    group: str
    columns: tuple[int, ...]
    """Its agents' places in the group. Where agents are dealt anew each episode: all places."""
    count: int
    """Agents that it plays at a time; 0: only in matches of a league."""
    members: tuple[str, ...] = ()
    """In a league: the players whose members play here."""

    @property
    def learns(self) -> bool:
        """It has a trainer."""
        return self.config.learns and not self.members


def assign_roles(experiment: Experiment, groups: dict[str, AgentGroup]) -> list[Role]:
    """The roles of an experiment, in the order of the environment's agents."""
    chosen = _by_pattern(experiment, groups) if experiment.agents else _by_group(experiment, groups)
    configs = _configs(experiment, list(dict.fromkeys(chosen.values())))
    roles = []
    for policy, config in configs.items():
        homes = {group for (group, _), name in chosen.items() if name == policy}
        if len(homes) > 1:
            raise InputError(
                f"agents: '{policy}' cannot play {' and '.join(sorted(homes))}, which differ in their spaces"
            )
        (group,) = homes
        own = tuple(column for (home, column), name in chosen.items() if name == policy and home == group)
        everyone = tuple(range(len(groups[group].agents)))
        roles.append(Role(policy, config, group, everyone if experiment.deal == "shuffled" else own, len(own)))
    return roles


def _by_group(experiment: Experiment, groups: dict[str, AgentGroup]) -> dict[tuple[str, int], str]:
    for name in experiment.policies:
        if name not in groups:
            raise InputError(f"policies.{name}: agents names no policy of that name; {did_you_mean(name, groups)}")
    return {(name, column): name for name, group in groups.items() for column in range(len(group.agents))}


def _by_pattern(experiment: Experiment, groups: dict[str, AgentGroup]) -> dict[tuple[str, int], str]:
    used, chosen = set(), {}
    for name, group in groups.items():
        for column, agent in enumerate(group.agents):
            pattern = next((pattern for pattern in experiment.agents if fnmatchcase(agent, pattern)), None)
            if pattern is None:
                raise InputError(f"agents: nobody plays '{agent}'; this environment has {_names(groups)}")
            used.add(pattern)
            chosen[name, column] = experiment.agents[pattern]
    for pattern in experiment.agents:
        if pattern not in used:
            raise InputError(
                f"agents.{pattern}: no agent is left for this pattern; this environment has {_names(groups)}"
            )
    return chosen


def _names(groups: dict[str, AgentGroup]) -> str:
    return ", ".join(agent for group in groups.values() for agent in group.agents)


def _configs(experiment: Experiment, names: list[str]) -> dict[str, PolicyConfig]:
    """The settings of all policies that play. Where there is a list of policies, it holds them all."""
    for name in experiment.policies:
        check_name("policies", name)
        if name not in names:
            raise InputError(f"policies.{name}: it plays nobody; {did_you_mean(name, names)}")
    if experiment.policies and experiment.agents:
        for name in names:
            if name not in experiment.policies:
                raise InputError(f"agents: there is no policy '{name}'; {did_you_mean(name, experiment.policies)}")
    configs = {name: experiment.policies.get(name, PolicyConfig()) for name in names}
    if not any(config.learns for config in configs.values()):
        raise InputError("policies: none of them learns")
    for name, config in configs.items():
        if config.past is not None and not (config.past.of in configs and configs[config.past.of].learns):
            learners = [other for other, its in configs.items() if its.learns]
            raise InputError(
                f"policies.{name}.past.of = '{config.past.of}' does not learn; {did_you_mean(config.past.of, learners)}"
            )
    return configs
