"""Exits of virtual machines to the host: pairs of tracepoints of one virtual CPU, and sums of their durations.

An exit lasts from kvm:kvm_exit to kvm:kvm_entry of the same thread. A write to a port or to device memory lasts from its tracepoint
to kvm_entry, a read of device memory from kvm_exit to its tracepoint. A thread's first kvm_entry names its virtual CPU; events before
it are left out, as in perf.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.analysis.guests.exit_reasons import SVM, UNKNOWN, VMX
from perfpy.errors import PerfError
from perfpy.perfdata.tracepoint_rows import read_tracepoints

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from perfpy.perfdata.sample_source import SampleSource

ENTRY: Final = "kvm:kvm_entry"
EXIT: Final = "kvm:kvm_exit"
MMIO: Final = "kvm:kvm_mmio"
PIO: Final = "kvm:kvm_pio"
#: events of --event and their headings
EVENTS: Final = {"vmexit": "VM-EXIT", "mmio": "MMIO Access", "ioport": "IO Port Access"}
#: what -k sorts by, largest first: a property of Durations
SORT_KEYS: Final = {
    "sample": "count", "percent_sample": "count", "time": "total", "percent_time": "total", "precent_time": "total",
    "max_t": "longest", "min_t": "shortest", "mean_t": "mean",
}  # fmt: skip
_FIELDS: Final = {ENTRY: ("vcpu_id",), EXIT: ("exit_reason",), MMIO: ("type", "gpa"), PIO: ("rw", "port")}
_READ, _WRITE = 1, 2
_AMD: Final = "AuthenticAMD"


class Durations:
    """The durations of equal events, in nanoseconds."""

    __slots__ = ("_mean", "_squares", "count", "longest", "name", "shortest", "total")

    def __init__(self, name: str) -> None:
        self.name = name
        self.count = 0
        self.total = 0
        self.longest = 0
        self.shortest = 0
        self._mean = 0.0
        self._squares = 0.0

    def add(self, duration: int) -> None:
        """Add one event."""
        self.count += 1
        self.total += duration
        self.longest = max(self.longest, duration)
        self.shortest = min(self.shortest, duration) if self.count > 1 else duration
        distance = duration - self._mean
        self._mean += distance / self.count
        self._squares += distance * (duration - self._mean)

    @property
    def mean(self) -> float:
        """The mean duration."""
        return self._mean

    @property
    def relative_error(self) -> float:
        """The standard error of the mean, in percent of the mean."""
        if self.count < 2 or not self._mean:
            return 0.0
        return 100.0 * math.sqrt(self._squares / (self.count - 1) / self.count) / self._mean


def guest_durations(data: SampleSource, event: str, *, vcpu: int = -1, pids: Collection[int] = ()) -> list[Durations]:
    """Return the durations of events by their names. Raises PerfError if the recording has no such tracepoints.

    event: one of EVENTS; vcpu: only this virtual CPU; pids: only these processes.
    """
    durations_of: dict[str, Durations] = {}
    name_of = _names(data)
    for thread in _events_by_thread(data, event, pids):
        for name, duration in _pairs(thread, event, vcpu, name_of):
            if name not in durations_of:
                durations_of[name] = Durations(name)
            durations_of[name].add(duration)
    return list(durations_of.values())


def sorted_durations(durations: list[Durations], key: str) -> list[Durations]:
    """Return the durations by a key of SORT_KEYS, equal ones by name."""
    return sorted(durations, key=lambda one: (-getattr(one, SORT_KEYS[key]), one.name))


def _events_by_thread(data: SampleSource, event: str, pids: Collection[int]) -> Iterator[list[tuple[int, str, tuple[int, ...]]]]:
    """Yield the events of each thread in order of time: nanoseconds, tracepoint, fields."""
    names = [ENTRY, EXIT, *([MMIO] if event == "mmio" else [PIO] if event == "ioport" else [])]
    read = read_tracepoints(data, {name: _FIELDS[name] for name in names})
    rows = {name: part for name, part in read.items() if all(_is_number(part.fields.get(field)) for field in _FIELDS[name])}
    if ENTRY not in rows:
        raise PerfError(f"{data.path}: no {ENTRY} tracepoint with its format; record with perfpy kvm stat record")
    events = []
    for name, part in rows.items():
        chosen = np.isin(part.pid, np.array(sorted(pids), np.int64)) if pids else np.ones(len(part.time), bool)
        fields = zip(*(part.fields[field][chosen].tolist() for field in _FIELDS[name]), strict=True)
        columns = (part.order[chosen].tolist(), part.tid[chosen].tolist(), part.time[chosen].tolist(), fields)
        events += [(order, tid, time, name, values) for order, tid, time, values in zip(*columns, strict=True)]
    threads: dict[int, list[tuple[int, str, tuple[int, ...]]]] = {}
    for _, tid, time, name, values in sorted(events):
        threads.setdefault(tid, []).append((time, name, values))
    yield from threads.values()


def _is_number(column: object) -> bool:
    """Whether a column of a damaged file still has numbers."""
    return isinstance(column, np.ndarray) and column.dtype.kind in "iu"


def _names(data: SampleSource) -> Callable[[int], str]:
    """Return the function from an exit's number to its name. Raises PerfError for processors that perfpy does not know."""
    arch = str(data.features.get("arch", "x86_64"))
    if arch not in ("x86_64", "i686", "i386"):
        raise PerfError(f"{data.path}: perfpy reads exits on x86 only, not on {arch}; perfpy script prints the events")
    table: Mapping[int, str] = SVM if str(data.features.get("cpuid", "")).startswith(_AMD) else VMX
    return lambda reason: table.get(reason, UNKNOWN)


def _pairs(
    events: list[tuple[int, str, tuple[int, ...]]], event: str, vcpu: int, name_of: Callable[[int], str]
) -> Iterator[tuple[str, int]]:
    """Yield the name and duration of each pair of one thread."""
    own_vcpu = None
    begin: tuple[int, str] | None = None
    for time, name, values in events:
        if name == ENTRY and own_vcpu is None:
            own_vcpu = values[0]
        if own_vcpu is None or (vcpu >= 0 and own_vcpu != vcpu):
            continue
        if started := _begun(event, name, values, name_of):
            begin = time, started[0]
            continue
        ended = _ended(event, name, values)
        if ended is None or begin is None:
            continue
        key = begin[1] or ended
        if not key:  # an entry between the exit and the read that names it
            continue
        if time >= begin[0]:
            yield key, time - begin[0]
        begin = None


def _begun(event: str, name: str, values: tuple[int, ...], name_of: Callable[[int], str]) -> tuple[str] | None:
    """Return the name of an event that begins ("" if its end names it); None if none begins."""
    if event == "vmexit" and name == EXIT:
        return (name_of(values[0]),)
    if event == "mmio" and name == EXIT:
        return ("",)
    if event == "mmio" and name == MMIO and values[0] == _WRITE:
        return (f"{values[1]:#x}:W",)
    if event == "ioport" and name == PIO:
        return (f"{values[1]:#x}:{'POUT' if values[0] else 'PIN'}",)
    return None


def _ended(event: str, name: str, values: tuple[int, ...]) -> str | None:
    """Return the name of an event that ends here ("" if its begin named it); None if none ends."""
    if name == ENTRY:
        return ""
    if event == "mmio" and name == MMIO and values[0] == _READ:
        return f"{values[1]:#x}:R"
    return None
