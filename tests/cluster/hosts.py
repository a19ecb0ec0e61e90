"""Machines that are not there: each host has its own address, name, process table and /dev/shm, on one real machine.

A host is a set of Linux namespaces kept open by a process that is number 1 inside it: when that one dies the kernel
kills every process of the host and drops its interfaces. The switch between the hosts lives in a namespace too, so
nothing shows up outside, two test runs cannot meet, and a test run that is killed takes its hosts along.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

_TOOLS = ("ip", "mount", "nsenter", "setpriv", "tc", "unshare")
_CABLE = Path(__file__).with_name("slow_cable.py")
# Ray's processes lose their parent: number 1 has to reap them, or the dead would still be listed.
_INIT = """
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
print("ready", flush=True)
while signal.sigwait({signal.SIGCHLD}):
    try:
        while os.waitpid(-1, os.WNOHANG)[0]: pass
    except ChildProcessError:
        pass
"""


def reason_to_skip() -> str:
    """Why hosts cannot be made here; empty if they can."""
    if missing := [tool for tool in _TOOLS if shutil.which(tool) is None]:
        return f"no {', '.join(missing)}: apt-get install iproute2 util-linux mount"
    if os.geteuid() != 0:
        return "network namespaces need root"
    probe = ["unshare", "--net", "--mount", "--pid", "--fork", "ip", "link", "add", "name", "v0", "type", "veth"]
    tried = subprocess.run(probe, capture_output=True, text=True, timeout=10)
    return f"no network namespaces here: {tried.stderr.strip()}" if tried.returncode else ""


def send_signal(process: subprocess.Popen[str], number: int) -> None:
    """To the command of `Host.inside` itself: what was started outside only waits for it."""
    os.kill(int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()), number)


class Host:
    """One machine: commands run inside it by `inside`, and `kill` is its power switch."""

    def __init__(self, name: str, shm: int = 256 << 20) -> None:
        setup = f"ip link set lo up && hostname {name} && mount -t tmpfs -o size={shm} shm /dev/shm"
        inside = ["sh", "-c", f'{setup} && exec "$0" -I -S -c "$1"', sys.executable, _INIT]
        spaces = ["--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "--mount-proc"]
        command = ["setpriv", "--pdeathsig", "KILL", "unshare", *spaces, *inside]
        self.name = name
        self._outer = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if (said := self._outer.stdout.readline()) != "ready\n":
            raise RuntimeError(f"host {name} did not come up, exit code {self._outer.wait()}: {said}")
        outer = self._outer.pid
        self.pid = int(Path(f"/proc/{outer}/task/{outer}/children").read_text())

    def inside(self, argv: list[str], folder: Path | None = None) -> list[str]:
        """The command that runs `argv` in this host, in the same folder or another; whoever kills it kills `argv` too."""
        spaces = ["--net", "--mount", "--uts", "--ipc", "--pid"]
        tied = ["setpriv", "--pdeathsig", "KILL"]
        return [
            *tied,
            "nsenter",
            f"--target={self.pid}",
            *spaces,
            "env",
            f"--chdir={folder or Path.cwd()}",
            *tied,
            *argv,
        ]

    def processes(self) -> list[int]:
        """Process ids as seen from outside, without number 1."""
        mine = os.readlink(f"/proc/{self.pid}/ns/pid")
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                inside = os.readlink(entry / "ns" / "pid") == mine
            except OSError:
                continue
            if inside and int(entry.name) != self.pid:
                found.append(int(entry.name))
        return found

    def bytes_sent(self) -> int:
        """What went out by the network card since the host came up."""
        for line in Path(f"/proc/{self.pid}/net/dev").read_text().splitlines():
            if line.strip().startswith("eth0:"):
                return int(line.split(":")[1].split()[8])
        raise RuntimeError(f"host {self.name} has no network card")

    def hide(self, folder: Path) -> None:
        """From now on the machine has an empty folder of its own there, as one without a shared file system."""
        subprocess.run(self.inside(["mount", "-t", "tmpfs", "own", str(folder)], Path("/")), check=True, timeout=10)

    def kill_processes(self) -> None:
        """SIGKILL everything in it at once. The machine stays: it refuses connections where there were servers."""
        subprocess.run(self.inside(["sh", "-c", "kill -9 -1"]), check=True, timeout=10)
        end = time.monotonic() + 10
        while left := self.processes():
            if time.monotonic() > end:
                raise TimeoutError(f"host {self.name} still runs {left}")
            time.sleep(0.005)

    def kill(self) -> None:
        """The end of the host and of everything in it; returns when all of it is gone."""
        if self._outer.poll() is None:
            os.kill(self.pid, signal.SIGKILL)
        self._outer.wait()
        self._outer.stdout.close()


class Switch:
    """Joins hosts: 10.0.0.1 is the first one plugged in, and so on. It is a host of its own with a bridge in it."""

    def __init__(self) -> None:
        self._host = Host("switch")
        self._ports = 0
        self._cables: list[subprocess.Popen[str]] = []
        self._ip("link add bridge type bridge")
        self._ip("link set bridge up")

    def plug(self, host: Host, bits: float | None = None, delay: float = 0.0) -> str:
        """Wires `host` up and gives its address; its port is that address's last number.

        `bits`: that the cable carries in a second, `delay`: seconds each way; None: a cable that is as fast as this machine.
        """
        self._ports += 1
        port, address = f"port{self._ports}", f"10.0.0.{self._ports}"
        if bits is None:
            self._ip(f"link add {port} type veth peer name eth0 netns {host.pid}")
        else:
            self._lay_cable(host, port, bits, delay)
        self._ip(f"link set {port} master bridge up")
        for order in (f"addr add {address}/24 dev eth0", "link set eth0 up", "route add default dev eth0"):
            subprocess.run(host.inside(["ip", *order.split()]), check=True, timeout=10)
        return address

    def set_link(self, address: str, up: bool) -> None:
        """Pulls the cable at the switch, or puts it back: packets are lost, nobody is told."""
        self._ip(f"link set port{address.rsplit('.', 1)[1]} {'up' if up else 'down'}")

    def silence(self, address: str) -> None:
        """From now on whatever is sent to that host is lost, and what it sends arrives: no packet fits into the bucket."""
        port = f"port{address.rsplit('.', 1)[1]}"
        self._run("tc", f"qdisc add dev {port} root tbf rate 8kbit burst 10 latency 1ms")

    def close(self) -> None:
        for cable in self._cables:
            cable.kill()
            cable.wait()
            cable.stdout.close()
        self._host.kill()

    def _lay_cable(self, host: Host, port: str, bits: float, delay: float) -> None:
        words = [host.pid, self._host.pid, port, bits, delay]
        command = ["setpriv", "--pdeathsig", "KILL", sys.executable, str(_CABLE), *map(str, words)]
        cable = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self._cables.append(cable)
        if (said := cable.stdout.readline()) != "ready\n":
            raise RuntimeError(f"no cable for host {host.name}: {said}{cable.stdout.read()}")

    def _ip(self, order: str) -> None:
        self._run("ip", order)

    def _run(self, tool: str, order: str) -> None:
        # In the switch's network only: `netns` takes a process id, and that has to be one of the outside.
        command = ["nsenter", f"--target={self._host.pid}", "--net", tool, *order.split()]
        subprocess.run(command, check=True, timeout=10)
