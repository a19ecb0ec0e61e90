import contextlib
import json
import logging
import os
import select
import signal
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shoal.base.errors import InputError, ShoalError
from shoal.monitoring.run_folder import RunFolder
from shoal.runs.panel import MAX_CLIENTS, MAX_ORDER, PATIENCE, NotRunningError, Panel, ask


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class Run:
    """A folder with a panel, and what it was asked."""

    def __init__(self, root: Path, answer: Callable[[str], dict[str, Any]] | None = None) -> None:
        self.folder = RunFolder.create(root, "cartpole", "t")
        self.orders: list[str] = []
        self.clock = Clock()
        self._answer = answer or (lambda order: {"said": order})
        self.panel = Panel(self.folder, self._note, self.clock)

    def _note(self, order: str) -> dict[str, Any]:
        self.orders.append(order)
        return self._answer(order)

    def client(self, text: bytes = b"") -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(5)
        connection.connect(str(self.folder.control))
        connection.sendall(text)
        return connection

    def poll_when_ready(self) -> None:
        """As a launcher does that waits for `fileno`."""
        assert select.select([self.panel], [], [], 5)[0], "the panel has something to do and says so"
        self.panel.poll()


@contextlib.contextmanager
def served(run: Run) -> Iterator[Run]:
    """Somebody polls, whenever there is something to do."""
    here, there = socket.socketpair()

    def serve() -> None:
        while there not in select.select([run.panel, there], [], [])[0]:
            run.panel.poll()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield run
    finally:
        here.send(b"x")
        thread.join()
        here.close()
        there.close()
        run.panel.close()


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    made = Run(tmp_path)
    yield made
    made.panel.close()


def read_all(connection: socket.socket) -> bytes:
    parts = b""
    while part := connection.recv(65536):
        parts += part
    connection.close()
    return parts


def handles() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


def test_an_order_is_answered(tmp_path: Path) -> None:
    with served(Run(tmp_path, lambda order: {"state": order, "return": float("nan")})) as run:
        assert ask(run.folder, "status") == {"state": "status", "return": None}
        assert ask(run.folder, "stop")["state"] == "stop"
    assert run.orders == ["status", "stop"]


def test_only_its_owner_may_connect_from_the_first_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("chmod", "fchmod"):
        monkeypatch.setattr(os, name, lambda *_: pytest.fail("too late: it was open for a moment"))
    before = os.umask(0)
    try:
        run = Run(tmp_path)
        assert os.umask(0) == 0, "as it was"
    finally:
        os.umask(before)
    mode = run.folder.control.stat().st_mode
    assert stat.S_ISSOCK(mode)
    assert stat.S_IMODE(mode) == 0o600
    run.panel.close()


def test_a_path_longer_than_an_address(tmp_path: Path) -> None:
    root = tmp_path / ("d" * 100) / ("e" * 100)
    with served(Run(root)) as run:
        assert len(str(run.folder.control)) > 200
        assert ask(run.folder, "status") == {"said": "status"}
    assert not run.folder.control.exists()


def test_closing_takes_the_socket_away(run: Run) -> None:
    before = handles()
    again = Panel(RunFolder.create(run.folder.path.parent, "other", "t"), lambda _: {})
    again.close()
    again.close()
    assert handles() == before
    run.panel.close()
    assert not run.folder.control.exists()
    with pytest.raises(NotRunningError, match=r"cartpole/t is not running .* its results are in .*cartpole/t$"):
        ask(run.folder, "status")


def test_a_closed_panel_survives_that_its_folder_is_gone(run: Run) -> None:
    run.folder.control.unlink()
    run.folder.path.rmdir()
    run.panel.close()


def test_no_such_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no run folder .*nowhere"):
        ask(RunFolder(tmp_path / "nowhere"), "status")


def test_the_socket_of_a_killed_run_is_replaced(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "cartpole", "t")
    ready, told = os.pipe()
    child = os.fork()
    if child == 0:
        Panel(folder, lambda _: {})
        os.write(told, b"x")
        signal.pause()
        os._exit(0)
    assert os.read(ready, 1) == b"x"
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(ready)
    os.close(told)
    assert folder.control.exists()
    with pytest.raises(NotRunningError, match="it ended"):
        ask(folder, "status")
    run = Run.__new__(Run)
    run.folder, run.panel = folder, Panel(folder, lambda order: {"new": order})
    with served(run):
        assert ask(folder, "status") == {"new": "status"}


def test_a_disk_without_sockets_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: socket.socket, address: str) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(socket.socket, "bind", refuse)
    before = handles()
    with pytest.raises(ShoalError, match=r"control\.sock cannot be made \(Operation not permitted\): keep runs"):
        Run(tmp_path)
    assert handles() == before


# ---------------------------------------------------------------- clients that misbehave


def test_a_poll_without_clients_is_quick_and_does_nothing(run: Run) -> None:
    run.panel.poll()
    assert not select.select([run.panel], [], [], 0)[0]
    assert run.orders == []


