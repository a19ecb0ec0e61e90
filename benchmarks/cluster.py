"""Between machines: what the relay carries, and how actors scale, on a real Ray cluster of two hosts in namespaces of this machine.

- fragments and parameters through Shoal's relay and through plain Ray, in turns (peers/cluster_link.py);
- `shoal train --on ray` with more and more actors over both hosts, of an environment that sleeps 10 ms a step: its actors need
  hardly any CPU, so that two cores can stand for many. Efficiency is steps/s over those of as many single actors;
- RLlib's PPO with as many env runners on the same cluster, over the same environment.

Both hosts share this machine's cores and memory, and no wire lies between them: the figures are of software, not of networks.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "cluster"))
from figures import median, slope
from harness import HERE, peer_python
from hosts import reason_to_skip
from nodes import Cluster

from shoal.api.env import Episode
from shoal.api.messages import Episodes
from shoal.monitoring.aggregate import Aggregator
from shoal.monitoring.shares import Shares
from shoal.streams.control import ControlEnd, parse

FRAGMENTS = [
    ("noise", 0.01, 1),
    ("noise", 0.01, 32),
    *((kind, size, 1) for kind in ("noise", "frames") for size in (1, 4, 16)),
]
"""What is in them, MB, and rings that take turns."""
LINK = {"fragments": FRAGMENTS, "parameters": [0.05, 1, 16], "versions": 2}
SHAPE = {"copies": 2, "unroll": 16, "cpus": 0.1, "sleep": 0.01}
"""Of every actor and of every env runner; the environment sleeps so many seconds in a step."""
SHOAL = str(Path(sys.executable).with_name("shoal"))
BAR = 0.9
"""Efficiency of the most actors."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5, help="of fragments and parameters")
    parser.add_argument("--actors", type=int, nargs="*", default=[1, 2, 4, 8, 16])
    parser.add_argument(
        "--runners", type=int, nargs="*", default=[1, 16], help="env runners of RLlib; none: leave it out"
    )
    parser.add_argument("--updates", type=int, default=24, help="of each run; one takes about a third of a second")
    parser.add_argument("--json", type=Path, help="write all measurements here")
    options = parser.parse_args()
    if reason := reason_to_skip():
        raise SystemExit(f"a cluster of hosts cannot be made here: {reason}")
    print(f"{options.repeats} repeats, {os.cpu_count()} cores, load {os.getloadavg()[0]:.2f}", flush=True)
    peer = rllib() if options.runners else ""
    results: dict[str, Any] = {}
    with Cluster() as cluster:
        cluster.start(nodes=2, cpus=2)
        if options.repeats:
            results["link"] = child(cluster, sys.executable, "cluster_link.py", {**LINK, "repeats": options.repeats})
            report_link(results["link"])
            results["report"] = [cost_of_report() for _ in range(options.repeats)]
            print(f"\nthe controller's CPU per report of an actor: {median(results['report'], 0)} us", flush=True)
        results |= scale(cluster, options, peer)
    if options.json:
        options.json.write_text(json.dumps(results))
    if results["shoal"]:
        report_efficiency(results["shoal"])


def rllib() -> str:
    """The interpreter of the peer; empty, and why is said, if it does not install."""
    try:
        return peer_python("rllib")
    except subprocess.CalledProcessError as error:
        print(f"rllib left out: {(error.stderr or str(error)).strip().splitlines()[-1]}", flush=True)
        return ""


