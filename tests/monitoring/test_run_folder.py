import fcntl
import json
import os
import re
import signal
import threading
import time
from pathlib import Path

import pytest

from shoal.base.errors import InputError
from shoal.monitoring import run_folder
from shoal.monitoring.run_folder import RunFolder, SupersededError


def make(root: Path, experiment: str, trial: str, age: float = 0.0) -> RunFolder:
    folder = RunFolder.create(root, experiment, trial)
    folder.write_config({"env": {"id": "CartPole-v1"}})
    for path in (folder.config, folder.path):
        os.utime(path, (time.time() - age, time.time() - age))
    return folder


def test_create_uses_the_names_given(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "runs", "cartpole", "first")
    assert folder.path == tmp_path / "runs/cartpole/first"
    assert folder.path.is_dir()
    assert (folder.experiment, folder.trial) == ("cartpole", "first")


def test_trials_without_a_name_get_readable_ones(tmp_path: Path) -> None:
    names = {RunFolder.create(tmp_path, "cartpole").trial for _ in range(50)}
    assert len(names) == 50
    assert all(re.fullmatch(r"[a-z]+-[a-z]+-\d\d", name) for name in names)


def test_a_name_that_is_taken_is_not_used_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    proposals = iter(["calm-cod-01", "calm-cod-01", "calm-cod-01", "keen-eel-02"])
    monkeypatch.setattr(run_folder, "propose_name", lambda: next(proposals))
    assert [RunFolder.create(tmp_path, "x").trial for _ in range(2)] == ["calm-cod-01", "keen-eel-02"]


def test_an_existing_trial_is_an_error(tmp_path: Path) -> None:
    RunFolder.create(tmp_path, "cartpole", "first")
    with pytest.raises(InputError, match=r"first exists already.*--resume.*--trial"):
        RunFolder.create(tmp_path, "cartpole", "first")


@pytest.mark.parametrize("name", ["../evil", "a/b", "", ".hidden", "/abs", "x" * 101])
def test_names_stay_in_their_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError):
        RunFolder.create(tmp_path / "runs", name, "trial")
    with pytest.raises(InputError):
        RunFolder.create(tmp_path / "runs", "experiment", name)
    with pytest.raises(InputError):
        RunFolder.open(tmp_path / "runs", "experiment", name)
    assert list(tmp_path.iterdir()) == []


