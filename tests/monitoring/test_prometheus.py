"""What Prometheus is told of a run: the page, who may hold it up, where runs are found, and that the numbers are true."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal.api.callback import Callback, UpdateEvent
from shoal.api.experiment import Experiment, PrometheusConfig
from shoal.api.metric import Total
from shoal.base.errors import InputError
from shoal.cli.train_command import with_value
from shoal.monitoring.prometheus import Exporter, Standing, Watched
from shoal.monitoring.run_counts import RunCounts
from shoal.monitoring.run_folder import RunFolder
from shoal.monitoring.service_discovery import Announcement
from tests.monitoring.watching import (
    NO_PROMETHEUS,
    NO_PROMTOOL,
    Prometheus,
    entries,
    fetch,
    prometheus,
    training,
    until,
)

pytest.importorskip("prometheus_client", reason="an extra: prometheus")

SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$")
FAST = {"algorithm": {"name": "ppo", "unroll": 16, "minibatch": 64}, "log": {"prometheus": {"port": 0}}}


def samples(page: str) -> dict[str, dict[str, float]]:
    """Name -> labels as written -> value."""
    found: dict[str, dict[str, float]] = {}
    for line in page.splitlines():
        if match := SAMPLE.match(line):
            found.setdefault(match[1], {})[match[2] or ""] = float(match[3])
    return found


class Scraper(Callback):
    """Asks for the page at every row, from the thread that trains."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.rows: list[dict[str, Any]] = []
        self.pages: list[str] = []

    def on_update(self, event: UpdateEvent) -> None:
        (target,) = entries(self.root).values()
        self.rows.append(event.metrics)
        self.pages.append(fetch(f"http://{target}/metrics"))


def watched(root: Path, on: str = "inline", **settings: Any) -> Scraper:
    """A short run, scraped at every row."""
    scraper = Scraper(root)
    experiment = Experiment.parse({**FAST, "stop": {"updates": 6}, "name": "watched", **settings})
    shoal.train(experiment, root=root, on=on, quiet=True, callbacks=[scraper])
    return scraper


# ---------------------------------------------------------------- the page


