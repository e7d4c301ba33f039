"""`perfpy lock`: waits for the kernel's locks. Options are perf lock's (perf-lock(1)), tables byte for byte perf 6.12's."""

from __future__ import annotations

import sys
from functools import cached_property, partial

from perfpy.abi.flags import MISC_KERNEL, RecordType
from perfpy.abi.light_types import TYPE_CHECKING, NamedTuple
from perfpy.cli.forwarded_actions import OtherCommand, record_arguments
from perfpy.cli.line.input_recording import open_recording
from perfpy.cli.line.option_parsing import Flag, Listed, Value, fail, option, parse_unsigned
from perfpy.cli.line.shared_options import DumpOptions, InputOptions, KernelSymbolOptions, QuietOptions, VerboseOptions, kernel_symbolizer
from perfpy.cli.line.subcommands import Action, CommandWithActions
from perfpy.errors import PerfError, RefusedOptionsError
from perfpy.untrusted.text import indented, one_line
from perfpy.untrusted.text import lines as one_line_each

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Final

    import numpy as np
    from numpy.typing import NDArray

    from perfpy.abi.columns import Ragged
    from perfpy.analysis.lock_waits import LockWaits
    from perfpy.recording import Recording
    from perfpy.symbols.address_spaces import TaskTimeline
    from perfpy.symbols.symbolizer import Symbolizer

    StackOf = Callable[["LockRow"], Sequence[tuple[int, str]]]

_BPF: Final = "it needs perf's BPF programs; record, then lock contention -i FILE"
_LACKING: Final[Mapping[str, str]] = {
    **dict.fromkeys(("-b,--use-bpf", "-a,--all-cpus", "-C,--cpu", "-p,--pid", "--tid", "-M,--map-nr-entries"), _BPF),
    **dict.fromkeys(("-G,--cgroup-filter", "--lock-cgroup"), _BPF),
}


class LockOptions(InputOptions, QuietOptions, VerboseOptions, DumpOptions, KernelSymbolOptions):
    """Options of all actions."""

    output: str = option("--output", Value(default=""), "write the text to this file", metavar="<file>")


class LockReportOptions(LockOptions):
    """Options of `perfpy lock report`."""

    key: str = option("-k,--key", Value(default="acquired"), "sort by this field", metavar="<acquired>")
    field: str = option("-F,--field", Value(default=""), "show these fields, such as acquired,contended,avg_wait", metavar="<fields>")
    threads: bool = option("-t,--threads", Flag(), "one row per thread")
    combine_locks: bool = option("-c,--combine-locks", Flag(), "one row for all locks of the same name")
    entries: int = option("-E,--entries", Value(parse_unsigned, default=0), "show at most n rows", metavar="<n>")


class LockInfoOptions(LockOptions):
    """Options of `perfpy lock info`."""

    threads: bool = option("-t,--threads", Flag(), "list only the threads")
    map: bool = option("-m,--map", Flag(), "list only the locks")


class LockContentionOptions(LockOptions, lacks=_LACKING):
    """Options of `perfpy lock contention`."""

    key: str = option("-k,--key", Value(default="wait_total"), "sort by this field", metavar="<wait_total>")
    field: str = option("-F,--field", Value(default=""), "show these fields, such as contended,wait_total", metavar="<fields>")
    threads: bool = option("-t,--threads", Flag(), "one row per thread")
    lock_owner: bool = option("-o,--lock-owner", Flag(), "one row per thread that held a lock")
    lock_addr: bool = option("-l,--lock-addr", Flag(), "one row per lock")
    entries: int = option("-E,--entries", Value(parse_unsigned, default=0), "show at most n rows", metavar="<n>")
    max_stack: int = option("--max-stack", Value(parse_unsigned, default=8), "use n functions of a callchain (default: 8)", metavar="<num>")
    stack_skip: int = option(
        "--stack-skip", Value(parse_unsigned, default=4), "skip n functions for the caller (default: 4)", metavar="<n>"
    )
    type_filter: tuple[str, ...] = option("-Y,--type-filter", Listed(), "only these types of locks", metavar="<FLAGS>")
    lock_filter: tuple[str, ...] = option("-L,--lock-filter", Listed(), "only these locks: addresses or symbols", metavar="<ADDRS/NAMES>")
    callstack_filter: tuple[str, ...] = option("-S,--callstack-filter", Listed(), "only waits in these functions", metavar="<NAMES>")
    field_separator: str = option("-x,--field-separator", Value(default=""), "print values with this separator", metavar="<separator>")


