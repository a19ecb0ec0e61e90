"""Slots on the machines of a Ray cluster. Only populations that run `--on ray` import it.

slots.py        all slots, as who gives the turns holds them
slot.py         one of them: a Ray actor, with the process in which members take turns
"""

import shoal.launchers.ray  # noqa: F401 - before Ray itself: it says how Ray is to be used
