"""Members in the warm processes of slots: swapped, retried, given up, ordered about; nobody blocks another."""

from __future__ import annotations

import threading
import time
from multiprocessing import Pipe, current_process
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from shoal.base.errors import InputError, ShoalError
from shoal.launchers.links import Limits
from shoal.monitoring.run_folder import RunFolder
from shoal.population.folder import PopulationFolder
from shoal.population.slots import Slots, _Slot
from shoal.population.turn import Result, Turn, to_bytes
from shoal.runs.status import ended, obey
from tests.population.small import learned, rows, swept

ENV = "tests.population.trouble:Trouble"


def kinds(folder: Path, *which: str) -> list[dict[str, Any]]:
    return [line for line in PopulationFolder(folder).journal.read() if line["kind"] in which]


def test_members_are_ordinary_runs_and_share_processes(tmp_path: Path) -> None:
    done = swept(tmp_path, sweep={"grid": {"algorithm.lr": [1e-3, 3e-3]}, "seeds": 3})
    assert done.reason == "all 6 runs have ended"
    members = PopulationFolder(done.folder).members()
    assert len(members) == 6
    for member in members:
        assert ended(member)["reason"] == "stop.steps = 512 reached"
        assert member.read_config()["sweep"] is None
        assert member.read_config()["name"] == "small"
    turns = kinds(done.folder, "turn")
    assert all(512 <= turn["steps"] < 512 + 64 for turn in turns)
    assert all(turn["score"]["mean"] > 0 for turn in turns)
    assert sum(turn["steps"] for turn in turns) == done.state.steps
    assert len({turn["process"] for turn in turns}) == 2


def test_who_was_in_a_free_slot_before_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there: dict[int, Connection] = {}

    def started(number: int) -> _Slot:
        here, there[number] = Pipe()
        return _Slot(current_process(), here)

    slots = Slots(tmp_path / "population.yaml", 2, Limits(60, 60))
    monkeypatch.setattr(slots, "_start", started)
    once, twice = ([Turn(f"m{number}", [], until) for number in range(4)] for until in (100, 200))
    result = Result("turn ended", 100, 1, 100, None, 1.0, 1.0, 0.0, 0)

    def gives(turns: list[Turn]) -> str:
        turns.remove(turn := slots.first(turns))
        slots.give(turn)
        return turn.member

    def leaves(member: str) -> None:
        there[slots.busy[member]].send_bytes(to_bytes(result=result))
        assert [turn.member for turn, _ in slots.ended()] == [member]

    try:
        assert [gives(once), gives(once)] == ["m0", "m1"]
        leaves("m1")
        assert gives(once) == "m2"  # where m1 was
        leaves("m0")
        assert gives(once) == "m3"
        leaves("m2")
        assert gives(twice) == "m1"  # though m0 comes first
        leaves("m1")
        assert gives(twice) == "m2"
        leaves("m2")
        assert gives(twice) == "m0"  # better in another slot than not at all
        leaves("m3")
        further = [Turn("m4", [], 300), Turn("m3", [], 200)]
        assert gives(further) == "m4"  # the order of those that do not go as far is the strategy's
    finally:
        for end in there.values():
            end.close()
        for slot in list(slots._slots.values()):
            slot.connection.close()
        slots._slots.clear()
        slots.close()


def test_a_run_in_a_slot_is_the_run_of_the_inline_launcher(tmp_path: Path) -> None:
    import shoal
    from shoal.api.experiment import Experiment
    from tests.population.small import TIMES, values

    done = swept(tmp_path, sweep={"seeds": 2})
    alone = shoal.train(
        Experiment.parse({**values(), "seed": 2, "name": "one"}), root=tmp_path, trial="a", on="inline", quiet=True
    )
    import json

    lines = [json.loads(line) for line in (alone.folder / "metrics.jsonl").read_text().splitlines()]
    assert rows(done.folder)["seed-2"] == [{k: row[k] for k in row if not k.startswith(TIMES)} for row in lines]


@pytest.mark.parametrize("fault", ["kill", "raise", pytest.param("hang", marks=pytest.mark.slow)])
def test_who_crashes_is_tried_again_and_ends_as_if_nothing_was(tmp_path: Path, fault: str) -> None:
    kwargs = {"fault": fault, "place": str(tmp_path)}
    env = {"id": ENV, "num_envs": 4, "timeout": 3.0 if fault == "hang" else 60.0}
    done = swept(tmp_path, "hurt", env={**env, "kwargs": kwargs}, sweep={"seeds": 2}, placement={"hang": 20.0})
    assert done.reason == "all 2 runs have ended"
    crashes = kinds(done.folder, "crashed")
    assert len(crashes) == 1
    said = {"kill": "SIGKILL", "raise": "the pole broke", "hang": "env.timeout = 3"}
    assert said[fault] in crashes[0]["reason"]
    well = swept(tmp_path, "well", env={**env, "kwargs": {"place": str(tmp_path)}}, sweep={"seeds": 2})
    assert rows(done.folder) == rows(well.folder)
    assert learned(done.folder) == learned(well.folder)


