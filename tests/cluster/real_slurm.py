"""A real Slurm of two nodes on this machine, for one test session: own configuration, key, ports and folders; nothing stays."""

from __future__ import annotations

import contextlib
import getpass
import os
import random
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

NEEDED = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scancel", "scontrol")
CONFIGURATION = """\
ClusterName=shoal
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
SlurmdParameters=config_overrides
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmdSpoolDir={folder}/spool-%n
StateSaveLocation={folder}/state
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
FirstJobId={first}
KillWait=15
GresTypes=gpu
NodeName=n1 NodeHostname=localhost NodeAddr=127.0.0.1 Port={ports[1]} CPUs=2 Gres=gpu:1
NodeName=n2 NodeHostname=localhost NodeAddr=127.0.0.1 Port={ports[2]} CPUs=2
PartitionName=main Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
"""


class RealSlurm:
    """Daemons of a user who need not be root."""

    def __init__(self) -> None:
        # munged's socket has a short path, and nobody else may write on the way to its key
        self.folder = Path(tempfile.mkdtemp(prefix="slurm-"))
        self.conf = self.folder / "slurm.conf"
        self.env = {**os.environ, "SLURM_CONF": str(self.conf)}
        self._daemons: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Until both nodes are idle."""
        for name in ("state", "spool-n1", "spool-n2"):
            (self.folder / name).mkdir()
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(64))
        key.chmod(0o400)
        values = {"folder": self.folder, "user": getpass.getuser(), "ports": free_ports(3)}
        # Numbers of their own: two sessions at once must not see each other's folders
        self.conf.write_text(CONFIGURATION.format(**values, first=random.SystemRandom().randrange(10_000, 9_000_000)))
        (self.folder / "gres.conf").write_text("NodeName=n1 Name=gpu File=/dev/zero\n")
        files = [f"--{name}-file={self.folder}/munge.{name}" for name in ("key", "pid", "log", "seed")]
        self._daemon("munged", "--foreground", "--force", f"--socket={self.folder}/munge.sock", *files)
        wait_until(lambda: (self.folder / "munge.sock").exists(), 10, "munged's socket")
        self._daemon("slurmctld", "-D", "-c")
        self._daemon("slurmd", "-D", "-N", "n1")
        self._daemon("slurmd", "-D", "-N", "n2")
        wait_until(lambda: self.ask("sinfo", "-h", "-o", "%T %D") == "idle 2", 30, "two idle nodes")

    def _daemon(self, *words: str) -> None:
        with open(self.folder / "daemons.log", "ab") as log:
            self._daemons.append(subprocess.Popen(words, env=self.env, stdout=log, stderr=log, start_new_session=True))

    def ask(self, *words: str) -> str:
        """The answer of a Slurm command; empty while the controller is not up."""
        done = subprocess.run(words, env=self.env, capture_output=True, text=True, timeout=60)
        return done.stdout.strip()

    def state(self, number: int) -> str:
        """PENDING, RUNNING, ..."""
        lines = self.ask("squeue", "-h", "--states=all", f"--jobs={number}", "--format=%T").splitlines()
        return lines[0] if lines else ""

    def start_soon(self, number: int) -> None:
        """A requeued job waits two minutes. A few seconds do: its old credential must be older than the new one."""
        self.ask("scontrol", "update", f"JobId={number}", "StartTime=now+4")

    def processes(self, number: int) -> dict[int, dict[str, str]]:
        """What a job runs, with the environment of each."""
        found = {}
        for path in (Path("/proc", entry, "environ") for entry in os.listdir("/proc") if entry.isdecimal()):
            with contextlib.suppress(OSError):
                words = path.read_bytes().decode(errors="replace").split("\0")
                environ = dict(word.partition("=")[::2] for word in words)
                if environ.get("SLURM_CONF") == str(self.conf) and environ.get("SLURM_JOB_ID") == str(number):
                    found[int(path.parent.name)] = environ
        return found

    def clear(self) -> None:
        """Cancel every job, and wait for the nodes."""
        if self.ask("squeue", "-h"):
            self.ask("scancel", "--user", getpass.getuser())
            wait_until(lambda: not self.ask("squeue", "-h"), 40, "an empty queue")

    def stop(self) -> None:
        """Jobs, then daemons, then files."""
        with contextlib.suppress(AssertionError):
            self.clear()
        for daemon in reversed(self._daemons):
            daemon.terminate()
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        shutil.rmtree(self.folder)


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("", 0))
        return [each.getsockname()[1] for each in sockets]


def wait_until(true: Callable[[], object], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"no {what} within {seconds} s"
        time.sleep(0.1)


@pytest.fixture(scope="session")
def slurm() -> Iterator[RealSlurm]:
    """Two nodes, n1 with a GPU to count and n2 without."""
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing:
        pytest.skip(f"no Slurm here ({missing[0]} is missing): make system-packages")
    if find_spec("ray") is None:
        pytest.skip("Ray is not installed: pip install 'shoal[cluster]'")
    cluster = RealSlurm()
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
