"""A piece of memory without a name that processes of one machine share: the kernel frees it when nobody maps it any more."""

from __future__ import annotations

import mmap
import os
import weakref
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from shoal.base.errors import ShoalError
from shoal.streams.transports.shm.futex import require_machine

ALIGNMENT = 64
"""Bytes of a cache line: what different processes write lies on different ones."""


def aligned(nbytes: int) -> int:
    """The next multiple of a cache line."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


class SegmentHandle(NamedTuple):
    """How another process finds a segment. Plain numbers: it may travel as JSON or msgpack."""

    pid: int
    """Who created it; it must live while others attach, unless they inherited the descriptor."""
    fd: int
    inode: int
    nbytes: int


class Segment:
    """One mapping. It lasts until `close` and until the last array cut from it is gone."""

    def __init__(self, fd: int, handle: SegmentHandle) -> None:
        self.handle = handle
        self._release: weakref.finalize | None = None
        self._map: mmap.mmap | None = mmap.mmap(fd, handle.nbytes)
        self._address = np.frombuffer(self._map, np.uint8).ctypes.data

    @classmethod
    def create(cls, nbytes: int) -> Segment:
        """Allocate zeros, for real: running out of memory shows here, not as SIGBUS at some later write."""
        require_machine()
        fd = os.memfd_create("shoal")
        try:
            _allocate(fd, nbytes)
            segment = cls(fd, SegmentHandle(os.getpid(), fd, os.fstat(fd).st_ino, nbytes))
        except BaseException:
            os.close(fd)
            raise
        segment._release = weakref.finalize(segment, os.close, fd)  # others open it through /proc while it is open here
        return segment

    @classmethod
    def attach(cls, handle: SegmentHandle) -> Segment:
        """Map what another process created, or what this one inherited over a fork."""
        require_machine()
        handle = SegmentHandle(*handle)
        for fd in _descriptors(handle):
            try:
                status = os.fstat(fd)
                if (status.st_ino, status.st_size) == (handle.inode, handle.nbytes):
                    return cls(fd, handle)
            finally:
                os.close(fd)
        raise ShoalError(
            f"shared memory {handle.fd} of process {handle.pid} is gone: "
            "create it in a process of the same user and machine that outlives those who attach"
        )

    def words(self, offset: int, count: int, code: str = "q") -> memoryview:
        """Whole numbers that are loaded and stored in one instruction each."""
        size = {"q": 8, "I": 4}[code] * count
        return memoryview(self._opened())[offset : offset + size].cast(code)  # type: ignore[call-overload]

    def array(self, offset: int, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """A view; it keeps the mapping alive."""
        return np.ndarray(shape, dtype, buffer=self._opened(), offset=offset)

    def address(self, offset: int) -> int:
        """Where a word lies in this process, for the kernel."""
        return self._address + offset

    def close(self) -> None:
        """Let go. Views that others still hold stay good."""
        self._map = None
        if self._release is not None:
            self._release()

    def _opened(self) -> mmap.mmap:
        if self._map is None:
            raise RuntimeError("this segment was closed")
        return self._map


def _allocate(fd: int, nbytes: int) -> None:
    remedy = "use fewer or smaller slots (fewer envs, a shorter unroll, a lower max_lag), or give the job more memory"
    free = _available()
    if free is not None and nbytes > free:  # the kernel would try, and kill somebody on the way
        raise ShoalError(f"{nbytes:,} bytes of shared memory are wanted, {free:,} are available: {remedy}")
    try:
        os.posix_fallocate(fd, 0, nbytes)
    except OSError as error:
        raise ShoalError(f"cannot allocate {nbytes:,} bytes of shared memory ({error.strerror}): {remedy}") from error


def _available() -> int | None:
    try:
        with open("/proc/meminfo") as lines:
            return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)
    except OSError:
        return None


def _descriptors(handle: SegmentHandle) -> Iterator[int]:
    """The owner's, then our own of that number; either may by now be another file."""
    for process in (handle.pid, "self"):
        try:
            yield os.open(f"/proc/{process}/fd/{handle.fd}", os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            continue
