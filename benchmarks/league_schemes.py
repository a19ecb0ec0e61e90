"""All schemes of a league side by side, in poker games that are small enough to say exactly how exploitable play is.

    python benchmarks/league_schemes.py [--games kuhn leduc] [--seeds 1 2 3] [--schemes NAME ...] [--minutes 30] [--at-once 2]

Each run is a process of one thread (`--on inline`), so its CPU is known. Runs lie in `--root`; those that are done are not made
again, and an unfinished one begins anew. Printed is a table in Markdown: what a best answer earns, on average over both sides, from
what the scheme gives as its answer, and beside it from the last version and from all members drawn evenly. Exit code 1: no scheme
holds the bar of a game in all seeds.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import resource
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, Literal

import torch
from exploitability import measure

import shoal
from shoal.base.files import write_atomic

BARS = {"kuhn": 0.05, "leduc": 0.5}
Answer = Literal["mixture", "members evenly", "last version"]


@dataclass(frozen=True)
class Game:
    """What all schemes of a game share; who plays any action alike is as exploitable as `uniform` says."""

    env: dict[str, Any]
    algorithm: dict[str, Any]
    model: dict[str, Any]
    league: dict[str, Any]
    steps: int
    uniform: float


GAMES = {
    "kuhn": Game(
        env={"id": "shoal/kuhn", "num_envs": 256},
        algorithm={"name": "ppo", "lr": 3e-3, "unroll": 8, "minibatch": 1_024, "gamma": 1.0, "entropy": 0.005},
        model={"name": "mlp", "hidden": [32]},
        league={"freeze": {"steps": 200_000}, "keep": 40, "games": 4_000},
        steps=2_400_000,
        uniform=0.458,
    ),
    "leduc": Game(
        env={"id": "shoal/leduc", "num_envs": 256},
        algorithm={"name": "ppo", "lr": 1e-3, "unroll": 16, "minibatch": 1_024, "gamma": 1.0, "entropy": 0.02},
        model={"name": "mlp", "hidden": [64, 64]},
        league={"freeze": {"steps": 100_000}, "keep": 80, "games": 600},
        steps=4_000_000,
        uniform=2.374,
    ),
}


@dataclass(frozen=True)
class Scheme:
    """`match`: as `league.match`; None: no league. `answer`: what it says is its play in the end."""

    answer: Answer
    match: dict[str, Any] | None = None
    algorithm: dict[str, Any] = field(default_factory=dict)
    """What differs from the game's."""
    league: dict[str, Any] = field(default_factory=dict)


ANNEALED = {"lr": {"start": 1e-3, "end": 1e-4}}
SOLVERS = ("nash", "fictitious_play", "regret_matching", "replicator", "alpha_rank", "uniform")
SCHEMES = {
    "self-play, entropy 0.1": Scheme("last version", algorithm={**ANNEALED, "entropy": 0.1}),
    "latest": Scheme("last version", {"name": "latest"}, {**ANNEALED}),
    "uniform": Scheme("members evenly", {"name": "uniform"}),
    "pfsp": Scheme("last version", {"name": "pfsp"}, {**ANNEALED}),
    **{f"psro, {solver}": Scheme("mixture", {"name": "psro", "solver": solver}) for solver in SOLVERS},
    "psro, nash, cold": Scheme("mixture", {"name": "psro", "solver": "nash", "start": "cold"}),
}
HEAD = (
    "game", "scheme", "its answer", "exploitability of that, by seed", "last version", "members evenly", "members", "steps",
    "core-minutes",
)  # fmt: skip
FIGURES: dict[Answer, str] = {"mixture": "mixture", "members evenly": "uniform", "last version": "last"}


def settings_of(game: Game, scheme: Scheme, seed: int) -> dict[str, Any]:
    """One run, as `Experiment.parse` takes it."""
    values: dict[str, Any] = {
        "env": game.env, "algorithm": {**game.algorithm, **scheme.algorithm}, "model": game.model,
        "stop": {"steps": game.steps}, "seed": seed, "log": {"tensorboard": False},
    }  # fmt: skip
    if scheme.match is not None:
        values["league"] = {**game.league, **scheme.league, "match": scheme.match}
    return values


# ---------------------------------------------------------------- one run, in a process of its own


