"""Java's threads: their stacks, for which object each waits, and which thread holds its monitor.

A JVM that listens describes its threads itself (thread_dump in perfpy.capture.runtimes.attaching). The monitors are also read from the
memory of a JVM that does not. It is not stopped for that, so the lists of threads and monitors may change during the reading: what does
not fit together is left out.

Layouts: OpenJDK, vmStructs.cpp: ThreadsSMRSupport::_java_thread_list, ThreadsList, JavaThread::_current_pending_monitor, ObjectMonitor,
OopHandle (a pointer to a pointer to an object), CompressedKlassPointers.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.capture.process_memory import ProcessMemory
from perfpy.capture.runtimes.hotspot import exported_addresses, external_class, library_of
from perfpy.capture.runtimes.hotspot_code import VmStructs
from perfpy.kernel.procfs import ProcFs

if TYPE_CHECKING:
    from collections.abc import Mapping


_MOST_THREADS: Final = 1 << 14
_LONGEST: Final = 512  # bytes of a class's name
_CLASS_NAME: Final = re.compile(r"[\w$/\[;.+-]+")


class MonitorWait(NamedTuple):
    """A thread's wait for a monitor.

    Attributes:
        monitor: its address in the JVM.
        of_class: the class of its object; "" if it is unknown.
        holder: the thread that holds it; 0: unknown.
    """

    monitor: int
    of_class: str
    holder: int


class JavaFrame(NamedTuple):
    """A method, its file ("" if it is native, or of an unknown file) and its line (0: unknown)."""

    function: str
    file: str
    line: int


class JavaStack(NamedTuple):
    """A thread as its JVM describes it.

    Attributes:
        tid: its number in the JVM's pid namespace.
        name: Java's.
        frames: its methods, innermost first.
        lock: the object that it waits for, 0 for none.
        of_class: the class of that.
        enters: whether it waits for the object's monitor.
        holds: the objects whose monitors or locks it has.
    """

    tid: int
    name: str
    frames: list[JavaFrame]
    lock: int
    of_class: str
    enters: bool
    holds: set[int]


# HotSpot: "name" #12 prio=5 ... nid=0x1f (decimal since 21) ...; \tat a.B.c(B.java:4); \t- locked <0x0f> (a a.B); Locked ownable
# synchronizers: \t- <0x0f> (a a.Lock)
_HEADING: Final = re.compile(r'"([^\n]*)"(?: #\d+)? [^"\n]*\bnid=(0x[0-9a-f]{1,16}|\d{1,19})\b')
_FRAME: Final = re.compile(r"\tat ([^\s(]+)\((?:[^()\n]*/)?([^()/:\n]+)(?::(\d{1,9}))?\)")
_OBJECT: Final = re.compile(r"\t- (?:([a-z][a-z -]*?)(?: in wait\(\))? +)?<(0x[0-9a-f]{1,16})> \(an? ([^()\n]+)\)")
_ENTERS: Final = ("waiting to lock", "waiting to re-lock")
_WAITS: Final = (*_ENTERS, "parking to wait for", "waiting on")
_LONGEST_LINE: Final = 4096  # names can be of any length
_WITHOUT_FILE: Final = ("Native Method", "Unknown Source")


def java_stacks(dump: str) -> list[JavaStack]:
    """Return the threads of a JVM's description of them."""
    threads: list[JavaStack] = []
    for line in dump.split("\n"):
        if len(line) > _LONGEST_LINE:
            continue
        if heading := _HEADING.match(line):
            threads.append(JavaStack(int(heading[2], 0), heading[1], [], 0, "", False, set()))
        elif line.startswith("Found ") or not threads:
            if threads:
                break  # the deadlocks, with the same stacks again
        elif frame := _FRAME.match(line):
            threads[-1].frames.append(JavaFrame(frame[1], "" if frame[2] in _WITHOUT_FILE else frame[2], int(frame[3] or 0)))
        elif what := _OBJECT.match(line):
            verb, address = what[1] or "locked", int(what[2], 16)
            if verb in ("locked", "eliminated"):
                threads[-1].holds.add(address)
            elif verb in _WAITS:
                threads[-1] = threads[-1]._replace(lock=address, of_class=what[3], enters=verb in _ENTERS)
    # a thread in Object.wait() has locked the object before, and lets others lock it meanwhile
    return [thread._replace(holds=thread.holds - {thread.lock}) if thread.lock in thread.holds else thread for thread in threads]


class _JavaThread(NamedTuple):
    """A thread: its address in the JVM, its number, the bounds of its stack, and the monitor that it waits for (0: none)."""

    address: int
    tid: int
    stack: range
    monitor: int


def monitor_waits(pid: int, inner_tids: Mapping[int, int]) -> dict[int, MonitorWait]:
    """Return thread -> its wait, for the threads of a process that wait for a monitor; empty if the process is no JVM, or not readable.

    Args:
        pid: the process.
        inner_tids: thread -> its number in the process's own pid namespace.
    """
    library = library_of(pid, ProcFs())
    if library is None:
        return {}
    try:
        memory = ProcessMemory(pid)
    except OSError:  # of another user
        return {}
    try:
        vm = VmStructs(memory, exported_addresses(pid, library))
        return Monitors(memory, vm).waits({inner: tid for tid, inner in inner_tids.items()})
    except (OSError, LookupError, ValueError):  # it ends, or has other structures
        return {}
    finally:
        memory.close()


