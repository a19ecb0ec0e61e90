"""Parents and children as whole runs."""

from __future__ import annotations

import json
import signal
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import shoal
from shoal.api.experiment import load_experiment
from shoal.checkpoints.store import CheckpointStore
from shoal.federation import start
from shoal.federation.layout import fingerprint_of
from tests.federation.ends import End, Federation, command, until


@pytest.fixture
def federation(tmp_path: Path) -> Iterator[Federation]:
    made = Federation(tmp_path, "anna", "bert")
    yield made
    made.close()


def tensors(folder: Path) -> dict[str, torch.Tensor]:
    return CheckpointStore(folder / "checkpoints").latest().tensors


@pytest.mark.parametrize(
    "quorum", [pytest.param("1", marks=pytest.mark.slow), "all"]
)  # "1": slow until thirty runs in a row have passed; eighteen have
def test_one_child_is_local_training_bit_for_bit(
    federation: Federation, quorum: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = federation.place
    monkeypatch.chdir(place)
    parent = federation.parent(f"federation.quorum={quorum}")
    overrides = ["stop.updates=9", f"federation.quorum={quorum}"]
    outcome = start.child(
        f"wss://127.0.0.1:{federation.port}", None, place / "toy.yaml", overrides, find=Path, credentials=place / "anna",
        cores=1, seed=1, on="inline", where=start.Where("anna", root=place / "runs", quiet=True),
    )  # fmt: skip
    alone = shoal.train(
        load_experiment(place / "toy.yaml", ["stop.updates=9", "evaluation=null"]),
        root=place / "local",
        on="inline",
        quiet=True,
    )
    ours, theirs = tensors(outcome.folder), tensors(alone.folder)
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    parent.reaches(4 if quorum == "all" else 1)
    parent.process.send_signal(signal.SIGINT)
    parent.ends()
    last = CheckpointStore(parent.folder / "checkpoints").latest()
    if quorum == "all":
        assert last.version == 4, "rounds of two updates, each waited for"
    # a child that waits for nobody gives what it has learned since, however many updates that were: its steps tell
    same = load_experiment(place / "toy.yaml", [f"stop.steps={last.meta['steps']}", "evaluation=null"])
    local = shoal.train(same, root=place / "same", on="inline", quiet=True)
    assert local.steps == last.meta["steps"]
    policy = [name for name in last.tensors if name.startswith("agent/policy")]
    assert policy
    weights = tensors(local.folder)
    assert all(torch.equal(last.tensors[name], weights[name]) for name in policy)


def test_a_child_ends_with_its_parent(federation: Federation) -> None:
    parent, child = federation.parent("stop.updates=4"), federation.child("anna")
    assert parent.ends(120) == 0, parent.why()
    assert child.ends(60) == 0, child.why()
    assert "the parent has ended: stop.updates = 4 reached" in child.why()


@pytest.mark.slow
def test_two_children(federation: Federation) -> None:
    parent = federation.parent("federation.encoding=int8")
    children = [federation.child(name, "federation.encoding=int8") for name in ("anna", "bert")]
    for name in ("anna", "bert"):
        parent.says(f"{name} joined from this machine", seconds=120)
    parent.reaches(parent.version + 4)
    until(lambda: [event for event in parent.lines("events.jsonl") if event["kind"] == "evaluation"], 60, parent.why)
    assert command(federation.place, "stop", "toy/parent").returncode == 0
    assert parent.ends(60) == 0, parent.why()
    for child in children:
        child.says("lost the parent", seconds=40)  # it may be resumed: they call again
        child.process.send_signal(signal.SIGINT)
        assert child.ends(60) == 130, child.why()
    rows = parent.lines("metrics.jsonl")
    assert {"federation/nbytes_up", "federation/staleness", "federation/children"} <= set().union(*rows)
    assert max(row.get("federation/children", 0) for row in rows) == 2
    assert stat.S_IMODE((parent.folder / "federation.json").stat().st_mode) == 0o600
    done = command(federation.place, "evaluate", str(parent.folder), "--episodes", "4", "--json")
    assert json.loads(done.stdout)["version"] == parent.version
    leaks = [str(federation.port), "127.0.0.1", "PRIVATE KEY"]
    for end in (parent, *children):
        for path in (
            *(end.folder / "logs").rglob("*"),
            *end.folder.glob("*.jsonl"),
            *(end.folder / "checkpoints").rglob("*.*"),
        ):
            if path.is_file():
                found = [leak for leak in leaks if leak.encode() in path.read_bytes()]
                assert not found, f"{path} holds {found}"


@pytest.mark.slow
def test_status_and_stop(federation: Federation) -> None:
    parent, child = federation.parent(), federation.child("anna")
    parent.reaches(2, 90)

    def shoal_(*words: str) -> str:
        done = command(federation.place, *words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    (row,) = until(lambda: json.loads(shoal_("status", "toy/parent", "--json"))["shown"].get("children"))
    assert (row["name"], row["connected"], row["where"], row["strikes"]) == ("anna", True, "this machine", 0)
    assert "anna" in shoal_("status", "toy/parent")
    (row,) = until(lambda: json.loads(shoal_("status", "toy/anna", "--json"))["shown"].get("parent"))
    assert (row["connected"], row["set aside"]) == (True, 0)
    assert "round trip" in shoal_("status", "toy/anna")
    shoal_("stop", "toy/anna")
    assert child.ends(30) == 0, child.why()
    parent.says("anna left: the child has ended", seconds=15)
    shoal_("stop", "toy/parent")
    assert parent.ends(30) == 0, parent.why()


def test_another_recipe_is_told_before_a_run_is_made(federation: Federation) -> None:
    federation.parent()
    child = federation.child("anna", "algorithm.lr=1e-5")
    assert child.ends(90) == 2
    assert "with other settings than toy.yaml has here" in child.why()
    assert not child.folder.exists()


def test_what_belongs_to_a_fingerprint(tmp_path: Path) -> None:
    (tmp_path / "toy.yaml").write_text("env: {id: CartPole-v1}")

    def digest(*overrides: str) -> str:
        return fingerprint_of(load_experiment(tmp_path / "toy.yaml", list(overrides)))

    same = digest()
    for free in ("seed=3", "env.num_envs=4", "stop.steps=9", "placement.actors=2", "env.timeout=9s", "name=other"):
        assert digest(free) == same, free
    for bound in (
        "algorithm.lr=0.1",
        "env.id=Acrobot-v1",
        "model={name: mlp, hidden: [3]}",
        "env.kwargs={sutton_barto_reward: true}",
    ):
        assert digest(bound) != same, bound


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["parent", "cartpole-a4c"], "choose one"),
        (["parent", "cartpole-a4c", "--listen", "x"], "HOST:PORT"),
        (["parent", "cartpole-a4c", "--children", "http://x"], "wss://HOST:PORT"),
        (
            ["parent", "cartpole-a4c", "--children", "wss://x:1", "wss://y:1/of-two"],
            "--children wss://y:1/of-two: write",
        ),
        (["child"], "choose one"),
        (["child", "--listen", "nowhere"], "HOST:PORT"),
        (["child", "--parent", "wss://x:1", "--credentials", "credentials"], "authority's"),
        (["parent", "cartpole-a4c", "--listen", "127.0.0.1:1", "--credentials", "anna"], "holds no authority"),
        (["parent", "multi-cartpole", "--listen", "127.0.0.1:1"], "one can be shared"),
    ],
)
def test_mistakes_are_one_line(federation: Federation, words: list[str], said: str) -> None:
    if words[0] == "child" and "--credentials" not in words:
        words = [*words, "--credentials", "anna"]
    done = command(federation.place, *words)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_the_parent_calls(federation: Federation) -> None:
    """Where children are the side that can be reached."""
    place, port = federation.place, federation.port
    words = ["child", "--listen", f"127.0.0.1:{port}", "--recipe", "toy.yaml", "--credentials", "anna"]
    child = End(place, "anna", words, None)
    parent = End(
        place, "parent", ["parent", "toy.yaml", "--children", f"wss://localhost:{port}", "stop.updates=3"], None
    )
    federation.ends += [child, parent]
    assert parent.ends(120) == 0, parent.why()
    assert child.ends(60) == 0, child.why()
    assert parent.said("anna joined")