def report(options: LockReportOptions) -> int:
    """Show the waits for each lock."""
    fields = chosen_fields(options.field, options.key, REPORT_FIELDS, REPORT_FIELDS)
    with open_recording(options.input, force=options.force, quiet=options.quiet, verbose=options.verbose, keeps_memory=True) as recording:
        read = LockInput(recording, options)
        rows, name_of = _rows(read, options)
        shown = sorted_rows((row for row in rows if row.acquired), options.key)[: options.entries or None]
        lines = report_lines(shown, fields, name_of, with_titles=not options.quiet)
        total = len(shown if len(shown) == options.entries else rows)  # as perf, which counts up to the last row that it prints
        print_table((*lines, *_debug_lines(total, (_SEQUENCES,))) if options.verbose and not options.quiet else lines, options)
    return 0


def info(options: LockInfoOptions) -> int:
    """List the threads and the locks of a recording."""
    with open_recording(options.input, force=options.force, quiet=options.quiet, verbose=options.verbose, keeps_memory=True) as recording:
        read = LockInput(recording, options)
        lines: list[str] = []
        if options.threads or not options.map:
            lines += thread_lines((tid, read.comm(tid)) for tid in read.waits.tids.tolist())
        if not options.threads and not options.map:
            lines.append("")
        if options.map or not options.threads:
            lines += address_lines(sorted(read.lock_names(read.waits.lock.tolist()).items()))
        print_table(lines, options)
    return 0


_KEYS = ("contended", "wait_total", "wait_max", "wait_min", "avg_wait")


def contention(options: LockContentionOptions) -> int:
    """Show the waits for locks by caller, thread or lock."""
    from perfpy.analysis.lock_waits import TYPES

    fields = chosen_fields(options.field, options.key, _KEYS, CONTENTION_FIELDS)
    types = {"pcpu-sem" if word == "percpu-rwsem" else word for word in words_of(options.type_filter)}  # perf 6.12's name without :R or :W
    words = {*TYPES.values(), *(name.partition(":")[0] for name in TYPES.values())}
    for word in types - words:
        fail(f"-Y {word}: unknown type of lock; expected {', '.join(sorted(words))}")
    if any(sign in options.field_separator for sign in ":+."):
        raise PerfError(f"-x {options.field_separator}: types of locks have :, callers +, and functions .; use another separator")
    if options.threads + options.lock_addr + options.lock_owner > 1:
        raise PerfError("-t, -l and -o exclude each other")
    with open_recording(options.input, force=options.force, quiet=options.quiet, verbose=options.verbose, keeps_memory=True) as recording:
        needs_chains = bool(options.callstack_filter) or not (options.threads or options.lock_addr or options.lock_owner)
        if options.lock_owner:
            _warn_without_wakeups(recording)
        table = _ContentionTable(LockInput(recording, options, chains=needs_chains, owners=options.lock_owner), options, types)
        print_table(table.lines(fields), options)
    return 0


command = CommandWithActions(
    LockOptions,
    {
        "record": OtherCommand("record", "record the waits for locks in the kernel", partial(record_arguments, "lock")),
        "report": Action(LockReportOptions, report, "the waits for each lock, or of each thread"),
        "info": Action(LockInfoOptions, info, "the threads and the locks"),
        "contention": Action(LockContentionOptions, contention, "the waits by caller, thread or lock"),
        "script": OtherCommand("script", "every event as a line of text"),
    },
    "Show the waits for the kernel's locks. The tables go to standard error, as perf's do.",
)