class Monitors:
    """The monitors of one JVM. Raises LookupError if this version does not have the structures."""

    def __init__(self, memory: ProcessMemory, vm: VmStructs) -> None:
        self._memory = memory
        self._list = vm.field(("ThreadsSMRSupport", "_java_thread_list")).offset
        self._length = vm.field(("ThreadsList", "_length"))
        self._threads = vm.field(("ThreadsList", "_threads")).offset
        self._of_thread = [
            vm.field(("JavaThread", name)).offset for name in ("_osthread", "_stack_base", "_stack_size", "_current_pending_monitor")
        ]
        self._thread_id = vm.field(("OSThread", "_thread_id"))
        self._owner = vm.field(("ObjectMonitor", "_owner")).offset
        self._object = vm.field(("ObjectMonitor", "_object")).offset
        self._class_of = vm.field(("oopDesc", "_metadata._compressed_klass"))
        self._base = vm.field(("CompressedKlassPointers", "_narrow_klass._base"), ("CompressedKlassPointers", "_base")).offset
        self._shift = vm.field(("CompressedKlassPointers", "_narrow_klass._shift"), ("CompressedKlassPointers", "_shift")).offset
        self._class_name = vm.field(("Klass", "_name")).offset
        self._symbol_length = vm.field(("Symbol", "_length"))
        self._symbol_body = vm.field(("Symbol", "_body[0]"), ("Symbol", "_body")).offset

    def waits(self, tids: Mapping[int, int]) -> dict[int, MonitorWait]:
        """Return thread -> its wait; tids: the number of a thread in its own pid namespace -> its number here."""
        threads = self._java_threads()
        by_address = {thread.address: thread.tid for thread in threads}
        by_stack = sorted(threads, key=lambda thread: thread.stack.start)
        starts = [thread.stack.start for thread in by_stack]
        waits = {}
        for thread in threads:
            if thread.monitor and thread.tid in tids:
                owner = self._memory.number(thread.monitor + self._owner)
                # the owner is a thread, or a lock on the stack of a thread
                below = by_stack[bisect_right(starts, owner) - 1]
                holder = by_address.get(owner, below.tid if owner in below.stack else 0) if owner else 0
                waits[tids[thread.tid]] = MonitorWait(thread.monitor, self._class_at(thread.monitor), tids.get(holder, 0))
        return waits

    def _java_threads(self) -> list[_JavaThread]:
        memory = self._memory
        threads = memory.number(self._list)
        count = memory.number(threads + self._length.offset, self._length.size)
        if not 0 <= count <= _MOST_THREADS:
            return []
        first = memory.number(threads + self._threads)
        return [self._java_thread(memory.number(first + 8 * number)) for number in range(count)]

    def _java_thread(self, address: int) -> _JavaThread:
        os_thread, base, size, monitor = (self._memory.number(address + offset) for offset in self._of_thread)
        tid = self._memory.number(os_thread + self._thread_id.offset, self._thread_id.size) if os_thread else 0
        return _JavaThread(address, tid, range(base - size, base), monitor)

    def _class_at(self, monitor: int) -> str:
        """Return the class of a monitor's object; "" if it is unknown, for example because classes have no short addresses."""
        memory = self._memory
        try:
            handle = memory.number(monitor + self._object)
            number = memory.number(memory.number(handle) + self._class_of.offset, self._class_of.size)
            of_class = memory.number(self._base) + (number << (memory.number(self._shift, 4) & 31))
            symbol = memory.number(of_class + self._class_name) & ~7
            length = memory.number(symbol + self._symbol_length.offset, self._symbol_length.size)
            name = memory.read(symbol + self._symbol_body, length).decode() if 0 < length <= _LONGEST else ""
        except (OSError, ValueError):
            return ""
        return external_class(name) if _CLASS_NAME.fullmatch(name) else ""


# The counters that a JVM publishes in a file which it also has mapped (OpenJDK, perfMemory.hpp): a header with the place and the number
# of entries, each with its name and value. Read from its memory, because paths of its root are untrusted.

