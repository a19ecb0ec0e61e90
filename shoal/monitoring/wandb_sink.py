"""A run in Weights & Biases: what the main process knows of it. The work is done in a process of its own, `wandb_writer`."""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Callable
from importlib import metadata
from typing import Any

from shoal.api.experiment import Experiment, WandbConfig
from shoal.base.errors import InputError, ShoalError
from shoal.base.files import as_typed, read_small, write_atomic
from shoal.monitoring.companion import Companion
from shoal.monitoring.jsonl import read_on
from shoal.monitoring.run_folder import RunFolder

PROJECT = "shoal"
MODES = {"online": "online", "offline": "offline", "disabled": "disabled", "run": "online", "dryrun": "offline"}
"""What WANDB_MODE may say, and which of our modes it is."""

Tell = Callable[[str], None]


def wandb_mode(config: WandbConfig | None) -> str | None:
    """`online` or `offline`; None: the run is not to be shown there."""
    if config is None:
        return None
    word = config.mode or os.environ.get("WANDB_MODE") or "online"
    if word not in MODES:
        raise InputError(f"WANDB_MODE = {word}: choose from online, offline, disabled")
    return None if MODES[word] == "disabled" else MODES[word]


def wandb_of(folder: RunFolder, mode: str | None) -> tuple[WandbConfig, str | None]:
    """What a run's settings say of W&B, with another mode on top; and the mode that comes of it."""
    given = Experiment.parse(folder.read_config()).log.wandb or WandbConfig()
    config = WandbConfig.parse({**given.model_dump(), "mode": mode}, at="log.wandb")
    require_wandb(config)
    return config, wandb_mode(config)


def require_wandb(config: WandbConfig | None) -> None:
    """Fail with the remedy where W&B is wanted and the extra is missing."""
    if wandb_mode(config) is None:
        return
    try:
        metadata.version("wandb")
    except metadata.PackageNotFoundError:
        raise InputError("log.wandb needs wandb: pip install 'shoal[wandb]'") from None


def wandb_variables() -> dict[str, str]:
    """What the environment says to W&B: for a controller on a cluster, which has another."""
    return {name: value for name, value in os.environ.items() if name.startswith("WANDB_") and name != "WANDB_SERVICE"}


def new_id() -> str:
    """Of a run that is not in W&B yet."""
    return secrets.token_hex(4)


def shown_as(folder: RunFolder, config: WandbConfig) -> dict[str, Any]:
    """Where in W&B a run of this folder belongs, and how it is described there."""
    group = config.group or (None if os.environ.get("WANDB_RUN_GROUP") else folder.experiment)
    return {
        "folder": str(folder.path.resolve()), "project": config.project or os.environ.get("WANDB_PROJECT") or PROJECT,
        "entity": config.entity, "group": group, "tags": config.tags, "notes": config.notes,
    }  # fmt: skip