def _rows(read: LockInput, options: LockReportOptions) -> tuple[list[LockRow], Callable[[LockRow], str]]:
    """Return the rows, and the function that names them."""
    import numpy as np

    waits = read.waits
    everything = np.ones(len(waits.tid), bool)
    if options.threads:
        return in_order_of_keys(make_rows(waits, waits.tid, everything)), lambda row: read.comm(int(waits.tid[row.first]))
    names = read.lock_names(waits.lock.tolist())
    if not options.combine_locks:
        return in_order_of_keys(make_rows(waits, waits.lock, everything)), lambda row: names[int(waits.lock[row.first])]
    first_row: dict[str, int] = {}  # a name -> the rank of the first of its locks
    for row in in_order_of_keys(make_rows(waits, waits.lock, everything)):
        first_row.setdefault(names[int(waits.lock[row.first])], len(first_row))
    keys = np.array([first_row[names[lock]] for lock in waits.lock.tolist()], np.int64)
    rows = sorted(make_rows(waits, keys, everything), key=lambda row: row.key)
    return rows, lambda row: names[int(waits.lock[row.first])]


class _ContentionTable:
    """The rows of one run, and their texts."""

    def __init__(self, read: LockInput, options: LockContentionOptions, types: set[str]) -> None:
        self._read = read
        self._options = options
        self._types = types
        self._waits = read.waits
        self._callers: Callers | None = None
        if read.waits.chains is not None:
            waits = read.waits
            self._callers = find_callers(
                read.waits.chains, waits.pid, waits.key, read.symbolizer, read.lock_text(),
                max_stack=options.max_stack, skip=options.stack_skip,
            )  # fmt: skip

    def lines(self, fields: Sequence[str]) -> Iterable[str]:
        """Return the lines of the table."""
        options = self._options
        all_rows = self._rows()
        ended = [row for row in all_rows if row.acquired]  # as in perf, waits without an end have no row
        rows = sorted_rows(ended, options.key)[: options.entries or None]
        texts, titles, headings = self._texts()
        is_debugged = options.verbose and not options.quiet
        stack_of = self._stack if options.verbose and options.callstack_filter and headings[-1] == "caller" else None
        if options.field_separator:
            if options.verbose and headings[-1] == "caller":
                headings = (*headings, "stacktrace")
            yield from csv_lines(rows, fields, options.field_separator, headings, texts, stack_of, with_titles=not options.quiet)
            if is_debugged:
                yield f"# debug: total={len(all_rows)}, bad=0, " + ", ".join(f"bad_{name}=0" for name in _SEQUENCES[1])
            return
        yield from contention_lines(rows, fields, titles, self._aligned(texts), stack_of, with_titles=not options.quiet)
        if is_debugged:
            yield from _debug_lines(len(all_rows), (_SEQUENCES, _FAILURES))

    def _rows(self) -> list[LockRow]:
        waits, options = self._waits, self._options
        chosen = self._chosen()
        if options.threads:
            return in_order_of_keys(make_rows(waits, waits.tid, chosen))
        if options.lock_owner and waits.owner is not None:
            return make_rows(waits, waits.owner, chosen)
        if options.lock_addr:
            return in_order_of_keys(make_rows(waits, waits.lock, chosen))
        callers = self._callers
        keys = [] if callers is None else [callers.keys[which] for which in callers.which.tolist()]
        return in_order_of_keys(make_rows(waits, keys, chosen), _CALLER_KEY)

    def _chosen(self) -> NDArray[np.bool_]:
        """Return which waits the filters leave."""
        import numpy as np

        from perfpy.analysis.lock_waits import type_of

        waits, options = self._waits, self._options
        chosen = np.ones(len(waits.tid), bool)
        if self._types:
            flags = [flag for flag in np.unique(waits.flags).tolist() if {type_of(flag), type_of(flag).partition(":")[0]} & self._types]
            chosen &= np.isin(waits.flags, flags)
        if options.lock_filter:
            words = set(words_of(options.lock_filter))
            names = self._read.lock_names(waits.lock.tolist())
            numbers = {int(word, 16) for word in words if _is_address(word)}
            locks = [lock for lock, name in names.items() if lock in numbers or name in words]
            for word in sorted(words - set(names.values())):
                if not _is_address(word):
                    print(f"Warning: -L {word}: no lock of this recording has this name", file=sys.stderr)
            chosen &= np.isin(waits.lock, np.array(locks, np.uint64))
        if options.callstack_filter and self._callers is not None:
            parts = words_of(options.callstack_filter)
            hits = [any(part in text.rpartition("+")[0] for _, text in frames for part in parts) for frames in self._callers.frames]
            chosen &= np.array(hits, bool)[self._callers.which]
        return chosen

    def _texts(self) -> tuple[Callable[[LockRow], Sequence[str]], str, Sequence[str]]:
        """Return the texts of a row's last columns, their titles in the table, and those in CSV."""
        from perfpy.analysis.lock_waits import type_of

        waits, options, callers = self._waits, self._options, self._callers
        if options.threads:
            tids = waits.tid
            return (lambda row: (str(int(tids[row.first])), self._read.comm(int(tids[row.first])))), f"{'pid':>12}   comm", ("pid", "comm")
        if options.lock_owner and waits.owner is not None:
            owners = waits.owner

            def owner_texts(row: LockRow) -> Sequence[str]:
                tid = int(owners[row.first])
                return str(tid), self._read.name(tid) if tid >= 0 else UNKNOWN

            return owner_texts, f"{'pid':>12}   owner", ("pid", "owner")
        if options.lock_addr:
            names = self._read.lock_names(waits.lock.tolist())

            def lock_texts(row: LockRow) -> Sequence[str]:
                lock, kind = int(waits.lock[row.first]), type_of(int(waits.flags[row.first])).partition(":")[0]
                return f"{lock:016x}", names[lock], kind

            return lock_texts, f"{'address':>18}   symbol", ("address", "symbol", "type")

        def caller_texts(row: LockRow) -> Sequence[str]:
            name = callers.names[int(callers.which[row.first])] if callers is not None else UNKNOWN
            return type_of(int(waits.flags[row.first])), name

        return caller_texts, f"{'type':>12}   caller", ("type", "caller")

    def _stack(self, row: LockRow) -> Sequence[tuple[int, str]]:
        """Return the addresses and functions of the callchain of a row's first wait."""
        return self._callers.frames[int(self._callers.which[row.first])] if self._callers is not None else ()

    def _aligned(self, texts: Callable[[LockRow], Sequence[str]]) -> Callable[[LockRow], str]:
        """Return the function from a row to its last columns in the table."""

        def text(row: LockRow) -> str:
            first, *others = texts(row)
            if self._options.lock_addr:
                name, kind = others
                return f"  {first}   {name} ({kind})"
            return f"{first:>12}   {others[0]}"

        return text


