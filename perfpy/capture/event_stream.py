"""EventStream: the records of running events in order of time, without a file: perfpy.watch().

Records that are not taken in time are dropped by the kernel when its ring buffers are full; `lost` counts them.
"""

from __future__ import annotations

import select
import struct
import sys
import time
import weakref
from bisect import bisect_right
from collections import deque
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from perfpy.abi import records
from perfpy.abi.ring_records import RingDecoder, RingSample
from perfpy.capture.sample_attrs import configure_sampling
from perfpy.capture.sample_counters import SampleCounters, default_pages
from perfpy.capture.targets import ANY, resolve
from perfpy.errors import UsageError
from perfpy.events.resolve import parse_events
from perfpy.kernel import this_kernel
from perfpy.kernel.procfs import ProcFs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from types import TracebackType
    from typing import Self

    from perfpy.abi.records import KernelRecord
    from perfpy.capture.record_options import RecordOptions
    from perfpy.capture.targets import Target
    from perfpy.events.event import Event
    from perfpy.kernel import Kernel
    from perfpy.perfdata.event_format import EventFormat, TraceField

    Live: TypeAlias = "LiveSample | KernelRecord"
    Reader = Callable[[bytes], Any]


_INTERVAL: Final = 0.05  # seconds between reads of the ring buffers; full ones wake earlier
_SETTLING: Final = 0.002  # seconds; records newer than the last read come with the next, which should follow soon
_MOST_NAMES: Final = 65_536
_GONE: Final = select.POLLHUP | select.POLLERR | select.POLLNVAL


