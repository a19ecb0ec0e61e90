"""The ray launcher: the same processes as `local`, as Ray actors on many machines. Only what runs `--on ray` imports it.

cluster.py      the Ray that is there or is started, what of it is asked for, what fits
private.py      the folder of a Ray: that of our own, with its token; whether that of a cluster is closed to others
keeper.py       what removes it, however our own Ray ends
launcher.py     the processes of a run and their streams, as the controller has them
placing.py      processes in placement groups of Ray actors; their deaths
holder.py       a Ray actor that holds the place of one process, and forks it
entrance.py     where that process begins
process.py      what runs in it

The agent of each machine, with its shared memory and its relays, is the transport's: `shoal/streams/transports/ray`. The run
itself, a detached Ray actor, is `shoal/runs/ray`.
"""

import shoal.streams.transports.ray  # noqa: F401 - before Ray itself: it says how Ray is to be used
