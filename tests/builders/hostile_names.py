"""A recording whose every name wants to be obeyed by the terminal that shows it, or to forge a line.

Output: the recording, the ELF file that it names,
and the name that both are full of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.abi import records
from perfpy.abi.flags import SampleType
from perfpy.abi.framing import MISC_BUILD_ID_SIZE, HeaderBuildId
from perfpy.abi.records import SampleId
from perfpy.perfdata.event_format import TracingData
from perfpy.perfdata.header import EventDesc, Feature, PmuMapping
from tests.builders.elf import Elf
from tests.builders.perfdata import USUAL, PerfDataBuilder, usual_attr

if TYPE_CHECKING:
    from perfpy.abi.attr import EventAttr

#: a title, a cleared screen, a device control string, C1 as UTF-8 and as a byte, an override, nothing wide, hidden text, a lost line
COMMANDS = "\x1b]0;owned\x07\x1b[2J\x1bP1\x1b\\\u009b31m\udc9b5n\u202e\u2066\u200b\ufeff\x1b[8m\x08\x7f\r"
FORGED = "99.99% forged line"
_TRACEPOINT = 77
_FORMAT = (
    b"name: said\nID: 77\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n"
    b'\tfield:char text[96];\toffset:8;\tsize:96;\tsigned:0;\n\nprint fmt: "text=%s", REC->text\n'
)


def hostile(name: str) -> str:
    """A name with everything in it."""
    return f"{name}{COMMANDS}\n{FORGED}"


def hostile_recording() -> PerfDataBuilder:
    """Two events (the clock and a tracepoint), one process, a file with a symbol, a cgroup, and features."""
    clock = usual_attr(USUAL | SampleType.IDENTIFIER | SampleType.CALLCHAIN)
    traced = usual_attr(USUAL | SampleType.IDENTIFIER | SampleType.RAW | SampleType.CALLCHAIN, type=2, config=_TRACEPOINT)
    built = PerfDataBuilder(attrs=[clock, traced], ids=[(1,), (2,)])
    who = SampleId(pid=7, tid=7, time=100, identifier=1)
    built.record(records.Comm(0, 7, 7, hostile("comm"), who))
    built.record(records.Mmap2(2, 7, 7, 0x1000, 0x1000, 0x1000, 8, 1, 99, 0, 5, 2, hostile("/file"), b"", who))
    built.record(records.Cgroup(0, 5, hostile("/cgroup"), who))
    built.record(records.Ksymbol(0, (1 << 64) - 0x1000, 64, 1, 0, hostile("bpf_prog"), who))
    raw = _TRACEPOINT.to_bytes(2, "little").ljust(8, b"\0") + _bytes(hostile("raw")).ljust(96, b"\0")
    for number in range(6):
        at = 0x1010 + number % 2 * 0x20
        sample = {"ip": at, "pid": 7, "tid": 7, "time": 200 + number, "period": 1000, "misc": 2, "callchain": [at, 0x1050]}
        built.sample(number % 2, **sample, **({"raw": raw} if number % 2 else {}))
    return _described(built, clock, traced)


def _described(built: PerfDataBuilder, *attrs: EventAttr) -> PerfDataBuilder:
    for feature in (Feature.HOSTNAME, Feature.OSRELEASE, Feature.VERSION, Feature.CPUDESC, Feature.CPUID):
        built.feature(feature, hostile("feature"))
    built.feature(Feature.CMDLINE, ("perf", "record", hostile("argument")))
    built.feature(Feature.EVENT_DESC, tuple(EventDesc(attr, hostile(f"event{n}"), (n,)) for n, attr in enumerate(attrs, 1)))
    built.feature(Feature.PMU_MAPPINGS, (PmuMapping(1, hostile("pmu")),))
    built.feature(Feature.BUILD_ID, (HeaderBuildId(2 | MISC_BUILD_ID_SIZE, -1, bytes(range(20)), hostile("/file")),))
    page = b"\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n"
    built.feature(Feature.TRACING_DATA, TracingData("0.6", "<", 8, 4096, page, b"", systems=(("own", (_FORMAT,)),), cmdlines=b"").encode())
    return built


def hostile_program() -> bytes:
    """The ELF file at the mapping."""
    elf = Elf().text(0x1000, size=0x1000).segment(0x1000, 0x1000, 0x1000)
    elf.symbol(hostile("hot"), 0x1000, 0x20).symbol(hostile("warm"), 0x1020, 0x20).symbol(hostile("main"), 0x1040, 0x20)
    return elf.build_id(bytes(range(20)).hex()).build()


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
