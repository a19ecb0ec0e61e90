"""A toy environment of two agents in two groups: one knows, the other acts, and a word is all that passes between them."""

from __future__ import annotations

import numpy as np
from gymnasium.spaces import Box, Discrete

from shoal.api.env import AgentGroup, Array
from shoal.envs.native.native_env import Autoreset, ByGroup, NativeEnv, Outcome

SPEAKER, LISTENER = "speaker", "listener"


class Signal(NativeEnv):
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
        self.arrays["cues"] = np.zeros((num_envs, rounds + 1), np.int64)
        self.arrays["word"] = np.zeros(num_envs, np.int64)

    @property
    def best_return(self) -> float:
        """Every round won."""
        return float(self._rounds)

    def begin(self, rows: Array) -> None:
        for row in rows.tolist():
            self.arrays["cues"][row] = self.generator(row).integers(self._cues, size=self._rounds + 1)
        self.arrays["word"][rows] = 0

    def _cue(self, time: Array) -> Array:
        return self.arrays["cues"][np.arange(self.num_envs), time // 2]

    def advance(self, actions: ByGroup) -> Outcome:
        spoke = self.time % 2 == 1
        np.copyto(self.arrays["word"], actions[SPEAKER][:, 0], where=spoke)
        right = ~spoke & (actions[LISTENER][:, 0] == self._cue(np.maximum(self.time - 1, 0)))
        return self.ended_together(self.for_all(right * 1.0), terminated=self.time >= 2 * self._rounds)

    def observe(self) -> ByGroup:
        codes = np.eye(self._cues, dtype=np.float32)
        heard = codes[self.arrays["word"]] * (self.time % 2 == 1)[:, None]
        return {SPEAKER: codes[self._cue(self.time)][:, None], LISTENER: heard[:, None]}

    def acting(self) -> ByGroup:
        if self._together:
            return {}
        speaks = (self.time % 2 == 0)[:, None]
        return {SPEAKER: speaks, LISTENER: ~speaks}
