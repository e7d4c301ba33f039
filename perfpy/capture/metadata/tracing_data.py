"""The formats of recorded tracepoints, from tracefs, for the file's TRACING_DATA section."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from perfpy.abi.flags import NATIVE_ENDIAN
from perfpy.kernel.ring import PAGE_SIZE
from perfpy.perfdata.tracepoints.tracing_data import TracingData

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perfpy.kernel.tracefs import Tracefs

_VERSION: Final = "0.6"
_FTRACE: Final = "ftrace"  # its formats are separate from the other systems'


def tracing_data(tracefs: Tracefs, tracepoints: Iterable[tuple[str, str]]) -> TracingData:
    """Return the section for these (system, event) pairs. Raises KernelRefusedError if tracefs is unreadable."""
    by_system: dict[str, list[bytes]] = {}
    for system, event in dict.fromkeys(tracepoints):
        by_system.setdefault(system, []).append((tracefs.format(system, event) or "").encode())
    return TracingData(
        _VERSION,
        NATIVE_ENDIAN,
        struct.calcsize("l"),
        PAGE_SIZE,
        _file(f"{tracefs.root}/events/header_page"),
        _file(f"{tracefs.root}/events/header_event"),
        tuple(by_system.pop(_FTRACE, [])),
        tuple((system, tuple(formats)) for system, formats in by_system.items()),
        printk=_file(f"{tracefs.root}/printk_formats"),
        cmdlines=_file(f"{tracefs.root}/saved_cmdlines"),
    )


def _file(path: str) -> bytes:
    """Return a file of tracefs; b"" if this kernel has none."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""
