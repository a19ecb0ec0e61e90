"""What a league costs: the share of a run's CPU that goes to who meets whom, payoffs and ratings, with many members; and how long
`shoal league` takes with a long journal.

    python benchmarks/league_cost.py [--members 64] [--matches 1_000_000] [--env shoal/connect-four]

The run is one of a single process, so that all of its CPU is known: what is decided, written and computed is timed call by call,
once all members are there. Games that members play against each other to be measured are told apart: they are games.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import numpy as np
import yaml

import shoal
from shoal.api.league import LIVE, MATCH
from shoal.league.journal import Journal
from shoal.league.league import League
from shoal.league.measuring import Measuring
from shoal.league.standings import Pairs
from shoal.rollout.matchmaking import Matchmaker
from shoal.workers import actor
from shoal.workers.league import LeagueWorker

BARS = {"share": 0.03, "seconds": 3.0}
MODELS = {"shoal/connect-four": {"name": "board", "channels": [32], "hidden": [128]}}
PARTS = {
    "who meets whom": [(Matchmaker, "__call__"), (Matchmaker, "in_use"), (Pairs, "choose")],
    "matches as records": [(actor, "records_of")],
    "journal and payoffs": [(League, "hear")],
    "odds": [(League, "look")],
    "ratings and alarms": [(League, "metrics"), (League, "alarms")],
}
GAMES = "games between members"


class Meter:
    """CPU seconds by part, from the moment on that all members are there. What is called inside another part is counted once."""

    def __init__(self, members: int) -> None:
        self.members, self.seconds, self.since, self._inside = members, Counter[str](), 0.0, False
        self.begun_at = 0

    def wrap(self, holder: Any, name: str, part: str) -> None:
        """Time a function, or the getter of a property."""
        found = vars(holder)[name]
        if isinstance(found, property):
            assert found.fget is not None
            setattr(holder, name, property(self._timed(found.fget, part)))
        else:
            setattr(holder, name, self._timed(found, part))

    def _timed(self, function: Callable[..., Any], part: str) -> Callable[..., Any]:
        @wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            if self._inside:
                return function(*args, **kwargs)
            self._inside, began = True, time.thread_time()
            try:
                return function(*args, **kwargs)
            finally:
                self._inside = False
                self.seconds[part] += time.thread_time() - began

        return timed

    def watch(self) -> None:
        """Begin anew when the last member has joined."""
        freeze = LeagueWorker._freeze

        def watched(worker: LeagueWorker, number: int) -> Any:
            said, league = freeze(worker, number), worker._league
            if not self.since and len(league.standings.held) >= self.members:
                self.seconds.clear()
                self.since, self.begun_at = time.process_time(), league.matches
            return said

        LeagueWorker._freeze = watched  # type: ignore[method-assign]


def measure_run(members: int, env: str, games: int, updates: int) -> dict[str, Any]:
    """Shares of a run's CPU, once it has so many members."""
    meter = Meter(members)
    meter.watch()
    for part, functions in PARTS.items():
        for holder, name in functions:
            meter.wrap(holder, name, part)
    step = Measuring.step
    seconds = Counter[str]()

    def timed_step(measuring: Measuring) -> Any:
        began, before = time.thread_time(), sum(meter.seconds.values())
        found = step(measuring)
        if meter.since:
            seconds[GAMES] += time.thread_time() - began - (sum(meter.seconds.values()) - before)
        return found

    Measuring.step = timed_step  # type: ignore[method-assign]
    values = {
        "env": {"id": env, "num_envs": 64},
        "algorithm": {"name": "ppo", "unroll": 8, "minibatch": 256},
        **({"model": MODELS[env]} if env in MODELS else {"model": {"name": "mlp", "hidden": [64, 64]}}),
        "league": {"match": "pfsp", "freeze": {"steps": 500}, "keep": members, "games": games},
        "stop": {"updates": members + 4 + updates},
    }
    with tempfile.TemporaryDirectory() as root:
        outcome = shoal.train(shoal.Experiment.parse(values), root=root, on="inline", quiet=True)
        matches = len(Journal(outcome.folder / "league").matches())
    assert meter.since, f"it never had {members} members"
    total = time.process_time() - meter.since
    shares = {part: meter.seconds[part] / total for part in PARTS}
    return {
        "env": env, "members": members, "cpu_seconds": total, "matches": matches - meter.begun_at, "shares": shares,
        "share": sum(shares.values()), "games_between_members": seconds[GAMES] / total,
    }  # fmt: skip


