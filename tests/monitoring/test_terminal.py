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
from rich.color import Color
from rich.console import Console

from shoal.api.experiment import StopConfig
from shoal.monitoring import palette
from shoal.monitoring.live_panel import draw
from shoal.monitoring.progress import Progress
from shoal.monitoring.run_facts import Learning, RunFacts
from shoal.monitoring.share_bar import ShareBar
from shoal.monitoring.terminal import PlainLines, TerminalView, waiting
from shoal.monitoring.usage import Usage

FOLDER = Path("runs/cartpole/brisk-herring-07")
STOP = StopConfig.parse({"steps": 100_000, "return": 475})
PPO = Learning("ppo", ("approx_kl", "entropy_loss", "explained_variance", "policy_loss", "value_loss"))


def about(stop: StopConfig = STOP, learning: Learning = PPO, **own: Learning) -> RunFacts:
    return RunFacts("cartpole", FOLDER, stop, 7, learning, own, here=False)


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
    return PlainLines(about(stop), stream, clock), stream


def drawn(progress: Progress, facts: RunFacts, width: int = 100, height: int = 25, usage: Usage | None = None) -> str:
    console = Console(file=io.StringIO(), width=width, height=height, force_terminal=True, color_system=None)
    with console.capture() as capture:
        console.print(draw(progress, facts, console, usage))
    return capture.get()


def panel(
    row: dict[str, Any], width: int = 100, facts: RunFacts | None = None, height: int = 25, usage: Usage | None = None
) -> str:
    facts = facts or about()
    progress = Progress(facts.stop)
    if row:
        progress.add(row)
    return drawn(progress, facts, width, height, usage)


def test_a_plain_line_says_it_all() -> None:
    lines, stream = plain(Clock(), StopConfig.parse({"steps": 100_000}))
    lines.write(ROW)
    expected = "   20,480 steps | return  143.2 | len 143 | 12,345 steps/s | 1.7 s | left ~6 s"
    assert stream.getvalue().splitlines() == ["cartpole: ppo, seed 7 -> runs/cartpole/brisk-herring-07", expected]


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
    for part in ("cartpole: ppo, seed 7  starting", str(FOLDER), "143.2", "of 475", "20,480", "of 100,000", "12,345 steps/s", "812",
                 "length 143", "-0.0123", "12.5", "0.61", "0.0051", "0.43", "20% of steps", "left <"):  # fmt: skip
        assert part in text, part
    assert len(text.splitlines()) <= 14


def test_the_panel_shows_where_the_time_goes() -> None:
    assert "busy" not in panel(ROW)
    rows = panel({**ROW, **SHARES, **POLICIES}).splitlines()[-4:-1]
    assert [row.split()[1] for row in rows] == ["actors", "policies", "trainer"]
    assert rows[0].endswith("━── 93 % busy  2 % waits for policy  5 % waits for trainer │")
    assert rows[2].endswith("─ 41 % busy   59 % waits for data 0 % waits for its turn │")
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
        assert {len(line) for line in lines} == {min(width, 100)}
    played = panel({**TAG, **SHARES}, width, about(StopConfig(), hunters=PPO, prey=DQN)).splitlines()
    assert {len(line) for line in played} == {min(width, 100)}


def test_an_empty_panel_has_dashes() -> None:
    assert "return           - of 475" in panel({})


def test_the_live_view_draws_seldom_and_restores_the_terminal() -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=100)
    threads = threading.active_count()
    view = TerminalView(about(), console=console)
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
        "from shoal.monitoring.run_facts import Learning, RunFacts\n"
        "facts = RunFacts('x', Path('runs/x/y'), StopConfig(), 1, Learning('ppo', ()))\n"
        "view = TerminalView(facts)\n"
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
        view = TerminalView(about())
        view.write(ROW)
        view.note("still here")
        view.close("done")
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, write)  # else closing the stream fails, too
        os.close(null)


def test_the_clock_ticks_between_rows() -> None:
    stream = io.StringIO()
    view = TerminalView(about(), console=Console(file=stream, force_terminal=True, width=100))
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


# ---------------------------------------------------------------- policies, metrics, states

TAG: dict[str, Any] = {
    "step": 6_400, "update": 1, "rollout/ep_rew_mean": 0.0, "rollout/hunters/agent_return": 16.8,
    "rollout/prey/agent_return": -16.8, "baseline/hunters/random_agent_return": 9.0,
    "baseline/prey/random_agent_return": -19.8, "train/hunters/version": 1, "train/prey/version": 1,
    "train/hunters/approx_kl": 0.0046, "train/hunters/entropy_loss": -1.6, "train/prey/td_error": 0.75, "train/prey/epsilon": 0.2,
}  # fmt: skip
DQN = Learning("dqn", ("td_error", "epsilon", "intrinsic_mean"))


