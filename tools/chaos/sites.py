"""Where a disturbed run lives: on this machine, or on a cluster of namespaces. A site starts runs, hurts them, counts leaks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from typing import Any

from shoal.base.errors import ShoalError
from shoal.monitoring.run_folder import RunFolder
from shoal.runs.panel import ask

HERE = Path(__file__).resolve().parent
SHOAL = [sys.executable, "-m", "shoal.cli"]
DISK = 512 << 20
"""Bytes of the disk that run folders lie on: small enough to be filled in no time."""


class Site(ABC):
    """A place for runs. `disk`: a file system of their own that can be filled, where one may be mounted."""

    words: list[str]
    """What every run there is told."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="chaos-"))
        self.fault, self._slow = self.folder / "fault", self.folder / "slow"
        self.disk = self.folder / "disk"
        self.disk.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "chaos", str(self.disk)]
        self.can_fill = subprocess.run(mount, capture_output=True).returncode == 0
        self.env = {
            **os.environ,
            "SHOAL_CHAOS": str(self.fault),
            "SHOAL_CHAOS_FSYNC": str(self._slow),
            "PYTHONPATH": os.pathsep.join([str(HERE / "inject"), str(HERE.parents[1])]),
        }

    def close(self) -> None:
        """Leave nothing."""
        if self.can_fill:
            subprocess.run(["umount", "--lazy", str(self.disk)], check=True)
        subprocess.run(["rm", "-rf", str(self.folder)], check=True)

    # ------------------------------------------------------------ runs

    @abstractmethod
    def start(self, argv: list[str], log: Path) -> subprocess.Popen[str]:
        """`shoal ARGV` in the folder of the disk; what it says goes to the log."""

    def status(self, folder: RunFolder) -> dict[str, Any] | None:
        """None: it does not answer now, or has ended."""
        with suppress(ShoalError, OSError):
            return ask(folder, "status")
        return None

    # ------------------------------------------------------------ faults

    @abstractmethod
    def signal(self, worker: dict[str, Any], number: int) -> None:
        """To a worker's process, as its status names it."""

    def machine_faults(self) -> list[str]:
        """Those that strike a whole machine."""
        return []

    def hurt_machine(self, fault: str, spare: set[str]) -> None:
        """One of those faults, at a machine that is none of `spare`; it has passed when this returns."""
        raise NotImplementedError

    def slow_disk(self, seconds: float) -> None:
        """Every fsync takes its time for a while."""
        self._slow.touch()
        time.sleep(seconds)
        self._slow.unlink()

    def fill_disk(self) -> Path:
        """Not a byte is left until somebody removes the file."""
        filler = self.disk / "filler"
        with filler.open("wb") as file, suppress(OSError):
            while True:
                file.write(bytes(1 << 20))
        with filler.open("ab", buffering=0) as file, suppress(OSError):
            while True:
                file.write(b"0")
        return filler

    # ------------------------------------------------------------ leaks

    @abstractmethod
    def left(self) -> set[str]:
        """What there is now of processes, shared memory and temporary files: what is new at the end was left."""

    @abstractmethod
    def descriptors(self, run: subprocess.Popen[str]) -> int:
        """Open files of the run's main process."""


