"""Curves of several runs as one: nothing before a run begins, nothing after it ends, and every run counted once."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from shoal.analysis.curves import POINTS, Curve, band, summarise
from shoal.analysis.statistics import bootstrap_interval, interquartile_mean
from shoal.analysis.trials import Group, find_group, join
from shoal.base.errors import InputError
from shoal.monitoring.run_folder import RunFolder
from tests.monitoring.written import write_run


def test_a_band_is_the_statistics_of_what_is_there() -> None:
    curves = [Curve(np.array([0.0, 10.0]), np.array([0.0, float(v)])) for v in (10, 20, 30, 40, 1000)]
    found = summarise("x", curves, [[0, 1, 2, 3, 4]])
    middle, last = int(np.searchsorted(found.x, 10.0)), [10.0, 20.0, 30.0, 40.0, 1000.0]
    assert found.x[middle] == 10
    assert found.line[middle] == interquartile_mean(last) == 30
    assert (found.low[middle], found.high[middle]) == bootstrap_interval([last])


def test_nothing_is_drawn_where_a_run_is_not() -> None:
    long, short = (
        Curve(np.array([0.0, 10, 20]), np.array([0.0, 10, 20])),
        Curve(np.array([5.0, 10]), np.array([50.0, 0])),
    )
    found = summarise("x", [long, short], [[0, 1]])
    assert (found.x[0], found.x[-1]) == (0, 20)
    alone = (found.x < 5) | (found.x > 10)
    assert np.isnan(found.low[alone]).all()
    assert np.isfinite(found.low[~alone]).all()
    np.testing.assert_allclose(found.line[alone], found.x[alone])  # of the long one alone, not drawn towards the other
    assert found.line[np.searchsorted(found.x, 5.0)] == 27.5
    assert found.ends_apart
    assert [bool(found.present[:, piece.start].all()) for piece in found.pieces()] == [False, True, False]
    assert found.end == (20, 20)


def test_runs_that_end_together_are_shown_until_the_first_ends() -> None:
    first, second = (
        Curve(np.array([0.0, 99.0]), np.array([1.0, 1.0])),
        Curve(np.array([0.0, 100.0]), np.array([3.0, 3.0])),
    )
    found = summarise("x", [first, second], [[0, 1]])
    assert not found.ends_apart
    assert len(found.pieces()) == 1
    assert found.end == (99, 2)


def test_many_rows_are_thinned_and_keep_their_ends() -> None:
    x = np.arange(5000.0)
    found = summarise("x", [Curve(x, x), Curve(x[:4000], x[:4000])], [[0, 1]])
    assert POINTS <= len(found.x) <= POINTS + 8
    np.testing.assert_allclose(found.line, found.x)
    assert 3999 in found.x


def test_gaps_and_missing_numbers(tmp_path: Path) -> None:
    write_run(tmp_path, "e/a", [None, 4.0, None, 8.0])
    write_run(tmp_path, "e/b", [None, None], seed=2)
    group, notes = find_group("e", tmp_path)
    found, left_out = band(group, "rollout/ep_rew_mean", "steps")
    assert (notes, left_out) == ([], ["e/b has no 'rollout/ep_rew_mean': left out"])
    assert len(found.curves) == 1
    np.testing.assert_allclose(found.curves[0].x, [20, 40])
    assert len(band(group, "time/elapsed", "updates")[0].curves) == 2


def test_the_axis_is_chosen(tmp_path: Path) -> None:
    group = Group("e", [write_run(tmp_path, "e/a", [1.0, 2.0, 3.0])])
    ends = {axis: band(group, "rollout/ep_rew_mean", axis)[0].x[-1] for axis in ("steps", "seconds", "updates")}
    assert ends == {"steps": 30, "seconds": 1, "updates": 3}
    with pytest.raises(InputError, match="--x hours: there is no such axis; choose from: steps, seconds, updates"):
        band(group, "rollout/ep_rew_mean", "hours")
    with pytest.raises(InputError, match="e has no 'rollout/ep_rew_men'; did you mean 'rollout/ep_rew_mean'"):
        band(group, "rollout/ep_rew_men", "steps")


def test_a_torn_line_and_steps_that_go_back(tmp_path: Path) -> None:
    trial = write_run(tmp_path, "e/a", [1.0, 2.0, 3.0])
    again = {"step": 20, "update": 2, "rollout/ep_rew_mean": 7.0}  # resumed at update 1
    with open(trial.folder.metrics, "a") as file:
        file.write(json.dumps(again) + '\n{"step": 30, "upda')
    assert [(row["update"], row["rollout/ep_rew_mean"]) for row in trial.rows] == [(1, 1.0), (2, 7.0)]


def test_an_exact_run_again_is_counted_once(tmp_path: Path) -> None:
    write_run(tmp_path, "e/one", [1.0, 2.0, 3.0])
    write_run(tmp_path, "e/one-again", [1.0, 2.0])
    write_run(tmp_path, "e/other-seed", [1.0, 2.0], seed=2)
    write_run(tmp_path, "e/other-numbers", [1.0, 2.5])
    group, notes = find_group("e", tmp_path)
    assert [trial.folder.trial for trial in group.trials] == ["one", "other-numbers", "other-seed"]
    assert notes == ["e/one-again repeats e/one, number by number: counted once"]


def test_other_settings_are_strata_and_said_aloud(tmp_path: Path) -> None:
    for seed in (1, 2):
        write_run(tmp_path, f"e/slow-{seed}", [1.0], seed=seed)
        write_run(tmp_path, f"e/fast-{seed}", [9.0], seed=seed, algorithm={"lr": 0.5}, stop={"steps": seed})
    group, notes = find_group("e", tmp_path)
    assert group.strata == [[0, 1], [2, 3]]  # fast, slow
    assert notes == ["e: its 4 runs differ in algorithm.lr; name trials one by one to see them apart"]
    found = band(group, "rollout/ep_rew_mean", "steps")[0]
    assert (found.low[0], found.high[0]) == (5, 5)  # each setting is sure of itself


def test_trials_named_one_by_one(tmp_path: Path) -> None:
    write_run(tmp_path, "e/a", [1.0])
    write_run(tmp_path, "e/b", [2.0], seed=2)
    write_run(tmp_path, "e/c", [3.0], algorithm={"lr": 0.5})
    write_run(tmp_path, "f/a", [4.0])
    groups = [find_group(run, tmp_path)[0] for run in ("e/a", "f/a", "e/b", str(tmp_path / "e/c"), "e")]
    found = [(group.label, len(group.trials)) for group in join(groups)]
    assert found == [("e: lr=0.1", 2), ("f/a", 1), ("e: lr=0.5", 1), ("e", 3)]


def test_which_runs_are_meant(tmp_path: Path) -> None:
    write_run(tmp_path, "e/a", [1.0])
    write_run(tmp_path, "e/b", [1.0])
    (tmp_path / "e/empty").mkdir()
    for run in ("e", str(tmp_path / "e")):
        assert [folder.trial for folder in RunFolder.find_all(run, tmp_path)] == ["a", "b"]
    assert [folder.name for folder in RunFolder.find_all("e/b", tmp_path)] == ["e/b"]
    with pytest.raises(InputError, match="there is no run 'e/d'"):
        RunFolder.find_all("e/d", tmp_path)
