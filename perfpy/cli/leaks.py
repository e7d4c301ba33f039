"""`perfpy leaks -p PID`: show which lines of a Python program allocate memory that it keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.cli.line.kinds import Flag, Value
from perfpy.cli.line.options import CommandOptions, PerfCommand, fail, option
from perfpy.untrusted.text import visible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.capture.memory_growth.growth import MemoryGrowth
    from perfpy.capture.python_frames.current_stacks import CurrentFrame

_MOST_PID: Final = 1 << 31
_LONGEST: Final = 86_400.0  # seconds
_MOST_ROWS: Final = 10
_MOST_CALLERS: Final = 3
_YOUNG: Final = 10  # the last tenth of the time
_UNITS: Final = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
_OUTSIDE: Final = "[threads without Python functions]"


class LeaksCommandOptions(CommandOptions):
    """Options of `perfpy leaks`."""

    pid: str = option("-p,--pid", Value(default=""), "watch this process", metavar="<pid>")
    duration: float = option("-d,--duration", Value(float, default=10.0), "seconds to watch (default: 10)", metavar="<seconds>")
    small_objects: bool = option("--small-objects", Flag(), "include objects of up to 512 bytes; slows the program down")
    json: bool = option("--json", Flag(), "print one JSON object")


class _KeepingLine(NamedTuple):
    """The kept memory of one line. callers: of the stack that keeps most, innermost first."""

    frame: CurrentFrame | None
    bytes: int
    objects: int
    early_bytes: int
    callers: tuple[CurrentFrame, ...]


def run(options: LeaksCommandOptions) -> None:
    """Show the Python lines that allocate memory and do not free it before the end of the watch (Ctrl-C ends it early)."""
    if not options.pid.isdecimal() or not 0 < int(options.pid) < _MOST_PID:
        fail(f"-p {visible(options.pid)}: expected a process id" if options.pid else "no process given; use -p PID")
    if not 0 < options.duration <= _LONGEST:
        fail(f"-d {options.duration:g}: expected seconds, more than 0 and at most a day")
    from perfpy.capture.memory_growth.growth import memory_growth  # --help needs no numpy

    growth = memory_growth(int(options.pid), options.duration, small_objects=options.small_objects)
    if options.json:
        import json  # rarely needed

        stacks = [{**one._asdict(), "frames": [frame._asdict() for frame in one.frames]} for one in growth.retained]
        print(json.dumps({"format": "perfpy-leaks", "version": 1, **growth._asdict(), "retained": stacks}))
        return
    from perfpy.cli.output.terminal import wrap_lines

    for line in wrap_lines(_text(growth)):
        print(line)


def _text(growth: MemoryGrowth) -> Iterator[str]:
    kept = sum(one.bytes for one in growth.retained)
    yield f"Process {growth.pid}: {visible(growth.command)}  (Python {growth.python})"
    yield f"It allocated {_size(growth.allocated)} in {growth.seconds:.1f} s, and kept {_size(kept)}."
    if kept:
        yield ""
        yield f"{'Kept':>10}  {'Share':>6}  {'First half':>10}  {'Objects':>9}  Function and line"
        for line in _lines(growth)[:_MOST_ROWS]:
            share = f"{100 * line.bytes / kept:.1f}%"
            yield f"{_size(line.bytes):>10}  {share:>6}  {_size(line.early_bytes):>10}  {line.objects:>9,}  {_named(line.frame)}"
            if line.callers:
                yield f"{'':44}called from {', '.join(map(_named, line.callers))}"
    notes = list(_notes(growth))
    if notes:
        yield ""
        yield from notes


def _notes(growth: MemoryGrowth) -> Iterator[str]:
    if growth.young:
        yield f"{_size(growth.young)} of the last {growth.seconds / _YOUNG:.1f} s are not counted: they may be freed soon."
    if growth.arenas:
        yield (
            f"CPython reserved {_size(growth.arenas)} for new objects of up to 512 bytes. --small-objects shows the lines that keep them; "
            "it makes the program much slower while it watches."
        )
    if growth.unnamed:
        yield f"{_size(growth.unnamed)} of {_OUTSIDE} is memory of further stacks: the program has too many distinct ones to name."
    if growth.lost:
        yield f"{growth.lost:,} further allocations were not followed: there were too many at a time. Watch for a shorter time."


def _lines(growth: MemoryGrowth) -> list[_KeepingLine]:
    """Return the lines, the one that keeps most first."""
    lines: dict[CurrentFrame | None, _KeepingLine] = {}
    for one in growth.retained:  # the largest stack of a line comes first
        frame, callers = (one.frames[0], one.frames[1 : 1 + _MOST_CALLERS]) if one.frames else (None, ())
        before = lines.get(frame, _KeepingLine(frame, 0, 0, 0, callers))
        numbers = (before.bytes + one.bytes, before.objects + one.objects, before.early_bytes + one.early_bytes)
        lines[frame] = _KeepingLine(frame, *numbers, before.callers)
    return sorted(lines.values(), key=lambda line: -line.bytes)


def _named(frame: CurrentFrame | None) -> str:
    return _OUTSIDE if frame is None else f"{visible(frame.function)} ({visible(frame.file)}:{frame.line or '?'})"


def _size(size: int) -> str:
    return next((f"{size / unit:.2f} {name}" for unit, name in _UNITS if size >= unit), f"{size} B")


command = PerfCommand(LeaksCommandOptions, run)
