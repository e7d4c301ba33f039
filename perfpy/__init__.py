"""perfpy: Linux perf for everyone who has Python.

    counts = perfpy.stat(["make"], events="cycles,instructions")
    with perfpy.count("task-clock", "page-faults") as counts: ...
    perfpy.record(["make"], output="perf.data", call_graph=True)
    with perfpy.open("perf.data") as recording: ...
    for sample in perfpy.watch("sched:sched_switch", pid=1234): ...
    for event in perfpy.list_events("cache*"): ...
    with perfpy.Counter.open("task-clock:u") as counter: counter.read()

What enters: plain values. What leaves: values, mappings and numpy columns, or
a `perfpy.errors.PerfError`. Importing this imports next to nothing; each
function loads its room when it is called.
"""

from __future__ import annotations

from perfpy import errors
from perfpy.version import __version__

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import ExitStack
    from os import PathLike
    from typing import Any, ParamSpec, TypeVar

    from perfpy.abi.attr import EventAttr
    from perfpy.abi.flags import ReadFormat, SampleType
    from perfpy.abi.readings import Reading, UserReading
    from perfpy.abi.ring_records import RingSample
    from perfpy.analysis.report.comparable import Changes, Comparable
    from perfpy.analysis.report.group_changes import GroupChanges
    from perfpy.analysis.report.recording_changes import RecordingChanges
    from perfpy.analysis.report.report import Report
    from perfpy.capture.all_counters import disable_all, enable_all
    from perfpy.capture.counter import Counter
    from perfpy.capture.counter_group import CounterGroup, GroupReading
    from perfpy.capture.counting.counted import CountedFunction
    from perfpy.capture.counting.region import Region
    from perfpy.capture.event_stream import EventStream
    from perfpy.capture.live_samples import LiveSample
    from perfpy.capture.session.recorder import RecordSummary
    from perfpy.counts.comparison import Comparison
    from perfpy.counts.named_counts import Count, Counts, ProgramCounts
    from perfpy.events.inventory import Offer
    from perfpy.events.resolve import parse_events
    from perfpy.fleet.recordings import Recordings, open_many
    from perfpy.kernel.ring import AuxArea, Ring
    from perfpy.perfdata.container.source import Origin
    from perfpy.profiling import Profiler
    from perfpy.recording import Recording
    from perfpy.symbols.files.debug_files import SymbolOptions

    P = ParamSpec("P")
    R = TypeVar("R")

__all__ = [
    "AuxArea", "Comparison", "Count", "Counter", "CounterGroup", "Counts", "EventAttr", "EventStream", "GroupChanges", "GroupReading",
    "LiveSample", "Offer", "Profiler", "ProgramCounts", "ReadFormat", "Reading", "RecordSummary", "Recording", "RecordingChanges",
    "Recordings", "Region", "Report", "Ring", "RingSample", "SampleType", "UserReading", "__version__", "compare", "count", "counted",
    "diff", "disable_all", "enable_all", "errors", "list_events", "open", "open_many", "parse_events", "profile", "record", "stat",
    "watch",
]  # fmt: skip

#: names that were public in the release before -> what they are called now
_FORMER: dict[str, str] = {}
_HOMES = {
    "AuxArea": "perfpy.kernel.ring",
    "Comparison": "perfpy.counts.comparison",
    "Count": "perfpy.counts.named_counts",
    "Counter": "perfpy.capture.counter",
    "CounterGroup": "perfpy.capture.counter_group",
    "Counts": "perfpy.counts.named_counts",
    "EventAttr": "perfpy.abi.attr",
    "EventStream": "perfpy.capture.event_stream",
    "GroupChanges": "perfpy.analysis.report.group_changes",
    "GroupReading": "perfpy.capture.counter_group",
    "LiveSample": "perfpy.capture.live_samples",
    "Offer": "perfpy.events.inventory",
    "Profiler": "perfpy.profiling",
    "ProgramCounts": "perfpy.counts.named_counts",
    "ReadFormat": "perfpy.abi.flags",
    "Reading": "perfpy.abi.readings",
    "RecordSummary": "perfpy.capture.session.recorder",
    "Recording": "perfpy.recording",
    "RecordingChanges": "perfpy.analysis.report.recording_changes",
    "Recordings": "perfpy.fleet.recordings",
    "Region": "perfpy.capture.counting.region",
    "Report": "perfpy.analysis.report.report",
    "Ring": "perfpy.kernel.ring",
    "RingSample": "perfpy.abi.ring_records",
    "SampleType": "perfpy.abi.flags",
    "UserReading": "perfpy.abi.readings",
    "disable_all": "perfpy.capture.all_counters",
    "enable_all": "perfpy.capture.all_counters",
    "open_many": "perfpy.fleet.recordings",
    "parse_events": "perfpy.events.resolve",
}


