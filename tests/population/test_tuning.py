"""Tuning: what is proposed follows from seed and history; the recipe comes first, and the best is confirmed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shoal.api.experiment import Experiment, load_experiment
from shoal.api.population import TuneConfig
from shoal.base.errors import InputError
from shoal.population.folder import PopulationFolder
from shoal.population.population import Ended
from shoal.population.start import Options
from shoal.population.state import Member, Score, State
from tests.population.small import values

optuna = pytest.importorskip("optuna", reason="`shoal[tune]` is not installed")

from shoal.analysis.tuning import confirmed, saved_steps, write_best, write_figure  # noqa: E402
from shoal.population.start import tune  # noqa: E402
from shoal.population.study import Study  # noqa: E402
from shoal.population.tune import Tuning  # noqa: E402

SPACE = {
    "algorithm.lr": {"log": [1e-6, 1.0]}, "algorithm.gamma": {"logit": [0.9, 0.999]},
    "algorithm.epochs": {"linear": [1, 10], "whole": True}, "model.hidden": {"choice": [[8], [16]]},
}  # fmt: skip
RECIPE = {"algorithm.lr": 1e-3, "algorithm.gamma": 0.99, "algorithm.epochs": 4, "model.hidden": [8]}


def study(path: Path, **rest: Any) -> Study:
    path.mkdir(exist_ok=True)
    return Study(path, TuneConfig.parse({"space": SPACE, **rest}), 1, 900, 100)


def member(number: int, given: dict[str, Any], *scores: float, state: str = "ended") -> Member:
    found = [Score(100 * (i + 1), score) for i, score in enumerate(scores)]
    facts = {"values": given, "trial": number}
    return Member(f"t{number}", number, [], state=state, steps=100 * len(scores), scores=found, facts=facts)


def searched(path: Path, known: list[Member], count: int, **rest: Any) -> list[dict[str, Any]]:
    """Proposals one after the other, behind those that are known; each scores by how near its rate is to 3e-3."""
    found = study(path, **rest)
    for each in known:
        found.learn(each)
    proposals = []
    for number in range(len(known), len(known) + count):
        proposals.append(found.propose(f"t{number}"))
        found.learn(scored(number, proposals[-1]))
    return proposals


def scored(number: int, given: dict[str, Any]) -> Member:
    import math

    return member(number, given, -abs(math.log10(given["algorithm.lr"] / 3e-3)))


@pytest.mark.parametrize("sampler", ["tpe", "random"])
def test_a_search_that_starts_anew_proposes_the_same(tmp_path: Path, sampler: str) -> None:
    whole = searched(tmp_path / "whole", [scored(0, RECIPE)], 20, sampler=sampler)
    known = [scored(0, RECIPE), *(scored(number + 1, given) for number, given in enumerate(whole[:12]))]
    assert searched(tmp_path / "again", known, 8, sampler=sampler) == whole[12:]
    assert len({given["algorithm.lr"] for given in whole}) == 20


def test_values_have_the_types_of_their_ranges(tmp_path: Path) -> None:
    for given in searched(tmp_path, [], 30):
        assert 1e-6 <= given["algorithm.lr"] <= 1.0
        assert 0.9 <= given["algorithm.gamma"] <= 0.999
        assert type(given["algorithm.epochs"]) is int
        assert given["model.hidden"] in ([8], [16])


def test_the_sampler_goes_where_scores_are_high(tmp_path: Path) -> None:
    import statistics

    def error(sampler: str) -> float:
        last = searched(tmp_path / sampler, [], 40, sampler=sampler)[20:]
        return statistics.median(-scored(0, given).scores[0].mean for given in last)

    assert error("tpe") < 0.5 * error("random")


@pytest.mark.parametrize("pruner", ["median", "halving", "hyperband"])
def test_who_lags_behind_is_pruned(tmp_path: Path, pruner: str) -> None:
    found = study(tmp_path, pruner=pruner)
    for number in range(30):
        found.learn(member(number, RECIPE, *[10.0 + number] * 9))
    bad = [member(number, RECIPE, -5.0, state="waiting") for number in range(30, 40)]
    good = [member(number, RECIPE, 500.0 + number, state="waiting") for number in range(40, 45)]
    for each in (*bad, *good):
        found.learn(each)
    pruned = [found.prunes(each) for each in bad]
    assert any(pruned) if pruner == "hyperband" else all(pruned)  # one of its brackets lets everybody live
    assert not any(found.prunes(each) for each in good[-1:])


def test_a_recipe_outside_the_space_is_trained_and_not_told(tmp_path: Path) -> None:
    found = study(tmp_path)
    found.learn(member(0, {**RECIPE, "algorithm.lr": 5.0}, 1.0))
    assert not found.study.trials
    found.learn(member(1, RECIPE, 1.0))
    assert found.study.best_value == 1.0


def test_the_file_is_one_that_optuna_reads(tmp_path: Path) -> None:
    searched(tmp_path, [scored(0, RECIPE)], 3)
    storage = optuna.storages.JournalStorage(
        optuna.storages.journal.JournalFileBackend(str(tmp_path / "optuna.journal"))
    )
    loaded = optuna.load_study(study_name=tmp_path.name, storage=storage)
    assert [trial.state.name for trial in loaded.trials] == ["COMPLETE"] * 4


def test_the_best_are_confirmed_once_all_have_ended(tmp_path: Path) -> None:
    config = {"space": SPACE, "trials": 3, "top": 2, "seeds": 2}
    experiment = Experiment.parse(values(tune=config, stop={"steps": 900}))
    found = Tuning(experiment, study(tmp_path, **{k: config[k] for k in ("trials", "top", "seeds")}), RECIPE, 1)
    state = State()
    for score in (5.0, 9.0, 7.0):
        (decision,) = found.decide(state)
        state.apply(decision)
        made = state.members[decision["member"]]
        made.state, made.scores = "ended", [Score(900, score)]
    assert state.members["t0"].facts["values"] == RECIPE
    for decision in found.decide(state):
        state.apply(decision)
    assert list(state.members)[3:] == ["t1-seed-2", "t1-seed-3", "t2-seed-2", "t2-seed-3"]
    assert found.over(state) is None
    for name, score in zip(list(state.members)[3:], (1.0, 2.0, 5.0, 6.0), strict=True):
        state.members[name].state, state.members[name].scores = "ended", [Score(900, score)]
    assert found.decide(state) == []
    assert found.over(state) == "all 3 trials have ended, 0 early"
    assert [(record["trial"], record["mean"]) for record in confirmed(state)] == [("t2", 5.5), ("t1", 1.5)]


# ---------------------------------------------------------------- whole


def tuned(root: Path, *, resume: bool = False, words: list[str] | None = None, parallel: int = 1, **rest: Any) -> Ended:
    section = {
        "space": SPACE,
        "trials": 4,
        "every": "128 steps",
        "episodes": 2,
        "top": 1,
        "seeds": 2,
        "pruner": "median",
        **rest,
    }
    options = Options("tune", root=root, parallel=parallel, resume=resume, quiet=True)
    return tune(values(tune=section), words or [], options)


@pytest.mark.slow
def test_a_search_that_was_cut_short_goes_on_and_finds_the_same(tmp_path: Path) -> None:
    whole = tuned(tmp_path / "whole")
    assert whole.reason.startswith("all 4 trials have ended")
    cut = tuned(tmp_path / "cut", budget={"steps": 1100})
    assert cut.reason.startswith("budget.steps")
    again = tuned(tmp_path / "cut", resume=True, words=["tune.budget.steps=null"])
    ends = [
        {each.name: (each.facts["values"], each.state, each.scores) for each in done.state.members.values()}
        for done in (whole, again)
    ]
    assert ends[0] == ends[1]
    folder = PopulationFolder(again.folder)
    best = write_best(folder)
    assert best is not None
    recipe = load_experiment(best, [])
    found = confirmed(folder.state())[0]["values"]
    assert recipe.algorithm.rest["lr"] == found["algorithm.lr"]
    assert recipe.tune is None
    assert 0 <= saved_steps(folder.state(), 512) < 1
    pytest.importorskip("matplotlib", reason="`shoal[plot]` is not installed")
    assert write_figure(folder).stat().st_size > 10_000


def test_a_space_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="algorithm.lrr"):
        tuned(tmp_path, space={"algorithm.lrr": {"log": [1e-4, 1e-1]}})
    with pytest.raises(InputError, match="algorithm.gamma"):
        tuned(tmp_path, space={"algorithm.gamma": {"linear": [0.5, 1.5]}})
    assert not (tmp_path / "tune").exists()
