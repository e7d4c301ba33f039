"""perfpy: Linux perf for everyone who has Python.

    counts = perfpy.stat(["make"], events="cycles,instructions")
    with perfpy.count("task-clock", "page-faults") as counts: ...
    perfpy.record(["make"], output="perf.data", call_graph=True)
    with perfpy.open("perf.data") as recording: ...
    for sample in perfpy.watch("sched:sched_switch", pid=1234): ...
    for event in perfpy.list_events("cache*"): ...
    with perfpy.Counter.open("task-clock:u") as counter: counter.read()

Functions return values, mappings and numpy columns, or raise `perfpy.errors.PerfError`. Importing this package imports next to nothing;
each function loads what it needs when it is called.
"""

from __future__ import annotations

from perfpy import errors

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import ExitStack
    from os import PathLike
    from typing import Any, ParamSpec, TypeVar

    from perfpy.abi.attr import EventAttr, Reading, UserReading
    from perfpy.abi.flags import ReadFormat, SampleType
    from perfpy.abi.ring_records import RingSample
    from perfpy.analysis.differences import Changes, Comparable, RecordingChanges
    from perfpy.analysis.group_differences import GroupChanges
    from perfpy.analysis.report.report import Report
    from perfpy.capture.counter import Counter
    from perfpy.capture.counter_group import CounterGroup, GroupReading, disable_all, enable_all
    from perfpy.capture.event_stream import EventStream, LiveSample
    from perfpy.capture.region import CountedFunction, Region
    from perfpy.capture.session.recorder import RecordSummary
    from perfpy.counts.comparison import Comparison
    from perfpy.counts.named_counts import Count, Counts, ProgramCounts
    from perfpy.events.listing import EventInfo, PmuInfo
    from perfpy.events.resolve import parse_events
    from perfpy.fleet.recordings import Recordings, open_many
    from perfpy.kernel.ring import AuxArea, Ring
    from perfpy.perfdata.source import Origin
    from perfpy.profiling import Profiler
    from perfpy.recording import Recording
    from perfpy.symbols.files.debug_files import SymbolOptions
    from perfpy.version import __version__

    P = ParamSpec("P")
    R = TypeVar("R")

__all__ = [
    "AuxArea", "Comparison", "Count", "Counter", "CounterGroup", "Counts", "EventAttr", "EventInfo", "EventStream", "GroupChanges",
    "GroupReading", "LiveSample", "Profiler", "ProgramCounts", "ReadFormat", "Reading", "RecordSummary", "Recording", "RecordingChanges",
    "Recordings", "Region", "Report", "Ring", "RingSample", "SampleType", "UserReading", "__version__", "compare", "count", "counted",
    "diff", "disable_all", "enable_all", "errors", "list_events", "list_pmus", "open", "open_many", "parse_events", "profile", "record",
    "stat", "watch",
]  # fmt: skip

#: public names of other modules -> these modules
_HOMES = {
    "__version__": "perfpy.version",
    "AuxArea": "perfpy.kernel.ring",
    "Comparison": "perfpy.counts.comparison",
    "Count": "perfpy.counts.named_counts",
    "Counter": "perfpy.capture.counter",
    "CounterGroup": "perfpy.capture.counter_group",
    "Counts": "perfpy.counts.named_counts",
    "EventAttr": "perfpy.abi.attr",
    "EventInfo": "perfpy.events.listing",
    "PmuInfo": "perfpy.events.listing",
    "EventStream": "perfpy.capture.event_stream",
    "GroupChanges": "perfpy.analysis.group_differences",
    "GroupReading": "perfpy.capture.counter_group",
    "LiveSample": "perfpy.capture.event_stream",
    "Profiler": "perfpy.profiling",
    "ProgramCounts": "perfpy.counts.named_counts",
    "ReadFormat": "perfpy.abi.flags",
    "Reading": "perfpy.abi.attr",
    "RecordSummary": "perfpy.capture.session.recorder",
    "Recording": "perfpy.recording",
    "RecordingChanges": "perfpy.analysis.differences",
    "Recordings": "perfpy.fleet.recordings",
    "Region": "perfpy.capture.region",
    "Report": "perfpy.analysis.report.report",
    "Ring": "perfpy.kernel.ring",
    "RingSample": "perfpy.abi.ring_records",
    "SampleType": "perfpy.abi.flags",
    "UserReading": "perfpy.abi.attr",
    "disable_all": "perfpy.capture.counter_group",
    "enable_all": "perfpy.capture.counter_group",
    "open_many": "perfpy.fleet.recordings",
    "parse_events": "perfpy.events.resolve",
}


