"""`shoal dashboard`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from shoal.base.errors import InputError


def run(root: Path, *, control: bool, show: bool, **where: Any) -> None:
    """Serve the page until Ctrl-C."""
    try:
        from shoal.dashboard.serve import Listening, Server
    except ModuleNotFoundError as error:
        if error.name not in ("starlette", "uvicorn"):
            raise
        raise InputError(
            f"the dashboard needs {error.name}, which is not installed: pip install 'shoal[dashboard]'"
        ) from None

    listening = Listening(**where)
    server = Server(root, listening, control=control)
    if listening.insecure and not listening.tls:
        print("shoal: not encrypted: anybody on the way can read all of it and take the token below", file=sys.stderr)
    if control:
        print("shoal: whoever has the address below may pause, stop and change live runs", file=sys.stderr)

    def ready() -> None:
        print(f"runs in {root}: {server.url}", flush=True)
        if show:
            import webbrowser

            webbrowser.open(server.url)

    server.run(ready)
