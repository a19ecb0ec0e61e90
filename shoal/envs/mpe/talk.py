"""Environments in which words matter: `shoal/speaker-listener`, `shoal/reference`, `shoal/crypto`."""

from __future__ import annotations

import numpy as np

from shoal.api.env import Array
from shoal.envs.mpe.particles import Scenario
from shoal.envs.mpe.physics import Body, Physics, length
from shoal.envs.native.row_random import RowRandom

SPEAKER, LISTENER, AGENT = "speaker", "listener", "agent"
EVE, BOB, ALICE = "eve", "bob", "alice"


class SpeakerListener(Scenario):
    """The speaker knows which of 3 landmarks is the goal; the listener moves and hears. mpe2's `simple_speaker_listener_v4`.

    The speaker cannot move. Both earn minus the squared distance from the listener to the goal.
    """

    game_return = "mean"
    COLORS = np.where(np.eye(3, dtype=bool), 0.65, 0.15)

    def __init__(self) -> None:
        agents = [Body("speaker_0", size=0.075, movable=False, silent=False), Body("listener_0", size=0.075)]
        super().__init__(agents, [Body(size=0.04)] * 3, words=3)

    def memory(self, num_envs: int) -> dict[str, Array]:
        """Which landmark is the goal."""
        return {"goal": np.zeros(num_envs, np.int64)}

    def begin(self, physics: Physics, rows: Array, random: RowRandom) -> None:
        """A goal at random."""
        physics.memory["goal"][rows] = random.integers(3)

    def observe(self, physics: Physics) -> dict[str, list[Array]]:
        """The speaker: the colour of the goal. The listener: its velocity, where the landmarks are, what was said."""
        listener = self.members[LISTENER]
        return {
            SPEAKER: [self.COLORS[:, physics.memory["goal"]][None]],
            LISTENER: [physics.velocity[listener], physics.offsets(listener, physics.landmarks), physics.said[:1]],
        }

    def reward(self, physics: Physics) -> Array:
        """The same for both."""
        away = physics.position[self.members[LISTENER]][0] - physics.chosen(physics.memory["goal"] + 2)
        return np.tile(-np.square(away).sum(axis=0), (2, 1))


class Reference(Scenario):
    """Two agents move and talk; each alone knows which landmark the other should go to. mpe2's `simple_reference_v3`.

    An agent earns minus the distance from the other to its goal, mixed by `local_ratio` with the mean of both.
    """

    game_return = "mean"
    COLORS = np.where(np.eye(3, dtype=bool), 0.75, 0.25)

    def __init__(self, local_ratio: float = 0.5) -> None:
        if not 0.0 <= local_ratio <= 1.0:
            raise ValueError(f"local_ratio is a share between 0 and 1, not {local_ratio}")
        super().__init__([Body(f"agent_{i}", silent=False) for i in range(2)], [Body()] * 3, words=10)
        self._local_ratio = local_ratio

    def memory(self, num_envs: int) -> dict[str, Array]:
        """The landmark that each agent wants the other to go to."""
        return {"goal": np.zeros((2, num_envs), np.int64)}

    def begin(self, physics: Physics, rows: Array, random: RowRandom) -> None:
        """Two goals at random."""
        physics.memory["goal"][:, rows] = random.integers(3, 2)

    def observe(self, physics: Physics) -> dict[str, list[Array]]:
        """The own velocity, where the landmarks are, the colour of the other's goal, what the other said."""
        goal = self.COLORS[:, physics.memory["goal"]].swapaxes(0, 1)
        return {AGENT: [physics.velocity, physics.offsets(physics.agents, physics.landmarks), goal, physics.said[::-1]]}

    def reward(self, physics: Physics) -> Array:
        """How far the other is from where it should be."""
        goals = np.stack([physics.chosen(goal + 2) for goal in physics.memory["goal"]])
        own = -length(physics.position[1::-1] - goals)
        return own.mean(axis=0) * (1 - self._local_ratio) + own * self._local_ratio


class Crypto(Scenario):
    """Alice tells Bob a bit over a channel that Eve hears; a key helps Alice and Bob. Nobody moves. mpe2's `simple_crypto_v3`.

    Eve earns minus her squared error; Alice and Bob earn Eve's error minus Bob's.
    """

    CODES = np.eye(4, 2)

    def __init__(self) -> None:
        agents = [Body(f"{stem}_0", movable=False, silent=False) for stem in (EVE, BOB, ALICE)]
        super().__init__(agents, [Body()] * 2, words=4)

    def memory(self, num_envs: int) -> dict[str, Array]:
        """The bit to tell, and the key."""
        return {"goal": np.zeros(num_envs, np.int64), "key": np.zeros(num_envs, np.int64)}

    def begin(self, physics: Physics, rows: Array, random: RowRandom) -> None:
        """Both at random."""
        physics.memory["goal"][rows] = random.integers(2)
        physics.memory["key"][rows] = random.integers(2)

    def observe(self, physics: Physics) -> dict[str, list[Array]]:
        """Alice: the bit and the key. Bob: the key and what Alice said. Eve: what Alice said."""
        bit, key = (self.CODES[:, physics.memory[name]][None] for name in ("goal", "key"))
        heard = physics.said[self.members[ALICE]]
        return {EVE: [heard], BOB: [key, heard], ALICE: [bit, key]}

    def reward(self, physics: Physics) -> Array:
        """The errors of Eve and Bob; one who says nothing makes none."""
        said = physics.said[:2]
        error = np.square(said - self.CODES[:, physics.memory["goal"]]).sum(axis=1)
        eve, bob = error * said.any(axis=1)
        return np.stack([-eve, eve - bob, eve - bob])