def lines_of(text: str) -> list[str]:
    return [" ".join(line.strip("│╭╮╰╯─ ").split()) for line in text.splitlines()]


def test_every_policy_has_its_own_return_baseline_and_metrics() -> None:
    facts = about(StopConfig(), hunters=PPO, prey=DQN)
    lines = lines_of(panel(TAG, 80, facts))
    assert lines[0] == "cartpole: ppo, dqn, seed 7 starting"
    assert "hunters 16.8 random 9.00 ▁" in lines
    assert "prey -16.8 random -19.8 ▁" in lines
    assert not [line for line in lines if line.startswith("return")], "rivals do not add up"
    assert lines[lines.index("approx_kl entropy_loss") + 1] == "hunters 0.0046 -1.6"
    assert lines[lines.index("td_error epsilon") + 1] == "prey 0.75 0.2"


def test_a_team_shows_what_each_agent_earns_beside_random_play() -> None:
    row = {"step": 6_400, "rollout/ep_rew_mean": -28.5, "rollout/agent/agent_return": -9.5}
    row |= {"baseline/random_team_return": -79.8, "baseline/random_agent_return": -26.6}
    lines = lines_of(panel(row, 80, about(StopConfig())))
    assert "return -28.5 random -79.8 ▁" in lines
    assert "per agent -9.50 random -26.6 ▁" in lines
    plain_lines, out = plain(Clock())
    plain_lines.write(row)
    assert "| return  -28.5, per agent -9.50 (random -26.6) |" in out.getvalue()


def test_a_goal_is_one_for_the_sum_of_all_that_learn() -> None:
    lines = lines_of(panel({**TAG, "rollout/recent_return": 2.5}))
    assert [line for line in lines if line.startswith(("return", "last 20"))] == [
        "return 0.00 ▁",
        "last 20 2.50 of 475",
    ]


def test_metrics_are_those_that_the_algorithm_names() -> None:
    row = {**ROW, "train/td_error": 0.5, "train/epsilon": 0.1}
    assert "td_error epsilon" in lines_of(panel(row, facts=about(learning=DQN)))
    unnamed = lines_of(panel(row, facts=about(learning=Learning("mine:Own", ()))))
    assert "policy_loss value_loss entropy_loss approx_kl explained_variance" in unnamed, "the first that come"


def test_a_metric_that_the_last_row_lacks_stays() -> None:
    progress = Progress(STOP)
    progress.add(ROW)
    progress.add({"step": 30_000, "update": 11})
    assert "0.0051" in drawn(progress, about())


def test_the_environments_own_numbers_are_shown() -> None:
    own = {f"rollout/metrics/{name}": 1.5 for name in ("caught", "b", "c", "d", "e", "f", "g")}
    assert "info caught 1.5, b 1.5, c 1.5, d 1.5, e 1.5, and 2 more" in lines_of(panel({**ROW, **own}))


def test_the_last_frame_says_how_it_ended() -> None:
    console = Console(file=io.StringIO(), width=100, force_terminal=True, color_system=None)
    view = TerminalView(about(), console=console)
    view.write(ROW)
    view.state("confirming")
    assert "confirming ─" in console.file.getvalue()  # type: ignore[attr-defined]
    view.state("reached", "stop.return = 475 reached: greedy mean 500.0 over 100 episodes")
    view.close()
    last = console.file.getvalue().rpartition("╭")[2]  # type: ignore[attr-defined]
    assert "seed 7  reached ─" in last
    assert "│ stop.return = 475 reached: greedy mean 500.0 over 100 episodes  " in last
    assert "left" not in last


def test_plain_lines_tell_states_and_every_policy() -> None:
    lines, stream = plain(Clock(), StopConfig())
    lines.state("running", None)
    lines.write(TAG)
    for word in ("paused", "paused", "running"):
        lines.state(word, None)
    said = stream.getvalue().splitlines()[1:]
    assert [line for line in said if "|" not in line] == ["paused", "running"]
    assert "| hunters 16.8, prey -16.8 |" in said[0]


