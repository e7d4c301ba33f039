"""Notes for people that several commands end with, on standard error.

What enters: what a report or a listing could not show. What leaves: lines that say so, and what would help.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perfpy.unwind.cut_stacks import CutStacks


def note_cut_stacks(found: Iterable[CutStacks]) -> None:
    """Say which callchains are not whole because copies of stacks were too short."""
    from perfpy.unwind.cut_stacks import note

    lines = note(found)
    if lines:
        sys.stdout.flush()
    for line in lines:
        print(line, file=sys.stderr)
