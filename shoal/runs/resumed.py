"""A resumed run is not always the one that was left: what of it begins anew, for people."""

from __future__ import annotations

from collections.abc import Iterator

from shoal.api.program import Program
from shoal.checkpoints.checkpoint import Checkpoint
from shoal.checkpoints.store import CheckpointStore


def begins_anew(
    program: Program, start: Checkpoint, store: CheckpointStore, *, goes_on: bool | None, replay: bool
) -> Iterator[str]:
    """A line for each; tags of versions that are gone go too. `goes_on`: open episodes do; `replay`: what was kept for it does."""
    for tag in store.drop_newer(start.version):
        yield f"the tag '{tag}' is gone: its checkpoint was newer than {start.version}, where the run goes on"
    if any(spec.facts.sequences for spec in program.policies.values()) and not replay:
        yield "replay starts empty, and warms up again: the checkpoint does not hold what fits here"
    if not goes_on:
        yield "open episodes begin anew: the checkpoint does not hold them as they were"
    for version, damage, steps in start.skipped:
        lost = f"{version - start.version:,} updates" if steps is None else f"{steps - start.meta['steps']:,} steps"
        went_on = f"the run goes on from version {start.version} and loses {lost}"
        yield f"checkpoint {version} is damaged and was passed over: {damage}; {went_on}"
