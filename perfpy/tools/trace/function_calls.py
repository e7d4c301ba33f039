"""`perfpy trace --calls`: the calls of functions over time, as a tree, a page of lanes or a trace for Perfetto.

Input: hits of temporary probes (uprobes) at the entries and returns of chosen functions, the branches of an Intel PT recording, or the
steps of a program (perfpy.tools.trace.single_steps). Probes cost each call some microseconds; Intel PT tells all calls, and nothing else
slows the program down; single-stepping tells all calls of a program that runs many thousand times slower.
"""

from __future__ import annotations

import difflib
import fnmatch
import json
import mmap
import os
import re
import shlex
import shutil
import signal
import sys
import time
from collections import deque
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfpy.abi.flags import MISC_KERNEL, MISC_USER
from perfpy.capture.record_options import BufferOptions, RecordOptions, SamplingOptions, SideBandOptions, parse_pages
from perfpy.capture.session.inputs import Wakeups
from perfpy.capture.targets import TargetOptions, Workload
from perfpy.cli.line.input_recording import open_recording
from perfpy.cli.line.option_parsing import fail
from perfpy.cli.output.output_files import write_bytes, write_text
from perfpy.errors import PerfError, plural
from perfpy.kernel.procfs import ProcFs
from perfpy.live.rings import LiveRings
from perfpy.live.window import LiveWindow
from perfpy.perfdata.event_format import Tracing, decode_tracing
from perfpy.symbols.demangling.demangle import demangle
from perfpy.symbols.dso import other_root
from perfpy.tools.trace.options import TraceOutput
from perfpy.untrusted.pinned_files import pin
from perfpy.untrusted.text import visible
from perfpy.views.latency_text import duration_text
from perfpy.views.page.lanes import LaneCalls, Lanes, LaneStory, LaneTable, limits, page_of_lanes
from perfpy.views.readable import command_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from perfpy.perfdata.events import FileEvent
    from perfpy.perfdata.records.batches import Batch
    from perfpy.recording import Recording
    from perfpy.tools.trace.options import TraceCommandOptions
    from perfpy.views.page.lanes import MergedCalls

    Int64 = NDArray[np.int64]
    #: stack pointer or return address, begin, function, order, instructions before
    _OpenCall = tuple[int, int, int, int, int]


_UNITS: Final = {"ns": 1, "us": 1000, "ms": 1_000_000, "s": 1_000_000_000}
_TIME: Final = re.compile(r"\s*(?P<number>\d{1,12}(?:\.\d{1,9})?)\s*(?P<unit>ns|us|ms|s)\s*\Z", re.ASCII)
_CONDITION: Final = re.compile(r"\s*(?P<function>[^>]+?)\s*>\s*(?P<time>[^>]+)\Z")
_MOST_CALLS: Final = 1 << 18  # kept, the latest ones
_DEEPEST: Final = 1 << 12  # open calls of a thread
_MOST_LEVELS: Final = 64  # on the page
_MOST_FUNCTIONS: Final = 64  # with probes
_STACK: Final = 8 << 20  # bytes: stack pointers that are farther apart belong to different stacks
_SLOT: Final = 8  # bytes that a return takes off the stack
_POINTER: Final = "perfpy_sp"
_INTERVAL: Final = 0.1  # seconds between two readings of the ring buffers
_RING_SIZE: Final = 4 << 20
_MICROSECOND: Final = 1000
ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_KILLED: Final = 128
_PROBES, _TRACE = "uprobes at entries and returns, which cost each call some microseconds", "Intel PT"


_EXCEPTIONS: Final = (
    "a C++ exception or Rust panic that leaves a traced function ends the program: probes at returns hide its caller; "
    "choose functions that none leaves"
)
_THROWING: Final = (b"__cxa_throw\0", b"_Unwind_RaiseException\0")


