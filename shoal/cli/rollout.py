"""`shoal rollout`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from shoal.base.files import as_typed
from shoal.base.importing import importing


def run(run: str, overrides: list[str], *, episodes: int, video: bool, stochastic: bool, **options: Any) -> None:
    """Play and write, then say where it lies."""
    with importing():
        from shoal.cli.evaluate import warn_of_repeats
        from shoal.runs.rollout import rollout

    scores, folder = rollout(run, overrides=overrides, episodes=episodes, video=video, stochastic=stochastic, **options)
    warn_of_repeats(scores)
    length = sum(scores.lengths) / len(scores.lengths)
    how = "stochastic" if stochastic else "greedy"
    print(f"{episodes} {how} episodes of {length:.1f} steps, mean return {scores.mean:.2f}, in {as_typed(folder)}")
    print(_contents(folder, video=video))


def _contents(folder: Path, *, video: bool) -> str:
    arrays = sorted(folder.glob("episode-*.npz"))
    names = [f"{arrays[0].name} to {arrays[-1].stem[-5:]}" if len(arrays) > 1 else arrays[0].name]
    if video:
        names.append("an mp4 beside each" if len(arrays) > 1 else "an mp4 beside it")
    return f"episodes.csv, rollout.json, {', '.join(names)}"
