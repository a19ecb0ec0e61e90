"""`python -m shoal.cli`."""

import os
import sys

# Python puts the current folder first; no file in it is to pass for a library. Where this code itself lies there, it stays.
_home = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
if not sys.flags.safe_path and os.path.realpath(sys.path[0]) == os.path.realpath(os.getcwd()) != _home:
    del sys.path[0]

from shoal.cli import main  # noqa: E402

main()
