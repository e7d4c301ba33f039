"""Options of `perfpy trace`: perf trace's names, letters and defaults (perf-trace(1))."""

from __future__ import annotations

import fnmatch
import sys
from contextlib import suppress
from functools import partial
from itertools import islice

from perfpy.abi.light_types import TYPE_CHECKING, NamedTuple
from perfpy.abi.system_calls import calls_of_group, numbers_by_name
from perfpy.cli.line.option_parsing import (
    Attached,
    Choice,
    CommandOptions,
    Counted,
    Flag,
    Listed,
    TaskOptions,
    Value,
    fail,
    option,
    parse_unsigned,
    program_to_run,
)
from perfpy.cli.line.shared_options import InputOptions
from perfpy.errors import OutputFailedError
from perfpy.events.grammar import names_probe
from perfpy.untrusted.destinations import opener
from perfpy.untrusted.text import lines as one_line_each

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType
    from typing import Final, Self, TextIO

    from perfpy.views.pieces import Flat


_BPF: Final = "perfpy has no BPF programs to load for events"
_LACKING: Final = {
    "--map-dump": _BPF,
    "--force-btf": "names of values come from tables that perfpy ships",
    "--print-sample": "it prints perf's internal values; use perfpy script -D",
    "--tool_stats": "perfpy follows descriptors without hooks",
    "--libtraceevent_print": "use perfpy record, then perfpy script",
    "--bpf-summary": _BPF,
    "-D,--delay": "use perfpy trace record -D, then perfpy trace -i",
}


