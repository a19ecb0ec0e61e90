"""A policy in somebody else's program: an observation as the environment gives it in, an action as the environment takes it out.

It decides as evaluations do: by the same conversions (`Codec`), the same forward (`decide`) and the same memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from shoal.api.env import Array, Codec
from shoal.api.policy import Policy
from shoal.api.sight import AGENT, OWN
from shoal.base.errors import InputError
from shoal.base.seeding import Noise
from shoal.base.sizes import LEAST
from shoal.base.threads import torch_threads
from shoal.base.tree import tree_map
from shoal.streams.inference import Ask, decide

ROWS = LEAST
"""Of a forward, of which the first is played: with fewer, its last bits would not be those of an evaluation."""


class Player:
    """Plays one agent. Call `reset` where an episode begins: there memory and stacked images begin anew."""

    def __init__(self, policy: Policy, codec: Codec, agent: int | None, *, by_rule: bool, seed: int) -> None:
        """`agent`: its number, where the policy is told. `by_rule`: a policy that knows no greedy action."""
        self._policy, self._codec, self._by_rule = policy, codec, by_rule
        self._drawn, self._noise = 0, Noise(seed, "player", np.zeros(1, np.int64), policy.noise_size)
        self._fresh = True
        seen = codec.observation if agent is None else {OWN: codec.observation, AGENT: np.full(ROWS, agent)}
        state = tree_map(lambda tensor: tensor.numpy().copy(), policy.initial_state(ROWS))
        noise = np.zeros((ROWS, policy.noise_size), np.float32)
        self._ask = Ask(seen, np.ones(ROWS, np.bool_), noise, state, None)

    def reset(self) -> None:
        """An episode begins."""
        self._ask.first[0] = True
        self._codec.begin(0)

    def act(self, observation: Any, mask: Any = None, explore: bool = False) -> Any:
        """What to do. `mask`: True where an action is allowed. Greedy, or with `explore` drawn as in training."""
        ask, codec, explore = self._ask, self._codec, explore or self._by_rule
        ask.action_mask = codec.mask if self._see(observation, mask) else None
        if explore:
            ask.noise[0] = self._noise.at(self._drawn)[0]
            self._drawn += 1
        with torch_threads(1):  # as everyone who acts: more would only wait for each other, and round otherwise
            answer = decide(self._policy, ask, explore=explore, version=0)
        ask.first[0] = False
        if ask.state is not None:
            tree_map(np.copyto, ask.state, answer.state)
        return codec.decode(answer.action[0])

    def _see(self, observation: Any, mask: Any) -> bool:
        """Whether there is a mask."""
        try:
            masked = self._codec.put(0, observation, mask)
        except (TypeError, ValueError, LookupError) as error:
            text = f"there is no {error}" if isinstance(error, KeyError) else str(error)
            raise InputError(f"player.act: {text}: pass what the environment gives, as it is in training") from None
        if self._fresh:  # the other rows are not played, but must lie in the space
            tree_map(lambda array: array.__setitem__(slice(1, None), array[:1]), self._codec.observation)
            self._fresh = False
        return masked


class TeamCodec(Codec):
    """One agent of a policy that decides for a whole team at once. All places hold its observation; only its own counts."""

    def __init__(self, own: Codec, place: int, agents: int) -> None:
        self._own, self._place = own, place
        # Acting and state, which a team's lanes store as well, are for learning alone.
        self.observation = {"agents": tree_map(lambda array: np.repeat(array[:, None], agents, 1), own.observation)}
        self.mask = np.repeat(own.mask[:, None], agents, 1).reshape(len(own.mask), -1)
        self._mask = self.mask.reshape(len(own.mask), agents, -1)[:, place]

    def begin(self, row: int) -> None:
        self._own.begin(row)

    def put(self, row: int, observation: Any, mask: Any) -> bool:
        masked = self._own.put(row, observation, mask)
        tree_map(lambda team, own: team.__setitem__(row, own[row]), self.observation["agents"], self._own.observation)
        self._mask[row] = self._own.mask[row]
        return masked

    def decode(self, action: Array) -> Any:
        return self._own.decode(action[self._place])