@NO_PROMTOOL
def test_the_page_says_what_the_row_says_and_lints(tmp_path: Path) -> None:
    evaluation = {"every": "2 updates", "episodes": 4}
    env = {"id": "shoal/cut", "num_envs": 8}
    run = watched(tmp_path, env=env, evaluation=evaluation, checkpoint={"every": "2 updates"})
    page, row = samples(run.pages[-1]), {name: value for each in run.rows for name, value in each.items()}
    assert page["shoal_env_steps_total"][""] == row["step"]
    assert page["shoal_updates_total"][""] == row["update"] == 6
    assert page["shoal_policy_version"]['policy="agent"'] == 6
    assert page["shoal_update_seconds_count"]['policy="agent"'] == 6
    spent = sum(each.get("time/train", 0) for each in run.rows)
    assert page["shoal_update_seconds_sum"]['policy="agent"'] == pytest.approx(spent)
    assert page["shoal_episode_return"]['policy="agent"'] == pytest.approx(row["rollout/ep_rew_mean"])
    assert page["shoal_policy_lag_versions"]['policy="agent"'] == row["train/lag"]
    waits = row["time/actor_waited_input"] + row["time/actor_waited_slot"]
    assert page["shoal_worker_wait_ratio"]['kind="actor"'] == pytest.approx(waits)
    assert page["shoal_rows_dropped_total"] == {f'reason="{reason}"': 0 for reason in REASONS}
    assert page["shoal_worker_restarts_total"].keys() == {f'kind="{k}"' for k in ("actor", "trainer", "evaluation")}
    assert page["shoal_evaluation_score"][""] == row["eval/mean_reward"]
    assert page["shoal_disk_size_bytes"][""] > page["shoal_disk_free_bytes"][""] > 0
    now = time.time()
    assert now - 60 < page["shoal_last_update_timestamp_seconds"][""] < now
    assert now - 60 < page["shoal_checkpoint_timestamp_seconds"][""] < now
    (info,) = page["shoal_run_info"]
    assert 'env="shoal/cut"' in info
    assert 'run="watched/' in info
    assert not [name for name in page if not name.startswith("shoal_")], "none of Python's own"
    done = subprocess.run(["promtool", "check", "metrics"], input=run.pages[-1], capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


REASONS = ("stale", "not_finite", "lost", "surplus", "forgotten")


def test_every_policy_has_its_own(tmp_path: Path) -> None:
    run = watched(tmp_path, env={"id": "shoal/signal", "num_envs": 8})
    page, row = samples(run.pages[-1]), run.rows[-1]
    for policy in ("speaker", "listener"):
        assert page["shoal_policy_version"][f'policy="{policy}"'] == row[f"train/{policy}/version"]
        assert page["shoal_episode_return"][f'policy="{policy}"'] == pytest.approx(
            row[f"rollout/{policy}/agent_return"]
        )
        assert page["shoal_policy_lag_versions"][f'policy="{policy}"'] == row[f"train/{policy}/lag"]


def test_a_league_is_told(tmp_path: Path) -> None:
    game = {
        "env": {"id": "shoal/rps", "num_envs": 16},
        "league": {"match": "uniform", "freeze": {"steps": 256}, "games": 8},
    }
    run = watched(tmp_path, **game, stop={"updates": 12})
    page, row = samples(run.pages[-1]), {name: value for each in run.rows for name, value in each.items()}
    assert page["shoal_league_members"][""] == row["league/members"] > 1
    assert page["shoal_league_matches_total"][""] == row["league/matches"] > 0
    (player,) = page["shoal_league_rating"]
    assert player.startswith('player="')
    assert page["shoal_league_rating"][player] == row["league/rating"]
    assert page["shoal_league_rating_error"][player] == row["league/rating_error"]


def test_replay_is_counted(tmp_path: Path) -> None:
    algorithm = {"name": "dqn", "unroll": 16, "warmup": 100}
    run = watched(tmp_path, env={"id": "shoal/cut", "num_envs": 8}, algorithm=algorithm)
    assert samples(run.pages[-1])["shoal_replay_rows"][""] == run.rows[-1]["rows/held"] > 0


def test_a_worker_that_died_is_counted_by_its_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_FAULT", "actor-0@step=40:kill")
    run = watched(tmp_path, "local", env={"id": "shoal/cut", "num_envs": 8}, placement={"actors": 1, "max_lag": 1})
    restarts = samples(run.pages[-1])["shoal_worker_restarts_total"]
    assert restarts['kind="actor"'] == 1
    assert restarts.get('kind="trainer"', 0) == sum(each.get("rollout/restarts", 0) for each in run.rows) - 1


def test_a_batch_that_was_not_finite_is_counted() -> None:
    counts = RunCounts(["agent"])
    counts.told({"train/dropped_not_finite": Total(128)})
    counts.told({"train/undone_rounds": Total(1)})
    counts.told({"train/rows": Total(128)})
    assert counts.not_finite_batches == 2


# ---------------------------------------------------------------- who may hold it up


def exporter(tmp_path: Path) -> Exporter:
    counts = RunCounts(["agent"])
    now = Standing(steps=8, updates=1, versions={"agent": 1}, paused=False, counts=counts, best=None)
    return Exporter(PrometheusConfig(port=0), Watched(tmp_path, {"run": "a/b"}, ("agent",), ("actor",), 8, lambda: now))


def test_stuck_clients_hold_up_neither_scrapes_nor_the_end(tmp_path: Path) -> None:
    server = exporter(tmp_path)
    host, port = server.target.split(":")
    stuck = [socket.create_connection((host, int(port))) for _ in range(20)]
    for client in stuck[:10]:
        client.sendall(b"GET /metrics HT")
    assert "shoal_env_steps_total 8.0" in fetch(server.url)
    began = time.monotonic()
    server.close()
    assert time.monotonic() - began < 2
    for client in stuck:
        client.close()


def test_a_port_in_use_is_one_line_before_anything_is_written(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        experiment = Experiment(env="CartPole-v1", log={"prometheus": {"port": port}})  # type: ignore[arg-type]
        with pytest.raises(InputError, match=rf"^log\.prometheus\.port = {port} is in use[^\n]*0 for any") as caught:
            shoal.train(experiment, root=tmp_path / "runs", on="inline", quiet=True)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("address", ["203.0.113.7", "no such address"])
def test_an_address_of_others_is_one_line(tmp_path: Path, address: str) -> None:
    experiment = Experiment(env="CartPole-v1", log={"prometheus": {"address": address}})  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"^log\.prometheus\.address = [^\n]*use 127\.0\.0\.1"):
        shoal.train(experiment, root=tmp_path, on="inline", quiet=True)


def test_a_missing_extra_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    experiment = Experiment(env="CartPole-v1", log={"prometheus": {}})  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"pip install 'shoal\[prometheus\]'$"):
        shoal.train(experiment, root=tmp_path, on="inline", quiet=True)


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("cartpole --prometheus", ["cartpole", "--prometheus", ""]),
        ("--prometheus cartpole", ["--prometheus", "", "cartpole"]),
        ("cartpole --prometheus 9500 seed=3", ["cartpole", "--prometheus", "9500", "seed=3"]),
        ("cartpole --prometheus --on inline", ["cartpole", "--prometheus", "", "--on", "inline"]),
        ("cartpole --on inline", ["cartpole", "--on", "inline"]),
    ],
)
def test_the_port_may_be_omitted(typed: str, read: list[str]) -> None:
    assert with_value(typed.split()) == read


