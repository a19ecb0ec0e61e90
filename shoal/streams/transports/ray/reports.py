"""What the processes of one machine say, gathered at a Unix socket and passed on in batches."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable
from multiprocessing.connection import Client, Connection, Listener, wait
from pathlib import Path

import msgpack

from shoal.base.descendants import kill_group, lives
from shoal.base.files import plain_file
from shoal.streams.control import ControlEnd, MessageReader
from shoal.streams.transports.ray.messages import Arrived, HungUp, News, Pulses, Said
from shoal.streams.transports.shm.heartbeat import HeartbeatBoard

PREFIX, OWNER = "shoal-", "owner"
"""How folders of agents begin, and the file in them that says whether somebody lives there."""
PULSE = 0.5
"""Seconds between two looks at the signs of life, and of a silence that is worth telling."""


class Reports:
    """The agent's end: `say` gets what was said, and who is silent."""

    def __init__(self, heartbeats: HeartbeatBoard, say: Callable[[list[News]], None]) -> None:
        self._heartbeats, self._say = heartbeats, say
        remove_abandoned()
        self._folder, self._owner = _own_folder()
        self.address, self.key = os.path.join(self._folder, "agent.sock"), secrets.token_bytes(32)
        self._listener = Listener(self.address, family="AF_UNIX", authkey=self.key, backlog=64)
        self._processes: dict[Connection, tuple[int, int]] = {}
        self._readers: dict[Connection, MessageReader] = {}
        self._arrived: deque[Arrived] = deque()
        self._leaders: set[int] = set()
        """The processes, each of which leads a group. That one is dead shows here: its forks may hold its connection open."""
        self._ended = False
        self._looked = 0.0
        self._telling = False
        threading.Thread(target=self._accept, name="accept", daemon=True).start()
        self._thread = threading.Thread(target=self._gather, name="reports", daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        while not self._ended:
            try:
                connection = self._listener.accept()
                number, incarnation, leader = msgpack.unpackb(connection.recv_bytes())
            except Exception:
                continue
            self._leaders.add(leader)
            self._arrived.append(Arrived(number, incarnation, leader))
            self._readers[connection] = MessageReader(connection)
            self._processes[connection] = (number, incarnation)

    def _gather(self) -> None:
        while not self._ended:
            processes = dict(self._processes)
            if not processes:
                time.sleep(0.02)
            batch: list[News] = []
            while self._arrived:
                batch.append(self._arrived.popleft())
            for connection in wait(list(processes), 0.05):
                assert isinstance(connection, Connection)
                self._hear(connection, processes[connection], batch)
            batch += self._pulses()
            if batch:
                self._say(batch)

    def _hear(self, connection: Connection, process: tuple[int, int], batch: list[News]) -> None:
        try:
            while (message := self._readers[connection].take()) is not None:
                batch.append(Said(*process, message))
        except (EOFError, OSError):
            self._processes.pop(connection, None)
            batch.append(HungUp(*process))
            del self._readers[connection]
            connection.close()

    def _pulses(self) -> list[Pulses]:
        """Of all processes here while one of them is silent or being built; also that none is any more."""
        if time.monotonic() - self._looked < PULSE:
            return []
        self._looked = time.monotonic()
        self._end_groups()
        pulses = {number: (life, self._heartbeats.pulse(number)) for number, life in list(self._processes.values())}
        worth_telling = any(pulse.silent > PULSE or pulse.allowed for _, pulse in pulses.values())
        before, self._telling = self._telling, worth_telling
        return [Pulses(pulses)] if before or self._telling else []

    def _end_groups(self) -> None:
        """What environments of dead processes have left behind."""
        for leader in [leader for leader in list(self._leaders) if not lives(leader)]:
            kill_group(leader)
            self._leaders.remove(leader)

    def close(self) -> None:
        """Hang up."""
        self._ended = True
        self._thread.join(2)
        self._listener.close()
        for connection in list(self._processes):
            connection.close()
        self._end_groups()
        shutil.rmtree(self._folder, ignore_errors=True)
        os.close(self._owner)
        remove_abandoned()  # perhaps nobody begins here after us


def _own_folder() -> tuple[str, int]:
    """For the socket, mode 0700, with a file that is locked as long as its owner lives; and that file, open."""
    folder = tempfile.mkdtemp(prefix=PREFIX)
    handle = os.open(os.path.join(folder, "starting"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(handle, fcntl.LOCK_EX)
    os.rename(os.path.join(folder, "starting"), os.path.join(folder, OWNER))  # by that name it is locked already
    return folder, handle


def remove_abandoned() -> None:
    """Folders of agents of this user that were killed: nobody holds their locks."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):  # it is somebody else's, of another kind, or its owner lives
            if folder.lstat().st_uid != os.getuid():
                continue
            with open(folder / OWNER, opener=plain_file) as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)


def report_to(address: str, key: bytes, number: int, incarnation: int) -> ControlEnd:
    """The process's end. By then it has given its first sign of life: what was there was of the life before."""
    connection = Client(address, family="AF_UNIX", authkey=key)
    connection.send_bytes(msgpack.packb([number, incarnation, os.getpid()]))
    return ControlEnd(connection)
