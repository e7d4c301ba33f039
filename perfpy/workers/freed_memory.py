"""Keep freed memory in the process, or return it (glibc).

Columns are allocated and freed by the megabyte. A process that returns each at once, as Dask configures its workers
(MALLOC_TRIM_THRESHOLD_), takes half again as much time to get the pages back.
"""

from __future__ import annotations

import ctypes
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

# Parameter numbers of mallopt(3).
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
_KEPT: Final = 256 << 20
_LARGEST: Final = 32 << 20  # glibc refuses more


def keep_freed_memory() -> None:
    """Keep freed memory in this process until its end, for commands that are short. The next columns then need no new pages."""
    libc = ctypes.CDLL(None)
    try:
        libc.mallopt(_TRIM_THRESHOLD, _KEPT)
        libc.mallopt(_MMAP_THRESHOLD, _LARGEST)
    except AttributeError:  # another C library
        return


@contextmanager
def keeping_freed_memory() -> Iterator[None]:
    """Keep freed memory in this process during the context, and return it at the end."""
    libc = ctypes.CDLL(None)
    try:
        libc.mallopt(_TRIM_THRESHOLD, _KEPT)
        libc.mallopt(_MMAP_THRESHOLD, _LARGEST)
        give_back = libc.malloc_trim
    except AttributeError:  # another C library
        yield
        return
    try:
        yield
    finally:
        give_back(0)


def return_freed_memory() -> None:
    """Return freed memory to the system, including memory between blocks in use."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # another C library has none
    if trim is not None:
        trim(0)