def _warn_without_wakeups(recording: Recording) -> None:
    """Tell how to record the wakeups that name most owners."""
    from perfpy.analysis.lock_waits import wakeup_of
    from perfpy.perfdata.tracepoint_rows import tracepoints_of

    name = wakeup_of(recording.data)
    if name not in tracepoints_of(recording.data):
        remedy = f"record them: perfpy lock record -e {name} -- COMMAND"
        print(f"Warning: no {name} events, so only holders that waited themselves are known; {remedy}", file=sys.stderr)


def _is_address(word: str) -> bool:
    try:
        int(word, 16)
    except ValueError:
        return False
    return True


_SEQUENCES: Final = ("events caused bad sequence", ("acquire", "acquired", "contended", "release"))
_FAILURES: Final = ("failure reasons", ("task", "stack", "time", "data"))


def _debug_lines(total: int, counters: Iterable[tuple[str, Iterable[str]]]) -> Iterator[str]:
    """Yield perf's counts of inconsistent events; none is, because waits without begin or end are left out."""
    for title, names in counters:
        yield from ("", "=== output for debug ===", "", f"bad: 0, total: {total}", "bad rate: 0.00 %", f"histogram of {title}")
        yield from (f"{name:>11}: 0" for name in names)


#: starts and ends of the kernel's text of mutexes and semaphores (with the scheduler's) and of spinlocks
_SECTIONS: Final = ("__sched_text_start", "__sched_text_end", "__lock_text_start", "__lock_text_end")
_TRACEPOINT_CODE: Final = ("__traceiter_contention_begin", "trace_contention_begin")