def key_of(values: dict[str, Any]) -> str:
    """Other settings are another run."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:12]


def folder_of(root: Path, game: str, scheme: str, seed: int) -> Path:
    """Where a run and its result lie."""
    return root / f"{game}-{scheme}".replace(",", "").replace(" ", "-") / f"seed-{seed}"


def train(root: Path, game: str, scheme: str, seed: int) -> None:
    """Train, measure, write down."""
    torch.set_num_threads(1)
    values = settings_of(GAMES[game], SCHEMES[scheme], seed)
    place = folder_of(root, game, scheme, seed)
    shutil.rmtree(place, ignore_errors=True)
    wanted = shoal.Experiment.parse({**values, "name": place.parent.name})
    outcome = shoal.train(wanted, root=root, trial=place.name, on="inline", quiet=True)
    cpu = resource.getrusage(resource.RUSAGE_SELF)
    found = measure(str(outcome.folder))
    mixtures = [each["exploitability"] for each in found.get("mixtures", [])]
    result = {
        "key": key_of(values), "steps": outcome.steps, "core_minutes": (cpu.ru_utime + cpu.ru_stime) / 60,
        "members": len(list((place / "league").glob("*.safetensors"))), "date": time.strftime("%Y-%m-%d"),
        "last": found["last"], "uniform": found.get("uniform"), "mixture": mixtures[-1] if mixtures else None,
    }  # fmt: skip
    write_atomic(place / "result.json", json.dumps(result, indent=2).encode())


# ---------------------------------------------------------------- all of them


@dataclass(frozen=True)
class Job:
    """One run that is wanted."""

    game: str
    scheme: str
    seed: int

    def result(self, root: Path) -> dict[str, Any] | None:
        """What came of it, if it was made with the present settings."""
        path = folder_of(root, self.game, self.scheme, self.seed) / "result.json"
        if not path.is_file():
            return None
        found: dict[str, Any] = json.loads(path.read_text())
        wanted = key_of(settings_of(GAMES[self.game], SCHEMES[self.scheme], self.seed))
        return found if found["key"] == wanted else None

    def start(self, root: Path, minutes: float) -> subprocess.Popen[bytes]:
        """In a process that ends after so many core-minutes."""
        one = ["--one", self.game, self.scheme, str(self.seed)]
        words = [sys.executable, str(Path(__file__)), "--root", str(root), *one]
        limit = int(60 * minutes)
        return subprocess.Popen(words, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (limit, limit)))


def make(jobs: list[Job], root: Path, minutes: float, at_once: int) -> None:
    """Those that are missing, so many at once."""
    waiting = [job for job in jobs if job.result(root) is None]
    running: dict[Job, subprocess.Popen[bytes]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                job = waiting.pop(0)
                running[job] = job.start(root, minutes)
            time.sleep(1.0)
            for job, process in list(running.items()):
                if process.poll() is not None:
                    del running[job]
                    said = f"exit code {process.returncode}" if process.returncode else json.dumps(job.result(root))
                    print(f"{job.game}, {job.scheme}, seed {job.seed}: {said}", file=sys.stderr, flush=True)
    finally:
        for process in running.values():
            process.kill()
            process.wait()


# ---------------------------------------------------------------- the table


def table(root: Path, games: list[str], schemes: list[str], seeds: list[int]) -> tuple[str, dict[str, bool]]:
    """A row per game and scheme; by game, whether some scheme holds the bar in all seeds."""
    lines, held = [f"| {' | '.join(HEAD)} |", "|---" * len(HEAD) + "|"], dict.fromkeys(games, False)
    for game, scheme in product(games, schemes):
        answer, found = SCHEMES[scheme].answer, [Job(game, scheme, seed).result(root) for seed in seeds]
        done = [each for each in found if each is not None]
        if not done:
            continue
        own = [each[FIGURES[answer]] for each in done]
        held[game] |= len(done) == len(seeds) and max(own) <= BARS[game]
        by_seed = ", ".join("-" if each is None else f"{each[FIGURES[answer]]:.3f}" for each in found)
        cells = [game, scheme, answer, by_seed, _mean(done, "last"), _mean(done, "uniform"), f"{done[-1]['members']}"]
        cells += [f"{done[-1]['steps']:,}", f"{sum(each['core_minutes'] for each in done) / len(done):.1f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines), held


def _mean(done: list[dict[str, Any]], figure: str) -> str:
    known = [each[figure] for each in done if each[figure] is not None]
    return f"{sum(known) / len(known):.3f}" if known else ""


def main() -> None:
    """Make the runs that are missing, print the table of all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", nargs="+", choices=GAMES, default=list(GAMES))
    parser.add_argument("--schemes", nargs="+", choices=SCHEMES, default=list(SCHEMES))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument(
        "--minutes", type=float, default=60.0, help="core-minutes after which a run is ended, without a result"
    )
    parser.add_argument("--at-once", type=int, default=2)
    parser.add_argument("--root", type=Path, default=Path("runs/league-schemes"))
    parser.add_argument("--table", action="store_true", help="print what is there, and make nothing")
    parser.add_argument("--one", nargs=3, metavar=("GAME", "SCHEME", "SEED"), help="this run, in this process")
    options = parser.parse_args()
    if options.one is not None:
        game, scheme, seed = options.one
        train(options.root, game, scheme, int(seed))
        return
    if not options.table:
        # by seed first: what is there after a while is all schemes, once
        jobs = [
            Job(game, scheme, seed)
            for seed in options.seeds
            for game, scheme in product(options.games, options.schemes)
        ]
        make(jobs, options.root, options.minutes, options.at_once)
    text, held = table(options.root, options.games, options.schemes, options.seeds)
    print(text)
    for game, holds in held.items():
        print(f"\n{game}: {'some' if holds else 'no'} scheme is at {BARS[game]} or below in all seeds", end="")
        print(f"; who does everything alike is at {GAMES[game].uniform}")
    if not all(held.values()):
        sys.exit(1)


if __name__ == "__main__":
    main()
