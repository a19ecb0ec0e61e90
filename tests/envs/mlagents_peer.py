"""ML-Agents' own client at a scripted player, under an interpreter that has the package mlagents_envs and nothing of Shoal's.

`python mlagents_peer.py play FILE SEED STEPS ARGS...`: an agent who names the number that it is shown, and what it saw, as JSON.
`python mlagents_peer.py table`: the fields of the protocol's messages, as the package has them.
"""

from __future__ import annotations

import json
import socket
import sys
from typing import Any


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def action_of(spec: Any, seen: dict[str, Any]) -> Any:
    import numpy as np
    from mlagents_envs.base_env import ActionTuple

    cue = int(seen["vector"][0, :3].argmax())
    action = ActionTuple()
    if spec.continuous_size:
        action.add_continuous(np.full((1, spec.continuous_size), cue - 1.0, np.float32))
    if spec.discrete_size:
        action.add_discrete(np.array([[cue] + [1] * (spec.discrete_size - 1)], np.int32))
    return action


def play(file: str, seed: int, steps: int, args: list[str]) -> dict[str, Any]:
    from mlagents_envs.environment import UnityEnvironment

    env = UnityEnvironment(file, seed=seed, no_graphics=True, base_port=free_port(), additional_args=args)
    try:
        env.reset()
        (name,) = env.behavior_specs
        spec = env.behavior_specs[name]
        told = []
        for step in range(steps + 1):
            decisions, ends = env.get_steps(name)
            seen = {part.name: array for part, array in zip(spec.observation_specs, decisions.obs, strict=True)}
            told.append(shown(seen, decisions, ends))
            env.set_actions(name, action_of(spec.action_spec, seen))
            if step < steps:
                env.step()
    finally:
        env.close()
    action = spec.action_spec
    sizes = {"continuous": action.continuous_size, "branches": list(action.discrete_branches)}
    return {"name": name, **sizes, "told": told}


def shown(seen: dict[str, Any], decisions: Any, ends: Any) -> dict[str, Any]:
    """Of the one agent. The reward that comes with an end is the episode's last."""
    over, masks = len(ends) > 0, decisions.action_mask
    earned = ends if over else decisions
    return {
        "seen": {key: value[0].tolist() for key, value in seen.items()},
        "reward": float(earned.reward[0] + earned.group_reward[0]),
        "terminated": bool(over and not ends.interrupted[0]),
        "truncated": bool(over and ends.interrupted[0]),
        "forbidden": None if masks is None else [bool(each) for part in masks for each in part[0]],
    }


def table() -> dict[str, dict[str, list[Any]]]:
    """Message -> field -> its number, type and label, in protobuf's own numbers."""
    from importlib import import_module
    from pkgutil import iter_modules

    folder = import_module("mlagents_envs.communicator_objects")
    found: dict[str, dict[str, list[Any]]] = {}

    def add(message: Any) -> None:
        found[message.full_name.removeprefix("communicator_objects.")] = {
            field.name: [field.number, field.type, field.label] for field in message.fields
        }
        for inner in message.nested_types:
            add(inner)

    for module in iter_modules(folder.__path__):
        if module.name.endswith("_pb2"):
            file = import_module(f"{folder.__name__}.{module.name}").DESCRIPTOR
            for message in file.message_types_by_name.values():
                add(message)
    return found


if __name__ == "__main__":
    if sys.argv[1] == "table":
        print(json.dumps(table()))
    else:
        print(json.dumps(play(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5:])))
