"""Population-based training, whole: copies are what was copied, settings are in use to the bit, whoever is interrupted."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from shoal.api.experiment import load_experiment
from shoal.base.errors import InputError
from shoal.checkpoints.checkpoint import Checkpoint
from shoal.checkpoints.store import CheckpointStore
from shoal.population.copying import TAKEN
from shoal.population.exploit import separate
from shoal.population.folder import PopulationFolder
from shoal.population.journal import expanded
from shoal.population.lineage import branches_of, tree
from shoal.population.population import Ended
from shoal.population.replay import write_replay
from shoal.population.start import Options, population
from shoal.population.state import Score
from tests.population.small import rows, values

SPACE = {"algorithm.lr": {"log": [1e-4, 1e-1]}, "algorithm.entropy": {"linear": [0.0, 0.1]}}
ONE_STEP = {"name": "ppo", "unroll": 16, "minibatch": 64, "epochs": 1}
"""Of the optimiser, per update."""


def trained(
    root: Path, name: str = "pbt", *, resume: bool = False, words: list[str] | None = None, **section: Any
) -> Ended:
    every = {"checkpoint": {"every": "1 updates", "keep": 1000}, "algorithm": ONE_STEP, "stop": {"steps": 1024}}
    given = {"members": 4, "every": "256 steps", "space": SPACE, **section}
    options = Options(name, root=root, parallel=2, resume=resume, quiet=True)
    return population(values(**every, population=given), words or [], options)


def lines(folder: Path, *kinds: str) -> list[dict[str, Any]]:
    return [line for line in expanded(PopulationFolder(folder).journal.read()) if line["kind"] in kinds]


def step_size(before: Checkpoint, after: Checkpoint) -> float:
    """The learning rate of the one step of Adam between two versions, from what it did: all parameters together."""
    learned = [name for name in after.tensors if "/policy." in name]
    moved = math.sqrt(sum(float(((after.tensors[n] - before.tensors[n]).double() ** 2).sum()) for n in learned))
    found = {
        name.rpartition(".")[2]: tensor.double() for name, tensor in after.tensors.items() if "/optimiser." in name
    }
    steps = float(found["steps"])
    mean, square = found["mean"] / (1 - 0.9**steps), found["square"] / (1 - 0.999**steps)
    return moved / float((mean / (square.sqrt() + 1e-5)).norm())


def check_step_sizes(folder: Path) -> int:
    """Of every version of every member: the rate that was ordered for it. How many were the first after a copy."""
    first = 0
    for member, branches in branches_of(PopulationFolder(folder).journal.read()).items():
        store = CheckpointStore(folder / member / "checkpoints")
        found = [store.load(version) for version in store.versions()]
        for before, after in zip(found, found[1:], strict=False):
            if TAKEN in after.meta or after.version != before.version + 1:
                continue
            steps = before.meta["steps"]
            ordered = [each[1]["algorithm.lr"] for branch in branches for each in branch.values if each[0] <= steps][-1]
            assert step_size(before, after) == pytest.approx(ordered, rel=1e-3), (member, after.version)
            first += TAKEN in before.meta
    return first


def test_copies_are_exact_and_steps_have_the_ordered_size_also_after_a_resume(tmp_path: Path) -> None:
    cut = trained(tmp_path, budget={"steps": 1900})
    assert cut.reason == "budget.steps = 1,900 spent"
    done = trained(tmp_path, resume=True, words=["population.budget.steps=null"])
    assert done.reason == "all members have ended"
    copied = lines(done.folder, "copied")
    assert len(lines(done.folder, "compared")) == len(copied) == 3
    for line in copied:
        assert line["best"] > line["own"]
        theirs, ours = (CheckpointStore(done.folder / line[key] / "checkpoints") for key in ("origin", "member"))
        one, two = theirs.load(line["version"]), ours.load(line["version"])
        if TAKEN not in one.meta and two.meta.get(TAKEN) == f"{line['origin']}@{line['version']}":
            assert one.tensors.keys() == two.tensors.keys()
            assert all(torch.equal(one.tensors[name], two.tensors[name]) for name in one.tensors)
            assert one.meta["steps"] == two.meta["steps"]
    assert check_step_sizes(done.folder) >= 2
    for line in lines(done.folder, "changed"):
        events = (done.folder / line["member"] / "events.jsonl").read_text().splitlines()
        used = [event for event in map(json.loads, events) if event["kind"] == "reconfigured"]
        assert any(
            all(event[key.rpartition(".")[2]] == value for key, value in line["values"].items()) for event in used
        ), line


def test_members_are_compared_at_equal_steps_by_the_same_greedy_episodes(tmp_path: Path) -> None:
    done = trained(tmp_path, episodes=3, exploit="binary tournament")
    turns = lines(done.folder, "turn")
    assert {len(turn["score"]["returns"]) for turn in turns} == {3}
    by_comparison: dict[int, set[int]] = {}
    number = 0
    for line in lines(done.folder, "turn", "compared"):
        number += line["kind"] == "compared"
        if line["kind"] == "turn":
            by_comparison.setdefault(number, set()).add(line["steps"])
    for number, steps in by_comparison.items():
        assert all(256 * (number + 1) <= each < 256 * (number + 1) + 64 for each in steps)
    assert list(by_comparison) == [0, 1, 2, 3]


def test_a_bandit_proposes_and_a_resumed_one_proposes_the_same(tmp_path: Path) -> None:
    whole = trained(tmp_path, "whole", explore="pb2", exploit="binary tournament", episodes=2)
    cut = trained(tmp_path, "cut", explore="pb2", exploit="binary tournament", episodes=2, budget={"steps": 2500})
    assert cut.reason == "budget.steps = 2,500 spent"
    again = trained(tmp_path, "cut", resume=True, words=["population.budget.steps=null"])
    assert again.reason == "all members have ended"
    changed = lines(whole.folder, "changed")
    assert changed == lines(again.folder, "changed")
    assert any(line["reason"].startswith("the bandit expects ") for line in changed)
    assert rows(whole.folder) == rows(again.folder)


@pytest.mark.slow
def test_arms_copy_only_or_explore_only(tmp_path: Path) -> None:
    random = trained(tmp_path, "random", exploit="none")
    assert not lines(random.folder, "copied")
    assert len(lines(random.folder, "changed")) == 3 * 4
    copy = trained(tmp_path, "copy", explore="none")
    assert not lines(copy.folder, "changed")
    assert len(lines(copy.folder, "copied")) == 3
    assert check_step_sizes(random.folder) == 0


def test_scores_that_overlap_copy_nothing(tmp_path: Path) -> None:
    done = trained(tmp_path, episodes=3, separate=True)
    newest: dict[str, Score] = {}
    for line in lines(done.folder, "turn", "compared"):
        if line["kind"] == "turn":
            newest[line["member"]] = Score(line["steps"], **line["score"])
        for copy in (each for each in line.get("decisions", ()) if each["kind"] == "copied"):
            assert separate(newest[copy["member"]], newest[copy["origin"]])
    assert len(lines(done.folder, "compared")) == 3


def test_all_begin_as_the_recipe_says(tmp_path: Path) -> None:
    done = trained(tmp_path, begin="recipe")
    begun = lines(done.folder, "member")
    assert [line["values"]["algorithm.entropy"] for line in begun] == [begun[0]["values"]["algorithm.entropy"]] * 4
    assert [line["words"] for line in begun] == [[f"seed={number}"] for number in (1, 2, 3, 4)]


def test_kwargs_of_the_environment_are_settings_too(tmp_path: Path) -> None:
    space = {"env.kwargs.times": {"linear": [1, 1000], "whole": True}}
    env = {"id": "tests.population.trouble:Trouble", "num_envs": 4}
    given = {"members": 2, "every": "256 steps", "exploit": "binary tournament", "space": space}
    done = population(values(env=env, population=given), [], Options("kwargs", root=tmp_path, parallel=1, quiet=True))
    (changed,) = lines(done.folder, "changed")
    config = PopulationFolder(done.folder).members()[int(changed["member"][1:])].read_config()
    assert config["env"]["kwargs"] == {"times": changed["values"]["env.kwargs.times"]}
    began = next(line for line in lines(done.folder, "member") if line["member"] == changed["member"])
    assert began["values"] != changed["values"]


def test_a_setting_that_is_none_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="algorithm.lrr"):
        trained(tmp_path, space={"algorithm.lrr": {"log": [1e-4, 1e-1]}})
    with pytest.raises(InputError, match="algorithm.clip"):
        trained(tmp_path, space={"algorithm.clip": {"linear": [-1.0, 1.0]}})
    assert not (tmp_path / "pbt").exists()


def test_the_tree_and_a_branch_again(tmp_path: Path) -> None:
    done = trained(tmp_path)
    said = list(tree(PopulationFolder(done.folder).journal.read()))
    assert sum(line.startswith("  ") for line in said) == 3
    assert sum("gave way to" in line for line in said) == 3
    member = lines(done.folder, "copied")[-1]["member"]
    path = tmp_path / "replay.yaml"
    notes = write_replay(PopulationFolder(done.folder), member, path)
    assert notes == []
    replay = load_experiment(path, [])
    assert replay.population is None
    lr = replay.algorithm.rest["lr"]
    branch = branches_of(PopulationFolder(done.folder).journal.read())[member][-1]
    assert lr["jumps"][-1] == [branch.values[-1][0], branch.values[-1][1]["algorithm.lr"]]
    assert lr["end"] == branch.values[-1][1]["algorithm.lr"]
    assert rows(done.folder)[member][-1]["train/learning_rate"] == lr["end"]
