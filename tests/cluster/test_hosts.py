"""Hosts made of namespaces: what tests of clusters rely on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hosts import Host, Switch, send_signal

pytestmark = pytest.mark.usefixtures("_can_make_hosts")


class Pair:
    """Two hosts and the switch between them."""

    def __init__(self) -> None:
        self.switch = Switch()
        self.hosts = [Host("left"), Host("right")]
        self.addresses = [self.switch.plug(host) for host in self.hosts]

    def say(self, number: int, *argv: str) -> str:
        done = subprocess.run(self.hosts[number].inside([*argv]), capture_output=True, text=True, timeout=20)
        return done.stdout.strip() if done.returncode == 0 else f"exit code {done.returncode}"

    def reaches(self, within: float = 10.0) -> bool:
        """Whether a packet from the left arrives at the right: its kernel refuses the connection at once."""
        knock = f"import socket; print(socket.socket().connect_ex(({self.addresses[1]!r}, 1)))"
        late = f"import socket; socket.setdefaulttimeout({within}); {knock}"
        return self.say(0, sys.executable, "-S", "-c", late) == "111"

    def close(self) -> None:
        for host in self.hosts:
            host.kill()
        self.switch.close()


@pytest.fixture
def pair(_can_make_hosts: None) -> Iterator[Pair]:
    made = Pair()
    yield made
    made.close()


def test_each_host_has_its_own_name_memory_and_processes(pair: Pair) -> None:
    assert [pair.say(number, "hostname") for number in (0, 1)] == ["left", "right"]
    pair.say(0, "touch", "/dev/shm/only-left")
    assert pair.say(0, "ls", "/dev/shm") == "only-left"
    assert pair.say(1, "ls", "/dev/shm") == ""
    assert not Path("/dev/shm/only-left").exists()
    assert len(pair.say(1, "ps", "-eo", "pid=").split()) == 2  # number 1 and ps itself


def test_a_cut_link_loses_packets_until_it_is_restored(pair: Pair) -> None:
    assert pair.reaches()
    pair.switch.set_link(pair.addresses[1], up=False)
    assert not pair.reaches(within=0.3)
    pair.switch.set_link(pair.addresses[1], up=True)
    assert pair.reaches()


def test_bytes_are_counted_at_the_sender(pair: Pair) -> None:
    before = [host.bytes_sent() for host in pair.hosts]
    send = f"[s.sendto(bytes(1000), ({pair.addresses[1]!r}, 9)) for _ in range(100)]"
    assert pair.say(0, sys.executable, "-S", "-c", f"import socket; s = socket.socket(type=2); {send}") == ""
    left, right = (host.bytes_sent() - was for host, was in zip(pair.hosts, before, strict=True))
    assert left >= 100_000 > right


def test_a_killed_host_takes_all_of_its_processes_along(pair: Pair) -> None:
    host = pair.hosts[0]
    with subprocess.Popen(host.inside(["sh", "-c", "sleep 600 & echo up; wait"]), stdout=subprocess.PIPE) as shell:
        assert shell.stdout is not None
        assert shell.stdout.readline() == b"up\n"
        inside = host.processes()
        assert len(inside) == 2
        host.kill()
        assert shell.wait(timeout=10) != 0
    assert not any(Path(f"/proc/{pid}").exists() for pid in [*inside, host.pid])


def test_killing_the_command_kills_what_runs_inside(pair: Pair) -> None:
    host = pair.hosts[0]
    with subprocess.Popen(host.inside(["sh", "-c", "echo up; exec sleep 600"]), stdout=subprocess.PIPE) as shell:
        assert shell.stdout is not None
        assert shell.stdout.readline() == b"up\n"
        shell.kill()
        shell.stdout.read()  # ends when nobody inside holds the other end any more


def test_a_signal_reaches_the_command_inside(pair: Pair) -> None:
    command = pair.hosts[0].inside(["sh", "-c", "trap 'exit 7' INT; echo up; while :; do sleep 0.02; done"])
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as shell:
        assert shell.stdout is not None
        assert shell.stdout.readline() == "up\n"
        send_signal(shell, signal.SIGINT)
        assert shell.wait(timeout=10) == 7


def test_two_networks_do_not_meet_and_leave_nothing(pair: Pair) -> None:
    interfaces = set(os.listdir("/sys/class/net"))
    other = Pair()
    assert other.addresses == pair.addresses
    other.hosts[1].kill()
    assert pair.reaches()
    other.close()
    assert set(os.listdir("/sys/class/net")) == interfaces