def child(cluster: Cluster, python: str, script: str, settings: dict[str, Any]) -> dict[str, Any]:
    """One measurement by a driver inside the first host."""
    done = cluster.run(0, [python, str(HERE / "peers" / script), json.dumps(settings)], timeout=600)
    if done.returncode:
        raise SystemExit(f"{script} failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


# ---------------------------------------------------------------- between two hosts


def report_link(found: dict[str, Any]) -> None:
    """Medians, spreads, and the median over repeats of the ratio. CPU: of the two agents, and of all processes of both hosts."""
    print(
        f"\n{'fragments, MB':18} {'shoal, MB/s':>20} {'plain Ray, MB/s':>20} {'ratio':>6} {'fragments/s':>12} {'travelled':>10}"
    )
    for name, runs in found["fragments"].items():
        size = float(name.split()[1])
        ours, rays = ([run[side] for run in runs] for side in ("shoal", "ray"))
        ratio = statistics.median(a["rate"] / b["rate"] for a, b in zip(ours, rays, strict=True))
        rates = [median([run["rate"] for run in side], 0 if size >= 1 else 1) for side in (ours, rays)]
        count = statistics.median(run["rate"] for run in ours) / size
        print(
            f"{name:>18} {rates[0]:>20} {rates[1]:>20} {ratio:6.2f} {count:12,.0f} {ours[0]['travelled']:10.0%}  "
            f" CPU ms per fragment: agents {cost(ours, 'agents', size)}, all {cost(ours, 'everything', size)}"
            f"; plain Ray {cost(rays, 'everything', size)}"
        )
    print(f"\n{'parameters, MB':18} {'shoal, ms':>20} {'plain Ray, ms':>20} {'ratio':>6}")
    for name, runs in found["parameters"].items():
        ratio = statistics.median(run["shoal"] / run["ray"] for run in runs)
        times = [median([run[side] for run in runs], 1) for side in ("shoal", "ray")]
        print(f"{name:>18} {times[0]:>20} {times[1]:>20} {ratio:6.2f}", flush=True)


def cost(runs: list[dict[str, float]], of: str, size: float) -> str:
    """Milliseconds of CPU per fragment of `size` MB."""
    return f"{1e3 * size * statistics.median(run[of] for run in runs):.1f}"


def cost_of_report(count: int = 5_000) -> float:
    """Microseconds of CPU that a controller spends on what an actor says once per fragment: to parse it and to merge it."""
    shares, aggregate, (here, there) = Shares("actor"), Aggregator(), Pipe()
    episode = Episode(0, 100, {"agent": np.ones(1)})
    ControlEnd(here).send(Episodes(32, {0: {"policy": 1}}, [episode], shares.take()))
    message = there.recv_bytes()
    began = time.process_time()
    for _ in range(count):
        said = parse(message)
        assert isinstance(said, Episodes)
        aggregate.add(said.metrics, said.episodes)
    return (time.process_time() - began) / count * 1e6


# ---------------------------------------------------------------- more and more actors


def scale(cluster: Cluster, options: argparse.Namespace, peer: str) -> dict[str, dict[int, float]]:
    """Steps per second of both sides, by the number of actors or env runners."""
    rates: dict[str, dict[int, float]] = {"shoal": {}, "rllib": {}}
    print(f"\nsteps/s of a world that sleeps {1e3 * SHAPE['sleep']:g} ms, over two hosts", flush=True)
    for actors in sorted({*options.actors, *options.runners}):
        settings = {**SHAPE, "actors": actors, "updates": options.updates}
        if actors in options.actors:
            rates["shoal"][actors] = said("shoal", actors, train(cluster, settings))
        if peer and actors in options.runners:
            run = child(cluster, peer, "rllib_cluster.py", settings)
            rates["rllib"][actors] = said("rllib", actors, slope(run["points"]))
    return rates


def said(side: str, actors: int, rate: float) -> float:
    print(f"  {side:6} {actors:3} {rate:8.1f}", flush=True)
    return rate


def train(cluster: Cluster, settings: dict[str, Any]) -> float:
    """Steps per second of a run, once warm."""
    actors, steps = settings["actors"], settings["actors"] * settings["copies"] * settings["unroll"]
    world = {"id": f"{HERE}/sleeper.py:Sleeper", "kwargs": {"seconds": settings["sleep"]}}
    experiment = {
        "name": "sleeper",
        "env": {**world, "num_envs": actors * settings["copies"]},
        "algorithm": {"name": "ppo", "unroll": settings["unroll"], "minibatch": steps, "epochs": 1},
        "model": {"name": "mlp", "hidden": [64, 64], "activation": "tanh"},
        "placement": {
            "actors": actors, "max_lag": 1,
            "cluster": {"strategy": "spread", "actor": {"cpus": settings["cpus"]}, "trainer": {"cpus": settings["cpus"]}},
        },
        "stop": {"steps": steps * settings["updates"]},
        "log": {"tensorboard": False},
    }  # fmt: skip
    trial = f"with-{actors}"  # the controller of an ended run keeps its name for a while
    with tempfile.TemporaryDirectory() as folder:
        recipe = Path(folder) / "sleeper.yaml"
        recipe.write_text(json.dumps(experiment))
        command = ["env", f"--chdir={folder}", SHOAL, "train", str(recipe), "--trial", trial]
        done = cluster.run(0, [*command, "--on", "ray", "--address", "auto"], timeout=300)
        if done.returncode:
            raise SystemExit(f"shoal train failed:\n{done.stdout[-1000:]}\n{done.stderr[-3000:]}")
        written = (Path(folder) / "runs" / "sleeper" / trial / "metrics.jsonl").read_text()
    rows = [json.loads(line) for line in written.splitlines()]
    return slope([(row["time/elapsed"], row["step"]) for row in rows])


def report_efficiency(rates: dict[int, float]) -> None:
    """Against as many single actors; the bar is for the most."""
    least, most = min(rates), max(rates)
    for actors, rate in rates.items():
        print(f"  {actors:3} actors: efficiency {rate / (actors * rates[least] / least):.2f}")
    found = rates[most] / (most * rates[least] / least)
    print(f"bar: {BAR} with {most} actors: {found:.2f}, {'met' if found >= BAR else 'MISSED'}")


if __name__ == "__main__":
    main()
