"""Colours that can be read on dark terminals and on light ones: about as far from black as from white."""

from __future__ import annotations

WORK = "turquoise4"
DECIDE = "medium_orchid3"
WAIT = "dark_orange3"
REST = "grey50"
GOOD = "green4"
BAD = "red3"