def open(origin: Origin = "perf.data", *, symbols: SymbolOptions | None = None) -> Recording:  # noqa: A001  # as gzip.open
    """Open a recording.

    origin: the path of a perf.data, "-" for standard input, a file descriptor
    or a binary file. symbols: where to look for symbols, as --symfs, --kallsyms
    and their like say it (perfpy.symbols.files.debug_files). Close what is returned, or use it in a `with` statement.
    Raises BadPerfData when it is not there or not perf.data.

    >>> import perfpy
    >>> perfpy.open("nowhere.data")
    Traceback (most recent call last):
    ...
    perfpy.errors.BadPerfData: nowhere.data: cannot open: No such file or directory; record one first, or name another file
    """
    from perfpy.recording import Recording

    return Recording(origin, symbols=symbols)


def stat(
    command: Sequence[str | PathLike[str]] = (),
    *,
    events: str | Iterable[str] | None = None,
    pid: int | None = None,
    tid: int | None = None,
    cpus: Iterable[int] | None = None,
    system_wide: bool = False,
    repeat: int = 1,
    duration: float | None = None,
    inherit: bool = True,
    apart: bool = False,
) -> ProgramCounts:
    """Run a program and count events, or count those of a process, a thread or CPUs.

    command: the program and its arguments; events: as -e of perfpy stat takes
    them, one text or several (None: its default set); pid, tid: count there
    instead, until they end or for `duration` seconds; cpus, system_wide: count
    on these or on all CPUs. repeat: run the program so often; counts are means
    then. duration: after so many seconds a command is ended; without a command
    and a target, all CPUs are counted for it. inherit: False leaves out what the
    program's threads and children do; apart: each count also tells that part
    (`value` = `own` + `children`, where `own` is the program's without its children).

    Returns the counts by event name: `value` is the plain count (ns of clocks),
    `amount` the same in `unit`; None where the machine cannot count the event.
    Raises UsageError, UnknownEvent, EventSyntaxError, KernelRefused, WorkloadFailed.

    >>> import perfpy
    >>> counts = perfpy.stat(["true"], events="page-faults:u")
    >>> counts["page-faults:u"].value > 10, counts.exit_code
    (True, 0)
    """
    from perfpy.measuring import count_program

    whom: Any = {"pid": pid, "tid": tid, "cpus": cpus, "system_wide": system_wide, "inherit": inherit, "apart": apart}
    return count_program(command, events=events, repeat=repeat, duration=duration, **whom)


def record(
    command: Sequence[str | PathLike[str]] = (),
    *,
    events: str | Iterable[str] | None = None,
    output: str | PathLike[str] = "perf.data",
    frequency: int | None = None,
    period: int | None = None,
    call_graph: str | bool = False,
    jit: bool = False,
    unwind: bool = False,
    off_cpu: bool = False,
    max_cpu: float | None = None,
    pid: int | None = None,
    tid: int | None = None,
    cpus: Iterable[int] | None = None,
    system_wide: bool = False,
) -> RecordSummary:
    """Run a program and write its profile to a file; or that of a process, a thread or CPUs.

    command: the program and its arguments; events: as -e of perfpy record takes them (None: cycles, or the
    CPU clock where the machine has no cycles); output: the file. frequency: samples a second, or period: events between two
    samples (neither: 4000 a second). call_graph: True or "fp" for call chains by frame pointers, "dwarf" for copies
    of the stack; unwind: these are replaced by call chains while it records (and asked for, without call_graph);
    jit: Python, Node.js, Java and others tell the names of their functions, which the file keeps. off_cpu: the
    time off the CPU, too, as an event "offcpu-time" in ns (Recording.join_off_cpu() makes one of both); max_cpu: sample
    less often where recording takes more than this of one CPU (0.02: 2 %). pid, tid, cpus, system_wide: record there;
    without a command until they end. Ctrl-C in the main thread ends the recording, with the file complete.

    Returns the program's exit status, and how many samples were written and lost. Raises what stat raises, and OutputFailed.

    >>> import perfpy
    >>> summary = perfpy.record(["true"], output="true.data")
    >>> summary.exit_code, summary.lost
    (0, 0)
    """
    from perfpy.measuring import record_program

    asked: Any = {"pid": pid, "tid": tid, "cpus": cpus, "system_wide": system_wide, "frequency": frequency, "period": period}
    asked |= {"call_graph": call_graph, "jit": jit, "unwind": unwind, "off_cpu": off_cpu, "max_cpu": max_cpu}
    return record_program(command, events=events, output=output, **asked)


