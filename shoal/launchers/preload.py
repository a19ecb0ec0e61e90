"""What processes need, imported: a fork server that has this forks into processes that share its pages."""

from __future__ import annotations

import os

from shoal.base.importing import importing
from shoal.launchers.forkserver import OURS, SAFE_PATH, die_with_parent

die_with_parent()  # even if it is stopped
if os.environ.get(SAFE_PATH) == OURS:
    del os.environ[SAFE_PATH]  # what an environment starts is not ours to decide

with importing():
    import safetensors.torch  # noqa: F401

    import shoal.envs.gymnasium_loop
    import shoal.envs.gymnasium_vector
    import shoal.launchers.process  # noqa: F401
