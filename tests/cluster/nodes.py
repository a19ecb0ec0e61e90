"""A real Ray cluster of several nodes on one machine: every node is a host of its own (hosts.py), started by `ray start`.

    with Cluster() as cluster:
        cluster.start(nodes=3, cpus=2)
        cluster.run(1, [sys.executable, "driver.py", cluster.address])

Node 0 is the head. Drivers run inside a node, as they do on a cluster.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any

from hosts import Host, Switch

_HERE = Path(__file__).parent
_PORT = 6379
_STORE = 200 << 20  # the smallest object store that is of use; three of them fit anywhere
_LEAN = {
    "RAY_START_HOOK": "lean_start.leave_out",
    "RAY_AUTH_MODE": "disabled",  # a token left in somebody's home would switch it on
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_enable_metrics_collection": "0",
    "RAY_enable_worker_prestart": "0",
    "RAY_prestart_worker_first_driver": "0",
    "OMP_NUM_THREADS": "1",
    "RAY_worker_niceness": "0",
}


def write_token(path: Path) -> dict[str, str]:
    """A new secret in a file that only its owner can read (Ray's own generator asks the umask); the variables for it."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(secrets.token_hex(32))
    return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(path)}


class Cluster:
    """Nodes by number; a number is never given twice, so a killed node keeps its own."""

    def __init__(self, env: dict[str, str] | None = None) -> None:
        """`env`: variables of every Ray process and driver, such as thresholds or the token."""
        self.env = {**os.environ, "PYTHONPATH": f"{_HERE}:{_HERE.parents[1]}", **_LEAN, **(env or {})}
        self.hosts: list[Host] = []
        self.addresses: list[str] = []
        self._switch = Switch()
        # Ray's sockets live below it, and their names may have 107 characters.
        self.folder = Path(tempfile.mkdtemp(prefix="rays", dir="/tmp"))

    @property
    def address(self) -> str:
        """What `ray.init(address=...)` takes."""
        return f"{self.addresses[0]}:{_PORT}"

    def start(self, nodes: int = 3, cpus: int = 2) -> None:
        """Starts all nodes at once; returns when they are there."""
        made = [self._make_host() for _ in range(nodes)]
        orders = [self._order(node, cpus) for node in made]
        starter = [sys.executable, str(_HERE / "ray_starter.py"), json.dumps(orders)]
        if subprocess.run(starter, env=self.env, timeout=90).returncode:
            logs = "\n".join(self.log(node).read_text() for node in made)
            raise RuntimeError(f"nodes {made} did not all start:\n{logs}")

    def add_node(self, cpus: int = 2) -> int:
        """One more node, in a cluster that runs; gives its number."""
        self.start(nodes=1, cpus=cpus)
        return len(self.hosts) - 1

    def kill_node(self, node: int) -> None:
        """SIGKILL all processes of the node at once. Its machine stays up and refuses connections."""
        self.hosts[node].kill_processes()

    def power_off(self, node: int) -> None:
        """The machine is gone: nothing answers for it any more."""
        self.cut_link(node)
        self.hosts[node].kill()

    def cut_link(self, node: int) -> None:
        """Packets to and from the node are lost from now on."""
        self._switch.set_link(self.addresses[node], up=False)

    def restore_link(self, node: int) -> None:
        self._switch.set_link(self.addresses[node], up=True)

    def bytes_sent(self, node: int) -> int:
        """What the node sent over the network since it was made."""
        return self.hosts[node].bytes_sent()

    def spawn(self, node: int, argv: list[str], **options: Any) -> subprocess.Popen[str]:
        """Starts a command inside the node. Killing the process given kills it; other signals go by `send_signal`."""
        options = {"env": {**self.env, **self._own(node)}, "text": True, **options}
        return subprocess.Popen(self.hosts[node].inside(argv, options.pop("cwd", None)), **options)

    def run(self, node: int, argv: list[str], timeout: float = 60, **options: Any) -> subprocess.CompletedProcess[str]:
        """Runs a command inside the node to its end; `stdout` and `stderr` are kept."""
        options = {"env": {**self.env, **self._own(node)}, "text": True, "capture_output": True, **options}
        return subprocess.run(self.hosts[node].inside(argv, options.pop("cwd", None)), timeout=timeout, **options)

    def stop(self) -> None:
        """Leaves no process, no interface, no shared memory and no file."""
        for host in self.hosts:
            host.kill()
        self._switch.close()
        shutil.rmtree(self.folder)

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def log(self, node: int) -> Path:
        """What `ray start` said there."""
        return self.folder / f"start-{node}.log"

    def _make_host(self) -> int:
        host = Host(f"node{len(self.hosts)}")
        self.hosts.append(host)
        self.addresses.append(self._switch.plug(host))
        self.log(len(self.hosts) - 1).touch()
        self.closed(len(self.hosts) - 1).mkdir(0o700)
        return len(self.hosts) - 1

    def closed(self, node: int) -> Path:
        """The folder of the node that only its user may enter: Ray opens its own, in it, to all."""
        return self.folder / str(node)

    def _order(self, node: int, cpus: int) -> dict[str, Any]:
        log = str(self.log(node))
        return {"pid": self.hosts[node].pid, "argv": self._argv(node, cpus), "env": self._own(node), "log": log}

    def _own(self, node: int) -> dict[str, str]:
        return {"RAY_TMPDIR": str(self._temp(node)), "RAY_ADDRESS": self.address}

    def _argv(self, node: int, cpus: int) -> list[str]:
        head = ["--head", f"--port={_PORT}", "--no-monitor", "--include-dashboard=false"]
        flags = head if node == 0 else [f"--address={self.address}"]
        flags += [f"--num-cpus={cpus}", f"--object-store-memory={_STORE}", f"--node-ip-address={self.addresses[node]}"]
        return [
            "start",
            *flags,
            f"--temp-dir={self._temp(node)}",
            "--include-log-monitor=false",
            "--disable-usage-stats",
        ]

    def _temp(self, node: int) -> Path:
        return self.closed(node) / "r"
