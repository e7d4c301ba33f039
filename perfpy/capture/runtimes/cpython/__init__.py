"""Names of Python functions in CPython: what it takes to have them, for what perfpy starts and for what runs already.

What enters: an environment, or a process. What leaves: the variables that make interpreters of 3.8 to 3.11 run
`startup/sitecustomize.py` when they start. `startup/` is read by other interpreters than ours, of any version: nothing
here imports it, and it imports nothing of perfpy.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

#: First on PYTHONPATH of what is profiled.
STARTUP = f"{os.path.dirname(os.path.abspath(__file__))}/startup"


def environment(base: Mapping[str, str]) -> dict[str, str]:
    """The variables to set over `base` so that CPython 3.8 to 3.11 names its functions in /tmp/perf-PID.map.

    Children inherit them, as they inherit PYTHONPERFSUPPORT of 3.12; other interpreters run past them.
    """
    theirs = base.get("PYTHONPATH", "")
    return {"PYTHONPATH": f"{STARTUP}:{theirs}" if theirs else STARTUP}