class LockInput:
    """The waits of an open recording, with names of locks and threads."""

    def __init__(self, recording: Recording, options: LockOptions, *, chains: bool = False, owners: bool = False) -> None:
        from perfpy.analysis.lock_waits import read_waits

        self._recording = recording
        self._options = options
        options.dump(recording)
        self.waits: LockWaits = read_waits(recording.data, chains=chains, owners=owners)

    @cached_property
    def symbolizer(self) -> Symbolizer:
        """The symbols of the recording."""
        return kernel_symbolizer(self._options, self._recording, force=self._options.force)

    def comm(self, tid: int) -> str:
        """Return the last name that a COMM record gave a thread; new threads have none, as in perf."""
        return self._comms.get(tid, f":{tid}") if tid else "swapper"

    def name(self, tid: int) -> str:
        """Return the last name of a thread, also one that it has from its parent."""
        return self._timeline.last_comm(tid) if tid else "swapper"

    @cached_property
    def _timeline(self) -> TaskTimeline:
        return self._recording.make_timeline(keep_exited=True)

    @cached_property
    def _comms(self) -> dict[int, str]:
        return {side.record.tid: side.record.comm for side in self._recording.data.side_band({RecordType.COMM})}

    def lock_names(self, addresses: Iterable[int]) -> dict[int, str]:
        """Return the symbols of locks, "" for locks without one."""
        import numpy as np

        distinct = np.array(sorted(set(addresses)), np.uint64)
        count = len(distinct)
        ids = self.symbolizer.frame_ids(
            np.full(count, -1, np.int32),
            distinct,
            np.full(count, np.iinfo(np.uint64).max >> 1, np.uint64),
            np.full(count, MISC_KERNEL, np.uint8),
        )
        self.symbolizer.resolve()
        symbols = self.symbolizer.frames.symbol[ids].tolist()
        names = [self.symbolizer.symbols.name(symbol) if symbol >= 0 else "" for symbol in symbols]
        return dict(zip(distinct.tolist(), names, strict=True))

    def lock_text(self) -> LockText:
        """Return the ranges of the kernel's lock functions, of the scheduler and of the tracepoint, by the recording's symbols."""
        extents = self.symbolizer.kernel_ranges((*_SECTIONS, *_TRACEPOINT_CODE))
        pairs = [
            (extents[start][0], extents[end][0])
            for start, end in zip(_SECTIONS[::2], _SECTIONS[1::2], strict=True)
            if {start, end} <= extents.keys()
        ]
        return LockText((*pairs, *(extents[name] for name in _TRACEPOINT_CODE if name in extents)))


def chosen_fields(text: str, key: str, known: tuple[str, ...], default: tuple[str, ...]) -> tuple[str, ...]:
    """Return the fields of -F, with the sort key as the last one if it is not among them. Rejects unknown names."""
    fields = tuple(dict.fromkeys(word for word in text.split(",") if word)) or default
    for field in fields:
        if field not in known:
            raise RefusedOptionsError(f"-F {field}: unknown field; expected {', '.join(known)}")
    if key not in known:
        raise RefusedOptionsError(f"-k {key}: unknown sort key; expected {', '.join(known)}")
    return fields if key in fields else (*fields, key)


