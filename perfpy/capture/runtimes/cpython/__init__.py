"""Names of Python functions in CPython: what it takes to have them, for what perfpy starts and for what runs already.

What enters: interpreters of 3.8 to 3.11 that start with STARTUP first on PYTHONPATH run `startup/sitecustomize.py`, and
their children inherit that, as they inherit PYTHONPERFSUPPORT of 3.12; other versions run past it. What leaves: their
functions' names in /tmp/perf-PID.map, where 3.12 and later write theirs. `startup/` is read by other interpreters than
ours: nothing here imports it, and it imports nothing of perfpy. `attach` is for processes that run already.
"""

from __future__ import annotations

import os
from typing import Final

#: First on PYTHONPATH of what is profiled.
STARTUP: Final = f"{os.path.dirname(os.path.abspath(__file__))}/startup"
