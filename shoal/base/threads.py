"""How many threads compute: one, unless somebody learns from batches that are worth sharing out.

Torch counts for each thread of Python by itself, so whoever wants more says so around its work. The library under numpy counts
once for the process: kernels by hand are all that it computes for, and they belong to trainers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from threadpoolctl import threadpool_limits

from shoal.base.allocator import keep_freed_memory


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Within, torch computes with so many."""
    before = torch.get_num_threads()
    if before == count:
        yield
        return
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class _Blas:
    """The library under numpy: how many threads it is to have, and has; 0: nobody has computed with it."""

    wanted = 1
    used = 0


def limit_blas() -> None:
    """Before the first product by numpy. Left to itself the library would wake a thread on every core for each of them."""
    if _Blas.used != _Blas.wanted:
        threadpool_limits(_Blas.wanted, "blas")
        _Blas.used = _Blas.wanted


def allow_blas(count: int) -> None:
    """From now on products by numpy have so many."""
    _Blas.wanted = count
    if _Blas.used:
        limit_blas()


def prepare_to_learn(threads: int) -> None:
    """A trainer lives in this process: numpy's library gets its threads, and what an update frees is kept for the next."""
    allow_blas(threads)
    keep_freed_memory()
