import io
import os
import pty
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from shoal.api.experiment import StopConfig
from shoal.monitoring.live_panel import draw
from shoal.monitoring.progress import Progress
from shoal.monitoring.share_bar import ShareBar
from shoal.monitoring.terminal import PlainLines, TerminalView

FOLDER = Path("runs/cartpole/brisk-herring-07")
STOP = StopConfig.parse({"steps": 100_000, "return": 475})
ROW: dict[str, Any] = {
    "step": 20_480, "update": 10, "rollout/ep_rew_mean": 143.21, "rollout/ep_len_mean": 143.2, "rollout/episodes": 812,
    "time/fps": 12_345.0, "time/elapsed": 1.66, "train/policy_loss": -0.0123, "train/value_loss": 12.5,
    "train/entropy_loss": -0.61, "train/approx_kl": 0.0051, "train/explained_variance": 0.43,
}  # fmt: skip

SHARES = {
    "time/trainer_worked": 0.41, "time/trainer_waited_input": 0.59, "time/trainer_waited_slot": 0.0,
    "time/actor_worked": 0.63, "time/actor_inference": 0.30, "time/actor_waited_input": 0.02, "time/actor_waited_slot": 0.05,
}  # fmt: skip
POLICIES = {"time/policy_worked": 0.2, "time/policy_waited_input": 0.8, "time/policy_waited_slot": 0.0}


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def plain(clock: Clock, stop: StopConfig = STOP) -> tuple[PlainLines, io.StringIO]:
    stream = io.StringIO()
    return PlainLines("ppo on CartPole-v1", FOLDER, stop, stream, clock), stream


def panel(row: dict[str, Any], width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    progress = Progress(STOP)
    if row:
        progress.add(row)
    with console.capture() as capture:
        console.print(draw(progress, "ppo on CartPole-v1", FOLDER, console))
    return capture.get()


def test_a_plain_line_says_it_all() -> None:
    lines, stream = plain(Clock(), StopConfig.parse({"steps": 100_000}))
    lines.write(ROW)
    expected = "   20,480 steps | return  143.2 | len 143 | 12,345 steps/s | 1.7 s | left ~6 s"
    assert stream.getvalue().splitlines() == ["ppo on CartPole-v1 -> runs/cartpole/brisk-herring-07", expected]


def test_a_plain_line_says_how_busy_workers_are_if_they_do() -> None:
    lines, stream = plain(Clock())
    lines.write({**ROW, **SHARES})
    assert stream.getvalue().endswith(" | busy: actors 93 %, trainer 41 %\n")


def test_plain_lines_come_every_two_seconds_and_at_both_ends() -> None:
    clock = Clock()
    lines, stream = plain(clock)
    for i in range(50):
        clock.now = i * 0.1
        lines.write({**ROW, "step": i})
    lines.close("done")
    shown = [line.split()[0] for line in stream.getvalue().splitlines()[1:]]
    assert shown == ["0", "20", "40", "49", "done"]


def test_the_last_row_is_not_said_twice() -> None:
    lines, stream = plain(Clock())
    lines.write(ROW)
    lines.close("")
    assert len(stream.getvalue().splitlines()) == 2


def test_missing_values_are_dashes() -> None:
    lines, stream = plain(Clock())
    lines.write({"step": 10, "update": 1, "rollout/ep_rew_mean": float("nan")})
    assert "return      - | len   - |      - steps/s" in stream.getvalue()


def test_the_panel_shows_everything_in_few_lines() -> None:
    text = panel(ROW)
    for part in ("ppo on CartPole-v1", str(FOLDER), "143.2", "of 475", "20,480", "of 100,000", "12,345 steps/s", "812",
                 "length 143", "-0.0123", "12.5", "0.61", "0.0051", "0.43", "20% of steps", "left <"):  # fmt: skip
        assert part in text, part
    assert len(text.splitlines()) <= 14


def test_the_panel_shows_where_the_time_goes() -> None:
    assert "busy" not in panel(ROW)
    rows = panel({**ROW, **SHARES, **POLICIES}).splitlines()[-4:-1]
    assert [row.split()[1] for row in rows] == ["actors", "policies", "trainer"]
    assert rows[0].endswith("━─── 93 % busy  2 % input 5 % slot │")
    assert rows[2].endswith("─ 41 % busy 59 % input 0 % slot │")
    thick, thin = rows[2].count("━"), rows[2].count("─")
    assert thick / (thick + thin) == pytest.approx(0.41, abs=0.02)
    assert len({row.count("━") + row.count("─") for row in rows}) == 1, "bars of equal length"


def test_a_terminal_without_unicode_has_bars_too() -> None:
    console = Console(file=io.TextIOWrapper(io.BytesIO(), "ascii"), width=100, force_terminal=True, color_system=None)
    with console.capture() as capture:
        console.print(ShareBar({"worked": 0.25, "waited_input": 0.75}))
    assert capture.get().strip() == "=" * 25 + "-" * 75


@pytest.mark.parametrize("width", [20, 40, 60, 80, 200])
def test_the_panel_fits_any_width(width: int) -> None:
    busy = {**ROW, **SHARES, **POLICIES}
    for row in ({}, ROW, {"step": 10**9, "update": 10**6, "rollout/ep_rew_mean": -1e7}, busy):
        lines = panel(row, width).splitlines()
        assert len(lines) <= 15
        assert {len(line) for line in lines} == {min(width, 88)}


def test_an_empty_panel_has_dashes() -> None:
    assert "return           - of 475" in panel({})


def test_the_live_view_draws_seldom_and_restores_the_terminal() -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=100)
    threads = threading.active_count()
    view = TerminalView("ppo", FOLDER, STOP, console=console)
    began = time.monotonic()
    for i in range(2000):
        view.write({**ROW, "step": i})
    allowed = 4 + 3 * (time.monotonic() - began)
    view.note("confirming with 100 greedy episodes ... 487.3")
    view.close("done: [487.3]")
    view.close("again")
    view.write(ROW)
    text = stream.getvalue()
    assert text.count("╭") <= allowed, "drawn at the start, the end, and three times a second at most"
    assert text.count("\x1b[?25l") == 1
    assert text.rindex("\x1b[?25h") < text.index("done: [487.3]")
    assert "1,999" in text, "the last row is drawn"
    assert "confirming with" in text
    assert "again" not in text
    deadline = time.monotonic() + 5
    while threading.active_count() > threads:
        assert time.monotonic() < deadline, "its thread ends with it"
        time.sleep(0.01)


