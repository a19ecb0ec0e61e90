"""A real Prometheus, and runs for it to watch."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

NO_PROMETHEUS = pytest.mark.skipif(shutil.which("prometheus") is None, reason="no prometheus: tools/system-packages.sh")
NO_PROMTOOL = pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool: tools/system-packages.sh")


def fetch(url: str) -> str:
    """A page of this machine."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        text: str = answer.read().decode()
        return text


def until(wanted: Callable[[], Any], what: str, seconds: float = 60.0) -> Any:
    """What `wanted` gives, once it is something."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            if found := wanted():
                return found
        time.sleep(0.05)
    raise AssertionError(f"{what}: not within {seconds:g} s")


class Prometheus:
    """Scrapes all that `runs/prometheus.json` of a folder names."""

    def __init__(self, url: str) -> None:
        self.url = url

    def query(self, expression: str, at: float | None = None) -> list[dict[str, Any]]:
        """The series that an expression gives, now or at a time."""
        wanted = {"query": expression} | ({} if at is None else {"time": f"{at:.3f}"})
        answer = json.loads(fetch(f"{self.url}/api/v1/query?{urllib.parse.urlencode(wanted)}"))
        assert answer["status"] == "success", answer
        result: list[dict[str, Any]] = answer["data"]["result"]
        return result


@contextlib.contextmanager
def prometheus(folder: Path, interval: str) -> Iterator[Prometheus]:
    """One that lives in `folder` and scrapes every `interval`."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    found = {"files": [str(folder / "runs" / "prometheus.json")], "refresh_interval": "1s"}
    scraped = {"job_name": "shoal", "scrape_interval": interval, "scrape_timeout": interval, "file_sd_configs": [found]}
    config = folder / "prometheus.yml"
    config.write_text(json.dumps({"scrape_configs": [scraped]}))  # JSON is YAML
    argv = ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}"]
    argv += [f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"]
    with (folder / "prometheus.log").open("wb") as log, subprocess.Popen(argv, stdout=log, stderr=log) as process:
        try:
            server = Prometheus(f"http://127.0.0.1:{port}")
            until(lambda: fetch(f"{server.url}/-/ready"), "Prometheus is ready")
            yield server
        finally:
            process.terminate()


@contextlib.contextmanager
def training(folder: Path, *words: str, on: str = "inline") -> Iterator[subprocess.Popen[bytes]]:
    """`shoal train` in `folder`, with a port of its own, until the block ends."""
    argv = [sys.executable, "-m", "shoal.cli", "train", *words, "--on", on, "--prometheus", "0"]
    with (folder / "train.log").open("ab") as log:
        process = subprocess.Popen(argv, cwd=folder, stdout=log, stderr=log, env={**os.environ, "TERM": "dumb"})
        try:
            yield process
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(90)
            finally:
                process.kill()
                process.wait()


def entries(root: Path) -> dict[str, str]:
    """Run -> where it is scraped, by `prometheus.json`."""
    found = json.loads((root / "prometheus.json").read_text())
    return {f"{each['labels']['experiment']}/{each['labels']['trial']}": each["targets"][0] for each in found}
