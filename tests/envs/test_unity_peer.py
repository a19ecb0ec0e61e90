"""ML-Agents' own package beside Shoal's client: equal messages, and equal episodes of the same scripted player.

`MLAGENTS_PYTHON` names an interpreter that has it. It wants Python 3.10 and old packages, so it lives in an environment of its own:

    python3.10 -m venv peer
    peer/bin/pip install --no-deps --ignore-requires-python mlagents_envs==1.1.0
    peer/bin/pip install protobuf==3.20.3 "grpcio<1.54" "numpy<1.24" pillow cloudpickle filelock pyyaml
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box
from outside_games import FOLDER, executable

from shoal.api.env import Turn
from shoal.api.experiment import EnvConfig
from shoal.envs import make_env

pytest.importorskip("grpc")
pytestmark = pytest.mark.slow
PEER = os.environ.get("MLAGENTS_PYTHON", "")
NAMES = {
    "Message": "UnityMessageProto", "Header": "HeaderProto", "Output": "UnityOutputProto", "Input": "UnityInputProto",
    "InitialisationOutput": "UnityRLInitializationOutputProto", "InitialisationInput": "UnityRLInitializationInputProto",
    "Capabilities": "UnityRLCapabilitiesProto", "BehaviourInfo": "BrainParametersProto", "ActionInfo": "ActionSpecProto",
    "RLOutput": "UnityRLOutputProto", "AgentInfos": "UnityRLOutputProto.ListAgentInfoProto", "AgentInfo": "AgentInfoProto",
    "Observation": "ObservationProto", "Floats": "ObservationProto.FloatData", "RLInput": "UnityRLInputProto",
    "AgentActions": "UnityRLInputProto.ListAgentActionProto", "AgentAction": "AgentActionProto",
}  # fmt: skip
"""Message here -> there."""
FLOAT, INT, BOOL, MESSAGE, BYTES, ENUM = 2, 5, 8, 11, 12, 14
OPTIONAL, REPEATED = 1, 3
SEED, STEPS = 3, 23


def ask(*words: str) -> Any:
    """What the package says."""
    if not PEER:
        pytest.skip("MLAGENTS_PYTHON does not name an interpreter with mlagents_envs: the module says how to make one")
    known = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [PEER, str(FOLDER / "mlagents_peer.py"), *words], capture_output=True, text=True, timeout=120, env=known
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.strip().splitlines()[-1])


def test_fields_have_the_same_numbers() -> None:
    """Names are our own. Numbers and kinds are the package's, but for what is read as the bytes that it is on the wire."""
    from shoal.envs.unity.protocol import _CLASSES

    theirs = ask("table")
    for name, peer in NAMES.items():
        fields = {number: (kind, label) for number, kind, label in theirs[peer].values()}
        for field in _CLASSES[name].DESCRIPTOR.fields:
            kind, label = fields[field.number]
            if (field.type, kind, label) in ((BYTES, FLOAT, REPEATED), (BYTES, BOOL, REPEATED)):
                continue
            assert field.type == (INT if kind == ENUM else kind), f"{name}.{field.name}"
            assert field.is_repeated == (label == REPEATED), f"{name}.{field.name}"


@pytest.mark.parametrize(
    "args",
    ["", "--cut", "--masked", "--groups --grouped-reward", "--images first",
     "--actions continuous", "--actions branches"],
)  # fmt: skip
def test_episodes_are_the_same(tmp_path: Path, args: str) -> None:
    from shoal.envs.unity.env import player_seed

    file = executable(tmp_path, "unity_player.py", "Game.x86_64")
    theirs = ask("play", str(file), str(player_seed(SEED, 0, 0)), str(STEPS), *args.split())
    env = make_env(EnvConfig(id=f"unity:{file}", kwargs={"args": args.split(), "reseed": True}), 1)
    try:
        (name,) = env.groups
        assert theirs["name"].partition("?")[0] == name
        turn = env.reset(SEED).turns[name]
        for step, told in enumerate(theirs["told"]):
            assert_same(turn, told)
            if step < STEPS:
                cue = int(parts(turn)["vector"][:3].argmax())
                turn = env.step({name: action_of(env.groups[name].action_space, cue, len(theirs["branches"]))}).turns[
                    name
                ]
    finally:
        env.close()


def parts(turn: Turn) -> dict[str, np.ndarray]:
    """What the one agent sees."""
    seen = turn.observation
    return {key: value[0, 0] for key, value in (seen if isinstance(seen, dict) else {"vector": seen}).items()}


def action_of(space: Any, cue: int, branches: int) -> np.ndarray:
    if isinstance(space, Box):
        return np.full((1, 1, *space.shape), cue - 1.0, np.float32)
    return np.array([[cue]]) if branches == 1 else np.array([[[cue] + [1] * (branches - 1)]])


def assert_same(turn: Turn, told: dict[str, Any]) -> None:
    """The package makes images floats from 0 to 1. It takes them with channels first alone."""
    assert (turn.terminated.item(), turn.truncated.item()) == (told["terminated"], told["truncated"])
    assert turn.reward.item() == pytest.approx(told["reward"])
    for key, mine in parts(turn).items():
        other = np.array(told["seen"][key])
        np.testing.assert_allclose(other * 255 if mine.dtype == np.uint8 else other, mine, atol=1e-4)
    if told["forbidden"] is not None and turn.action_mask is not None:
        assert (~turn.action_mask[0, 0]).tolist() == told["forbidden"]
