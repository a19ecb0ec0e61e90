"""`shoal demo`: a team learns, is evaluated in an environment that it has never seen, and can be watched."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from shoal.base.duration import format_duration
from shoal.base.errors import EXIT_INTERRUPTED, InputError, ShoalError
from shoal.base.files import as_typed
from shoal.base.importing import importing
from shoal.cli.output import command, tell
from shoal.recipes import find

if TYPE_CHECKING:
    from shoal.runs.outcome import Outcome

RECIPE = "spread"
LIMITS = ["stop.seconds=40s"]
"""If the recipe's steps take longer: the command is over within a minute, on slow machines too."""
ELSEWHERE = ["env.id=mpe2/simple_spread_v3", "env.kwargs={}"]
BAR = -11.0
"""Of an agent, in the other environment: random play earns -26.6 there, a script that assigns agents to landmarks -8.0."""
EPISODES, VIDEOS = 100, 3
NEEDS = {"mpe2": "mpe", "av": "video", "matplotlib": "plot"}
"""Package -> the extra that has it."""


def run(overrides: list[str], *, trial: str | None, seed: int | None) -> None:
    """Train, then show what came of it."""
    if missing := [extra for package, extra in NEEDS.items() if importlib.util.find_spec(package) is None]:
        raise InputError(f"shoal demo needs more packages: pip install 'shoal[{','.join(missing)}]'")
    with importing():
        from shoal.api.experiment import load_experiment
        from shoal.launchers.forkserver import warm

        settings = [*LIMITS, *overrides, *([] if seed is None else [f"seed={seed}"])]
        experiment = load_experiment(find(RECIPE), settings)
        warm()
        from shoal.runs.train import train

    tell(
        "Three agents learn to cover three landmarks without collisions, from nothing: MAPPO, one policy for all,",
        "a critic that sees everything. Their return is minus the distances and collisions: higher is better.",
    )
    outcome = train(experiment, trial=trial)
    folder = as_typed(outcome.folder)
    tell(f"{outcome.steps:,} steps, {3 * outcome.steps:,} of an agent, in {format_duration(outcome.seconds)}")
    if outcome.interrupted:
        tell(f"go on: {command()} train {RECIPE} --trial {outcome.folder.name} --resume")
        sys.exit(EXIT_INTERRUPTED)
    score = _evaluate(outcome)
    video, curve = _record(outcome), _draw(outcome)
    tell(
        "",
        f"video           {as_typed(video)}",
        f"learning curve  {as_typed(curve)}",
        f"everything      {folder}",
        "",
        "next:",
        f"  {command()} train tag                            two teams that learn against each other",
        f"  {command()} train {RECIPE} env.kwargs.N=4            another team: any setting goes on top",
        f"  {command()} rollout {folder} --video    more episodes of this one",
    )
    if score < BAR:
        raise ShoalError(
            f"the team earned {score:.1f} per agent, not {BAR:g}: give it more time, {command()} train {RECIPE}"
        )


def _evaluate(outcome: Outcome) -> float:
    """What an agent earns in the other environment, beside what it earned at random in its own."""
    from shoal.monitoring.terminal import waiting
    from shoal.runs.evaluate import evaluate

    with waiting("evaluating the team in mpe2") as say:
        scores, _ = evaluate(str(outcome.folder), overrides=ELSEWHERE, episodes=EPISODES, tell=say)
    score = scores.mean / 3
    tell(
        f"evaluated in mpe2's simple_spread_v3, which it has never seen: {score:.1f} per agent over {EPISODES} episodes "
        f"(bar {BAR:g}, random play -26.6)"
    )
    return score


def _record(outcome: Outcome) -> Path:
    """A few episodes, one after the other."""
    import av

    from shoal.evaluation.video import write_video
    from shoal.runs.rollout import rollout

    _, folder = rollout(str(outcome.folder), episodes=VIDEOS, video=True)
    frames, rate = [], 10.0
    for path in sorted(folder.glob("*.mp4")):
        with av.open(str(path)) as episode:
            rate = float(episode.streams.video[0].average_rate or rate)
            frames += [frame.to_ndarray(format="rgb24") for frame in episode.decode(video=0)]
    write_video(outcome.folder / "team.mp4", frames, fps=rate)
    return outcome.folder / "team.mp4"


def _draw(outcome: Outcome) -> Path:
    from shoal.analysis.curves import band
    from shoal.analysis.figure import Drawing, save
    from shoal.analysis.trials import find_group

    group, _ = find_group(str(outcome.folder))
    curve, _ = band(group, "rollout/agent_return", "seconds")
    random = group.trials[0].rows[-1]["baseline/random_agent_return"]
    path = outcome.folder / "learning-curve.png"
    title = "Three agents cover three landmarks"
    save([Drawing([curve], "rollout/agent_return", "seconds", title, by_chance=float(random))], path)
    return path
