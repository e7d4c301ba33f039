"""Record entries and returns of a function, and read its calls from the recording."""

from __future__ import annotations

import errno
import os
import re
import shutil
from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.abi.flags import MISC_SWITCH_OUT
from perfpy.abi.records import Lost, Switch
from perfpy.analysis.function_calls import CallSamples, pair_calls
from perfpy.cli.dispatch.commands import load
from perfpy.cli.line.options import fail
from perfpy.cli.output.notes import print_notes
from perfpy.cli.output.terminal import print_lines
from perfpy.cli.probe.temporary_probes import TemporaryProbes
from perfpy.errors import PerfError
from perfpy.probing.grammar.points import parse_request
from perfpy.probing.problems import ProbeError
from perfpy.symbols.files.live_process import other_root
from perfpy.untrusted.files import is_file
from perfpy.untrusted.folders import temporary_folder
from perfpy.untrusted.text import one_line
from perfpy.views.latency.as_json import latency_json
from perfpy.views.latency.text import SlowCall, latency_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.analysis.function_calls import FunctionCalls
    from perfpy.cli.latency.options import LatencyCommandOptions
    from perfpy.recording import Recording
    from perfpy.recording.values import TracepointSamples

_STACK_POINTER: Final = "perfpy_sp"
_OWN_FIELDS: Final = ("__probe_ip", "__probe_func", "__probe_ret_ip", _STACK_POINTER)
_PYTHON: Final = re.compile(r"(?:lib)?python\d")
_MAPS_MOST: Final = 64 << 20
_MAPPED: Final = re.compile(r"^\S+ r.x. \S+ \S+ [1-9]\d*\s+(/.*)$", re.MULTILINE)
_LONGEST: Final = 365 * 86400  # seconds


def measure(options: LatencyCommandOptions, text: str, command: list[str]) -> int:
    """Measure a function in a process or a command, print its durations, and return the command's exit status."""
    request = parse_request(text)
    point = request.point
    if not point.function or point.is_return or point.line is not None or point.offset or point.pattern or request.event:
        fail(f"latency takes a function, not '{text}'")
    if bool(options.pid) == bool(command):
        fail("latency takes either -p PID or a command")
    if options.duration < 0 or options.duration > _LONGEST:
        fail(f"--duration {options.duration}: a number of seconds up to {_LONGEST}")
    entry = " ".join((point.text, *request.arguments, f"{_STACK_POINTER}=%sp"))
    leave = f"{point.text}%return $retval {_STACK_POINTER}=%sp"
    refusal: PerfError | None = None
    for path in _candidates(options, command):
        probes = TemporaryProbes([f"uprobe:{path}:{entry}", f"uprobe:{path}:{leave}"])
        try:
            with probes:
                return _record_and_show(options, one_line(point.function), path, probes.texts, command)
        except PerfError as error:
            if probes.texts[0].startswith("uprobe:") and getattr(error, "exit_code", 0) == 237:  # the function is in another file
                refusal = refusal or _with_python_remedy(error, path)
                continue
            raise
    assert refusal is not None
    raise refusal


def _with_python_remedy(error: PerfError, path: str) -> PerfError:
    """Return the error; for an interpreter, with the way to measure Python functions.

    CPython has no return of a Python function that a probe could hit: its marker function__entry is not hit by most calls of 3.11, and
    3.12 dropped it.
    """
    if not _PYTHON.match(os.path.basename(path)):
        return error
    remedy = "latency measures C functions; for Python functions: perfpy record --python --off-cpu, then perfpy report -s pyfunc"
    return ProbeError(f"{str(error).partition(';')[0]}; {remedy}", errno.ENODEV)


def _candidates(options: LatencyCommandOptions, command: list[str]) -> Iterator[str]:
    """Yield the files that may have the function: -x, or the program and the libraries that the process has mapped."""
    if options.exec_path:
        yield os.path.realpath(options.exec_path)
        return
    if command:
        program_path = shutil.which(command[0])
        if program_path is None:
            fail(f"no such program: {command[0]}")
        yield os.path.realpath(program_path)
        return
    if not options.pid.isdecimal():
        fail(f"-p {options.pid}: latency takes one process")
    pid = int(options.pid)
    from perfpy.untrusted.files import read_regular

    try:
        maps = read_regular(f"/proc/{pid}/maps", limit=_MAPS_MOST, of_kernel=True).decode("utf-8", "surrogateescape")
        program = os.readlink(f"/proc/{pid}/exe")
    except OSError as error:
        raise PerfError(f"-p {pid}: {error.strerror}; it may have ended, or belong to another user") from None
    for name in dict.fromkeys((program, *_MAPPED.findall(maps))):
        path = _seen_by(pid, name)
        if path:
            yield path


