"""A toy world of two agents in two groups: one knows, the other acts, and a word is all that passes between them."""

from __future__ import annotations

import numpy as np
from gymnasium.spaces import Box, Discrete

from shoal.api.env import AgentGroup, Array
from shoal.envs.toys.toy import Autoreset, Outcome, Toy

SPEAKER, LISTENER = "speaker", "listener"


class Signal(Toy):
    """The speaker sees a cue and says a word; the listener hears the word and must name the cue. Both earn 1 if right.

    An episode has `rounds` rounds of two steps: first the speaker's word counts, then the listener's answer. They take
    turns (`acting`), or with `together` both act in every step and what is said out of turn is lost. Without a shared
    code the best is `rounds / cues`.
    """

    def __init__(
        self,
        num_envs: int,
        *,
        first_slot: int = 0,
        cues: int = 2,
        rounds: int = 1,
        together: bool = False,
        autoreset: Autoreset = "same",
    ) -> None:
        groups = {
            SPEAKER: AgentGroup(("speaker_0",), Box(0.0, 1.0, (cues,)), Discrete(cues)),
            LISTENER: AgentGroup(("listener_0",), Box(0.0, 1.0, (cues,)), Discrete(cues)),
        }
        super().__init__(groups, num_envs, first_slot, autoreset)
        self._cues, self._rounds, self._together = cues, rounds, together
        self.world["cues"] = np.zeros((num_envs, rounds + 1), np.int64)
        self.world["word"] = np.zeros(num_envs, np.int64)

    @property
    def best_return(self) -> float:
        """Every round won."""
        return float(self._rounds)

    def _begin(self, row: int, random: np.random.Generator) -> None:
        self.world["cues"][row] = random.integers(self._cues, size=self._rounds + 1)
        self.world["word"][row] = 0

    def _cue(self, time: Array) -> Array:
        return self.world["cues"][np.arange(self.num_envs), time // 2]

    def _advance(self, actions: dict[str, Array], live: Array) -> Outcome:
        spoke = live & (self.time % 2 == 1)
        answered = live & ~spoke
        self.world["word"] = np.where(spoke, actions[SPEAKER], self.world["word"])
        right = answered & (actions[LISTENER] == self._cue(np.maximum(self.time - 1, 0)))
        return Outcome(right * 1.0, self.time >= 2 * self._rounds, np.zeros(self.num_envs, bool))

    def _observe(self) -> dict[str, Array]:
        codes = np.eye(self._cues, dtype=np.float32)
        heard = codes[self.world["word"]] * (self.time % 2 == 1)[:, None]
        return {SPEAKER: codes[self._cue(self.time)], LISTENER: heard}

    def _acting(self) -> dict[str, Array]:
        if self._together:
            return {}
        speaks = self.time % 2 == 0
        return {SPEAKER: speaks, LISTENER: ~speaks}
