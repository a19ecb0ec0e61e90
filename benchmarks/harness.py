"""What every benchmark shares: an environment per peer, interleaved and metered child processes, the best of each peer's sweep."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from figures import Point, cpu_per_million, since_first, slope
from meter import Meter
from pins import PEERS

HERE = Path(__file__).parent
ROOT = HERE.parent
LONGEST = 900.0
"""Seconds that a child may take."""

Sweep = dict[str, dict[str, Any]]
"""Words for a setting -> what a side is told."""
Run = dict[str, Any]


@dataclass(frozen=True)
class Side:
    """Someone who does the work: a script of `peers/` under an interpreter, with settings of its own."""

    name: str
    family: str
    """The best side of a family is compared; `shoal` keeps all of its own."""
    python: str
    script: str
    settings: dict[str, Any] = field(default_factory=dict)


class ChildError(Exception):
    """A side that does not run, with the end of what it said."""


# ---------------------------------------------------------------- environments


def peer_python(name: str) -> str:
    """The interpreter of a peer's own environment, made on first use with the versions of `pins.py`."""
    packages = PEERS[name]
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


def peer_sides(peer: str, script: str, sweep: Sweep) -> list[Side]:
    """One side for each setting of a peer's sweep; none, and the reason, where it does not install."""
    try:
        python = peer_python(peer)
    except subprocess.CalledProcessError as error:
        print(f"{peer} does not install: {(error.stderr or str(error)).strip().splitlines()[-1]}", flush=True)
        return []
    return [Side(f"{peer}, {words}", peer, python, script, settings) for words, settings in sweep.items()]


def own_sides(script: str, sweep: Sweep) -> list[Side]:
    """Shoal's."""
    return [Side(f"shoal, {words}", "shoal", sys.executable, script, settings) for words, settings in sweep.items()]


def all_sides(script: str, ours: Sweep, peers: list[str], sweeps: dict[str, tuple[str, Sweep]]) -> list[Side]:
    """Ours by its settings, and of the peers that are asked for each with its script and its sweep."""
    sides = own_sides(script, ours)
    for peer, (peer_script, sweep) in sweeps.items():
        sides += peer_sides(peer, peer_script, sweep) if peer in peers else []
    return sides


# ---------------------------------------------------------------- children


def run_child(python: str, script: str, settings: dict[str, Any], timeout: float = LONGEST) -> Run:
    """One measurement in a process of its own; seconds count from before the process exists."""
    command = [python, str(HERE / "peers" / script), json.dumps({**settings, "began": time.time()})]
    run, _ = metered(command, timeout)
    return json.loads(run.stdout.strip().splitlines()[-1])


def metered(
    command: list[str], timeout: float = LONGEST, cwd: str | None = None
) -> tuple[subprocess.CompletedProcess[str], Meter]:
    """Run to the end, and what it cost with all that it started."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    with Meter() as meter:
        try:
            done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=timeout, cwd=cwd)
        except subprocess.TimeoutExpired:
            raise ChildError(f"not done after {timeout:.0f} s") from None
    if done.returncode != 0:
        raise ChildError(done.stderr[-1500:].strip() or f"exit code {done.returncode}")
    return done, meter


def measure(side: Side, settings: dict[str, Any]) -> Run:
    """One run of a side, without its points: steps per second, CPU seconds per million steps, most bytes of memory.

    Of those who replay, and tell their updates, also updates per second, and rows trained per step; all of it once they learn.
    """
    command = [side.python, str(HERE / "peers" / side.script)]
    done, meter = metered([*command, json.dumps({**settings, **side.settings, "began": time.time()})])
    said = json.loads(done.stdout.strip().splitlines()[-1])
    points, updates = ([(moment, done) for moment, done in said.get(name, ())] for name in ("points", "updates"))
    try:
        points = since_first(updates, points) if updates else points
        rate, cpu = slope(points), cpu_per_million(points, meter.cpu)
        learned = learning(updates, rate, settings["batch"]) if updates else {}
    except ValueError as error:
        raise ChildError(str(error)) from None
    return {
        "rate": rate,
        "cpu": cpu,
        "rss": meter.rss,
        "pss": meter.pss,
        "version": said["version"],
        "load": os.getloadavg()[0],
        **learned,
    }


def learning(updates: list[Point], rate: float, batch: int) -> dict[str, float]:
    """Updates per second, and rows trained per environment step, of a side that made `rate` steps per second."""
    each = slope(updates)
    return {"updates": each, "trained": each * batch / rate}


def swept(sides: list[Side], settings: dict[str, Any]) -> tuple[list[Side], dict[str, Run]]:
    """One run of each; of every family but ours the fastest is kept. Who does not run is left out, and why is said."""
    runs: dict[str, Run] = {}
    for side in sides:
        if side.family == "shoal" or [other.family for other in sides].count(side.family) == 1:
            continue
        try:
            runs[side.name] = measure(side, settings)
        except ChildError as error:
            print(f"  {side.name} left out: {error}", flush=True)
            continue
        print(f"  sweep: {side.name:34} {runs[side.name]['rate']:10,.0f} steps/s", flush=True)
    kept = []
    for family in dict.fromkeys(side.family for side in sides):
        own = [side for side in sides if side.family == family]
        ran = [side for side in own if side.name in runs]
        kept += own if family == "shoal" or len(own) == 1 else sorted(ran, key=lambda s: -runs[s.name]["rate"])[:1]
    return kept, runs


def steps_per_second(run: Run) -> str:
    """What is said of a repeat."""
    return f"{run['rate']:10,.0f} steps/s"


def repeated(
    sides: list[Side],
    settings: dict[str, Any],
    repeats: int,
    measured: Callable[[Side, dict[str, Any]], Run] | None = None,
    said: Callable[[Run], str] = steps_per_second,
) -> dict[str, list[Run]]:
    """In turns. A peer that fails is not asked again, and its figures are dropped; ours must not fail."""
    results: dict[str, list[Run]] = {side.name: [] for side in sides}
    for repeat in range(repeats):
        for side in (side for side in sides if side.name in results):
            try:
                run = (measured or measure)(side, {**settings, "seed": repeat + 1})
            except ChildError as error:
                if side.family == "shoal":
                    raise
                print(f"  {side.name} left out: {str(error).splitlines()[-1]}", flush=True)
                del results[side.name]
                continue
            results[side.name].append(run)
            print(f"  repeat {repeat + 1}: {side.name:34} {said(run)}", flush=True)
    return results


# ---------------------------------------------------------------- around them


def cores() -> int:
    """Those that we may use."""
    return len(os.sched_getaffinity(0))


def machine() -> dict[str, Any]:
    """Where and when it was measured."""
    models = [line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    return {
        "when": time.strftime("%Y-%m-%d %H:%M"),
        "cores": cores(),
        "cpu": models[0] if models else platform.machine(),
        "load": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
    }


def _lines(path: str) -> Iterable[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else ()


def best_peer(results: dict[str, list[Run]]) -> str | None:
    """The peer with the most steps per second."""
    peers = [name for name in results if not name.startswith("shoal")]
    return max(peers, key=lambda name: statistics.median(run["rate"] for run in results[name]), default=None)


def save(path: Path | None, document: dict[str, Any]) -> None:
    """For `image.py`, and for whoever doubts."""
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document, indent=1) + "\n")
