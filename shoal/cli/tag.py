"""`shoal tag`."""

from __future__ import annotations

from shoal.base.errors import InputError
from shoal.base.importing import importing
from shoal.cli.output import command
from shoal.monitoring.run_folder import RunFolder


def run(run: str, name: str, *, checkpoint: str, remove: bool) -> None:
    """Set or remove a tag, and say which version has it, or had it."""
    with importing():
        from shoal.checkpoints.store import CheckpointStore, parse_which

    folder = RunFolder.find(run)
    store = CheckpointStore(folder.checkpoints)
    if remove:
        if checkpoint != "latest":
            raise InputError("--remove takes the name from whichever checkpoint has it: omit --checkpoint")
        store.untag(name)
        print(f"{folder.name}: no checkpoint is '{name}' any more")
        return
    found = store.load(parse_which(checkpoint, store.versions(), store.tags()))
    for version, damage, _ in found.skipped:
        raise InputError(
            f"checkpoint {version} of {folder.path} is damaged ({damage}): try --checkpoint {found.version}"
        )
    store.tag(name, found.version)
    print(f"{folder.name}: '{name}' is version {found.version}; look: {command()} evaluate {run} --checkpoint {name}")
