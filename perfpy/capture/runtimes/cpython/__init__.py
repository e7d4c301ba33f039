"""Names of Python functions in CPython, for started commands and running processes.

CPython 3.8 to 3.11 with STARTUP first on PYTHONPATH runs `startup/sitecustomize.py`, and its children inherit that, as they
inherit PYTHONPERFSUPPORT of 3.12; other versions ignore it. Function names then are in /tmp/perf-PID.map, where 3.12 and later
write theirs. `startup/` runs in other interpreters: it is not imported here, and imports nothing of perfpy.

Modules:

attach              running processes
script_folder       the folder for code that a running process executes
startup             sitecustomize for 3.8 to 3.11
"""

from __future__ import annotations

import os
from typing import Final

#: The folder to put first on PYTHONPATH of profiled programs.
STARTUP: Final = f"{os.path.dirname(os.path.abspath(__file__))}/startup"
