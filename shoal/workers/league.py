"""The league manager.

Consumes the matches that actors played and the versions that trainers made; produces members (frozen versions), the odds by which
players meet them, and the journal of it all; plays members against each other, so that their strength is known. Waits for nobody,
and while training lasts nobody waits for it: until new odds come, players go on by the old ones. When training is over (`Conclude`)
a player that is due joins, and members play on until the mixture is that of all their games. What it knows follows from the
journal, so a new life reads that and goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from shoal.api.experiment import StopConfig
from shoal.api.league import MATCH
from shoal.api.messages import Concluded, Matches, Message, Note, Numbers, Requested, Updated
from shoal.api.orders import Conclude, Heard, LoadWeights, Order, SetOdds
from shoal.api.policy_spec import PolicyPlan
from shoal.api.program import MailboxShape, Port, Program, WorkerSpec
from shoal.api.worker import Heartbeat, Worker
from shoal.base.errors import InputError
from shoal.base.faults import NO_FAULTS, Faults
from shoal.base.seeding import derive_seed
from shoal.base.tree import Tree
from shoal.checkpoints.worker_state import state_of
from shoal.envs.curriculum import make_staged
from shoal.league.journal import Journal
from shoal.league.league import League
from shoal.league.measuring import Measuring
from shoal.league.member_files import MemberFiles
from shoal.league.profiles import Profile
from shoal.league.schemes import scheme_of
from shoal.league.standings import Standings
from shoal.rollout.matchmaking import Cast
from shoal.rollout.members import MemberPool, PlayerVersions
from shoal.rollout.plans import Plans
from shoal.streams import names
from shoal.streams.primitives import Mailbox
from shoal.workers.context import Context
from shoal.workers.replica_sync import sync_class

FEWEST, MOST = 64, 256
"""Env copies in which members play against each other: as many as in training, within these bounds."""
STEPS_PER_POLL = 16
"""Steps of those between two looks at the rest of the process."""


class LeagueSpec(WorkerSpec):
    """The league manager of a run that has a league."""

    kind: ClassVar[str] = "league"
    events: ClassVar[tuple[str, ...]] = ("match", "freeze", "step", "write")
    rank_in_process: ClassVar[int] = 70
    steps_env: ClassVar[bool] = True
    pinned: ClassVar[bool] = False
    at_home: ClassVar[bool] = True
    hears: ClassVar[tuple[type[Message], ...]] = (Matches, Updated)
    concludes: ClassVar[bool] = True

    @classmethod
    def place(cls, program: Program) -> list[Self]:
        return [] if program.experiment.league is None else [cls(name="league")]

    def ports(self, program: Program, plans: Mapping[str, PolicyPlan]) -> list[Port]:
        league, ports = program.experiment.league, []
        assert league is not None, "it was placed"
        for player in league.players:
            shape = MailboxShape(plans[player].algorithm.flat.nbytes, league.keep + 2, every=True)
            ports.append(Port(names.members(player), "write", shape))
            ports.append(Port(sync_class(program).version(player, 0), "read"))
        return ports

    def build(self, context: Context) -> LeagueWorker:
        program, config = context.program, context.program.experiment.league
        assert config is not None, "it was placed"
        if context.checkpoints is None:
            raise InputError("league: the run's folder cannot be reached from the league manager's machine")
        plans, mailbox = Plans(program), context.streams.mailbox  # a trainer in the same process has its own
        version = sync_class(program).version
        players = [
            Player(name, plans[name], mailbox(names.members(name)), mailbox(version(name, 0)), program.experiment.stop)
            for name in config.players
        ]
        files = MemberFiles(context.checkpoints.with_name("league"), plans)
        standings = Standings(config, equal=not program.experiment.agents, parties=Cast.of(program).parties)
        league = League(standings, scheme_of(config), self._journal(context, files), program.experiment.seed)
        league.begin()
        pool = MemberPool([PlayerVersions(player.plan.algorithm.policy, player.members) for player in players])

        def measuring(choose: Callable[[], Profile | None]) -> Measuring:
            env = make_staged(program.experiment, 0, min(max(program.experiment.env.num_envs, FEWEST), MOST))
            seed = derive_seed(program.experiment.seed, "measuring", context.life.incarnation, league.matches)
            return Measuring(program, plans, pool, env, choose, seed=seed)

        return LeagueWorker(
            self.name, league, players, files, measuring, heartbeat=context.heartbeat, faults=context.faults_of(self)
        )

    def _journal(self, context: Context, files: MemberFiles) -> Journal:
        """As it stood when the checkpoint was written, in a launch that goes on from one; as it is, after a death."""
        journal, life = Journal(files.folder, context.faults_of(self)), context.life
        kept = None if life.start is None or life.incarnation else state_of(life.start, self.name)
        if kept is not None:
            journal.open(kept["matches"], kept["decisions"])
        elif life.start is None and not life.incarnation:
            journal.open(0, 0)
        else:
            journal.open()
        return journal


@dataclass
class Player:
    """One that learns, and what is known of it."""

    name: str
    plan: PolicyPlan
    members: Mailbox
    versions: Mailbox
    stop: StopConfig
    version: int = 0
    """The newest that was heard of."""
    steps: int = 0
    """Environment steps behind it."""

    @property
    def through(self) -> bool:
        """It has learned all that it is to learn in this run: it stays as it is."""
        steps, updates = self.stop.steps, self.stop.updates
        return (steps is not None and self.steps >= steps) or (updates is not None and self.version >= updates)

    def publish(self, number: int, block: np.ndarray, held: list[int]) -> None:
        """A member, if it is not out yet."""
        if number > self.members.latest():
            self.members.publish(number, block, keep=held)

    def newest(self) -> tuple[int, np.ndarray] | None:
        """Its newest version, and the parameters; None: it is being replaced."""
        version, block = self.versions.latest(), np.empty(self.plan.algorithm.flat.nbytes, np.uint8)
        return (version, block) if version >= 0 and self.versions.read(version, block) else None


class LeagueWorker(Worker):
    """Hears, decides, measures. `measuring` opens the environments in which members meet."""

    def __init__(
        self, name: str, league: League, players: list[Player], files: MemberFiles,
        measuring: Callable[[Callable[[], Profile | None]], Measuring], *,
        heartbeat: Heartbeat | None = None, faults: Faults = NO_FAULTS,
    ) -> None:  # fmt: skip
        self.name, self._league, self._players, self._files = name, league, players, files
        self._open = measuring
        self._measuring: Measuring | None = None
        self._heartbeat, self._faults = heartbeat or Heartbeat(), faults
        self._heard = self._frozen = self._steps = 0
        self._told = -1
        self._over = self._concluded = False
        for number, player in enumerate(players):  # what an earlier life, or an earlier launch, had frozen
            league.thin(number)
            for member in league.standings.of(number):
                block = files.read(league.standings.name(member), player.name)
                player.publish(member[1], block, self._held(number))
        self._pairs = league.standings.pairs()
        self._said = self._freeze_due()  # where versions are out already, their first is a member

    # ---------------------------------------------------------------- what it hears

    def handle(self, order: Order) -> list[Message]:
        if isinstance(order, Heard) and isinstance(order.message, Matches):
            self._heard += 1
            self._faults.at("match", self._heard)
            self._league.hear(np.frombuffer(order.message.records, MATCH))
        elif isinstance(order, Heard) and isinstance(order.message, Updated):
            for player in self._players:
                if player.name == order.message.policy:
                    player.steps = max(player.steps, order.message.steps)
                    player.version = max(player.version, order.message.version)
            if not self._over and not any(player.through for player in self._players):
                self._said += [self._anew(self._players[number]) for number in self._league.begin_late()]
        elif isinstance(order, Conclude) and not self._over:
            self._over = True
            self._said += self._freeze_due()
            if not self._league.measured(self._pairs):
                games = self._league.standings.config.games
                self._said.append(Note(f"training is over: members play on until each two have met {games:,} times"))
        return []

    def poll(self, timeout: float) -> list[Message]:
        said, self._said = [*self._said, *self._freeze_due()], []
        worked = self._measure()
        if self._league.look(self._pairs):
            said.append(Requested("actor", SetOdds(self._league.given)))
        if self._league.looked != self._told:
            self._told = self._league.looked
            said += [Note(line) for line in self._league.alarms()]
            said.append(Numbers(self._league.metrics()))
        if self._over and not self._concluded and self._league.measured(self._pairs):
            self._concluded = True
            said.append(Concluded(self.name))
        return said or ([Numbers()] if worked else [])

    # ---------------------------------------------------------------- members

    def _freeze_due(self) -> list[Message]:
        return [message for number in range(len(self._players)) for message in self._freeze(number)]

    def _freeze(self, number: int) -> list[Message]:
        """A player joins as it is, if that is due: its file first, then the journal, then everyone may meet it."""
        player, league = self._players[number], self._league
        reason = league.due(number, player.steps)
        found = None if reason is None else player.newest()
        if reason is None or found is None:
            return []
        version, block = found
        newest = league.standings.newest(number)
        own = 0 if newest is None else newest[1] + 1
        member = (number, own)
        self._files.write(league.standings.name(member), player.name, block)
        self._frozen += 1
        self._faults.at("freeze", self._frozen)
        league.freeze(number, own, steps=player.steps, version=version, reason=reason)
        player.publish(own, block, self._held(number))
        self._pairs = league.standings.pairs()
        said: list[Message] = [Note(f"{league.standings.name(member)} joins the league: {reason}")]
        if own and not player.through and league.begins_anew(number, own):  # else when the run is resumed
            said.append(self._anew(player))
        return said

    def _anew(self, player: Player) -> Message:
        """The order to begin as it was made."""
        return Requested("trainer", LoadWeights(player.name, "", 0, player.name))

    def _held(self, number: int) -> list[int]:
        return [own for _, own in self._league.standings.of(number)]

    # ---------------------------------------------------------------- measuring

    def _choose(self) -> Profile | None:
        """What is played next."""
        return self._pairs.choose(() if self._measuring is None else self._measuring.under_way)

    def _measure(self) -> bool:
        """Some steps of games between members, if there is something left to learn of them."""
        if not self._pairs.wanting:
            return False
        if self._measuring is None:
            self._heartbeat.begin(60.0, in_env=True)
            self._measuring = self._open(self._choose)
        ended = []
        for _ in range(STEPS_PER_POLL):
            self._heartbeat.beat()
            self._steps += 1
            self._faults.at("step", self._steps)
            ended.append(self._measuring.step())
        self._heartbeat.rest()
        joint = self._league.standings.joint
        paired = not joint.general
        self._league.hear(np.concatenate(ended))
        if paired and joint.general:  # what one wins the other does not lose: members meet themselves, too
            self._pairs = self._league.standings.pairs()
        return True

    # ---------------------------------------------------------------- state

    def state(self, round_: int) -> Tree:
        """Where the journal ends: the rest follows from it."""
        self._league.journal.sync()
        return {"matches": self._league.matches, "decisions": self._league.decisions}

    def close(self) -> None:
        self._league.journal.close()
        if self._measuring is not None:
            self._measuring.close()
