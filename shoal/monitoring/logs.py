"""Each process of a run writes what happens to it into `logs/<name>.log`, warnings and tracebacks included."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from shoal.base.files import make_folder, plain_file

LOG = logging.getLogger("shoal")
LONGEST = 20_000
"""Characters of one message and its traceback, half of them its end: an error may hold megabytes of text."""


def shortened(text: str, longest: int = LONGEST) -> str:
    """Beginning and end of a text that is too long."""
    half = longest // 2
    return (
        text if len(text) <= longest else f"{text[:half]} ... [{len(text) - 2 * half:,} characters] ... {text[-half:]}"
    )


class _LogFile(logging.FileHandler):
    """What cannot be written is lost, and nothing else: a full disk is told by whoever writes what matters."""

    def _open(self) -> io.TextIOWrapper:
        return open(self.baseFilename, self.mode, encoding=self.encoding, opener=plain_file)  # type: ignore[return-value]

    def format(self, record: logging.LogRecord) -> str:
        return shortened(super().format(record))

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        return

    def close(self) -> None:
        with suppress(OSError):
            super().close()


@contextmanager
def log_to(folder: Path, name: str) -> Iterator[None]:
    """While entered, `LOG` goes to a file; an exception that passes through leaves its traceback there."""
    make_folder(folder)
    handler = _LogFile(folder / f"{name}.log", encoding="utf-8")
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