class EventStream:
    """Samples of running events, to iterate over, also with `async for`: see perfpy.watch().

    The stream ends when all its targets have ended, after the duration, and by close() (`with` calls it). `lost` is the number of
    samples dropped so far because they were not taken in time.

    >>> import os, perfpy
    >>> with perfpy.watch("page-faults:u", pid=os.getpid(), period=1, duration=5) as faults:
    ...     pages = bytearray(b"x") * (1 << 26)
    ...     times = [next(faults).time for _ in range(3)]
    >>> times == sorted(times), faults.lost
    (True, 0)
    """

    def __init__(
        self, events: Sequence[Event], options: RecordOptions, target: Target, kernel: Kernel, warn: Callable[[str], None]
    ) -> None:
        self.lost = 0
        self._others = False
        self._procfs = procfs = ProcFs()
        counters = SampleCounters(
            kernel, events, target.cpus, target.tids if target.has_tasks else (ANY,), skip_missing=target.kind == "pid", tell=warn
        )
        counters.open()
        self._finalizer = weakref.finalize(self, counters.close)
        counters.map(options.buffers.mmap_pages or default_pages(procfs))
        self._counters = counters
        self._decoder = RingDecoder({one.id: one.event.attr for one in counters.opened}, "<" if sys.byteorder == "little" else ">")
        self._names = {one.id: one.event.name for one in counters.opened}
        self._readers = _field_readers(events)
        self._comms: dict[int, str] = {}
        self._ready: deque[Live] = deque()
        self._held: list[tuple[int, int, Live]] = []
        self._number = 0
        self._watched = {*counters.fds()} if target.has_tasks else {*counters.ring_fds()}
        self._poll = select.poll()
        for fd in self._watched:
            self._poll.register(fd, select.POLLIN)
        self._end = float("inf")
        counters.enable()

    def stop_after(self, seconds: float) -> None:
        """End after this time from now."""
        self._end = time.monotonic() + seconds

    def with_records(self) -> Iterator[Live]:
        """Include other records from here on, as values of perfpy.abi.records: about tasks, mappings and lost samples.

        >>> import os, perfpy
        >>> with perfpy.watch("page-faults:u", pid=os.getpid(), duration=0.1) as stream:
        ...     kinds = {type(record).__name__ for record in stream.with_records()}
        """
        self._others = True
        return cast("Iterator[Live]", self)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> LiveSample:
        while not self._ready:
            if self._has_ended():
                raise StopIteration
            self._wait(self._pause())
            self._take()
        return cast("LiveSample", self._ready.popleft())  # with_records() has the type of other records

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> LiveSample:
        import asyncio  # rarely needed

        while not self._ready:
            if self._has_ended():
                raise StopAsyncIteration
            await asyncio.sleep(self._pause())
            if not self._has_ended():
                self._wait(0)
                self._take()
        return cast("LiveSample", self._ready.popleft())

    def close(self) -> None:
        """Stop watching, and close the counters; records that were not taken are dropped."""
        self._finalizer()
        self._ready.clear()
        self._held.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _has_ended(self) -> bool:
        return not self._finalizer.alive

    def _pause(self) -> float:
        """Return the seconds until the ring buffers are read."""
        return max(min(_SETTLING if self._held else _INTERVAL, self._end - time.monotonic()), 0)

    def _wait(self, seconds: float) -> None:
        """Wait until a ring buffer is half full, or the time has passed; drop counters whose task has ended."""
        for fd, happened in self._poll.poll(seconds * 1000):
            if happened & _GONE:
                self._poll.unregister(fd)
                self._watched.discard(fd)

    def _take(self) -> None:
        """Read the ring buffers. Records older than this read are complete in all of them; newer ones are held until the next."""
        last = not self._watched or time.monotonic() >= self._end
        if last:
            self._counters.disable()
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        for ring in self._counters.rings:
            data = b"".join(ring.pending())
            ring.consume()
            for record in self._decoder.decode(data) if data else ():
                self._see(record)
        self._held.sort()
        ripe = len(self._held) if last else bisect_right(self._held, now, key=lambda one: one[0])
        self._ready.extend(live for _, _, live in self._held[:ripe])
        del self._held[:ripe]
        if last:
            self._finalizer()

    def _see(self, record: RingSample | KernelRecord) -> None:
        self._number += 1  # keeps the order of records with equal times
        if isinstance(record, RingSample):
            name = self._names.get(record.identifier, "")
            comm = self._comms.get(record.tid)
            if comm is None:
                if len(self._comms) >= _MOST_NAMES:
                    self._comms.clear()
                status = self._procfs.status(record.tid)
                comm = self._comms[record.tid] = status.comm if status else f":{record.tid}"
            live = LiveSample(name, comm, record, self._readers.get(name))
            self._held.append((live.time, self._number, live))
            return
        self._follow(record)
        if self._others:
            stamp = getattr(record, "sample_id", None)
            self._held.append((stamp.time or 0 if stamp else 0, self._number, record))

    def _follow(self, record: Any) -> None:
        """Update the threads' comms, and the number of lost samples."""
        if isinstance(record, records.Comm):
            self._comms[record.tid] = record.comm
        elif isinstance(record, records.Fork):
            if record.ptid in self._comms:
                self._comms[record.tid] = self._comms[record.ptid]
        elif isinstance(record, records.Exit):
            self._comms.pop(record.tid, None)
        elif isinstance(record, (records.Lost, records.LostSamples)):
            self.lost += record.lost


def open_stream(
    texts: Sequence[str], filters: Iterable[str], options: RecordOptions, *, kernel: Kernel | None = None, warn: Callable[[str], None]
) -> EventStream:
    """Open events for the target of the options.

    Args:
        filters: of tracepoints.
        warn: called with a line about each event that another one replaces.

    Raises UsageError, UnknownEventError, KernelRefusedError.
    """
    kernel = kernel or this_kernel()
    if not options.target.is_given:
        raise UsageError("no target; give pid, tid, cpus, or system_wide=True")
    events = parse_events(texts, [(len(texts), text) for text in filters])
    if tool := next((event.name for event in events if event.tool), ""):
        raise UsageError(f"'{tool}' can be counted, not sampled; use perfpy.stat() or perfpy.count()")
    target, _ = resolve(options.target)
    inherit = target.kind != "tid"
    options = options._replace(
        sampling=options.sampling._replace(identifier=True, time=True, cpu_field=True, clockid=time.CLOCK_MONOTONIC),
        target=options.target._replace(inherit=inherit),
    )
    return EventStream(configure_sampling(events, options, target, kernel), options, target, kernel, warn)