# ---------------------------------------------------------------- where runs are found


def live_folder(root: Path, trial: str) -> RunFolder:
    folder = RunFolder.create(root, "game", trial)
    folder.lock()
    return folder


def test_live_runs_are_found_and_ended_ones_are_not(tmp_path: Path) -> None:
    one, two, killed = (live_folder(tmp_path, trial) for trial in ("one", "two", "killed"))
    first, second = Announcement(one, "127.0.0.1:1"), Announcement(two, "127.0.0.1:2")
    Announcement(killed, "127.0.0.1:3")
    assert entries(tmp_path) == {"game/one": "127.0.0.1:1", "game/two": "127.0.0.1:2", "game/killed": "127.0.0.1:3"}
    killed.unlock()  # as the kernel does for the dead
    first.withdraw()
    assert entries(tmp_path) == {"game/two": "127.0.0.1:2"}
    Announcement(two, "127.0.0.1:4")
    assert entries(tmp_path) == {"game/two": "127.0.0.1:4"}
    second.withdraw()
    assert entries(tmp_path) == {}


def test_runs_of_other_machines_stay(tmp_path: Path) -> None:
    labels = {"experiment": "game", "trial": "far", "machine": "elsewhere"}
    (tmp_path / "prometheus.json").write_text(json.dumps([{"targets": ["elsewhere:1"], "labels": labels}]))
    Announcement(live_folder(tmp_path, "here"), "127.0.0.1:1").withdraw()
    assert entries(tmp_path) == {"game/far": "elsewhere:1"}


def test_a_damaged_file_is_written_anew(tmp_path: Path) -> None:
    (tmp_path / "prometheus.json").write_text('[{"targets": 3}, ')
    Announcement(live_folder(tmp_path, "here"), "127.0.0.1:1")
    assert entries(tmp_path) == {"game/here": "127.0.0.1:1"}


# ---------------------------------------------------------------- a real Prometheus, a live run

CARTPOLE = ("cartpole", "stop.steps=null", "stop.return=null", "stop.seconds=120", "--trial", "live")


STEPS = "shoal_env_steps_total"


