"""Random faults over roles and recipes, for as long as wanted: what recovers, how fast, what is lost, what is left behind.

    python tools/chaos.py --seconds 1800 --every 20 --seed 1

Each round trains one case twice for a while: undisturbed, and with a fault every so many seconds. Faults come from outside
(SIGKILL, SIGSTOP) and from inside the environment (it raises, hangs, ends its process, pays NaN). At the end a matrix of roles and
faults is printed, with goodput (environment steps against the undisturbed twin), recovery times, updates lost with a trainer, and
leaks; the exit code is 1 if anything hung, leaked, or did not balance.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shoal.base.errors import ShoalError
from shoal.monitoring.run_folder import RunFolder
from shoal.runs.panel import ask
from shoal.streams.sample import OUTCOMES

HERE = Path(__file__).resolve().parent
COMMON = [
    f"env.id={HERE / 'chaos_env.py'}:Chaos", "env.timeout=2s", "placement.hang=2s", "checkpoint.every=5s",
    "stop.return=null", "stop.steps=null", "log.tensorboard=false",
]  # fmt: skip
CASES: dict[str, list[str]] = {
    "ppo, 2 actors": ["cartpole", "placement.actors=2", "placement.max_lag=1"],
    "ppo, in step": ["cartpole", "placement.trainers=2"],
    "ppo, policy worker": ["cartpole", "placement.actors=2", "placement.inference=worker"],
    "ppo, evaluated": ["cartpole", "placement.actors=1", "evaluation.every=2s", "evaluation.episodes=4"],
    "ppo, memory": ["cartpole-memory", "placement.actors=1", "env.kwargs={}"],
    "dqn, one process": ["cartpole-dqn", "placement.trainers=1"],
    "dqn, 2 buffers": ["cartpole-dqn", "placement.actors=2", "placement.buffers=2"],
    "a3c, one memory": ["cartpole-a3c", "placement.trainers=2"],
    "a4c, averaged": ["cartpole-a4c", "placement.trainers=2"],
}
FROM_OUTSIDE = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}
FROM_INSIDE = ("raise", "hang", "exit", "nan")
GRACE = 5.0
"""Seconds in which all processes of a run are gone once its main process has ended."""
LIMIT = 60.0
"""Seconds after which a run that makes no update hangs."""


@dataclass
class Cell:
    """All faults of one kind that struck one role."""

    recovered: list[float] = field(default_factory=list)
    """Seconds until two more updates."""
    hung: int = 0


@dataclass
class Tally:
    """What came of everything."""

    cells: dict[tuple[str, str], Cell] = field(default_factory=lambda: defaultdict(Cell))
    steps: dict[bool, float] = field(default_factory=lambda: {False: 0.0, True: 0.0})
    """Disturbed or not -> environment steps per second, added up."""
    goodput: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    lost: list[int] = field(default_factory=list)
    """Updates, by each death of a trainer."""
    problems: list[str] = field(default_factory=list)


class LiveRun:
    """A run in a process of its own, seen from outside."""

    def __init__(self, case: str, folder: Path, seconds: float, seed: int) -> None:
        recipe, *words = CASES[case]
        self._fault, self.mark = folder / "fault", uuid.uuid4().hex
        env = {
            **os.environ,
            "SHOAL_CHAOS": str(self._fault),
            "SHOAL_CHAOS_MARK": self.mark,
            "TMPDIR": str(folder / "tmp"),
        }
        (folder / "tmp").mkdir(parents=True)
        argv = [
            sys.executable,
            "-m",
            "shoal.cli",
            "train",
            recipe,
            "--trial",
            "one",
            "--seed",
            str(seed),
            *COMMON,
            *words,
        ]
        self.folder, self._tmp, self._log = RunFolder(folder / "runs" / recipe / "one"), folder / "tmp", folder / "log"
        with open(self._log, "w") as log:
            self.process = subprocess.Popen(
                [*argv, f"stop.seconds={seconds:g}"],
                cwd=folder,
                env=env,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def status(self) -> dict[str, Any] | None:
        """None: it does not answer now, or has ended."""
        if not self.folder.path.is_dir():
            return None
        with suppress(ShoalError, OSError):
            return ask(self.folder, "status")
        return None

    def until_update(self, update: int, seconds: float) -> dict[str, Any] | None:
        """The first status with so many updates; None: there was none in time, or the run has ended."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self.process.poll() is None:
            if (now := self.status()) is not None and now["update"] >= update:
                return now
            time.sleep(0.05)
        return None

    def strike(self, worker: dict[str, Any], fault: str) -> None:
        """One fault, at one worker; those from inside strike whichever environment steps first."""
        if fault in FROM_OUTSIDE:
            with suppress(ProcessLookupError):
                os.kill(worker["pid"], FROM_OUTSIDE[fault])
        else:
            self._fault.write_text(fault)

    def end(self) -> list[str]:
        """Wait for the end; what is wrong then."""
        problems = []
        try:
            code = self.process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            return [f"it did not end: {self._log.read_text()[-300:]}"]
        if code != 0:
            problems.append(f"exit code {code}: {self._log.read_text()[-300:]}")
        deadline = time.monotonic() + GRACE
        while marked(self.mark) and time.monotonic() < deadline:
            time.sleep(0.05)
        problems += [f"process {pid} was left" for pid in marked(self.mark)]
        problems += [f"{path.name} was left in the temporary folder" for path in self._tmp.iterdir()]
        return problems + self._unbalanced()

    def _unbalanced(self) -> list[str]:
        wrong = []
        for line in self.folder.metrics.read_text().splitlines() if self.folder.metrics.exists() else []:
            row = json.loads(line)
            settled = sum(row.get(f"rows/{name}", 0) for name in OUTCOMES)
            if row["rows/produced"] != settled + row["rows/in_flight"]:
                wrong.append(f"rows do not balance at update {row['update']}")
        return wrong[:1]

    def went_on_at(self) -> list[int]:
        """The versions that trainers went on at."""
        events = self.folder.path / "events.jsonl"
        return [int(found.replace(",", "")) for found in re.findall(r"goes on at version ([\d,]+)", events.read_text())]


