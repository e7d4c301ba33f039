"""`perfpy kwork report`, `latency` and `timehist`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.cli.kwork.options import KINDS, kinds_of
from perfpy.cli.kwork.work import WorkInput, sort_keys
from perfpy.cli.line.opening import open_recording
from perfpy.cli.line.options import fail
from perfpy.cli.output.terminal import print_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perfpy.analysis.kernel_work.works import WorkRow
    from perfpy.cli.kwork.options import KworkLatencyOptions, KworkOptions, KworkReportOptions, KworkTimehistOptions
    from perfpy.recording import Recording


def report(options: KworkReportOptions) -> int:
    """Show how long the kernel worked."""
    keys = sort_keys(options.sort, ("runtime", "max", "count"), "runtime")
    kinds = _kinds(options)
    with open_recording(options.input, force=options.force, verbose=options.verbose, keeps_memory=True) as recording:
        from perfpy.analysis.kernel_work.events import ENTRY, EXIT
        from perfpy.analysis.kernel_work.works import find_intervals, make_rows, sorted_rows, total_of
        from perfpy.views.kernel_work.work_tables import runtime_lines, skipped_lines

        _check(recording, options, kinds)
        read = WorkInput(recording, options, kinds, (ENTRY, EXIT))
        intervals = find_intervals(read.events, read.work, ENTRY, EXIT)
        rows = make_rows(read.events, read.work, intervals)
        totals = total_of(rows, read.events) if options.with_summary else None
        print_lines(runtime_lines(sorted_rows(rows, keys), lambda row: _label(read, row), totals))
        print_lines(skipped_lines(intervals.skipped, _record_count(recording)))
    return 0


def latency(options: KworkLatencyOptions) -> int:
    """Show how long work waited until it began."""
    keys = sort_keys(options.sort, ("avg", "max", "count"), "avg")
    kinds = _kinds(options)
    with open_recording(options.input, force=options.force, verbose=options.verbose, keeps_memory=True) as recording:
        from perfpy.analysis.kernel_work.events import ENTRY, RAISE
        from perfpy.analysis.kernel_work.works import find_intervals, make_rows, sorted_rows
        from perfpy.views.kernel_work.work_tables import delay_lines, skipped_lines

        _check(recording, options, kinds)
        read = WorkInput(recording, options, kinds, (RAISE, ENTRY))
        intervals = find_intervals(read.events, read.work, RAISE, ENTRY)
        rows = make_rows(read.events, read.work, intervals)
        print_lines(delay_lines(sorted_rows(rows, keys), lambda row: _label(read, row)))
        print_lines(skipped_lines(intervals.skipped, _record_count(recording)))
    return 0


def timehist(options: KworkTimehistOptions) -> int:
    """Show each run of work with its times."""
    kinds = _kinds(options)
    with open_recording(options.input, force=options.force, verbose=options.verbose, keeps_memory=True) as recording:
        from perfpy.analysis.kernel_work.events import ENTRY, EXIT, RAISE
        from perfpy.views.kernel_work.history_lines import history_lines

        _check(recording, options, kinds)
        read = WorkInput(recording, options, kinds, (RAISE, ENTRY, EXIT), chains=options.call_graph)
        print_lines(history_lines(_runs(read, options)))
    return 0


def _runs(read: WorkInput, options: KworkTimehistOptions) -> Iterator[tuple[int, int, int, str, int, str]]:
    """Yield the values of each line; see history_lines."""
    from perfpy.analysis.kernel_work.works import make_history

    events = read.events
    history = make_history(events, read.work)
    chains = _chain_texts(read, options, history.begin.tolist())
    labels: dict[int, str] = {}
    columns = (events.time[history.begin], events.time[history.end], events.cpu[history.begin], read.work[history.begin], history.delay)
    rows = zip(history.begin.tolist(), *(column.tolist() for column in columns), strict=True)
    for number, (event, begin, end, cpu, work, delay) in enumerate(rows):
        if work not in labels:
            labels[work] = read.label(event)
        yield begin, end, cpu, labels[work], delay, chains[number] if chains else ""


def _chain_texts(read: WorkInput, options: KworkTimehistOptions, rows: list[int]) -> list[str]:
    """Return the callchains of events; [] if they are not wanted or not recorded."""
    import numpy as np

    chains = read.events.chains
    if chains is None or not rows:
        return []
    from perfpy.abi.columns import Columns
    from perfpy.views.sched.chain_text import chain_texts

    chosen = np.array(rows, np.int64)
    columns = Columns(len(chosen), {"callchain": chains.take(chosen)})
    pid, key = read.events.tid[chosen].astype(np.int32), read.events.key[chosen]
    texts = chain_texts(columns, pid, key, read.symbolizer, options.max_stack, is_switch=False)
    return [text.decode("utf-8", "surrogateescape") for text in texts]


def _kinds(options: KworkOptions) -> tuple[str, ...]:
    """Return the kinds of work that have run times: all but sched."""
    return tuple(kind for kind in kinds_of(options.kwork, KINDS) if kind != KINDS[-1])


def _check(recording: Recording, options: KworkOptions, kinds: Sequence[str]) -> None:
    """Reject a recording without any of the kinds; print all records for -D."""
    from perfpy.analysis.kernel_work.events import missing_kinds

    if kinds and len(missing_kinds(recording.data, kinds)) == len(kinds):
        fail(f"{recording.path}: no tracepoints of {', '.join(kinds)}; record them: perfpy kwork -k {','.join(kinds)} record -- COMMAND")
    if options.dump_raw_trace:
        from perfpy.cli.sched.opening import dump_all

        dump_all(recording)


def _label(read: WorkInput, row: WorkRow) -> str:
    return read.label(row.event)


def _record_count(recording: Recording) -> int:
    return sum(recording.data.record_index.type_counts.values())
