"""Workers that are stopped (SIGSTOP) again and again: are they started again within the limit, and does a run end in time?

    python tools/stops.py recover --times 20 --case "policy workers"
    python tools/stops.py recover --times 20 --on ray
    python tools/stops.py end

`recover`: one role after the other is stopped in a run that goes on. Recovered means that its process lives again and that the run
has made two more updates. Printed are seconds beyond the limit (`placement.hang`); more than 5 of them are a failure.
`end`: a run of 15 seconds in which somebody hangs from the 13th on, with limits of a minute; it has 20 to end.
The exit code is 1 if anything failed.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shoal.base.errors import ShoalError
from shoal.monitoring.run_folder import RunFolder
from shoal.runs.panel import ask

HERE = Path(__file__).resolve().parent
SHOAL = [sys.executable, "-m", "shoal.cli"]
ENDLESS = ["stop.return=null", "stop.steps=null", "log.tensorboard=false", "checkpoint.every=2s"]
LIMIT = {"local": 2.0, "ray": 3.0}
BEYOND = 5.0
"""Seconds beyond the limit that are allowed."""
APART = 13.0
"""Seconds between two stops of one process: six deaths in a minute end a run."""
BUILT = 3.0
"""Seconds after the first updates in which all workers have been built: while they are, they have a minute more."""
GIVE_UP = 60.0
SECONDS, STOP_AT, ENDED_BY = 15.0, 13.0, 20.0
FORK_SERVER = "fork server"


@dataclass(frozen=True)
class Case:
    """A shape, and who is stopped in it."""

    recipe: str
    words: tuple[str, ...]
    roles: dict[str, str]
    """Worker -> what its process is called here."""
    anywhere: bool = True
    """Also on a cluster."""


CASES = {
    "policy workers": Case(
        "cartpole", ("placement.actors=2", "placement.inference=worker", "stop.return=1e9"),
        {
            "actor-0": "actor", "policy-agent-0": "policy worker", "trainer-agent-0": "trainer",
            "confirmation": "confirmation worker",
        },
    ),
    "buffer workers": Case(
        "cartpole-dqn",
        ("placement.actors=2", "placement.buffers=2", "evaluation.every=1s", "evaluation.episodes=4"),
        {
            "actor-0": "actor (DQN)", "buffer-agent-0": "buffer worker", "trainer-agent-0": "trainer (DQN)",
            "evaluation": "evaluation worker",
        },
    ),
    "in step": Case(
        "cartpole", ("placement.trainers=2",),
        {"trainer-agent-0": "actor and trainer, in step: first", "trainer-agent-1": "actor and trainer, in step: second"},
    ),
    "hogwild": Case(
        "cartpole-a3c", ("placement.trainers=2",), {"trainer-agent-0": "actor and trainer, hogwild"}, anywhere=False
    ),
    "average": Case("cartpole-a4c", ("placement.trainers=2",), {"trainer-agent-0": "actor and trainer, average"}),
    "one process": Case("cartpole", ("placement.trainers=1",), {"trainer-agent-0": "actor and trainer, one process"}),
    "fork server": Case("cartpole", ("placement.actors=1",), {FORK_SERVER: "fork server, and an actor"}, anywhere=False),
}  # fmt: skip


# ---------------------------------------------------------------- runs


class EndedError(Exception):
    """There is nobody left to stop."""


class LiveRun:
    """A run in a process of its own, on this machine."""

    def __init__(self, case: Case, folder: Path, words: list[str]) -> None:
        self.folder, self._log = RunFolder(folder / "runs" / case.recipe / "one"), folder / "log"
        argv = [*SHOAL, "train", case.recipe, "--trial", "one", *ENDLESS, *case.words, *words]
        self.process = self._start(argv, folder)
        until(lambda: (now := self.status()) is not None and now["update"] >= 2, f"it did not begin: {self._log}")
        time.sleep(BUILT)

    def _start(self, argv: list[str], folder: Path) -> subprocess.Popen[Any]:
        with open(self._log, "w") as log:
            return subprocess.Popen(argv, cwd=folder, stdout=log, stderr=log)

    def status(self) -> dict[str, Any] | None:
        """None: it does not answer now, or has ended."""
        if not self.folder.config.exists():
            return None
        with suppress(ShoalError, OSError):
            return ask(self.folder, "status")
        return None

    def answer(self) -> dict[str, Any]:
        """The status, once there is one."""
        return until(lambda: self.status() or self._check_on(), "it gives no answer")  # type: ignore[no-any-return]

    def _check_on(self) -> None:
        if self.process.poll() is not None:
            raise EndedError(f"the run ended by itself: {self._log.read_text()[-400:]}")

    def worker(self, name: str) -> dict[str, Any]:
        """Its line; of the fork server, that of the actor which is stopped with it."""
        now = self.answer()
        return next(line for line in now["workers"] if line["name"] == ("actor-0" if name == FORK_SERVER else name))

    def stop(self, name: str) -> dict[str, Any]:
        """SIGSTOP; the line of the worker before."""
        line = self.worker(name)
        if name == FORK_SERVER:
            os.kill(int(Path(f"/proc/{line['pid']}/stat").read_text().rsplit(")", 1)[1].split()[1]), signal.SIGSTOP)
        self.send(line, signal.SIGSTOP)
        return line

    def send(self, line: dict[str, Any], number: signal.Signals) -> None:
        """A signal to the process of a worker."""
        os.kill(line["pid"], number)

    def story(self) -> str:
        """What happened last, and who does what now."""
        events = [f"{event['time'][11:23]} {event.get('text') or event['kind']}" for event in self.folder.read_events()]
        return "\n  ".join(["", *events[-6:], *(str(line) for line in (self.status() or {}).get("workers", []))])

    def close(self) -> None:
        """By order; if that fails, by force."""
        with suppress(ShoalError, OSError):
            ask(self.folder, "stop")
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(30)
        self.process.kill()
        self.process.wait()


class RayRun(LiveRun):
    """A run on a cluster of machines in namespaces, as the tests have it."""

    def __init__(self, case: Case, folder: Path, words: list[str], cluster: Any) -> None:
        self._cluster = cluster
        address = ["--on", "ray", "--address", cluster.address, "placement.cluster.strategy=spread"]
        super().__init__(case, folder, [*address, *words])

    def _start(self, argv: list[str], folder: Path) -> subprocess.Popen[Any]:
        with open(self._log, "w") as log:
            process: subprocess.Popen[Any] = self._cluster.spawn(0, argv, cwd=folder, stdout=log, stderr=log)
            return process

    def send(self, line: dict[str, Any], number: signal.Signals) -> None:
        """Inside the machine of its worker."""
        node = self._cluster.addresses.index(line["node"])
        self._cluster.run(node, ["kill", f"-{number.name.removeprefix('SIG')}", str(line["pid"])], check=True)


def until(condition: Callable[[], Any], what: str, seconds: float = 120.0) -> Any:
    """What it finds."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        time.sleep(0.02)
    return found


