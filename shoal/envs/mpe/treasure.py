"""`shoal/treasure`: collectors carry treasures to the deposits that take their kind."""

from __future__ import annotations

import numpy as np

from shoal.api.env import Array
from shoal.envs.mpe.particles import Scenario
from shoal.envs.mpe.physics import Body, Physics, length, nearest, pick
from shoal.envs.native.native_env import NativeEnv
from shoal.envs.native.row_random import RowRandom

COLLECTOR, DEPOSIT = "collector", "deposit"
NOTHING = -1


class Treasure(Scenario):
    """Collectors pick up treasures, one at a time, and bring each kind to its deposit. mpe2's `collect_treasure_v1`.

    All earn 5 for each treasure picked up and for each brought home. Collectors pay 5 for everyone they touch and a tenth of
    the way to what they want next; deposits a tenth of the way to who carries their kind, or to the middle of all collectors.
    """

    landmark_range = 0.95

    def __init__(self, num_collectors: int = 6, num_deposits: int = 2, num_treasures: int = 6) -> None:
        if min(num_collectors, num_deposits, num_treasures) < 1:
            raise ValueError("num_collectors, num_deposits and num_treasures are at least 1")
        collectors = [Body(f"collector_{i}", accel=1.5, max_speed=1.0) for i in range(num_collectors)]
        deposits = [Body(f"deposit_{i}", size=0.075, accel=1.5, max_speed=1.0, mass=2.25) for i in range(num_deposits)]
        super().__init__([*collectors, *deposits], [Body(size=0.025)] * num_treasures)
        self._kinds = np.arange(num_deposits)[:, None]

    def memory(self, num_envs: int) -> dict[str, Array]:
        """Kind and presence of the treasures, what collectors hold, and what the last step earned."""
        collectors, treasures = self.members[COLLECTOR].stop, len(self.landmarks)
        return {
            "kind": np.zeros((treasures, num_envs), np.int64),
            "alive": np.ones((treasures, num_envs), bool),
            "holding": np.full((collectors, num_envs), NOTHING, np.int64),
            "earned": np.zeros(num_envs),
        }

    def begin(self, world: Physics, rows: Array, random: RowRandom) -> None:
        """Kinds at random, and empty hands."""
        world.memory["kind"][:, rows] = random.integers(len(self._kinds), len(self.landmarks))
        world.memory["alive"][:, rows] = True
        world.memory["holding"][:, rows] = NOTHING
        world.memory["earned"][rows] = 0.0

    # ------------------------------------------------------------ picking up, bringing home

    def after(self, world: Physics, env: NativeEnv) -> None:
        """Treasures picked up in the last step come back elsewhere; others are picked up; what is carried is delivered."""
        gone = ~world.memory["alive"]
        world.memory["earned"][:] = 0.0
        self._pick_up(world)
        rows = np.flatnonzero(gone.any(axis=0))
        if rows.size:
            self._return(world, rows, gone[:, rows], env.random(rows))
        self._deliver(world)

    def _pick_up(self, world: Physics) -> None:
        memory, collectors = world.memory, self.members[COLLECTOR]
        near = world.touching(world.landmarks, collectors) & memory["alive"][:, None]
        rows = np.flatnonzero(near.any(axis=(0, 1)))
        # One treasure after the other: who has picked one up cannot take the next.
        for treasure in range(len(self.landmarks) if rows.size else 0):
            able = near[treasure][:, rows] & (memory["holding"][:, rows] == NOTHING)
            taken = rows[able.any(axis=0)]
            who = able.argmax(axis=0)[able.any(axis=0)]
            memory["holding"][who, taken] = memory["kind"][treasure, taken]
            memory["alive"][treasure, taken] = False
            memory["earned"][taken] += 5.0

    def _return(self, world: Physics, rows: Array, gone: Array, random: RowRandom) -> None:
        count, memory = len(self.landmarks), world.memory
        place = random.uniform(-self.landmark_range, self.landmark_range, count, 2)
        kind = random.integers(len(self._kinds), count)
        treasure, column = np.nonzero(gone)
        world.position[world.landmarks.start + treasure, :, rows[column]] = place[treasure, :, column]
        memory["kind"][treasure, rows[column]] = kind[treasure, column]
        memory["alive"][treasure, rows[column]] = True

    def _deliver(self, world: Physics) -> None:
        holding = world.memory["holding"]
        home = world.touching(self.members[COLLECTOR], self.members[DEPOSIT])
        delivered = (home & (holding[:, None] == self._kinds)).any(axis=1)
        holding[delivered] = NOTHING
        world.memory["earned"] += 5.0 * delivered.sum(axis=0)

    # ------------------------------------------------------------ what they see and earn

    def observe(self, world: Physics) -> dict[str, list[Array]]:
        """Place and speed, a collector's load, then all others and all treasures, the nearest first."""
        kinds, holding = self._kinds, world.memory["holding"]
        load = (holding[:, None] == kinds) * 1.0
        roles = np.zeros((len(self.agents), 2 * len(kinds), holding.shape[-1]))
        roles[self.members[COLLECTOR], len(kinds) :] = load
        roles[self.members[DEPOSIT], : len(kinds)] = np.eye(len(kinds))[:, :, None]
        known = np.concatenate([world.velocity, roles], axis=1)
        seen = {stem: self._sight(world, stem, known) for stem in self.members}
        seen[COLLECTOR].insert(2, load)
        return seen

    def _sight(self, world: Physics, stem: str, known: Array) -> list[Array]:
        members, others = self.members[stem], self.others[stem]
        there = world.offsets(members, others)
        about = pick(np.concatenate([there, known[others]], axis=2), nearest(there, others.shape[1]), others.shape[1])
        return [world.position[members], world.velocity[members], about, self._treasures(world, members)]

    def _treasures(self, world: Physics, members: slice) -> Array:
        """`[members, treasures, 2 + kinds, num_envs]`: those that are gone stand last, as zeros."""
        alive = world.memory["alive"]
        offsets = world.offsets(members, world.landmarks)
        far = np.where(alive, length(offsets), np.inf)
        kinds = np.broadcast_to(
            world.memory["kind"][:, None] == self._kinds, (*far.shape[:2], len(self._kinds), far.shape[-1])
        )
        shown = np.concatenate([offsets, kinds], axis=2) * alive[:, None]
        return np.take_along_axis(shown, far.argsort(axis=1, kind="stable")[:, :, None], axis=1)

    def reward(self, world: Physics) -> Array:
        """The collectors', then the deposits'."""
        parts = [self._collectors_pay(world), self._deposits_pay(world)]
        return world.memory["earned"] - np.concatenate(parts)

    def _collectors_pay(self, world: Physics) -> Array:
        collectors, memory = self.members[COLLECTOR], world.memory
        touches = world.touching(collectors, collectors).sum(axis=1) - 1
        treasure = np.where(memory["alive"], world.distances(collectors, world.landmarks), np.inf).min(axis=1)
        treasure[np.isinf(treasure)] = 0.0
        home = world.distances(collectors, self.members[DEPOSIT])
        wanted = np.take_along_axis(home, np.maximum(memory["holding"], 0)[:, None], axis=1)[:, 0]
        return 5.0 * touches + 0.1 * np.where(memory["holding"] == NOTHING, treasure, wanted)

    def _deposits_pay(self, world: Physics) -> Array:
        collectors, deposits = self.members[COLLECTOR], self.members[DEPOSIT]
        carries = world.memory["holding"] == self._kinds[:, None]
        carrier = np.where(carries, world.distances(deposits, collectors), np.inf).min(axis=1)
        middle = length(world.position[collectors].mean(axis=0) - world.position[deposits])
        return 0.1 * np.where(np.isinf(carrier), middle, carrier)