def milliseconds(text: str) -> float:
    """Parse --duration: a number of milliseconds that is not negative."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise ValueError("a number of milliseconds")
    return value


class TraceTargetOptions(TaskOptions):
    """Which tasks and CPUs to trace."""

    all_cpus: bool = option("-a,--all-cpus", Flag(), "trace all CPUs")
    cgroup: str = option("-G,--cgroup", Value(default=""), "trace only the tasks of this cgroup", metavar="<name>")
    no_inherit: bool = option("--no-inherit", Flag(), "do not trace child tasks")
    proc_map_timeout: int = option("--proc-map-timeout", Value(int, default=500), "maps are read at once", hidden=True)
    sort_events: bool = option("--sort-events", Flag(), "lines are in order of time in any case", hidden=True)
    filter_pids: str = option("--filter-pids", Value(default=""), "skip these processes (comma-separated)", metavar="<pid>")
    mmap_pages: str = option("-m,--mmap-pages", Value(default=""), "size of ring buffers in pages, or bytes: 64K, 2M", metavar="<pages>")


class TraceEventOptions(CommandOptions):
    """Which calls and other events to print."""

    event: tuple[str, ...] = option(
        "-e,--event,--expr", Listed(), "calls (openat,mmap*), groups (file), !LIST, events, probes", metavar="<list>", negatable=False
    )
    filter: tuple[str, ...] = option("--filter", Listed(), "filter the tracepoints of the last -e", metavar="<filter>", negatable=False)
    syscalls: bool | None = option("--syscalls", Flag(default=None), "print system calls (default without -F or events in -e)")
    faults: str = option("-F,--pf", Value(Choice("all", "maj", "min"), default=""), "print page faults", metavar="<all|maj|min>")
    strings: bool = option("--strings", Flag(default=True), "read file names and structures, as root (default)")
    failure: bool = option("--failure", Flag(), "print only calls that failed")
    duration: float = option(
        "--duration", Value(milliseconds, default=0.0), "print only calls that took more than n milliseconds", metavar="<n>"
    )
    slowest: int = option("--slowest", Value(parse_unsigned, default=0), "print only the n slowest calls, at the end", metavar="<n>")
    switch_on: str = option("--switch-on", Value(default=""), "print only what happens after this event", metavar="<event>")
    switch_off: str = option("--switch-off", Value(default=""), "print only what happens before this event", metavar="<event>")
    show_on_off_events: bool = option("--show-on-off-events", Flag(), "print the events of --switch-on and --switch-off, too")
    calls: str | None = option("--calls", Attached(""), "show the calls of these functions (-i: of all)", metavar="<functions>")
    calls_from: str = option("--calls-from", Value(default=""), "source of --calls: pt, probes or steps[:TIME]", metavar="<source>")
    when: str = option("--when", Value(default=""), "end --calls with such a call: 'handle > 10ms'", metavar="<condition>")
    last: str = option("--last", Value(default=""), "show the --calls of this time before the end: 10ms", metavar="<time>")
    max_events: int = option("--max-events", Value(parse_unsigned, default=0), "stop after n lines", metavar="<n>")


class TraceStackLimits(CommandOptions):
    """Callchains."""

    call_graph: str | None = option("--call-graph", Value(), "print callchains: fp or dwarf[,bytes]", metavar="<mode>")
    kernel_chains: bool = option("--kernel-syscall-graph", Flag(), "print the kernel's frames of system calls, too")
    max_stack: int = option("--max-stack", Value(parse_unsigned, default=0), "print at most n frames of a callchain", metavar="<n>")
    min_stack: int = option("--min-stack", Value(parse_unsigned, default=0), "print only calls with at least n frames", metavar="<n>")


class TraceTextOptions(CommandOptions):
    """The form of lines and tables."""

    time: bool = option("-T,--time", Flag(), "print times of the clock, not since the first event")
    comm: bool = option("--comm", Flag(default=True), "print the comm of the thread (default)")
    show_cpu: bool = option("--show-cpu", Flag(), "print the CPU")
    summary: bool = option("-s,--summary", Flag(), "print only tables of calls and times by thread")
    with_summary: bool = option("-S,--with-summary", Flag(), "print the calls, then the tables")
    sched: bool = option("--sched", Flag(), "print the time on a CPU of each thread in the tables")
    errno_summary: bool = option("--errno-summary", Flag(), "print the errors of each call in the tables")
    summary_mode: str = option(
        "--summary-mode", Value(Choice("thread", "total"), default=""), "a table for each thread, or one for all", metavar="<mode>"
    )
    max_summary: int = option("--max-summary", Value(parse_unsigned, default=0), "print at most n rows of a table", metavar="<n>")
    percentiles: bool = option("--percentiles", Flag(), "print a table with percentiles and shares of the time")
    histogram: bool = option("--histogram", Flag(), "print the table and a histogram of each call's times")
    html: str = option("--html", Value(default=""), "write a page with a lane of calls for each thread", metavar="<file>")
    chrome_trace: str = option("--chrome-trace", Value(default=""), "write --calls for Perfetto (JSON)", metavar="<file>")
    by: str = option("--by", Value(Choice("path", "peer"), default=""), "print a table by file or by peer address", metavar="<path|peer>")
    json: bool = option("--json", Flag(), "print JSON objects, one a line, on standard output")
    output: str = option("-o,--output", Value(default=""), "write to this file (default: standard error)", metavar="<file>")
    verbose: int = option("-v,--verbose", Counted(), "print more details; repeatable")


class TraceCommandOptions(
    InputOptions,
    TraceTargetOptions,
    TraceEventOptions,
    TraceStackLimits,
    TraceTextOptions,
    lacks=_LACKING,
):
    """Options of `perfpy trace`."""

    workload: tuple[str, ...] = program_to_run()


_PATTERN = frozenset("*?[")
_TRACEPOINT = "syscalls:sys_enter_"


class Selection(NamedTuple):
    """The calls and events to print.

    Attributes:
        calls: names of calls; None for all.
        is_excluded: print all calls but these.
        events: texts of other events.
    """

    calls: frozenset[str] | None
    is_excluded: bool
    events: tuple[str, ...]

    @property
    def has_calls(self) -> bool:
        """Whether any call may be printed."""
        return self.calls is None or self.is_excluded or bool(self.calls)

    def numbers(self, machine: str) -> frozenset[int] | None:
        """Return the numbers of the calls to print; None for all."""
        if self.calls is None:
            return None
        known = numbers_by_name(machine)
        chosen = {known[name] for name in self.calls if name in known}
        return frozenset(known.values()) - chosen if self.is_excluded else frozenset(chosen)


def parse_selection(texts: Iterable[str], machine: str) -> Selection:
    """Parse the texts of -e.

    Words are names of calls, patterns of names, names of groups, or other events. Raises UsageError for one list to print and one to
    exclude.
    """
    calls: set[str] = set()
    events: list[str] = []
    exclusions = set()
    for text in texts:
        is_excluded = text.startswith("!")
        own, others = _split(text.removeprefix("!"), machine)
        if own:
            exclusions.add(is_excluded)
        if is_excluded and others:
            fail(f"-e '!{','.join(others)}': no such system call; ! excludes system calls only")
        calls |= own
        events += others
    if len(exclusions) > 1:
        fail("-e: a list of calls to print and a list to exclude; give one of them")
    if not exclusions and not events:
        return Selection(None, False, ())
    return Selection(frozenset(calls), exclusions == {True}, tuple(events))


def _split(text: str, machine: str) -> tuple[set[str], list[str]]:
    """Return the calls that a list names, and its other words."""
    known = numbers_by_name(machine)
    calls: set[str] = set()
    others: list[str] = []
    for word in split_list(text):
        name = word.removeprefix(_TRACEPOINT)
        if names_probe(word):
            others.append(word)
        elif name in known:
            calls.add(name)
        elif group := calls_of_group(name):
            calls |= group
        elif _PATTERN & set(name) and ":" not in name and (matching := set(fnmatch.filter(known, name))):
            calls |= matching
        else:
            others.append(word)
    return calls, others


def split_list(text: str) -> list[str]:
    """Split a list at commas that are neither between slashes nor between brackets.

    In a probe, slashes are those of the program's path, and a pattern of source lines (;PATTERN) ends with the list.
    """
    words, depth, start, in_terms, is_probe = [], 0, 0, False, names_probe(text)
    for index, letter in enumerate(text):
        if letter == "/" and not is_probe:
            in_terms = not in_terms
        elif letter == ";" and is_probe:
            break
        depth += (letter in "{(") - (letter in "})")
        if letter == "," and not in_terms and depth <= 0:
            words.append(text[start:index])
            start = index + 1
            is_probe, depth = names_probe(text[start:]), 0
    return [word for word in (*words, text[start:]) if word]


_LINES_AT_ONCE: Final = 4096


class TraceOutput:
    """The destination of lines. path: of -o; "" for standard error, "-" for standard output."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: TextIO | None = None

    def __enter__(self) -> Self:
        if self._path not in ("", "-"):
            try:
                self._file = open(self._path, "w", encoding="utf-8", errors="surrogateescape", opener=opener)
            except OSError as error:
                raise OutputFailedError(self._path, error.strerror or str(error)) from None
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._file is not None:
            if isinstance(error, OutputFailedError):  # closing would try to write the rest
                with suppress(OSError):
                    self._file.close()
            else:
                self._named(self._file.close)

    def _named(self, write: Callable[[], object]) -> None:
        """Write, and name the file if that fails."""
        try:
            write()
        except OSError as failure:
            if self._file is None:  # standard output and standard error: the command line reports them
                raise
            raise OutputFailedError(self._path, failure.strerror or str(failure)) from None

    @property
    def stream(self) -> TextIO:
        """The open stream."""
        return self._file or (sys.stdout if self._path == "-" else sys.stderr)

    def write(self, lines: Iterable[str]) -> None:
        """Write lines. Line breaks in names of files and threads do not begin new ones."""
        texts = one_line_each(lines)
        while part := "".join(islice(texts, _LINES_AT_ONCE)):  # standard error is flushed at each line's end
            self._named(partial(self.stream.write, part))
        self._named(self.stream.flush)

    def write_lines(self, lines: Flat, most: int | None = None) -> None:
        """Write lines that are bytes with their line feeds; most: how many, None for all."""
        data = b"".join(lines.parts if most is None else lines.slice(0, most))
        self._named(self.stream.flush)
        self._named(lambda: self.stream.buffer.write(data))
        self._named(self.stream.buffer.flush)
