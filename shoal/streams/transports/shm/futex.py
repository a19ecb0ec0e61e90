"""The three calls into the kernel that shared counters need: sleep on a word, change it and wake its sleepers, order memory."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import sys

from shoal.base.errors import ShoalError

_NUMBERS = {"x86_64": 202, "aarch64": 98}
_WAIT, _WAKE_OP = 0, 5  # not PRIVATE: the word lies in memory that several processes map
_ALL = 2**31 - 1
_ADD_ONE = (
    1 << 28 | 2 << 24 | 1 << 12
)  # FUTEX_OP_ADD 1; the second wake-up that the call offers (old value < 0) finds nobody
_LONGEST = 3600.0

_NUMBER = _NUMBERS.get(platform.machine(), -1) if sys.platform == "linux" else -1
_KEEPS_ORDER = platform.machine() == "x86_64"
_SCRATCH = ctypes.c_uint32(0)


class _Timespec(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]


_syscall = ctypes.CDLL(None, use_errno=True).syscall
_syscall.restype = ctypes.c_long
_syscall.argtypes = [
    ctypes.c_long,
    ctypes.c_void_p,
    ctypes.c_int,
    ctypes.c_uint32,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_uint32,
]


def require_machine() -> None:
    """Refuse machines whose system call numbers or memory order are not known here."""
    if _NUMBER < 0:
        raise ShoalError(
            f"the shm transport runs on Linux on {' and '.join(_NUMBERS)}, not on {sys.platform} on {platform.machine()}: "
            "use the inline launcher"
        )


def wait(address: int, seen: int, timeout: float) -> None:
    """Sleep while the 32-bit word is `seen`. Returns after a wake-up, a signal or the timeout: the caller looks again."""
    timeout = min(timeout, _LONGEST)
    span = _Timespec(int(timeout), int(timeout % 1 * 1e9))
    if _syscall(_NUMBER, address, _WAIT, seen, ctypes.byref(span), None, 0) < 0:
        error = ctypes.get_errno()
        if error not in (errno.EAGAIN, errno.EINTR, errno.ETIMEDOUT):
            raise OSError(error, f"futex wait: {os.strerror(error)}")


def add_and_wake(address: int) -> None:
    """Add one to the 32-bit word, atomically, and wake all who sleep on it. What was stored before is visible to them."""
    if _syscall(_NUMBER, address, _WAKE_OP, _ALL, None, address, _ADD_ONE) < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"futex wake: {os.strerror(error)}")


def fence() -> None:
    """Loads stay before whatever follows, stores before later stores. Free on x86-64, which does so anyway."""
    if not _KEEPS_ORDER:
        barrier()


def barrier() -> None:
    """Everything before it is seen before anything after it: an atomic operation inside the kernel, some 2 us."""
    add_and_wake(ctypes.addressof(_SCRATCH))
