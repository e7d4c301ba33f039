"""`perfpy latency`: record entries and returns of a function by temporary probes, and show the durations of its calls."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
from typing import TYPE_CHECKING, Any, Final

import perfpy
from perfpy.abi.flags import MISC_SWITCH_OUT
from perfpy.abi.records import Lost, Switch
from perfpy.cli.commands import load_command
from perfpy.cli.line.input_recording import open_recording
from perfpy.cli.line.option_parsing import Choice, Flag, PerfCommand, Value, fail, option, parse_unsigned, program_to_run
from perfpy.cli.line.shared_options import InputOptions, QuietOptions, VerboseOptions
from perfpy.cli.output.terminal import is_terminal, print_lines, print_notes, width
from perfpy.errors import PerfError, plural
from perfpy.probing.grammar import parse_request
from perfpy.symbols.dso import other_root
from perfpy.untrusted.destinations import temporary_folder
from perfpy.untrusted.files import is_file, read_regular
from perfpy.untrusted.pinned_files import pin
from perfpy.untrusted.text import one_line, visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from perfpy.analysis.latencies import CallSamples, FunctionCalls, KernelLatencies, LatencyGroup
    from perfpy.recording import Recording, TracepointSamples
    from perfpy.views.latency_text import SlowCall


_SLOWEST: Final = 5


class LatencyCommandOptions(InputOptions, VerboseOptions, QuietOptions):
    """Options of `perfpy latency`."""

    of: str = option(
        "--of",
        Value(Choice("runqueue", "syscalls", "block", "locks", "softirq", "irq"), default=""),
        "show these latencies of a recording (-i)",
        metavar="<kind>",
    )
    pid: str = option("-p,--pid", Value(default=""), "measure this running process", metavar="<pid>")
    exec_path: str = option("-x,--exec", Value(default=""), "the program or library of the function", metavar="<path>")
    duration: float = option("-d,--duration", Value(float, default=0.0), "seconds to measure a process (default: until Ctrl-C)")
    slowest: int = option("-n,--slowest", Value(parse_unsigned, default=_SLOWEST), "the number of slowest calls to show", metavar="<n>")
    as_json: bool = option("-j,--json", Flag(), "print JSON")
    output: str = option("-o,--output", Value(default=""), "keep the recording in this file", metavar="<file>")
    words: tuple[str, ...] = program_to_run("FUNCTION [--] [COMMAND [ARGS]...]")


def run(options: LatencyCommandOptions) -> int:
    """Show how long the calls of a function take: percentiles, a histogram, the slowest calls, time on and off the CPU.

    With --of, show the distributions of the kernel's latencies in a recording.
    """
    if options.of:
        if options.words or options.pid:
            fail("--of reads a recording; drop the function, the command and -p")

        return show_distributions(options)
    if options.input:
        fail("-i needs --of: runqueue, syscalls, block, locks, softirq or irq")
    if not options.words:
        fail("latency needs a function: perfpy latency FUNCTION -p PID, or perfpy latency FUNCTION -- COMMAND")

    function, *command = options.words
    return measure(options, function, command)


class _LatencyCommand(PerfCommand[LatencyCommandOptions]):
    """The command, whose options may stand on both sides of the function."""

    def run(self, name: str, args: list[str]) -> int:  # type: ignore[override]
        """Move the function behind the options that follow it, and run."""
        parser = self.parser(args)
        words = parser.words
        index = len(args) - len(words)
        if words and index >= 0 and len(words) > 1 and words[1].startswith("-") and not (index and args[index - 1] == "--"):
            rest = list(words[1:])
            end = rest.index("--") if "--" in rest else len(rest)
            args = [*args[:index], *rest[:end], "--", words[0], *rest[end + 1 :]]
        return super().run(name, args)


command = _LatencyCommand(LatencyCommandOptions, run)


_STACK_POINTER: Final = "perfpy_sp"
_OWN_FIELDS: Final = ("__probe_ip", "__probe_func", "__probe_ret_ip", _STACK_POINTER)
_PYTHON: Final = re.compile(r"(?:lib)?python\d")
_MAPS_MOST: Final = 64 << 20
_MAPPED: Final = re.compile(r"^\S+ r.x. \S+ \S+ [1-9]\d*\s+(/.*)$", re.MULTILINE)
_LONGEST: Final = 365 * 86400  # seconds


def measure(options: LatencyCommandOptions, text: str, command: list[str]) -> int:
    """Measure a function in a process or a command, print its durations, and return the command's exit status."""
    from perfpy.cli.temporary_probes import TemporaryProbes

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
    from perfpy.probing.problems import ProbeError

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
        status = load_command("record").run("record", arguments)
        _show(options, function, path, file, events)
    return status


def _show(options: LatencyCommandOptions, function: str, path: str, file: str, events: list[str]) -> None:
    import numpy as np

    from perfpy.analysis.latencies import pair_calls
    from perfpy.views.latency_text import latency_lines

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
    import numpy as np

    from perfpy.analysis.latencies import CallSamples

    columns, fields = samples.samples, samples.fields
    return CallSamples(columns["tid"].astype(np.int64), columns["time"].astype(np.int64), fields[_STACK_POINTER].astype(np.uint64))


def _slow_call(entries: TracepointSamples, returns: TracepointSamples, calls: FunctionCalls, row: int) -> SlowCall:
    from perfpy.views.latency_text import SlowCall

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
    import numpy as np

    columns = recording.samples
    number = [one.name for one in recording.events].index(event)
    mine = np.flatnonzero(columns["event"] == number)
    stacks, comms = columns["stack"], columns["comm"]
    return [
        row._replace(callers=tuple(map(one_line, stacks[mine[sample]])), comm=one_line(str(comms[mine[sample]])))
        for row, sample in zip(rows, samples, strict=True)
    ]


