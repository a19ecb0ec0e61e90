"""The command `shoal`. Each command imports what it needs when it runs: `--help` loads neither torch nor numpy nor pydantic."""

from __future__ import annotations

import sys


def main() -> None:
    """Run a command; every failure is one line on stderr and a documented exit code."""
    from shoal.base.descendants import adopt_orphans
    from shoal.base.errors import EXIT_INTERRUPTED, ShoalError
    from shoal.cli.app import app

    adopt_orphans()
    try:
        app()
    except ShoalError as error:
        print(f"shoal: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("shoal: interrupted", file=sys.stderr)
        sys.exit(EXIT_INTERRUPTED)