@contextmanager
def machines(on: str) -> Iterator[Any]:
    """Three of them, for Ray."""
    if on == "local":
        yield None
        return
    sys.path.insert(0, str(HERE.parent / "tests" / "cluster"))
    from nodes import Cluster, write_token
    from test_ray_runs import QUICK

    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster({**QUICK, **write_token(Path(folder) / "token")})
        with cluster:
            cluster.start(nodes=3, cpus=4)
            yield cluster


# ---------------------------------------------------------------- recover


@dataclass
class Stops:
    """Of one role."""

    beyond: list[float] = field(default_factory=list)
    """Seconds beyond the limit."""
    failed: int = 0

    def line(self, role: str) -> str:
        """A row of the table."""
        found = f"{statistics.median(self.beyond):.2f} | {max(self.beyond):.2f}" if self.beyond else "- | -"
        return f"| {role} | {len(self.beyond)} of {len(self.beyond) + self.failed} | {found} |"

    @property
    def bad(self) -> bool:
        """Not all recovered in time."""
        return bool(self.failed) or max(self.beyond, default=0.0) > BEYOND


def recover(case: Case, times: int, on: str, cluster: Any) -> dict[str, Stops]:
    """Stop each role so many times, in turn."""
    found = {role: Stops() for role in case.roles.values()}
    words = [f"placement.hang={LIMIT[on]:g}s", f"env.timeout={LIMIT[on]:g}s"]
    with tempfile.TemporaryDirectory(prefix="stops-") as folder:
        run = LiveRun(case, Path(folder), words) if cluster is None else RayRun(case, Path(folder), words, cluster)
        try:
            for _ in range(times):
                began = time.monotonic()
                for name, role in case.roles.items():
                    stop_once(run, name, found[role], LIMIT[on])
                time.sleep(max(0.0, began + APART - time.monotonic()))
        except EndedError as error:
            print(f"FAILED {error}: {run.story()}", flush=True)
            for stops in found.values():
                stops.failed = times - len(stops.beyond)
        finally:
            run.close()
    return found