def test_waiting_becomes_a_line_only_if_it_takes_long(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with waiting("probing"):
        pass
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("shoal.monitoring.terminal._SECONDS_BETWEEN_LINES", 0.01)
    with waiting("probing") as tell:
        tell("3 of 100 episodes")
        deadline = time.monotonic() + 20
        while not (said := capsys.readouterr().err):
            assert time.monotonic() < deadline
            time.sleep(0.01)
    assert said == "3 of 100 episodes\n"


# ---------------------------------------------------------------- what a person looks for

EVALUATED = {
    "eval/mean_reward": 0.62, "eval/ci_low": 0.41, "eval/ci_high": 0.81, "eval/version": 40, "eval/steps": 900,
    "eval/against/random/win_rate": 0.93, "eval/against/random/ci_low": 0.85, "eval/against/random/ci_high": 0.97,
    "eval/against/past/win_rate": 0.5, "eval/against/past/ci_low": 0.4, "eval/against/past/ci_high": 0.6,
}  # fmt: skip
USED = Usage(127.5, 123_456 << 20)


def test_nothing_is_cut_off_at_80_columns() -> None:
    faults = {"train/lag": 12, "rollout/restarts": 3, "rows/lost": 123_456}
    team = {"rollout/team/agent_return": -1234.5, "baseline/random_team_return": -2345.6}
    row = {**ROW, **SHARES, **POLICIES, **EVALUATED, **faults, **team, "step": 987_654_321, "update": 1_234_567}
    stop = StopConfig.parse({"steps": 1_000_000_000, "updates": 10_000_000})
    text = panel(row, 80, about(stop), 24, USED)
    said = " ".join(lines_of(text))
    cores = len(os.sched_getaffinity(0))
    for part in (
        "987,654,321 of 1,000,000,000 speed 12,345 steps/s", f"cpu 127.5 of {cores} cores", "lag 12 versions memory 123,456 MB",
        "faults 3 restarts, 123,456 rows dropped", "random -2,345.6, best 143.2", "explained_variance",
        "won against random 93 % (85 to 97), past 50 % (40 to 60)", "59 % waits for data", "0 % waits for its turn",
    ):  # fmt: skip
        assert part in said, part
    assert "…" not in text
    assert {len(line) for line in text.splitlines()} == {80}
    assert len(text.splitlines()) <= 23, "and 24 lines are enough"


def test_a_worker_that_says_nothing_for_a_row_stays() -> None:
    progress = Progress(STOP)
    progress.add({**ROW, **SHARES})
    progress.add(ROW)
    assert "93 % busy" in drawn(progress, about())


def test_the_best_stands_beside_the_newest() -> None:
    progress = Progress(STOP)
    for mean, version in ((155.0, 30), (143.2, 40)):
        score = {"eval/mean_reward": mean, "eval/ci_low": 130.1, "eval/ci_high": 155.0, "eval/version": version}
        progress.add({**ROW, **score, "eval/steps": 900, "rollout/ep_rew_mean": mean})
    lines = lines_of(drawn(progress, about(), 80))
    assert "eval 143.2 (130.1 to 155.0) by version 40, best 155.0 by version 30" in lines
    assert any(line.startswith("return 143.2 of 475, best 155.0") for line in lines)


@pytest.mark.parametrize("height", [24, 40])
def test_many_policies_fit_a_terminal(height: int) -> None:
    """Where there is no room for all, some are shown, and the workers' time still is."""
    row: dict[str, Any] = {**ROW, **SHARES}
    for i in range(14):
        row |= {
            f"rollout/player_{i}/agent_return": float(i),
            f"train/player_{i}/version": 1,
            f"train/player_{i}/approx_kl": 0.1,
        }
    text = panel(row, 80, about(StopConfig()), height)
    lines = lines_of(text)
    assert len(lines) < height
    assert [line for line in lines if line.startswith("trainer")]
    shown = [line for line in lines if line.startswith("player_") and not line.endswith(" 0.1")]
    more = [line for line in lines if line.endswith(" more")]
    assert shown
    assert more == ([] if len(shown) == 14 else [f"and {14 - len(shown)} more"])
    assert (height == 40) == (len(shown) == 14)


def contrast(colour: str, other: float) -> float:
    """As WCAG has it; `other`: luminance of the background."""
    red, green, blue = (
        each / 255 / 12.92 if each / 255 <= 0.04045 else ((each / 255 + 0.055) / 1.055) ** 2.4
        for each in Color.parse(colour).get_truecolor()
    )
    own = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    return (max(own, other) + 0.05) / (min(own, other) + 0.05)


@pytest.mark.parametrize("colour", [value for name, value in vars(palette).items() if name.isupper()])
def test_colours_can_be_read_on_black_and_on_white(colour: str) -> None:
    assert contrast(colour, 0.0) > 3.5
    assert contrast(colour, 1.0) > 3.5


def test_the_panel_uses_no_other_colours() -> None:
    console = Console(file=io.StringIO(), width=100, force_terminal=True, color_system="truecolor")
    progress = Progress(STOP)
    progress.add({**ROW, **SHARES, **EVALUATED, "rollout/restarts": 1})
    progress.state = "paused"
    known = {Color.parse(value) for name, value in vars(palette).items() if name.isupper()}
    lines = console.render_lines(draw(progress, about(), console))
    used = {segment.style.color for line in lines for segment in line if segment.style and segment.style.color}
    assert used <= known | {Color.parse(BAR_BACK)}


BAR_BACK = "grey23"
"""What rich draws the rest of a progress bar with."""