def run_view(stdout: int, **environment: str) -> subprocess.Popen[bytes]:
    script = (
        "from shoal.api.experiment import StopConfig\n"
        "from pathlib import Path\nfrom shoal.monitoring.terminal import TerminalView\n"
        "view = TerminalView('ppo', Path('runs/x/y'), StopConfig())\n"
        "view.write({'step': 7, 'update': 1})\nview.close('bye')\n"
    )
    environment = {**os.environ, "TERM": "xterm", **environment}
    return subprocess.Popen([sys.executable, "-c", script], stdout=stdout, stderr=subprocess.PIPE, env=environment)


def read_terminal(**environment: str) -> str:
    """What the view writes to a real pseudo-terminal."""
    ours, theirs = pty.openpty()
    with run_view(theirs, **environment) as process:
        os.close(theirs)
        parts = []
        try:
            while part := os.read(ours, 65536):
                parts.append(part)
        except OSError:  # Linux says EIO when the other side is gone
            pass
        os.close(ours)
        _, errors = process.communicate(timeout=20)
    assert process.returncode == 0, errors
    return b"".join(parts).decode()


def test_a_terminal_gets_the_panel_and_a_dumb_one_lines() -> None:
    assert "\x1b[?25h" in read_terminal()
    dumb = read_terminal(TERM="dumb")
    assert "\x1b" not in dumb
    assert "7 steps" in dumb


def test_a_reader_that_leaves_does_not_end_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = os.pipe()
    os.close(read)
    with open(write, "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        view = TerminalView("ppo", FOLDER, STOP)
        view.write(ROW)
        view.note("still here")
        view.close("done")
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, write)  # else closing the stream fails, too
        os.close(null)


def test_the_clock_ticks_between_rows() -> None:
    stream = io.StringIO()
    view = TerminalView("ppo", FOLDER, STOP, console=Console(file=stream, force_terminal=True, width=100))
    view.write(ROW)
    before = stream.getvalue().count("╭")
    deadline = time.monotonic() + 10
    while stream.getvalue().count("╭") == before:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    view.close()


def test_the_newest_evaluation_is_shown() -> None:
    row = {
        **ROW,
        "eval/mean_reward": 143.2,
        "eval/ci_low": 130.1,
        "eval/ci_high": 155.0,
        "eval/version": 40,
        "eval/steps": 900,
    }
    assert "eval" not in panel(ROW)
    assert "eval    143.2 (130.1 to 155.0) by version 40" in panel(row)
    lines, out = plain(Clock())
    lines.write(row)
    assert "| evaluated 143.2 (130.1 to 155.0) by version 40" in out.getvalue()
