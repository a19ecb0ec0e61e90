"""A member takes over what another has learned: parameters, moments of the optimiser, normalisers, counters."""

from __future__ import annotations

from shoal.algorithms.settings import KEY
from shoal.checkpoints.store import CheckpointStore
from shoal.monitoring.run_folder import RunFolder

TAKEN = "taken_from"
"""In `meta`: which checkpoint of which run it is a copy of."""


def take_over(donor: CheckpointStore, version: int, store: CheckpointStore, folder: RunFolder) -> None:
    """Write the donor's checkpoint as one of the member's own. Done before: nothing happens.

    What workers hold is not copied: the member's environments begin anew, and what is kept for replay is gathered again. Settings
    that the donor was changed to are its own.
    """
    origin = f"{donor.folder.parent.name}@{version}"
    if version in store.versions():
        manifest, damage = store.inspect(version)
        if manifest is not None and damage is None and manifest["meta"].get(TAKEN) == origin:
            return
    with donor.hold(version):
        found = donor.load(version)
        learned = {name: tensor for name, tensor in found.tensors.items() if name.rpartition("/")[2] != KEY}
        own = ("steps", "controller", "versions", "policy_steps")
        meta = {key: found.meta[key] for key in own if key in found.meta}
        store.drop_newer(version)
        store.save(version, learned, {**meta, TAKEN: origin})
    folder.event("copied", origin=origin, steps=meta["steps"])
