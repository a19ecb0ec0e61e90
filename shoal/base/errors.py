"""The two ways a command may fail, and the exit code of each."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

EXIT_DONE = 0
EXIT_FAILED = 1
EXIT_WRONG_INPUT = 2
EXIT_INTERRUPTED = 130


class ShoalError(Exception):
    """The run failed. Its text is one line: the cause, then the remedy."""

    exit_code = EXIT_FAILED


class InputError(ShoalError):
    """What the user wrote cannot be right. Its text names the key, the value and the remedy."""

    exit_code = EXIT_WRONG_INPUT


@contextmanager
def own_code(what: str, kind: type[ShoalError] = InputError) -> Iterator[None]:
    """Turn what a user's own code raises into one line: `what` it is, and what it said."""
    try:
        yield
    except ShoalError:
        raise
    except Exception as error:
        raise kind(f"{what}: {one_line(error)}") from error


def one_line(error: BaseException) -> str:
    """`ValueError: text (file.py, line 3)`: the last line that is no library's."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_library(frame.filename)]
    where = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {' '.join(str(error).split())}{where}"


def _is_library(file: str) -> bool:
    path = Path(file)
    return "site-packages" in path.parts or path.is_relative_to(Path(__file__).parents[1])
