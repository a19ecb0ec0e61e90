"""The pages in a real browser: ended, dead and live runs, in light and dark, wide and narrow, through whatever happens to them."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import made_runs
import pytest

from shoal.monitoring.run_folder import RunFolder
from shoal.runs.panel import ask

pytest.importorskip("starlette", reason="an extra: pip install 'shoal[dashboard]'")

NASTY = "<img src=x onerror=alert(1)>"
TABS = ("Overview", "All metrics", "Evaluations", "Watch", "Events", "Logs", "Settings", "Checkpoints")


@contextlib.contextmanager
def live_run(root: Path, *words: str, trial: str = "t", on: str = "local") -> Iterator[Path]:
    """A real one in a process of its own, that never ends by itself."""
    argv = [
        sys.executable,
        "-m",
        "shoal.cli",
        "train",
        "cartpole",
        "--trial",
        trial,
        "--on",
        on,
        "stop.return=null",
        "stop.steps=null",
        *words,
    ]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    run = subprocess.Popen(argv, cwd=root.parent, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    folder = root / "cartpole" / trial
    try:
        until(lambda: (folder / "metrics.jsonl").exists() and (folder / "control.sock").exists(), 60)
        yield folder
    finally:
        run.send_signal(signal.SIGINT)
        try:
            run.wait(30)
        except subprocess.TimeoutExpired:
            run.kill()
            run.wait()


def until(condition: Callable[[], bool], seconds: float = 15.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.05)


def test_runs_filter_group_and_compare(tmp_path: Path, dashboard: Any, visit: Any) -> None:
    for seed in range(3):
        made_runs.make_run(tmp_path, "cart", f"s{seed}", seed=seed, end="stop.steps = 122,880 reached")
    made_runs.make_run(tmp_path, "walk", "slow", lr=0.01, end=None)
    seen = visit(dashboard(tmp_path))
    page = seen.page
    page.wait_for_selector("tr.run >> nth=3")
    assert "4 in all, 0 live, 3 done, 1 died" in seen.text(".head")
    page.keyboard.press("/")
    page.keyboard.type("cart seed<2")
    seen.until("document.querySelectorAll('tr.run').length === 2")
    page.fill("input[type=search]", "colour=red")
    seen.until("document.querySelector('.error').textContent.includes(\"no run has 'colour'\")")
    page.fill("input[type=search]", "")
    seen.until("document.querySelectorAll('tr.run').length === 4")
    page.click("text=By experiment")
    page.wait_for_selector("tr.group .spark .area")
    assert page.locator("tr.group").count() == 2
    page.click("th button:has-text('score')")
    assert page.locator("th[aria-sort=descending]").inner_text().startswith("score")
    page.check("input[aria-label='Choose cart/s0']")
    page.check("input[aria-label='Choose walk/slow']")
    page.click("text=Compare")
    page.wait_for_selector(".chart canvas")
    page.wait_for_selector(".chips span >> nth=1")  # a chart is drawn before all that it shows has arrived
    assert page.locator(".chips span").all_inner_texts() == ["cart/s0", "walk/slow"]
    settings = page.locator("table.settings").inner_text()
    assert "algorithm.lr" in settings
    assert "0.01" in settings
    assert "env.id" not in settings, "they agree in that"
    page.check("text=bands over seeds")
    seen.until("document.querySelector('.chips')?.textContent.includes('runs)')")


def test_an_ended_run_and_all_that_it_left(tmp_path: Path, dashboard: Any, visit: Any) -> None:
    folder = made_runs.make_run(tmp_path, "cart", "a", rows=120, end="stop.steps = 245,760 reached")
    (folder / "logs").mkdir()
    (folder / "logs" / "local.log").write_text("".join(f"line {i} {NASTY if i == 7 else ''}\n" for i in range(300)))
    seen = visit(dashboard(tmp_path), "/run/cart/a")
    page = seen.page
    page.wait_for_selector(".pipeline")
    page.wait_for_selector(".chart canvas")
    assert "stop.steps = 245,760 reached" in page.locator("main").inner_text()
    assert page.locator(".sentence").inner_text().startswith("Bottleneck: sampling (actors stepped")
    assert page.locator(".pipeline .title").all_text_contents() == ["2 actors", "trainer"]
    assert "lag 1 of at most 1" in page.locator(".pipeline").text_content()
    for title in TABS[1:]:
        page.click(f"role=tab[name='{title}']")
        page.wait_for_selector(f"role=tabpanel[name='{title}']")
    page.click("role=tab[name='Evaluations']")
    assert page.locator("#panel-evaluations tbody tr").count() == 6
    page.click("role=tab[name='Logs']")
    page.fill("input[aria-label='Search in this log']", "onerror")
    seen.until("document.querySelector('.log mark')?.textContent === 'onerror'")
    assert NASTY in page.locator(".log").inner_text(), "text stays text"
    page.click("role=tab[name='Settings']")
    page.wait_for_selector("table.settings td:has-text('env.num_envs')", timeout=30_000)
    page.focus("role=tab[name='Settings']")
    page.keyboard.press("ArrowRight")
    assert page.locator("role=tab[selected=true]").inner_text() == "Checkpoints"


def test_zoom_smoothing_and_axes(tmp_path: Path, dashboard: Any, visit: Any) -> None:
    made_runs.make_run(tmp_path, "cart", "a", rows=3000)
    seen = visit(dashboard(tmp_path), "/run/cart/a")
    page = seen.page
    page.wait_for_selector(".chart canvas")
    over = page.locator(".chart .u-over").first
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    over.hover(position={"x": 60, "y": 40})  # waits until charts are drawn for good
    seen.until("document.querySelector('.chart .at').textContent.includes(':')")
    box = over.bounding_box()
    page.mouse.down()
    page.mouse.move(box["x"] + 160, box["y"] + 40, steps=4)
    page.mouse.up()
    page.wait_for_selector("button:has-text('Whole run'):visible")
    until(lambda: any("from=" in url for url in asked))
    page.dblclick(".chart .u-over >> nth=0")
    page.wait_for_selector("button:has-text('Whole run')", state="hidden")
    page.click("#panel-overview button:has-text('time')")
    page.check("#panel-overview >> text=log scale")
    page.locator("#panel-overview input[type=range]").fill("0.8")


@pytest.mark.parametrize("dark", [False, True])
def test_narrow_pages_fit(tmp_path: Path, dashboard: Any, visit: Any, dark: bool) -> None:
    made_runs.make_run(
        tmp_path, "a-very-long-experiment-name-with-many-words", "and-a-long-trial-name-behind-it-0123456789"
    )
    shown = dashboard(tmp_path)
    seen = visit(shown, width=380, dark=dark)
    seen.page.wait_for_selector("tr.run")
    assert seen.fits()
    seen.page.goto(
        f"{shown.base}/run/a-very-long-experiment-name-with-many-words/and-a-long-trial-name-behind-it-0123456789"
    )
    seen.page.wait_for_selector(".pipeline")
    for title in TABS:
        seen.page.click(f"role=tab[name='{title}']")
        assert seen.fits(), title
    assert seen.page.evaluate("document.documentElement.dataset.theme") == ("dark" if dark else "light")
    seen.page.click("#theme")
    assert seen.page.evaluate("document.documentElement.dataset.theme") == ("light" if dark else "dark")


def test_text_of_a_run_stays_text(tmp_path: Path, dashboard: Any, visit: Any) -> None:
    folder = made_runs.make_run(tmp_path, "cart", "a", end=NASTY)
    config = (folder / "config.yaml").read_text().replace("CartPole-v1", f"'{NASTY}'").replace("ppo", f"'{NASTY}'")
    (folder / "config.yaml").write_text(config)
    event = {"time": NASTY, "kind": NASTY, "text": NASTY, "workers": [{"kind": NASTY}]}
    (folder / "events.jsonl").write_text(json.dumps(event) + "\n" + (folder / "events.jsonl").read_text())
    row = {"step": 10**6, "update": 10**3, f"train/{NASTY}": 1.0, "rollout/ep_rew_mean": 3}
    (folder / "metrics.jsonl").write_text((folder / "metrics.jsonl").read_text() + json.dumps(row) + "\n")
    shown = dashboard(tmp_path)
    seen = visit(shown)
    page = seen.page
    page.on("dialog", lambda dialog: pytest.fail("a script ran"))
    page.wait_for_selector("tr.run")
    assert NASTY in page.locator("main").inner_text()
    page.goto(f"{shown.base}/run/cart/a")
    page.wait_for_selector(".chart canvas")
    for title in TABS:
        page.click(f"role=tab[name='{title}']")
    assert page.locator("main img[src=x]").count() == 0


@pytest.mark.slow
def test_a_live_run_to_its_end_and_beyond(tmp_path: Path, dashboard: Any, visit: Any) -> None:
    """It moves by itself; the page survives its death, a restart of the server, and the folder's removal."""
    root = tmp_path / "runs"
    root.mkdir()
    shown = dashboard(root)
    with live_run(root, "placement.actors=1") as folder:
        seen = visit(shown, "/run/cartpole/t")
        page = seen.page
        page.wait_for_selector(".pill.live.running")
        steps = "document.querySelectorAll('.fact .value')[2].textContent"
        page.wait_for_selector(".pipeline .big")
        first = page.evaluate(steps)
        seen.until(f"{steps} !== {first!r}")
        assert page.locator(".workers tbody tr").count() >= 2
        page.wait_for_selector(".chart canvas")
        os.kill(int(ask(RunFolder(folder), "status")["pid"]), signal.SIGKILL)
        page.wait_for_selector(".pill.died", timeout=10_000)
        assert "its process is gone" in page.locator("main").inner_text()
    seen.errors.clear()
    took = shown.stop()
    assert took < 3.5, "an open stream does not keep the server"
    page.wait_for_selector(".link.off", timeout=10_000)
    shown.start()
    page.wait_for_selector(".link.on", timeout=15_000)
    shutil.rmtree(folder)
    seen.until("document.querySelector('main').textContent.includes('folder is gone')")
    seen.errors[:] = [
        error for error in seen.errors if "ERR_CONNECTION_REFUSED" not in error and "INCOMPLETE_CHUNKED" not in error
    ]


