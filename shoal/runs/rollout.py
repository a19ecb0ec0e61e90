"""Episodes of a run that is on disk, to take away: its settings, one of its checkpoints, every step written down, and videos."""

from __future__ import annotations

from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from shoal.api.env import Env
from shoal.api.evaluation import Scores
from shoal.base.descendants import no_new_children
from shoal.base.seeding import derive_seed
from shoal.evaluation.episode_files import EpisodeFiles
from shoal.evaluation.episodes import copies_for
from shoal.evaluation.film import Film
from shoal.evaluation.recorder import Recorder
from shoal.evaluation.seating import Watch, make_evaluator
from shoal.runs.evaluate import Loaded, load_run

MAX_COPIES = 16
"""Env copies at most: open episodes are held in memory."""


@no_new_children()
def rollout(
    run: str,
    *,
    overrides: list[str] | None = None,
    checkpoint: str = "latest",
    episodes: int = 10,
    video: bool = False,
    out: Path | str | None = None,
    stochastic: bool = False,
    seed: int = 0,
    root: Path | str = "runs",
) -> tuple[Scores, Path]:
    """Play `episodes` and write them to `out`, by default into the run's folder; their scores, and where they lie."""
    loaded = load_run(run, overrides=overrides, checkpoint=checkpoint, root=root)
    watch = Watch(derive_seed(seed, "rollout"), copies_for(episodes, MAX_COPIES), explore=stochastic, render=video)
    scored = list(loaded.program.learners)
    with ExitStack() as stack:
        evaluator = stack.enter_context(
            closing(make_evaluator(loaded.program, loaded.plans, loaded.mailboxes, episodes, watch, stage=loaded.stage))
        )
        folder = Path(out) if out is not None else _folder(loaded, seed, stochastic=stochastic)
        files = EpisodeFiles(folder, seed=seed, scored=scored)
        film = None
        if video:
            film = stack.enter_context(
                closing(Film(evaluator.env, lambda number: files.path_of(number, "mp4"), scored=scored))
            )
        recorder = Recorder(evaluator.env, evaluator.seats, episodes, files.write, scored=scored, camera=film)
        scores = evaluator.evaluate(episodes, seed=derive_seed(seed, "evaluation"), watcher=recorder)
        played = {"episodes": episodes, "seed": seed, "stochastic": stochastic, "overrides": overrides or []}
        files.finish({**_origin(loaded), **played, **_table(evaluator.env, recorder.policies)})
    return scores, folder


def _folder(loaded: Loaded, seed: int, *, stochastic: bool) -> Path:
    how = "-stochastic" if stochastic else ""
    return loaded.folder.path / "rollouts" / f"{loaded.version}-{seed}{how}"


def _origin(loaded: Loaded) -> dict[str, Any]:
    return {"run": loaded.folder.name, "version": loaded.version, "env": loaded.program.experiment.env.id}


def _table(env: Env, policies: list[str]) -> dict[str, Any]:
    """Who sat there, in the order of the arrays."""
    groups = {
        name: {
            "agents": list(group.agents),
            "observation_space": str(group.observation_space),
            "action_space": str(group.action_space),
        }
        for name, group in env.groups.items()
    }
    return {"policies": policies, "groups": groups, "game_return": env.game_return}