def test_who_keeps_crashing_has_failed_and_blocks_nobody(tmp_path: Path) -> None:
    grid = {"env.kwargs": [{"fault": "kill", "place": str(tmp_path), "times": 99}, {}]}
    done = swept(tmp_path, env={"id": ENV, "num_envs": 4}, sweep={"grid": grid, "seeds": 1}, parallel=1)
    assert done.reason == "all 2 runs have ended, 1 failed"
    assert {member.name: member.state for member in done.state.members.values()} == {"m0": "failed", "m1": "ended"}
    assert len(kinds(done.folder, "crashed")) == 2


def test_what_cannot_work_is_said_before_anything_is_trained(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="algorithm.lr = -1"):
        swept(tmp_path, sweep={"grid": {"algorithm.lr": [1e-3, -1]}})
    assert not (tmp_path / "small").exists()
    with pytest.raises(InputError, match="algorithm.lrr"):
        swept(tmp_path, sweep={"grid": {"algorithm.lrr": [1e-3]}})
    with pytest.raises(InputError, match="there is no population"):
        swept(tmp_path, resume=True)


def test_a_population_is_not_begun_twice_and_grows_when_it_is_resumed(tmp_path: Path) -> None:
    from shoal.population.start import Options, sweep

    done = swept(tmp_path, sweep={"seeds": 1})
    with pytest.raises(InputError, match="--resume"):
        swept(tmp_path, sweep={"seeds": 1})
    more = sweep({}, ["sweep.seeds=2"], Options("small", root=tmp_path, resume=True, quiet=True))
    assert more.reason == "all 2 runs have ended"
    assert [turn["member"] for turn in kinds(done.folder, "turn")] == ["seed-1", "seed-2"]


@pytest.mark.parametrize("budget", [{"steps": 1000}, {"core_seconds": 0.01}, {"seconds": 0.05}])
def test_the_budget_of_the_whole_ends_it_and_it_can_go_on(tmp_path: Path, budget: dict[str, float]) -> None:
    done = swept(tmp_path, sweep={"seeds": 4, "budget": budget}, parallel=1)
    (key,) = budget
    assert done.reason.startswith(f"budget.{key}")
    assert any(member.state == "waiting" for member in done.state.members.values())


class Order(threading.Thread):
    """Asks a live population, from another thread, once the first member is in a slot."""

    def __init__(self, folder: Path, *orders: str) -> None:
        super().__init__(daemon=True)
        self._folder, self._orders = RunFolder(folder), orders
        self.answers: list[dict[str, Any]] = []
        self.start()

    def run(self) -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                status = obey(self._folder, "status")
                if any(member.get("steps") and member["state"] == "running" for member in status["members"]):
                    break
            except ShoalError:  # it is not up yet
                pass
            time.sleep(0.02)
        self.answers = [obey(self._folder, order) for order in self._orders]


def test_stop_ends_all_in_order_and_they_go_on_where_they_were(tmp_path: Path) -> None:
    stop = {"steps": 20_000}
    order = Order(tmp_path / "cut", "status", "stop")
    cut = swept(tmp_path, "cut", sweep={"seeds": 2}, stop=stop)
    order.join()
    assert cut.reason == "stopped by order"
    assert [member["state"] for member in order.answers[0]["members"]] == ["running", "running"]
    assert all(0 < member.steps < 20_000 for member in cut.state.members.values())
    again = swept(tmp_path, "cut", sweep={"seeds": 2}, stop=stop, resume=True)
    whole = swept(tmp_path, "whole", sweep={"seeds": 2}, stop=stop)
    assert again.reason == whole.reason == "all 2 runs have ended"
    assert learned(again.folder) == learned(whole.folder)


def test_a_member_is_stopped_or_paused_by_its_name(tmp_path: Path) -> None:
    order = Order(tmp_path / "told", "stop seed-1", "pause seed-2", "unpause seed-2")
    done = swept(tmp_path, "told", sweep={"seeds": 2}, stop={"steps": 20_000})
    order.join()
    assert [answer["state"] for answer in order.answers] == ["stopped", "paused", "waiting"]
    states = {member.name: member.state for member in done.state.members.values()}
    assert states == {"seed-1": "stopped", "seed-2": "ended"}
    assert done.state.members["seed-2"].steps >= 20_000
    assert done.state.members["seed-1"].steps < 20_000
