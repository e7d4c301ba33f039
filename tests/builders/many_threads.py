"""A recording of switches between many threads, each of which another one wakes.

Input: the number of threads, and changes to the times. Output: bytes of a file with sched:sched_switch and sched:sched_waking.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from perfpy.abi.flags import ReadFormat, SampleType
from perfpy.abi.records import Comm, Exit, Fork, Lost, SampleId
from perfpy.perfdata.event_format import TracingData
from perfpy.perfdata.header import CpuCount, EventDesc, Feature
from tests.builders.perfdata import USUAL, PerfDataBuilder, usual_attr
from tests.builders.traced import TRACEPOINTS, format_text

if TYPE_CHECKING:
    from collections.abc import Callable

_SWITCH, _WAKING = "sched:sched_switch", "sched:sched_waking"
_FIRST = 100  # number of the first thread
_POINTS = {
    _SWITCH: TRACEPOINTS[_SWITCH],
    _WAKING: (
        305,
        (
            "char comm[16];\toffset:8;\tsize:16;\tsigned:0", "pid_t pid;\toffset:24;\tsize:4;\tsigned:1",
            "int prio;\toffset:28;\tsize:4;\tsigned:1", "int target_cpu;\toffset:32;\tsize:4;\tsigned:1",
        ),
        '"pid=%d", REC->pid',
    ),
}  # fmt: skip


def recording_of_switches(
    threads: int,
    turns: int,
    *,
    time_of: Callable[[int], int] = lambda turn: 10**10 + turn * 1000,
    with_wakeups: bool = True,
    one_process: bool = False,
    named: bool = False,
    commands: tuple[str, ...] = (),
    lost: int = 0,
    turns_each_round: int = 0,
    cpus: int = 1,
    first: int = _FIRST,
    priorities: int = 1,
    renames: bool = False,
) -> bytes:
    """Return the file: in each turn a thread leaves the CPU to sleep, and wakes the next one.

    Args:
        threads: their number.
        turns: the number of switches.
        time_of: the time of a turn, nanoseconds.
        with_wakeups: whether sched_waking was recorded.
        one_process: whether all threads are of one process.
        named: whether COMM records name the threads, and the header has the number of CPUs.
        commands: names of the first threads in the switches; the header has a command line with the last one.
        lost: the number of events that the kernel lost.
        turns_each_round: after how many turns the recorder ends a round; 0: never.
        cpus: the number of CPUs, on which turns alternate.
        first: the number of the first thread.
        priorities: the number of priorities, from 120 on, that threads have in turn.
        renames: whether threads get names, end and begin again, and events are lost all the time. Some of the records have the time of the
            switch before or after them.
    """
    names = [_SWITCH, _WAKING] if with_wakeups else [_SWITCH]
    kind = USUAL | SampleType.IDENTIFIER | SampleType.CPU | SampleType.RAW
    attrs = [
        usual_attr(kind, type=2, config=_POINTS[name][0], sample_period=1, read_format=ReadFormat.ID | ReadFormat.LOST) for name in names
    ]
    built = PerfDataBuilder(attrs=attrs, ids=[(number,) for number in range(1, len(attrs) + 1)])
    for thread in range(first, first + threads) if named else ():
        pid = first if one_process else thread
        built.record(Comm(0, pid, thread, f"task-{thread}", SampleId(pid=pid, tid=thread, time=1, cpu=0, identifier=1)))
    if named:
        built.feature(Feature.NRCPUS, CpuCount(2, 2))
    if commands:
        built.feature(Feature.CMDLINE, ("perf", "record", "--", f"./{commands[-1]}"))
    if lost:
        built.record(Lost(0, 1, lost, SampleId(pid=first, tid=first, time=1, cpu=0, identifier=1)))
    names_of = dict(enumerate((name.encode() for name in commands), first))
    for turn in range(turns):
        prev, following = first + turn % threads, first + (turn + 1) % threads
        values = {"pid": first if one_process else prev, "tid": prev, "cpu": turn % cpus, "period": 1, "ip": 0, "misc": 1}
        if with_wakeups:
            raw = struct.pack("<HBBi16siii", _POINTS[_WAKING][0], 0, 0, prev, b"t", following, 120, 0)
            built.sample(1, **values, time=time_of(turn), raw=raw)
        body = struct.pack(
            "<16siiq16sii", names_of.get(prev, b"t"), prev, 120 + turn % priorities, 1, b"t", following, 120 + 3 * turn % priorities
        )
        built.sample(0, **values, time=time_of(turn) + 1, raw=struct.pack("<HBBi", _POINTS[_SWITCH][0], 0, 0, prev) + body)
        if renames:
            _add_task_records(built, turn, prev, first, time_of(turn) + 1)
        if turns_each_round and not (turn + 1) % turns_each_round:
            built.round()
    page = b"\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n"
    systems = (("sched", tuple(format_text(name, _POINTS[name]) for name in names)),)
    built.feature(Feature.TRACING_DATA, TracingData("0.6", "<", 8, 4096, page, b"", systems=systems, cmdlines=b"").encode())
    descriptions = [EventDesc(attr, name, (number,)) for number, (attr, name) in enumerate(zip(attrs, names, strict=True), 1)]
    built.feature(Feature.EVENT_DESC, tuple(descriptions))
    return built.file()


def _add_task_records(built: PerfDataBuilder, turn: int, thread: int, parent: int, time: int) -> None:
    """Add records of a turn's thread to some turns, every second time at the next turn's time."""
    trailer = SampleId(pid=thread, tid=thread, time=time + 1000 * (turn % 2), cpu=0, identifier=1)
    if turn % 5 == 0:
        built.record(Comm(0, thread, thread, f"name-{turn % 35}", trailer))
    if turn % 7 == 0:
        built.record(Exit(0, thread, parent, thread, parent, time, trailer))
    if turn % 11 == 0:
        built.record(Fork(0, thread, parent, thread, parent, time, trailer))
    if turn % 13 == 0:
        built.record(Lost(0, 1, turn + 1, trailer))
