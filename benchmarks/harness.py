"""What every benchmark shares: a virtual environment per peer, interleaved child processes, medians with their spread."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parent


def peer_python(name: str, packages: list[str]) -> str:
    """The interpreter of a peer's own environment, made on first use."""
    folder = HERE / ".venvs" / name
    python = folder / "bin" / "python"
    stamp = folder / "packages.txt"
    wanted = "\n".join(packages)
    if not stamp.exists() or stamp.read_text() != wanted:
        print(f"making {folder.relative_to(ROOT)} with {', '.join(packages)}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        pip = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*pip, *packages], check=True, capture_output=True, text=True)
        stamp.write_text(wanted)
    return str(python)


def run_child(python: str, script: str, settings: dict[str, Any]) -> dict[str, Any]:
    """One measurement in a process of its own; seconds count from before the process exists."""
    began = time.time()
    command = [python, str(HERE / "peers" / script), json.dumps({**settings, "began": began})]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=900)
    if done.returncode != 0:
        raise SystemExit(f"{script} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def slope(points: list[tuple[float, int]], skip: float = 0.2) -> float:
    """Steps per second once warm: from the first point beyond `skip` of all steps to the last."""
    warm = [p for p in points if p[1] >= points[-1][1] * skip]
    return (warm[-1][1] - warm[0][1]) / (warm[-1][0] - warm[0][0])


def median(values: list[float], digits: int = 1) -> str:
    """`median (lowest to highest)`."""
    middle, low, high = (f"{value:,.{digits}f}" for value in (statistics.median(values), min(values), max(values)))
    return f"{middle} ({low} to {high})"
