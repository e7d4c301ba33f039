"""Recordings of Arm's statistical profiling extension, made packet by packet.

Input: records with the values that the hardware samples. Output: the bytes of a perf.data file that perf reads.
Layout of packets: Arm Architecture Reference Manual (DDI 0487), "Statistical Profiling Extension sample record specification".
"""

from __future__ import annotations

import random
import struct
from typing import Any, Final

from perfpy.abi import records
from perfpy.abi.attr import EventAttr
from perfpy.abi.flags import SampleType
from perfpy.abi.perf_records import Auxtrace, AuxtraceInfo, TimeConv
from perfpy.abi.records import SampleId
from perfpy.perfdata.header import CpuCount, EventDesc, Feature
from tests.builders.perfdata import PerfDataBuilder

PC, TARGET, DATA, PHYSICAL = range(4)
TOTAL, ISSUE, TRANSLATION = range(3)
OTHER, LOAD_STORE, BRANCH = range(3)
#: bits of the events packet
RETIRED, L1_ACCESS, L1_MISS, TLB_ACCESS, TLB_MISS, NOT_TAKEN, MISPREDICTED, LLC_ACCESS, LLC_MISS, REMOTE = (
    1 << bit for bit in range(1, 11)
)
NON_SECURE: Final = 1 << 63
KERNEL_LEVEL: Final = 1 << 61
END: Final = b"\x01"
NEOVERSE_N1: Final = 0x413FD0C1
_PMU: Final = 9
_RECORD: Final = 64  # bytes that the hardware aligns records to
_SIZES: Final = {1: "B", 2: "H", 4: "I", 8: "Q"}


def packet(header: int, size: int, value: int, extension: int | None = None) -> bytes:
    """A packet: a header with the size of its payload, behind an extension of the header if there is one."""
    head = bytes([extension] if extension is not None else []) + bytes([header | size.bit_length() - 1 << 4])
    return head + struct.pack(f"<{_SIZES[size]}", value)


def address(index: int, value: int) -> bytes:
    """An address packet; indexes above 7 need the long header."""
    return packet(0x80 | index & 7, 8, value, 0x20 | index >> 3 if index > 7 else None)


def latency(index: int, cycles: int) -> bytes:
    """A counter packet."""
    return packet(0x88 | index & 7, 2, cycles, 0x20 | index >> 3 if index > 7 else None)


def events(bits: int, size: int = 2) -> bytes:
    """An events packet."""
    return packet(0x42, size, bits)


def data_source(value: int, size: int = 1) -> bytes:
    """A data source packet."""
    return packet(0x43, size, value)


def operation(kind: int, payload: int) -> bytes:
    """An operation type packet."""
    return packet(0x48 | kind, 1, payload)


def context(value: int, level: int = 1) -> bytes:
    """A context packet: the thread's id."""
    return packet(0x44 | level, 4, value)


def timestamp(value: int) -> bytes:
    """A timestamp packet, which ends a record."""
    return packet(0x41, 8, value)


def aligned(record: bytes) -> bytes:
    """A record, padded as the hardware does."""
    return record + bytes(-len(record) % _RECORD)


def random_record(draw: random.Random, time: int, tids: tuple[int, ...] = (10, 20)) -> bytes:
    """A record as the hardware writes one: an operation at an address, with what it needed; half of the records have each part."""
    in_kernel = draw.random() < 0.2
    at = 0xFF8000080000 + 4 * draw.randrange(0x1000) if in_kernel else 0x400000 + 4 * draw.randrange(0x4000)
    parts = [address(PC, at | NON_SECURE | (KERNEL_LEVEL if in_kernel else 0))]
    if draw.random() < 0.7:
        parts.append(context(draw.choice(tids)))
    kind = draw.choice((OTHER, LOAD_STORE, LOAD_STORE, LOAD_STORE, BRANCH))
    bits = RETIRED
    if kind == LOAD_STORE:
        parts.append(operation(kind, draw.choice((0, 1, 4, 5, 0x10, 0x12))))
        bits |= L1_ACCESS | TLB_ACCESS
        bits |= draw.choice((0, L1_MISS, L1_MISS | LLC_ACCESS, L1_MISS | LLC_ACCESS | LLC_MISS, REMOTE)) | draw.choice((0, TLB_MISS))
    elif kind == BRANCH:
        parts.append(operation(kind, draw.choice((0, 1, 2))))
        bits |= draw.choice((0, NOT_TAKEN, MISPREDICTED))
        parts.append(address(TARGET, (0x400000 + 4 * draw.randrange(0x4000)) | NON_SECURE))
    else:
        parts.append(operation(kind, draw.choice((0, 1))))
    parts.append(events(bits, draw.choice((2, 4))))
    parts += [latency(ISSUE, draw.randrange(40)), latency(TOTAL, draw.randrange(2, 700))]
    if kind == LOAD_STORE:
        tag = draw.choice((0, 0, 0xA5 << 56))
        where = draw.choice((0x600000 + 8 * draw.randrange(64), 0xFF8012340000 + 8 * draw.randrange(64)))
        parts += [address(DATA, where | tag), latency(TRANSLATION, draw.randrange(30))]
        if draw.random() < 0.5:
            parts.append(address(PHYSICAL, 1 << 33 | draw.randrange(1 << 20) << 6 | NON_SECURE))
        if draw.random() < 0.8:
            parts.append(data_source(draw.choice((0, 8, 9, 10, 11, 12, 13, 14, 3))))
    parts.append(timestamp(time) if draw.random() < 0.95 else END)
    return aligned(b"".join(parts))


