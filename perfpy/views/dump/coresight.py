"""AUXTRACE_INFO of CoreSight traces: what the recorder wrote of the trace units, as `report -D` shows it.

What enters: the words after the record's type. What leaves: text, a line a
word. Layout (tools/perf/util/cs-etm.h):

    { u64 version; u64 pmu_type << 32 | cpus; u64 snapshot; } { u64 magic, cpu, nr_params; u64 params[nr_params]; } [cpus]

Version 0 has no nr_params: there are always as many as ETMv3 and ETMv4 had then.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

CORESIGHT: Final = 3  # the type of the record

_HEADER: Final = ("Header version", "PMU type/num cpus", "Snapshot")
_UNIT: Final = ("Magic number", "CPU", "NR_TRC_PARAMS")
_ETMV4: Final = ("TRCCONFIGR", "TRCTRACEIDR", "TRCIDR0", "TRCIDR1", "TRCIDR2", "TRCIDR8", "TRCAUTHSTATUS", "TRCDEVARCH", "TS_SOURCE")
#: magic of a trace unit -> names of its parameters
_PARAMETERS: Final[dict[int, Sequence[str]]] = {
    0x3030303030303030: ("ETMCR", "ETMTRACEIDR", "ETMCCER", "ETMIDR"),
    0x4040404040404040: _ETMV4,
    0x5050505050505050: _ETMV4,
}
_BLANKS: Final = ("TRCDEVARCH", "TS_SOURCE")  # perf pads the other labels with tabs
_MOST_PARAMETERS: Final = 1 << 13  # the most that fit into a record
_MOST_OF_VERSION_0: Final = 7
_TAB_STOP: Final = 8
_TABBED: Final = 24  # to this column


def coresight_text(words: Sequence[int]) -> str:
    """Return the lines of a record, up to the first unknown trace unit."""
    return "".join(_line(label, value) for label, value in _labelled(iter(words)))


def _labelled(words: Iterator[int]) -> Iterator[tuple[str, int]]:
    head = tuple(islice(words, len(_HEADER)))
    yield from zip(_HEADER, head, strict=False)
    labels = _UNIT if head[:1] != (0,) else _UNIT[:-1]
    while len(unit := tuple(islice(words, len(labels)))) == len(labels):
        names = _PARAMETERS.get(unit[0])
        if names is None:
            return
        count = min(unit[2], _MOST_PARAMETERS) if len(unit) == len(_UNIT) else min(len(names), _MOST_OF_VERSION_0)
        yield from zip(labels, unit, strict=True)
        yield from zip(names, tuple(islice(words, count)), strict=False)


def _line(label: str, value: int) -> str:
    if label in _BLANKS:
        label = label.ljust(_TABBED)
    else:
        label += "\t" * ((_TABBED - len(label) + _TAB_STOP - 1) // _TAB_STOP)
    return f"\t{label}       {value if label.strip() == 'CPU' else f'{value:x}'}\n"
