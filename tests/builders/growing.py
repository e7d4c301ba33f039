"""Recordings of which one thing grows: what a command costs must grow with it, not with its square.

Input: a number. Output: the files of a folder, perf.data among them. Records are packed by hand, because a hundred
thousand of them are written.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from perfpy.abi.flags import SampleType
from tests.builders.dies import Dies, code, function, inlined, unit
from tests.builders.elf import Elf
from tests.builders.growing_events import allocations, cache_lines, locks, switches, system_calls, threads, works
from tests.builders.perfdata import USUAL, PerfDataBuilder, usual_attr

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Files = dict[str, bytes]

PAGE = 0x1000
PROGRAM = "/opt/growing"
_START = 0x400000
_MMAP2, _COMM, _FORK, _SAMPLE = 10, 3, 7, 9
_USER = 2
_USER_CONTEXT = (1 << 64) - 512
_FIELDS = USUAL | SampleType.CPU | SampleType.CALLCHAIN | SampleType.IDENTIFIER


class _Records:
    """The records of a recording, each a nanosecond after the one before; process 1 has mapped the program."""

    def __init__(self, events: int = 1) -> None:
        attr = usual_attr(_FIELDS, mmap=1, mmap2=1, comm=1, task=1)
        self._built = PerfDataBuilder([attr.copy(config=number) for number in range(events)], [(number + 1,) for number in range(events)])
        self._time = 1000
        self.comm(1, "growing")
        self.mapping(1, _START, 0x1000_0000, PROGRAM)

    def _record(self, kind: int, misc: int, body: bytes) -> None:
        self._built.raw(struct.pack("<IHH", kind, misc, 8 + len(body)) + body)

    def _trailer(self, pid: int) -> bytes:
        self._time += 1
        return struct.pack("<IIQIIQ", pid, pid, self._time, 0, 0, 1)

    def comm(self, pid: int, name: str) -> None:
        self._record(_COMM, 0, struct.pack("<II", pid, pid) + _text(name) + self._trailer(pid))

    def mapping(self, pid: int, start: int, size: int, name: str) -> None:
        body = struct.pack("<IIQQQIIQQII", pid, pid, start, size, 0, 8, 1, 77, 0, 5, 2)
        self._record(_MMAP2, _USER, body + _text(name) + self._trailer(pid))

    def fork(self, pid: int, parent: int) -> None:
        self._record(_FORK, 0, struct.pack("<IIIIQ", pid, parent, pid, parent, self._time + 1) + self._trailer(pid))

    def sample(self, pid: int, ip: int, callers: Iterable[int] = (), *, cpu: int = 0, event: int = 0) -> None:
        self._time += 1
        chain = (_USER_CONTEXT, ip, *callers)
        head = struct.pack("<QQIIQIIQQ", event + 1, ip, pid, pid, self._time, cpu, 0, 1, len(chain))
        self._record(_SAMPLE, _USER, head + struct.pack(f"<{len(chain)}Q", *chain))

    def files(self, program: bytes = b"") -> Files:
        return {"perf.data": self._built.file(), **({PROGRAM[1:]: program} if program else {})}


def _text(name: str) -> bytes:
    data = name.encode() + b"\0"
    return data + bytes(-len(data) % 8)


def comms(count: int) -> Files:
    """A thread that changes its name."""
    records = _Records()
    for number in range(count):
        records.comm(1, f"c{number}")
        records.sample(1, _START)
    return records.files()


def mappings(count: int) -> Files:
    """A process that maps other files one beside the other."""
    records = _Records()
    for number in range(count):
        records.mapping(1, 0x2000_0000 + number * PAGE, PAGE, f"/l/{number}.so")
        records.sample(1, 0x2000_0000 + number * PAGE)
    return records.files()


def nested_mappings(count: int) -> Files:
    """Mappings of which each lies within the one before."""
    records = _Records()
    for number in range(count):
        records.mapping(1, 0x2000_0000 + number * PAGE, 2 * (count - number) * PAGE, f"/l/{number % 10}.so")
        records.sample(1, 0x2000_0000 + count * PAGE)
    return records.files()


def forks(count: int) -> Files:
    """A chain of forks, each of which maps something."""
    records = _Records()
    for number in range(2, count + 2):
        records.fork(number, number - 1)
        records.mapping(number, 0x2000_0000 + number * PAGE, PAGE, f"/l/{number % 10}.so")
        records.sample(number, _START)
    return records.files()


def stacks(count: int) -> Files:
    """Callchains of 20 frames that all differ."""
    records = _Records()
    for number in range(count):
        records.sample(1, _START + number, [_START + (number * 31 + level * 17) % (3 * count) for level in range(20)])
    return records.files()


def symbols(count: int) -> Files:
    """Samples in different functions of one program."""
    begin = _START + PAGE
    program = Elf().segment(begin, PAGE, 16 * count).text(begin, offset=PAGE, size=16 * count)
    records = _Records()
    for number in range(count):
        program.symbol(f"function_{number}", begin + 16 * number, 16)
        records.sample(1, begin + 16 * number + 4)
    return records.files(program.build())


def inline_depth(count: int) -> Files:
    """A function into which others are inlined, each into the one before."""
    begin, size = 0x1000, 0x1000
    origins = [function(f"inlined_{number}") for number in range(count)]
    call = inlined(origins[-1], (begin, begin + size))
    for origin in reversed(origins[:-1]):
        call = inlined(origin, (begin, begin + size), call)
    tree = unit(*origins, function("growing", (begin, begin + size), call), low_pc=None)
    program = Dies(code(tree, (begin, begin + size)), version=4).elf(begin, size).symbol("growing", begin, size)
    records = _Records()
    for number in range(50):
        records.sample(1, _START + begin + number)
    return records.files(program.build())


def names(count: int) -> Files:
    """Files and threads whose names become longer."""
    records = _Records()
    for number in range(1000):
        records.mapping(1, 0x2000_0000 + number * PAGE, PAGE, f"/{'n' * count}{number}")
        records.sample(1, 0x2000_0000 + number * PAGE)
    return records.files()


def events(count: int) -> Files:
    """Events with a sample each."""
    records = _Records(count)
    for number in range(count):
        records.sample(1, _START + number, event=number)
    return records.files()


def cpus(count: int) -> Files:
    """Samples on different CPUs."""
    records = _Records()
    for number in range(count):
        records.sample(1, _START, cpu=number)
    return records.files()


_REPORT = ("report", "--stdio")
#: name -> builder, the smaller of two numbers, and the command; {folder}: the one of the recording
GROWING: dict[str, tuple[Callable[[int], Files], int, tuple[str, ...]]] = {
    "comms": (comms, 20_000, _REPORT),
    "mappings": (mappings, 20_000, _REPORT),
    "nested mappings": (nested_mappings, 20_000, _REPORT),
    "forks": (forks, 20_000, _REPORT),
    "stacks": (stacks, 10_000, (*_REPORT, "-g")),
    "symbols": (symbols, 20_000, _REPORT),
    "inline depth": (inline_depth, 150, (*_REPORT, "-g", "--inline")),
    "length of names": (names, 900, _REPORT),
    "events": (events, 250, _REPORT),
    "CPUs": (cpus, 10_000, (*_REPORT, "-s", "cpu")),
    "page: comms": (comms, 5000, ("report", "--html", "/dev/null")),
    "page: mappings": (mappings, 5000, ("report", "--html", "/dev/null")),
    "page: stacks": (stacks, 4000, ("report", "--html", "/dev/null")),
    "page: symbols": (symbols, 10_000, ("report", "--html", "/dev/null")),
    "page: threads": (threads, 3000, ("report", "--html", "/dev/null")),
    "page: locks": (locks, 5000, ("report", "--html", "/dev/null")),
    "verdict": (threads, 3000, ("report", "--verdict")),
    "diff: symbols": (symbols, 10_000, ("diff",)),
    "sched latency": (threads, 5000, ("sched", "latency")),
    "sched timehist": (threads, 5000, ("sched", "timehist")),
    "sched map": (threads, 2000, ("sched", "map")),
    "run queue": (switches, 10_000, ("latency", "--of", "runqueue")),
    "why: threads": (threads, 3000, ("why",)),
    "why: switches": (switches, 10_000, ("why",)),
    "timechart": (threads, 3000, ("timechart", "-o", "/dev/null")),
    "trace: calls": (system_calls, 5000, ("trace",)),
    "trace -s": (system_calls, 5000, ("trace", "-s")),
    "lock contention": (locks, 10_000, ("lock", "contention", "-l")),
    "kwork report": (works, 10_000, ("kwork", "report")),
    "kwork timehist": (works, 10_000, ("kwork", "timehist")),
    "kmem": (allocations, 5000, ("kmem", "--slab", "--page", "--caller", "--alloc", "stat")),
    "c2c": (cache_lines, 5000, ("c2c", "report", "--stdio")),
    "mem": (cache_lines, 5000, ("mem", "report")),
    "export": (stacks, 4000, ("export", "--parquet", "{folder}/tables")),
    "script": (stacks, 4000, ("script",)),
}


def command_line(name: str, folder: str) -> list[str]:
    """Return the words of a command on the files of a folder; diff compares the recording with itself."""
    words = [word.format(folder=folder) for word in GROWING[name][2]]
    recording = f"{folder}/perf.data"
    if words[0] == "diff":
        return [*words, "--symfs", folder, recording, recording]
    return [*words, "-i", recording, *(["--symfs", folder] if words[0] in ("report", "script") else [])]