def words_of(texts: Iterable[str]) -> list[str]:
    """Return the words of a filter that is given several times, between commas or blanks."""
    return " ".join(texts).replace(",", " ").split()


def print_table(lines: Iterable[str], options: LockOptions) -> None:
    """Print lines to standard error, as perf does, or to the file of --output."""
    if options.output:
        from perfpy.cli.output.output_files import write_text

        write_text(options.output, (f"{one_line(line)}\n" for line in lines))
        return
    sys.stdout.flush()
    sys.stderr.writelines(one_line_each(lines))


_HASH: Final = 0x61C8864680B583EB  # hash_long of include/linux/hash.h
_WORD: Final = (1 << 64) - 1
_CALLER_KEY: Final = (1 << 32) - 1
_BUCKET_SHIFT: Final = 52


class LockRow(NamedTuple):
    """The waits of one caller, thread or lock. Times are nanoseconds.

    Attributes:
        key: a number that identifies the row: of its caller, thread or lock.
        first: the index of its first wait.
        acquired: the waits that ended.
        contended: all waits.
        total, longest, shortest: of the waits that ended.
    """

    key: int
    first: int
    acquired: int
    contended: int
    total: int
    longest: int
    shortest: int

    @property
    def average(self) -> int:
        """The average wait, rounded down."""
        return self.total // self.acquired if self.acquired else 0


#: sort keys and fields, by perf's names
VALUES: dict[str, Callable[[LockRow], int]] = {
    "acquired": lambda row: row.acquired,
    "contended": lambda row: row.contended,
    "avg_wait": lambda row: row.average,
    "wait_total": lambda row: row.total,
    "wait_max": lambda row: row.longest,
    "wait_min": lambda row: row.shortest,
}


def make_rows(waits: LockWaits, keys: Sequence[int] | NDArray[np.uint64] | NDArray[np.int64], chosen: NDArray[np.bool_]) -> list[LockRow]:
    """Return a row for each key, by first wait.

    Args:
        waits: of a recording.
        keys: of each wait.
        chosen: mask of the waits that count.
    """
    import numpy as np

    rows = np.flatnonzero(chosen)
    if not len(rows):
        return []
    own = np.array([key & ((1 << 64) - 1) for key in keys], np.uint64) if not isinstance(keys, np.ndarray) else keys.astype(np.uint64)
    order = rows[np.argsort(own[rows], kind="stable")]
    begins = np.flatnonzero(np.append(True, own[order][1:] != own[order][:-1]))
    duration = waits.duration[order]
    ended = duration >= 0
    counts = np.diff(np.append(begins, len(order)))
    columns = (
        np.add.reduceat(ended.astype(np.int64), begins),
        counts,
        np.add.reduceat(np.where(ended, duration, 0), begins),
        np.maximum.reduceat(np.where(ended, duration, 0), begins),
        np.minimum.reduceat(np.where(ended, duration, np.iinfo(np.int64).max), begins),
    )
    values = zip(own[order[begins]].tolist(), order[begins].tolist(), *(column.tolist() for column in columns), strict=True)
    lock_rows = [LockRow(*row) for row in values]
    lock_rows = [row._replace(shortest=row.shortest if row.acquired else 0) for row in lock_rows]
    return sorted(lock_rows, key=lambda row: row.first)


def in_order_of_keys(rows: Iterable[LockRow], mask: int = _WORD) -> list[LockRow]:
    """Return rows in perf's order of equal rows: that of its table of 4,096 buckets, new rows first in their bucket.

    mask: the bits of the keys that count; perf keeps 32 bits of those of callers.
    """
    return sorted(sorted(rows, key=lambda row: -row.first), key=lambda row: ((row.key & mask) * _HASH & _WORD) >> _BUCKET_SHIFT)


def sorted_rows(rows: Iterable[LockRow], key: str) -> list[LockRow]:
    """Return the rows, highest value first."""
    value = VALUES[key]
    return sorted(rows, key=lambda row: -value(row))


