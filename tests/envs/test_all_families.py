"""`shoal train` for 20,000 steps and more in every family of environments, beside the package's own random loop.

Each comes from a YAML of ten lines: one actor, which does nothing but act, and a trainer in a process of its own. The bare loop
has one process; the run and the loop take turns. What Shoal has beside the loop is inference and, on the other core, learning: the
last columns are the shares of the actor's time in which it decides, and waits for the trainer.
"""

from __future__ import annotations

import importlib.util
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from outside_games import FOLDER

BAR = 0.6
STEPS, SECONDS = 20_000, 2.0
"""What is trained at least, and how long a measurement takes at least."""
ROOT = FOLDER.parents[1]


class Case(NamedTuple):
    """An environment, the package it needs, and what its YAML says beside the usual."""

    id: str
    package: str
    copies: int = 8
    env: dict[str, Any] = {}
    unroll: int = 128


FLAT = {"wrappers": ["flatten"]}
"""Images, and dicts with images in them, as long rows: a network for images would be what is measured."""
CASES = [
    Case("HalfCheetah-v5", "mujoco"),
    Case("mamujoco/Ant_4x2", "gymnasium_robotics"),
    Case("magent2/battle_v4", "magent2", copies=2, unroll=32),
    Case("lbforaging/Foraging-8x8-2p-1f-v3", "lbforaging"),
    Case("rware/rware-tiny-2ag-v2", "rware"),
    Case("minigrid/MiniGrid-Empty-5x5-v0", "minigrid", env=FLAT),
    Case("openspiel/leduc_poker", "pyspiel", copies=16),
    Case("vizdoom/VizdoomBasic-v1", "vizdoom", copies=2, env={
        "kwargs": {"frame_skip": 4, "screen_resolution": "RES_160X120", "screen_format": "GRAY8"}, **FLAT}),
    Case("highway/highway-fast-v0", "highway_env", copies=4, env={
        "kwargs": {"config": {"vehicles_count": 4, "simulation_frequency": 2}}}),
    Case("envpool/Pong-v5", "envpool", copies=16, env=FLAT),
    Case("envpool/HalfCheetah-v4", "envpool", copies=16),
    Case("jaxmarl/MPE_simple_spread_v3", "jaxmarl", copies=256, unroll=32),
    Case("pgx/tic_tac_toe", "pgx", copies=256, unroll=32),
    Case("ALE/Pong-v5", "ale_py", copies=8, env=FLAT),
    Case("atari/pong_v3", "multi_agent_ale_py", env={"kwargs": {"obs_type": "ram"}}),
    Case("mpe2/simple_spread_v3", "mpe2"),
    Case("classic/connect_four_v3", "pettingzoo", copies=16),
    Case("butterfly/knights_archers_zombies_v11", "pymunk", copies=4),
    Case("sisl/pursuit_v5", "scipy", copies=4, env={"kwargs": {"n_pursuers": 2, "n_evaders": 4}}),
]  # fmt: skip
CHOSEN = os.environ.get("SHOAL_FAMILIES", "").split()
"""Beginnings of ids, for those who want a few of them."""


class Row(NamedTuple):
    """One line of the table."""

    id: str
    groups: str
    spaces: str
    copies: int
    rate: float
    bare: float
    inference: float
    waits: float

    @property
    def share(self) -> float:
        return self.rate / self.bare


def run_python(words: list[str], folder: Path) -> str:
    """What it prints; its errors, should it fail."""
    known = {**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run([sys.executable, *words], cwd=folder, env=known, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"{words}: {done.stdout[-1000:]}{done.stderr[-2000:]}"
    return done.stdout


def bare(case: Case, folder: Path, *look: str) -> dict[str, Any]:
    config = {"id": case.id, "num_envs": case.copies, **case.env}
    words = [str(FOLDER / "bare_loops.py"), json.dumps(config), str(SECONDS), *look]
    return json.loads(run_python(words, folder).strip().splitlines()[-1])


def trained(case: Case, steps: int, agents: int, folder: Path) -> tuple[float, float, float]:
    """Environment steps per second of `shoal train`, once warm; the shares of its actor's time that decisions and waiting take."""
    words = {
        "env": {"id": case.id, "num_envs": case.copies, **case.env},
        "algorithm": {
            "name": "ppo",
            "unroll": case.unroll,
            "epochs": 1,
            "minibatch": case.unroll * case.copies * agents // 2,
        },
        "model": {"name": "mlp", "hidden": [16]},
        "placement": {"actors": 1, "max_lag": 1},
        "stop": {"steps": steps},
        "log": {"tensorboard": False},
    }
    file = folder / "family.yaml"
    file.write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in words.items()))
    assert yaml.safe_load(file.read_text()) == words
    run_python(["-m", "shoal.cli", "train", str(file), "--trial", "one"], folder)
    rows = [json.loads(line) for line in (folder / "runs/family/one/metrics.jsonl").read_text().splitlines()]
    assert rows[-1]["step"] >= steps
    assert rows[-1]["rows/trained"] > 0
    begin = next(row for row in rows if row["step"] >= 0.2 * rows[-1]["step"])
    rate = (rows[-1]["step"] - begin["step"]) / (rows[-1]["time/elapsed"] - begin["time/elapsed"])
    late = [row for row in rows if row["step"] > begin["step"]]
    inference, waits = (
        statistics.mean(row[key] for row in late if key in row)  # the actor speaks now and then, not once a round
        for key in ("time/actor_inference", "time/actor_waited_slot")
    )
    return rate, inference, waits


def measured(case: Case, folder: Path) -> Row:
    before = bare(case, folder, "look")
    rate, inference, waits = trained(case, max(STEPS, int(SECONDS * before["rate"])), before["agents"], folder)
    after = bare(case, folder)
    each = statistics.mean([before["rate"], after["rate"]])
    return Row(case.id, before["groups"], before["spaces"], case.copies, rate, each, inference, waits)


def line(row: Row) -> str:
    share, decides, waits = (f"{100 * part:.0f} %" for part in (row.share, row.inference, row.waits))
    speeds = f"{row.copies} | {row.rate:,.0f} | {row.bare:,.0f} | {share}{'' if row.share >= BAR else ' (below)'}"
    return f"| `{row.id}` | {row.groups} | {row.spaces} | {speeds} | {decides} | {waits} |"


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_every_family_trains_at_its_own_speed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows, missing, failed = [], [], []
    with capsys.disabled():
        names = ["env", "groups", "spaces", "copies", "steps/s", "its own loop", "share", "decides", "waits"]
        print("\n| " + " | ".join(names) + " |\n|" + "---|" * len(names), flush=True)
        for number, case in enumerate(CASES):
            if CHOSEN and not case.id.startswith(tuple(CHOSEN)):
                continue
            if importlib.util.find_spec(case.package) is None:
                missing.append(f"{case.id}: {case.package} is not installed")
                continue
            folder = tmp_path / str(number)
            folder.mkdir()
            try:
                rows.append(measured(case, folder))
            except Exception as error:  # the others are measured all the same
                failed.append(f"{case.id}: {error}")
                continue
            print(line(rows[-1]), flush=True)
        print("\n".join(f"left out: {each}" for each in missing))
    assert not failed, "\n".join(failed)
    slow = {row.id: round(row.share, 2) for row in rows if row.share < BAR}
    assert not slow, f"below {BAR} of the environment's own loop: {slow}"
