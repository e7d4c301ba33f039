"""`perfpy why` without access to tracepoints: watch the threads through /proc."""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from perfpy.analysis.verdict import waits as reasons
from perfpy.analysis.why.kinds import RUNNING
from perfpy.capture.output.wakeups import Wakeups
from perfpy.capture.workload import Workload
from perfpy.cli.line.options import fail
from perfpy.cli.output.terminal import print_lines, wrap_lines
from perfpy.errors import KernelRefusedError
from perfpy.kernel.procfs import ProcFs
from perfpy.kernel.tracefs import Tracefs
from perfpy.live.thread_watch import ThreadWatch
from perfpy.views.why.watched import WatchedWait, watched_json, watched_lines

if TYPE_CHECKING:
    from perfpy.cli.why.options import WhyCommandOptions

_INTERVAL: Final = 0.004  # seconds between two readings
_SHARE: Final = 4  # a reading takes at most one part in this number of the time
_NOTE: Final = (
    "note: no access to tracepoints; threads are watched through /proc: who ends a wait, stacks and spinning are unknown;"
    " run as root for the whole answer"
)
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def can_record() -> bool:
    """Whether this user may record the scheduler's tracepoints of all CPUs."""
    try:
        has_switch_event = Tracefs().event_id("sched", "sched_switch") is not None
    except KernelRefusedError:
        return os.geteuid() == 0  # tracefs may only not be mounted: record explains it
    level = ProcFs().setting("kernel.perf_event_paranoid")
    return os.geteuid() == 0 or (has_switch_event and level is not None and level < 0)


def watch(options: WhyCommandOptions, pids: list[int]) -> int:
    """Watch a command or processes, print what they did, and return the command's exit status."""
    for name, value in (("-o", options.output), ("--chrome-trace", options.chrome_trace), ("--python", options.python)):
        if value:
            fail(f"{name} needs access to tracepoints; run as root")
    if not options.quiet:
        print(_NOTE, file=sys.stderr)
    with ExitStack() as stack:
        signals = stack.enter_context(Wakeups(_SIGNALS))
        workload = stack.enter_context(Workload(options.workload)) if options.workload else None
        if workload is not None:
            workload.start()
        main = workload.pid if workload is not None else pids[0]
        thread_watch = ThreadWatch([main] if workload is not None else pids)
        _look(thread_watch, workload, pids, signals, options.duration)
    threads = thread_watch.times()
    waits = {thread.tid: _waits(thread_watch, thread.tid, thread.columns) for thread in threads}
    if options.as_json:
        print(watched_json(main, threads, waits, thread_watch.parent_of))
    else:
        print_lines(wrap_lines(watched_lines(main, threads, waits, thread_watch.parent_of, all_threads=options.verbose > 0)))
    return workload.ended.exit_code if workload is not None and workload.ended else 0


def _look(seen: ThreadWatch, workload: Workload | None, pids: list[int], signals: Wakeups, duration: float) -> None:
    """Read the states until the end of the command, of the processes or of the time, or until a signal."""
    end = time.monotonic() + duration if duration else None
    while True:
        took = seen.look() / 1e9
        if workload is not None and workload.poll() is not None:
            return
        if workload is None and not any(os.path.isdir(f"/proc/{pid}") for pid in pids):
            return
        if end is not None and time.monotonic() >= end:
            return
        if select.select([signals.fileno()], [], [], max(_INTERVAL, took * _SHARE))[0]:
            numbers = signals.read()
            if workload is None or signal.SIGINT not in numbers:
                return


def _waits(seen: ThreadWatch, tid: int, columns: dict[str, int]) -> list[WatchedWait]:
    rows = [WatchedWait(tid, RUNNING, "", 0, columns["running"]), WatchedWait(tid, reasons.CPU, "", 0, columns["runnable"])]
    rows += [WatchedWait(tid, wait.kind, wait.call, wait.lock, passed) for wait, passed in seen.waits(tid).items()]
    return rows
