"""What `--on ray` says before any Ray is there: wrong words, wrong addresses, plans that do not fit."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path

import pytest

from shoal.monitoring.run_folder import RunFolder
from shoal.runs.cluster_file import write_cluster
from tests.cli.test_cli import shoal

pytest.importorskip("ray", reason="the extra `cluster`")
pytest.importorskip("lz4", reason="the extra `cluster`")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["train", "cartpole", "--address", "auto"], "--address is for --on ray"),
        (["plan", "cartpole", "--address", "auto"], "--address is for --on ray"),
        (["train", "cartpole", "--on", "ray", "--detach"], "--detach needs --address: a Ray of its own ends with"),
        (["train", "cartpole", "--on", "ray", "--address", "here"], "--address = 'here': write auto, or HOST:PORT"),
        (
            ["train", "cartpole", "--on", "ray", "placement.trainers=2", "placement.agree=hogwild"],
            "placement.agree = 'hogwild' shares memory, which machines cannot",
        ),
        (
            ["train", "cartpole", "--on", "ray", "placement.cluster.weights=fp16"],
            "placement.cluster.weights = 'fp16' is not exact",
        ),
    ],
)
def test_wrong_words_leave_nothing_behind(tmp_path: Path, words: list[str], said: str) -> None:
    done = shoal(*words, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith(f"shoal: {said}")
    assert not list(tmp_path.iterdir())


def test_nobody_at_the_address(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("", 0))  # nobody listens, and nobody else gets it meanwhile
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        began = time.monotonic()
        done = shoal("train", "cartpole", "--on", "ray", "--address", address, cwd=tmp_path)
    assert time.monotonic() - began < 60  # Ray itself tries for minutes
    assert done.returncode == 1
    assert done.stderr.startswith(f"shoal: there is no Ray at {address}: Connection refused at ")
    assert len(done.stderr.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_the_last_line_says_why_a_plan_does_not_fit(tmp_path: Path) -> None:
    asked = ["placement.actors=2", "placement.cluster.actor.custom.fast=1"]
    done = shoal("plan", "cartpole", "--on", "ray", *asked, cwd=tmp_path)
    assert done.returncode == 1
    assert "cluster   this machine: trainer, confirmation\n" in done.stdout
    assert "cluster   no place for actor-1: it asks for 1 fast, at most 0 is left\n" in done.stdout
    assert done.stderr == (
        "shoal: 2 of 4 worker processes find no place; actor-0: it asks for 1 fast, at most 0 is left: "
        "ask for less in placement.cluster, or add a machine\n"
    )
    fits = shoal("plan", "cartpole", "--on", "ray", "placement.actors=2", "--json", cwd=tmp_path)
    places = {"trainer": "this machine", "actor-0": "this machine", "actor-1": "this machine"}
    places["confirmation"] = "this machine"
    assert json.loads(fits.stdout)["cluster"] == {"places": places, "no_place": {}}


def test_a_run_that_said_how_it_ended_is_not_asked_for_through_its_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", "ours")
    folder = tmp_path / "runs/cartpole/t"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text("env: {id: CartPole-v1}\n")
    write_cluster(RunFolder(folder), "here", "cartpole/t")  # asking there would be an error
    (folder / "events.jsonl").write_text('{"kind": "start"}\n{"kind": "stop", "reason": "stopped by order"}\n')
    done = shoal("status", "cartpole/t", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("cartpole/t is not running\nstopped by order\n")
    (folder / "events.jsonl").write_text('{"kind": "start"}\n')
    done = shoal("status", "cartpole/t", cwd=tmp_path)
    assert done.stderr.startswith("shoal: --address = 'here'")


@pytest.mark.parametrize("token", ["", "theirs"])
def test_the_ray_that_somebody_elses_folder_names_is_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    """It would get our token, and what it answers would be run."""
    monkeypatch.setenv("RAY_AUTH_TOKEN", token)
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / "none"))
    folder = tmp_path / "runs/cartpole/t"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text("env: {id: CartPole-v1}\n")
    (folder / "events.jsonl").write_text('{"kind": "start"}\n')
    write_cluster(RunFolder(folder), "here", "cartpole/t")
    monkeypatch.setenv("RAY_AUTH_TOKEN", "ours")
    for order in ("status", "stop"):
        done = shoal(order, "cartpole/t", cwd=tmp_path)
        assert done.returncode == 2
        assert "was not written by who knows your token: if that Ray is yours, set RAY_ADDRESS=here" in done.stderr
    monkeypatch.setenv("RAY_ADDRESS", "here")
    assert shoal("status", "cartpole/t", cwd=tmp_path).stderr.startswith("shoal: --address = 'here'")


def test_a_run_that_is_starting(tmp_path: Path) -> None:
    folder = tmp_path / "runs/cartpole/t"
    folder.mkdir(parents=True)
    (folder / ".lock").touch()
    done = shoal("status", "cartpole/t", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(
        "shoal: cartpole/t is starting, or ended before it began: ask again, or look into runs/"
    )
