"""Memory that was freed stays with a process that asks for as much again."""

from __future__ import annotations

import subprocess
import sys

import pytest

from shoal.base.allocator import keep_freed_memory

SCRIPT = """
import resource, sys
import numpy as np
from shoal.base.allocator import keep_freed_memory

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

if sys.argv[1] == "kept":
    keep_freed_memory()
for _ in range(2):
    arrays = [np.ones(1_000_000) for _ in range(8)]
    del arrays
before = faults()
for _ in range(20):
    arrays = [np.ones(1_000_000) for _ in range(8)]
    del arrays
print(faults() - before)
"""
"""Eight blocks of 8 MB, twenty times: 2,000 pages each, which a page in eight would count as well."""


def faults(how: str) -> int:
    done = subprocess.run([sys.executable, "-c", SCRIPT, how], capture_output=True, text=True, check=True, timeout=300)
    return int(done.stdout)


@pytest.mark.skipif(not keep_freed_memory(), reason="this C library has no mallopt")
def test_pages_are_not_asked_for_again() -> None:
    assert faults("kept") < 500 < faults("given back")
