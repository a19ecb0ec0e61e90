"""One copy in a process of its own: an Env with one row. Orders come in, what comes of them goes into shared memory."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from shoal.api.env import AgentGroup, Env, Episode, Step, Tree
from shoal.api.experiment import EnvConfig
from shoal.api.space_data import space_to_plain
from shoal.base.arrays import Layout
from shoal.base.errors import InputError, ShoalError
from shoal.base.plain import to_plain
from shoal.base.table import from_here
from shoal.base.tree import tree_map
from shoal.envs.factory import build_env
from shoal.envs.processes.link import Link, Message, as_text, from_text
from shoal.envs.processes.memory import SharedRows


def run_copy(link: Link, start: Message) -> None:
    """Answer messages until the other side ends."""
    os.chdir(start["folder"])
    with from_here():
        copy = _Copy(start)
        try:
            while True:
                link.send(copy.answer(*link.recv()))
        except (EOFError, OSError):
            copy.close()


class _Copy:
    """Its environment is built by the first message, so that errors find somebody who listens."""

    def __init__(self, start: Message) -> None:
        self._start, self._step = start, Step({})
        self._env: Env | None = None
        self._row: Tree = None
        orders = (self.begin, self.show, self.step, self.render, self.snapshot, self.restore)
        self._orders: dict[str, Callable[..., Any]] = {order.__name__: order for order in orders}

    def answer(self, message: Message, descriptors: list[int]) -> Message:
        try:
            order = message.pop("do")
            found: Message = self._orders[order](*descriptors, **message)
            return found
        except Exception as error:
            said = str(error) if isinstance(error, ShoalError) else f"{type(error).__name__}: {error}"
            return {"error": said, "input": isinstance(error, InputError)}

    @property
    def env(self) -> Env:
        if self._env is None:
            start = self._start
            config = EnvConfig.model_validate_json(start["config"])
            self._env = build_env(config, 1, first_slot=start["first_slot"] + start["row"], render=start["render"])
        return self._env

    # ------------------------------------------------------------ orders

    def begin(
        self, seed: int | None, stage: int | None, limit: int, wants_state: bool, watched: dict[str, Any]
    ) -> Message:
        """Reset, unless there is no seed; what is known of the environment, and how its arrays lie."""
        env = self.env
        if stage is not None:
            env.set_stage(stage)
        if limit:
            env.limit_time(limit)
        facts = {
            "groups": {name: _group_as_list(group) for name, group in env.groups.items()},
            "game_return": env.game_return,
            "render_fps": env.render_fps,
            "repeats": env.repeats,
        }
        if seed is None:
            return facts
        env.wants_state, env.watched = wants_state, watched
        self._step = env.reset(seed)
        return {**facts, "layout": to_plain(self._layout())}

    def show(self, descriptor: int, rows: int) -> Message:
        """Use this memory from now on."""
        memory = SharedRows(self._layout(), rows, descriptor)
        self._row = memory.row(self._start["row"])
        memory.close()
        return self._write(self._step)

    def step(self) -> Message:
        actions = {group: array[None] for group, array in self._row["actions"].items()}
        return self._write(self.env.step(actions))

    def render(self) -> Message:
        image = self.env.render(0)
        return {"tree": None if image is None else as_text({"image": image})}

    def snapshot(self) -> Message:
        tree = self.env.snapshot()
        return {"tree": None if tree is None else as_text(tree)}

    def restore(self, tree: Message) -> Message:
        self.env.restore(from_text(tree))
        return {}

    def close(self) -> None:
        if self._env is not None:
            self._env.close()

    def _write(self, step: Step) -> Message:
        final = any(turn.final_observation is not None for turn in step.turns.values())
        tree_map(np.copyto, self._row["seen"], _seen(step))
        return {"advanced": step.advanced, "final": final, "episodes": [_as_list(e) for e in step.episodes]}

    def _layout(self) -> Layout:
        spaces = {name: (len(group.agents), group.action_space) for name, group in self.env.groups.items()}
        actions = {name: np.zeros((agents, *(acts.shape or ())), acts.dtype) for name, (agents, acts) in spaces.items()}
        return Layout.of({"seen": _seen(self._step), "actions": actions})


def _seen(step: Step) -> Tree:
    """What is shared of a step, without the axis of rows; where nothing is final, that of now."""
    turns: dict[str, Tree] = {}
    for name, turn in step.turns.items():
        final = turn.observation if turn.final_observation is None else turn.final_observation
        turns[name] = {**vars(turn), "final_observation": final}
    final_state = step.state if step.final_state is None else step.final_state
    return tree_map(lambda array: array[0], {"turns": turns, "state": step.state, "final_state": final_state})


def _group_as_list(group: AgentGroup) -> list[Any]:
    spaces = space_to_plain(group.observation_space), space_to_plain(group.action_space)
    return [group.agents, *spaces, group.stacked]


def _as_list(episode: Episode) -> list[Any]:
    returns = {group: np.asarray(values, np.float64).tolist() for group, values in episode.returns.items()}
    return [episode.length, returns, episode.metrics]