def parse_time(option: str, text: str) -> int:
    """Return nanoseconds.

    >>> parse_time("--last", "1.5ms")
    1500000
    """
    found = _TIME.match(text)
    if found is None:
        fail(f"{option} {text!r}: expected a time such as 10ms, 500us or 2s")
    return int(float(found["number"]) * _UNITS[found["unit"]])


class CallCondition(NamedTuple):
    """The call that ends the trace: a pattern of its function's name, and a duration that it exceeds, in nanoseconds."""

    function: str
    longer_than: int


def parse_condition(text: str) -> CallCondition | None:
    """Parse --when: FUNCTION > TIME; "" for none.

    >>> parse_condition("handle > 10ms")
    CallCondition(function='handle', longer_than=10000000)
    """
    if not text:
        return None
    found = _CONDITION.match(text)
    if found is None:
        fail(f"--when {text!r}: expected FUNCTION > TIME, such as 'handle > 10ms'")
    return CallCondition(found["function"], parse_time("--when", found["time"]))


def _pattern(text: str) -> re.Pattern[str]:
    """Return what a pattern of function names matches: those of C++ also without their parameters."""
    return re.compile(fnmatch.translate(text) + "|" + fnmatch.translate(text + "(*"))


class FunctionCall(NamedTuple):
    """One call.

    Attributes:
        tid: the thread.
        begin, end: nanoseconds.
        depth: the number of traced calls around it.
        function: its number in CallLog.names.
        returned: whether it returned before the trace ended.
        order: the number of calls that began before: times can be equal.
        instructions: that the thread executed during the call; 0 if they are not counted.
    """

    tid: int
    begin: int
    end: int
    depth: int
    function: int
    returned: bool
    order: int
    instructions: int = 0


