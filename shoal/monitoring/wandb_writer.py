"""The process that writes a run into Weights & Biases: it follows `metrics.jsonl` and `events.jsonl`, and tells the main process
how far it is.

The files are its queue: nothing is held in memory, and nothing waits for it. W&B takes about two seconds to be ready; training has
begun by then.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import threading
from pathlib import Path
from typing import Any

from shoal.base.descendants import kill_below
from shoal.base.errors import one_line
from shoal.base.files import read_small
from shoal.monitoring.companion import MainProcess, answer
from shoal.monitoring.jsonl import read_on
from shoal.monitoring.run_folder import RunFolder
from shoal.monitoring.sinks import EVAL, EVALUATED_AT

LOOK = 1.0
"""Seconds between two looks at the files."""
ONLINE_WITHIN = 14.0
"""Seconds in which the server has to answer; some more, and the run is written offline."""
FINISH = 25.0
"""Seconds for what is not sent yet when the run is over. The main process waits for 30."""
NICENESS = 5
"""Training goes first; but on a busy machine W&B would take minutes to start at more."""
SCORES = ("version", "steps", "mean_reward", "std_reward", "best", "video")
"""Columns of the table of evaluations; then what else each of them says in one number."""


class WandbWriter:
    """One run of W&B, fed from one run folder."""

    def __init__(self, main: MainProcess) -> None:
        self._main, self._order = main, main.order
        self._folder = RunFolder(Path(self._order["folder"]))
        self._at: list[int] = list(self._order["at"])
        self._update = 0
        self._known: set[str] = set()
        self._films: dict[int, str] = {}
        self._run: Any = None
        self._code: int | None = None

    def work(self) -> None:
        """Until the main process has said that it is the end, or is gone, and all is handed over."""
        self._begin()
        while True:
            waiting = self._hand_over()
            for said in self._main.wait(0.0 if waiting else LOOK):
                self._code = said["end"]
            if not self._main.lives and self._code is None:
                self._code = 1
            if self._code is not None and not waiting and not self._hand_over():
                break
        self._end()

    # ------------------------------------------------------------ beginning and end

    def _begin(self) -> None:
        """Online within some seconds, else offline, unless that would be of no use."""
        os.environ.pop("WANDB_SERVICE", None)  # of a program around us
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        import wandb  # noqa: F401 (before the clock starts)

        before = set((self._folder.path / "wandb").glob("run-*"))
        fallback = self._order["mode"] == "online" and not self._order["must_send"]
        late = threading.Timer(ONLINE_WITHIN, self._go_offline, [f"no answer in {ONLINE_WITHIN:g} s", before])
        late.daemon = True
        if fallback:
            late.start()
        try:
            self._run = self._init()
        except Exception as error:
            if fallback:
                self._go_offline(_first_line(error), before)
            raise
        late.cancel()
        where = self._run.url if self._order["mode"] == "online" else None
        self._main.send({"begun": where, "why": self._order.get("why")})

    def _init(self) -> Any:
        import wandb

        order = self._order
        settings = wandb.Settings(
            console="off", disable_git=True, disable_code=True, symlink=False, x_disable_stats=True,
            x_disable_machine_info=True, x_save_requirements=False, init_timeout=ONLINE_WITHIN, finish_timeout=FINISH,
            finish_timeout_raises=True, stop_fn=lambda: self._main.send({"stop": True}),
        )  # fmt: skip
        return wandb.init(
            dir=str(self._folder.path), mode=order["mode"], id=order["id"], resume="allow", project=order["project"],
            entity=order["entity"], group=order["group"], name=order["name"], job_type=order["job_type"],
            tags=order["tags"], notes=order["notes"], config=self._config(), settings=settings,
        )  # fmt: skip

    def _config(self) -> dict[str, Any]:
        """Settings and provenance; without the commands to notify, which may hold secrets."""
        config = self._folder.read_config()
        if isinstance(config.get("log"), dict):
            config["log"] = {key: value for key, value in config["log"].items() if key != "notify"}
        try:
            record = json.loads(read_small(self._folder.provenance))
        except (OSError, ValueError):
            return config
        code = record.get("git")
        record["git"] = {key: code.get(key) for key in ("commit", "dirty")} if isinstance(code, dict) else None
        left_out = ("command", "earlier", "packages", "shoal_git")
        return {**config, "provenance": {key: value for key, value in record.items() if key not in left_out}}

    def _go_offline(self, why: str, before: set[Path]) -> None:
        """From the beginning, in this process: what is left of the attempt would be in the way."""
        kill_below(os.getpid())
        for folder in set((self._folder.path / "wandb").glob("run-*")) - before:
            shutil.rmtree(folder, ignore_errors=True)
        self._main.start_again({**self._order, "mode": "offline", "why": why})

    def _end(self) -> None:
        import wandb

        threading.Timer(FINISH + 4, _give_up).start()
        self._write_table()
        sent = True
        try:
            self._run.finish(exit_code=self._code)
        except TimeoutError:
            sent = False
        self._main.send({"ended": sent})
        wandb.teardown()  # its service writes the end of the file now
        kill_below(os.getpid())
        os._exit(0)

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


def _first_line(error: Exception) -> str:
    return one_line(error).partition(" while retrying")[0]


def _give_up() -> None:
    """The main process is gone, and W&B does not end."""
    kill_below(os.getpid())
    os._exit(1)


def main() -> None:
    """For `Companion`."""
    process = answer(niceness=NICENESS)
    try:
        WandbWriter(process).work()
    except Exception as error:
        process.send({"failed": _first_line(error)})
        kill_below(os.getpid())
        raise