def test_a_silent_client_blocks_nobody_and_is_sent_away(run: Run) -> None:
    before = handles()
    silent = run.client()
    run.poll_when_ready()
    other = run.client(b'{"order": "status"}\n')
    run.poll_when_ready()
    assert json.loads(read_all(other)) == {"said": "status"}
    silent.setblocking(False)
    with pytest.raises(BlockingIOError):
        silent.recv(1)
    run.clock.now += PATIENCE + 0.1
    run.panel.poll()
    assert silent.recv(1) == b""
    silent.close()
    assert handles() == before


def test_an_order_may_come_letter_by_letter(run: Run) -> None:
    slow = run.client()
    run.poll_when_ready()
    for letter in b'{"order": "pause"}\n':
        assert run.orders == []
        slow.sendall(bytes([letter]))
        run.poll_when_ready()
    assert json.loads(read_all(slow)) == {"said": "pause"}
    assert run.orders == ["pause"]


@pytest.mark.parametrize(
    "text",
    [b"\n", b"status\n", b"\xff\xfe\n", b"[1]\n", b'{"order": 3}\n', b'{"odrer": "stop"}\n', b"null\n", b"[" * 4000 + b"\n"],
)  # fmt: skip
def test_nonsense_gets_an_error(run: Run, text: bytes) -> None:
    client = run.client(text)
    run.poll_when_ready()
    assert json.loads(read_all(client)) == {"error": 'an order is one line of JSON such as {"order": "status"}'}
    assert run.orders == []


def test_an_endless_order_is_cut_off(run: Run) -> None:
    client = run.client(b"x" * (MAX_ORDER + 1))
    run.poll_when_ready()
    run.panel.poll()
    assert b"an order is one line" in client.recv(65536)
    client.close()


def test_clients_that_hang_up_leave_nothing_behind(run: Run) -> None:
    before = handles()
    for text in (b"", b'{"order": "st'):
        run.client(text).close()
        run.poll_when_ready()
        run.panel.poll()
    assert run.orders == []
    gone = run.client(b'{"order": "stop"}\n')
    gone.close()
    run.poll_when_ready()
    assert run.orders == ["stop"], "an order is an order, even if nobody waits for the answer"
    assert handles() == before


def test_a_great_answer_waits_for_its_reader(tmp_path: Path) -> None:
    run = Run(tmp_path, lambda _: {"long": "x" * 5_000_000})
    client = run.client(b'{"order": "status"}\n')
    run.poll_when_ready()
    parts = b""
    while not parts.endswith(b"\n"):
        parts += client.recv(1 << 20)
        run.panel.poll()
    assert len(json.loads(parts)["long"]) == 5_000_000
    assert client.recv(1) == b""
    client.close()
    run.panel.close()


def test_too_many_clients_send_the_oldest_away(run: Run) -> None:
    silent = [run.client() for _ in range(MAX_CLIENTS)]
    run.poll_when_ready()
    other = run.client(b'{"order": "status"}\n')
    run.poll_when_ready()
    assert json.loads(read_all(other)) == {"said": "status"}
    assert silent[0].recv(1) == b""
    silent[1].sendall(b'{"order": "pause"}\n')
    run.poll_when_ready()
    assert json.loads(read_all(silent[1])) == {"said": "pause"}
    for client in silent:
        client.close()


# ---------------------------------------------------------------- answers that fail


def test_a_refusal_is_an_answer(tmp_path: Path) -> None:
    def refuse(order: str) -> dict[str, Any]:
        raise ShoalError("it is stopping already")

    with served(Run(tmp_path, refuse)) as run:
        assert ask(run.folder, "pause") == {"error": "it is stopping already"}


def test_a_bug_in_an_answer_does_not_end_the_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def fail(order: str) -> dict[str, Any]:
        return {"worker": {}[order]}

    with served(Run(tmp_path, fail)) as run, caplog.at_level(logging.ERROR):
        for _ in range(2):
            assert "failed to answer 'status' and goes on" in ask(run.folder, "status")["error"]
    assert "KeyError" in caplog.text


def test_a_busy_run_is_named_with_its_process(run: Run) -> None:
    run.folder.lock()
    with pytest.raises(ShoalError, match=rf"no answer to 'stop' within 0\.1 s: its process {os.getpid()} is busy"):
        ask(run.folder, "stop", timeout=0.1)
    run.folder.unlock()


def test_a_crowd_at_the_door_is_no_hang(run: Run) -> None:
    crowd = []
    with contextlib.suppress(BlockingIOError):
        while True:
            client = socket.socket(socket.AF_UNIX)
            client.setblocking(False)
            crowd.append(client)
            client.connect(str(run.folder.control))
    began = time.monotonic()
    with pytest.raises(ShoalError, match="gave no answer"):
        ask(run.folder, "status", timeout=0.2)
    assert time.monotonic() - began < 5
    for client in crowd:
        client.close()


def test_a_run_that_hangs_up(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "cartpole", "t")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder.control))
        listener.listen()

        def hang_up() -> None:
            connection, _ = listener.accept()
            connection.recv(100)
            connection.close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        with pytest.raises(ShoalError, match="cartpole/t hung up before it answered"):
            ask(folder, "status")
        thread.join()
