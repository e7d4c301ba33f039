"""Seeds: small whole inputs of every kind, as folders of files.

Input: nothing; the builders and the recordings among the tests.
Output: kind -> name -> files. The recordings name their files through
/proc/self/cwd, so that they are found wherever a run's folder is.
"""

from __future__ import annotations

import functools
import lzma
import struct
from pathlib import Path

from perfpy.abi import perf_records as u
from perfpy.abi import records as r
from perfpy.abi.attr import EventAttr
from perfpy.abi.flags import BranchSample, SampleType
from perfpy.abi.framing import MISC_BUILD_ID_SIZE, HeaderBuildId
from perfpy.abi.records import SampleId
from perfpy.perfdata.event_format import TracingData
from perfpy.perfdata.header import EventDesc, Feature
from tests.builders.damage import recordings
from tests.builders.kernel_events import recording_of_allocations, recording_of_locks, recording_of_work
from tests.builders.many_threads import recording_of_switches
from tests.builders.perfdata import USUAL, PerfDataBuilder, simple_recording, usual_attr
from tests.builders.schedstats import recording_of_stats
from tests.builders.traced import traced_recording
from tests.fuzz.data_seeds import aux_recordings, table_folders
from tests.fuzz.memory_images import image
from tests.fuzz.seed_files import BUILD_ID, EVENTS, KALLSYMS, PERF_MAP, PERFCONFIG, debug_file, elf_files, jitdump

HERE = "/proc/self/cwd/"
MACHINES = Path(__file__).parents[1] / "unit" / "unwind" / "machines"
GOLDEN = Path(__file__).parents[1] / "golden" / "script"
KERNEL = 0xFFFFFFFF81000000
USER_CONTEXT, KERNEL_CONTEXT = (1 << 64) - 512, (1 << 64) - 128

Files = dict[str, bytes]


@functools.cache
def seeds() -> dict[str, dict[str, Files]]:
    """All of them, by kind. Kinds: sampled, folder, stat, jit, elf, stacks, events, aux, tables, calls, threads, work,
    allocations, locks, python."""
    sampled = {name: {"perf.data": data} for name, data in recordings().items()}
    sampled |= {f"golden {path.stem}": {"perf.data": path.read_bytes()} for path in sorted(GOLDEN.glob("*.data"))}
    built = {
        "branches": branches(),
        "memory": memory(),
        "switches": switches(),
        "kernel": kernel(),
        "tracepoints": tracepoints("<"),
        "tracepoints >": tracepoints(">"),
    }
    sampled |= {name: {"perf.data": recording.file()} for name, recording in built.items()}
    sampled["perf map"] = {"perf.data": mapped("//anon").file(), "perf-7.map": PERF_MAP}
    return {
        "sampled": sampled,
        "elf": _with_elf_files(),
        "folder": {"folder": _folder()},
        "jit": _with_jitdumps(),
        "stacks": _with_stacks(),
        "stat": {"stat": {"perf.data": stat().file()}, "stat pipe": {"perf.data": stat().pipe()}},
        "events": {"events": {"events/core.json": EVENTS}},
        "aux": {name: {"aux.data": data} for name, data in aux_recordings().items()},
        "tables": table_folders(),
        "calls": {"calls": {"perf.data": traced_recording()}, "odd comms": {"perf.data": traced_recording(20, odd_name=b"\x1b]0;\n\xff")}},
        "threads": {
            "threads": {"perf.data": recording_of_switches(5, 60)},
            "one process": {"perf.data": recording_of_switches(9, 60, one_process=True, with_wakeups=False)},
            "calls": {"perf.data": traced_recording(20)},
        },
        "work": {"work": {"perf.data": recording_of_work()}},
        "allocations": {"allocations": {"perf.data": recording_of_allocations()}},
        "locks": {"locks": {"perf.data": recording_of_locks()}},
        "statistics": {f"version {version}": {"perf.data": recording_of_stats(version)} for version in (15, 17)},
        "python": {f"python 3.{minor}": {"python.image": image((3, minor))} for minor in range(8, 15)},
    }


def _with_elf_files() -> dict[str, Files]:
    recording, debug = mapped(HERE + "app.elf").file(), debug_file()
    return {name: {"perf.data": recording, "app.elf": data, "app.debug": debug} for name, data in elf_files().items()}


def _with_jitdumps() -> dict[str, Files]:
    recording = mapped(HERE + "jit-7.dump", use_clockid=1, clockid=1).feature(Feature.CLOCKID, 1).file()
    return {f"jitdump {endian}": {"perf.data": recording, "jit-7.dump": jitdump(endian)} for endian in "<>"}


def _with_stacks() -> dict[str, Files]:
    """Copies of stacks; the programs are where --symfs . finds them."""
    names = [path.name.removesuffix(".data.xz") for path in MACHINES.glob("*.data.xz")]
    recorded = {name: lzma.decompress((MACHINES / f"{name}.data.xz").read_bytes()) for name in sorted(names)}
    source = {"tmp/c/program.c": (MACHINES / "program.c").read_bytes()}
    return {name: {"perf.data": data, f"tmp/c/{name}": (MACHINES / name).read_bytes()} | source for name, data in recorded.items()}