def write_journal(folder: Path, matches: int, members: int) -> None:
    """The folder of a run with so many matches, most of them by a player that learns."""
    experiment = {
        "name": "long", "env": {"id": "shoal/kuhn", "num_envs": 8}, "league": {"match": "pfsp", "keep": members},
    }  # fmt: skip
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(yaml.safe_dump(experiment))
    journal, dice = Journal(folder / "league"), np.random.default_rng(0)
    journal.open()
    made = np.zeros(matches, MATCH)
    made["measured"] = dice.random(matches) < 0.1
    made["member"] = dice.integers(0, members, matches)
    made["own"] = np.where(made["measured"], (made["member"] + dice.integers(1, members, matches)) % members, LIVE)
    made["earned"] = dice.choice([-2, -1, 1, 2], matches)
    made["against"] = -made["earned"]
    made["episode"] = np.arange(matches)
    for part in np.array_split(made, 100):
        journal.append(part)
    for number in range(members):
        journal.decide("froze", "it is time", player="main", number=number, steps=1000 * number, version=number)
    journal.close()


def measure_reading(matches: int, members: int) -> dict[str, Any]:
    """Seconds of the command, from its start to its end."""
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root) / "runs" / "long" / "one"
        write_journal(folder, matches, members)
        size = (folder / "league" / "matches.bin").stat().st_size
        words = [sys.executable, "-m", "shoal.cli", "league", str(folder)]
        seconds, before = [], _cpu()
        for _ in range(3):
            began = time.perf_counter()
            subprocess.run(words, check=True, capture_output=True)
            seconds.append(time.perf_counter() - began)
    cpu = (_cpu() - before) / 3
    return {"matches": matches, "members": members, "megabytes": size / 1e6, "seconds": seconds, "cpu": cpu}


def _cpu() -> float:
    """Of all processes that were waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Measure, print, and say whether the bars hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--members", type=int, default=64)
    parser.add_argument("--matches", type=int, default=1_000_000)
    parser.add_argument("--env", default="shoal/connect-four")
    parser.add_argument("--games", type=int, default=40)
    parser.add_argument("--updates", type=int, default=60, help="after the last member has joined")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = measure_run(options.members, options.env, options.games, options.updates)
    reading = measure_reading(options.matches, options.members)
    if options.json:
        print(json.dumps({"run": found, "reading": reading}, indent=2))
    else:
        print(
            f"{found['env']}, {found['members']} members, {found['matches']:,} matches in {found['cpu_seconds']:.1f} s of CPU"
        )
        for part, share in found["shares"].items():
            print(f"  {part:<22} {100 * share:5.2f} %")
        print(f"  {'all of that':<22} {100 * found['share']:5.2f} % (bar: {100 * BARS['share']:g} %)")
        print(f"  {GAMES:<22} {100 * found['games_between_members']:5.2f} %")
        seconds = sorted(reading["seconds"])
        print(
            f"shoal league with {reading['matches']:,} matches, {reading['megabytes']:.0f} MB: {seconds[1]:.2f} s "
            f"({seconds[0]:.2f} to {seconds[-1]:.2f}, {reading['cpu']:.2f} s of CPU; bar: {BARS['seconds']:g} s)"
        )
    if found["share"] > BARS["share"] or min(reading["seconds"]) > BARS["seconds"]:
        sys.exit(1)


if __name__ == "__main__":
    main()
