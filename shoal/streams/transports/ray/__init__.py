"""Between machines: slots and versions packed into large objects, relayed from the shared memory of one machine to that of another.

A ring between two machines is two rings in shared memory, one at each end, and a relay.

streams.py      all streams of a run, as its controller has them: who lives where, and what that asks of each agent
specs.py        what is asked of one agent
agent.py        one per machine: its shared memory, its relays
reports.py      what the processes of a machine report, gathered by its agent
relay.py        slots and versions from the memory of one machine to that of another
messages.py     what agents say to each other
courier.py      how it gets there
wire.py         how slots and versions are packed
gloo.py         a Tally between machines

Only `streams.py` and `courier.py` know Ray.
"""

import os

# Ray reads these when it is imported or started: who talks to it must know its token, it tells nobody that it is used, and on a
# machine of its own training is the work, not what is done beside it.
os.environ.setdefault("RAY_AUTH_MODE", "token")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_worker_niceness", "0")
