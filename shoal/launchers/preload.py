"""What processes need, imported: a fork server that has this forks into processes that share its pages. It also guards them."""

from __future__ import annotations

import os

from shoal.base.importing import importing
from shoal.launchers.forkserver import OURS, SAFE_PATH, guard

if os.environ.get(SAFE_PATH) == OURS:
    del os.environ[SAFE_PATH]  # what an environment starts is not ours to decide

guard()  # before all that takes its time
with importing():
    import safetensors.torch  # noqa: F401

    import shoal.envs.gymnasium_loop
    import shoal.envs.gymnasium_vector
    import shoal.launchers.process  # noqa: F401
