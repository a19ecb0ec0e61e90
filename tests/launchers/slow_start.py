"""A model whose first trainer takes for ever to be made, in whichever process has not the file `made` before it."""

from __future__ import annotations

import multiprocessing
import os
import time
from pathlib import Path
from typing import Any

from shoal.models.mlp import MLPModel


class SlowStart(MLPModel):
    """The process `trainer` hangs here in its first life, after it has told its number in a file."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        told = Path(os.environ["SLOW_START"])
        if multiprocessing.current_process().name == "trainer" and not told.exists():
            told.write_text(str(os.getpid()))
            time.sleep(600)
