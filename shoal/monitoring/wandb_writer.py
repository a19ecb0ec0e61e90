"""The process that writes a run into Weights & Biases: it follows `metrics.jsonl` and `events.jsonl`, and tells the main process
how far it is.

The files are its queue: nothing is held in memory, and nothing waits for it. W&B takes about two seconds to be ready; training has
begun by then.
"""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

from shoal.monitoring.companion import MainProcess
from shoal.monitoring.jsonl import read_on
from shoal.monitoring.sinks import EVAL, EVALUATED_AT
from shoal.monitoring.wandb_session import WandbSession, wandb_process

LOOK = 1.0
"""Seconds between two looks at the files."""
SCORES = ("version", "steps", "mean_reward", "std_reward", "best", "video")
"""Columns of the table of evaluations; then what else each of them says in one number."""


class WandbWriter:
    """One run of W&B, fed from one run folder."""

    def __init__(self, main: MainProcess) -> None:
        self._main, self._session = main, WandbSession(main)
        self._folder = self._session.folder
        self._at: list[int] = list(main.order["at"])
        self._update = 0
        self._known: set[str] = set()
        self._films: dict[int, str] = {}
        self._run: Any = None
        self._code: int | None = None

    def work(self) -> None:
        """Until the main process has said that it is the end, or is gone, and all is handed over."""
        self._run = self._session.begin(self._folder.read_config())
        while True:
            waiting = self._hand_over()
            for said in self._main.wait(0.0 if waiting else LOOK):
                self._code = said["end"]
            if not self._main.lives and self._code is None:
                self._code = 1
            if self._code is not None and not waiting and not self._hand_over():
                break
        self._write_table()
        self._session.end(self._code)

    # ------------------------------------------------------------ rows and scores

    def _hand_over(self) -> bool:
        """What was written since, some of it if it is much; whether there may be more."""
        before = list(self._at)
        rows, self._at[0] = read_on(self._folder.metrics, before[0])
        self._find_films()  # afterwards: the event of an evaluation is written before its row
        for row in rows:
            self._write(row)
        if self._at != before:
            self._main.send({"at": self._at})
        return self._at != before

    def _write(self, row: dict[str, Any]) -> None:
        """W&B's own step is the update: parts that are written offline do not overlap."""
        update = row.get("update")
        if not isinstance(update, int) or update < self._run.starting_step:  # or W&B has it
            return
        numbers = {key: value for key, value in row.items() if value is not None}
        for key in numbers.keys() - self._known:
            self._define(key, evaluated=EVALUATED_AT in numbers)
        self._known |= numbers.keys()
        self._update = max(self._update, update)
        self._run.log(numbers | self._videos(row.get(f"{EVAL}version")), step=update)

    def _define(self, key: str, *, evaluated: bool) -> None:
        """What a curve is drawn over: environment steps, for a score those of the version that was evaluated."""
        if key in ("step", EVALUATED_AT):
            self._run.define_metric(key, hidden=True)
        elif key != "update":
            self._run.define_metric(key, step_metric=EVALUATED_AT if evaluated and key.startswith(EVAL) else "step")

    def _find_films(self) -> None:
        events: list[dict[str, Any]] = [{}]
        while events:
            events, self._at[1] = read_on(self._folder.events, self._at[1])
            for event in events:
                match event:
                    case {"kind": "evaluation", "version": int(version), "video": str(name)}:
                        self._films[version] = Path(name).name  # never one from elsewhere

    def _videos(self, version: Any) -> dict[str, Any]:
        """The films up to a version, in the row that has its score: the score of an earlier one may have been overtaken."""
        due = sorted(film for film in self._films if isinstance(version, int) and film <= version)
        shown = [video for film in due if (video := self._video(film, self._films.pop(film))) is not None]
        return {f"{EVAL}video": shown[0] if len(shown) == 1 else shown} if shown else {}

    def _video(self, version: int, name: str) -> Any:
        import wandb

        path = self._folder.videos / name
        try:
            plain = stat.S_ISREG(path.lstat().st_mode) and path.suffix == ".mp4"
            return wandb.Video(str(path), caption=f"version {version}") if plain else None
        except OSError as error:
            print(f"{path} is not shown: {error}", flush=True)
            return None

    def _write_table(self) -> None:
        """All evaluations of the run, those of earlier starts too."""
        import wandb

        events = [event for event in self._folder.read_events() if event.get("kind") == "evaluation"]
        if not events:
            return
        plain = [key for key, value in events[-1].items() if isinstance(value, int | float | str)]
        columns = [*SCORES, *sorted({*plain} - {*SCORES, "kind"})]
        table = wandb.Table(columns=list(columns), data=[[event.get(column) for column in columns] for event in events])
        self._run.log({f"{EVAL}scores": table}, step=self._update)


def main() -> None:
    """For `Companion`."""
    with wandb_process() as process:
        WandbWriter(process).work()
