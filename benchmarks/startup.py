"""What it takes to start: from the command to the first update, to the end of the default recipe, and to the text of `--help`.

Every figure is of a whole process, from before it exists until it is gone: wall seconds, and the seconds that it worked, which say
more where a machine is shared. The first update is when its row is in `metrics.jsonl`. Then what imports take, by package.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent))
from figures import median

BAR = 3.0
"""Seconds from the command to the first update, on two quiet cores."""
SHOAL = [sys.executable, "-m", "shoal.cli"]
TRAIN = [*SHOAL, "train", "cartpole", "--trial", "one"]
LOOK = 0.002
"""Seconds between two looks at the file."""


class Start(NamedTuple):
    """One process."""

    first: float | None
    """Wall seconds to the first row of metrics."""
    wall: float
    work: float
    """Seconds on all cores; without hosts, which are children of a fork server: on two quiet cores the probe starts none."""


def run(command: list[str]) -> Start:
    """Run it in an empty folder."""
    with tempfile.TemporaryDirectory() as folder:
        metrics, first = Path(folder, "runs", "cartpole", "one", "metrics.jsonl"), None
        before, began = _work(), time.perf_counter()
        with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL) as process:
            while first is None and process.poll() is None:
                if metrics.exists() and metrics.stat().st_size:
                    first = time.perf_counter() - began
                time.sleep(LOOK)
            if process.wait():
                raise SystemExit(f"{' '.join(command)} failed")
            wall = time.perf_counter() - began
        return Start(first, wall, _work() - before)


def _work() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def imports(command: list[str]) -> dict[str, float]:
    """Milliseconds of every top package's modules, each without what it imports itself."""
    with tempfile.TemporaryDirectory() as folder:
        timed = [command[0], "-X", "importtime", *command[1:]]
        said = subprocess.run(timed, cwd=folder, capture_output=True, text=True, check=True).stderr
    spent: collections.Counter[str] = collections.Counter()
    for own, module in re.findall(r"^import time: +(\d+) \| +\d+ \| +(\S+)$", said, re.MULTILINE):
        package = module.partition(".")[0]
        spent[package if package not in sys.stdlib_module_names else "standard library"] += int(own) / 1000
    return {"all": sum(spent.values()), **dict(spent.most_common(12))}


def main() -> None:
    """Measure in turns, so that whatever else the machine does meets all alike."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--json", type=Path, help="Keep every measurement here.")
    arguments = parser.parse_args()
    commands = {"help": [*SHOAL, "--help"], "one update": [*TRAIN, "stop.updates=1"], "default recipe": TRAIN}
    for command in commands.values():
        run(command)  # the first run of all reads files from the disk
    runs: dict[str, list[Start]] = {name: [] for name in commands}
    packages = []
    for _ in range(arguments.repeats):
        for name, command in commands.items():
            runs[name].append(run(command))
        packages.append(imports(commands["one update"]))
    _show(runs, packages)
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        record = {name: [start._asdict() for start in starts] for name, starts in runs.items()}
        arguments.json.write_text(json.dumps({"runs": record, "imports": packages}, indent=1) + "\n")


def _show(runs: dict[str, list[Start]], packages: list[dict[str, float]]) -> None:
    print(
        f"seconds, median (lowest to highest) of {len(packages)}; {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    )
    print(f"{'':16}{'to the first update':>24}{'to the end':>24}{'seconds of work':>24}")
    for name, starts in runs.items():
        firsts = [start.first for start in starts if start.first is not None]
        cells = [firsts, [start.wall for start in starts], [start.work for start in starts]]
        print(f"{name:16}" + "".join(f"{median(cell, 2) if cell else '':>24}" for cell in cells))
    firsts = [start.first for start in runs["default recipe"] if start.first is not None]
    met = statistics.median(firsts) <= BAR
    print(
        f"to the first update: {statistics.median(firsts):.2f} s against at most {BAR:g}: {'met' if met else 'MISSED'}"
    )
    print("\nimports of a run, milliseconds of the modules themselves:")
    for package in packages[0]:
        print(f"  {package:20}{median([found.get(package, 0.0) for found in packages], 0):>24}")


if __name__ == "__main__":
    main()
