"""Episodes of a run that is on disk, to take away: its settings, one of its checkpoints, every step written down, and videos."""

from __future__ import annotations

import re
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from shoal.api.env import Env
from shoal.api.evaluation import Scores
from shoal.base.descendants import no_new_children
from shoal.base.seeding import derive_seed
from shoal.base.table import from_here
from shoal.evaluation.episode_files import EpisodeFiles
from shoal.evaluation.episodes import copies_for
from shoal.evaluation.evaluator import Watch
from shoal.evaluation.film import Film
from shoal.evaluation.opponents import plies_of
from shoal.evaluation.recorder import Recorder
from shoal.runs.evaluate import Loaded, load_run, seat_run

MAX_COPIES = 16
"""Env copies at most: open episodes are held in memory."""


@from_here()
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
    against: str | None = None,
    openings: int | None = None,
) -> tuple[Scores, Path]:
    """Play `episodes` and write them to `out`, by default into the run's folder; their scores, and where they lie.

    against     an opponent, as for `evaluate`; left out: everyone plays as in training, earlier versions as the present one
    openings    steps at the beginning of each episode in which everyone acts at random
    """
    out = None if out is None else Path(out).absolute()
    met = [] if against is None else [against]
    loaded = load_run(run, overrides=overrides, checkpoint=checkpoint, root=root, against=met)
    copies = copies_for(episodes, loaded.program.experiment.env, MAX_COPIES)
    watch = Watch(derive_seed(seed, "rollout"), copies, explore=stochastic, render=video)
    scored = list(loaded.program.learners)
    with ExitStack() as stack:
        players = stack.enter_context(closing(seat_run(loaded, episodes, watch, openings)))
        evaluator = players.first
        folder = out if out is not None else _folder(loaded, seed, stochastic=stochastic, against=against)
        files = EpisodeFiles(folder, seed=seed, scored=scored, env=evaluator.env, seats=evaluator.seats)
        film = None
        if video:
            film = stack.enter_context(
                closing(
                    Film(evaluator.env, evaluator.seats, lambda number: files.path_of(number, "mp4"), scored=scored)
                )
            )
        recorder = Recorder(evaluator.env, evaluator.seats, episodes, files.write, scored=scored, camera=film)
        scores = players.evaluate(episodes, seed=derive_seed(seed, "evaluation"), watcher=recorder)
        played: dict[str, Any] = {"episodes": episodes, "seed": seed, "stochastic": stochastic, "against": against}
        played |= {"openings": plies_of(loaded.program, openings), "overrides": overrides or []}
        files.finish({**_origin(loaded), **played, **_table(evaluator.env, recorder.policies)})
    return scores, folder


def _folder(loaded: Loaded, seed: int, *, stochastic: bool, against: str | None) -> Path:
    how = "-stochastic" if stochastic else ""
    whom = "" if against is None else "-against-" + re.sub(r"[^A-Za-z0-9._-]+", "-", against)
    return loaded.folder.path / "rollouts" / f"{loaded.version}-{seed}{how}{whom}"


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