class CallLog:
    """Pairs entries and returns of threads to calls, and keeps the latest calls.

    Args:
        slow: the call that ends the trace.

    Attributes:
        names: of functions by number.
        threads: tid -> pid and comm.
        executed: tid -> instructions so far; empty if they are not counted.
        cause: the call that ended the trace; None so far.
        dropped: the number of older calls that are not kept.
        last: the latest time.
    """

    def __init__(self, slow: CallCondition | None = None) -> None:
        self.names: list[str] = []
        self.threads: dict[int, tuple[int, str]] = {}
        self.executed: dict[int, int] = {}
        self.cause: FunctionCall | None = None
        self.dropped = self.last = 0
        self._slow = slow
        self._is_slow = None if slow is None else _pattern(slow.function).match
        self._numbers: dict[str, int] = {}
        self._is_watched: list[bool] = []
        self._longest = -1  # of the calls that may end the trace, nanoseconds
        self._begun = 0
        self._open: dict[int, list[_OpenCall]] = {}
        self._calls: deque[FunctionCall] = deque()

    def number(self, name: str) -> int:
        """Return the number of a function."""
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = len(self.names)
            self.names.append(name)
            self._is_watched.append(self._is_slow is not None and self._is_slow(name) is not None)
        return number

    def enter(self, tid: int, now: int, function: int, word: int) -> None:
        """Begin a call. word: what its return is recognized by."""
        self.last = max(self.last, now)
        calls = self._open.setdefault(tid, [])
        if len(calls) >= _DEEPEST:
            del calls[: _DEEPEST // 2]
        calls.append((word, now, function, self._begun, self.executed.get(tid, 0)))
        self._begun += 1

    def enter_at(self, tid: int, now: int, function: int, pointer: int) -> None:
        """Begin a call at a stack pointer. Calls whose stack is gone have been left without a return, by longjmp or an exception."""
        self.leave_gone(tid, now, pointer)
        self.enter(tid, now, function, pointer)

    def leave_at(self, tid: int, now: int, function: int, pointer: int) -> None:
        """End a call of a function by its stack pointer after the return."""
        self.leave_gone(tid, now, pointer - _SLOT)
        calls = self._open.get(tid)
        if calls and calls[-1][2] == function:
            self._close(tid, now, calls)

    def leave_to(self, tid: int, now: int, address: int) -> None:
        """End the calls up to the innermost one that returns to an address, if there is one."""
        self.last = max(self.last, now)
        calls = self._open.get(tid, [])
        if any(call[0] == address for call in reversed(calls)):
            while calls[-1][0] != address:
                self._close(tid, now, calls)
            self._close(tid, now, calls)

    def leave_gone(self, tid: int, now: int, pointer: int) -> None:
        """End the calls whose stack is below a stack pointer."""
        self.last = max(self.last, now)
        calls = self._open.get(tid)
        while calls and 0 < pointer - calls[-1][0] < _STACK:
            self._close(tid, now, calls)

    def abandon(self, tid: int, now: int) -> None:
        """End all calls of a thread, which do not return: it has ended or executes another program."""
        self.last = max(self.last, now)
        calls = self._open.pop(tid, [])
        while calls:
            self._close(tid, now, calls, returned=False)

    def _close(self, tid: int, now: int, calls: list[_OpenCall], *, returned: bool = True) -> None:
        _, begin, function, order, executed = calls.pop()
        call = FunctionCall(tid, begin, now, len(calls), function, returned, order, self.executed.get(tid, 0) - executed)
        self._calls.append(call)
        if len(self._calls) > _MOST_CALLS:
            self._calls.popleft()
            self.dropped += 1
        if self._is_watched[function]:
            self._longest = max(self._longest, now - begin)
            if self.cause is None and self._slow is not None and now - begin > self._slow.longer_than:
                self.cause = call

    def check_condition(self) -> None:
        """Fail if no function so far is one that --when names."""
        if self._slow is None or any(self._is_watched):
            return
        near = difflib.get_close_matches(self._slow.function, self.names, 1)
        hint = f"; did you mean {near[0]!r}?" if near else f"; they are {', '.join(self.names[:3])}{' ...' if len(self.names) > 3 else ''}"
        fail(f"--when {self._slow.function!r}: none of the functions of --calls{hint}")

    @property
    def unmet(self) -> str:
        """Why --when did not end the trace; "" if it did, or is not given."""
        if self._slow is None or self.cause is not None:
            return ""
        name, most = visible(self._slow.function), duration_text(self._slow.longer_than)
        if self._longest < 0:
            return f"--when did not end the trace: no call of {name}"
        return f"--when did not end the trace: no call of {name} took more than {most} (the longest {duration_text(self._longest)})"

    def finish(self, length: int = 0) -> list[FunctionCall]:
        """End what is open, and return the calls by thread and begin.

        length: nanoseconds before the end that are chosen; 0 for the duration of the call that ended the trace, or all.
        """
        cause, end = self.cause, self.cause.end if self.cause else self.last
        for tid, calls in self._open.items():
            while calls:
                self._close(tid, max(self.last, calls[-1][1]), calls, returned=False)
        self.cause = cause
        begin = min(end - length, cause.begin) if cause else end - length if length else 0
        chosen = [call for call in self._calls if call.end >= begin and call.begin <= end]
        return sorted(chosen, key=lambda call: (call.tid, call.order))


# -- the sources -------------------------------------------------------------------------


class CallOptions(NamedTuple):
    """What the options say about function calls.

    Attributes:
        log: for the calls, with the condition of --when.
        source: PT, PROBES or SINGLE_STEPS.
        patterns: of functions; none for all.
        limit: nanoseconds after which single-stepping ends.
        length: nanoseconds before the end that are shown, 0 for all.
    """

    log: CallLog
    source: str
    patterns: list[str]
    limit: int
    length: int


def call_options(options: TraceCommandOptions) -> CallOptions:
    """Return what the options say about function calls."""
    slow, length = parse_condition(options.when), parse_time("--last", options.last) if options.last else 0
    patterns = [word for word in (options.calls or "").split(",") if word]
    source, limit = parse_source(options.calls_from)
    source = source or (PT if options.input else PROBES if patterns or options.pid or options.tid else SINGLE_STEPS)
    if (source == PT) != bool(options.input):
        fail(f"--calls-from {source} excludes -i" if options.input else "--calls-from pt shows a recording of Intel PT: -i perf.data")
    return CallOptions(CallLog(slow), source, patterns, limit, length)


def trace_calls(options: TraceCommandOptions, chosen: CallOptions) -> int:
    """Show the calls of functions of a program, of running processes or of an Intel PT recording; return the exit status."""
    if chosen.source == PT:
        return _replay(options, chosen.log, chosen.length)
    if not chosen.patterns:
        fail("--calls needs functions here: --calls=parse,'handle*'; all calls are in recordings of Intel PT: --calls -i perf.data")
    if not (options.workload or options.pid or options.tid):
        fail("--calls traces a command or running processes (-p)")
    return _ProbedCalls(options, chosen.log, chosen.patterns).run(chosen.length)


PT, PROBES, SINGLE_STEPS = "pt", "probes", "steps"
_LIMIT: Final = 60 * _UNITS["s"]


def parse_source(text: str) -> tuple[str, int]:
    """Parse --calls-from; return the source, "" for the default, and the nanoseconds after which stepping ends.

    >>> parse_source("steps:5s")
    ('steps', 5000000000)
    """
    name, colon, limit = text.partition(":")
    if name not in ("", PT, PROBES, SINGLE_STEPS) or (colon and name != SINGLE_STEPS):
        fail(f"--calls-from {text!r}: expected {PT}, {PROBES}, {SINGLE_STEPS}, or {SINGLE_STEPS}:TIME such as {SINGLE_STEPS}:5s")
    return name, parse_time("--calls-from", limit) if colon else _LIMIT


def status_of(workload: Workload, ended: set[int]) -> int:
    """Return the status of the command when it has ended, or that of the signals that ended the trace."""
    return (_KILLED + min(ended) if signal.SIGINT not in ended else 0) if ended else workload.wait().exit_code


# -- from probes -------------------------------------------------------------------------


class _ProbedCalls:
    """A trace of functions by probes at their entries and returns."""

    def __init__(self, options: TraceCommandOptions, log: CallLog, patterns: Sequence[str]) -> None:
        self._options, self._log = options, log
        self._functions = list(_functions(_program_path(options), patterns))
        for _, name in self._functions:
            log.number(demangle(name.encode("utf-8", "surrogateescape")))
        log.check_condition()
        if any(throws_exceptions(path) for path in dict.fromkeys(path for path, _ in self._functions)):
            tell(f"note: {_EXCEPTIONS}")
        self._procfs = ProcFs()
        self._lost = 0

    def run(self, length: int) -> int:
        """Trace until a signal, the call of --when or the end of the target; return the exit status."""
        from perfpy.cli.temporary_probes import TemporaryProbes  # reads debug information

        options = self._options
        texts = [f"uprobe:{path}:{name}{point} {_POINTER}=%sp" for path, name in self._functions for point in ("", "%return")]
        with ExitStack() as stack:
            signals = stack.enter_context(Wakeups((*ENDING, signal.SIGUSR2)))
            workload = stack.enter_context(Workload(options.workload)) if options.workload else None
            with ExitStack() as probing:
                probes = probing.enter_context(TemporaryProbes(texts))
                names = [one.split(",") for one in probes.texts]
                events = [name for group in names for name in group]
                started = workload.pid if workload else 0
                rings = LiveRings(events, (), self._record_options(), tell, workload=started, ring_size=_RING_SIZE)
                probing.callback(rings.close)
                if workload is None:
                    rings.counters.enable()
                else:
                    workload.start()
                ended = self._follow(rings, names, signals) & set(ENDING)
            title = f"perfpy trace --calls {command_text(options.workload or ('-p', options.pid or options.tid))}"
            notes = [f"from {_PROBES}"]
            if self._lost:
                notes.append(f"{self._lost:,} hits lost: calls may be missing or too long; choose fewer functions, or -m 16M")
            show_calls(options, self._log, self._log.finish(length), title, notes)
            if workload is not None:
                return status_of(workload, ended)
        return _KILLED + min(ended) if ended and signal.SIGINT not in ended else 0

    def _record_options(self) -> RecordOptions:
        options = self._options
        return RecordOptions(
            sampling=SamplingOptions(period=1),
            target=options.fill(TargetOptions, inherit=not options.no_inherit),
            side_band=SideBandOptions(bpf_events=False),
            buffers=BufferOptions(mmap_pages=parse_pages(options.mmap_pages) if options.mmap_pages else 0),
        )

    def _follow(self, rings: LiveRings, names: Sequence[Sequence[str]], signals: Wakeups) -> set[int]:
        """Read the hits until the end; return the signals that arrived."""
        tracing = Tracing(decode_tracing(rings.tracing_data()))
        events = rings.events(tracing)
        functions = [self._log.number(demangle(name.encode("utf-8", "surrogateescape"))) for _, name in self._functions]
        probes = _probes_of(events, tracing, names, functions)
        window = LiveWindow(events, rings.features, tracing, own=os.getpid())
        rings.watch(signals.fileno())
        numbers: set[int] = set()
        is_last = False
        while not is_last:
            rings.wait(_INTERVAL)
            numbers = signals.read()
            is_last = rings.has_ended or bool(numbers)
            until = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
            window.begin(rings.read(), 0 if is_last else until)
            self._lost += window.counts.lost
            for batch in window.batches(("pid", "tid", "time", "raw")):
                self._add(batch, probes)
                if self._log.cause is not None:
                    return numbers
        return numbers

    def _add(self, batch: Batch, probes: NDArray[np.int64]) -> None:
        """Add the hits of an interval. probes: of each event the function, whether it is a return, and where the stack pointer is."""
        columns, log = batch.columns, self._log
        raw = columns["raw"]
        function, is_return, offset = probes[batch.event].T
        fits = (function >= 0) & (raw.lengths >= offset + 8)
        starts = (raw.offsets[:-1] + offset)[fits]
        pointers = raw.values[starts[:, None] + np.arange(8)].view(np.uint64).ravel() if len(starts) else np.zeros(0, np.uint64)
        rows = (columns["pid"][fits], columns["tid"][fits], columns["time"][fits], function[fits], is_return[fits], pointers)
        for pid, tid, now, number, ends, pointer in zip(*(column.tolist() for column in rows), strict=True):
            if tid not in log.threads:
                status = self._procfs.status(tid)
                log.threads[tid] = pid, status.comm if status else f":{tid}"
            (log.leave_at if ends else log.enter_at)(tid, now, number, pointer)
            if log.cause is not None:
                return


def _probes_of(events: Sequence[FileEvent], tracing: Tracing, names: Sequence[Sequence[str]], functions: Sequence[int]) -> Int64:
    """Return a row for each event: its function (-1 for none), whether it is a return, and the offset of the stack pointer."""
    known = {name: (functions[index // 2], index % 2) for index, group in enumerate(names) for name in group}
    formats = {f"{point.system}:{point.name}": tracing.formats.get(number) for number, point in tracing.tracepoints.items()}
    rows = []
    for event in events:
        form = formats.get(event.name)
        field = form.field(_POINTER) if form is not None else None
        rows.append((*known[event.name], field.offset) if field is not None and event.name in known else (-1, 0, 0))
    return np.array(rows, np.int64).reshape(-1, 3)


def throws_exceptions(path: str) -> bool:
    """Whether a file has code that throws or catches exceptions of C++, or unwinds as Rust does: it names the unwinder's function."""
    try:
        with os.fdopen(pin(path).duplicate(), "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as data:
            return any(data.find(name) >= 0 for name in _THROWING)
    except (OSError, ValueError):
        return False


def _program_path(options: TraceCommandOptions) -> str:
    """Return the path of the program of the command, or of the first process."""
    if options.workload:
        path = shutil.which(options.workload[0])
        if path is None:
            fail(f"no such program: {options.workload[0]}")
        return os.path.realpath(path)
    first = (options.pid or options.tid).split(",")[0]
    if not first.isdecimal():
        fail(f"-p {options.pid or options.tid}: expected the numbers of processes")
    try:
        name = os.readlink(f"/proc/{int(first)}/exe")
        return pin(name, int(first)).path if other_root(int(first)) else name
    except OSError as error:
        raise PerfError(f"-p {first}: {error.strerror}; it may have ended, or belong to another user") from None


def _functions(program: str, patterns: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the path and the name of each function that the patterns, [PATH:]NAME, choose."""
    from perfpy.cli.line.perfconfig import load_config
    from perfpy.probing.program import open_program
    from perfpy.symbols.files.debug_files import SymbolOptions

    found: dict[tuple[str, str], None] = {}
    for pattern in patterns:
        path, colon, name = pattern.partition(":")
        if not colon or "/" not in path:  # C++ names have colons, too
            path, name = program, pattern
        if not name:
            fail(f"--calls {pattern!r}: the form is [PATH:]FUNCTION")
        if not set(name) & set("*?[:"):
            found[path, name] = None
            continue
        try:
            file = pin(path)
        except OSError as error:
            fail(f"--calls {pattern}: {path}: {error.strerror}")
        opened = open_program(file, SymbolOptions(buildid_dir=load_config().build_id_folder))
        test = _pattern(name).match
        symbols = opened.symbols_named(lambda one, test=test: bool(test(one)))  # type: ignore[misc]
        names = list(dict.fromkeys(symbol.name for symbol in symbols if opened.has_code(symbol.address)))
        if not names:
            fail(f"--calls {pattern}: no such function in {path}; perfpy probe -x {shlex.quote(path)} -F lists them")
        found |= dict.fromkeys((path, one) for one in names)
    if len(found) > _MOST_FUNCTIONS:
        fail(f"--calls: {len(found)} functions; the patterns may choose {_MOST_FUNCTIONS}, as each call costs time")
    yield from found


def tell(text: str) -> None:
    """Write a note."""
    print(text, file=sys.stderr)


# -- from Intel PT -------------------------------------------------------------------------


def _replay(options: TraceCommandOptions, log: CallLog, length: int) -> int:
    """Show the calls that an Intel PT recording tells."""
    if options.workload:
        fail(f"-i {options.input} excludes a command to run")
    with open_recording(options.input, force=options.force, verbose=options.verbose) as recording:
        recording.data.decodes_traces = True
        calls = _TracedCalls(recording, log, [word for word in (options.calls or "").split(",") if word])
        recording.follow_calls(calls.add)
        show_calls(options, log, log.finish(length), f"{recording.path}: {recording.title}", [f"from {_TRACE}"])
    return 0


class _TracedCalls:
    """Adds the calls and returns of an Intel PT trace to a log. patterns: of functions; none for all."""

    def __init__(self, recording: Recording, log: CallLog, patterns: Sequence[str]) -> None:
        self._log, self._timeline = log, recording.make_timeline(keep_exited=True)
        self._symbolizer = recording.new_symbolizer(self._timeline, None)
        self._test = re.compile("|".join(_pattern(one).pattern for one in patterns)).match if patterns else None
        self._numbers: dict[int, int] = {}  # frame -> function; -1: the patterns leave it out

    def add(self, pid: int, tid: int, times: NDArray[np.uint64], branches: NDArray[np.uint64]) -> bool:
        """Add branches: sources, targets, whether they are calls, and return addresses. Return whether to go on."""
        log, (_, targets, is_call, returns) = self._log, branches
        if tid not in log.threads:
            log.threads[tid] = pid, self._timeline.last_comm(tid)
        functions = np.full(len(times), -1, np.int64)
        rows = np.flatnonzero(is_call)
        functions[rows] = self._functions(pid, targets[rows], times[rows])
        for now, target, call, function, address in zip(
            *(column.tolist() for column in (times, targets, is_call, functions, returns)), strict=True
        ):
            if not call:
                log.leave_to(tid, now, target)
            elif function >= 0:
                log.enter(tid, now, function, address)
            if log.cause is not None:
                return False
        return True

    def _functions(self, pid: int, targets: NDArray[np.uint64], times: NDArray[np.uint64]) -> Int64:
        modes = np.where(targets >> np.uint64(63), MISC_KERNEL, MISC_USER).astype(np.uint8)
        ids = self._symbolizer.frame_ids(np.full(len(targets), pid), targets, times, modes)
        frames = self._symbolizer.resolve()
        unique, position = np.unique(ids, return_inverse=True)
        for one in unique.tolist():
            if one not in self._numbers:
                symbol = int(frames.symbol[one])
                name = self._symbolizer.symbols.name(symbol) if symbol >= 0 else f"{int(frames.ip[one]):#x}"
                self._numbers[one] = self._log.number(name) if self._test is None or self._test(name) else -1
        return np.array([self._numbers[one] for one in unique.tolist()], np.int64)[position.ravel()]


# -- views ---------------------------------------------------------------------------------


def show_calls(options: TraceCommandOptions, log: CallLog, calls: Sequence[FunctionCall], title: str, notes: Sequence[str]) -> None:
    """Write what the options choose: the page, the trace for Perfetto, JSON lines or a tree.

    Args:
        options: of the command.
        log: what the calls come from.
        calls: by thread and begin.
        title: what was traced.
        notes: how, and what is missing.
    """
    notes = list(notes)
    if log.cause is not None:
        notes.insert(1, f"ended by {log.names[log.cause.function]}, which took {duration_text(log.cause.end - log.cause.begin)}")
    elif log.unmet:
        notes.insert(1, log.unmet)
    if log.dropped:
        notes.append(f"{log.dropped:,} earlier {plural(log.dropped, 'call')} dropped")
    if options.html:
        write_bytes(options.html, calls_page(log, calls, title, notes).encode(errors="replace"), quiet=False)
    if options.chrome_trace:
        write_text(options.chrome_trace, chrome_trace(log, calls, notes))
    if options.html or options.chrome_trace:
        for note in notes[1:]:
            tell(f"note: {note}")
        return
    with TraceOutput(options.output or ("-" if options.json else "")) as output:
        output.write(json_lines(log, calls) if options.json else tree_lines(log, calls, notes))


def tree_lines(log: CallLog, calls: Sequence[FunctionCall], notes: Sequence[str] = ()) -> Iterator[str]:
    """Yield a line for each call, by thread and begin; times from the first begin. A call that did not return has > in front."""
    first = min((call.begin for call in calls), default=0)
    threads = dict.fromkeys(call.tid for call in calls)
    yield f"# {len(calls):,} {plural(len(calls), 'call')} of {len(threads)} {plural(len(threads), 'thread')}; {'; '.join(notes)}"
    for call in calls:
        if threads.pop(call.tid, 0) is None:
            _, comm = log.threads[call.tid]
            yield f"# {visible(comm)} {call.tid}"
        took = ("" if call.returned else ">") + duration_text(call.end - call.begin)
        count = f" {call.instructions:>12,} instructions" if log.executed else ""
        yield f"{(call.begin - first) / _UNITS['ms']:12.6f} ms {took:>10}{count}  {'  ' * call.depth}{visible(log.names[call.function])}"


def json_lines(log: CallLog, calls: Sequence[FunctionCall]) -> Iterator[str]:
    """Yield a JSON object for each call; times are nanoseconds."""
    for call in calls:
        pid, comm = log.threads[call.tid]
        values = {"pid": pid, "tid": call.tid, "comm": comm, "function": log.names[call.function]}
        values |= {"time": call.begin, "took": call.end - call.begin, "depth": call.depth, "returned": call.returned}
        yield json.dumps(values | ({"instructions": call.instructions} if log.executed else {}))


def chrome_trace(log: CallLog, calls: Sequence[FunctionCall], notes: Sequence[str] = ()) -> Iterator[str]:
    """Yield the file in pieces: a complete event ("X") for each call, in microseconds from the first begin."""
    first = min((call.begin for call in calls), default=0)
    yield '{"displayTimeUnit":"ns","otherData":' + json.dumps({"notes": list(notes)}) + ',"traceEvents":[\n'
    separator = ""
    tids = dict.fromkeys(call.tid for call in calls)
    for tid in tids:
        pid, comm = log.threads[tid]
        for kind in ("process_name", "thread_name") if tid == pid or pid not in tids else ("thread_name",):
            yield separator + json.dumps({"name": kind, "ph": "M", "pid": pid, "tid": tid, "args": {"name": comm}})
            separator = ",\n"
    for call in calls:
        event: dict[str, Any] = {"name": log.names[call.function], "cat": "function", "ph": "X"}
        event |= {"ts": (call.begin - first) / _MICROSECOND, "dur": (call.end - call.begin) / _MICROSECOND}
        further = ({} if call.returned else {"returned": False}) | ({"instructions": call.instructions} if log.executed else {})
        event |= {"pid": log.threads[call.tid][0], "tid": call.tid} | ({"args": further} if further else {})
        yield separator + json.dumps(event)
        separator = ",\n"
    yield "\n]}\n"


_COLUMNS: Final = (("Calls", "whole"), ("Total", "duration"), ("Mean", "duration"), ("Longest", "duration"))


def calls_page(log: CallLog, calls: Sequence[FunctionCall], title: str, notes: Sequence[str]) -> str:
    """Return the page: for each thread a lane of calls for each depth, and a table of functions."""
    lanes = Lanes()
    levels = sorted({(call.tid, call.depth) for call in calls if call.depth < _MOST_LEVELS})
    lane_of = {(tid, depth): lanes.lane(*log.threads[tid][:1], tid, log.threads[tid][1], depth) for tid, depth in levels}
    shown = sorted((call for call in calls if call.depth < _MOST_LEVELS), key=lambda call: call.begin)
    texts = [lanes.text(log.names[call.function].encode("utf-8", "surrogateescape")) for call in shown]
    lane = [lane_of[call.tid, call.depth] for call in shown]
    table = np.array([(call.begin, call.end - call.begin, call.function, not call.returned) for call in shown], np.int64).reshape(-1, 4)
    begin, took, function, is_open = table.T
    lanes.add(LaneCalls(begin, took, np.array(lane, np.int64), function, is_open.astype(np.bool_), np.array(texts, np.int64)))
    durations: dict[int, list[int]] = {}
    for call in calls:
        durations.setdefault(call.function, []).append(call.end - call.begin)
    numbers = sorted(durations, key=lambda number: -sum(durations[number]))
    index = {number: row for row, number in enumerate(numbers)}

    def tell(shown: LaneCalls, merged: MergedCalls) -> LaneStory:
        first, last = limits(shown, merged)
        threads = len({call.tid for call in calls})
        count = f"{len(calls):,} {plural(len(calls), 'call')} of {threads:,} {plural(threads, 'thread')}"
        headline: list[str | int] = [f"{count} in ", last - first]
        rows = [[len(times), sum(times), sum(times) // len(times), max(times)] for times in (durations[number] for number in numbers)]
        names = [(visible(log.names[number]), 0) for number in numbers]
        return LaneStory(title, headline, "call", [("functions", "own")], names, LaneTable("Function", _COLUMNS, rows), notes)

    return page_of_lanes(lanes, index.__getitem__, tell)
