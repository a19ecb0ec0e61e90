"""Each process of a run writes what happens to it into `logs/<name>.log`, warnings and tracebacks included."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

LOG = logging.getLogger("shoal")


class LogFile(logging.FileHandler):
    """What cannot be written is lost, and nothing else: a full disk is told by whoever writes what matters."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        return

    def close(self) -> None:
        with suppress(OSError):
            super().close()


@contextmanager
def log_to(folder: Path, name: str) -> Iterator[None]:
    """While entered, `LOG` goes to a file; an exception that passes through leaves its traceback there."""
    folder.mkdir(exist_ok=True)
    handler = LogFile(folder / f"{name}.log", encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    level = LOG.level
    LOG.addHandler(handler)
    LOG.setLevel(logging.INFO)
    try:
        yield
    except BaseException:
        LOG.exception("the run ends with an error")
        raise
    finally:
        LOG.removeHandler(handler)
        LOG.setLevel(level)
        handler.close()