def test_orders_are_given_twice(tmp_path: Path, dashboard: Any, visit: Any) -> None:
    root = tmp_path / "runs"
    root.mkdir()
    shown = dashboard(root, control=True)
    with live_run(root, "evaluation.every=1h", "placement.actors=1") as folder:
        seen = visit(shown, "/run/cartpole/t")
        page = seen.page
        status = lambda: ask(RunFolder(folder), "status")  # noqa: E731
        page.click(".orders >> text=pause")
        assert status()["state"] == "running", "it is asked twice"
        page.click(".orders >> text=Yes")
        until(lambda: status()["state"] == "paused")
        page.click(".orders >> text=unpause", timeout=10_000)
        page.click(".orders >> text=Yes")
        until(lambda: status()["state"] == "running")
        page.click(".orders >> text=change…", timeout=10_000)
        page.fill("input[aria-label='Changes, KEY=VALUE']", "lr=0.0005")
        page.click(".orders >> text=Change")
        page.click(".orders >> text=Yes")
        until(lambda: "0.0005" in (folder / "events.jsonl").read_text())
        page.click(".orders >> text=evaluate", timeout=10_000)
        page.click(".orders >> text=Yes")
        until(lambda: '"kind": "evaluation"' in (folder / "events.jsonl").read_text(), 30)
        page.click(".orders >> text=stop", timeout=10_000)
        page.click(".orders >> text=Yes")
        page.wait_for_selector(".pill.done", timeout=20_000)


