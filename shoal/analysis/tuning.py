"""What a search has found: the best settings, confirmed on seeds of their own, as a recipe; history and importances as a figure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from shoal.analysis.figure import COLOURS, FAINT, INK
from shoal.analysis.statistics import bootstrap_interval, interquartile_mean
from shoal.api.experiment import Experiment
from shoal.base.errors import ShoalError
from shoal.base.files import write_atomic
from shoal.population.folder import PopulationFolder
from shoal.population.settings import member_experiment
from shoal.population.state import Member, State
from shoal.population.study import Study
from shoal.population.tune import confirmations_of, ranked, rungs, trials_of

BEST, FIGURE = "best.yaml", "tune.png"


def confirmed(state: State) -> list[dict[str, Any]]:
    """Of each trial that was confirmed, the interquartile mean over fresh seeds and its interval; best first."""
    found: dict[str, list[float]] = {}
    for member in confirmations_of(state):
        if member.score is not None and member.state == "ended":
            found.setdefault(member.facts["confirms"], []).append(member.score.mean)
    records = []
    for trial, scores in found.items():
        low, high = bootstrap_interval([scores])
        mean = float(interquartile_mean(scores))
        values = state.members[trial].facts["values"]
        records.append({"trial": trial, "mean": mean, "low": low, "high": high, "seeds": len(scores), "values": values})
    return sorted(records, key=lambda record: -record["mean"])


def saved_steps(state: State, steps: int) -> float:
    """Part of the steps of all trials that pruning has saved."""
    trials = [member for member in trials_of(state) if member.state in ("ended", "pruned")]
    taken = sum(min(member.steps, steps) for member in trials)
    return 1 - taken / (steps * len(trials)) if trials else 0.0


def write_best(folder: PopulationFolder) -> Path | None:
    """The recipe with the settings that were confirmed as the best; None: nothing was."""
    from omegaconf import OmegaConf

    state = folder.state()
    if not (found := confirmed(state)):
        return None
    trial = state.members[found[0]["trial"]]
    words = [word for word in trial.words if not word.startswith("seed=")]
    experiment = member_experiment(folder.settings, words)
    values = experiment.model_dump(exclude_unset=True)
    values.pop("name", None)
    title = f"# {folder.name}: {trial.name}, {found[0]['mean']:,.1f} on {found[0]['seeds']} fresh seeds."
    write_atomic(folder.path / BEST, f"{title}\n{OmegaConf.to_yaml(OmegaConf.create(values))}")
    return folder.path / BEST


def write_figure(folder: PopulationFolder) -> Path:
    """What each trial scored, the best so far, and how much each setting decides."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    state, experiment = folder.state(), Experiment.parse(folder.read_settings([]))
    trials = [member for member in trials_of(state) if member.score is not None]
    importances = importances_of(folder, experiment, state)
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        figure = Figure(figsize=(8, 6.5), layout="constrained", facecolor="white")
        FigureCanvasAgg(figure)
        above, below = figure.subplots(2, 1, height_ratios=[3, 1])
        _draw_history(above, trials)
        below.barh(list(importances)[::-1], list(importances.values())[::-1], color=COLOURS[0])
        below.set_xlabel("importance among the trials that were not pruned", color=FAINT)
        above.set_title(folder.name, loc="left", fontsize=15, fontweight="bold", color=INK)
        try:
            figure.savefig(folder.path / FIGURE, dpi=150)
        except OSError as error:
            raise ShoalError(f"{folder.path / FIGURE} cannot be written ({error.strerror})") from None
    return folder.path / FIGURE


def _draw_history(axes: Any, trials: list[Member]) -> None:
    for state, colour in (("ended", COLOURS[0]), ("pruned", "#BBBBBB")):
        these = [member for member in trials if member.state == state]
        points = [(member.facts["trial"], member.score.mean) for member in these if member.score is not None]
        axes.scatter(*zip(*points, strict=True), s=28, color=colour, label=state) if points else None
    best = ranked(trials)
    line: list[float] = []
    places = sorted(best, key=lambda member: member.facts["trial"])
    for member in places:
        assert member.score is not None
        line.append(max([*line[-1:], member.score.mean]))
    axes.step([member.facts["trial"] for member in places], line, where="post", color=COLOURS[1], label="best so far")
    axes.set_xlabel("trial", color=FAINT)
    axes.set_ylabel("return of greedy episodes", color=FAINT)
    axes.legend(frameon=False)


def importances_of(folder: PopulationFolder, experiment: Experiment, state: State) -> dict[str, float]:
    """By Optuna, from the journal alone."""
    import tempfile

    assert experiment.tune is not None
    with tempfile.TemporaryDirectory() as place:
        study = Study(Path(place), experiment.tune, experiment.seed, *rungs(experiment))
        study.recall(state.lines)
        return study.importances()