class Local(Site):
    """Processes of this machine."""

    words = ["env.timeout=2s", "placement.hang=2s"]

    def __init__(self) -> None:
        super().__init__()
        self._tmp, self._mark = self.folder / "tmp", uuid.uuid4().hex
        self._tmp.mkdir()
        self.env |= {"TMPDIR": str(self._tmp), "SHOAL_CHAOS_MARK": self._mark}

    def start(self, argv: list[str], log: Path) -> subprocess.Popen[str]:
        with log.open("a") as out:
            return subprocess.Popen(
                [*SHOAL, *argv], cwd=self.disk, env=self.env, stdout=out, stderr=out, text=True, start_new_session=True
            )

    def signal(self, worker: dict[str, Any], number: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(worker["pid"], number)

    def left(self) -> set[str]:
        shared = {f"/dev/shm/{name}" for name in os.listdir("/dev/shm")}
        return shared | {f"temporary {path.name}" for path in self._tmp.iterdir()} | self._processes()

    def _processes(self) -> set[str]:
        """Those that descend from a run, whoever is their parent now."""
        found = set()
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if self._mark.encode() in (entry / "environ").read_bytes():
                    found.add(f"process {entry.name}")
        return found

    def descriptors(self, run: subprocess.Popen[str]) -> int:
        with suppress(OSError):
            return len(os.listdir(f"/proc/{run.pid}/fd"))
        return 0


class Machines(Site):
    """A Ray cluster of so many machines, each in namespaces of its own."""

    words = ["env.timeout=4s", "placement.hang=4s", "placement.cluster.strategy=spread"]
    CUT = 6.0
    """Seconds without a link."""

    def __init__(self, nodes: int) -> None:
        super().__init__()
        sys.path.append(str(HERE.parents[1] / "tests" / "cluster"))
        from hosts import reason_to_skip
        from nodes import Cluster, write_token

        if reason := reason_to_skip():
            raise SystemExit(f"no cluster of namespaces: {reason}")
        quick = {
            "RAY_health_check_initial_delay_ms": "0",
            "RAY_health_check_period_ms": "500",
            "RAY_health_check_timeout_ms": "5000",
            "RAY_health_check_failure_threshold": "6",
        }
        paths = {"PYTHONPATH": os.pathsep.join([str(HERE.parents[1] / "tests" / "cluster"), self.env["PYTHONPATH"]])}
        orders = {key: value for key, value in self.env.items() if key.startswith("SHOAL_CHAOS")}
        self._cluster = Cluster({**quick, **paths, **orders, **write_token(self.folder / "token")})
        self._cluster.start(nodes=nodes, cpus=2)
        self._alive = set(range(nodes))

    def close(self) -> None:
        self._cluster.stop()
        super().close()

    def start(self, argv: list[str], log: Path) -> subprocess.Popen[str]:
        on = ["--on", "ray", "--address", self._cluster.address]
        with log.open("a") as out:
            return self._cluster.spawn(0, [*SHOAL, *argv, *on], cwd=self.disk, stdout=out, stderr=out)

    def signal(self, worker: dict[str, Any], number: int) -> None:
        node = self._cluster.addresses.index(worker["node"])
        self._cluster.run(node, ["kill", f"-{number}", str(worker["pid"])])

    def machine_faults(self) -> list[str]:
        return ["cut link", "machine dies"]

    def hurt_machine(self, fault: str, spare: set[str]) -> None:
        node = max(node for node in self._alive if self._cluster.addresses[node] not in spare and node)
        if fault == "cut link":
            self._cluster.cut_link(node)
            time.sleep(self.CUT)
            self._cluster.restore_link(node)
            return
        self._cluster.kill_node(node)
        self._alive.remove(node)
        self._alive.add(self._cluster.add_node(cpus=2))

    def left(self) -> set[str]:
        """A controller keeps the outcome of its run for a while."""
        found = {f"temporary {path.parent}" for path in Path("/tmp").glob("shoal-*/agent.sock")}
        for node in self._alive:
            host = self._cluster.hosts[node]
            found |= {f"node {node} {path.name}" for path in Path(f"/proc/{host.pid}/root/dev/shm").glob("shoal*")}
            for pid in host.processes():
                with suppress(OSError):
                    command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    if "shoal" in command or (command.startswith("ray::") and not command.startswith(KEPT)):
                        found.add(f"node {node} process {pid} {command[:60]}")
        return found

    def descriptors(self, run: subprocess.Popen[str]) -> int:
        for node in self._alive:
            for pid in self._cluster.hosts[node].processes():
                with suppress(OSError):
                    if b"ray::RayController" in Path(f"/proc/{pid}/cmdline").read_bytes():
                        return len(os.listdir(f"/proc/{pid}/fd"))
        return 0


KEPT = ("ray::IDLE", "ray::RayController", "ray::RuntimeEnvAgent", "ray::DashboardAgent")
"""Processes of Ray that outlive a run."""
SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}
