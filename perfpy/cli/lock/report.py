"""`perfpy lock report` and `perfpy lock info`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.cli.line.opening import open_recording
from perfpy.cli.lock.waits import LockInput, check_key, chosen_fields, print_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfpy.analysis.locks.lock_table import LockRow
    from perfpy.cli.lock.options import LockInfoOptions, LockReportOptions


def report(options: LockReportOptions) -> int:
    """Show the waits for each lock."""
    from perfpy.views.locks.lock_lines import REPORT_FIELDS

    check_key(options.key, REPORT_FIELDS)
    fields = chosen_fields(options.field, REPORT_FIELDS, REPORT_FIELDS)
    with open_recording(options.input, force=options.force, quiet=options.quiet, verbose=options.verbose, keeps_memory=True) as recording:
        from perfpy.analysis.locks.lock_table import sorted_rows
        from perfpy.views.locks.lock_lines import report_lines

        read = LockInput(recording, options)
        rows, name_of = _rows(read, options)
        rows = sorted_rows(rows, options.key)
        print_table(report_lines(rows[: options.entries or None], fields, name_of), options)
    return 0


def _rows(read: LockInput, options: LockReportOptions) -> tuple[list[LockRow], Callable[[LockRow], str]]:
    """Return the rows, and the function that names them."""
    import numpy as np

    from perfpy.analysis.locks.lock_table import in_order_of_locks, make_rows

    waits = read.waits
    everything = np.ones(len(waits.tid), bool)
    if options.threads:
        return make_rows(waits, waits.tid, everything), lambda row: read.comm(int(waits.tid[row.first]))
    names = read.lock_names(waits.lock.tolist())
    if not options.combine_locks:
        return in_order_of_locks(make_rows(waits, waits.lock, everything)), lambda row: names[int(waits.lock[row.first])]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names[lock] for lock in waits.lock.tolist()))}
    keys = np.array([numbers[names[lock]] for lock in waits.lock.tolist()], np.int64)
    return make_rows(waits, keys, everything), lambda row: names[int(waits.lock[row.first])]


def info(options: LockInfoOptions) -> int:
    """List the threads and the locks of a recording."""
    with open_recording(options.input, force=options.force, quiet=options.quiet, verbose=options.verbose, keeps_memory=True) as recording:
        from perfpy.views.locks.lock_lines import address_lines, thread_lines

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
