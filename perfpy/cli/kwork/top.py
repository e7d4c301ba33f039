"""`perfpy kwork top`: the CPU time of each task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.cli.kwork.options import KINDS, kinds_of
from perfpy.cli.kwork.work import selected, sort_keys
from perfpy.cli.line.opening import open_recording
from perfpy.cli.line.options import fail
from perfpy.cli.output.terminal import print_lines

if TYPE_CHECKING:
    from perfpy.analysis.kernel_work.cpu_usage import CpuUsage
    from perfpy.analysis.kernel_work.events import WorkEvents
    from perfpy.cli.kwork.options import KworkTopOptions
    from perfpy.recording import Recording


def run(options: KworkTopOptions) -> int:
    """Show the CPU time that each task used, without interrupts."""
    keys = sort_keys(options.sort, ("rate", "runtime", "tid"), "rate,runtime")
    kinds = kinds_of(options.kwork, KINDS)
    with open_recording(options.input, force=options.force, verbose=options.verbose, keeps_memory=True) as recording:
        from perfpy.analysis.kernel_work.cpu_usage import sorted_tasks
        from perfpy.views.kernel_work.usage_lines import usage_lines

        if options.dump_raw_trace:
            from perfpy.cli.sched.opening import dump_all

            dump_all(recording)
        usage = _usage(recording, options, kinds)
        print_lines(usage_lines(usage, sorted_tasks(usage.tasks, keys)))
    return 0


def _usage(recording: Recording, options: KworkTopOptions, kinds: tuple[str, ...]) -> CpuUsage:
    import numpy as np

    from perfpy.analysis.kernel_work.cpu_usage import FIELDS, SWITCH, measure_usage
    from perfpy.analysis.kernel_work.events import ENTRY, EXIT, IRQ, SOFTIRQ, read_work
    from perfpy.perfdata.tracepoint_rows import read_tracepoints

    if KINDS[-1] not in kinds:
        fail("kwork top needs switches; add sched to -k")
    switches = read_tracepoints(recording.data, {SWITCH: FIELDS}).get(SWITCH)
    if switches is None:
        fail(f"{recording.path}: no {SWITCH} tracepoint; record it: perfpy kwork -k {','.join(KINDS)} record -- COMMAND")
    switches = switches.with_numbers(("prev_pid", "next_pid"))
    switches = switches.take(selected(recording, options, switches.cpu.astype(np.int64), switches.time))
    interrupts: dict[str, WorkEvents] = {}
    for kind in (IRQ, SOFTIRQ):
        if kind in kinds:
            events = read_work(recording.data, (kind,), (ENTRY, EXIT))
            interrupts[kind] = events.take(selected(recording, options, events.cpu, events.time))
    return measure_usage(switches, interrupts, options.name)
