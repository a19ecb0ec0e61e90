"""`shoal evaluate`."""

from __future__ import annotations

from shoal.base.importing import importing
from shoal.cli.output import print_json


def run(run: str, overrides: list[str], *, episodes: int, seed: int, checkpoint: str, json: bool) -> None:
    """Play, then print the scores."""
    with importing():
        from shoal.monitoring.terminal import waiting
        from shoal.runs.evaluate import evaluate

    with waiting(f"evaluating {run}") as tell:
        scores, version = evaluate(
            run, overrides=overrides, episodes=episodes, seed=seed, checkpoint=checkpoint, tell=tell
        )
    if json:
        document = {
            "mean_return": scores.mean,
            "std_return": scores.std,
            "episodes": len(scores.returns),
            "steps": sum(scores.lengths),
            "version": version,
            "agent_return": scores.by_policy,
            "game_return": scores.mean if scores.game is None else scores.game,
        }
        print_json(document)
        return
    length = sum(scores.lengths) / len(scores.lengths)
    print(
        f"{run}, version {version}: mean return {scores.mean:.2f} (standard deviation {scores.std:.2f}) "
        f"over {episodes} greedy episodes of {length:.1f} steps"
    )
    if scores.game is not None:
        print(f"return over all agents, as env.game_return adds them up: {scores.game:.2f}")
    if len(scores.by_policy) > 1:
        parts = ", ".join(f"{name} {mean:.2f}" for name, mean in scores.by_policy.items())
        print(f"mean return of an agent, by policy: {parts}")
