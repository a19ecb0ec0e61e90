"""A person plays against a policy: what the person's agent sees goes out as text, moves come in as words."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field, replace

import numpy as np
from gymnasium.spaces import Discrete

from shoal.api.env import Array, Env, Episode, Step, Turn
from shoal.api.experiment import Experiment
from shoal.api.program import Program
from shoal.base.descendants import no_new_children
from shoal.base.errors import InputError
from shoal.base.seeding import derive_seed
from shoal.base.table import did_you_mean, from_here
from shoal.base.tree import tree_map
from shoal.envs.codec import SpaceCodec
from shoal.envs.curriculum import make_staged
from shoal.evaluation.opponents import standin_of
from shoal.evaluation.player import ROWS, Player
from shoal.evaluation.sides import both_ways, opposed
from shoal.monitoring.run_folder import RunFolder
from shoal.program.expand import expand, find_opponents, parse_source

Place = tuple[str, int]
"""Group and number of an agent in it."""


@dataclass
class Person:
    """How a person is spoken with. EOFError from `ask`: enough."""

    ask: Callable[[str], str] = input
    tell: Callable[[str], None] = print

    def choose(self, names: list[str], legal: list[int]) -> int:
        """One of the legal moves, by its name or its beginning; asks until it is one."""
        allowed = [names[action] for action in legal]
        while True:
            said = self.ask(f"your move ({', '.join(allowed)}): ").strip().lower()
            exact = [action for action in legal if names[action].lower() == said]
            begins = [action for action in legal if said and names[action].lower().startswith(said)]
            for found in (exact, begins):
                if len(found) == 1:
                    return found[0]
            self.tell(f"'{said}' is no move here; {'several begin so' if begins else did_you_mean(said, allowed)}")


@dataclass
class Score:
    """Of the person, over all games that came to an end."""

    earned: list[tuple[float, float]] = field(default_factory=list)
    """By game: the person, and the others on average."""

    def summary(self) -> str:
        """A line."""
        won, lost = (sum(1 for own, other in self.earned if sign * (own - other) > 1e-9) for sign in (1, -1))
        total = sum(own for own, _ in self.earned)
        return f"{len(self.earned)} games: {won} won, {len(self.earned) - won - lost} drawn, {lost} lost; you earned {total:g}"


@from_here()
@no_new_children()
def play(
    run: str, *, agent: str | None = None, games: int | None = None, stochastic: bool = False, seed: int = 0,
    person: Person | None = None,
) -> Score:  # fmt: skip
    """Until so many games are over, or the person has had enough.

    run          `RUN[:POLICY][@CHECKPOINT]`, or `RUN:MEMBER` of a league
    agent        the person's; None: each in turn, from game to game
    stochastic   the policy acts as in training, not greedily
    """
    person = person or Person()
    experiment = Experiment.parse(RunFolder.find(parse_source(run)[0]).read_config())
    program = expand(experiment, against=[])
    program = replace(program, opponents=find_opponents(program, [run], opposed(both_ways(program))))
    with closing(make_staged(experiment, max(len(experiment.curriculum) - 1, 0), 1)) as env:
        places = _places(env, agent)
        table = _Table(program, env, person, stochastic=stochastic, seed=seed)
        score = Score()
        try:
            while games is None or len(score.earned) < games:
                score.earned.append(table.game(places[len(score.earned) % len(places)]))
        except EOFError:
            person.tell("")
    return score


def _places(env: Env, agent: str | None) -> list[Place]:
    """The agents that the person plays, one in each game."""
    places = {name: (group, number) for group, own in env.groups.items() for number, name in enumerate(own.agents)}
    if agent is not None and agent not in places:
        raise InputError(f"--as {agent}: there is no such agent; {did_you_mean(agent, places)}")
    for group in env.groups.values():
        if not isinstance(group.action_space, Discrete):
            raise InputError(
                f"actions of {group.agents[0]} are {group.action_space}: people play games with single moves"
            )
    return list(places.values()) if agent is None else [places[agent]]


class _Table:
    """One copy of the environment, and everyone who plays in it."""

    def __init__(self, program: Program, env: Env, person: Person, *, stochastic: bool, seed: int) -> None:
        self._env, self._person, self._stochastic, self._seed, self._games = env, person, stochastic, seed, 0
        (self._opponent,) = program.opponents
        side = both_ways(program)[0]
        self._roles = {(group, n): place.policy for group, all_ in side.items() for n, place in enumerate(all_)}
        self._specs = {role: program.policies[role] for role in self._roles.values()}
        self._standins = {role: standin_of(self._opponent, role, env, spec) for role, spec in self._specs.items()}
        self._players = {place: self._player(place) for place in self._roles}

    def _player(self, place: Place) -> Player:
        (group, number), role = place, self._roles[place]
        standin, known = self._standins[role], self._env.groups[group]
        codec = SpaceCodec(known.observation_space, known.action_space, ROWS)
        told = self._specs[role].columns.index(number) if standin.policy.agents else None
        seed = derive_seed(self._seed, f"player {group}", number)
        return Player(standin.policy.eval(), codec, told, by_rule=standin.draws, seed=seed)

    def game(self, own: Place) -> tuple[float, float]:
        """One from its beginning to its end: what the person earned, and the others on average."""
        env, self._games = self._env, self._games + 1
        step = env.reset(derive_seed(self._seed, "game", self._games))
        for player in self._players.values():
            player.reset()
        name = env.groups[own[0]].agents[own[1]]
        self._person.tell(f"game {self._games}: you are {name}, against {self._opponent.name}; Ctrl-D ends it")
        while not step.episodes:
            step = env.step({group: self._actions(group, step.turns[group], own) for group in env.groups})
        (episode,) = step.episodes
        return self._end(episode, step, own, name)

    def _actions(self, group: str, turn: Turn, own: Place) -> Array:
        known = self._env.groups[group]
        assert isinstance(known.action_space, Discrete), "it was checked"
        count = int(known.action_space.n)
        chosen = np.zeros((1, len(known.agents)), np.int64)
        for number in np.flatnonzero(turn.acting[0]).tolist():
            seen = tree_map(lambda array, n=number: array[0, n], turn.observation)
            mask = None if turn.action_mask is None else turn.action_mask[0, number]
            if (group, number) == own:
                self._show(known.agents[number], seen)
                legal = list(range(count)) if mask is None else np.flatnonzero(mask).tolist()
                names = self._env.action_names(known.agents[number]) or [str(action) for action in range(count)]
                chosen[0, number] = self._person.choose(names, legal)
            else:
                chosen[0, number] = self._players[group, number].act(seen, mask, explore=self._stochastic)
        return chosen

    def _show(self, agent: str, seen: object) -> None:
        text = self._env.describe(agent, seen)
        if text is None:
            raise InputError("this environment cannot be shown as text: give its Env a method describe")
        self._person.tell(text)

    def _end(self, episode: Episode, step: Step, own: Place, name: str) -> tuple[float, float]:
        turn = step.turns[own[0]]
        if turn.final_observation is not None:
            self._show(name, tree_map(lambda array: array[0, own[1]], turn.final_observation))
        others = [
            float(value)
            for group, values in episode.returns.items()
            for number, value in enumerate(values)
            if (group, number) != own
        ]
        earned, other = float(episode.returns[own[0]][own[1]]), float(np.mean(others))
        word = "a draw" if abs(earned - other) < 1e-9 else "you win" if earned > other else "you lose"
        self._person.tell(f"{word}: you earned {earned:g}\n")
        return earned, other
