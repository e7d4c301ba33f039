"""`perfpy lock contention`: waits for locks by caller, thread or lock."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from perfpy.cli.line.opening import open_recording
from perfpy.cli.line.options import fail
from perfpy.cli.lock.waits import LockInput, check_key, chosen_fields, print_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from perfpy.analysis.locks.callers import Callers
    from perfpy.analysis.locks.lock_table import LockRow
    from perfpy.cli.lock.options import LockContentionOptions
    from perfpy.recording import Recording

_FAILURES = ("task", "stack", "time", "data")
_KEYS = ("contended", "wait_total", "wait_max", "wait_min", "avg_wait")


def run(options: LockContentionOptions) -> int:
    """Show the waits for locks by caller, thread or lock."""
    from perfpy.analysis.locks.contention import TYPES
    from perfpy.views.locks.lock_lines import CONTENTION_FIELDS

    check_key(options.key, _KEYS)
    fields = chosen_fields(options.field, _KEYS, CONTENTION_FIELDS)
    types = {word for word in options.type_filter.split(",") if word}
    words = {*TYPES.values(), *(name.partition(":")[0] for name in TYPES.values())}
    for word in types - words:
        fail(f"-Y {word}: unknown type of lock; expected {', '.join(sorted(words))}")
    if options.threads + options.lock_addr + options.lock_owner > 1:
        fail("-t, -l and -o exclude each other")
    with open_recording(options.input, force=options.force, quiet=options.quiet, verbose=options.verbose, keeps_memory=True) as recording:
        needs_chains = bool(options.callstack_filter) or not (options.threads or options.lock_addr or options.lock_owner)
        if options.lock_owner:
            _warn_without_wakeups(recording)
        table = _ContentionTable(LockInput(recording, options, chains=needs_chains, owners=options.lock_owner), options, types)
        print_table(table.lines(fields), options)
    return 0


class _ContentionTable:
    """The rows of one run, and their texts."""

    def __init__(self, read: LockInput, options: LockContentionOptions, types: set[str]) -> None:
        self._read = read
        self._options = options
        self._types = types
        self._waits = read.waits
        self._callers: Callers | None = None
        if read.waits.chains is not None:
            from perfpy.analysis.locks.callers import find_callers

            waits = read.waits
            self._callers = find_callers(
                read.waits.chains, waits.pid, waits.key, read.symbolizer, read.lock_text(),
                max_stack=options.max_stack, skip=options.stack_skip,
            )  # fmt: skip

    def lines(self, fields: Sequence[str]) -> Iterable[str]:
        """Return the lines of the table."""
        from perfpy.analysis.locks.lock_table import sorted_rows
        from perfpy.views.locks.lock_lines import contention_lines, csv_lines

        options = self._options
        all_rows = self._rows()
        rows = sorted_rows(all_rows, options.key)[: options.entries or None]
        texts, titles, headings = self._texts()
        if options.field_separator:
            yield from csv_lines(rows, fields, options.field_separator, headings, texts)
            if options.verbose:
                yield f"# debug: total={len(all_rows)}, bad=0, bad_task=0, bad_stack=0, bad_time=0, bad_data=0"
            return
        yield from contention_lines(rows, fields, titles, self._aligned(texts))
        if options.verbose:
            yield from _debug_lines(len(all_rows))

    def _rows(self) -> list[LockRow]:
        from perfpy.analysis.locks.lock_table import in_order_of_locks, make_rows

        waits, options = self._waits, self._options
        chosen = self._chosen()
        if options.threads:
            return make_rows(waits, waits.tid, chosen)
        if options.lock_owner and waits.owner is not None:
            return make_rows(waits, waits.owner, chosen)
        if options.lock_addr:
            return in_order_of_locks(make_rows(waits, waits.lock, chosen))
        callers = self._callers
        keys = [] if callers is None else [callers.keys[which] for which in callers.which.tolist()]
        return make_rows(waits, keys, chosen)

    def _chosen(self) -> NDArray[np.bool_]:
        """Return which waits the filters leave."""
        import numpy as np

        from perfpy.analysis.locks.contention import type_of

        waits, options = self._waits, self._options
        chosen = np.ones(len(waits.tid), bool)
        if self._types:
            flags = [flag for flag in np.unique(waits.flags).tolist() if {type_of(flag), type_of(flag).partition(":")[0]} & self._types]
            chosen &= np.isin(waits.flags, flags)
        if options.lock_filter:
            words = set(options.lock_filter.split(","))
            names = self._read.lock_names(waits.lock.tolist())
            numbers = {int(word, 16) for word in words if _is_address(word)}
            locks = [lock for lock, name in names.items() if lock in numbers or name in words]
            chosen &= np.isin(waits.lock, np.array(locks, np.uint64))
        if options.callstack_filter and self._callers is not None:
            functions = set(options.callstack_filter.split(","))
            hits = [any(text.partition("+")[0] in functions for _, text in frames) for frames in self._callers.frames]
            chosen &= np.array(hits, bool)[self._callers.which]
        return chosen

    def _texts(self) -> tuple[Callable[[LockRow], Sequence[str]], str, Sequence[str]]:
        """Return the texts of a row's last columns, their titles in the table, and those in CSV."""
        from perfpy.analysis.locks.contention import type_of

        waits, options, callers = self._waits, self._options, self._callers
        if options.threads:
            tids = waits.tid
            return (lambda row: (str(int(tids[row.first])), self._read.comm(int(tids[row.first])))), f"{'pid':>12}   comm", ("pid", "comm")
        if options.lock_owner and waits.owner is not None:
            owners = waits.owner
            return (lambda row: self._owner_texts(int(owners[row.first]))), f"{'pid':>12}   owner", ("pid", "owner")
        if options.lock_addr:
            names = self._read.lock_names(waits.lock.tolist())

            def lock_texts(row: LockRow) -> Sequence[str]:
                lock, kind = int(waits.lock[row.first]), type_of(int(waits.flags[row.first])).partition(":")[0]
                return f"{lock:016x}", names[lock], kind

            return lock_texts, f"{'address':>18}   symbol", ("address", "symbol", "type")

        def caller_texts(row: LockRow) -> Sequence[str]:
            name = callers.names[int(callers.which[row.first])] if callers is not None else "Unknown"
            return type_of(int(waits.flags[row.first])), name

        return caller_texts, f"{'type':>12}   caller", ("type", "caller")

    def _owner_texts(self, tid: int) -> Sequence[str]:
        return str(tid), self._read.name(tid) if tid >= 0 else "Unknown"

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
    from perfpy.analysis.locks.contention import wakeup_of
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


def _debug_lines(total: int) -> Iterator[str]:
    """Yield perf's counts of inconsistent events; none is, because waits without begin or end are left out."""
    histograms = (("events caused bad sequence", ("acquire", "acquired", "contended", "release")), ("failure reasons", _FAILURES))
    for title, names in histograms:
        yield from ("", "=== output for debug ===", "", f"bad: 0, total: {total}", "bad rate: 0.00 %", f"histogram of {title}")
        yield from (f"{name:>11}: 0" for name in names)