def _field_readers(events: Sequence[Event]) -> dict[str, Callable[[bytes], dict[str, Any]]]:
    """Return the reader of each tracepoint's fields."""
    tracepoints = [(event.name, event.tracepoint) for event in events if event.tracepoint]
    if not tracepoints:
        return {}
    from perfpy.kernel.sysfs import Tracefs
    from perfpy.perfdata.event_format import parse_format

    tracefs = Tracefs()
    return {name: field_reader(parse_format(tracefs.format(*tracepoint) or "", tracepoint[0])) for name, tracepoint in tracepoints}


# LiveSample: one sample of a running event, with the fields of tracepoints in tracefs's format.

_LETTERS: Final = {1: "bB", 2: "hH", 4: "iI", 8: "qQ"}
_ORDER: Final = "little" if sys.byteorder == "little" else "big"


class LiveSample:
    """One sample of a running event.

    The kernel's fields are attributes, if the event has them: time (ns, of CLOCK_MONOTONIC), pid, tid, cpu, ip, period, addr,
    callchain (a list of addresses, innermost first).

    Attributes:
        event: the event's name.
        comm: the thread's comm.
        fields: the fields of a tracepoint by name; sample["next_comm"] returns one, too.

    >>> import os, perfpy
    >>> with perfpy.watch("page-faults:u", pid=os.getpid(), period=1, duration=5) as faults:
    ...     pages = bytearray(b"x") * (1 << 26)
    ...     sample = next(faults)
    >>> sample.event, sample.tid > 0, dict(sample.fields)
    ('page-faults:u', True, {})
    """

    __slots__ = ("_fields", "_read", "_sample", "comm", "event", "time")

    def __init__(self, event: str, comm: str, sample: RingSample, read: Callable[[bytes], dict[str, Any]] | None) -> None:
        self.event = event
        self.comm = comm
        self.time: int = sample.time
        self._sample = sample
        self._read = read
        self._fields: dict[str, Any] | None = None

    @property
    def fields(self) -> Mapping[str, Any]:
        """The tracepoint's fields; empty for other events."""
        if self._fields is None:
            self._fields = self._read(self._sample.raw) if self._read else {}
        return self._fields

    def __getitem__(self, name: str) -> Any:
        try:
            return self.fields[name]
        except KeyError:
            names = ", ".join(self.fields) or "none, because it is not a tracepoint"
            raise KeyError(f"'{self.event}' has no field {name!r}; it has {names}") from None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._sample, name)

    def __dir__(self) -> list[str]:
        return sorted({"comm", "event", "fields", *dir(self._sample)})

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self.fields.items() if not name.startswith("common_"))
        return f"<{self.event} of {self.comm} at {self.time / 1e9:.6f} s{': ' if fields else ''}{fields}>"


def field_reader(form: EventFormat) -> Callable[[bytes], dict[str, Any]]:
    """Return a function that decodes a tracepoint's raw data: numbers, texts, lists of numbers, and bytes of other types."""
    readers = [(field.name, _reader(field)) for field in (*form.common_fields, *form.fields)]
    return lambda raw: {name: read(raw) for name, read in readers}


def _reader(field: TraceField) -> Reader:
    start, end = field.offset, field.offset + field.size
    if field.is_dynamic:
        return _dynamic(field)
    if field.is_string:
        return lambda raw: _text(raw[start:end])
    if field.is_array and field.element_size in _LETTERS and field.size:
        count = field.size // field.element_size
        numbers = struct.Struct(f"={count}{_LETTERS[field.element_size][not field.is_signed]}")
        return lambda raw: [*numbers.unpack_from(raw.ljust(end, b"\0"), start)]
    if not field.is_array and field.size in _LETTERS:
        return lambda raw: int.from_bytes(raw[start:end], _ORDER, signed=field.is_signed)
    return lambda raw: raw[start:end] if field.size else raw[start:]


def _dynamic(field: TraceField) -> Reader:
    start, end = field.offset, field.offset + field.size

    def data(raw: bytes) -> Any:
        word = int.from_bytes(raw[start:end], _ORDER)
        begin = (word & 0xFFFF) + (end if field.is_relative else 0)
        content = raw[begin : begin + (word >> 16)]
        return _text(content) if "char" in field.type else content

    return data


def _text(data: bytes) -> str:
    return data.partition(b"\0")[0].decode("utf-8", "surrogateescape")
