"""Records about the recording itself, which perf writes before the samples: TIME_CONV, ID_INDEX, EVENT_UPDATE, THREAD_MAP, CPU_MAP;
and LOST_SAMPLES after them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.abi.flags import NATIVE_ENDIAN
from perfpy.abi.perf_records import user_records
from perfpy.abi.perf_records.user_records import (
    EVENT_UPDATE_CPUS,
    EVENT_UPDATE_NAME,
    EVENT_UPDATE_SCALE,
    EVENT_UPDATE_UNIT,
    CpuMap,
    EventUpdate,
    FinishedInit,
    IdIndex,
    ThreadMap,
    TimeConv,
)
from perfpy.abi.records import LostSamples, encode
from perfpy.abi.sample_id import SampleId

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.abi.sample_id import IdLayout
    from perfpy.capture.rings.sample_counters import SampleCounters
    from perfpy.kernel.ring import Ring

_IDS_PER_RECORD: Final = 2000  # an entry has 32 bytes, a record at most 65535
_UNSIGNED: Final = (1 << 64) - 1


def _encode(record: user_records.UserRecord) -> bytes:
    return user_records.encode(record, NATIVE_ENDIAN)


FINISHED_INIT: Final = _encode(FinishedInit(0))


def time_conversion(ring: Ring) -> Iterator[bytes]:
    """Yield the conversion from the CPU's cycle counter to perf time, if the kernel has one."""
    clock = ring.clock()
    if clock.zero:
        short = (clock.time_cycles, clock.time_mask, int(clock.zero), int(clock.short))
        yield _encode(TimeConv(0, clock.time_shift, clock.time_mult, clock.time_zero, *short))


def id_index(counters: SampleCounters) -> Iterator[bytes]:
    """Yield the CPU and thread of each id."""
    entries = counters.id_index()
    for offset in range(0, len(entries), _IDS_PER_RECORD):
        yield _encode(IdIndex(0, entries[offset : offset + _IDS_PER_RECORD]))


def event_updates(counters: SampleCounters, *, pipe: bool) -> Iterator[bytes]:
    """Yield units and scales of the events; for a pipe also their names and CPUs, which a file has in its features."""
    for event in counters.events:
        ident = next(iter(counters.ids(event)), None)
        if ident is None:
            continue
        if event.unit:
            yield _encode(EventUpdate(0, EVENT_UPDATE_UNIT, ident, event.unit))
        if event.scale != 1.0:
            yield _encode(EventUpdate(0, EVENT_UPDATE_SCALE, ident, event.scale))
        if event.cpus is not None and pipe:
            yield _encode(EventUpdate(0, EVENT_UPDATE_CPUS, ident, event.cpus))
        if pipe:
            yield _encode(EventUpdate(0, EVENT_UPDATE_NAME, ident, event.name))


def thread_map(counters: SampleCounters) -> bytes:
    """Return the recorded threads (ANY: all)."""
    return _encode(ThreadMap(0, tuple((tid & _UNSIGNED, "") for tid in counters.tids)))


def cpu_map(counters: SampleCounters) -> bytes:
    """Return the recorded CPUs."""
    return _encode(CpuMap(0, counters.cpus))


def lost_samples(counters: SampleCounters, layout: IdLayout) -> Iterator[tuple[int, bytes]]:
    """Yield the number of lost samples and its record, for each counter that lost any."""
    for opened, lost in counters.lost():
        target = opened.target
        sample_id = SampleId(cpu=max(target.cpu, 0), tid=max(target.tid, 0), id=opened.id, identifier=opened.id)
        yield lost, encode(LostSamples(0, lost, sample_id), layout, NATIVE_ENDIAN)
