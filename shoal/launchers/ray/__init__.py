"""The ray launcher: the same hosts as `local`, as Ray actors on many machines. Only what runs `--on ray` imports it.

cluster.py      the Ray that is there or is started, what of it is asked for, what fits
driver.py       `shoal train --on ray`: starts the controller, shows what it says, may leave
controller.py   a detached Ray actor: the run itself
launcher.py     the hosts of a run and their streams, as the controller has them
placing.py      hosts as Ray actors in placement groups; their deaths
agent.py        one per machine: its shared memory, its relays, the reports of its hosts
host.py         a Ray actor that runs the workers of one host
"""

import shoal.streams.transports.ray  # noqa: F401 - before Ray itself: it says how Ray is to be used
