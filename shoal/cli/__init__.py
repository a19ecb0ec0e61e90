"""The command `shoal`. Each command imports what it needs when it runs: `--help` loads neither torch nor numpy nor pydantic."""

from __future__ import annotations

import sys


def main() -> None:
    """Run a command; every failure is one line on stderr and a documented exit code."""
    from shoal.base.errors import EXIT_FAILED, EXIT_INTERRUPTED, ShoalError
    from shoal.cli.app import app

    try:
        app()
    except ShoalError as error:
        print(f"shoal: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except MemoryError as error:
        print(f"shoal: not enough memory ({error}): fewer env.num_envs, or a smaller algorithm.unroll", file=sys.stderr)
        sys.exit(EXIT_FAILED)
    except KeyboardInterrupt:
        print("shoal: interrupted", file=sys.stderr)
        sys.exit(EXIT_INTERRUPTED)
