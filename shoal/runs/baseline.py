"""What everyone at random earns: a return of several agents says little until it is seen beside that."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

from shoal.api.evaluation import Scores
from shoal.api.program import Program
from shoal.api.worker import Heartbeat
from shoal.base.seeding import derive_seed
from shoal.evaluation.seating import make_random_evaluator
from shoal.launchers.errand import Errand
from shoal.launchers.links import Limits

RANDOM_EPISODES = 20
"""Played at random before a run of several agents, for comparison."""


def random_returns(program: Program, meanwhile: Callable[[], None], *, supervised: bool) -> dict[str, float] | None:
    """The columns of every row; None where one agent is alone. `supervised`: in a process that may hang or die."""
    agents = sum(spec.count for spec in program.policies.values())
    if agents < 2:
        return None
    if supervised:
        errand = Errand("random play, for comparison", Limits.of(program.experiment), lambda _: meanwhile())
        scores = errand.run(_play, program)
    else:
        scores = _play(Heartbeat(), program)
    found = {"baseline/random_team_return": scores.mean, "baseline/random_agent_return": scores.mean / agents}
    if len(scores.by_policy) > 1:
        found |= {f"baseline/{policy}/random_agent_return": mean for policy, mean in scores.by_policy.items()}
    return found


def _play(heartbeat: Heartbeat, program: Program) -> Scores:
    with closing(make_random_evaluator(program, RANDOM_EPISODES)) as evaluator:
        evaluator.env.between = heartbeat.between
        episodes = evaluator.begin(RANDOM_EPISODES, seed=derive_seed(program.experiment.seed, "random play"))
        while not episodes.over:
            heartbeat.beat()
            episodes.step()
        return episodes.scores()
