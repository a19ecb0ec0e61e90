"""What a page over many and long runs costs: first paint in a real browser, and CPU of the server while it is looked at.

Makes 200 runs, one of them of a million rows, and another that grows by 20 rows a second. Prints, for the page of all runs and
for the page of the long one: milliseconds to the first row or curve, bytes, and milliseconds of server CPU per second.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import made_runs

TICK = os.sysconf("SC_CLK_TCK")


def cpu(pid: int) -> float:
    """Seconds of CPU of a process and all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def look(browser: Any, url: str, base: str, path: str, wait: str, pid: int, seconds: float) -> dict[str, float]:
    """One page: how long until it shows something, and what it costs while it stays open."""
    page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    page.goto(url)
    page.goto("about:blank")
    size: list[int] = []
    page.on("response", lambda answer: size.append(int(answer.headers.get("content-length", 0))))
    began, before = time.monotonic(), cpu(pid)
    page.goto(base + path, wait_until="commit")
    page.wait_for_selector(wait)
    shown = time.monotonic() - began
    paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    page.wait_for_timeout(2000)
    first = cpu(pid) - before
    before = cpu(pid)
    page.wait_for_timeout(1000 * seconds)
    cost = 1000 * (cpu(pid) - before) / seconds
    page.close()
    return {
        "first paint, ms": paint,
        "shown, ms": 1000 * shown,
        "CPU to show, ms": 1000 * first,
        "CPU, ms/s": cost,
        "kB": sum(size) / 1000,
    }


def measure(rows: int, runs: int, seconds: float) -> dict[str, dict[str, float]]:
    """Both pages, over folders that are made here."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as place:
        root = Path(place) / "runs"
        for i in range(runs - 2):
            made_runs.make_run(
                root,
                f"task-{i % 10}",
                f"t{i:03d}",
                rows=300,
                seed=i,
                end="stop.steps = 614,400 reached" if i % 7 else None,
            )
        made_runs.make_run(root, "long", "million", rows=rows)
        growing = made_runs.make_run(root, "growing", "now", rows=300)
        argv = [sys.executable, "-m", "shoal.cli", "dashboard", str(root), "--port", "0"]
        server = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        over = threading.Event()

        def grow() -> None:
            at = 300
            while not over.wait(1.0):
                made_runs.write_rows(growing / "metrics.jsonl", at, at + 20, total=10_000)
                made_runs.write_rows(
                    root / "long" / "million" / "metrics.jsonl", rows + at, rows + at + 20, total=2 * rows
                )
                at += 20

        thread = threading.Thread(target=grow)
        thread.start()
        try:
            assert server.stdout is not None
            url = re.findall(r"http\S+", server.stdout.readline())[0]
            base = url.partition("/?")[0]
            time.sleep(3)
            with sync_playwright() as tools:
                browser = tools.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
                pages = {"runs": ("/", "tr.run"), "run of a million rows": ("/run/long/million", ".chart canvas")}
                return {
                    name: look(browser, url, base, path, wait, server.pid, seconds)
                    for name, (path, wait) in pages.items()
                }
        finally:
            over.set()
            thread.join()
            server.terminate()
            server.wait(10)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = measure(options.rows, options.runs, options.seconds)
    for name, numbers in found.items():
        print(
            f"{name:24}",
            ", ".join(f"{key.partition(',')[0]} {value:,.0f}{key.partition(',')[2]}" for key, value in numbers.items()),
        )
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
