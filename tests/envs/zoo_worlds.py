"""Tiny PettingZoo games that follow a script, so that a test can write down what must come out.

Also a user's module, for the tests of `module:factory` ids.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete
from pettingzoo import AECEnv, ParallelEnv


@dataclass(frozen=True)
class Beat:
    """What one step brings. `who` acts in it, where agents take turns."""

    who: str = ""
    rewards: dict[str, float] = field(default_factory=dict)
    terminated: tuple[str, ...] = ()
    truncated: tuple[str, ...] = ()
    born: tuple[str, ...] = ()
    metrics: dict[str, dict[str, float]] = field(default_factory=dict)


class _Script:
    """An agent sees `10 * its number + steps so far`, whoever acts. Keeps seeds and actions."""

    metadata: dict[str, Any] = {"name": "script", "is_parallelizable": False}
    render_mode = None

    def __init__(self, script: list[Beat], agents: list[str], start: list[str] | None = None) -> None:
        self.script, self.possible_agents, self.start = script, agents, start or agents
        self.seeds: list[int | None] = []
        self.played: list[Any] = []
        self.closed = False

    def observation_space(self, agent: str) -> Any:
        return Box(0.0, 100.0, (1,), np.float32)

    def action_space(self, agent: str) -> Any:
        return Discrete(100)

    def see(self, agent: str) -> Any:
        return np.array([10 * self.possible_agents.index(agent) + self.time], np.float32)

    def close(self) -> None:
        self.closed = True


class Together(_Script, ParallelEnv):
    """All act at once."""

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.seeds.append(seed)
        self.time = 0
        self.agents = list(self.start)
        return {agent: self.see(agent) for agent in self.agents}, {agent: {} for agent in self.agents}

    def step(self, actions: dict[str, Any]) -> Any:
        assert set(actions) == set(self.agents)
        self.played.append({agent: int(action) for agent, action in actions.items()})
        beat = self.script[self.time]
        self.time += 1
        playing = [*self.agents, *beat.born]
        seen = {agent: self.see(agent) for agent in playing}
        rewards = {agent: beat.rewards.get(agent, 0.0) for agent in playing}
        terminated = {agent: agent in beat.terminated for agent in playing}
        truncated = {agent: agent in beat.truncated for agent in playing}
        infos = {agent: {"metrics": beat.metrics.get(agent, {})} for agent in playing}
        self.agents = [agent for agent in playing if not (terminated[agent] or truncated[agent])]
        return seen, rewards, terminated, truncated, infos


class InTurn(_Script, AECEnv):
    """One acts after the other. `dead_first`: PettingZoo's dead steps come at once, or when the dead agent's turn comes.

    With `reuse` one array is handed out again and again.
    """

    def __init__(self, *args: Any, dead_first: bool = True, reuse: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.dead_first = dead_first
        self._buffer = np.zeros(1, np.float32) if reuse else None

    def reset(self, seed: int | None = None, options: Any = None) -> None:
        self.seeds.append(seed)
        self.time = 0
        self.agents = list(self.start)
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations, self.truncations = (dict.fromkeys(self.agents, False) for _ in range(2))
        self.infos = {agent: {} for agent in self.agents}
        self.agent_selection = self.script[0].who
        self._skip_agent_selection = None

    def observe(self, agent: str) -> Any:
        if self._buffer is None:
            return self.see(agent)
        self._buffer[:] = self.see(agent)
        return self._buffer

    def step(self, action: Any) -> None:
        if self.terminations[self.agent_selection] or self.truncations[self.agent_selection]:
            self._was_dead_step(action)
            return
        beat = self.script[self.time]
        assert beat.who == self.agent_selection
        self.played.append((beat.who, int(action)))
        self.time += 1
        for agent in beat.born:
            self.agents.append(agent)
            self._cumulative_rewards[agent], self.infos[agent] = 0.0, {}
            self.terminations[agent] = self.truncations[agent] = False
        self._cumulative_rewards[beat.who] = 0.0
        self.rewards = {agent: beat.rewards.get(agent, 0.0) for agent in self.agents}
        for agent in beat.terminated:
            self.terminations[agent] = True
        for agent in beat.truncated:
            self.truncations[agent] = True
        for agent, metrics in beat.metrics.items():
            self.infos[agent] = {"metrics": metrics}
        self._accumulate_rewards()
        self._choose_next(beat)

    def _choose_next(self, beat: Beat) -> None:
        following = self.script[self.time].who if self.time < len(self.script) else beat.who
        dead = [agent for agent in self.agents if self.terminations[agent] or self.truncations[agent]]
        living = [agent for agent in self.agents if agent not in dead]
        if not living:
            self.agent_selection = dead[0]
            return
        self.agent_selection = following
        if self.dead_first:
            self._deads_step_first()


class Masks(ParallelEnv):
    """Two agents; `masks[time]` in the observation or in the info, where given. Fails on a forbidden choice."""

    metadata: dict[str, Any] = {"name": "masks"}

    def __init__(self, masks: list[Any], where: str = "observation", space: Any = None) -> None:
        self.masks, self.where, self.possible_agents = masks, where, ["a_0", "a_1"]
        self.space = space or Discrete(3)

    def observation_space(self, agent: str) -> Any:
        own = Box(0.0, 10.0, (2,), np.float32)
        if self.where == "info":
            return own
        parts = {"observation": own, "action_mask": Box(0, 1, (3,), np.int8)}
        return Dict({**parts, "extra": Discrete(5)} if self.where == "extra" else parts)

    def action_space(self, agent: str) -> Any:
        return self.space

    def _see(self) -> Any:
        own, mask = np.full(2, self.time, np.float32), self.masks[self.time]
        if self.where == "info":
            info = {} if mask is None else {"action_mask": np.array(mask, np.int8)}
            return dict.fromkeys(self.agents, own), dict.fromkeys(self.agents, info)
        whole = {"observation": own, "action_mask": np.array(mask, np.int8), "extra": 3}
        return dict.fromkeys(self.agents, whole), {agent: {} for agent in self.agents}

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.time, self.agents = 0, list(self.possible_agents)
        return self._see()

    def step(self, actions: Any) -> Any:
        if self.masks[self.time] is not None:
            assert all(self.masks[self.time][int(action)] for action in actions.values()), "forbidden"
        self.time += 1
        over = dict.fromkeys(self.agents, self.time == len(self.masks) - 1)
        seen, infos = self._see()
        nothing = dict.fromkeys(self.agents, 0.0), over, dict.fromkeys(self.agents, False)
        self.agents = [] if self.time == len(self.masks) - 1 else self.agents
        return seen, *nothing, infos


DUEL = [
    Beat("p_0", rewards={"p_0": 1}),
    Beat("p_1", rewards={"p_0": 2, "p_1": 5}),
    Beat("p_0", rewards={"p_1": 7}),
    Beat("p_1", rewards={"p_0": 3, "p_1": 4}, terminated=("p_0",), truncated=("p_1",)),
]
"""Both earn in the other's turn; one ends by the rules, the other is cut off, in one step."""

PLAYERS = ["p_0", "p_1", "p_2"]


def make_duel(dead_first: bool = True) -> InTurn:
    return InTurn(DUEL, ["p_0", "p_1"], dead_first=dead_first)


def make_together(length: int = 3) -> Together:
    return Together([Beat()] * (length - 1) + [Beat(terminated=("p_0", "p_1"))], ["p_0", "p_1"])