def marked(mark: str) -> list[int]:
    """Processes that descend from a run, whoever is their parent now."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdecimal() and mark.encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
    return found


@contextmanager
def shared_memory(problems: list[str]) -> Iterator[None]:
    """What is left of it is a problem."""
    before = set(os.listdir("/dev/shm"))
    yield
    problems += [f"{name} was left in shared memory" for name in sorted(set(os.listdir("/dev/shm")) - before)]


def play(case: str, tally: Tally, dice: random.Random, *, seconds: float, every: float, disturbed: bool) -> float:
    """One run; its environment steps per second, from the first update on."""
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder, shared_memory(tally.problems):
        run = LiveRun(case, Path(folder), seconds, dice.randrange(1000))
        first = run.until_update(2, LIMIT)
        began = time.monotonic()
        while first is not None and disturbed and time.monotonic() - began + every < seconds:
            time.sleep(every * dice.uniform(0.5, 1.0))
            strike_once(case, run, tally, dice)
        last = first
        while run.process.poll() is None and (now := run.status()) is not None:
            last = now
            time.sleep(0.2)
        tally.problems += [f"{case}: {problem}" for problem in run.end()]
        if first is None or last is None:
            tally.problems.append(f"{case}: it did not begin")
            return 0.0
        return (last["step"] - first["step"]) / max(1e-9, last["elapsed"] - first["elapsed"])


def strike_once(case: str, run: LiveRun, tally: Tally, dice: random.Random) -> None:
    """A fault at a worker that is drawn, and what comes of it."""
    before = run.status()
    if before is None:
        return
    worker = dice.choice(before["workers"])
    steps_env = worker["kind"] == "actor"
    fault = dice.choice([*FROM_OUTSIDE, *(FROM_INSIDE if steps_env else ())])
    deaths = len(run.went_on_at())
    run.strike(worker, fault)
    struck = time.monotonic()
    after = run.until_update(before["update"] + 2, LIMIT)
    cell = tally.cells[worker["kind"], fault]
    if after is not None:
        cell.recovered.append(time.monotonic() - struck)
    elif run.process.poll() is None:
        cell.hung += 1
        tally.problems.append(f"{case}: {worker['name']} {fault}: no update within {LIMIT:g} s")
    again = run.went_on_at()[deaths:]
    if worker["kind"] == "trainer" and again:
        tally.lost.append(max(0, before["update"] - max(again)))


def report(tally: Tally) -> None:
    """The matrix, then the sums."""
    faults = [*FROM_OUTSIDE, *FROM_INSIDE]
    roles = sorted({role for role, _ in tally.cells})
    print(f"{'':14}" + "".join(f"{fault:>24}" for fault in faults))
    for role in roles:
        cells = []
        for fault in faults:
            cell = tally.cells.get((role, fault))
            if cell is None:
                cells.append("-")
                continue
            median = f"{statistics.median(cell.recovered):.1f}/{max(cell.recovered):.1f} s" if cell.recovered else ""
            cells.append(f"{len(cell.recovered)} ok {median}" + (f" {cell.hung} hung" if cell.hung else ""))
        print(f"{role:14}" + "".join(f"{text:>24}" for text in cells))
    struck = sum(len(cell.recovered) + cell.hung for cell in tally.cells.values())
    print(f"{struck} faults; recovery: median/longest")
    for case, shares in tally.goodput.items():
        print(f"goodput {case:22} {100 * statistics.median(shares):.0f} % of undisturbed ({len(shares)} pairs)")
    everyone = [share for shares in tally.goodput.values() for share in shares]
    if everyone:
        print(f"goodput overall {100 * tally.steps[True] / tally.steps[False]:.0f} %")
    if tally.lost:
        print(f"updates lost with a trainer: median {statistics.median(tally.lost):g}, most {max(tally.lost)}")
    for problem in tally.problems:
        print(f"PROBLEM {problem}")
    print("no hangs, no leaks, all rows accounted for" if not tally.problems else f"{len(tally.problems)} problems")


def main() -> None:
    """Until the time is up; at least one pair of runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--every", type=float, default=20.0, help="seconds between two faults of a run, at most")
    parser.add_argument("--run", type=float, default=90.0, help="seconds of one run")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--case", action="append", choices=list(CASES), help="one of them; may be given several times")
    given = parser.parse_args()
    dice, tally, began = random.Random(given.seed), Tally(), time.monotonic()
    cases = given.case or list(CASES)
    while True:
        dice.shuffle(cases)
        for case in cases:
            rates = {
                disturbed: play(case, tally, dice, seconds=given.run, every=given.every, disturbed=disturbed)
                for disturbed in (False, True)
            }
            for disturbed, rate in rates.items():
                tally.steps[disturbed] += rate
            if rates[False]:
                tally.goodput[case].append(rates[True] / rates[False])
            print(
                f"{time.monotonic() - began:6.0f} s  {case}: {rates[True]:,.0f} of {rates[False]:,.0f} steps/s",
                flush=True,
            )
            if time.monotonic() - began > given.seconds:
                report(tally)
                sys.exit(1 if tally.problems else 0)


if __name__ == "__main__":
    main()
