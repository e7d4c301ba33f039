"""Recordings of virtual machines: exits to the host, entries, and accesses to ports and device memory, drawn by a seed.

Input: a seed, a number of exits, and the cpuid of the host. Output: the bytes of a file as `perf kvm stat record` writes
it. Layouts: the formats of the kernel's tracepoints kvm:*.
"""

from __future__ import annotations

import random
import struct
from typing import TYPE_CHECKING, Final

from perfpy.abi.flags import SampleType
from perfpy.abi.records import Comm, SampleId
from perfpy.perfdata.event_format import TracingData
from perfpy.perfdata.header import EventDesc, Feature
from tests.builders.perfdata import USUAL, PerfDataBuilder, usual_attr

if TYPE_CHECKING:
    from collections.abc import Callable

_COMMON = (
    "unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0", "unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0",
    "unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0", "int common_pid;\toffset:4;\tsize:4;\tsigned:1",
)  # fmt: skip
ENTRY, EXIT, MMIO, PIO = "kvm:kvm_entry", "kvm:kvm_exit", "kvm:kvm_mmio", "kvm:kvm_pio"
#: name -> id, fields
TRACEPOINTS: Final = {
    ENTRY: (401, ("unsigned int vcpu_id;\toffset:8;\tsize:4;\tsigned:0", "unsigned long rip;\toffset:16;\tsize:8;\tsigned:0")),
    EXIT: (
        402,
        (
            "unsigned int exit_reason;\toffset:8;\tsize:4;\tsigned:0", "unsigned long guest_rip;\toffset:16;\tsize:8;\tsigned:0",
            "u32 isa;\toffset:24;\tsize:4;\tsigned:0", "u64 info1;\toffset:32;\tsize:8;\tsigned:0",
            "u64 info2;\toffset:40;\tsize:8;\tsigned:0", "u32 intr_info;\toffset:48;\tsize:4;\tsigned:0",
            "u32 error_code;\toffset:52;\tsize:4;\tsigned:0", "unsigned int vcpu_id;\toffset:56;\tsize:4;\tsigned:0",
        ),
    ),
    MMIO: (
        403,
        (
            "u32 type;\toffset:8;\tsize:4;\tsigned:0", "u32 len;\toffset:12;\tsize:4;\tsigned:0",
            "u64 gpa;\toffset:16;\tsize:8;\tsigned:0", "u64 val;\toffset:24;\tsize:8;\tsigned:0",
        ),
    ),
    PIO: (
        404,
        (
            "unsigned int rw;\toffset:8;\tsize:4;\tsigned:0", "unsigned int port;\toffset:12;\tsize:4;\tsigned:0",
            "unsigned int size;\toffset:16;\tsize:4;\tsigned:0", "unsigned int count;\toffset:20;\tsize:4;\tsigned:0",
            "unsigned int val;\toffset:24;\tsize:4;\tsigned:0",
        ),
    ),
}  # fmt: skip
VMX, SVM = 1, 2
INTEL, AMD = "GenuineIntel,6,85,4", "AuthenticAMD,25,17,1"


class ExitRecording:
    """Collects the events of virtual machines, then gives the bytes of a file."""

    def __init__(self, cpuid: str = INTEL) -> None:
        kind = USUAL | SampleType.IDENTIFIER | SampleType.CPU | SampleType.RAW
        attrs = [usual_attr(kind, type=2, config=number, freq=0, sample_period=1) for number, _ in TRACEPOINTS.values()]
        self._ids = {name: place for place, name in enumerate(TRACEPOINTS)}
        self._built = PerfDataBuilder(attrs=attrs, ids=[(number,) for number in range(1, len(attrs) + 1)])
        self._isa = SVM if cpuid.startswith("Auth") else VMX
        for pid in (100, 200):
            self._built.record(Comm(0, pid, pid, "vm", SampleId(pid=pid, tid=pid, time=1, cpu=0, identifier=1)))
        systems = (("kvm", tuple(_format(name) for name in TRACEPOINTS)),)
        page = b"\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n"
        self._built.feature(Feature.TRACING_DATA, TracingData("0.6", "<", 8, 4096, page, b"", systems=systems, cmdlines=b"").encode())
        names = enumerate(zip(attrs, TRACEPOINTS, strict=True), 1)
        self._built.feature(Feature.EVENT_DESC, tuple(EventDesc(attr, name, (number,)) for number, (attr, name) in names))
        self._built.feature(Feature.CPUID, cpuid).feature(Feature.ARCH, "x86_64")

    def event(self, name: str, time: int, *values: int, pid: int = 100, tid: int = 100) -> ExitRecording:
        """Add an event: entry(vcpu), exit(reason, vcpu), mmio(type, address, value), pio(rw, port, value)."""
        bodies: dict[str, Callable[..., bytes]] = {
            ENTRY: lambda vcpu=0: struct.pack("<IxxxxQ", vcpu, 0x1000),
            EXIT: lambda reason, vcpu=0: struct.pack("<IxxxxQIxxxxQQIII", reason, 0x1000, self._isa, 0, 0, 0, 0, vcpu),
            MMIO: lambda kind, address, value=0: struct.pack("<IIQQ", kind, 4, address, value),
            PIO: lambda rw, port, value=0: struct.pack("<IIIII", rw, port, 1, 1, value),
        }
        raw = struct.pack("<HBBi", TRACEPOINTS[name][0], 1, 2, tid) + bodies[name](*values)
        self._built.sample(self._ids[name], misc=1, ip=0xFFFFFFFF81000000, pid=pid, tid=tid, time=time, cpu=0, period=1, raw=raw)
        return self

    def file(self) -> bytes:
        """The bytes of the file."""
        return self._built.file()


def _format(name: str) -> bytes:
    number, fields = TRACEPOINTS[name]
    lines = "".join(f"\tfield:{field};\n" for field in _COMMON) + "\n" + "".join(f"\tfield:{field};\n" for field in fields)
    return f'name: {name.partition(":")[2]}\nID: {number}\nformat:\n{lines}\nprint fmt: ""\n'.encode()


def random_exits(seed: int, count: int, cpuid: str = INTEL) -> bytes:
    """A file of exits by two machines with two CPUs each, some of them without an entry or an exit."""
    draw = random.Random(seed)
    built = ExitRecording(cpuid)
    reasons = (0, 1, 7, 10, 12, 28, 30, 31, 32, 48, 52) if cpuid == INTEL else (0x40, 0x60, 0x72, 0x78, 0x7B, 0x7C, 0x81, 0x400, 0x401)
    time = 1_000_000
    for _ in range(count):
        pid = draw.choice((100, 200))
        vcpu = draw.randrange(2)
        tid = pid + vcpu
        reason = draw.choice(reasons)
        if draw.random() < 0.95:
            time += draw.randrange(500, 50_000)
            built.event(EXIT, time, reason, vcpu, pid=pid, tid=tid)
        for _ in range(draw.choice((0, 0, 0, 1, 2))):
            time += draw.randrange(100, 9_000)
            if draw.random() < 0.5:
                rw = draw.randrange(2)
                built.event(PIO, time, rw, draw.choice((0x60, 0x3F8)), 7, pid=pid, tid=tid)
            else:
                built.event(MMIO, time, draw.choice((0, 1, 2)), 0xFEE00000 + 16 * draw.randrange(3), draw.randrange(4), pid=pid, tid=tid)
        if draw.random() < 0.95:
            time += draw.randrange(300, 90_000)
            built.event(ENTRY, time, vcpu, pid=pid, tid=tid)
    return built.file()