def stop_once(run: LiveRun, name: str, stops: Stops, limit: float) -> None:
    """And wait until it lives again, and the run goes on."""
    before = run.stop(name)
    stopped, update = time.monotonic(), run.answer()["update"]

    def lives() -> bool:
        now = run.answer()
        if now["update"] < update + 2:
            return False
        line = next(line for line in now["workers"] if line["name"] == before["name"])
        return bool(line["pid"] != before["pid"] and line["state"] == "alive")

    try:
        until(lives, f"{name} is not started again", GIVE_UP)
        stops.beyond.append(time.monotonic() - stopped - limit)
    except TimeoutError as error:
        print(f"FAILED {error}: {run.story()}", flush=True)
        stops.failed += 1


# ---------------------------------------------------------------- end


def ends(case: Case, name: str, on: str, cluster: Any) -> float:
    """Stop somebody at second 13 of a run of 15; the second at which it ended."""
    with tempfile.TemporaryDirectory(prefix="stops-") as folder:
        words = [f"stop.seconds={SECONDS:g}"]
        run = LiveRun(case, Path(folder), words) if cluster is None else RayRun(case, Path(folder), words, cluster)
        return end_of(run, lambda: run.stop(name))


def env_ends(where: str) -> float:
    """The same, with environments that all hang from second 13 on."""
    with tempfile.TemporaryDirectory(prefix="stops-") as folder:
        order = Path(folder) / "hang"
        env = f"{{id: '{HERE / 'hanging_env.py'}:Hanging', num_envs: 4, kwargs: {{where: {where}, order: '{order}'}}}}"
        case = Case("cartpole", ("placement.actors=2", f"env={env}"), {})
        return end_of(LiveRun(case, Path(folder), [f"stop.seconds={SECONDS:g}"]), order.touch)


def end_of(run: LiveRun, hang: Callable[[], Any]) -> float:
    """By the run's own clock."""
    try:
        now = until(lambda: (now := run.status()) is not None and now["elapsed"] >= STOP_AT and now, "second 13")
        asked = time.monotonic()
        hang()
        with suppress(subprocess.TimeoutExpired):
            run.process.wait(GIVE_UP)
        return float(now["elapsed"]) + time.monotonic() - asked
    finally:
        run.close()


def main() -> None:
    """Print the table, case by case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["recover", "end"])
    parser.add_argument("--times", type=int, default=20, help="how often each role is stopped")
    parser.add_argument("--on", choices=list(LIMIT), default="local")
    parser.add_argument("--case", action="append", choices=list(CASES), help="one of them; may be given several times")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the run it looks at ends too
    chosen = [CASES[name] for name in given.case or CASES if given.on == "local" or CASES[name].anywhere]
    failed = False
    with machines(given.on) as cluster:
        for case in chosen:
            if given.what == "recover":
                for role, stops in recover(case, given.times, given.on, cluster).items():
                    failed |= stops.bad
                    print(stops.line(role), flush=True)
                continue
            for name, role in case.roles.items():
                second = ends(case, name, given.on, cluster)
                failed |= second > ENDED_BY
                print(f"| {role} | {second:.1f} |", flush=True)
        for where in (
            ("step", "reset", "close") if given.what == "end" and given.on == "local" and not given.case else ()
        ):
            second = env_ends(where)
            failed |= second > ENDED_BY
            print(f"| environments that hang in {where} | {second:.1f} |", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