class WandbSink:
    """Starts the writer and hears what it says. Rows reach it through `metrics.jsonl`, so nothing waits for it.

    Begun when what an earlier start of the run wrote has its final shape. `stop` takes the reason to end the run.
    """

    def __init__(
        self, folder: RunFolder, config: WandbConfig, mode: str, tell: Tell, stop: Tell, *, replay: bool = False
    ) -> None:
        self._folder, self._tell, self._stop = folder, tell, stop
        self._at = [0, 0]
        self._ends = False
        self._late: float | None = None
        self.failed = f"{as_typed(folder.logs)}/wandb.log says why"
        """Why the writer died."""
        self.sent = True
        """All that W&B was given has left this machine, or is not to."""
        order = self._order(config, mode, replay)
        self.companion = Companion("shoal.monitoring.wandb_writer", order, folder.logs / "wandb.log")

    def _order(self, config: WandbConfig, mode: str, replay: bool) -> dict[str, Any]:
        """An id of its own goes on where it was; a new one, and whoever sends it again, gets the run from its beginning."""
        kept, folder = read_kept(self._folder), self._folder
        ends = [path.stat().st_size if path.exists() else 0 for path in (folder.metrics, folder.events)]
        if kept is not None and not replay:
            self._at = [min(was, end) for was, end in zip(kept.get("at") or ends, ends, strict=True)]
        about = shown_as(folder, config)
        self._kept = {"id": new_id(), "project": about["project"], "entity": about["entity"]} | (kept or {})
        self._kept.pop("at", None)
        write_atomic(folder.wandb, json.dumps(self._kept) + "\n")
        job = "member" if folder.is_member else "training"
        return {
            **about, **self._kept, "mode": mode, "name": folder.trial, "job_type": job, "at": self._at,
            "must_send": replay,
        }  # fmt: skip

    def poll(self) -> None:
        """Take what the writer says. Never waits."""
        if not self.companion.lives:
            return
        self._hear(self.companion.poll())
        if not self.companion.lives and not self._ends:
            self._tell(f"W&B: its writer died, and the run goes on without it: {self.failed}")

    def _hear(self, messages: list[dict[str, Any]]) -> None:
        for said in messages:
            if "at" in said:
                self._at = said["at"]
            elif "begun" in said:
                self._say_where(said["begun"], said["why"])
            elif "stop" in said:
                self._folder.event("order", order="stop", by="W&B")
                self._stop("stopped in W&B")
            elif "failed" in said:
                self.failed = said["failed"]
            elif "ended" in said:
                self.sent = said["ended"]

    def _say_where(self, url: str | None, why: str | None) -> None:
        if why is not None:
            self._tell(f"W&B is out of reach, so the run is written offline ({why}): send it later by {self._push()}")
        else:
            self._tell(f"W&B: {url or f'offline, in {as_typed(self._folder.path)}/wandb; send it by {self._push()}'}")

    def _push(self) -> str:
        return f"`shoal wandb-push {as_typed(self._folder.path)}`"

    def end(self, code: int) -> None:
        """Nothing more will come: let the writer finish."""
        self._ends = True
        self.companion.send({"end": code})

    def wait(self, seconds: float) -> None:
        """Until the writer has finished, or the time is over."""
        self._hear(self.companion.wait(seconds))
        self._late = seconds if self.companion.lives else None
        self.companion.close()

    def say_missing(self) -> None:
        """What W&B did not get is counted and said aloud, and the next start of the run goes on from there."""
        missing = self.missing()
        if not missing and self.sent and self._late is None:
            return
        write_atomic(self._folder.wandb, json.dumps({**self._kept, "at": self._at}) + "\n")
        what = f"{missing:,} rows did not reach it" if missing else "not all that it was given was sent"
        late = "" if self._late is None else f" within {self._late:g} s"
        self._tell(f"W&B: {what}{late}: send them by {self._push()}")
        self._folder.event("wandb", dropped=missing)

    def missing(self) -> int:
        """The rows that the writer has not handed over."""
        rows: list[dict[str, Any]] = [{}]
        count, at = 0, self._at[0]
        while rows:
            rows, at = read_on(self._folder.metrics, at)
            count += len(rows)
        return count


def read_kept(folder: RunFolder) -> dict[str, Any] | None:
    """Which run of W&B it is; None: it is none yet."""
    try:
        kept = json.loads(read_small(folder.wandb))
        if re.fullmatch(r"[A-Za-z0-9_-]{1,64}", kept["id"]):
            at = kept.get("at")
            texts = {key: kept[key] for key in ("id", "project", "entity") if isinstance(kept.get(key), str)}
            numbers = isinstance(at, list) and len(at) == 2 and all(isinstance(n, int) and n >= 0 for n in at)
            return {**texts, **({"at": at} if numbers else {})}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        pass
    raise ShoalError(f"{as_typed(folder.wandb)} is damaged: restore it, or remove it to begin a new run in W&B")
