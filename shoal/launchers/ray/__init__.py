"""The ray launcher: the same hosts as `local`, as Ray actors on many machines. Only what runs `--on ray` imports it.

cluster.py      the Ray that is there or is started, what of it is asked for, what fits
launcher.py     the hosts of a run and their streams, as the controller has them
placing.py      hosts as Ray actors in placement groups; their deaths
host.py         a Ray actor that runs the workers of one host

The agent of each machine, with its shared memory and its relays, is the transport's: `shoal/streams/transports/ray`. The run
itself, a detached Ray actor, is `shoal/runs/ray`.
"""

import shoal.streams.transports.ray  # noqa: F401 - before Ray itself: it says how Ray is to be used