def random_trace(seed: int, count: int, *, start: int = 1000, step: int = 500) -> bytes:
    """A trace of some records."""
    draw = random.Random(seed)
    parts, time = [], start
    for _ in range(count):
        time += draw.randrange(1, 2 * step)
        parts.append(random_record(draw, time))
    return b"".join(parts)


def random_packets(seed: int, count: int, queue: int = 0) -> bytes:
    """Packets of all kinds in any order, with the long headers, padding and ends of records. Traces of two queues share no times."""
    draw = random.Random(seed)
    parts, time = [timestamp(1000 + queue)], 1000
    for _ in range(count):
        time += draw.randrange(300)
        parts.append(_random_packet(draw, 4 * time + queue))
    return b"".join([*parts, END])


def _random_packet(draw: random.Random, time: int) -> bytes:
    match draw.choice("AACEESOXPTT1"):
        case "A":
            return address(draw.choice((0, 0, 1, 2, 2, 3, 4, 9)), draw.getrandbits(64))
        case "C":
            return latency(draw.choice((0, 0, 1, 2, 12)), draw.getrandbits(16))
        case "E":
            return events(draw.getrandbits(8), 1) if draw.random() < 0.3 else events(draw.getrandbits(19), 4)
        case "S":
            return data_source(draw.choice((0, 8, 9, 10, 11, 12, 13, 14)), draw.choice((1, 2)))
        case "O":
            return operation(draw.randrange(3), draw.getrandbits(8))
        case "X":
            return context(draw.choice((10, 20, 99)), draw.randrange(3))
        case "P":
            return bytes(draw.randrange(1, 40))
        case "T":
            return timestamp(time)
    return END


def spe_recording(
    traces: tuple[bytes, ...],
    *,
    cpuid: str = "0x0",
    more: int = SampleType.PHYS_ADDR | SampleType.ADDR | SampleType.WEIGHT,
    per_thread: bool = False,
    words: tuple[int, ...] = (_PMU, 1),
    cut: int = 0,
    conversion: tuple[int, int, int] = (0, 1, 0),
    has_time: bool = True,
) -> PerfDataBuilder:
    """A recording of `perf record -e arm_spe_0// -a`: one trace for each CPU, two processes.

    Args:
        cpuid: the header's, which names the model of the CPU.
        more: fields of the tracer's samples besides the usual ones.
        per_thread: the traces are those of threads, not of CPUs.
        words: the tracer's of AUXTRACE_INFO.
        cut: bytes of each piece of a trace; 0: each trace is one piece.
        conversion: time_shift, time_mult and time_zero of the timestamps.
        has_time: False for a recording without times.
    """
    time = SampleType.TIME if has_time else 0
    fields = SampleType.IP | SampleType.TID | time | SampleType.CPU | SampleType.IDENTIFIER | SampleType.PERIOD
    shared: dict[str, Any] = {"sample_id_all": 1, "freq": 0, "sample_period": 1024}
    tracer = EventAttr(type=_PMU, config=0x700010001, sample_type=fields | SampleType.DATA_SRC | more, **shared)
    dummy = EventAttr(type=1, config=9, sample_type=fields, mmap=1, comm=1, task=1, mmap2=1, context_switch=1, **shared)
    built = PerfDataBuilder([tracer, dummy], [(101,), (202,)])
    built.record(TimeConv(0, *conversion, 0, 0, 0, 0))
    built.record(AuxtraceInfo(0, 4, words))
    for pid, name in ((10, "alpha"), (20, "beta")):
        ids = SampleId(pid=pid, tid=pid, time=0, cpu=0, identifier=202, id=202)
        built.record(records.Comm(0, pid, pid, name, ids), event=1)
        built.record(records.Mmap2(2, pid, pid, 0x400000, 0x10000, 0, 8, 1, 98, 0, 5, 2, f"/bin/prog-{name}", b"", ids), event=1)
        built.record(records.Mmap2(2, pid, pid, 0x600000, 0x10000, 0, 0, 0, 0, 0, 3, 2, "//anon", b"", ids), event=1)
    for number, trace in enumerate(traces):
        pieces = [trace[begin : begin + cut] for begin in range(0, len(trace), cut)] if cut else [trace]
        offset = 0
        for piece in pieces:
            padded = piece + bytes(-len(piece) % 8)
            cpu, tid = (0xFFFFFFFF, (10, 20)[number % 2]) if per_thread else (number, 0xFFFFFFFF)
            built.record(Auxtrace(0, len(padded), offset, 0, number, tid, cpu)).raw(padded)
            offset += len(padded)
    built.feature(Feature.ARCH, "aarch64").feature(Feature.NRCPUS, CpuCount(len(traces), len(traces)))
    built.feature(Feature.CPUID, cpuid)
    names = ("arm_spe_0/ts_enable=1/", "dummy:u")
    return built.feature(
        Feature.EVENT_DESC, [EventDesc(attr, name, ids) for attr, name, ids in zip(built.attrs, names, built.ids, strict=True)]
    )
