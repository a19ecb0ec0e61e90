"""Parents and children as people start them: processes of their own, with run folders below one place."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.federation.certificates import authority, free_port

RECIPE = """
env: {id: CartPole-v1, num_envs: 4}
algorithm: {name: ppo, unroll: 32, minibatch: 64, normalise_observations: true}
model: {name: mlp, hidden: [16]}
federation: {every: 2 updates}
evaluation: {every: 2s, episodes: 4}
log: {tensorboard: false}
name: toy
"""


def until(what: Callable[[], Any], seconds: float = 60.0, why: Callable[[], str] = lambda: "") -> Any:
    """What is true in the end."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := what():
            return found
        time.sleep(0.1)
    raise AssertionError(f"not within {seconds} s: {why()}")


def environment() -> dict[str, str]:
    """In which a command finds what this process has found."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def command(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`shoal WORDS`, there."""
    argv = [sys.executable, "-m", "shoal.cli", *words]
    return subprocess.run(argv, capture_output=True, text=True, cwd=place, timeout=120, env=environment())


class End:
    """One command, and the folder of its run."""

    def __init__(
        self, place: Path, trial: str, words: list[str], wrap: Callable[[list[str]], list[str]] | None
    ) -> None:
        self.folder = place / "runs" / "toy" / trial
        self.output = place / f"{trial}.txt"
        argv = [sys.executable, "-m", "shoal.cli", *words, "--trial", trial]
        with self.output.open("ab") as file:
            self.process = subprocess.Popen(
                wrap(argv) if wrap else argv,
                cwd=place,
                stdout=file,
                stderr=file,
                env=environment(),
                start_new_session=True,
            )

    def lines(self, file: str) -> list[dict[str, Any]]:
        try:
            text = (self.folder / file).read_text()
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in text.splitlines() if line.endswith("}")]

    @property
    def version(self) -> int:
        return max((row["update"] for row in self.lines("metrics.jsonl")), default=0)

    def said(self, text: str) -> list[dict[str, Any]]:
        """Each time once: what a worker says is an event of its own as well."""
        return [event for event in self.lines("events.jsonl") if event["kind"] == "note" and text in event["text"]]

    def why(self) -> str:
        return self.output.read_text()[-3000:]

    def reaches(self, version: int, seconds: float = 60.0) -> None:
        until(lambda: self.version >= version, seconds, lambda: f"version {self.version}: {self.why()}")

    def says(self, text: str, count: int = 1, seconds: float = 60.0) -> None:
        until(lambda: len(self.said(text)) >= count, seconds, self.why)

    def ends(self, seconds: float = 60.0) -> int:
        return self.process.wait(seconds)

    def kill(self) -> None:
        """At once, with all that it started."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(20)


class Federation:
    """One parent, some children, on loopback or wherever `wrap` puts them."""

    def __init__(self, place: Path, *children: str, recipe: str = RECIPE) -> None:
        self.place = place
        place.mkdir(exist_ok=True)
        (place / "toy.yaml").write_text(recipe)
        authority(place, *children)
        self.port = free_port()
        self.address = "127.0.0.1"
        self.ends: list[End] = []

    def parent(self, *words: str, wrap: Any = None, trial: str = "parent") -> End:
        listen = ["--listen", f"{self.address}:{self.port}"]
        self.ends.append(End(self.place, trial, ["parent", "toy.yaml", *listen, *words], wrap))
        return self.ends[-1]

    def child(self, name: str, *words: str, wrap: Any = None, trial: str | None = None) -> End:
        call = ["--parent", f"wss://{self.address}:{self.port}", "--recipe", "toy.yaml", "--credentials", name]
        self.ends.append(End(self.place, trial or name, ["child", *call, *words], wrap))
        return self.ends[-1]

    def close(self) -> None:
        for end in self.ends:
            end.kill()