def open(  # noqa: A001  # as gzip.open
    origin: Origin = "perf.data", *, symbols: SymbolOptions | None = None, itrace: str | None = None
) -> Recording:
    """Open a recording. Close it, or use it in a `with` statement. Raises BadPerfDataError if it is missing or not perf.data.

    `origin` is the path of a perf.data, "-" for standard input, a file descriptor or a binary file. `symbols` says where to look for
    symbols, as --symfs and --kallsyms do (perfpy.symbols.files.debug_files). `itrace` has an Arm SPE trace decoded into samples, of the
    kinds that --itrace names; "" for perf's default.

    >>> import perfpy
    >>> perfpy.open("nowhere.data")
    Traceback (most recent call last):
    ...
    perfpy.errors.BadPerfDataError: nowhere.data: cannot open: No such file or directory; record one first, or name another file
    """
    from perfpy.recording import Recording

    return Recording(origin, symbols=symbols, itrace=itrace)


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
    separate_children: bool = False,
) -> ProgramCounts:
    """Run a program and count events, or count those of a process, a thread or CPUs.

    Args:
        events: one or several texts for -e of perfpy stat (default: its default set)
        pid, tid, cpus, system_wide: count there instead, until the tasks end or for `duration` seconds
        repeat: number of runs; counts are means
        duration: seconds after which to end the command; without command and target, count all CPUs for that time
        inherit: whether to count the program's threads and children
        separate_children: split each count into `own` and `children`

    Returns counts by event name: `value` is the plain count (clocks: ns), `amount` the same in `unit`; None if the machine cannot count it.
    Raises UsageError, UnknownEventError, EventSyntaxError, KernelRefusedError, WorkloadFailedError.

    >>> import perfpy
    >>> counts = perfpy.stat(["true"], events="page-faults:u")
    >>> counts["page-faults:u"].value > 10, counts.exit_code
    (True, 0)
    """
    from perfpy.measuring import count_program

    target: Any = {"pid": pid, "tid": tid, "cpus": cpus, "system_wide": system_wide, "inherit": inherit}
    return count_program(command, events=events, repeat=repeat, duration=duration, separate_children=separate_children, **target)


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
    """Run a program and write its profile to a file, or that of a process, a thread or CPUs.

    Args:
        events: as for -e of perfpy record (default: cycles, or the CPU clock)
        frequency, period: samples per second, or events per sample (default: 4000 Hz)
        call_graph: True or "fp" for frame pointers, "dwarf" for copies of the stack; unwind: unwind these while recording
        jit: keep the function names of Python, Node.js, Java and other runtimes
        off_cpu: also record waits, as an event "offcpu-time" in ns (see Recording.merge_off_cpu)
        max_cpu: sample less if recording takes more than this of one CPU (0.02: 2 %)
        pid, tid, cpus, system_wide: record there, without a command until the tasks end

    Ctrl-C in the main thread ends the recording; the file is complete. Raises what stat() raises, and OutputFailedError.

    >>> import perfpy
    >>> summary = perfpy.record(["true"], output="true.data")
    >>> summary.exit_code, summary.lost
    (0, 0)
    """
    from perfpy.measuring import record_program

    options: Any = {"pid": pid, "tid": tid, "cpus": cpus, "system_wide": system_wide, "frequency": frequency, "period": period}
    options |= {"call_graph": call_graph, "jit": jit, "unwind": unwind, "off_cpu": off_cpu, "max_cpu": max_cpu}
    return record_program(command, events=events, output=output, **options)


