"""An evaluation that was asked for by hand, shown in Weights & Biases: scores in, a run of its own there out."""

from __future__ import annotations

import json
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

from shoal.api.evaluation import Scores
from shoal.api.experiment import WandbConfig
from shoal.base.errors import ShoalError
from shoal.base.files import as_typed
from shoal.checkpoints.store import CheckpointStore
from shoal.evaluation.scoreboard import columns_of
from shoal.monitoring.companion import Companion
from shoal.monitoring.run_folder import RunFolder
from shoal.monitoring.sinks import EVALUATED_AT
from shoal.monitoring.wandb_sink import Tell, new_id, read_kept, shown_as

PATIENCE = 60.0
"""Seconds that W&B has to take it: 14 for an answer, 25 to send it, and some to start."""
ROWS = 10_000
"""Episodes in the table: W&B shows no more."""


def record(
    folder: RunFolder, config: WandbConfig, mode: str, scores: Scores, version: int, how: dict[str, Any], tell: Tell
) -> None:
    """`how`: what it was asked for with. Fails where W&B took nothing."""
    about = shown_as(folder, config)
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(_document(folder, scores, version, how), file)
        file.flush()
        order = {
            **about, "id": new_id(), "mode": mode, "name": f"{folder.trial}@{version}", "job_type": "evaluation",
            "document": file.name, "must_send": False,
        }  # fmt: skip
        with closing(Companion("shoal.monitoring.wandb_evaluation", order, folder.logs / "wandb.log")) as companion:
            said: dict[str, Any] = {}
            for message in companion.wait(PATIENCE):
                said |= message
    if "ended" not in said:
        why = said.get("failed") or f"{as_typed(folder.logs)}/wandb.log says why"
        raise ShoalError(f"the evaluation is not in W&B: {why}")
    _say_where(said, tell)


def _say_where(said: dict[str, Any], tell: Tell) -> None:
    sync = f"send it by `wandb sync {as_typed(Path(said['files']))}`"
    if said["why"] is not None:
        tell(f"W&B is out of reach, so the evaluation is written offline ({said['why']}): {sync}")
    elif not said["ended"]:
        tell(f"W&B: not all of it was sent: {sync}")
    else:
        tell(f"W&B: {said['begun'] or f'offline; {sync}'}")


def _document(folder: RunFolder, scores: Scores, version: int, how: dict[str, Any]) -> dict[str, Any]:
    manifest, _ = CheckpointStore(folder.checkpoints).inspect(version)
    steps = manifest["meta"]["steps"] if manifest is not None else None
    kept = read_kept(folder) or {}
    evaluated = {"run": folder.name, "wandb_id": kept.get("id"), "version": version, "steps": steps, **how}
    at = {EVALUATED_AT: steps} if steps is not None else {}
    columns, episodes = table_of(scores)
    return {
        "config": {**folder.read_config(how["overrides"]), "evaluated": evaluated}, "columns": columns,
        "episodes": episodes[:ROWS], "scores": {**columns_of(scores), "eval/version": version, **at},
    }  # fmt: skip


def table_of(scores: Scores) -> tuple[list[str], list[list[Any]]]:
    """A row per episode; against opponents, a row per game."""
    if not scores.matches:
        pairs = zip(scores.returns, scores.lengths, strict=True)
        return ["episode", "return", "length"], [[number, *pair] for number, pair in enumerate(pairs, 1)]
    games = [
        [number, match.opponent, match.result, match.total, ", ".join(match.own), _others(match.players, match.own)]
        for number, match in enumerate(scores.matches, 1)
    ]
    return ["episode", "opponent", "result", "return", "as", "against"], games


def _others(players: dict[str, str], own: list[str]) -> str:
    return ", ".join(dict.fromkeys(player for agent, player in players.items() if agent not in own))