@pytest.mark.slow
def test_a_parent_evaluates_before_it_accepts(federation: Federation) -> None:
    """Whatever it thinks of rounds, children are answered, and versions follow."""
    accept = ["federation.accept={episodes: 4, sigmas: 0.01}", "federation.quorum=all"]
    parent = federation.parent(*accept, "stop.updates=4")
    children = [federation.child(name, *accept) for name in ("anna", "bert")]
    assert parent.ends(200) == 0, parent.why()
    for child in children:
        assert child.ends(60) == 0, child.why()
    aside = sum(len(child.said("set round")) for child in children)
    counted = sum(row.get("federation/set_aside", 0) for row in parent.lines("metrics.jsonl"))
    print(f"{aside} rounds were set aside, {counted:.0f} counted")
    assert not parent.said("had to go")


@pytest.mark.slow
def test_a_child_on_two_cores(federation: Federation) -> None:
    parent, child = federation.parent("stop.updates=6"), federation.child("anna", "--cores", "2")
    assert parent.ends(180) == 0, parent.why()
    assert child.ends(60) == 0, child.why()
    assert sum(event["kind"] == "start" for event in child.lines("events.jsonl")) == 1


@pytest.mark.slow
def test_children_that_replay(tmp_path: Path) -> None:
    """DQN, with a replay memory in a buffer worker; rounds are so many episodes."""
    recipe = """
env: {id: CartPole-v1, num_envs: 4}
algorithm: {name: dqn, unroll: 4, batch: 32, capacity: 1024, warmup: 64}
model: {name: mlp, hidden: [16]}
placement: {buffers: 1}
federation: {every: 5 episodes}
log: {tensorboard: false}
name: toy
"""
    made = Federation(tmp_path, "anna", recipe=recipe)
    try:
        parent, child = made.parent("stop.updates=4"), made.child("anna", "--cores", "2")
        assert parent.ends(180) == 0, parent.why()
        assert child.ends(60) == 0, child.why()
    finally:
        made.close()