def profile(
    output: str | PathLike[str] | None = None,
    *,
    pid: int | None = None,
    events: str | Iterable[str] | None = None,
    frequency: int | None = None,
    call_graph: str | bool = True,
    unwind: bool = False,
    python: bool = False,
) -> Profiler:
    """Record this process while a block runs, or between start() and stop(); a context manager.

    Args:
        output: the file (default: a temporary one that lives as long as the profile)
        pid: another process to record
        events, frequency, call_graph, unwind: as for record()
        python: read Python functions and lines from the interpreter's memory, as record --python does; reports show Python functions

    A separate process records and is not part of the profile. CPython 3.12 and newer names its functions meanwhile. Read the recording
    while this process lives, or use record(jit=True). `report()` is ready after the block, `open()` returns the Recording. Raises
    PerfError.

    >>> import perfpy
    >>> with perfpy.profile(events="cpu-clock") as profile:
    ...     total = sum(i * i for i in range(1_000_000))
    >>> profile.report(by="pid").samples > 0
    True
    """
    from perfpy.profiling import make_profile

    target: Any = {"pid": pid, "events": events, "frequency": frequency}
    return make_profile(output, **target, call_graph=call_graph, unwind=unwind, python=python)


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
    """Iterate over the samples of running events, without a file; also with `async for`.

    Args:
        pid, tid, cpus, system_wide: the target
        filter: for tracepoints, such as "next_pid == 1"
        frequency, period: for other events
        duration: seconds (default: until the target ends, or close())

    Samples come in time order, hundredths of a second late. A sample has `event`, `comm`, and the fields of its event as attributes (time,
    pid, ip ...) or, for tracepoints, as sample["next_comm"]. Ring buffers bound the memory; `lost` counts dropped samples. with_records()
    adds the kernel's other records. Raises UsageError, UnknownEventError, KernelRefusedError.

    >>> import os, perfpy
    >>> with perfpy.watch("page-faults:u", pid=os.getpid(), period=1, duration=5) as faults:
    ...     pages = bytearray(b"x") * (1 << 26)
    ...     sample = next(faults)
    >>> sample.event, sample.pid == os.getpid()
    ('page-faults:u', True)
    """
    from perfpy.measuring import watch_events

    target: Any = {"pid": pid, "tid": tid, "cpus": cpus, "system_wide": system_wide, "filter": filter}
    return watch_events(events, **target, frequency=frequency, period=period, call_graph=call_graph, duration=duration)


def compare(
    before: Sequence[str | PathLike[str]],
    after: Sequence[str | PathLike[str]],
    *,
    events: str | Iterable[str] | None = None,
    repeat: int = 10,
    warmup: int = 1,
    least_change: float = 0.01,
) -> Comparison:
    """Run two programs in turns and test whether they differ, as perfpy stat --compare does.

    Args:
        before, after: the commands, called A and B
        events: events to count besides the time, as for stat()
        repeat, warmup: counted and uncounted runs of each
        least_change: the smallest change that matters, as a fraction of A

    The result has `slower(by=0.03)` and `faster()` for the time, `higher("instructions", by=0.01)` and `lower()` for counts: True for
    changes beyond chance and beyond that fraction of A. `counter(name)` has the values of both sides. Raises PerfError if a run fails.

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
    """Compare two recordings of the same work, or two groups of recordings (open_many), for each event that both have.

    `before` and `after` come from open() or open_many(), or are paths of a recording or of a folder of recordings. `by` has sort keys,
    `symbols` the places of symbols, as for Recording.report(). Commands, and instances of templates, that differ only in their names count
    as one, as on the screen of perfpy diff.

    A RecordingChanges is a sequence of rows, largest change first, each with `names`, `before` and `after` (samples, period), `change`, and
    `has_changed`: whether the change exceeds sampling noise. `above(0.02)` returns the rows that cost more, by more than noise and 2 % of
    all. For groups it is a GroupChanges: `before` and `after` are shares, and `has_changed` means beyond the spread of hosts
    (Recordings.changes).

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
        changes: list[Changes] = both[0].changes(both[1], by, symbols=symbols)
    return changes