def _seen_by(pid: int, name: str) -> str:
    """Return the path of a process's file, "" if it is gone."""
    if not other_root(pid):
        return name if is_file(name) else ""
    from perfpy.untrusted.pinned_files import pin  # for containers only

    try:
        return pin(name, pid).path
    except OSError:
        return ""


def _record_and_show(options: LatencyCommandOptions, function: str, path: str, events: list[str], command: list[str]) -> int:
    with temporary_folder("perfpy-latency-") as folder:
        file = options.output or f"{folder}/perf.data"
        arguments = ["-q", "-g", "--switch-events", "-o", file, "-e", events[0], "-e", events[1]]
        if command:
            arguments += ["--", *command]
        else:
            arguments += ["-p", options.pid]
            arguments += ["--", "sleep", str(options.duration)] if options.duration else []
        status = load("record").run("record", arguments)
        _show(options, function, path, file, events)
    return status


def _show(options: LatencyCommandOptions, function: str, path: str, file: str, events: list[str]) -> None:
    import perfpy

    with perfpy.open(file) as recording:
        lost = 0
        switches = []
        for record in recording.records():
            if isinstance(record, Switch) and record.sample_id is not None:
                identity = record.sample_id
                switches.append((identity.tid or 0, identity.time or 0, bool(record.misc & MISC_SWITCH_OUT)))
            elif isinstance(record, Lost):
                lost += record.lost
        entries, returns = recording.tracepoint(events[0]), recording.tracepoint(events[1])
        calls = pair_calls(_events(entries), _events(returns), switches)
        slowest = np.argsort(-calls.duration, kind="stable")[: options.slowest].tolist()
        rows = [_slow_call(entries, returns, calls, row) for row in slowest]
        called_rows = _with_callers(recording, events[1], rows, [int(calls.exit[row]) for row in slowest]) if slowest else []
    if options.as_json:
        print(latency_json(function, path, calls, called_rows))
    else:
        print_lines(latency_lines(f"{function} in {path}", calls, called_rows))
    if lost:
        print_notes([f"note: {lost:,} events were lost; measure fewer calls, or for a shorter time"], verbose=1, quiet=options.quiet)


def _events(samples: TracepointSamples) -> CallSamples:
    columns, fields = samples.samples, samples.fields
    return CallSamples(columns["tid"].astype(np.int64), columns["time"].astype(np.int64), fields[_STACK_POINTER].astype(np.uint64))


def _slow_call(entries: TracepointSamples, returns: TracepointSamples, calls: FunctionCalls, row: int) -> SlowCall:
    entry, leave = int(calls.entry[row]), int(calls.exit[row])
    values = [f"{name}={_value(column, entry)}" for name, column in _own(entries).items()]
    values += [f"{'returned' if name == 'arg1' else name}={_value(column, leave)}" for name, column in _own(returns).items()]
    tid = int(calls.tid[row])
    return SlowCall(int(calls.start[row]), tid, "", int(calls.duration[row]), int(calls.off_cpu[row]), values, ())


def _own(samples: TracepointSamples) -> dict[str, object]:
    return {name: column for name, column in samples.fields.items() if name not in _OWN_FIELDS and not name.startswith("common_")}


def _value(column: object, row: int) -> str:
    value = column[row]  # type: ignore[index]
    return one_line(value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value))


def _with_callers(recording: Recording, event: str, rows: list[SlowCall], samples: list[int]) -> list[SlowCall]:
    """Add the callers and the thread's name to calls, from their samples at the return, given as rows among those of the event."""
    columns = recording.samples
    number = [one.name for one in recording.events].index(event)
    mine = np.flatnonzero(columns["event"] == number)
    stacks, comms = columns["stack"], columns["comm"]
    return [
        row._replace(callers=tuple(map(one_line, stacks[mine[sample]])), comm=one_line(str(comms[mine[sample]])))
        for row, sample in zip(rows, samples, strict=True)
    ]
