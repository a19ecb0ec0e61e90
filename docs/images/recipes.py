"""Draws what the cards of the gallery show: a still of each environment, and the learning curve of one run.

Run from the repository: `.venv/bin/python docs/images/recipes.py cartpole spread`. Each recipe is trained to its end in one
thread, with its own seed; with `--still` for one update only, and without a curve. Environments that cannot draw themselves have
no still: `games.py` draws some. What a curve shows depends on the recipe: the training return; of games the share of greedy games
won against random play; of poker and the like the exact exploitability; of a sweep a line for each of its settings.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from statistics import fmean
from typing import Any

import av
from curves import Figure, Points
from PIL import Image

import shoal
from shoal.api.experiment import load_experiment
from shoal.base.errors import InputError
from shoal.checkpoints.store import CheckpointStore
from shoal.envs import make_env
from shoal.recipes import find
from shoal.runs.rollout import rollout
from shoal.testing.exploitability import exploitability
from shoal.testing.strategies import strategy_of

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "benchmarks"))
from exploitability import measure, table_of  # noqa: E402

FOLDER = Path(__file__).parent / "recipes"
SIDE, COLOURS = 280, 48
GAMES = {"connect-four": "20 updates", "connect-four-league": "60 updates", "tictactoe-league": "50 updates"}
"""Games between equals, whose training return says nothing: how often they are evaluated against random play instead."""
EXACT = ("rps-league", "kuhn-psro", "leduc-psro", "leduc-ppo")
"""Games that are small enough to compute the best answer to a policy."""
GREEDY = {"two-step-game": "10 updates"}
"""Recipes whose training actions are random to the end: how often greedy play is evaluated instead."""
RIVALS = ("tag", "tag-league")
SAVED = {"leduc-ppo": "checkpoint={every: 250_000 steps, keep: 100}"}
"""Without a league, exploitability is that of checkpoints."""


def trained(recipe: str, root: str, *, still: bool) -> Path:
    """The folder of its run."""
    overrides = ["stop.updates=1", "env.num_envs=4", "stop.steps=4000", "stop.return=null"] if still else []
    if recipe in GAMES and not still:
        overrides.append(f"evaluation={{every: {GAMES[recipe]}, episodes: 200, against: [random]}}")
    if recipe in GREEDY and not still:
        overrides.append(f"evaluation={{every: {GREEDY[recipe]}, episodes: 40}}")
    overrides += [SAVED[recipe]] if recipe in SAVED and not still else []
    return shoal.train(load_experiment(find(recipe), overrides), root=root, on="inline", quiet=True).folder


def draw_still(recipe: str, run: Path) -> None:
    """An image from the middle of an episode."""
    try:
        _, folder = rollout(str(run), episodes=1, video=True)
    except InputError as error:
        print(f"{recipe}: no still ({error})")
        return
    with av.open(str(folder / "episode-00000.mp4")) as video:
        frames = [frame.to_image() for frame in video.decode(video=0)]
    image = frames[len(frames) // 3]
    image = image.resize((SIDE, round(SIDE * image.height / image.width)), Image.Resampling.LANCZOS)
    image.quantize(COLOURS, dither=Image.Dither.NONE).save(FOLDER / f"{recipe}-still.png", optimize=True)


# ---------------------------------------------------------------- curves


def figure_of(recipe: str, run: Path) -> Figure:
    """What the run's card shows."""
    if recipe in EXACT:
        return Figure("exploitability", {"": exploitabilities(run)})
    rows = rows_of(run)
    if recipe in GAMES:
        scored = [row for row in rows if "eval/against/random/win_rate" in row]
        points = [(row["eval/steps"], 100 * row["eval/against/random/win_rate"]) for row in scored]
        return Figure("% of games won against random play", {"": points})
    if recipe in GREEDY:
        scored = [row for row in rows if "eval/game_return" in row]
        return Figure("greedy return", {"": [(row["eval/steps"], row["eval/game_return"]) for row in scored]})
    if recipe in RIVALS:
        names = [key.split("/")[1] for key in rows[-1] if key.startswith("rollout/") and key.endswith("/agent_return")]
        return Figure("return per agent", {name: column(rows, f"rollout/{name}/agent_return") for name in names})
    several = "rollout/agent_return" in rows[-1]
    if several:
        random = rows[-1].get("baseline/random_agent_return")
        return Figure("return per agent", {"": column(rows, "rollout/agent_return")}, random)
    return Figure("training return", {"": column(rows, "rollout/ep_rew_mean")})


def rows_of(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def column(rows: list[dict[str, Any]], name: str) -> Points:
    return [(row["step"], row[name]) for row in rows if name in row]


def exploitabilities(run: Path) -> Points:
    """Over steps: of the mixtures of a league, or of the versions that were saved."""
    found = measure(str(run))
    if "mixtures" in found:
        return list({each["steps"]: each["exploitability"] for each in found["mixtures"]}.items())  # the last of each
    store, points = CheckpointStore(run / "checkpoints", keep=100), []
    for version in store.versions():
        loaded = shoal.load(run, checkpoint=str(version))
        with closing(make_env(loaded.experiment.env, 1)) as env:
            table = table_of(env)
        manifest, _ = store.inspect(version)
        assert manifest is not None
        strategy = strategy_of(loaded.policy().module.eval(), table)
        points.append((manifest["meta"]["steps"], exploitability(table, strategy)))
    return points


def sweep_figure(recipe: str, root: str) -> Figure:
    """A line for each value of its grid, the mean over seeds."""
    (key, values), *_ = load_experiment(find(recipe), []).sweep.grid.items()  # type: ignore[union-attr]
    words = [sys.executable, "-m", "shoal.cli", "sweep", recipe, "--name", "grid", "--parallel", "1"]
    subprocess.run(words, cwd=root, check=True, capture_output=True)
    lines = {}
    for value in values:
        runs = [run for run in Path(root, "runs/grid").glob("*-seed-*") if setting(run, key) == value]
        curves = [column(rows_of(run), "rollout/ep_rew_mean") for run in runs]
        least = min(len(curve) for curve in curves)
        lines[f"{key.rpartition('.')[2]} {value:g}"] = [
            (curves[0][i][0], fmean(curve[i][1] for curve in curves)) for i in range(least)
        ]
    return Figure("training return, mean of seeds", lines)


def setting(run: Path, key: str) -> Any:
    found: Any = shoal.load(run).experiment
    for part in key.split("."):
        found = getattr(found, part)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipes", nargs="+")
    parser.add_argument("--still", action="store_true")
    options = parser.parse_args()
    FOLDER.mkdir(exist_ok=True)
    for recipe in options.recipes:
        with tempfile.TemporaryDirectory() as root:
            if load_experiment(find(recipe), []).sweep is not None:
                sweep_figure(recipe, root).save(FOLDER / f"{recipe}-curve.svg")
            else:
                run = trained(recipe, root, still=options.still)
                draw_still(recipe, run)
                if not options.still:
                    figure_of(recipe, run).save(FOLDER / f"{recipe}-curve.svg")
        print(recipe, flush=True)


if __name__ == "__main__":
    main()