# ---------------------------------------------------------------- faults


@pytest.mark.slow
def test_a_child_is_killed_and_comes_back(federation: Federation) -> None:
    parent, anna, bert = federation.parent(), federation.child("anna"), federation.child("bert")
    for name in ("anna", "bert"):
        parent.says(f"{name} joined", seconds=120)
    parent.reaches(parent.version + 3, 90)
    anna.kill()
    parent.says("anna left", seconds=30)
    parent.reaches(parent.version + 3)
    federation.child("anna", trial="anna-2")
    parent.says("anna joined", count=2)
    parent.reaches(parent.version + 3)
    assert bert.process.poll() is None
    assert not parent.said("strikes:")


@pytest.mark.slow
def test_the_parent_is_killed_and_resumed(federation: Federation) -> None:
    """What any child has heard of is there again; children train on meanwhile, and come back by themselves."""
    parent, children = federation.parent(), [federation.child(name) for name in ("anna", "bert")]
    for child in children:
        child.says("joined the parent", seconds=120)
    parent.reaches(parent.version + 3, 90)
    parent.kill()
    for child in children:
        child.says("lost the parent", seconds=40)
    heard = max(row.get("federation/version", 0) for child in children for row in child.lines("metrics.jsonl"))
    before = [child.version for child in children]
    again = federation.parent("--resume")
    again.reaches(int(heard) + 1, 90)
    versions = [row["update"] for row in again.lines("metrics.jsonl")]
    assert versions == sorted(versions)
    for child, version in zip(children, before, strict=True):
        child.reaches(version + 3)
        assert child.process.poll() is None
    again.reaches(again.version + 3)
    assert not again.said("strikes:")


@pytest.mark.slow
def test_a_worker_that_is_killed_is_started_again_at_either_end(federation: Federation) -> None:
    parent, child = federation.parent(), federation.child("anna")
    parent.reaches(3, 90)
    for end, name in ((child, "uplink"), (parent, "parent")):
        done = command(federation.place, "status", str(end.folder), "--json")
        (worker,) = [each for each in json.loads(done.stdout)["workers"] if each["name"] == name]
        version = parent.version
        subprocess.run(["kill", "-9", str(worker["pid"])], check=True)
        parent.reaches(version + 4, 90)
    assert child.process.poll() is None
