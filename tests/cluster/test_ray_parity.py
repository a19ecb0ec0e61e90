"""What one launcher can, all can: evaluation, curricula, buffer workers, own workers and exact resume on three machines."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from nodes import Cluster
from test_ray_runs import (  # noqa: F401 (fixtures)
    SHOAL,
    SPREAD,
    assert_balanced,
    cluster,
    lines,
    run_of,
    trained,
    until,
    weights,
)  # fmt: skip

from shoal.api.experiment import load_experiment
from shoal.checkpoints.store import CheckpointStore
from shoal.checkpoints.worker_state import state_of
from shoal.recipes import find
from shoal.runs.train import resume, train

pytestmark = [pytest.mark.usefixtures("_has_ray"), pytest.mark.timeout(600)]

THREE = [*SPREAD, "placement.actors=3"]


def places(run: Path) -> dict[str, str]:
    """Process -> the machine it was placed on."""
    return {line["process"]: line["node"] for line in lines(run / "events.jsonl") if line["kind"] == "placed"}


@pytest.mark.slow
def test_evaluation_beside_training(cluster: Cluster, tmp_path: Path) -> None:  # noqa: F811
    run = trained(cluster, tmp_path, "scored", *THREE, "evaluation.every=4 updates", "evaluation.episodes=8",
                  "stop.updates=12", "stop.return=null")  # fmt: skip
    scores = [line for line in lines(run / "events.jsonl") if line["kind"] == "evaluation"]
    assert scores
    assert scores[-1]["version"] == 12, "the last version is scored too"
    assert "best" in CheckpointStore(run / "checkpoints").tags()
    assert len(set(places(run).values())) == 3
    assert_balanced(run)


@pytest.mark.slow
def test_ppo_reaches_its_bar_with_evaluation_beside_training(cluster: Cluster, tmp_path: Path) -> None:  # noqa: F811
    run = trained(cluster, tmp_path, "bar", "placement.actors=4", "placement.cluster.strategy=spread",
                  "evaluation.every=20 updates", "evaluation.episodes=20")  # fmt: skip
    scores = [line["mean_reward"] for line in lines(run / "events.jsonl") if line["kind"] == "evaluation"]
    print(f"cartpole on three machines, evaluated beside training: {scores}")
    assert scores
    end = next(line for line in lines(run / "events.jsonl") if line["kind"] == "stop")
    assert "stop.return = 475 reached" in end["reason"], end
    assert len(set(places(run).values())) == 3


@pytest.mark.slow
def test_a_curriculum(cluster: Cluster, tmp_path: Path) -> None:  # noqa: F811
    run = trained(cluster, tmp_path, "staged", "placement.actors=2", "placement.cluster.strategy=spread",
                  recipe="deep-sea-stages")  # fmt: skip
    stages = [line["stage"] for line in lines(run / "events.jsonl") if line["kind"] == "stage"]
    assert stages == sorted(set(stages))
    assert len(stages) >= 2
    end = next(line for line in lines(run / "events.jsonl") if line["kind"] == "stop")
    assert "stop.return" in end["reason"], end


@pytest.mark.slow
def test_buffer_workers_on_another_machine_than_the_trainer(cluster: Cluster, tmp_path: Path) -> None:  # noqa: F811
    run = trained(cluster, tmp_path, "replayed", "placement.actors=2", "placement.buffers=2",
                  "placement.cluster.strategy=spread", "stop.steps=100_000", recipe="cartpole-dqn")  # fmt: skip
    at = places(run)
    buffers = {machine for process, machine in at.items() if process.startswith("buffer")}
    assert buffers - {at["trainer"]}, at
    assert_balanced(run)
    end = next(line for line in lines(run / "events.jsonl") if line["kind"] == "stop")
    assert "stop.return = 475 reached" in end["reason"], end


def halver(folder: Path) -> str:
    """The worker of the documentation page, every second instead of every ten, as a word of the command line."""
    page = Path(__file__).parents[2] / "docs" / "tasks" / "your-own-worker.md"
    (code,) = re.findall(r'```python title="halver.py"\n(.*?)```', page.read_text(), re.S)
    (folder / "halver.py").write_text(code.replace("self.last < 10", "self.last < 1"))
    return "workers={halver: " + f"{folder}/halver.py:HalverSpec" + "}"


@pytest.mark.slow
def test_a_worker_of_ones_own_is_killed(run_of: Callable[..., Any], cluster: Cluster, tmp_path: Path) -> None:  # noqa: F811
    run, _ = run_of("killed", *THREE, halver(tmp_path))

    def seen() -> dict[str, Any]:
        asked = [*SHOAL, "status", str(run), "--json"]
        status: str = until(lambda: cluster.run(1, asked, cwd=tmp_path).stdout, "an answer")
        return next(line for line in json.loads(status)["workers"] if line["name"] == "halver")

    before = seen()
    assert cluster.run(cluster.addresses.index(before["node"]), ["kill", "-KILL", str(before["pid"])]).returncode == 0
    until(lambda: seen()["restarts"] == 1 and seen()["state"] == "alive", "it is started again")
    orders = len(rates(run))
    until(lambda: len(rates(run)) > orders, "its next life orders again")
    saved = CheckpointStore(run / "checkpoints")
    until(lambda: state_of(saved.latest(), "halver")["rate"] == rates(run)[-1], "its next life is saved")


def rates(run: Path) -> list[float]:
    return [line["lr"] for line in lines(run / "events.jsonl") if line["kind"] == "reconfigured"]


@pytest.mark.slow
def test_a_worker_of_ones_own(cluster: Cluster, tmp_path: Path) -> None:  # noqa: F811
    run = trained(
        cluster, tmp_path, "own", *THREE, halver(tmp_path), "stop.seconds=15", "stop.steps=null", "stop.return=null"
    )
    assert rates(run)[:3] == [5e-4, 2.5e-4, 1.25e-4]
    kept = state_of(CheckpointStore(run / "checkpoints").latest(), "halver")
    assert kept["rate"] == rates(run)[-1]
    assert kept["episodes"] > 0


@pytest.mark.slow
def test_an_exact_run_is_resumed_to_the_bit(cluster: Cluster, tmp_path: Path) -> None:  # noqa: F811
    words = [*THREE, "placement.max_lag=0", "stop.return=null"]
    trained(cluster, tmp_path, "far", *words, "stop.updates=3")
    far = trained(cluster, tmp_path, "far", "--resume", "stop.updates=6")
    near = train(
        load_experiment(find("cartpole"), [*words, "stop.updates=6"]), trial="near", root=tmp_path / "runs", on="inline",
        quiet=True,
    )  # fmt: skip
    assert weights(far) == weights(near.folder)
    resume("cartpole", "far", root=tmp_path / "runs", on="inline", quiet=True, overrides=["stop.updates=8"])
    resume("cartpole", "near", root=tmp_path / "runs", on="inline", quiet=True, overrides=["stop.updates=8"])
    assert weights(far) == weights(near.folder)


@pytest.mark.slow
def test_averaging_between_machines(cluster: Cluster, tmp_path: Path) -> None:  # noqa: F811
    run = trained(cluster, tmp_path, "mixed", "placement.cluster.strategy=spread", recipe="cartpole-a4c")
    end = next(line for line in lines(run / "events.jsonl") if line["kind"] == "stop")
    assert "stop.return = 475 reached" in end["reason"], end
    assert len({machine for process, machine in places(run).items() if process.startswith("trainer")}) == 2


@pytest.mark.slow
def test_weights_and_biases_and_commands_beside_the_controller(cluster: Cluster, tmp_path: Path) -> None:  # noqa: F811
    pytest.importorskip("wandb", reason="an extra: `shoal[wandb]`")
    from tests.monitoring.wandb_files import described, parts, rows

    told = tmp_path / "told"
    notify = json.dumps([["sh", "-c", 'echo "$SHOAL_EVENT $SHOAL_RUN $SHOAL_UPDATE" >> ' + str(told)]])
    words = [*THREE, "stop.updates=6", "stop.return=null", "--wandb", "offline", f"log.notify={notify}"]
    run = trained(cluster, tmp_path, "shown", *words, env={"WANDB_PROJECT": "far"})
    (file,) = parts(run)
    assert [row["update"] for row in rows(file)] == [1, 2, 3, 4, 5, 6]
    assert described(file).project == "far", "what the driver's environment says"
    assert told.read_text() == "end cartpole/shown 6\n"