def show_distributions(options: LatencyCommandOptions) -> int:
    """Print the distributions of a recording."""
    from perfpy.analysis.latencies import read_latencies

    with open_recording(options.input, force=options.force, quiet=options.quiet) as recording:
        latencies = read_latencies(recording.data, options.of)
        if options.as_json:
            print(distribution_json(options.of, latencies))
        else:
            room = width() if is_terminal() else None
            print_lines(distribution_lines(options.of, latencies, all_groups=options.verbose > 0, room=room))
    return 0


def latency_json(function: str, path: str, calls: FunctionCalls, slowest: Sequence[SlowCall]) -> str:
    """Return one JSON object; durations are in nanoseconds."""
    from perfpy.analysis.latencies import duration_bins, nearest_rank
    from perfpy.views.latency_text import PERCENTILES

    durations = calls.duration
    summary: dict[str, Any] = {"function": function, "program": path, "calls": len(durations), "without-return": calls.open_count}
    if len(durations):
        summary |= {
            "min": int(durations.min()),
            "max": int(durations.max()),
            "mean": float(durations.mean()),
            "total": int(durations.sum()),
        }
        summary |= {name: nearest_rank(durations, share) for name, share in PERCENTILES}
        summary["off-cpu"] = int(calls.off_cpu.sum())
    summary["histogram"] = [{"from": low, "to": high, "calls": count} for low, high, count in duration_bins(durations)]
    summary["slowest"] = [call._asdict() | {"values": list(call.values), "callers": list(call.callers)} for call in slowest]
    return json.dumps(summary)


_GROUPS: Final = 20
_CELL: Final = 11
#: numbers that narrow windows do without, the first one first
_GIVE_WAY: Final = ("min", "p95", "p99.9", "total", "mean", "p90")
#: kind -> what its durations are
TITLES: Final = {
    "runqueue": "delays on the run queue, from readiness to the CPU",
    "syscalls": "system calls",
    "block": "requests of block devices, from issue to completion",
    "locks": "waits for locks of the kernel",
    "softirq": "soft interrupts",
    "irq": "interrupt handlers",
}


def distribution_lines(kind: str, latencies: KernelLatencies, *, all_groups: bool = False, room: int | None = None) -> Iterator[str]:
    """Yield the lines: a table of groups, and a histogram of all durations.

    Args:
        kind: key of TITLES.
        latencies: the durations.
        all_groups: show all groups, with a histogram of each.
        room: columns of the window; some numbers are left out of a wider table. None for no limit.
    """
    from perfpy.analysis.latencies import all_durations
    from perfpy.views.latency_text import duration_text, histogram_lines

    durations = all_durations(latencies.groups)
    yield f"{TITLES[kind]}: {len(durations):,}"
    if latencies.open_count:
        yield f"{latencies.open_count:,} did not end while they were recorded"
    if not len(durations):
        return
    yield ""
    groups = latencies.groups if all_groups else latencies.groups[:_GROUPS]
    width = max(len(visible(group.name)) for group in groups)
    headings = _headings(room, width + len(f" {'count':>10}"))
    yield f"{'':<{width}} {'count':>10}" + "".join(f"{heading:>{_CELL}}" for heading in headings)
    for group in groups:
        values = _values(group.durations)
        cells = "".join(f"{duration_text(values[heading]):>{_CELL}}" for heading in headings)
        yield f"{visible(group.name):<{width}} {len(group.durations):>10,}{cells}"
    rest = len(latencies.groups) - len(groups)
    if rest:
        yield f"{rest} more {plural(rest, 'group')} (-v shows all)"
    distributions: list[tuple[str, NDArray[np.int64]]] = [("", durations)]
    if all_groups:
        distributions = [(visible(group.name), group.durations) for group in groups]
    for name, some in distributions:
        yield ""
        if name:
            yield name
        yield from histogram_lines(some)


def _headings(room: int | None, taken: int) -> list[str]:
    """Return the numbers of the table that fit. taken: columns of the first two."""
    from perfpy.views.latency_text import PERCENTILES

    headings = ["total", "min", *(name for name, _ in PERCENTILES), "max", "mean"]
    for heading in _GIVE_WAY:
        if room is not None and taken + len(headings) * _CELL > room:
            headings.remove(heading)
    return headings


def distribution_json(kind: str, latencies: KernelLatencies) -> str:
    """Return one JSON object; durations are nanoseconds."""
    groups = [_object(group) for group in latencies.groups]
    return json.dumps({"format": "perfpy-latencies", "version": 1, "of": kind, "open": latencies.open_count, "groups": groups})


def _object(group: LatencyGroup) -> dict[str, Any]:
    from perfpy.analysis.latencies import duration_bins

    bins = [{"from": low, "to": high, "count": count} for low, high, count in duration_bins(group.durations)]
    return {"name": group.name, "count": len(group.durations), **_values(group.durations), "histogram": bins}


def _values(durations: NDArray[np.int64]) -> dict[str, float]:
    """Return the total, the percentiles and the mean."""
    from perfpy.analysis.latencies import nearest_rank
    from perfpy.views.latency_text import PERCENTILES

    total = int(durations.sum())
    values: dict[str, float] = {"total": total, "min": int(durations.min(initial=0) if not len(durations) else durations.min())}
    values |= {name: nearest_rank(durations, share) for name, share in PERCENTILES}
    return values | {"max": int(durations.max(initial=0)), "mean": total / max(len(durations), 1)}