def profile(
    output: str | PathLike[str] | None = None,
    *,
    pid: int | None = None,
    events: str | Iterable[str] | None = None,
    frequency: int | None = None,
    call_graph: str | bool = True,
    unwind: bool = False,
) -> Profiler:
    """Record what this process does while a block runs, or between start() and stop(): a context manager.

    output: the file (None: a temporary one, for as long as the profile is kept); pid: another process; events, frequency,
    call_graph, unwind: as for record(). A process of its own records, which the profile does not show. CPython 3.12 and
    newer name their functions meanwhile; read the recording while this process lives, or record with record(jit=True).

    `report()` is ready after the block, `open()` gives the Recording. Raises PerfError where recording fails.

    >>> import perfpy
    >>> with perfpy.profile(events="cpu-clock") as profile:
    ...     total = sum(i * i for i in range(1_000_000))
    >>> profile.report(by="pid").samples > 0
    True
    """
    from perfpy.profiling import make_profile

    whom: Any = {"pid": pid, "events": events, "frequency": frequency}
    return make_profile(output, **whom, call_graph=call_graph, unwind=unwind)


def watch(
    *events: str,
    pid: int | None = None,
    tid: int | None = None,
    cpus: Iterable[int] | None = None,
    system_wide: bool = False,
    filter: str = "",
    frequency: int | None = None,
    period: int | None = None,
    call_graph: bool = False,
    duration: float | None = None,
) -> EventStream:
    """What events do while they run, sample by sample, without a file: an iterator, for `async for` too.

    events: as -e of perfpy record takes them; pid, tid, cpus, system_wide: whom to watch; filter: of tracepoints, as
    "next_pid == 1"; frequency, period: of events that are no tracepoints; call_graph: with call chains; duration: for so many
    seconds (None: until those who are watched end, or close()).

    Samples come in order of time, some hundredths of a second after they were taken. A sample has `event`, `comm`, the fields
    of its event as attributes (time, pid, tid, cpu, ip, period ...), those of a tracepoint as sample["next_comm"]. Memory is
    bounded by the kernel's rings: what is not taken in time is dropped, and `lost` of what this returns counts it.
    with_records() of it has the kernel's other records, too.
    Raises UsageError, UnknownEvent, KernelRefused.

    >>> import os, perfpy
    >>> with perfpy.watch("page-faults:u", pid=os.getpid(), period=1, duration=5) as faults:
    ...     pages = bytearray(b"x") * (1 << 26)
    ...     sample = next(faults)
    >>> sample.event, sample.pid == os.getpid()
    ('page-faults:u', True)
    """
    from perfpy.measuring import watch_events

    whom: Any = {"pid": pid, "tid": tid, "cpus": cpus, "system_wide": system_wide, "filter": filter}
    return watch_events(events, **whom, frequency=frequency, period=period, call_graph=call_graph, duration=duration)


def compare(
    before: Sequence[str | PathLike[str]],
    after: Sequence[str | PathLike[str]],
    *,
    events: str | Iterable[str] | None = None,
    repeat: int = 10,
    warmup: int = 1,
    least_change: float = 0.01,
) -> Comparison:
    """Run two programs in turn, and tell whether the second is better or worse: perfpy stat --compare, as a value.

    before, after: the programs and their arguments, called A and B; events: what to count besides the time, as for stat();
    repeat: runs of each that count, after `warmup` runs that do not; least_change: changes that matter, as a part of A.

    Returns `slower(by=0.03)` and `faster()` for the time, `higher("instructions", by=0.01)` and `lower()` for counts:
    True where more than chance and more than that part of A says so; `counter(name)` has both sides' values, the change
    and its bounds. Raises PerfError where a run fails, and what stat() raises.

    >>> import perfpy
    >>> perfpy.compare(["true"], ["sleep", "0.3"], events="page-faults:u", repeat=6).slower(by=0.5)
    True
    """
    from perfpy.measuring import compare_programs

    return compare_programs(before, after, events=events, repeat=repeat, warmup=warmup, least_change=least_change)


