"""Between hosts: slots and versions packed into large objects, relayed from the shared memory of one host to that of another.

A ring between two hosts is two rings in shared memory, one at each end, and a relay: see `relay.py`. Of the files here
only `courier.py` and `gloo.py` know Ray.
"""

import os

# Ray reads these when it is imported or started: who talks to it must know its token, it tells nobody that it is used, and on a
# machine of its own training is the work, not what is done beside it.
os.environ.setdefault("RAY_AUTH_MODE", "token")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_worker_niceness", "0")