UNKNOWN: Final = "Unknown"
_NONE: Final = -1
_KERNEL_LEVEL: Final = ord("k")


class LockText(NamedTuple):
    """The kernel's address ranges of lock and scheduler functions, which never count as callers."""

    ranges: tuple[tuple[int, int], ...] = ()

    def has(self, address: int) -> bool:
        """Whether an address is in one of the ranges."""
        return any(start <= address < end for start, end in self.ranges)


class Callers(NamedTuple):
    """The callers of waits.

    Attributes:
        which: int64[n], index of each wait's caller.
        names: of the callers: function+0xOFFSET.
        keys: numbers that are equal for equal callchains below the caller.
        frames: the (address, function) of each callchain.
    """

    which: NDArray[np.int64]
    names: list[str]
    keys: list[int]
    frames: list[list[tuple[int, str]]]


def find_callers(
    chains: Ragged,
    pid: NDArray[np.int64],
    key: NDArray[np.uint64],
    symbolizer: Symbolizer,
    lock_text: LockText,
    *,
    max_stack: int,
    skip: int,
) -> Callers:
    """Return the caller of each wait: the first function of its callchain below the lock's own functions.

    Args:
        chains, pid, key: of the waits.
        symbolizer: of the recording.
        lock_text: functions that are no callers.
        max_stack: the most frames of a callchain.
        skip: frames at the top that are no callers.
    """
    import numpy as np

    from perfpy.analysis.callchains import frames_of

    ids, counts = frames_of(chains, pid.astype(np.int32), key, symbolizer, max_stack)
    symbolizer.resolve()
    starts = np.cumsum(counts) - counts
    width = min(max_stack, int(counts.max(initial=0)))
    matrix = np.full((len(counts), max(width, 1)), _NONE, np.int32)
    for level in range(width):
        rows = np.flatnonzero(counts > level)
        matrix[rows, level] = ids[starts[rows] + level]
    distinct, which = np.unique(matrix, axis=0, return_inverse=True)
    callers = [_caller(row, symbolizer, lock_text, skip) for row in distinct.tolist()]
    return Callers(which.ravel().astype(np.int64), [one[0] for one in callers], [one[1] for one in callers], [one[2] for one in callers])


def _caller(row: Sequence[int], symbolizer: Symbolizer, lock_text: LockText, skip: int) -> tuple[str, int, list[tuple[int, str]]]:
    name, key, frames = "", 0, []
    for level, frame in enumerate(row):
        if frame == _NONE:
            break
        address, symbol = int(symbolizer.frames.ip[frame]), int(symbolizer.frames.symbol[frame])
        function = symbolizer.symbols.name(symbol) if symbol >= 0 else ""
        offset = int(symbolizer.frames.symbol_offset[frame])
        in_kernel = int(symbolizer.frames.level[frame]) == _KERNEL_LEVEL
        frames.append((address, f"{function}+0x{offset:x}" if function and in_kernel else ""))
        if level < skip or (function and lock_text.has(address)):
            continue
        key ^= address * _HASH & _WORD
        if not name and function and in_kernel:
            name = f"{function}+0x{offset:x}"
    return name or UNKNOWN, key, frames


_TITLES: Final = {
    "acquired": ("acquired", 10),
    "contended": ("contended", 10),
    "avg_wait": ("avg wait", 12),
    "wait_total": ("total wait", 12),
    "wait_max": ("max wait", 12),
    "wait_min": ("min wait", 12),
}
_UNITS: Final = ((3_600_000_000_000, "h "), (60_000_000_000, "m "), (1_000_000_000, "s "), (1_000_000, "ms"), (1_000, "us"))
_NAME_WIDTH: Final = 20
_SHORTENED: Final = 16
#: the fields of contention and of report, by default
CONTENTION_FIELDS: Final = ("contended", "wait_total", "wait_max", "avg_wait")
REPORT_FIELDS: Final = ("acquired", "contended", "avg_wait", "wait_total", "wait_max", "wait_min")