def test_a_root_that_is_a_file_is_an_input_error(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("")
    with pytest.raises(InputError, match="no run folder can be made"):
        RunFolder.create(tmp_path / "runs", "cartpole", "first")


def test_open_suggests_what_was_meant(tmp_path: Path) -> None:
    make(tmp_path, "cartpole", "brisk-herring-07")
    assert RunFolder.open(tmp_path, "cartpole", "brisk-herring-07").path.is_dir()
    with pytest.raises(InputError, match="did you mean 'brisk-herring-07'"):
        RunFolder.open(tmp_path, "cartpole", "brisk-hering-07")
    with pytest.raises(InputError, match="there are none"):
        RunFolder.open(tmp_path, "pong", "first")


def test_find_takes_a_path_a_pair_or_an_experiment(tmp_path: Path) -> None:
    old = make(tmp_path, "cartpole", "old", age=100)
    new = make(tmp_path, "cartpole", "new", age=50)
    assert RunFolder.find(str(old.path), tmp_path).path == old.path
    assert RunFolder.find("cartpole/old", tmp_path).path == old.path
    assert RunFolder.find("cartpole", tmp_path).path == new.path
    old.metrics.write_text("")
    assert RunFolder.find("cartpole", tmp_path).path == old.path, "training went on there last"


def test_find_ignores_folders_that_hold_no_run(tmp_path: Path) -> None:
    made = make(tmp_path, "cartpole", "first")
    (tmp_path / "cartpole" / "empty").mkdir()
    assert RunFolder.find("cartpole", tmp_path).path == made.path


def test_find_says_what_exists(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds none yet: train one first"):
        RunFolder.find("cartpole", tmp_path)
    make(tmp_path, "cartpole", "first")
    with pytest.raises(InputError, match=r"'cart-pole'; did you mean 'cartpole'\?"):
        RunFolder.find("cart-pole", tmp_path)
    with pytest.raises(InputError, match="choose from: cartpole, cartpole/first"):
        RunFolder.find("zzz", tmp_path)


def test_config_comes_back_as_it_was(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "cartpole", "first")
    values = {
        "name": "1e3", "seed": 2**62, "algorithm": {"lr": 1e-12, "clip": 0.2, "flag": True, "none": None},
        "model": {"hidden": [64, 64]}, "strings": ["12", "null", "off", "a: b", "", "1_000"],
    }  # fmt: skip
    folder.write_config(values)
    assert folder.read_config() == values
    assert folder.read_config(["algorithm.clip=0.3"])["algorithm"]["clip"] == 0.3


def test_a_folder_without_config_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has no config\.yaml"):
        RunFolder.create(tmp_path, "cartpole", "first").read_config()


def test_events_are_lines_with_a_time(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "cartpole", "first")
    folder.event("start", version=0, path=tmp_path, loss=float("nan"))
    folder.event("stop")
    first, second = map(json.loads, folder.events.read_text().splitlines())
    assert first["kind"] == "start"
    assert first["path"] == str(tmp_path)
    assert first["loss"] is None
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d", second["time"])


def test_the_lock_holder_mends_torn_events(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "cartpole", "first")
    folder.event("start")
    with folder.events.open("ab") as file:
        file.write(b'{"time": "2026-')
    folder.lock()
    folder.event("stop")
    folder.unlock()
    assert [json.loads(line)["kind"] for line in folder.events.read_text().splitlines()] == ["start", "stop"]


def test_only_one_may_train_in_a_folder(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "cartpole", "first")
    other = RunFolder.open(tmp_path, "cartpole", "first")
    folder.lock()
    with pytest.raises(InputError, match=rf"is being trained by process {os.getpid()}"):
        other.lock()
    folder.unlock()
    other.lock()
    other.unlock()


def test_a_controller_that_comes_again_waits_until_its_last_life_gives_way(tmp_path: Path) -> None:
    last = RunFolder.create(tmp_path, "cartpole", "first")
    again = RunFolder.open(tmp_path, "cartpole", "first")
    last.lock("controller")
    last.event("start")
    taking, claim = threading.Thread(target=again.lock, args=("controller", 30.0)), (last.path / ".writer").read_text()
    taking.start()
    while (last.path / ".writer").read_text() == claim:
        assert taking.is_alive(), "it waits for the lock"
    with pytest.raises(SupersededError, match="cartpole/first was taken over by another controller"):
        last.event("goes on")
    assert taking.is_alive()
    last.unlock()
    taking.join()
    with pytest.raises(SupersededError):
        last.check_writer()
    again.event("goes on elsewhere")
    again.lock()  # held already
    again.unlock()


def test_a_last_life_that_does_not_let_go_is_waited_for_no_longer_than_said(tmp_path: Path) -> None:
    last = RunFolder.create(tmp_path, "cartpole", "first")
    again = RunFolder.open(tmp_path, "cartpole", "first")
    last.lock("controller")
    with pytest.raises(InputError, match="is being trained by process"):
        again.lock("controller", 0.2)
    last.unlock()


def test_nobody_is_taken_over_by_a_stranger(tmp_path: Path) -> None:
    """The run was resumed by hand before Ray started its controller again."""
    resumed = RunFolder.create(tmp_path, "cartpole", "first")
    controller = RunFolder.open(tmp_path, "cartpole", "first")
    resumed.lock()
    with pytest.raises(InputError, match="is being trained by process"):
        controller.lock("controller", 30.0)
    resumed.event("goes on")
    resumed.unlock()


def test_a_killed_process_holds_no_lock(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "cartpole", "first")
    child = os.fork()
    if child == 0:
        folder.lock()
        signal.pause()
        os._exit(0)
    deadline = time.monotonic() + 5
    while not (folder.path / ".lock").exists() or (folder.path / ".lock").read_text() != f"{child}\n":
        assert time.monotonic() < deadline
        time.sleep(0.001)
    with pytest.raises(InputError, match=rf"process {child}"):
        folder.lock()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    folder.lock()
    folder.unlock()


def test_a_disk_without_locks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(handle: int, flags: int) -> None:
        raise OSError(38, "Function not implemented")

    folder = RunFolder.create(tmp_path, "cartpole", "first")
    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(Exception, match="cannot be locked"):
        folder.lock()
