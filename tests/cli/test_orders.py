"""The commands that speak to a live run, over its real socket, and what they say of an ended one."""

from __future__ import annotations

import contextlib
import io
import json
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from shoal.cli import main
from shoal.cli.status import show
from shoal.monitoring.run_folder import RunFolder
from shoal.runs.panel import Panel

LIVE: dict[str, Any] = {
    "run": "cartpole/t", "pid": 123, "state": "running", "step": 40960, "update": 20, "elapsed": 12.3, "fps": 20480.0,
    "return": 143.2, "stop": {"steps": 100000, "return": 475.0},
    "workers": [
        {"name": "actor-0", "kind": "actor", "pid": 124, "state": "alive", "restarts": 0, "worked": 0.63, "inference": 0.3,
         "waited_input": 0.01, "waited_slot": 0.06},
        {"name": "actor-1", "kind": "actor", "pid": 125, "state": "dead", "restarts": 2},
        {"name": "trainer-agent", "kind": "trainer", "pid": 123, "state": "alive", "restarts": 0, "worked": 0.41,
         "waited_input": 0.59, "waited_slot": 0.0},
    ],
    "rows": {"produced": 41007, "trained": 40960, "in_flight": 40, "dropped_stale": 7},
    "replay": {"held": 900, "evicted": 12, "forgotten": 0},
}  # fmt: skip


class Run:
    """Answers as a launcher would, and keeps its state."""

    def __init__(self, root: Path) -> None:
        self.state = "running"
        self.folder = make(root)
        self.panel = Panel(self.folder, self.answer)

    def answer(self, order: str) -> dict[str, Any]:
        if order == "status":
            return {**LIVE, "state": self.state}
        if self.state == "stopping":
            return {"error": "it is stopping already"}
        self.state = {"pause": "paused", "unpause": "running", "stop": "stopping"}[order]
        return {"state": self.state}


def make(root: Path) -> RunFolder:
    folder = RunFolder.create(root / "runs", "cartpole", "t")
    folder.write_config({"env": {"id": "CartPole-v1"}})
    return folder


@pytest.fixture
def live(in_tmp: Path) -> Iterator[Run]:
    """A run in ./runs whose panel is polled."""
    run = Run(in_tmp)
    here, there = socket.socketpair()

    def serve() -> None:
        while there not in select.select([run.panel, there], [], [])[0]:
            run.panel.poll()

    thread = threading.Thread(target=serve)
    thread.start()
    yield run
    here.send(b"x")
    thread.join()
    run.panel.close()
    here.close()
    there.close()


def shoal(*words: str, monkeypatch: pytest.MonkeyPatch) -> tuple[int, str, str]:
    """Exit code and both outputs."""
    out, err = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "argv", ["shoal", *words])
    code = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
    return code, out.getvalue(), err.getvalue()


