"""What processes need, imported: a fork server that has this forks into processes that share its pages. It also guards them."""

from __future__ import annotations

from shoal.base.importing import importing
from shoal.launchers.forkserver import guard

guard()  # before all that takes its time
with importing():
    import safetensors.torch  # noqa: F401

    import shoal.envs.gymnasium_loop
    import shoal.envs.gymnasium_vector
    import shoal.launchers.process  # noqa: F401
