"""PettingZoo games, played one after the other: batched actions in, a batched `Step` out.

A game that ends is reset within the same step. What one copy lives through depends on the seed and on its own run-wide number
alone. A parallel game moves all its living agents in a step, a turn-taking one (AEC) the agent whose turn it is.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
from pettingzoo import AECEnv, ParallelEnv

from shoal.api.env import Array, Codec, Env, Episode, Step, Tree
from shoal.api.experiment import ImagesConfig
from shoal.base.closing import close_all
from shoal.base.errors import ShoalError
from shoal.base.seeding import derive_seed
from shoal.envs.action_log import ActionLog, check_repeated, copied
from shoal.envs.info_metrics import InfoMetrics
from shoal.envs.pettingzoo_copies import Agent, Copy, End, Scene, copy_of
from shoal.envs.pettingzoo_games import shares_reward
from shoal.envs.pettingzoo_groups import MASK, Table, TableCodec, agents_of, check_alike, tables_of
from shoal.envs.rllib_game import RllibGame
from shoal.envs.stages import tell_stage


class PettingZooLoop(Env):
    """`games` in a Python loop; same-step autoreset. `name` is what errors call the environment.

    Every array is allocated once and written in place, so a Step is valid until the next `send`.
    """

    relives = True

    def __init__(
        self,
        games: list[ParallelEnv | AECEnv | RllibGame],
        name: str,
        *,
        first_slot: int = 0,
        images: ImagesConfig | None = None,
    ) -> None:
        self._name, self._first_slot, self._images = name, first_slot, images
        self._copies: list[Copy] = [copy_of(game) for game in games]
        self.num_envs = rows = len(games)
        self.game_return = "mean" if shares_reward(games[0]) else "sum"
        self.render_fps = float((getattr(games[0], "metadata", None) or {}).get("render_fps") or self.render_fps)
        tables = tables_of(games[0], rows, name, images)
        check_alike(games, tables, name)
        self.groups = {group: table.group for group, table in tables.items()}
        self._tables = tables
        self._places = {agent: (table, slot) for table in tables.values() for slot, agent in enumerate(table.agents)}
        self._agents = agents_of(games[0], name)
        self._state: Array | None = None
        self._seed = self._count = self._limit = 0
        self._episode, self._began = [0] * rows, [0] * rows
        self._log = ActionLog()
        self._metrics: list[dict[str, list[float]]] = [defaultdict(list) for _ in range(rows)]
        self._numbers: InfoMetrics | None = None

    def reset(self, seed: int) -> Step:
        """Episode 0 of every copy."""
        self._numbers = InfoMetrics(self.watched) if self.watched else None
        self._seed, self._count = seed, 0
        self._log.clear()
        self._episode[:] = [0] * self.num_envs
        self._open()
        return self._answer(0, [])

    def _open(self) -> None:
        """Begin an episode in every copy."""
        scenes = [self._begin(row) for row in range(self.num_envs)]
        masked = any(MASK in (info or {}) for scene in scenes for info in scene.infos.values())
        for table in self._tables.values():
            table.open(masked)
        for row, scene in enumerate(scenes):
            self._metrics[row].clear()
            self._show(row, scene)
        self._state = self._first_state() if self.wants_state else None

    def send(self, actions: dict[str, Array]) -> None:
        """Keeps the actions, as the games want them; the copies step in `recv`."""
        for group, table in self._tables.items():
            table.decode(actions[group])
        self._log.add({group: actions[group] for group in self._tables}, self._began)

    def recv(self, timeout: float) -> Step:
        """Step every copy. `timeout` cannot be kept: the copies run in this very thread."""
        for table in self._tables.values():
            table.clear()
        self._count += 1
        episodes, last = [], {}
        for row in range(self.num_envs):
            scene = self._step(row)
            if not scene.acting:
                if self._state is not None:
                    last[row] = self._look(row)
                episodes.append(self._turn_over(row))
                scene = self._begin(row)
            self._show(row, scene)
        if self._state is not None:
            for row in range(self.num_envs):
                self._state[row] = self._look(row)
        return self._answer(self.num_envs, episodes, self._final_state(last))

    def render(self, row: int) -> Array | None:
        """The copy's own image, where the game was built with `render`."""
        env = self._copies[row].env
        if getattr(env, "render_mode", None) != "rgb_array":
            return None
        try:
            return np.asarray(env.render())
        except Exception as error:
            raise self._failure(row, error) from error

    def codec(self, agent: str, rows: int) -> Codec:
        """Of one agent's table."""
        table = next(table for table in self._tables.values() if agent in table.group.agents)
        return TableCodec(agent, table.spaces, rows, self._name, self._images)

    def set_stage(self, number: int) -> bool:
        """The games that have such a method are told."""
        return tell_stage([copy.env.unwrapped for copy in self._copies], number)

    def limit_time(self, steps: int) -> bool:
        """Of a turn-taking game a step is one agent's turn."""
        self._limit = min(self._limit or steps, steps)
        return True

    def snapshot(self) -> Tree | None:
        """Seed, number and actions of every open episode."""
        log = self._log.snapshot(self._began)
        if log is None:
            return None
        seen = copied({group: table.observation for group, table in self._tables.items()})
        return {"log": log, "seed": self._seed, "count": self._count, "episode": np.array(self._episode), "seen": seen}

    def restore(self, tree: Tree) -> None:
        """Live through the open episodes again."""
        self._log.restore(tree["log"])
        self._seed, self._count = tree["seed"], tree["count"]
        self._episode[:] = tree["episode"].tolist()
        self._open()
        self._began[:] = tree["log"]["began"].tolist()
        for rows, actions in self._log.episodes(self._began):
            for group, table in self._tables.items():
                table.decode(actions[group])
                table.clear()
            for row in rows:
                self._show(row, self._step(row))
        if self._state is not None:
            for row in range(self.num_envs):
                self._state[row] = self._look(row)
        seen = {group: table.observation for group, table in self._tables.items()}
        check_repeated(self._name, tree["seen"], seen)

    def close(self) -> None:
        """Close every copy."""
        close_all(copy.env for copy in self._copies)

    # ------------------------------------------------------------ stepping

    def _step(self, row: int) -> Scene:
        """Play one copy on: rewards and ends go into the arrays."""
        if self.between is not None:
            self.between()

        def action_of(agent: Agent) -> Any:
            table, slot = self._places[agent]
            return table.actions[row * table.shape[1] + slot]

        try:
            scene = self._copies[row].step(action_of)
            if self._limit and scene.acting and self._count - self._began[row] >= self._limit:
                scene = self._copies[row].cut_off(scene)
            for agent, reward in scene.rewards.items():
                table, slot = self._place(agent)
                table.reward[row, slot] = earned = float(reward)
                table.returns[row][slot] += earned
            for agent, end in scene.ends.items():
                self._end(row, agent, end)
            if self._numbers is not None:
                self._watch(self._numbers, row, scene)
        except Exception as error:
            raise self._failure(row, error) from error
        return scene

    def _watch(self, numbers: InfoMetrics, row: int, scene: Scene) -> None:
        for agent in scene.acting:
            numbers.take(row, scene.infos.get(agent) or {}, agent)
        for agent, end in scene.ends.items():
            numbers.take(row, end.info, agent)

    def _end(self, row: int, agent: Agent, end: End) -> None:
        table, slot = self._place(agent)
        table.acting[row, slot] = False
        if end.observation is not None:
            table.see(row, slot, end.observation)
        table.end(row, slot, end.terminated, end.truncated)
        for key, value in end.info.get("metrics", {}).items():
            self._metrics[row][key].append(float(value))

    def _show(self, row: int, scene: Scene) -> None:
        """What the agents see now, and who acts."""
        try:
            if scene.acting == self._agents:
                for table in self._tables.values():
                    table.acting[row] = True
                    table.see_all(row, [scene.seen[agent] for agent in table.agents])
            else:
                self._show_some(row, scene)
            for agent in scene.acting:
                info = scene.infos.get(agent)
                if info and MASK in info:
                    table, slot = self._place(agent)
                    table.allow(row, slot, info[MASK])
        except Exception as error:
            raise self._failure(row, error) from error

    def _show_some(self, row: int, scene: Scene) -> None:
        for table in self._tables.values():
            table.acting[row] = False
        for agent in scene.acting:
            table, slot = self._place(agent)
            table.acting[row, slot] = True
        for agent, observation in scene.seen.items():
            if observation is not None:
                table, slot = self._place(agent)
                table.see(row, slot, observation)

    def _turn_over(self, row: int) -> Episode:
        """Record the episode of an ended copy."""
        returns = {group: table.take_returns(row) for group, table in self._tables.items()}
        metrics = {key: float(np.mean(values)) for key, values in self._metrics[row].items()}
        self._metrics[row].clear()
        if self._numbers is not None:
            metrics |= self._numbers.close(row)
        self._episode[row] += 1
        return Episode(row, self._count - self._began[row], returns, metrics)

    def _begin(self, row: int) -> Scene:
        seed = derive_seed(self._seed, "episode", self._first_slot + row, self._episode[row])
        self._began[row] = self._count
        if self.between is not None:
            self.between()
        try:
            scene = self._copies[row].reset(seed)
        except Exception as error:
            raise self._failure(row, error) from error
        if not scene.acting:
            raise self._failure(row, "reset() leaves nobody to act")
        return scene

    # ------------------------------------------------------------ arrays

    def _answer(self, advanced: int, episodes: list[Episode], final_state: Array | None = None) -> Step:
        turns = {group: table.turn() for group, table in self._tables.items()}
        return Step(turns, state=self._state, final_state=final_state, advanced=advanced, episodes=episodes)

    def _final_state(self, last: dict[int, Array | None]) -> Array | None:
        """`[rows, ...]`: the last state of games that ended, of the others the current one."""
        if self._state is None or not last:
            return None
        state = self._state.copy()
        for row, left in last.items():
            state[row] = left
        return state

    def _first_state(self) -> Array | None:
        """`[rows, ...]`, or None where the game has no global state."""
        states = [self._look(row) for row in range(self.num_envs)]
        if states[0] is None:
            return None
        state = np.stack(states)  # type: ignore[arg-type]
        return state.astype(np.float32) if state.dtype == np.float64 else state

    def _look(self, row: int) -> Array | None:
        try:
            return self._copies[row].state()
        except Exception as error:
            raise self._failure(row, error) from error

    def _place(self, agent: Agent) -> tuple[Table, int]:
        try:
            return self._places[agent]
        except KeyError:
            raise ValueError(f"agent '{agent}' is not among possible_agents") from None

    def _failure(self, row: int, cause: Exception | str) -> ShoalError:
        if isinstance(cause, ShoalError):
            return cause
        text = cause if isinstance(cause, str) else f"{type(cause).__name__}: {cause}"
        return ShoalError(f"{self._name}, copy {self._first_slot + row}: {' '.join(text.split())}")