def scraped(server: Prometheus, scrapes: int, milliseconds: int, patience: float = 60.0) -> list[tuple[float, float]]:
    """The last `scrapes` of a run's steps, each behind its time, once there are as many of a run that trains."""
    window = f"{(scrapes + 5) * milliseconds}ms"
    until(lambda: server.query(f"{STEPS} > 0"), "some training", patience)
    begun = f"min_over_time({STEPS}[{window}]) > 0 and count_over_time({STEPS}[{window}]) >= {scrapes}"
    until(lambda: server.query(begun), f"{scrapes} scrapes of it")
    return [(at, float(value)) for at, value in server.query(f"{STEPS}[{window}]")[0]["values"][-scrapes:]]


def written(folder: Path) -> list[tuple[float, float]]:
    """The same as its rows say it: steps behind seconds since the run began."""
    lines = (folder / "runs/cartpole/live/metrics.jsonl").read_text().splitlines()
    return [(row["time/elapsed"], row["step"]) for row in map(json.loads, lines)]


@NO_PROMETHEUS
def test_scrapes_are_true_at_their_time(tmp_path: Path) -> None:
    """However busy the machine is: with one moment as the run's beginning, each scrape lies between the rows around it."""
    interval = 0.2
    with prometheus(tmp_path, "200ms") as server, training(tmp_path, *CARTPOLE):
        scrapes = scraped(server, 12, 200)
    rows = [(0.0, 0.0), *written(tmp_path)]
    assert scrapes[0][1] < scrapes[-1][1] <= rows[-1][1]
    # What is read is older than the next row, and was read at its time or at most an interval later.
    earliest = max(at - min(elapsed for elapsed, steps in rows if steps >= value) for at, value in scrapes)
    latest = min(at + interval - max(elapsed for elapsed, steps in rows if steps <= value) for at, value in scrapes)
    assert earliest <= latest
    assert entries(tmp_path / "runs") == {}, "the run ended"


@pytest.mark.slow
@NO_PROMETHEUS
@pytest.mark.parametrize("on", ["inline", "local", "ray"])
def test_rates_agree_with_the_rows(tmp_path: Path, on: str) -> None:
    if on == "ray":
        pytest.importorskip("ray", reason="an extra: cluster")
    with prometheus(tmp_path, "1s") as server, training(tmp_path, *CARTPOLE, on=on):
        values = scraped(server, 20, 1000, 150 if on == "ray" else 60)
        rate = server.query(f"rate({STEPS}[20s])", at=values[-1][0])[0]["value"][1]
    (begin, first), (end, last) = values[0], values[-1]
    rows = [(elapsed, steps) for elapsed, steps in written(tmp_path) if first <= steps <= last]
    (since, fewest), (until_then, most) = rows[0], rows[-1]
    true = (most - fewest) / (until_then - since)
    found = (last - first) / (end - begin)
    print(f"{on}: {len(values)} scrapes, {found:,.0f} steps/s; rate() {float(rate):,.0f}; metrics.jsonl {true:,.0f}")
    assert len(values) == 20
    assert found == pytest.approx(true, rel=0.02)
    assert float(rate) == pytest.approx(true, rel=0.02)
    assert entries(tmp_path / "runs") == {}, "the run ended"


@pytest.mark.slow
@NO_PROMETHEUS
def test_a_killed_run_is_not_scraped_once_another_begins(tmp_path: Path) -> None:
    quick = ("cartpole", "stop.steps=2_000", "stop.return=null", "evaluation=null")
    with training(tmp_path, *CARTPOLE) as process:
        until(lambda: entries(tmp_path / "runs"), "the run is announced")
        process.send_signal(signal.SIGKILL)
        process.wait(10)
        assert entries(tmp_path / "runs").keys() == {"cartpole/live"}
    with training(tmp_path, *quick, "--trial", "next") as process:
        process.wait(60)
    assert entries(tmp_path / "runs") == {}
