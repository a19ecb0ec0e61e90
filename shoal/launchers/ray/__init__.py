"""The ray launcher: the same hosts as `local`, as Ray actors on many machines. Only what runs `--on ray` imports it.

cluster.py      the Ray that is there or is started, what of it is asked for, what fits
driver.py       `shoal train --on ray`: starts the controller, shows what it says, may leave
controller.py   a detached Ray actor: the run itself
launcher.py     the hosts of a run and their streams, as the controller has them
placing.py      hosts as Ray actors in placement groups; their deaths
agent.py        one per machine: its shared memory, its relays, the reports of its hosts
host.py         a Ray actor that runs the workers of one host
"""

import os

# Ray reads these when it is imported or started: who talks to it must know its token, it tells nobody that it is used, and on a
# machine of its own training is the work, not what is done beside it.
os.environ.setdefault("RAY_AUTH_MODE", "token")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_worker_niceness", "0")
