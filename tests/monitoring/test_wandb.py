"""Weights & Biases itself, offline: what a run wrote is read back from its files."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from shoal.api.evaluation import Match, Scores
from shoal.api.experiment import Experiment, LogConfig, WandbConfig
from shoal.base.descendants import below, children, lives
from shoal.base.errors import InputError, ShoalError
from shoal.cli import evaluate
from shoal.monitoring import wandb_sink
from shoal.monitoring.jsonl import append_line
from shoal.monitoring.run_folder import RunFolder
from shoal.monitoring.wandb_sink import WandbSink, read_kept, require_wandb, wandb_mode
from shoal.runs import train
from shoal.runs.wandb_evaluation import table_of
from shoal.runs.wandb_push import push
from tests.cli.test_cli import start

pytest.importorskip("wandb", reason="an extra: `shoal[wandb]`")
from tests.monitoring.wandb_files import described, parts, records, rows
from tests.monitoring.wandb_server import WandbServer, wandb_server

QUICK = {
    "env": {"id": "CartPole-v1", "num_envs": 4},
    "algorithm": {"name": "ppo", "unroll": 16, "minibatch": 32},
    "model": {"name": "mlp", "hidden": [8]},
    "name": "pond",
}
ENDLESS = ["stop.steps=null", "stop.return=null", "model.hidden=[8]", "algorithm.unroll=16", "algorithm.minibatch=64"]


@pytest.fixture(autouse=True)
def _nobody_elses_account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in os.environ:
        if name.startswith("WANDB_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))


def experiment(updates: int, **log: object) -> Experiment:
    return Experiment.parse({**QUICK, "stop": {"updates": updates}, "log": {"tensorboard": False, **log}})


def written(run: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def same(ours: list[dict[str, object]], theirs: list[dict[str, object]]) -> bool:
    """All our numbers are among theirs, row by row; there, rows of one update are one."""
    merged: dict[object, dict[str, object]] = {}
    for row in ours:
        merged.setdefault(row["update"], {}).update({key: value for key, value in row.items() if value is not None})
    return len(merged) == len(theirs) and all(
        all(other[key] == value for key, value in row.items())
        for row, other in zip(merged.values(), theirs, strict=True)
    )


def events(run: Path, kind: str) -> list[dict[str, object]]:
    return [event for event in RunFolder(run).read_events() if event["kind"] == kind]


# ---------------------------------------------------------------- runs


def test_a_run_and_its_resume_are_one_run_there(tmp_path: Path) -> None:
    given = {"mode": "offline", "project": "fish", "tags": ["quick"], "notes": "two parts"}
    before = children(os.getpid())
    settings = experiment(3, wandb=given, notify=["true --token=s3cret"])
    first = train.train(settings, trial="one", root=tmp_path, on="inline", quiet=True)
    train.resume("pond", "one", overrides=["stop.updates=5"], root=tmp_path, on="inline", quiet=True)
    run, files = first.folder, parts(first.folder)
    assert len(files) == 2
    assert [len(rows(file)) for file in files] == [3, 2]
    assert same(written(run), [row for file in files for row in rows(file)])
    assert [row["_step"] for file in files for row in rows(file)] == [1, 2, 3, 4, 5]
    about = [described(file) for file in files]
    assert {each.run_id for each in about} == {json.loads((run / "wandb.json").read_text())["id"]}
    last = about[-1]
    assert (last.project, last.run_group, last.display_name, last.job_type) == ("fish", "pond", "one", "training")
    assert (list(last.tags), last.notes) == (["quick"], "two parts")
    config = {item.key: json.loads(item.value_json) for item in last.config.update}
    assert config["algorithm"]["unroll"] == 16
    assert config["provenance"]["launcher"] == "inline"
    assert b"s3cret" not in b"".join(file.read_bytes() for file in files), "commands may hold secrets"
    assert all(path.stat().st_mode & 0o077 == 0 for path in (run / "wandb").rglob("*"))
    assert not [child for child in children(os.getpid()) - before if lives(child)]


def test_evaluations_are_drawn_over_their_own_steps_with_film_and_table(tmp_path: Path) -> None:
    pytest.importorskip("av", reason="`shoal[video]` is not installed")
    pytest.importorskip("pygame", reason="`shoal[video]` is not installed")
    values = experiment(6, wandb="offline").model_dump()
    always = "0.001s"  # a film of each: how fast the machine is must not matter
    values["evaluation"] = {"every": "3 updates", "episodes": 2, "video": always}
    outcome = train.train(Experiment.parse(values), trial="one", root=tmp_path, on="inline", quiet=True)
    (file,) = parts(outcome.folder)
    over = {record.metric.name: record.metric.step_metric for record in records(file) if record.HasField("metric")}
    assert over["eval/mean_reward"] == "eval/steps"
    assert over["rollout/ep_rew_mean"] == over["train/loss"] == "step"
    history = rows(file)
    assert same(written(outcome.folder), history)
    ours = {path.read_bytes() for path in outcome.folder.glob("videos/*.mp4")}
    assert {path.read_bytes() for path in (file.parent / "files").rglob("*.mp4")} == ours
    shown = json.dumps([row["eval/video"] for row in history if "eval/video" in row])
    assert [f"version {version}" in shown for version in (3, 6)] == [True, True]
    (table,) = [row["eval/scores"] for row in history if "eval/scores" in row]
    scores = json.loads((file.parent / "files" / table["path"]).read_text())
    assert scores["columns"][:3] == ["version", "steps", "mean_reward"]
    assert [line[0] for line in scores["data"]] == [each["version"] for each in events(outcome.folder, "evaluation")]


def test_without_a_key_a_run_goes_on_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    outcome = train.train(experiment(3, wandb="online"), trial="one", root=tmp_path, on="inline", quiet=True)
    (file,) = parts(outcome.folder)
    assert "offline-run" in str(file), "nothing is left of the attempt"
    assert same(written(outcome.folder), rows(file))
    (note,) = [str(event["text"]) for event in events(outcome.folder, "note") if "W&B" in str(event["text"])]
    assert "written offline" in note
    assert f"`shoal wandb-push {outcome.folder}`" in note


def test_an_evaluation_by_hand_is_a_run_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = experiment(
        2, wandb={"mode": "online", "project": "fish", "tags": ["quick"]}, notify=["true --token=s3cret"]
    )
    outcome = train.train(experiment(2), trial="one", root=tmp_path, on="inline", quiet=True)
    run = outcome.folder
    RunFolder(run).write_config(values.model_dump())
    options: dict[str, Any] = {"checkpoint": "latest", "against": None, "openings": None}
    evaluate.run(str(run), [], json=True, wandb="offline", stochastic=True, episodes=3, seed=7, **options)
    said = capsys.readouterr()
    document = json.loads(said.out)
    (file,) = parts(run)
    assert f"W&B: offline; send it by `wandb sync {file.parent}`" in said.err
    about = described(file)
    assert (about.project, about.run_group, about.display_name) == ("fish", "pond", "one@2")
    assert (about.job_type, list(about.tags)) == ("evaluation", ["quick"])
    (row,) = rows(file)
    assert (row["eval/mean_reward"], row["eval/episodes"], row["eval/steps"]) == (
        document["mean_return"],
        3,
        outcome.steps,
    )
    assert row["eval/ci_low"] < row["eval/mean_reward"] < row["eval/ci_high"]
    table = json.loads((file.parent / "files" / row["eval/table"]["path"]).read_text())
    assert table["columns"] == ["episode", "return", "length"]
    assert sum(line[1] for line in table["data"]) / 3 == pytest.approx(document["mean_return"])
    config = {item.key: json.loads(item.value_json) for item in about.config.update}
    evaluated = {key: config["evaluated"][key] for key in ("run", "version", "seed", "stochastic", "wandb_id")}
    assert evaluated == {"run": "pond/one", "version": 2, "seed": 7, "stochastic": True, "wandb_id": None}
    assert b"s3cret" not in file.read_bytes()
    assert not (run / "wandb.json").exists(), "the run itself is not there"


def test_games_of_an_evaluation_are_a_table() -> None:
    match = Match("past", {"red": "main", "blue": "past@4"}, {"red": 1.0, "blue": -1.0}, ["red"])
    columns, games = table_of(Scores([1.0], [9], matches=[match]))
    assert dict(zip(columns, games[0], strict=True)) == {
        "episode": 1, "opponent": "past", "result": "win", "return": 1.0, "as": "red", "against": "past@4",
    }  # fmt: skip


@pytest.mark.slow
def test_without_a_network_nothing_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("WANDB_API_KEY", "0123456789" * 4)
    values = {**experiment(10**6, wandb="online").model_dump(), "stop": {"seconds": 24}}
    outcome = train.train(Experiment.parse(values), trial="one", root=tmp_path, on="inline", quiet=True)
    assert float(str(written(outcome.folder)[0]["time/elapsed"])) < 5, "training does not wait"
    (began,) = [datetime.fromisoformat(str(event["time"])) for event in events(outcome.folder, "start")]
    (said,) = [event for event in events(outcome.folder, "note") if "no answer in 14 s" in str(event["text"])]
    assert (datetime.fromisoformat(str(said["time"])) - began).total_seconds() < 60, "20 on a quiet machine"
    (file,) = parts(outcome.folder)
    assert same(written(outcome.folder), rows(file))


@pytest.mark.slow
def test_a_killed_run_is_written_to_its_last_row_and_nobody_is_left(tmp_path: Path) -> None:
    words = ["train", "cartpole", "--trial", "one", "--on", "inline", "--wandb", "offline", *ENDLESS]
    run, deadline = tmp_path / "runs" / "cartpole" / "one", time.monotonic() + 60
    with start(*words, cwd=tmp_path) as main:
        while not parts(run) and time.monotonic() < deadline:
            time.sleep(0.05)
        others = below(main.pid)
        main.kill()
    assert len(others) == 2, "the writer and W&B's service"
    while any(map(lives, others)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(lives, others))
    (file,) = parts(run)
    assert same(written(run), rows(file))
    assert [record.exit.exit_code for record in records(file) if record.HasField("exit")] == [1]


# ---------------------------------------------------------------- the sink alone


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    folder = RunFolder.create(tmp_path, "pond", "one")
    folder.write_config({"env": {"id": "CartPole-v1"}, "log": {"notify": ["false"]}})
    return folder


def write(folder: RunFolder, *updates: int) -> None:
    for update in updates:
        append_line(folder.metrics, {"step": 10 * update, "update": update, "rollout/ep_rew_mean": 1.5 * update})


def test_a_writer_that_stands_still_holds_up_nobody_and_is_made_up_for(folder: RunFolder) -> None:
    told: list[str] = []
    sink = WandbSink(folder, WandbConfig(), "offline", told.append, told.append)
    os.kill(sink.companion.pid, signal.SIGSTOP)
    began = time.monotonic()
    for update in range(1, 2001):
        write(folder, update)
        sink.poll()
    sink.end(0)
    sink.wait(0.5)
    sink.say_missing()
    assert time.monotonic() - began < 10
    push = f"`shoal wandb-push {folder.path}`"
    assert told == [f"W&B: 2,000 rows did not reach it within 0.5 s: send them by {push}"]
    assert events(folder.path, "wandb")[0]["dropped"] == 2000
    assert not lives(sink.companion.pid)
    write(folder, 2001)
    sink = WandbSink(folder, WandbConfig(), "offline", told.append, told.append)
    sink.end(0)
    sink.wait(30)
    sink.say_missing()
    assert [row["update"] for row in rows(parts(folder.path)[-1])] == list(range(1, 2002))
    assert "at" not in json.loads(folder.wandb.read_text())


def test_a_writer_that_dies_is_said_at_once(folder: RunFolder) -> None:
    told: list[str] = []
    sink = WandbSink(folder, WandbConfig(), "offline", told.append, told.append)
    with closing(sink.companion):
        os.kill(sink.companion.pid, signal.SIGKILL)
        while sink.companion.lives:
            sink.poll()
        sink.poll()
    assert [line.partition(":")[2] for line in told] == [
        f" its writer died, and the run goes on without it: {folder.logs}/wandb.log says why"
    ]


def test_variables_say_what_the_settings_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    assert wandb_mode(None) is None
    assert wandb_mode(WandbConfig()) == "online"
    monkeypatch.setenv("WANDB_MODE", "dryrun")
    assert wandb_mode(WandbConfig()) == "offline"
    monkeypatch.setenv("WANDB_MODE", "disabled")
    assert wandb_mode(WandbConfig()) is None
    assert wandb_mode(WandbConfig(mode="offline")) == "offline"
    monkeypatch.setenv("WANDB_MODE", "sometimes")
    with pytest.raises(InputError, match="WANDB_MODE = sometimes: choose from online, offline, disabled"):
        wandb_mode(WandbConfig())


def test_the_project_of_the_environment(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_PROJECT", "lake")
    monkeypatch.setenv("WANDB_RUN_GROUP", "carps")
    write(folder, 1)
    sink = WandbSink(folder, WandbConfig(), "offline", print, print)
    sink.end(0)
    sink.wait(30)
    about = described(parts(folder.path)[0])
    assert (about.project, about.run_group) == ("lake", "carps")


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(wandb_sink.metadata, "version", nothing)
    with pytest.raises(InputError, match=r"pip install 'shoal\[wandb\]'"):
        require_wandb(WandbConfig())
    require_wandb(WandbConfig(mode="disabled"))
    require_wandb(None)


def test_short_forms() -> None:
    assert LogConfig.parse({"wandb": "offline"}).wandb == WandbConfig(mode="offline")
    assert LogConfig.parse({"wandb": True}).wandb == WandbConfig()
    assert LogConfig.parse({"wandb": False}).wandb is None
    with pytest.raises(InputError, match=r"wandb\.mode = 'sometimes'"):
        LogConfig.parse({"wandb": "sometimes"})


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"id": "../up"}', '{"id": 7}'])
def test_a_damaged_id_is_refused(folder: RunFolder, text: str) -> None:
    folder.wandb.write_text(text)
    with pytest.raises(ShoalError, match=r"wandb\.json is damaged"):
        read_kept(folder)


# ---------------------------------------------------------------- with a server


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[WandbServer]:
    with wandb_server() as server:
        monkeypatch.setenv("WANDB_BASE_URL", server.url)
        monkeypatch.setenv("WANDB_API_KEY", "0123456789" * 4)
        yield server


def updates(server: WandbServer, run: RunFolder) -> list[object]:
    return [row["update"] for row in server.history[json.loads(run.wandb.read_text())["id"]]]


@pytest.mark.slow
def test_a_run_online_its_resume_and_what_is_pushed_are_one(folder: RunFolder, server: WandbServer) -> None:
    told: list[str] = []
    for part in ((1, 2, 3), (4, 5)):
        sink = WandbSink(folder, WandbConfig(project="fish"), "online", told.append, told.append)
        write(folder, *part)
        sink.end(0)
        sink.wait(30)
        sink.say_missing()
    assert told == [f"W&B: {server.url}/me/fish/runs/{json.loads(folder.wandb.read_text())['id']}"] * 2
    assert updates(server, folder) == [1, 2, 3, 4, 5]
    write(folder, 6)
    assert push(folder, None, told.append) == 6
    assert updates(server, folder) == [1, 2, 3, 4, 5, 6], "and no row twice"
    (bucket,) = server.buckets.values()
    assert (bucket["groupName"], bucket["displayName"], bucket["project"]) == ("pond", "one", "fish")


@pytest.mark.slow
def test_a_push_without_a_server_fails(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    write(folder, 1)
    with pytest.raises(ShoalError, match="pond/one: W&B did not take all of it: UsageError: No API key"):
        push(folder, None, print)
    folder.lock()
    with pytest.raises(InputError, match="pond/one is being trained"):
        push(folder, None, print)
    folder.unlock()


@pytest.mark.slow
def test_the_stop_button_is_an_order_to_stop(tmp_path: Path, server: WandbServer) -> None:
    """W&B's client looks every 15 s."""
    server.stop = True
    values = {**experiment(10**6, wandb="online").model_dump(), "stop": {"seconds": 100}}
    outcome = train.train(Experiment.parse(values), trial="one", root=tmp_path, on="inline", quiet=True)
    assert outcome.reason == "stopped in W&B"
    assert not outcome.interrupted
    assert list((outcome.folder / "checkpoints").glob("[0-9]*"))
    assert [event["by"] for event in events(outcome.folder, "order")] == ["W&B"]
    assert same(written(outcome.folder), next(iter(server.history.values())))
    assert server.exits == [0]
