"""`perfpy sched stats`: the scheduler's counters in /proc/schedstat."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

from perfpy.cli.line.opening import open_recording
from perfpy.cli.line.options import fail
from perfpy.cli.output.terminal import print_lines
from perfpy.cli.sched.opening import chosen_cpus, dump_records, open_sched

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfpy.analysis.sched.statistics import Statistics
    from perfpy.cli.sched.options import StatsDiffOptions, StatsOptions, StatsRecordOptions

_DEFAULT_FILES = ("perf.data.old", "perf.data")


def show_live(options: StatsRecordOptions) -> int:
    """Run a command, or wait for Ctrl-C, and show the counters."""
    from perfpy.analysis.sched.statistics import statistics_of
    from perfpy.capture.scheduler_statistics import domain_info, records_of, take_snapshots

    cpus = chosen_cpus(options.cpu)
    snapshots, status = take_snapshots(options.workload)
    records = (record for snapshot in snapshots for record in records_of(snapshot))
    statistics = statistics_of(records, domain_info(snapshots[0]), cpus)
    if not statistics.cpus:
        fail(f"-C {options.cpu}: no statistics of these CPUs")
    _print([statistics], options)
    return status


def record(options: StatsRecordOptions) -> int:
    """Write the counters before and after a command to a file."""
    from perfpy.capture.scheduler_statistics import take_snapshots, write_snapshots
    from perfpy.untrusted.text import one_line

    cpus = chosen_cpus(options.cpu)
    snapshots, status = take_snapshots(options.workload)
    write_snapshots(options.output, snapshots, ["perfpy", *sys.argv[1:]], cpus)
    print(f"[ perf sched stats: Wrote samples to {one_line(options.output)} ]", file=sys.stderr)
    return status


def report(options: StatsOptions) -> int:
    """Show the counters of a file."""
    from perfpy.analysis.sched.statistics import read_statistics

    with open_sched(options) as recording:
        dump_records(recording, options)
        _print([read_statistics(recording.data, chosen_cpus(options.cpu))], options)
    return 0


def diff(options: StatsDiffOptions) -> int:
    """Show the counters of two files side by side."""
    from perfpy.analysis.sched.statistics import read_statistics

    if len(options.files) > len(_DEFAULT_FILES):
        fail(f"sched stats diff compares two files, not {len(options.files)}")
    files = {0: _DEFAULT_FILES, 1: (_DEFAULT_FILES[0], *options.files), 2: options.files}[len(options.files)]
    with ExitStack() as stack:
        recordings = [stack.enter_context(open_recording(path, force=options.force)) for path in files]
        parts = [read_statistics(recording.data, chosen_cpus(options.cpu)) for recording in recordings]
        if len({part.version for part in parts}) > 1:
            fail(f"{files[0]} and {files[1]} have different versions of the counters; compare recordings of one kernel")
        _print(parts, options)
    return 0


def _print(parts: Sequence[Statistics], options: StatsOptions) -> None:
    from perfpy.views.sched.statistics_text import StatisticsText

    print_lines(StatisticsText(parts, with_meanings=bool(options.verbose)).lines())