@pytest.mark.slow
def test_somebody_watches(tmp_path: Path, dashboard: Any, visit: Any) -> None:
    """Images come while the tab is open; then nobody plays any more."""
    pytest.importorskip("PIL")
    root = tmp_path / "runs"
    root.mkdir()
    with live_run(root, "placement.actors=1") as folder:
        seen = visit(dashboard(root), "/run/cartpole/t")
        page = seen.page
        page.wait_for_selector(".pill.live.running")
        page.click("role=tab[name='Watch']")
        seen.until("Number(document.querySelector('.stage img').dataset.frames) >= 3", 60)
        frame = folder / "watch" / "frame.jpg"
        assert frame.stat().st_size > 500
        seen.until("/version \\d+ plays beside training/.test(document.querySelector('#panel-watch').textContent)")
        page.click("role=tab[name='Overview']")
        until(lambda: not frame.exists(), 20)
    assert not (folder / "watch").exists()


def test_without_the_extra_there_is_one_line(tmp_path: Path) -> None:
    code = "import sys; sys.modules['uvicorn'] = None; sys.argv = ['shoal', 'dashboard']; from shoal.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert done.stderr == "shoal: the dashboard needs uvicorn, which is not installed: pip install 'shoal[dashboard]'\n"


def test_the_command_prints_its_address_and_ends_by_a_signal(tmp_path: Path) -> None:
    made_runs.make_run(tmp_path / "runs", "cart", "a")
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "PYTHONUNBUFFERED": "1"}
    argv = [sys.executable, "-m", "shoal.cli", "dashboard", "--port", "0"]
    served = subprocess.Popen(argv, cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert served.stdout is not None
    line = served.stdout.readline()
    match = re.fullmatch(r"runs in runs: http://127\.0\.0\.1:(\d+)/\?token=[\w-]{20,}\n", line)
    assert match, line
    with socket.create_connection(("127.0.0.1", int(match[1])), timeout=5):
        pass
    served.send_signal(signal.SIGINT)
    _, errors = served.communicate(timeout=10)
    assert served.returncode in (0, 130)
    assert "Traceback" not in errors
