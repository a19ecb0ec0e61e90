"""Members of a run's league as policies for others: one of them, or all as the league mixes them."""

from __future__ import annotations

from shoal.api.policy_spec import Source
from shoal.api.program import Program
from shoal.checkpoints.store import CheckpointStore
from shoal.checkpoints.tags import LATEST
from shoal.league.journal import Journal
from shoal.monitoring.run_folder import RunFolder
from shoal.rollout.plans import LEAGUE, member_file

MIXTURE = "mixture"
"""Names all that players of a league meet, as often as they meet them."""


def league_source(folder: RunFolder, program: Program, name: str, role: str) -> Source | None:
    """`main-3`, or `mixture`; None: there is no such member. `role`: in whose place a mixture plays, where sides differ."""
    player, _, number = name.rpartition("-")
    if name == MIXTURE and program.experiment.league is not None:
        return _mixture(folder, program, role)
    if player not in program.learners or not member_file(folder.path / LEAGUE, name).is_file():
        return None
    return Source(program.policies[player], str(folder.checkpoints), int(number), name)


def _mixture(folder: RunFolder, program: Program, role: str) -> Source | None:
    league = program.experiment.league
    assert league is not None
    odds: dict[str, dict[str, float]] = {}
    for decision in Journal(folder.path / LEAGUE).decisions():
        odds = decision["odds"] if decision["kind"] == "odds" else odds
    parts: dict[str, float] = {}
    if program.experiment.agents:  # those of a side are whom the other side meets
        for met in odds.values():
            parts |= {name: share for name, share in met.items() if name.rpartition("-")[0] == role or name == role}
    else:
        parts = odds.get(next(player for player, of in league.players.items() if of == "main"), {})
    found = [(share, _part(folder, program, name)) for name, share in parts.items() if share > 0]
    if not found:
        return None
    first = found[0][1]
    return Source(first.policy, first.checkpoints, 0, mixture=tuple(found))


def _part(folder: RunFolder, program: Program, name: str) -> Source:
    """A member; a player as it learns is the one of the newest checkpoint."""
    if name in program.learners:
        store = CheckpointStore(folder.checkpoints)
        return Source(program.policies[name], str(folder.checkpoints), store.load(LATEST).version)
    player, _, number = name.rpartition("-")
    return Source(program.policies[player], str(folder.checkpoints), int(number), name)
