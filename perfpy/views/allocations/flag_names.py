"""Short names of the flags of requests for memory (gfp), as perf kmem abbreviates them.

The long names come from the recorded format of the tracepoint, so that they fit the recorded kernel.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from perfpy.perfdata.tracepoint_rows import tracepoints_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perfpy.perfdata.sample_source import SampleSource
    from perfpy.symbols.symbolizer import Symbolizer

_MARK: Final = "gfp_flags="
_HEAD: Final = 8  # bytes of the fields that all tracepoints have
_TYPE_MASK: Final = 0xFFFF
_CODES: Final = {4: "I", 8: "Q"}
_PAYLOAD: Final = 64  # bytes
#: the kernel's names (include/trace/events/mmflags.h) -> perf's abbreviations
SHORT_NAMES: Final = {
    "GFP_TRANSHUGE": "THP", "GFP_TRANSHUGE_LIGHT": "THL", "GFP_HIGHUSER_MOVABLE": "HUM", "GFP_HIGHUSER": "HU", "GFP_USER": "U",
    "GFP_KERNEL_ACCOUNT": "KAC", "GFP_KERNEL": "K", "GFP_NOFS": "NF", "GFP_ATOMIC": "A", "GFP_NOIO": "NI", "GFP_NOWAIT": "NW",
    "GFP_DMA": "D", "__GFP_HIGHMEM": "HM", "GFP_DMA32": "D32", "__GFP_HIGH": "H", "__GFP_IO": "I", "__GFP_FS": "F",
    "__GFP_NOWARN": "NWR", "__GFP_RETRY_MAYFAIL": "R", "__GFP_NOFAIL": "NF", "__GFP_NORETRY": "NR", "__GFP_COMP": "C",
    "__GFP_ZERO": "Z", "__GFP_NOMEMALLOC": "NMA", "__GFP_MEMALLOC": "MA", "__GFP_HARDWALL": "HW", "__GFP_THISNODE": "TN",
    "__GFP_RECLAIMABLE": "RC", "__GFP_MOVABLE": "M", "__GFP_ACCOUNT": "AC", "__GFP_WRITE": "WR", "__GFP_RECLAIM": "R",
    "__GFP_DIRECT_RECLAIM": "DR", "__GFP_KSWAPD_RECLAIM": "KR",
}  # fmt: skip


def shorten_flags(text: str) -> str:
    """Return the abbreviation of flags; unknown ones stay.

    >>> shorten_flags("GFP_KERNEL|__GFP_ZERO"), shorten_flags("none")
    ('K|Z', 'none')
    """
    return "|".join(SHORT_NAMES.get(name, name) for name in text.split("|"))


def names_of_flags(data: SampleSource, event: str, flags: Iterable[int], symbolizer: Symbolizer) -> dict[int, str]:
    """Return the long names of distinct flags, as the recorded format of a tracepoint prints them.

    Args:
        data: of the recording.
        event: the tracepoint, whose field gfp_flags is printed.
        flags: numbers.
        symbolizer: of the recording.
    """
    from perfpy.views.tracepoints.payloads import PayloadTexts

    tracing, number = data.tracing, tracepoints_of(data)[event].attr.config
    field = tracing.formats[number].field("gfp_flags") if tracing is not None else None
    distinct = sorted(set(flags))
    if tracing is None or field is None or field.offset < _HEAD or field.size not in _CODES:
        return {value: f"{value:#x}" for value in distinct}
    code = tracing.endian + _CODES[field.size]
    head = struct.pack(tracing.endian + "H", number & _TYPE_MASK).ljust(field.offset, b"\0")
    payloads = [(head + struct.pack(code, value & ((1 << 8 * field.size) - 1))).ljust(_PAYLOAD, b"\0") for value in distinct]
    texts = PayloadTexts(tracing, symbolizer).texts(payloads)
    return {value: _flags_in(text) or f"{value:#x}" for value, text in zip(distinct, texts, strict=True)}


def _flags_in(text: str) -> str:
    """Return the flags in the text of an event."""
    return text.partition(_MARK)[2].partition(" ")[0]
