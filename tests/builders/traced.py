"""A recording of tracepoints and of call chains, for scripts that read such things.

Output: bytes of a file: system calls, switches between two tasks, dropped packets (with more fields than
scripts of old know) and samples of the clock with callers, in turns.
"""

from __future__ import annotations

import struct

from perfpy.abi.flags import ReadFormat, SampleType, SoftwareId
from perfpy.abi.records import Comm, Mmap2, SampleId, Switch
from perfpy.perfdata.event_format import TracingData
from perfpy.perfdata.header import EventDesc, Feature
from tests.builders.perfdata import USUAL, PerfDataBuilder, usual_attr

_COMMON = (
    "unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0", "unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0",
    "unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0", "int common_pid;\toffset:4;\tsize:4;\tsigned:1",
)  # fmt: skip
_ID = "long id;\toffset:8;\tsize:8;\tsigned:1"
_STATES = '__print_flags(REC->prev_state, "|", { 1, "S" }, { 2, "D" })'
_REASONS = '__print_symbolic(REC->reason, { 2, "NOT_SPECIFIED" }, { 3, "NO_SOCKET" })'
#: name -> id, fields, print format
TRACEPOINTS = {
    "raw_syscalls:sys_enter": (301, (_ID, "unsigned long args[6];\toffset:16;\tsize:48;\tsigned:0"), '"NR %ld", REC->id'),
    "raw_syscalls:sys_exit": (302, (_ID, "long ret;\toffset:16;\tsize:8;\tsigned:1"), '"NR %ld", REC->id'),
    "sched:sched_switch": (
        303,
        (
            "char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0", "pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1",
            "int prev_prio;\toffset:28;\tsize:4;\tsigned:1", "long prev_state;\toffset:32;\tsize:8;\tsigned:1",
            "char next_comm[16];\toffset:40;\tsize:16;\tsigned:0", "pid_t next_pid;\toffset:56;\tsize:4;\tsigned:1",
            "int next_prio;\toffset:60;\tsize:4;\tsigned:1",
        ),
        f'"state=%s", {_STATES}',
    ),
    "skb:kfree_skb": (
        304,
        (
            "void * skbaddr;\toffset:8;\tsize:8;\tsigned:0", "void * location;\toffset:16;\tsize:8;\tsigned:0",
            "void * rx_sk;\toffset:24;\tsize:8;\tsigned:0", "unsigned short protocol;\toffset:32;\tsize:2;\tsigned:0",
            "int reason;\toffset:36;\tsize:4;\tsigned:1",
        ),
        f'"reason=%s", {_REASONS}',
    ),
}  # fmt: skip
_CLOCK = "cpu-clock:u"


def format_text(name: str, point: tuple[int, tuple[str, ...], str]) -> bytes:
    """Return the format of a tracepoint, as in tracefs. point: its id, fields and print format."""
    number, fields, text = point
    lines = "".join(f"\tfield:{field};\n" for field in _COMMON) + "\n" + "".join(f"\tfield:{field};\n" for field in fields)
    return f"name: {name.partition(':')[2]}\nID: {number}\nformat:\n{lines}\nprint fmt: {text}\n".encode()


def _raw(name: str, pid: int, turn: int, odd_name: bytes) -> bytes:
    head = struct.pack("<HBBi", TRACEPOINTS[name][0], 1, 2, pid)
    comms = [b"w\xc3\xb6rker", odd_name if turn > 20 else b"other"]
    bodies = {
        "raw_syscalls:sys_enter": lambda: struct.pack("<q6Q", turn % 5, *range(6)),
        "raw_syscalls:sys_exit": lambda: struct.pack("<qq", turn % 5, -2 if turn % 3 else turn),
        "sched:sched_switch": lambda: struct.pack(
            "<16siiq16sii", comms[turn % 2], 7 + turn % 2, 120, turn % 3, comms[1 - turn % 2], 8 - turn % 2, 120
        ),
        "skb:kfree_skb": lambda: struct.pack("<QQQHHi", 0xFFFF888000000000 + turn, 0xFFFFFFFF81000000 + turn % 2, 0, 2048, 0, 2 + turn % 2),
    }
    return head + bodies[name]()


def traced_recording(turns: int = 40, *, odd_name: bytes = b"other", software: int = SoftwareId.CPU_CLOCK) -> bytes:
    """Return the bytes of the file.

    odd_name: what one of the tasks is called in tracepoints from the middle on; software: the event beside the tracepoints.
    """
    kind = USUAL | SampleType.IDENTIFIER | SampleType.CPU
    reads = {"read_format": ReadFormat.ID | ReadFormat.LOST}
    attrs = [usual_attr(kind | SampleType.RAW, type=2, config=number, sample_period=1, **reads) for number, _, _ in TRACEPOINTS.values()]
    attrs.append(usual_attr(kind | SampleType.CALLCHAIN, type=1, config=software, context_switch=1, **reads))
    names = [*TRACEPOINTS, _CLOCK]
    built = PerfDataBuilder(attrs=attrs, ids=[(number,) for number in range(1, len(attrs) + 1)])
    for pid, comm in ((7, "w\u00f6rker"), (8, "other")):
        who = SampleId(pid=pid, tid=pid, time=1, cpu=0, identifier=1)
        built.record(Comm(0, pid, pid, comm, who))
        built.record(Mmap2(2, pid, pid, 0x401000, 0x2000, 0x1000, 0, 0, 0, 0, 5, 2, f"/tmp/{comm}", b"", who))
    time = 10_000_000_000
    for turn in range(turns):
        pid = 7 + turn % 2
        for number, name in enumerate(names):
            time += 12_345_678
            values = {"pid": pid, "tid": pid, "time": time, "cpu": 0, "period": 1, "ip": 0x401004 + turn % 7, "misc": 2}
            chain = [0x401004 + turn % 7, 0x401100, 0x401200 + turn % 3]
            if name == _CLOCK:
                built.sample(number, **values, callchain=chain)
            else:
                built.sample(number, **values, raw=_raw(name, pid, turn, odd_name))
        out = (turn % 2) << 13
        built.record(Switch(out, SampleId(pid=pid, tid=pid, time=time + 1, cpu=0, identifier=len(names))), len(names) - 1)
    systems: dict[str, tuple[bytes, ...]] = {}
    for name, point in TRACEPOINTS.items():
        system = name.partition(":")[0]
        systems[system] = (*systems.get(system, ()), format_text(name, point))
    page = b"\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n"
    built.feature(Feature.TRACING_DATA, TracingData("0.6", "<", 8, 4096, page, b"", systems=tuple(systems.items()), cmdlines=b"").encode())
    built.feature(
        Feature.EVENT_DESC, tuple(EventDesc(attr, name, (number,)) for number, (attr, name) in enumerate(zip(attrs, names, strict=True), 1))
    )
    return built.file()