def duration_text(nanoseconds: int, width: int) -> str:
    """Return a duration with its unit.

    >>> duration_text(834007492, 12), duration_text(1630000000, 12)
    ('   834.01 ms', '     1.63 s ')
    """
    import numpy as np

    for size, unit in _UNITS:
        if nanoseconds >= size:
            return f"{float(np.float32(nanoseconds / size)):{width - 3}.2f} {unit}"  # perf prints a number of single precision
    return f"{nanoseconds:{width - 3}d} ns"


def _values(row: LockRow, fields: Sequence[str]) -> str:
    texts = []
    for field in fields:
        value, width = VALUES[field](row), _TITLES[field][1]
        texts.append(duration_text(value, width) if field not in ("acquired", "contended") else f"{value:{width}d}")
    return "".join(f"{text} " for text in texts)


def _titles(fields: Sequence[str]) -> str:
    return "".join(f"{_TITLES[field][0]:>{_TITLES[field][1]}} " for field in fields)


def report_lines(
    rows: Iterable[LockRow], fields: Sequence[str], name_of: Callable[[LockRow], str], *, with_titles: bool = True
) -> Iterator[str]:
    """Yield the table of `lock report`; name_of: the name of a row's lock or thread."""
    if with_titles:
        yield from (f"{'Name':>{_NAME_WIDTH}} {_titles(fields)}", "")
    for row in rows:
        name = one_line(name_of(row))
        if len(name) >= _NAME_WIDTH:
            name = name[:_SHORTENED] + "..."
        yield f"{indented(name, _NAME_WIDTH)} {_values(row, fields)}"


def contention_lines(
    rows: Iterable[LockRow],
    fields: Sequence[str],
    last_titles: str,
    text_of: Callable[[LockRow], str],
    stack_of: StackOf | None = None,
    *,
    with_titles: bool = True,
) -> Iterator[str]:
    """Yield the table of `lock contention`.

    Args:
        rows: sorted.
        fields: of the columns.
        last_titles: the titles of the last columns.
        text_of: the text of a row's last columns.
        stack_of: the callchain that is listed below a row.
        with_titles: whether the titles come first.
    """
    if with_titles:
        yield from (f"{_titles(fields)}{last_titles}", "")
    for row in rows:
        yield f"{_values(row, fields)}{one_line(text_of(row))}"
        if stack_of is not None:
            yield from (f"\t\t\t{address:#x}  {one_line(function)}" for address, function in stack_of(row))


def csv_lines(
    rows: Iterable[LockRow],
    fields: Sequence[str],
    separator: str,
    titles: Sequence[str],
    texts_of: Callable[[LockRow], Sequence[str]],
    stack_of: StackOf | None = None,
    *,
    with_titles: bool = True,
) -> Iterator[str]:
    """Yield the same as values between separators, in nanoseconds."""
    if with_titles:
        yield "# output: " + f"{separator} ".join((*(_TITLES[field][0] for field in fields), *titles))
    for row in rows:
        values = [*(str(VALUES[field](row)) for field in fields), *(one_line(text) for text in texts_of(row))]
        if stack_of is not None:
            values.append(": ".join(f"{address:#x} {one_line(function)}" for address, function in stack_of(row)))
        yield f"{separator} ".join(values)


def thread_lines(threads: Iterable[tuple[int, str]]) -> Iterator[str]:
    """Yield the list of threads of `lock info`."""
    yield f"{'Thread ID':>10}: comm"
    for tid, comm in threads:
        yield f"{tid:10d}: {one_line(comm)}"


def address_lines(locks: Iterable[tuple[int, str]]) -> Iterator[str]:
    """Yield the list of locks of `lock info`."""
    yield "Address of instance: name of class"
    for address, name in locks:
        yield f" {address:#x}: {one_line(name)}"
