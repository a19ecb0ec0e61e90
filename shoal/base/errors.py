"""The two ways a command may fail, and the exit code of each."""

from __future__ import annotations

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
