"""Commands of `log.notify` are told of a population, not of the turns of its members."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from shoal.api.population import BudgetConfig, SweepConfig
from shoal.base.errors import ShoalError
from shoal.population.start import Options, run
from shoal.population.sweep import Sweep
from tests.cli.test_cli import start
from tests.monitoring.test_notify import told, until, writes
from tests.population.small import swept, values

TROUBLE = f"{Path(__file__).parent / 'trouble.py'}:Trouble"


def test_one_end_whatever_becomes_of_turns(tmp_path: Path) -> None:
    """A member fails in a turn and is tried again. Nothing moves until slots stand, which is longer than a tenth of a second."""
    out = tmp_path / "told"
    env = {"id": TROUBLE, "num_envs": 4, "kwargs": {"fault": "raise", "place": str(tmp_path)}}
    log = {"tensorboard": False, "notify": [writes(out), "false"], "notify_after": "0.1s"}
    ended = swept(tmp_path, "pond", env=env, log=log, stop={"steps": 256}, parallel=1)
    assert [line["kind"] for line in ended.state.lines].count("crashed") == 1
    first, *_, last = facts = told(out)
    assert {each["SHOAL_EVENT"] for each in facts[:-1]} == {"stalled"}
    assert first["SHOAL_REASON"].startswith("no update for 0s")
    assert (last["SHOAL_EVENT"], last["SHOAL_REASON"]) == ("end", "all 1 runs have ended")
    assert (last["SHOAL_RUN"], last["SHOAL_FOLDER"]) == ("pond", str(ended.folder))
    members = ended.state.members.values()
    assert last["SHOAL_STEP"] == str(ended.state.steps)
    assert last["SHOAL_UPDATE"] == str(sum(member.version for member in members))
    events = [json.loads(line) for line in (ended.folder / "events.jsonl").read_text().splitlines()]
    assert {event.get("problem") for event in events} == {None, "log.notify: false failed with exit code 1"}
    assert not list(ended.folder.glob("*/logs/notify.log")), "no member has a watch of its own"


def test_a_population_that_fails(tmp_path: Path) -> None:
    out = tmp_path / "told"

    class Broken(Sweep):
        def turns(self, state: Any) -> Any:
            raise ShoalError("it broke")

    with pytest.raises(ShoalError, match="it broke"):
        run(
            values(log={"notify": [writes(out)]}), [], Options("pond", root=tmp_path, quiet=True),
            lambda experiment, folder, slots: (Broken(SweepConfig(), 1), BudgetConfig()),
        )  # fmt: skip
    (facts,) = told(out)
    assert (facts["SHOAL_EVENT"], facts["SHOAL_REASON"], facts["SHOAL_RUN"]) == ("error", "it broke", "pond")


def test_a_population_whose_process_is_killed(tmp_path: Path) -> None:
    out, journal = tmp_path / "told", tmp_path / "runs" / "pond" / "journal.jsonl"
    words = ["sweep", "cartpole", "--name", "pond", "--seeds", "2", f"log.notify={json.dumps([writes(out)])}"]
    with start(*words, "stop.steps=null", "stop.return=null", cwd=tmp_path) as main:
        until(lambda: journal.exists() and b'"started"' in journal.read_bytes())
        main.kill()
    until(lambda: told(out))
    (facts,) = told(out)
    assert (facts["SHOAL_EVENT"], facts["SHOAL_RUN"]) == ("death", "pond")
