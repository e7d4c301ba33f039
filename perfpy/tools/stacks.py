"""`perfpy stacks -p PID`: print what the threads of Python programs do at this moment, also while they wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.cli.line.options import CommandOptions, Flag, PerfCommand, Value, fail, option
from perfpy.untrusted.text import visible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.capture.python_frames.current_stacks import ProcessStacks, ThreadStack


_MOST_PIDS: Final = 1 << 31


class StacksCommandOptions(CommandOptions):
    """Options of `perfpy stacks`."""

    pid: str = option("-p,--pid", Value(default=""), "print the stacks of these processes (comma-separated)", metavar="<pid>")
    json: bool = option("--json", Flag(), "print one JSON object")


def run(options: StacksCommandOptions) -> None:
    """Print the Python stacks of processes."""
    pids = options.pid.split(",")
    if not options.pid:
        fail("no process given; use -p PID")
    if not all(pid.isdecimal() and 0 < int(pid) < _MOST_PIDS for pid in pids):
        fail(f"-p {visible(options.pid)}: expected process ids, separated by commas")
    from perfpy.capture.python_frames.current_stacks import process_stacks  # --help needs no numpy

    processes = [process_stacks(int(pid)) for pid in pids]
    if options.json:
        import json  # rarely needed

        print(json.dumps({"format": "perfpy-stacks", "version": 1, "processes": [_values(process) for process in processes]}))
        return
    for number, process in enumerate(processes):
        if number:
            print()
        for line in _lines(process):
            print(line)


def _lines(process: ProcessStacks) -> Iterator[str]:
    yield f"Process {process.pid}: {visible(process.command)}  (Python {process.version})"
    for thread in process.threads:
        yield ""
        yield _heading(thread)
        yield from (f"    {visible(frame.function)} ({visible(frame.file)}:{frame.line or '?'})" for frame in thread.frames)
    if process.others:
        yield f"\n{process.others} more thread{'s' if process.others > 1 else ''} without Python functions"


def _heading(thread: ThreadStack) -> str:
    wait = f" in {visible(thread.wait)}" if thread.wait and thread.state != "running" else ""
    lock = ", holds the GIL" if thread.has_gil else ""
    doubt = " (it ran during the reading: its stack may be of two moments)" if not thread.is_certain else ""
    return f"Thread {thread.tid} ({visible(thread.name or thread.comm)}): {thread.state}{wait}{lock}{doubt}"


def _values(process: ProcessStacks) -> dict[str, object]:
    threads = [{**thread._asdict(), "frames": [frame._asdict() for frame in thread.frames]} for thread in process.threads]
    return {**process._asdict(), "threads": threads}


command = PerfCommand(StacksCommandOptions, run)
