"""A run of Weights & Biases from its beginning to its end: what the processes `wandb_writer` and `wandb_evaluation` share."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from shoal.base.descendants import kill_below
from shoal.base.errors import one_line
from shoal.base.files import read_small
from shoal.monitoring.companion import MainProcess, answer
from shoal.monitoring.run_folder import RunFolder

ONLINE_WITHIN = 14.0
"""Seconds in which the server has to answer; some more, and the run is written offline."""
FINISH = 25.0
"""Seconds for what is not sent yet when the run is over. The main process waits for 30."""
NICENESS = 5
"""Training goes first; but on a busy machine W&B would take minutes to start at more."""


class WandbSession:
    """`begin`, log into what it returns, `end`. The order says which run it is, where its files go, and how it is shown."""

    def __init__(self, main: MainProcess) -> None:
        self._main, self._order = main, main.order
        self.folder = RunFolder(Path(self._order["folder"]))
        self._run: Any = None

    def begin(self, config: dict[str, Any]) -> Any:
        """Online within some seconds, else offline, unless that would be of no use. `config`: the settings to show."""
        os.environ.pop("WANDB_SERVICE", None)  # of a program around us
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        import wandb  # noqa: F401 (before the clock starts)

        before = self._folders()
        fallback = self._order["mode"] == "online" and not self._order["must_send"]
        late = threading.Timer(ONLINE_WITHIN, self._go_offline, [f"no answer in {ONLINE_WITHIN:g} s", before])
        late.daemon = True
        if fallback:
            late.start()
        try:
            self._run = self._init(self._shown(config))
        except Exception as error:
            if fallback:
                self._go_offline(_first_line(error), before)
            raise
        late.cancel()
        where = self._run.url if self._order["mode"] == "online" else None
        self._main.send({"begun": where, "why": self._order.get("why"), "files": self._run.settings.sync_dir})
        return self._run

    def _init(self, config: dict[str, Any]) -> Any:
        import wandb

        order = self._order
        settings = wandb.Settings(
            console="off", disable_git=True, disable_code=True, symlink=False, x_disable_stats=True,
            x_disable_machine_info=True, x_save_requirements=False, init_timeout=ONLINE_WITHIN, finish_timeout=FINISH,
            finish_timeout_raises=True, stop_fn=lambda: self._main.send({"stop": True}),
        )  # fmt: skip
        return wandb.init(
            dir=str(self.folder.path), mode=order["mode"], id=order["id"], resume="allow", project=order["project"],
            entity=order["entity"], group=order["group"], name=order["name"], job_type=order["job_type"],
            tags=order["tags"], notes=order["notes"], config=config, settings=settings,
        )  # fmt: skip

    def _shown(self, config: dict[str, Any]) -> dict[str, Any]:
        """Settings and provenance; without the commands to notify, which may hold secrets."""
        if isinstance(config.get("log"), dict):
            config["log"] = {key: value for key, value in config["log"].items() if key != "notify"}
        try:
            record = json.loads(read_small(self.folder.provenance))
        except (OSError, ValueError):
            return config
        code = record.get("git")
        record["git"] = {key: code.get(key) for key in ("commit", "dirty")} if isinstance(code, dict) else None
        left_out = ("command", "earlier", "packages", "shoal_git")
        return {**config, "provenance": {key: value for key, value in record.items() if key not in left_out}}

    def _folders(self) -> set[Path]:
        """Those of this run that W&B fills while it is online; another run may lie beside it."""
        return set((self.folder.path / "wandb").glob(f"run-*-{self._order['id']}"))

    def _go_offline(self, why: str, before: set[Path]) -> None:
        """From the beginning, in this process: what is left of the attempt would be in the way."""
        kill_below(os.getpid())
        for folder in self._folders() - before:
            shutil.rmtree(folder, ignore_errors=True)
        self._main.start_again({**self._order, "mode": "offline", "why": why})

    def end(self, code: int | None) -> None:
        """Finish, say whether all was sent, and end the process."""
        import wandb

        threading.Timer(FINISH + 4, _give_up).start()
        sent = True
        try:
            self._run.finish(exit_code=code)
        except TimeoutError:
            sent = False
        self._main.send({"ended": sent})
        wandb.teardown()  # its service writes the end of the file now
        kill_below(os.getpid())
        os._exit(0)


def _first_line(error: Exception) -> str:
    return one_line(error).partition(" while retrying")[0]


def _give_up() -> None:
    """The main process is gone, and W&B does not end."""
    kill_below(os.getpid())
    os._exit(1)


@contextmanager
def wandb_process() -> Iterator[MainProcess]:
    """Be a companion that speaks with W&B: what goes wrong is told, and nothing is left running."""
    process = answer(niceness=NICENESS)
    try:
        yield process
    except Exception as error:
        process.send({"failed": _first_line(error)})
        kill_below(os.getpid())
        raise
