"""Draws the figures of the dashboard: trains for real, lets a real browser look at the runs, keeps what it shows.

Run from the repository: `.venv/bin/python docs/images/dashboard.py`. It takes about two minutes.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

HERE = Path(__file__).parent
SHOAL = [sys.executable, "-m", "shoal.cli"]
RUNS = [
    ("cartpole", "brisk-herring-07", 1, []),
    ("cartpole", "calm-perch-21", 2, []),
    ("cartpole", "keen-tuna-40", 3, []),
    ("cartpole-dqn", "shy-eel-12", 1, ["stop.steps=12000", "stop.return=null"]),
    ("acrobot", "swift-cod-33", 1, ["stop.steps=60000"]),
]
LIVE = ["stop.steps=4_000_000", "stop.return=null", "placement.actors=1", "evaluation.every=4s", "evaluation.video=20s"]


LEAGUE = """
env: {id: shoal/kuhn, num_envs: 16}
algorithm: {name: ppo, unroll: 32, minibatch: 256, lr: 1e-3, entropy: 0.02}
model: {name: mlp, hidden: [32]}
league: {match: pfsp, freeze: {steps: 4_000}, keep: 10, games: 40}
stop: {steps: 30_000}
"""


def train(place: Path) -> None:
    """Some that end, one that died, and a league."""
    (place / "kuhn-league.yaml").write_text(LEAGUE)
    subprocess.run([*SHOAL, "train", "kuhn-league.yaml", "--trial", "first", "--on", "inline"], cwd=place, check=True)
    for recipe, trial, seed, words in RUNS:
        subprocess.run([*SHOAL, "train", recipe, "--trial", trial, "--seed", str(seed), *words], cwd=place, check=True)
    words = ["--trial", "lone-ray-02", "stop.steps=null", "stop.return=null"]
    died = subprocess.Popen([*SHOAL, "train", "acrobot", *words], cwd=place)
    rows = place / "runs" / "acrobot" / "lone-ray-02" / "metrics.jsonl"
    while not rows.exists() or rows.stat().st_size < 20_000:
        time.sleep(0.2)
    died.send_signal(signal.SIGKILL)
    died.wait()


def shoot(page: Any, base: str, path: str, name: str, *, height: int | None = None, ready: str = "") -> None:
    """What a page shows when all of it is there."""
    page.goto(base + path)
    page.wait_for_selector(ready or (".chart canvas" if "run" in path else "tr.run .spark .line"))
    page.wait_for_timeout(2500)
    page.mouse.move(0, 0)
    clip = None if height is None else {"x": 0, "y": 0, "width": page.viewport_size["width"], "height": height}
    page.screenshot(path=HERE / f"{name}.png", clip=clip, full_page=height is None)


def main() -> None:
    """Train, serve, look."""
    os.environ["PYTHONPATH"] = str(HERE.parents[1])
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        train(place)
        live = subprocess.Popen(
            [*SHOAL, "train", "cartpole", "--trial", "bold-pike-18", "--seed", "4", *LIVE], cwd=place
        )
        server = subprocess.Popen([*SHOAL, "dashboard", "--port", "0"], cwd=place, stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            url = re.findall(r"http\S+", server.stdout.readline())[0]
            time.sleep(25)
            with sync_playwright() as tools:
                browser = tools.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
                for theme in ("light", "dark"):
                    page = browser.new_context(
                        viewport={"width": 1280, "height": 1180}, color_scheme=theme, device_scale_factor=1.25
                    ).new_page()
                    page.goto(url)
                    shoot(page, url.partition("/?")[0], "/", f"dashboard-runs-{theme}", height=700)
                    shoot(
                        page,
                        url.partition("/?")[0],
                        "/run/cartpole/bold-pike-18",
                        f"dashboard-run-{theme}",
                        height=1180,
                    )
                    if theme == "light":
                        base = url.partition("/?")[0]
                        shoot(page, base, "/run/kuhn-league/first#league", "dashboard-league", ready=".payoffs td")
                narrow = browser.new_context(viewport={"width": 380, "height": 800}, device_scale_factor=1.5).new_page()
                narrow.goto(url)
                shoot(narrow, url.partition("/?")[0], "/run/cartpole/bold-pike-18", "dashboard-narrow", height=800)
        finally:
            for process in (live, server):
                process.send_signal(signal.SIGINT)
                process.wait(30)


if __name__ == "__main__":
    main()
