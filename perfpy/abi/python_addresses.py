"""Addresses of Python functions in callchains: what recorder and reports share.

The ranges of all functions are mapped once for each GilState.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

#: the beginning of the names of Python functions, as CPython writes them into perf maps: py::NAME:PATH
PYTHON_MARK: Final = "py::"


#: where the addresses begin: what no program maps, between the heap of position-dependent programs and libraries
FIRST_ADDRESS: Final = 0x3E00_0000_0000


#: the name of the function that stands in callchains between an event loop and the callbacks of a turn that lasts long
BLOCKED_LOOP: Final = "[event loop blocked for over 100 ms]"


#: the function in callchains between an asyncio task and the coroutines that await it
AWAITED_BY: Final = "[awaited by]"


MAPPED_SIZE: Final = 1 << 30  #: bytes of one mapping


class GilState(IntEnum):
    """Whether a thread has the global interpreter lock, at the moment of a sample."""

    UNKNOWN = 0
    HOLDS = 1
    RELEASED = 2
    WAITS = 3


def mapping_of(state: int) -> int:
    """Return where the mapping of a state begins."""
    return FIRST_ADDRESS + state * MAPPED_SIZE
