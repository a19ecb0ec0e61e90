"""One file per worker: actor, trainer, controller. Each polls; none knows in which process it lives."""
