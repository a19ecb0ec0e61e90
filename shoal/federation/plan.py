"""What the two ends are told when they are started: a private file in the run folder, since addresses belong into no log, no metric
and no checkpoint."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from shoal.base.errors import ShoalError
from shoal.base.files import read_small, write_atomic
from shoal.federation.credentials import Credentials
from shoal.workers.context import Context

FILE = "federation.json"


@dataclass(frozen=True)
class Plan:
    """Where to call or to be called, as whom, and what is trained."""

    recipe: str
    fingerprint: str
    credentials: str
    listen: str | None = None
    call: list[str] = field(default_factory=list)
    """The parent, or the children."""

    def write(self, folder: Path) -> None:
        """For the workers of the run there."""
        write_atomic(folder / FILE, json.dumps(asdict(self)))

    @classmethod
    def of(cls, context: Context) -> Plan:
        """As the run was started."""
        if context.checkpoints is None:
            raise ShoalError("federation: the run's folder cannot be reached from here: use --on local")
        return cls(**json.loads(read_small(context.checkpoints.with_name(FILE))))

    @property
    def identity(self) -> Credentials:
        """Its own end's."""
        return Credentials(Path(self.credentials))