def test_status_of_a_live_run(live: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, err = shoal("status", "cartpole/t", monkeypatch=monkeypatch)
    assert (code, err) == (0, "")
    assert "\x1b" not in out
    assert [line for line in out.splitlines() if line.endswith(" ")] == []
    assert out.splitlines() == [
        "cartpole/t is running",
        "return   143.2 of 475        speed   20,480 steps/s",
        "steps   40,960 of 100,000    elapsed         12.3 s",
        "updates     20               process            123",
        "",
        "worker         process  restarts  state  busy  waits for data  waits for room",
        "actor-0            124         0  alive  93 %             1 %             6 %",
        "actor-1            125         2  dead      -               -               -",
        "trainer-agent      123         0  alive  41 %            59 %             0 %",
        "",
        "rows  41,007 produced = 40,960 trained + 40 in flight + 7 dropped stale",
        "replay  900 held  12 evicted  0 forgotten",
    ]


def test_status_as_json(live: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, _ = shoal("status", "runs/cartpole/t", "--json", monkeypatch=monkeypatch)
    assert (code, json.loads(out)) == (0, LIVE)


def test_orders_are_obeyed(live: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shoal("pause", "cartpole", monkeypatch=monkeypatch) == (
        0,
        "cartpole/t is paused; go on: shoal unpause cartpole\n",
        "",
    )
    assert shoal("status", "cartpole", monkeypatch=monkeypatch)[1].startswith("cartpole/t is paused\n")
    assert shoal("unpause", "cartpole", monkeypatch=monkeypatch)[1] == "cartpole/t is running\n"
    code, out, _ = shoal("stop", "cartpole", monkeypatch=monkeypatch)
    assert (code, live.state) == (0, "stopping")
    assert (
        out == "cartpole/t is stopping; it saves a checkpoint first; go on later: shoal train ... --trial t --resume\n"
    )
    code, out, err = shoal("pause", "cartpole", monkeypatch=monkeypatch)
    assert (code, out, err) == (1, "", "shoal: cartpole/t: it is stopping already\n")


def test_a_run_that_is_not_there(in_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for command in ("status", "pause", "unpause", "stop"):
        code, out, err = shoal(command, "nothing/here", monkeypatch=monkeypatch)
        assert (code, out) == (2, "")
        assert err.startswith("shoal: there is no run 'nothing/here'")


def test_orders_to_an_ended_run(in_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(in_tmp)
    for command in ("pause", "unpause", "stop"):
        said = "cartpole/t is not running on this machine: it ended; its results are in runs/cartpole/t"
        assert shoal(command, "cartpole/t", monkeypatch=monkeypatch) == (1, "", f"shoal: {said}\n")


def test_status_of_an_ended_run(in_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make(in_tmp)
    folder.event("stop", reason="an earlier one", steps=1, update=1, elapsed=1.0)
    folder.event("start")
    folder.metrics.write_text(
        '{"step": 2048}\n{"step": 4096, "update": 2, "rollout/ep_rew_mean": 21.25, "time/elapsed": 3}\n'
    )
    code, out, _ = shoal("status", "cartpole/t", monkeypatch=monkeypatch)
    assert code == 0
    assert out.startswith("cartpole/t is not running\nit ended without saying why: runs/cartpole/t/logs may know\n")
    folder.event("stop", reason="stop.steps = 4,096 reached", steps=4096, update=2, elapsed=3.5)
    folder.event("note", text="said later")
    code, out, _ = shoal("status", "cartpole/t", monkeypatch=monkeypatch)
    assert code == 0
    for part in (
        "not running\nstop.steps = 4,096 reached\n",
        "21.2",
        "4,096",
        "3.5 s",
        "shoal evaluate runs/cartpole/t",
    ):
        assert part in out
    document = json.loads(shoal("status", "cartpole/t", "--json", monkeypatch=monkeypatch)[1])
    assert document["ended"] is not None
    assert {**document, "ended": ""} == {
        "run": "cartpole/t", "state": "ended", "reason": "stop.steps = 4,096 reached", "ended": "", "step": 4096, "update": 2,
        "elapsed": 3.5, "return": 21.25, "score": None,
    }  # fmt: skip


def test_status_of_a_run_that_never_began(in_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(in_tmp)
    code, out, _ = shoal("status", "cartpole/t", monkeypatch=monkeypatch)
    assert code == 0
    assert "it ended without saying why" in out


@pytest.mark.parametrize("width", [40, 60, 88, 200])
def test_a_terminal_gets_a_framed_page(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    folder = RunFolder(Path("runs/cartpole/t"))
    ended = {"state": "ended", "reason": "[red]", "ended": None, "score": 480.0}
    for document in (LIVE, {"state": "paused"}, ended):
        console = Console(file=io.StringIO(), force_terminal=True, color_system=None, width=width, highlight=False)
        with console.capture() as capture:
            show(document, folder, console)
        lines = capture.get().splitlines()
        assert {len(line) for line in lines} == {min(width, 88)}
        assert (lines[0][0], lines[-1][-1]) == ("╭", "╯")
        assert "cartpole/t" in lines[0]
    assert "[red]" in capture.get()
    assert "480.0" in capture.get()


def test_a_dumb_terminal_gets_plain_lines(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("TERM", "dumb")
    show(LIVE, RunFolder(Path("runs/cartpole/t")), Console(file=io.StringIO(), force_terminal=True, highlight=False))
    assert capsys.readouterr().out.startswith("cartpole/t is running\nreturn   143.2 of 475")


def test_orders_load_neither_torch_nor_numpy(in_tmp: Path) -> None:
    make(in_tmp)
    code = (
        "import sys; sys.argv = ['shoal', 'status', 'cartpole/t']\n"
        "from shoal.cli import main\n"
        "main()\n"
        "heavy = [m for m in ('torch', 'numpy', 'pydantic', 'omegaconf', 'gymnasium') if m in sys.modules]\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=in_tmp, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "cartpole/t is not running" in done.stdout