def diff(
    before: Comparable[Changes] | str | PathLike[str],
    after: Comparable[Changes] | str | PathLike[str],
    *,
    by: str | Sequence[str] = "dso,symbol",
    symbols: SymbolOptions | None = None,
) -> list[Changes]:
    """What changed between two recordings of the same work, or two groups of recordings (open_many): for each event that both have.

    before, after: what open() or open_many() returned, or a path: of a recording, or of a folder with those of a group.
    by: sort keys, as for Recording.report(); symbols: where to look for symbols. Commands and instances of templates that
    are the same but for their names count as one, as on the screen of perfpy diff.

    A RecordingChanges is a sequence of rows, those first whose costs changed most, each with its `names`, its `before` and
    `after` (samples, period), `change`, and `has_changed`: whether that is more than the noise of sampling.
    `above(0.02)` has the rows that cost more, by more than noise and 2 % of all.

    Of groups it is a GroupChanges each: `before` and `after` are shares, and `has_changed` is more than hosts differ (Recordings.changes).

    >>> import perfpy
    >>> with perfpy.open("perf.data") as before, perfpy.open("perf.data") as after:
    ...     changes = perfpy.diff(before, after)[0]
    ...     changes.before.period == changes.after.period, changes.above()
    (True, [])
    >>> perfpy.diff("perf.data", "perf.data")[0].above()
    []
    """
    from contextlib import ExitStack

    with ExitStack() as stack:
        both = [_comparable(one, stack) for one in (before, after)]
        found: list[Changes] = both[0].changes(both[1], by, symbols=symbols)
    return found


def _comparable(named: Any, stack: ExitStack) -> Any:
    """Return what a path names: a recording, or the group of recordings in a folder; anything else as it is."""
    import os

    if not isinstance(named, str | os.PathLike):
        return named
    if os.path.isdir(named):
        from perfpy.fleet.recordings import open_many

        return open_many(os.fspath(named))
    from perfpy.recording import Recording

    return stack.enter_context(Recording(os.fspath(named)))


def count(*events: str, inherit: bool = True, apart: bool = False, net: bool = False) -> Region:
    """Count what a stretch of the calling program does: a context manager.

    events: event texts, as -e of perfpy stat takes them. Afterwards the
    result is a mapping from event name to Count. Counts the calling thread, and
    threads and processes that it starts inside the block (inherit=False: the
    thread alone). apart: each count also tells the thread's `own` part, and its
    `children`'s. net: leave out what an empty block counts, as switching counters
    on and off costs time and instructions, too; `overhead` tells how much that is.

    >>> import perfpy
    >>> with perfpy.count("task-clock:u") as counts:
    ...     total = sum(range(1000))
    >>> counts["task-clock:u"].unit
    'msec'
    """
    from perfpy.capture.counting.region import Region

    return Region(*events, inherit=inherit, apart=apart, net=net)


def counted(*events: str) -> Callable[[Callable[P, R]], CountedFunction[P, R]]:
    """Count what the calls of a function do: a decorator.

    events: as count() takes them. The function then has `counts`, the sums over
    its calls so far by event name, `calls`, how many that were, and `reset()`.
    Calls on any thread count; a call that the function makes of itself is part
    of the first.

    >>> import perfpy
    >>> @perfpy.counted("task-clock:u")
    ... def hot():
    ...     return sum(range(1000))
    >>> hot(), hot(), hot.calls
    (499500, 499500, 2)
    >>> hot.counts["task-clock:u"].unit
    'msec'
    """
    from perfpy.capture.counting.counted import counted as decorator

    return decorator(*events)


def list_events(words: str = "", *, supported: bool = True) -> Iterator[Offer]:
    """The events of this machine that -e takes.

    words: a kind (hw, sw, cache, pmu, tracepoint), a part of a name, or a
    pattern such as "sched:*"; "": everything. supported: without the hardware
    and cache events that this machine cannot count.

    >>> import perfpy
    >>> [event.name for event in perfpy.list_events("clock")][:2]
    ['cpu-clock', 'task-clock']
    """
    from perfpy.events.list_filter import Selector, default_cache_folder
    from perfpy.events.machine import this_machine

    selector = Selector(this_machine(), default_cache_folder(), unsupported=not supported)
    yield from (selector.select(words) if words else selector.everything()).offers


def __getattr__(name: str) -> Any:
    """The public names of other modules, loaded when they are first asked for; names that were public warn."""
    if name in _FORMER:
        import warnings

        warnings.warn(f"perfpy.{name} is perfpy.{_FORMER[name]} now", DeprecationWarning, stacklevel=2)
        return globals().get(_FORMER[name]) or __getattr__(_FORMER[name])
    if name in _HOMES:
        import importlib

        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'perfpy' has no attribute {name!r}")


def load_ipython_extension(shell: Any) -> None:
    """%load_ext perfpy: the cell magic %%perfpy profiles a cell and shows the report (perfpy.profiling)."""
    from perfpy.profiling import profile_cell

    shell.register_magic_function(lambda line, cell: profile_cell(shell, line, cell), "cell", "perfpy")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