def _comparable(source: Any, stack: ExitStack) -> Any:
    """Return what a path names: a recording, or the group of recordings in a folder; anything else as it is."""
    import os

    if not isinstance(source, str | os.PathLike):
        return source
    if os.path.isdir(source):
        from perfpy.fleet.recordings import open_many

        return open_many(os.fspath(source))
    from perfpy.recording import Recording

    return stack.enter_context(Recording(os.fspath(source)))


def count(*events: str, inherit: bool = True, separate_children: bool = False, net: bool = False) -> Region:
    """Count events while a block of this program runs; a context manager.

    It counts the calling thread, and the threads and processes that it starts in the block. After the block, the result maps event names to
    Counts.

    Args:
        events: event texts, as for -e of perfpy stat
        inherit: False to count the calling thread alone
        separate_children: split each count into the thread's `own` part and its `children`
        net: subtract the count of an empty block, which `overhead` returns

    >>> import perfpy
    >>> with perfpy.count("task-clock:u") as counts:
    ...     total = sum(range(1000))
    >>> counts["task-clock:u"].unit
    'msec'
    """
    from perfpy.capture.region import Region

    return Region(*events, inherit=inherit, separate_children=separate_children, net=net)


def counted(*events: str) -> Callable[[Callable[P, R]], CountedFunction[P, R]]:
    """Count events of a function's calls; a decorator.

    `events` are those of count(). The function gets `counts`, the sums over its calls by event name, `calls`, their number, and `reset()`.
    Calls on any thread count; a recursive call is part of the outermost one.

    >>> import perfpy
    >>> @perfpy.counted("task-clock:u")
    ... def hot():
    ...     return sum(range(1000))
    >>> hot(), hot(), hot.calls
    (499500, 499500, 2)
    >>> hot.counts["task-clock:u"].unit
    'msec'
    """
    from perfpy.capture.region import counted as decorator

    return decorator(*events)


def list_events(words: str = "", *, supported: bool = True) -> Iterator[EventInfo]:
    """Yield the events of this machine that -e accepts.

    `words` is a kind (hw, sw, cache, pmu, tracepoint), a part of a name, or a pattern such as "sched:*"; "" for all. With `supported`,
    hardware and cache events that this machine cannot count are omitted.

    >>> import perfpy
    >>> [event.name for event in perfpy.list_events("clock")][:2]
    ['cpu-clock', 'task-clock']
    """
    from perfpy.events.listing import Selector, default_cache_folder
    from perfpy.events.machine import this_machine

    selector = Selector(this_machine(), default_cache_folder(), unsupported=not supported)
    yield from (selector.select(words) if words else selector.everything()).infos


def list_pmus() -> list[PmuInfo]:
    """Return the PMUs of this machine with their CPUs and, where the kernel shows it, their number of counters.

    >>> import perfpy
    >>> all(pmu.name and pmu.counters >= 0 for pmu in perfpy.list_pmus())
    True
    """
    from perfpy.events.listing import pmu_info
    from perfpy.events.machine import this_machine
    from perfpy.kernel import this_kernel

    kernel = this_kernel()
    return [pmu_info(pmu, kernel) for pmu in this_machine().sysfs.pmus]


def __getattr__(name: str) -> Any:
    """Load the public names of other modules on first use."""
    if name in _HOMES:
        import importlib

        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'perfpy' has no attribute {name!r}")


def load_ipython_extension(shell: Any) -> None:
    """%load_ext perfpy: the magics %%perfpy and %perfpy profile a cell or a statement and show its lines (perfpy.profiling)."""
    from perfpy.profiling import profile_cell

    shell.register_magic_function(lambda line, cell: profile_cell(shell, line, cell), "cell", "perfpy")
    shell.register_magic_function(lambda line: profile_cell(shell, "", line), "line", "perfpy")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
