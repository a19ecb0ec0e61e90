"""What processes need, imported: a fork server that has this forks into processes that share its pages."""

from __future__ import annotations

from shoal.base.importing import importing
from shoal.launchers.forkserver import die_with_parent

die_with_parent()  # even if it is stopped

with importing():
    import safetensors.torch  # noqa: F401

    import shoal.envs.gymnasium_loop
    import shoal.envs.gymnasium_vector
    import shoal.launchers.process  # noqa: F401