def _folder() -> Files:
    """What `record --threads` writes."""
    whole = simple_recording(20)
    return {"perf.data/data": whole.file(), "perf.data/data.0": bytes(whole.body), "perf.data/data.1": bytes(whole.body)}


def common_files() -> Files:
    """What lies beside every recording, and is damaged now and then."""
    return {"kallsyms": KALLSYMS, "perfconfig": PERFCONFIG}


def mapped(name: str, **attr: int) -> PerfDataBuilder:
    """Samples with callchains in a mapped file, which has a build-id."""
    built = PerfDataBuilder(attrs=[usual_attr(USUAL | SampleType.CALLCHAIN, **attr)])
    ids = SampleId(pid=7, tid=7, time=100)
    built.record(r.Comm(0, 7, 7, "busy", ids))
    built.record(r.Mmap2(2, 7, 7, 0x1000, 0x2000, 0x1000 if "elf" in name else 0, 8, 1, 99, 0, 5, 2, name, b"", ids))
    for number in range(24):
        ip = 0x1000 + 0x38 * number
        chain = [USER_CONTEXT, ip, 0x1400 + number, 0x1410, 0x1420]
        built.sample(misc=2, ip=ip, pid=7, tid=7, time=200 + 10 * number, period=1000, callchain=chain)
    built.feature(Feature.BUILD_ID, (HeaderBuildId(2 | MISC_BUILD_ID_SIZE, -1, bytes.fromhex(BUILD_ID), name),))
    built.feature(Feature.CMDLINE, ("perf", "record", "-k", "mono", "app")).feature(Feature.HOSTNAME, "vm")
    return built.feature(Feature.ARCH, "x86_64")


def branches() -> PerfDataBuilder:
    attr = usual_attr(USUAL | SampleType.BRANCH_STACK, branch_sample_type=BranchSample.USER | BranchSample.ANY | BranchSample.TYPE_SAVE)
    built = simple_recording(2, attrs=[attr])
    for number in range(12):
        stack = [(0x1000 + 4 * at, 0x1100 + number, at | 1 << at) for at in range(number)]
        built.sample(misc=2, ip=0x1000, pid=7, tid=7, time=500 + number, period=1, branch_stack=stack)
    return built.feature(Feature.BRANCH_STACK, True)


def memory() -> PerfDataBuilder:
    kind = USUAL | SampleType.ADDR | SampleType.DATA_SRC | SampleType.WEIGHT_STRUCT | SampleType.PHYS_ADDR | SampleType.DATA_PAGE_SIZE
    kind |= SampleType.CODE_PAGE_SIZE | SampleType.TRANSACTION | SampleType.CPU | SampleType.CGROUP | SampleType.REGS_INTR
    built = simple_recording(2, attrs=[usual_attr(kind, sample_regs_intr=7)])
    for number in range(16):
        built.sample(
            misc=2, ip=0x1000 + number, pid=7, tid=7, time=500 + number, period=1, addr=0x1000 + 64 * number, cpu=number % 3, cgroup=5,
            data_src=0x68100142 << number, weight=number * 3, ins_lat=5, retire_lat=6, phys_addr=1 << 40, data_page_size=4096,
            code_page_size=1 << 21, transaction=1 << number, intr_regs=[1, 2, 3],
        )  # fmt: skip
    return built.record(r.Cgroup(0, 5, "/system.slice", SampleId(pid=7, tid=7, time=100, cpu=0)))


def switches() -> PerfDataBuilder:
    kind = USUAL | SampleType.CPU
    built = simple_recording(4, attrs=[usual_attr(kind, context_switch=1)])
    for number in range(20):
        ids = SampleId(pid=7, tid=7 + number % 3, time=300 + 7 * number, cpu=number % 2)
        built.record(r.SwitchCpuWide((number % 2) << 13, 7, 7 + number % 3, ids))
        built.record(r.Switch((number % 2) << 13, ids))
        built.sample(misc=2, ip=0x1000 + number, pid=7, tid=7 + number % 3, time=303 + 7 * number, period=10, cpu=number % 2)
    return built


def kernel() -> PerfDataBuilder:
    built = PerfDataBuilder(attrs=[usual_attr(USUAL | SampleType.CALLCHAIN, exclude_kernel=0)])
    ids = SampleId(pid=7, tid=7, time=100)
    built.record(r.Mmap(1, 0xFFFFFFFF, 0, KERNEL, 0x100000, KERNEL, "[kernel.kallsyms]_text", ids))
    built.record(r.Mmap(1, 0xFFFFFFFF, 0, 0xFFFFFFFFC0000000, 0x10000, 0, "/lib/modules/6.1.0/a_module.ko", ids))
    built.record(r.Ksymbol(0, 0xFFFFFFFFC0001000, 64, 1, 0, "bpf_prog_abc", ids))
    built.record(r.Comm(0, 7, 7, "busy", ids))
    for number in range(20):
        ip = (KERNEL + 0x80 * number, 0xFFFFFFFFC0000000 + number, 0xFFFFFFFFC0001000 + number)[number % 3]
        chain = [KERNEL_CONTEXT, ip, KERNEL + 0x1000, USER_CONTEXT, 0x1000]
        built.sample(misc=1, ip=ip, pid=7, tid=7, time=200 + number, period=1, callchain=chain)
    return built.feature(Feature.OSRELEASE, "6.1.0").feature(Feature.ARCH, "x86_64")


