"""CartPole is learned although its workers keep dying."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.api.experiment import load_experiment
from shoal.recipes import find
from tests.launchers.live import Run, balanced, noticed_after, restarts, rows, train
from tests.learning.test_recipes import BARS

VICTIMS = ("actor-0", "trainer-agent-0", "policy-agent-0", "actor-1", "trainer-agent-0")
SETTINGS = [
    "placement.actors=2", "placement.inference=worker", "checkpoint.every=1s", "log.tensorboard=false",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_cartpole_is_learned_through_five_deaths(tmp_path: Path) -> None:
    bar, allowed, _ = BARS["cartpole"]

    def script(run: Run) -> None:
        for number, victim in enumerate(VICTIMS):
            run.until(lambda now, number=number: now["step"] >= 5_000 * (number + 1), "steps")  # type: ignore[misc]
            run.kill(victim)

    tree = load_experiment(find("cartpole"), [*SETTINGS, f"stop.steps={2 * allowed}"])
    outcome, run = train(tree, tmp_path, script, stop=False)
    assert outcome.scores is not None
    seconds = noticed_after(run, outcome.folder)
    print(f"\n| cartpole, 5 deaths | {outcome.scores.mean:.1f} | {outcome.steps:,} steps | {outcome.seconds:.0f} s |")
    assert len(restarts(outcome.folder)) == len(seconds) == len(VICTIMS)
    assert max(seconds) < 1.0
    assert all(balanced(row) for row in rows(outcome.folder))
    assert outcome.scores.mean >= bar
    assert outcome.steps <= 2.02 * allowed
