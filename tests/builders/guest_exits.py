"""Recordings of virtual machines: exits to the host, entries, and accesses to ports and device memory, drawn by a seed; samples of guests.

Input: a seed, a number of exits, and the cpuid of the host. Output: the bytes of a file as `perf kvm stat record` writes
it. Layouts: the formats of the kernel's tracepoints kvm:*.
"""

from __future__ import annotations

import random
import struct
from typing import TYPE_CHECKING, Final

from perfpy.abi.flags import MISC_GUEST_KERNEL, MISC_GUEST_USER, MISC_KERNEL, MISC_USER, SampleType
from perfpy.abi.records import Comm, Mmap, Mmap2, SampleId
from perfpy.perfdata.event_format import TracingData
from perfpy.perfdata.header import CpuCount, EventDesc, Feature
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


#: /proc/kallsyms and /proc/modules of the guests of guest_samples()
KALLSYMS: Final = "".join(
    f"{0xFFFFFFFF9D000000 + 0x1000 * number:x} T {name}\n"
    for number, name in enumerate(("_text", "guest_idle", "guest_sched", "guest_irq", "guest_page", "guest_net", "_etext"))
) + "".join(
    f"{0xFFFFFFFFC0000000 + 0x1000 * number:x} t net_{name}\t[virtio_net]\n" for number, name in enumerate(("poll", "xmit", "free"))
)
MODULES: Final = "virtio_net 16384 0 - Live 0xffffffffc0000000\n"


def guest_samples(seed: int, count: int, *, by_pid: bool = False) -> bytes:
    """Return a recording of two hypervisors, whose samples are of the host and of its guests, in the kernel and in user space.

    by_pid: whether the records of the guests' kernels name the hypervisor.
    """
    draw = random.Random(seed)
    attr = usual_attr(USUAL | SampleType.CPU, exclude_kernel=0, exclude_hv=0)
    built = PerfDataBuilder([attr])
    built.feature(Feature.HOSTNAME, "host").feature(Feature.ARCH, "x86_64").feature(Feature.NRCPUS, CpuCount(4, 4))
    built.feature(Feature.EVENT_DESC, [EventDesc(attr, "cycles", ())])
    start = SampleId(pid=0, tid=0, time=10, cpu=0)
    host_kernel, guest_kernel = 0xFFFFFFFF81000000, 0xFFFFFFFF9D000000
    built.record(Mmap(MISC_KERNEL, 0xFFFFFFFF, 0, host_kernel, 0x1000000, host_kernel, "[kernel.kallsyms]_text", start))
    for pid in (100, 200) if by_pid else (0,):
        name = f"[guest.kernel.kallsyms{f'.{pid}' if pid else ''}]_text"
        built.record(Mmap(MISC_GUEST_KERNEL, pid, 0, 0xFFFFFFFFC0000000, 0x4000, 0, "[virtio_net]", start))
        built.record(Mmap(MISC_GUEST_KERNEL, pid, 0, guest_kernel, 0x1000000, guest_kernel, name, start))
    for pid, comm in ((100, "qemu-system-x86"), (200, "qemu-kvm")):
        ids = SampleId(pid=pid, tid=pid, time=20, cpu=0)
        built.record(Comm(0, pid, pid, comm, ids))
        built.record(Mmap2(MISC_USER, pid, pid, 0x400000, 0x100000, 0, 8, 1, 99, 0, 5, 2, "/opt/none/qemu", b"", ids))
        for number in (1, 2):
            built.record(Comm(0, pid, pid + number, f"CPU {number - 1}/KVM", ids))
    time = 1000
    for _ in range(count):
        pid, time = draw.choice((100, 200)), time + draw.randrange(1, 50)
        mode = draw.choice((MISC_GUEST_KERNEL,) * 3 + (MISC_GUEST_USER, MISC_KERNEL, MISC_USER))
        in_kernel = guest_kernel + 0x1000 * draw.randrange(6) + draw.randrange(64)
        address = {
            MISC_GUEST_KERNEL: draw.choice((in_kernel, 0xFFFFFFFFC0000000 + draw.randrange(0x3000))),
            MISC_KERNEL: host_kernel + 16 * draw.randrange(64),
        }.get(mode, 0x401000 + draw.randrange(64))
        values = {"pid": pid, "tid": pid + draw.randrange(3), "time": time, "cpu": draw.randrange(4), "period": draw.randrange(1000, 3000)}
        built.sample(misc=mode, ip=address, **values)
    return built.file()
