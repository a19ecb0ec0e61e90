"""Who plays whom in a league: the players that learn, and the seats in which frozen members play."""

from __future__ import annotations

from shoal.api.env import AgentGroup
from shoal.api.experiment import Experiment, PolicyConfig
from shoal.api.policy_spec import PolicyPlan, PolicySpec
from shoal.base.errors import InputError
from shoal.base.files import check_name
from shoal.base.table import did_you_mean
from shoal.base.tree import tree_map
from shoal.league.schemes import check_parties
from shoal.program.roles import Role, assign_roles

RIVAL = "rival"
"""The seat of members; where sides differ, each has its own: `rival-<player>`."""


def league_roles(experiment: Experiment, groups: dict[str, AgentGroup]) -> list[Role]:
    """Equal agents: any may be any player. Where `agents` maps them to players: sides, each meets members of the others."""
    league = experiment.league
    assert league is not None
    _check(experiment, tuple(league.players))
    roles = _sided(experiment, groups) if experiment.agents else _equal(experiment, groups)
    parties = len(league.players) if experiment.agents else sum(len(group.agents) for group in groups.values())
    check_parties(league, parties)
    return roles


def _check(experiment: Experiment, players: tuple[str, ...]) -> None:
    for name in players:
        check_name("league.players", name)
        if name.startswith(RIVAL):
            raise InputError(
                f"league.players.{name}: names that begin with '{RIVAL}' are those of its opponents' seats"
            )
        if not experiment.policies.get(name, PolicyConfig()).learns:
            raise InputError(
                f"league.players.{name}: policies.{name} does not learn; remove frozen, play or past there"
            )
    if "main" not in (experiment.league.players if experiment.league else {}).values():
        raise InputError("league.players: none has the role main; give it to one")
    if experiment.deal == "shuffled":
        raise InputError("deal = 'shuffled': a league deals by itself; remove it")
    if experiment.curriculum:
        raise InputError("curriculum: members of a league measure themselves in one environment; remove it or league")


def _equal(experiment: Experiment, groups: dict[str, AgentGroup]) -> list[Role]:
    league = experiment.league
    assert league is not None
    if len(groups) > 1:
        raise InputError(
            f"league: this environment has the groups {', '.join(groups)}, which differ; say with agents which player plays whom"
        )
    for name in experiment.policies:
        if name not in league.players:
            raise InputError(f"policies.{name}: it is no player of the league; {did_you_mean(name, league.players)}")
    ((group, known),) = groups.items()
    agents, players = len(known.agents), list(league.players)
    if agents < 2:
        raise InputError("league: this environment has one agent, which has nobody to meet")
    everyone = tuple(range(agents))
    configs = {name: experiment.policies.get(name, PolicyConfig()) for name in players}
    # outside the league, for example in evaluations, the first player plays and the others look on
    roles = [Role(name, config, group, everyone, int(name == players[0])) for name, config in configs.items()]
    return [*roles, Role(RIVAL, PolicyConfig(), group, everyone, agents - 1, tuple(players))]


def _sided(experiment: Experiment, groups: dict[str, AgentGroup]) -> list[Role]:
    league = experiment.league
    assert league is not None
    roles, players = assign_roles(experiment, groups), list(league.players)
    learners = [role.policy for role in roles if role.config.learns]
    if sorted(learners) != sorted(players) or len(players) < 2:
        raise InputError(
            f"league.players = {players}: where agents maps agents to policies, these are those that learn there, one "
            f"for each side and two at least; those that learn are {learners}"
        )
    sides = {role.policy: role for role in roles if role.policy in players}
    seats = [
        Role(f"{RIVAL}-{name}", PolicyConfig(), sides[name].group, sides[name].columns, 0, (name,)) for name in players
    ]
    return [*roles, *seats]


def check_league(experiment: Experiment, specs: dict[str, PolicySpec], plans: dict[str, PolicyPlan]) -> None:
    """What can be seen once the policies are built."""
    for spec in specs.values():
        kinds = {}
        for name in spec.members:
            algorithm = plans[name].algorithm
            if algorithm.needs.lane == "env":
                raise InputError(f"league.players.{name} learns as a team: it cannot be met as a member")
            state = tree_map(lambda tensor: tuple(tensor.shape), algorithm.policy.initial_state(1))
            kinds[name] = (repr(state), algorithm.policy.agents, algorithm.policy.noise_size)
        if len(set(kinds.values())) > 1:
            raise InputError(
                f"league.players: {' and '.join(kinds)} differ in their memory or their actions; give them models alike"
            )
    if experiment.league is not None and experiment.env.num_envs < len(experiment.league.players):
        raise InputError(
            f"env.num_envs = {experiment.env.num_envs}: each of {len(experiment.league.players)} players needs a copy"
        )
