"""Draws the population page of the dashboard: a population is trained for real, and a real browser looks at it while it goes on.

Run from the repository: `.venv/bin/python docs/images/dashboard_population.py`. It takes about a minute.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from dashboard import HERE, SHOAL, shoot
from playwright.sync_api import sync_playwright

POPULATION = """
env: {id: CartPole-v1, num_envs: 16}
algorithm: {name: ppo, unroll: 32, minibatch: 128}
model: {name: mlp, hidden: [32, 32]}
population:
  members: 6
  every: 6_000 steps
  episodes: 10
  space: {algorithm.lr: {log: [1e-5, 1e-2]}, algorithm.entropy: {log: [1e-4, 5e-2]}}
stop: {steps: 60_000}
log: {tensorboard: false}
"""
ENOUGH = 4
"""Comparisons before somebody looks."""


def main() -> None:
    """Train, serve, look."""
    os.environ["PYTHONPATH"] = str(HERE.parents[1])
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "cartpole-pbt.yaml").write_text(POPULATION)
        live = subprocess.Popen([*SHOAL, "train", "cartpole-pbt.yaml", "--parallel", "2"], cwd=place)
        journal = place / "runs" / "cartpole-pbt" / "journal.jsonl"
        while not journal.exists() or journal.read_bytes().count(b'"compared"') < ENOUGH:
            assert live.poll() is None, "it ended before anybody looked"
            time.sleep(0.2)
        server = subprocess.Popen([*SHOAL, "dashboard", "--port", "0"], cwd=place, stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            url = re.findall(r"http\S+", server.stdout.readline())[0]
            with sync_playwright() as tools:
                browser = tools.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
                page = browser.new_context(
                    viewport={"width": 1280, "height": 1180}, color_scheme="light", device_scale_factor=1.25
                ).new_page()
                page.goto(url)
                shoot(
                    page,
                    url.partition("/?")[0],
                    "/population/cartpole-pbt",
                    "dashboard-population",
                    ready=".chart canvas",
                )
        finally:
            for process in (live, server):
                process.send_signal(signal.SIGINT)
                process.wait(60)


if __name__ == "__main__":
    main()
