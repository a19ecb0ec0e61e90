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

    def begin(self, physics: Physics, rows: Array, random: RowRandom) -> None:
        """Kinds at random, and empty hands."""
        physics.memory["kind"][:, rows] = random.integers(len(self._kinds), len(self.landmarks))
        physics.memory["alive"][:, rows] = True
        physics.memory["holding"][:, rows] = NOTHING
        physics.memory["earned"][rows] = 0.0

    # ------------------------------------------------------------ picking up, bringing home

    def after(self, physics: Physics, env: NativeEnv) -> None:
        """Treasures picked up in the last step come back elsewhere; others are picked up; what is carried is delivered."""
        absent = ~physics.memory["alive"]
        physics.memory["earned"][:] = 0.0
        self._pick_up(physics)
        rows = np.flatnonzero(absent.any(axis=0))
        if rows.size:
            self._return(physics, rows, absent[:, rows], env.random(rows))
        self._deliver(physics)

    def _pick_up(self, physics: Physics) -> None:
        memory, collectors = physics.memory, self.members[COLLECTOR]
        near = physics.touching(physics.landmarks, collectors) & memory["alive"][:, None]
        rows = np.flatnonzero(near.any(axis=(0, 1)))
        # One treasure after the other: who has picked one up cannot take the next.
        for treasure in range(len(self.landmarks) if rows.size else 0):
            able = near[treasure][:, rows] & (memory["holding"][:, rows] == NOTHING)
            taken = rows[able.any(axis=0)]
            who = able.argmax(axis=0)[able.any(axis=0)]
            memory["holding"][who, taken] = memory["kind"][treasure, taken]
            memory["alive"][treasure, taken] = False
            memory["earned"][taken] += 5.0

    def _return(self, physics: Physics, rows: Array, absent: Array, random: RowRandom) -> None:
        count, memory = len(self.landmarks), physics.memory
        place = random.uniform(-self.landmark_range, self.landmark_range, count, 2)
        kind = random.integers(len(self._kinds), count)
        treasure, column = np.nonzero(absent)
        physics.position[physics.landmarks.start + treasure, :, rows[column]] = place[treasure, :, column]
        memory["kind"][treasure, rows[column]] = kind[treasure, column]
        memory["alive"][treasure, rows[column]] = True

    def _deliver(self, physics: Physics) -> None:
        holding = physics.memory["holding"]
        home = physics.touching(self.members[COLLECTOR], self.members[DEPOSIT])
        delivered = (home & (holding[:, None] == self._kinds)).any(axis=1)
        holding[delivered] = NOTHING
        physics.memory["earned"] += 5.0 * delivered.sum(axis=0)

    # ------------------------------------------------------------ what they see and earn

    def observe(self, physics: Physics) -> dict[str, list[Array]]:
        """Place and speed, a collector's load, then all others and all treasures, the nearest first."""
        kinds, holding = self._kinds, physics.memory["holding"]
        load = (holding[:, None] == kinds) * 1.0
        roles = np.zeros((len(self.agents), 2 * len(kinds), holding.shape[-1]))
        roles[self.members[COLLECTOR], len(kinds) :] = load
        roles[self.members[DEPOSIT], : len(kinds)] = np.eye(len(kinds))[:, :, None]
        known = np.concatenate([physics.velocity, roles], axis=1)
        seen = {stem: self._sight(physics, stem, known) for stem in self.members}
        seen[COLLECTOR].insert(2, load)
        return seen

    def _sight(self, physics: Physics, stem: str, known: Array) -> list[Array]:
        members, others = self.members[stem], self.others[stem]
        there = physics.offsets(members, others)
        about = pick(np.concatenate([there, known[others]], axis=2), nearest(there, others.shape[1]), others.shape[1])
        return [physics.position[members], physics.velocity[members], about, self._treasures(physics, members)]

    def _treasures(self, physics: Physics, members: slice) -> Array:
        """`[members, treasures, 2 + kinds, num_envs]`: absent ones come last, as zeros."""
        alive = physics.memory["alive"]
        offsets = physics.offsets(members, physics.landmarks)
        far = np.where(alive, length(offsets), np.inf)
        kinds = np.broadcast_to(
            physics.memory["kind"][:, None] == self._kinds, (*far.shape[:2], len(self._kinds), far.shape[-1])
        )
        shown = np.concatenate([offsets, kinds], axis=2) * alive[:, None]
        return np.take_along_axis(shown, far.argsort(axis=1, kind="stable")[:, :, None], axis=1)

    def reward(self, physics: Physics) -> Array:
        """The collectors', then the deposits'."""
        parts = [self._collectors_pay(physics), self._deposits_pay(physics)]
        return physics.memory["earned"] - np.concatenate(parts)

    def _collectors_pay(self, physics: Physics) -> Array:
        collectors, memory = self.members[COLLECTOR], physics.memory
        touches = physics.touching(collectors, collectors).sum(axis=1) - 1
        treasure = np.where(memory["alive"], physics.distances(collectors, physics.landmarks), np.inf).min(axis=1)
        treasure[np.isinf(treasure)] = 0.0
        home = physics.distances(collectors, self.members[DEPOSIT])
        wanted = np.take_along_axis(home, np.maximum(memory["holding"], 0)[:, None], axis=1)[:, 0]
        return 5.0 * touches + 0.1 * np.where(memory["holding"] == NOTHING, treasure, wanted)

    def _deposits_pay(self, physics: Physics) -> Array:
        collectors, deposits = self.members[COLLECTOR], self.members[DEPOSIT]
        carries = physics.memory["holding"] == self._kinds[:, None]
        carrier = np.where(carries, physics.distances(deposits, collectors), np.inf).min(axis=1)
        middle = length(physics.position[collectors].mean(axis=0) - physics.position[deposits])
        return 0.1 * np.where(np.isinf(carrier), middle, carrier)
