"""`shoal reproduce`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from shoal.base.errors import EXIT_INTERRUPTED, ShoalError
from shoal.base.files import as_typed, check_name
from shoal.base.importing import importing

if TYPE_CHECKING:
    from shoal.runs.reproduce import Plan, Reproduction


def run(run: str, *, trial: str | None, on: str | None) -> None:
    """Say what is started and what is not as it was, start it, say whether the numbers are equal."""
    if trial is not None:
        check_name("--trial", trial)
    with importing():
        from shoal.runs.reproduce import plan, reproduce
        from shoal.runs.train import check_launcher

    if on is not None:
        check_launcher(on)
    planned = plan(run, on=on)
    _announce(planned)
    done = reproduce(planned, trial=trial)
    if done.outcome.interrupted:
        print(f"{done.outcome.reason}: nothing was compared")
        sys.exit(EXIT_INTERRUPTED)
    _report(planned, done)


def _announce(planned: Plan) -> None:
    for line in planned.warnings:
        print(f"shoal: warning: {line}", file=sys.stderr)
    until = "" if planned.until is None else f", until update {planned.until:,}"
    print(f"reproducing {planned.folder.name} --on {planned.launcher}{until}")
    if planned.resumed is not None:
        print(f"it was resumed at update {planned.resumed:,}; this run goes there without a stop")


def _report(planned: Plan, done: Reproduction) -> None:
    folder, rows = done.outcome.folder, len(planned.rows)
    names = f"{planned.folder.name} and {folder.parent.name}/{folder.name}"
    if not done.exact:
        print(
            f"not compared: {planned.folder.name} is no exact run, so its numbers differ each time; see {as_typed(folder)}"
        )
        return
    if done.difference is not None:
        late = planned.resumed is not None and done.difference.update > planned.resumed
        why = f" (after it was resumed at update {planned.resumed:,})" if late else ""
        raise ShoalError(f"{names} differ first in {done.difference}{why}")
    if done.tensor is not None:
        raise ShoalError(f"{names} differ in version {done.version:,}: {done.tensor}")
    kept = "" if done.version is None else f", and version {done.version:,}"
    print(f"equal: {rows:,} rows of {names}{kept}, bit for bit; not compared: {', '.join(done.left_out)}")
