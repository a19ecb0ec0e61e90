"""What it costs to be watched: the default recipe with each way to look at a run from outside, and without any, in turns.

Steps per second once all are ready, by the rows of `metrics.jsonl`: the first 40 % of the steps do not count, since to import
Weights & Biases takes a core for about 1.4 s, once. Every way has to keep its share of the pace of a run that nobody watches.
Seconds to the first row are from the command on.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent))
from figures import median, slope

BAR = 0.97
"""Of the steps per second of a run that nobody watches."""
SKIP = 0.4
"""Of the steps, until whoever watches is ready."""
ALONE = "nobody"
WANDB, PROMETHEUS = "log.wandb.mode=offline", "log.prometheus.port={port}"
WAYS: dict[str, list[str]] = {
    ALONE: [], "W&B offline": [WANDB], "Prometheus": [PROMETHEUS], "all, and the page": [WANDB, PROMETHEUS, "page"],
}  # fmt: skip
"""Name -> settings on top of the recipe. Prometheus asks once a second. The page: its server, and a client that reads the streams
that an open page reads; the browser itself is not here."""
COMMAND = [sys.executable, "-m", "shoal.cli", "train", "cartpole", "--trial", "one", "stop.return=null"]


class Pace(NamedTuple):
    """Of one run."""

    speed: float
    """Steps per second."""
    first: float
    """Seconds to the first row."""
    after: float
    """Seconds from the last row to the end of the process."""


def free_port() -> int:
    """One that nobody listens at now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def asked(port: int | None) -> Iterator[None]:
    """Whoever asks for the numbers, once a second."""
    over = threading.Event()

    def ask() -> None:
        while not over.wait(1.0):
            with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as page:
                page.read()

    asking = threading.Thread(target=ask)
    if port is not None:
        asking.start()
    yield
    over.set()
    if port is not None:
        asking.join()


@contextlib.contextmanager
def page(folder: str, wanted: bool) -> Iterator[None]:
    """The server of the page, and what an open page reads of it."""
    if not wanted:
        yield
        return
    Path(folder, "runs").mkdir()
    command = [sys.executable, "-m", "shoal.cli", "dashboard", "--port", "0"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        url = re.findall(r"http\S+", server.stdout.readline())[0]
        readers = [threading.Thread(target=read, args=(url, path), daemon=True) for path in STREAMS]
        for reader in readers:
            reader.start()
        try:
            yield
        finally:
            server.terminate()


STREAMS = ("/api/runs/stream", "/api/run/cartpole/one/stream")


def read(url: str, path: str) -> None:
    """A stream, again and again until the server is gone."""
    cookies = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    cookies.open(url).read()
    while True:
        try:
            with cookies.open(url.partition("/?")[0] + path) as stream:
                while stream.readline():
                    pass
        except urllib.error.HTTPError:  # the run is not there yet
            time.sleep(0.2)
        except OSError:
            return


def run(settings: list[str], steps: int) -> Pace:
    """One run in an empty folder."""
    port = free_port() if PROMETHEUS in settings else None
    words = [word.format(port=port) for word in settings if word != "page"]
    with tempfile.TemporaryDirectory() as folder, asked(port), page(folder, "page" in settings):
        metrics = Path(folder, "runs", "cartpole", "one", "metrics.jsonl")
        began, first = time.time(), None
        command = [*COMMAND, f"stop.steps={steps}", *words]
        with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL) as process:
            while process.poll() is None:
                if first is None and metrics.exists() and metrics.stat().st_size:
                    first = time.time() - began
                time.sleep(0.01)
        ended = time.time()
        if process.returncode or first is None:
            raise SystemExit(f"{' '.join(command)} failed")
        rows = [json.loads(line) for line in metrics.read_text().splitlines()]
        written = metrics.stat().st_mtime
    return Pace(slope([(row["time/elapsed"], row["step"]) for row in rows], SKIP), first, ended - written)


def main() -> None:
    """Measure in turns, so that whatever else the machine does meets all alike."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--steps", type=int, default=3_000_000, help="of each run")
    parser.add_argument("--only", choices=[way for way in WAYS if way != ALONE], help="this way, and without any")
    options = parser.parse_args()
    ways = {name: settings for name, settings in WAYS.items() if options.only in (None, name) or name == ALONE}
    paces: dict[str, list[Pace]] = {name: [] for name in ways}
    print(f"{options.repeats} repeats, {os.cpu_count()} cores, load {os.getloadavg()[0]:.2f}", flush=True)
    for repeat in range(options.repeats):
        for name in list(ways)[:: -1 if repeat % 2 else 1]:  # there and back: who comes later meets another machine
            paces[name].append(run(ways[name], options.steps))
    print(f"{'watched by':16}{'steps/s':>30}{'of alone':>10}{'seconds to the first row':>28}{'after the last':>24}")
    alone = statistics.median(pace.speed for pace in paces[ALONE])
    missed = False
    for name, found in paces.items():
        share = statistics.median(pace.speed for pace in found) / alone
        missed |= share < BAR
        cells = [median([pace[i] for pace in found], digits) for i, digits in ((0, 0), (1, 2), (2, 2))]
        print(f"{name:16}{cells[0]:>30}{share:>10.1%}{cells[1]:>28}{cells[2]:>24}")
    print(f"bar: {BAR:.0%} of the pace of a run that nobody watches: {'MISSED' if missed else 'met'}")
    if missed:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
