"""Episodes on disk, for numpy and pandas: `rollout.json`, `episodes.csv`, and an npz of plain arrays for each. No pickle.

`rollout.json` is written last: where it is, all of them are there and whole.
"""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np

from shoal.api.env import Env
from shoal.base.errors import InputError
from shoal.base.files import as_typed, make_folder, write_atomic
from shoal.evaluation.recorder import Record
from shoal.rollout.seat import Seat

FORMAT = 1
SUMMARY, TABLE = "rollout.json", "episodes.csv"


class EpisodeFiles:
    """One folder. What an earlier rollout left in it goes; what else lies there stays."""

    def __init__(self, folder: Path, *, seed: int, scored: list[str], env: Env, seats: list[Seat]) -> None:
        self.folder, self._seed, self._scored = folder, seed, scored
        self._groups = {name: group.agents for name, group in env.groups.items()}
        self._players = [seat.policy for seat in seats]
        self._rows: dict[int, dict[str, Any]] = {}
        try:
            make_folder(folder)
            for pattern in (SUMMARY, TABLE, "episode-*.npz", "episode-*.mp4"):
                for old in folder.glob(pattern):
                    old.unlink()
        except OSError as error:
            raise InputError(
                f"--out = '{as_typed(folder)}': no episodes can be written there: {error.strerror}"
            ) from None

    def path_of(self, number: int, kind: str) -> Path:
        """Of an episode's arrays (`npz`) or video (`mp4`)."""
        return self.folder / f"episode-{number:05d}.{kind}"

    def write(self, record: Record) -> None:
        """An episode that ended."""
        packed = io.BytesIO()
        np.savez_compressed(packed, allow_pickle=False, **record.arrays)
        write_atomic(self.path_of(record.number, "npz"), packed.getvalue())
        self._rows[record.number] = self._row(record)

    def finish(self, summary: dict[str, Any]) -> None:
        """All were written."""
        rows = [self._rows[number] for number in sorted(self._rows)]
        names = list(dict.fromkeys(name for row in rows for name in row))
        table = io.StringIO()
        writer = csv.DictWriter(table, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        write_atomic(self.folder / TABLE, table.getvalue())
        write_atomic(self.folder / SUMMARY, json.dumps({"format": FORMAT, **summary}, indent=2) + "\n")

    def _row(self, record: Record) -> dict[str, Any]:
        episode = record.episode
        earned = {policy: float(returns.sum()) for policy, returns in episode.played.items() if len(returns)}
        return {
            "episode": record.number,
            "seed": self._seed,
            "copy": episode.row,
            "length": episode.length,
            "terminated": record.ended("terminated"),
            "truncated": record.ended("truncated"),
            "return": sum(earned.get(policy, 0.0) for policy in self._scored),
            **{f"return/{policy}": value for policy, value in earned.items()},
            **self._who(record),
            **{f"info/{name}": value for name, value in episode.metrics.items()},
        }

    def _who(self, record: Record) -> dict[str, str]:
        """Agent -> who played it, where there are several."""
        if sum(map(len, self._groups.values())) < 2:
            return {}
        return {
            f"player/{agent}": self._players[number]
            for group, agents in self._groups.items()
            for agent, number in zip(agents, record.arrays[f"{group}/policy"], strict=True)
        }
