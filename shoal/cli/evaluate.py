"""`shoal evaluate`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from shoal.base.importing import importing
from shoal.cli.output import print_json

if TYPE_CHECKING:
    from shoal.api.evaluation import Match, Scores


def run(run: str, overrides: list[str], *, json: bool, wandb: str | None, stochastic: bool, **options: Any) -> None:
    """Play, then print the scores."""
    with importing():
        from shoal.monitoring.run_folder import RunFolder
        from shoal.monitoring.terminal import waiting
        from shoal.monitoring.wandb_sink import wandb_of
        from shoal.runs.evaluate import evaluate

    folder = RunFolder(RunFolder.find(run).path.absolute())
    config, mode = (
        wandb_of(folder, wandb) if wandb else (None, None)
    )  # what cannot be shown is said before anything is played
    with waiting(f"evaluating {run}") as tell:
        scores, version = evaluate(str(folder.path), overrides=overrides, stochastic=stochastic, tell=tell, **options)
    warn_of_repeats(scores)
    if scores.cancels:
        cause = "everyone was played by this version and the returns cancel out"
        print(f"shoal: warning: {cause}: name an opponent, --against random", file=sys.stderr)
    _print(run, scores, version, "stochastic" if stochastic else "greedy", json=json)
    if config is not None and mode is not None:
        from shoal.runs.wandb_evaluation import record

        how = {"overrides": overrides, "stochastic": stochastic, **options}
        record(folder, config, mode, scores, version, how, lambda line: print(line, file=sys.stderr))


def _print(run: str, scores: Scores, version: int, how: str, *, json: bool) -> None:
    if json:
        print_json(_document(scores, version))
        return
    length = sum(scores.lengths) / len(scores.lengths)
    print(
        f"{run}, version {version}: mean return {scores.mean:.2f} (standard deviation {scores.std:.2f}) "
        f"over {len(scores.returns)} {how} episodes of {length:.1f} steps"
    )
    for opponent, matches in scores.opponents.items():
        for line in _lines(opponent, matches):
            print(line)
    if scores.matches:
        return
    if scores.game is not None:
        print(f"return over all agents, as env.game_return adds them up: {scores.game:.2f}")
    if len(scores.by_policy) > 1:
        parts = ", ".join(f"{name} {mean:.2f}" for name, mean in scores.by_policy.items())
        print(f"mean return of an agent, by policy: {parts}")


def warn_of_repeats(scores: Scores) -> None:
    """Many episodes say no more than one."""
    if not scores.repeated:
        return
    remedy = "add --openings 4 or --stochastic"
    if not scores.matches and scores.game is not None:
        remedy += ", or --against random"
    print(
        f"shoal: warning: equal players played one game again and again, nothing is random: {remedy}", file=sys.stderr
    )


def _lines(opponent: str, matches: list[Match]) -> list[str]:
    """An opponent, and under it the players that it stands for."""
    from shoal.api.evaluation import Tally

    tally = Tally.of(matches)
    low, high = tally.interval
    lines = [
        f"against {opponent}: {tally.wins} won, {tally.draws} drawn, {tally.losses} lost of {tally.matches}; "
        f"win rate {tally.win_rate:.2f} (95 % interval {low:.2f} to {high:.2f}), mean return {tally.mean_return:.2f}"
    ]
    by_player = _by_player(matches)
    if len(by_player) > 1:
        parts = [f"{name} {Tally.of(own).win_rate:.2f} of {len(own)}" for name, own in by_player.items()]
        lines.append(f"  win rate by player: {', '.join(parts)}")
    return lines


def _by_player(matches: list[Match]) -> dict[str, list[Match]]:
    found: dict[str, list[Match]] = {}
    for match in matches:
        others = dict.fromkeys(player for agent, player in match.players.items() if agent not in match.own)
        found.setdefault(" and ".join(others), []).append(match)
    return found


def _document(scores: Scores, version: int) -> dict[str, Any]:
    document = {
        "mean_return": scores.mean,
        "std_return": scores.std,
        "episodes": len(scores.returns),
        "steps": sum(scores.lengths),
        "version": version,
        "agent_return": scores.by_policy,
        "game_return": scores.mean if scores.game is None else scores.game,
    }
    if scores.matches:
        document["against"] = {opponent: tally.facts() for opponent, tally in scores.tallies.items()}
    return document
