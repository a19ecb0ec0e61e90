"""The command `shoal`. Each command imports what it needs when it runs: `--help` loads neither torch nor numpy nor pydantic."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from threading import Thread

PATIENCE = 2.0
"""Seconds that threads of environments have to end when everything else has."""


def main() -> None:
    """Run a command; every failure is one line on stderr and a documented exit code."""
    import threading

    before = set(threading.enumerate())
    code = _run()
    others = [thread for thread in threading.enumerate() if thread not in before and not thread.daemon]
    _end_threads(others, code)
    sys.exit(code)


def _run() -> int:
    from shoal.base.descendants import adopt_orphans
    from shoal.base.errors import EXIT_FAILED, EXIT_INTERRUPTED, ShoalError
    from shoal.cli.app import app

    adopt_orphans()
    try:
        app()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except ShoalError as error:
        print(f"shoal: {error}", file=sys.stderr)
        return error.exit_code
    except MemoryError as error:
        print(f"shoal: not enough memory ({error}): fewer env.num_envs, or a smaller algorithm.unroll", file=sys.stderr)
        return EXIT_FAILED
    except KeyboardInterrupt:
        print("shoal: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    finally:
        adopt_orphans(adopt=False)  # a program that calls this goes on
    return 0


def _end_threads(threads: list[Thread], code: int) -> None:
    """Python waits for every thread that is no daemon, and one that an environment has started may never end."""
    import atexit
    import os
    import time

    deadline = time.monotonic() + PATIENCE
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    if any(thread.is_alive() for thread in threads):
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
