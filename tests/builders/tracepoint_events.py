"""Recordings of the kernel's work, locks and memory: tracepoints with chosen times, CPUs and fields.

Input: events, one call each. Output: the bytes of a file as perf writes it. Layouts: the kernel's include/trace/events/*.h.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.abi.flags import ReadFormat, SampleType
from perfpy.abi.records import Comm, Exit, Fork, Lost, Mmap, SampleId
from perfpy.perfdata.event_format import TracingData
from perfpy.perfdata.header import CpuCount, EventDesc, EventGroup, Feature
from tests.builders.perfdata import USUAL, PerfDataBuilder, usual_attr
from tests.builders.traced import format_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_HEAD: Final = 8  # bytes of the fields that all tracepoints have
_KERNEL: Final = 0xFFFF_FFFF_8100_0000  # its code
_DYNAMIC: Final = "data"
_VECTORS: Final = ("HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU")
_GFP: Final = (("GFP_KERNEL", 0xCC0), ("GFP_ATOMIC", 0x820), ("__GFP_ZERO", 0x100), ("__GFP_COMP", 0x40000))


class Point(NamedTuple):
    """A tracepoint: its number, its fields (declaration without the name, name, struct code), and its print format."""

    number: int
    fields: tuple[tuple[str, str, str], ...]
    text: str


def _symbols(field: str, names: Sequence[str]) -> str:
    return f"__print_symbolic(REC->{field}, " + ", ".join(f'{{ {number}, "{name}" }}' for number, name in enumerate(names)) + ")"


_FLAGS: Final = '__print_flags(REC->gfp_flags, "|", ' + ", ".join(f'{{ {value:#x}, "{name}" }}' for name, value in _GFP) + ")"
_VECTOR: Final = Point(0, (("unsigned int", "vec", "I"),), f'"vec=%u [action=%s]", REC->vec, {_symbols("vec", _VECTORS)}')
_WORK: Final = Point(0, (("void *", "work", "Q"), ("void *", "function", "Q")), '"work struct %p", REC->work')
_SITE: Final = (("unsigned long", "call_site", "Q"), ("const void *", "ptr", "Q"))
_SIZES: Final = (("size_t", "bytes_req", "Q"), ("size_t", "bytes_alloc", "Q"), ("unsigned long", "gfp_flags", "Q"))
_ALLOCATION: Final = Point(0, (*_SITE, *_SIZES, ("int", "node", "i")), f'"call_site=%pS gfp_flags=%s", (void *)REC->call_site, {_FLAGS}')
_PAGE: Final = (("unsigned long", "pfn", "Q"), ("unsigned int", "order", "I"))
_TASK: Final = (("char[16]", "comm", "16s"), ("pid_t", "pid", "i"), ("int", "prio", "i"))
POINTS: Final = {
    "irq:irq_handler_entry": Point(
        501, (("int", "irq", "i"), ("__data_loc char[]", "name", _DYNAMIC)), '"irq=%d name=%s", REC->irq, __get_str(name)'
    ),
    "irq:irq_handler_exit": Point(502, (("int", "irq", "i"), ("int", "ret", "i")), '"irq=%d", REC->irq'),
    "irq:softirq_raise": _VECTOR._replace(number=503),
    "irq:softirq_entry": _VECTOR._replace(number=504),
    "irq:softirq_exit": _VECTOR._replace(number=505),
    "workqueue:workqueue_activate_work": _WORK._replace(number=506),
    "workqueue:workqueue_execute_start": _WORK._replace(number=507),
    "workqueue:workqueue_execute_end": _WORK._replace(number=508),
    "sched:sched_switch": Point(
        509,
        (
            ("char[16]", "prev_comm", "16s"), ("pid_t", "prev_pid", "i"), ("int", "prev_prio", "i"), ("long", "prev_state", "q"),
            ("char[16]", "next_comm", "16s"), ("pid_t", "next_pid", "i"), ("int", "next_prio", "i"),
        ),
        '"%s", REC->prev_comm',
    ),
    "kmem:kmalloc": _ALLOCATION._replace(number=510),
    "kmem:kmem_cache_alloc": _ALLOCATION._replace(number=511),
    "kmem:kfree": Point(512, _SITE, '"call_site=%pS", (void *)REC->call_site'),
    "kmem:kmem_cache_free": Point(513, _SITE, '"call_site=%pS", (void *)REC->call_site'),
    "kmem:mm_page_alloc": Point(
        514, (*_PAGE, ("unsigned long", "gfp_flags", "Q"), ("int", "migratetype", "i")), f'"order=%d gfp_flags=%s", REC->order, {_FLAGS}'
    ),
    "kmem:mm_page_free": Point(515, _PAGE, '"order=%d", REC->order'),
    "lock:contention_begin": Point(516, (("void *", "lock_addr", "Q"), ("unsigned int", "flags", "I")), '"%p", REC->lock_addr'),
    "lock:contention_end": Point(517, (("void *", "lock_addr", "Q"), ("int", "ret", "i")), '"%p", REC->lock_addr'),
    "sched:sched_wakeup": Point(518, (*_TASK, ("int", "target_cpu", "i")), '"pid=%d", REC->pid'),
    "power:cpu_idle": Point(520, (("u32", "state", "I"), ("u32", "cpu_id", "I")), '"state=%u", REC->state'),
    "power:cpu_frequency": Point(521, (("u32", "state", "I"), ("u32", "cpu_id", "I")), '"state=%u", REC->state'),
    "syscalls:sys_enter_read": Point(
        522,
        (("int", "__syscall_nr", "i"), ("unsigned int", "fd", "Q"), ("char *", "buf", "Q"), ("size_t", "count", "Q")),
        '"fd: %d", REC->fd',
    ),
    "syscalls:sys_exit_read": Point(523, (("int", "__syscall_nr", "i"), ("long", "ret", "q")), '"0x%lx", REC->ret'),
    "module:module_load": Point(
        524, (("unsigned int", "taints", "I"), ("__data_loc char[]", "name", _DYNAMIC)), '"name=%s", __get_str(name)'
    ),
    "sched:sched_waking": Point(519, (*_TASK, ("int", "target_cpu", "i")), '"pid=%d", REC->pid'),
}  # fmt: skip


class EventRecording:
    """Collects events, then gives the bytes of a file.

    Args:
        names: the tracepoints of the file.
        comms: names of threads; each is a process.
        cpus: of the machine.
        with_chains: whether samples have callchains.
    """

    def __init__(self, names: Sequence[str], *, comms: Mapping[int, str] | None = None, cpus: int = 2, with_chains: bool = False) -> None:
        kind = USUAL | SampleType.IDENTIFIER | SampleType.CPU | SampleType.RAW
        kind |= SampleType.CALLCHAIN if with_chains else 0
        reads = ReadFormat.ID | ReadFormat.LOST
        attrs = [usual_attr(kind, type=2, config=POINTS[name].number, sample_period=1, read_format=reads) for name in names]
        self._places = {name: place for place, name in enumerate(names)}
        self._with_chains = with_chains
        self._built = PerfDataBuilder(attrs=attrs, ids=[(number,) for number in range(1, len(attrs) + 1)])
        kernel = SampleId(pid=0, tid=0, time=1, cpu=0, identifier=1)
        self._built.record(Mmap(1, -1 % (1 << 32), 0, _KERNEL, 1 << 24, _KERNEL, "[kernel.kallsyms]_text", kernel))
        for tid, comm in (comms or {}).items():
            self._built.record(Comm(0, tid, tid, comm, SampleId(pid=tid, tid=tid, time=1, cpu=0, identifier=1)))
        self._built.feature(Feature.NRCPUS, CpuCount(cpus, cpus))
        systems: dict[str, tuple[bytes, ...]] = {}
        for name in names:
            system = name.partition(":")[0]
            systems[system] = (*systems.get(system, ()), _format(name))
        page = b"\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n"
        tracing = TracingData("0.6", "<", 8, 4096, page, b"", systems=tuple(systems.items()), cmdlines=b"")
        self._built.feature(Feature.TRACING_DATA, tracing.encode())
        described = (EventDesc(attr, name, (number,)) for number, (attr, name) in enumerate(zip(attrs, names, strict=True), 1))
        self._built.feature(Feature.EVENT_DESC, tuple(described))

    def event(
        self, name: str, time: int, *values: int | bytes, cpu: int = 0, tid: int = 100, chain: Sequence[int] = (), address: int = 0
    ) -> EventRecording:
        """Add an event.

        Args:
            name: of the tracepoint.
            time: nanoseconds.
            values: of its fields, in order.
            cpu, tid: of the sample.
            chain: the callchain, if the recording has them.
            address: of the sample.
        """
        raw = struct.pack("<HBBi", POINTS[name].number, 0, 0, tid) + _body(name, values)
        chains = {"callchain": [(1 << 64) - 128, *chain]} if self._with_chains else {}
        self._built.sample(
            self._places[name],
            pid=tid,
            tid=tid,
            time=time,
            cpu=cpu,
            period=1,
            ip=address,
            misc=1,
            raw=raw + bytes(-(len(raw) + 4) % 8),
            **chains,
        )
        return self

    def rename(self, tid: int, comm: str, time: int) -> EventRecording:
        """Add a COMM record of a process."""
        self._built.record(Comm(0, tid, tid, comm, SampleId(pid=tid, tid=tid, time=time, cpu=0, identifier=1)))
        return self

    def fork(self, pid: int, tid: int, time: int, parent: int = 0) -> EventRecording:
        """Add a FORK record: a new thread of the process, or with a parent a new process."""
        sample_id = SampleId(pid=parent or pid, tid=parent or pid, time=time, cpu=0, identifier=1)
        self._built.record(Fork(0, pid, parent or pid, tid, parent or pid, time, sample_id))
        return self

    def exit(self, pid: int, time: int) -> EventRecording:
        """Add the EXIT record of a process with one thread."""
        self._built.record(Exit(0, pid, 0, pid, 0, time, SampleId(pid=pid, tid=pid, time=time, cpu=0, identifier=1)))
        return self

    def lost(self, count: int, time: int) -> EventRecording:
        """Add a record of lost events."""
        self._built.record(Lost(0, 1, count, SampleId(pid=0, tid=0, time=time, cpu=0, identifier=1)))
        return self

    def grouped(self) -> EventRecording:
        """Make one group of all tracepoints."""
        self._built.feature(Feature.GROUP_DESC, (EventGroup("{anon_group}", 0, len(self._places)),))
        return self

    def end_round(self) -> EventRecording:
        """Add a FINISHED_ROUND record."""
        self._built.round()
        return self

    def file(self) -> bytes:
        """Return the bytes of the file."""
        return self._built.file()


def _places_of(name: str) -> list[tuple[int, int]]:
    """Return the offset and the size of each field."""
    places, offset = [], _HEAD
    for _, _, code in POINTS[name].fields:
        size = 4 if code == _DYNAMIC else struct.calcsize("<" + code)
        alignment = 1 if code.endswith("s") else size
        offset += -offset % alignment
        places.append((offset, size))
        offset += size
    return places


def _format(name: str) -> bytes:
    lines = []
    for (kind, field, code), (offset, size) in zip(POINTS[name].fields, _places_of(name), strict=True):
        base, bracket, rest = kind.partition("[")
        declared = f"{kind} {field}" if kind.startswith("__data_loc") else f"{base} {field}{bracket}{rest}"
        lines.append(f"{declared};\toffset:{offset};\tsize:{size};\tsigned:{int(code in 'iq')}")
    return format_text(name, (POINTS[name].number, tuple(lines), POINTS[name].text))


def _body(name: str, values: Sequence[int | bytes]) -> bytes:
    places = _places_of(name)
    body, tail = bytearray(sum(places[-1]) - _HEAD), b""
    for (_, _, code), (offset, size), value in zip(POINTS[name].fields, places, values, strict=True):
        if code == _DYNAMIC:
            text = bytes(value) + b"\0"
            packed = struct.pack("<I", len(text) << 16 | (_HEAD + len(body) + len(tail)))
            tail += text
        else:
            packed = struct.pack("<" + code, value)
        body[offset - _HEAD : offset - _HEAD + size] = packed
    return bytes(body) + tail