_COUNTERS: Final = re.compile(r"/hsperfdata_[^/]+/\d+")
_MAGIC: Final = b"\xca\xfe\xc0\xc0\x01\x02"  # little-endian, version 2
_HEADER_OF_COUNTERS: Final = struct.Struct("<8x2i8x2i")  # used, overflow; first entry, entries
_ENTRY: Final = struct.Struct("<3i4Bi")  # size, name, length of an array; kind, flags, unit, variability; value
_MOST_COUNTERS: Final = 4096
_LARGEST_COUNTERS: Final = 1 << 20  # bytes
_MOST_COLLECTORS: Final = 4
_LONGEST_TEXT: Final = 4096  # bytes
_YOUNG: Final = re.compile(r"(?i).*\byoung\b.*|Copy|PSScavenge|ParNew|G1 incremental collections")
_FULL: Final = re.compile(r"(?i).*\bfull\b.*|MSC|PSParallelCompact|PSMarkSweep|G1 stop-the-world full collections")
_MEGABYTE: Final = 1 << 20
#: options that limit the heap, or its part for young objects
_HEAP_OPTION: Final = re.compile(r"-Xmx\d+[kKmMgGtT]?|-XX:(?:MaxHeapSize|MaxRAM|MaxRAMPercentage)=[\d.]+[kKmMgGtT]?")
_YOUNG_OPTION: Final = re.compile(r"-Xmn\d+[kKmMgGtT]?|-XX:(?:MaxNewSize|NewSize)=\d+[kKmMgGtT]?")


class Collections(NamedTuple):
    """The garbage collections of a JVM so far.

    Attributes:
        young, full: their numbers.
        young_time, full_time: seconds.
        heap, young_heap: the largest sizes of the heap and of its part for young objects, in MB.
        heap_option, young_option: the options of the JVM that limit them, "" for none.
    """

    young: int
    full: int
    young_time: float
    full_time: float
    heap: int
    young_heap: int
    heap_option: str
    young_option: str


class JvmCounters:
    """The counters of a JVM. Raises OSError or LookupError if it publishes none."""

    def __init__(self, pid: int, procfs: ProcFs | None = None) -> None:
        maps = (procfs or ProcFs()).maps(pid, data=True)
        mapping = next((one for one in maps if _COUNTERS.search(one.path.removesuffix(" (deleted)")[-64:])), None)
        if mapping is None:
            raise LookupError("no counters")
        self._address, self._size = mapping.start, min(mapping.end - mapping.start, _LARGEST_COUNTERS)
        self._memory = ProcessMemory(pid)

    def close(self) -> None:
        """Close the memory."""
        self._memory.close()

    def collections(self) -> Collections | None:
        """Return the garbage collections so far; None if the JVM has ended, or is not ready."""
        return collections_of(self._memory.some(self._address, self._size))


def collections_of(data: bytes) -> Collections | None:
    """Return the garbage collections by a JVM's counters; None if the data are damaged or incomplete."""
    values = _read_counters(data)
    frequency, arguments = values.get("sun.os.hrt.frequency", 0), str(values.get("java.rt.vmArgs", ""))
    is_ready = isinstance(values.get("sun.gc.collector.0.invocations"), int)
    if not isinstance(frequency, int) or frequency <= 0 or not is_ready:
        return None
    counts, times = {"young": 0, "full": 0}, {"young": 0.0, "full": 0.0}
    for number in range(_MOST_COLLECTORS):
        name = str(values.get(f"sun.gc.collector.{number}.name", ""))
        kind = "full" if _FULL.fullmatch(name) else "young" if _YOUNG.fullmatch(name) else ""
        count, ticks = (values.get(f"sun.gc.collector.{number}.{field}", 0) for field in ("invocations", "time"))
        if kind and isinstance(count, int) and isinstance(ticks, int):
            counts[kind] += max(count, 0)
            times[kind] += max(ticks, 0) / frequency
    sizes = [values.get(f"sun.gc.generation.{number}.maxCapacity", 0) for number in (0, 1)]
    young, old = (max(size, 0) // _MEGABYTE if isinstance(size, int) else 0 for size in sizes)
    options = [[word for word in arguments.split() if pattern.fullmatch(word)] for pattern in (_HEAP_OPTION, _YOUNG_OPTION)]
    of_heap, of_young = ("" if not one else one[-1] for one in options)
    return Collections(counts["young"], counts["full"], times["young"], times["full"], max(young + old, 0), young, of_heap, of_young)


def _read_counters(data: bytes) -> dict[str, int | str]:
    """Return the counters of garbage collections, and of what their units are; empty if the data are damaged."""
    values: dict[str, int | str] = {}
    if not data.startswith(_MAGIC) or len(data) < _HEADER_OF_COUNTERS.size:
        return values
    _, _, position, count = _HEADER_OF_COUNTERS.unpack_from(data)
    for _ in range(min(max(count, 0), _MOST_COUNTERS)):
        if not 0 <= position <= len(data) - _ENTRY.size:
            break
        size, name_offset, length, kind, _, _, _, value_offset = _ENTRY.unpack_from(data, position)
        begin, value = position + name_offset, position + value_offset
        if size < _ENTRY.size or not position < begin < len(data) or not position < value <= len(data) - 8:
            break
        name = data[begin : begin + _LONGEST].partition(b"\0")[0].decode("ascii", "replace")
        if kind == ord("J"):
            values[name] = int.from_bytes(data[value : value + 8], "little", signed=True)
        elif kind == ord("B"):
            values[name] = data[value : value + min(max(length, 0), _LONGEST_TEXT)].partition(b"\0")[0].decode("utf-8", "replace")
        position += size
    return values