_COMMON = (
    b"\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
    b"\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"
    b"\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n"
    b"\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"
)
_X = b"\tfield:unsigned long x;\toffset:8;\tsize:8;\tsigned:0;\n\tfield:__data_loc char[] name;\toffset:16;\tsize:4;\tsigned:0;\n"
_X += b"\tfield:char comm[16];\toffset:20;\tsize:16;\tsigned:0;\n\tfield:u32 list[4];\toffset:36;\tsize:16;\tsigned:0;\n"
PRINT_FORMATS = (
    b'"x=%lu name=%s comm=%s", REC->x, __get_str(name), REC->comm',
    b'"%s %s", __print_flags(REC->x, "|", {1, "A"}, {0x2UL, "B"}), __print_symbolic(REC->x & 0xff, { 0, "zero" }, { 1, "one" })',
    b'"%d %u %llx", REC->x ? 1 : (REC->x > 5 && !REC->x) ? 2 : 3, (unsigned int)(REC->x >> 4), (u64)REC->list[1] + 2 * 3',
    b'"%03d %-8s|", ~5, "lit" "eral"',
    b'"%s %s", __print_hex(REC->list, 8), __print_array(REC->list, 4, sizeof(u32))',
    b'"%pS %ps %pI4 %pM %c %%", (void *)REC->x, (void *)REC->x, REC->list, REC->comm, REC->comm[0]',
    b'"%.*s %*d %s", 4, REC->comm, 10, REC->x, __get_bitmask(name)',
)


def tracepoints(endian: str) -> PerfDataBuilder:
    """A tracepoint for each kind of print format, and samples with their raw data."""
    formats = tuple(
        b"name: one_%d\nID: %d\nformat:\n" % (number, 300 + number) + _COMMON + _X + b"\nprint fmt: " + text + b"\n"
        for number, text in enumerate(PRINT_FORMATS)
    )
    kind = USUAL | SampleType.RAW | SampleType.CPU | SampleType.IDENTIFIER
    attrs = [EventAttr(type=2, config=300 + number, sample_type=kind, sample_period=1, sample_id_all=1) for number in range(len(formats))]
    built = PerfDataBuilder(attrs=attrs, ids=[(number + 1,) for number in range(len(attrs))], endian=endian)
    built.record(r.Comm(0, 7, 7, "busy", SampleId(pid=7, tid=7, time=100)))
    for number in range(3 * len(formats)):
        event = number % len(formats)
        at = 52 | 6 << 16
        values = (7, 0xFFFFFFFF81000100 + number, at, b"bash", 1, 2, 3, 4, b"hello")
        raw = struct.pack(endian + "HBBiQI16s4I6s2x", 300 + event, 0, 0, *values)
        built.sample(event, ip=0x1000, pid=7, tid=7, time=200 + number, period=1, raw=raw, cpu=1)
    described = (EventDesc(attr, f"sched:one_{number}", (number + 1,)) for number, attr in enumerate(attrs))
    built.feature(Feature.EVENT_DESC, tuple(described))
    page = b"\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n"
    section = TracingData("0.6", endian, 8, 4096, page, b"header event", (b"name: function\nID: 1\n",), (("sched", formats),), b"",
                          b'0xffffffff81000000 : "rcu %s\\n"\n', b"7 busy\n")  # fmt: skip
    return built.feature(Feature.TRACING_DATA, section.encode())


def stat() -> PerfDataBuilder:
    """What `stat record -I` writes."""
    clock, instructions = (EventAttr(type=kind, config=1 - kind, sample_type=SampleType.IDENTIFIER, read_format=3) for kind in (1, 0))
    built = PerfDataBuilder(attrs=[clock, instructions], ids=[(1, 2), (3, 4)])
    built.record(u.ThreadMap(0, (((1 << 64) - 1, ""),))).record(u.CpuMap(0, (0, 1))).record(u.StatConfig(0, ((0, 1), (1, 1000), (2, 1))))
    built.record(u.EventUpdate(0, u.EVENT_UPDATE_UNIT, 1, "msec")).record(u.EventUpdate(0, u.EVENT_UPDATE_SCALE, 1, 1e-6))
    for turn in range(3):
        for identity in range(1, 5):
            built.record(u.Stat(0, identity, (identity - 1) % 2, 0, 1000 * identity + turn, 1000, 900))
        built.record(u.StatRound(0, turn == 2, 10**9 * (turn + 1)))
    built.feature(Feature.STAT, True).feature(Feature.CMDLINE, ("perf", "stat", "record", "-I", "1000"))
    built.feature(Feature.EVENT_DESC, (EventDesc(clock, "cpu-clock", (1, 2)), EventDesc(instructions, "instructions", (3, 4))))
    return built
