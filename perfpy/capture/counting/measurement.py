"""Run a Plan: runs of a command (or a wait), intervals, --control, repeats. Each printing passes a Tally to a callback."""

from __future__ import annotations

import os
import select
import time

from perfpy.capture.counting.counters import Counting, Differences
from perfpy.capture.workload import Workload
from perfpy.counts.aggregation import Aggregation, CountRow, aggregate, one_cell_a_package
from perfpy.counts.spread import mean, relative_error, standard_error
from perfpy.counts.tally import RunTimes, Tally

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Final

    from perfpy.capture.control import Control
    from perfpy.capture.counting.counters import Readings
    from perfpy.capture.counting.plan import Plan
    from perfpy.capture.workload import WorkloadEnd
    from perfpy.counts.aggregation import CountedEvent
    from perfpy.counts.metrics import Metric
    from perfpy.kernel import Kernel

_MS: Final = 1_000_000


class Outcome:
    """The end of a measurement.

    Attributes:
        exit_code: of the command's last run; 128 + n for signal n.
        killed_by: that signal, or 0.
        runs: their number.
        failed_runs: runs with a status other than 0.
        tally: the last result; None if nothing was counted.
    """

    def __init__(self) -> None:
        self.exit_code = 0
        self.killed_by = 0
        self.runs = 0
        self.failed_runs = 0
        self.tally: Tally | None = None


class Hooks:
    """Callbacks of a measurement; override those of interest."""

    def show(self, tally: Tally) -> None:
        """Print an interval, a result, or one run of an endless repeat."""

    def on_open(self, counting: Counting) -> None:
        """Called when the counters are open and disabled."""

    def round(self, readings: Readings, elapsed: int, final: bool) -> None:
        """Called after the counters are read; readings are since the start, elapsed is in ns."""

    def run_started(self, number: int) -> None:
        """Called when a repeat begins; number starts at 0."""

    def run_ended(self, number: int, elapsed: int, values: Mapping[CountedEvent, CountRow]) -> None:
        """Called when a repeat has ended, with its total counts."""

    def note(self, text: str) -> None:
        """Print a line for the user ("Events enabled")."""

    def warn(self, text: str) -> None:
        """Print a line with -v."""

    def describe(self, counting: Counting, _option: str) -> str:
        """Return the text of --control's evlist."""
        return "\n".join(event.name for event in counting.events)

    def on_kill(self, program: str, signum: int) -> None:
        """Called if a signal ended the command."""

    stop_fd = -1  #: becomes readable when the measurement must end
    stopped = False  #: whether the measurement must end


class _Controlled:
    """Open counters, as --control switches and lists them."""

    def __init__(self, counting: Counting, hooks: Hooks) -> None:
        self._counting = counting
        self.tell = hooks.note
        self._hooks = hooks

    def switch(self, on: bool, name: str) -> bool:
        """Enable or disable an event, or all ("")."""
        return self._counting.enable(name) if on else self._counting.disable(name)

    def describe(self, option: str) -> str:
        """Return the events, as evlist prints them."""
        return self._hooks.describe(self._counting, option)


class Measurement:
    """Runs a plan."""

    def __init__(self, plan: Plan, hooks: Hooks | None = None, *, control: Control | None = None, kernel: Kernel | None = None) -> None:
        self._plan = plan
        self._hooks = hooks or Hooks()
        self._control = control
        self._counting = Counting(
            plan.events, cpus=plan.cpus, options=plan.counting_options, cgroup_fds=plan.cgroup_fds, kernel=kernel, warn=self._hooks.warn
        )
        self._differences = Differences()
        self._started = 0
        self._elapsed: list[int] = []
        self._values: dict[CountedEvent, list[int]] = {event: [] for event in self._counting.events}
        self._rusage: WorkloadEnd | None = None

    def run(self) -> Outcome:
        """Run until the plan is complete, or hooks.stopped. Raises PerfError."""
        plan, outcome = self._plan, Outcome()
        number = 0
        while plan.repeat == 0 or number < plan.repeat:
            self._hooks.run_started(number)
            self._differences = Differences()
            readings = self._run_between_commands(outcome)
            if readings is None:
                return outcome
            rows = self._rows(readings)
            self._remember(number, rows)
            if plan.repeat == 0 and not plan.interval:
                self._hooks.show(self._result(rows, self._elapsed[-1:]))
            number += 1
            if self._hooks.stopped:
                break
        if plan.repeat != 0 and (not plan.interval or plan.summary):
            outcome.tally = self._result(rows, self._elapsed)
            self._hooks.show(outcome.tally)
        return outcome

    # -- one run ---------------------------------------------------------------

    def _run_between_commands(self, outcome: Outcome) -> Readings | None:
        """Run once, with the commands around it; return None if one of them failed."""
        plan = self._plan
        if plan.before and self._shell(plan.before, outcome):
            return None
        if plan.sync:
            os.sync()
        readings = self._run_once(outcome)
        if plan.after and not outcome.exit_code and self._shell(plan.after, outcome):
            return None
        return readings

    def _shell(self, command: str, outcome: Outcome) -> bool:
        outcome.exit_code = os.waitstatus_to_exitcode(os.system(command))
        return outcome.exit_code != 0

    def _run_once(self, outcome: Outcome) -> Readings:
        plan = self._plan
        if not plan.command:
            with self._counting.open(plan.tids) as counting:
                return self._count(counting, None, outcome)
        with Workload(plan.command) as workload:
            tids = [workload.pid] if plan.target.kind == "command" else plan.tids
            with self._counting.open(tids) as counting:
                return self._count(counting, workload, outcome)

    def _count(self, counting: Counting, workload: Workload | None, outcome: Outcome) -> Readings:
        plan = self._plan
        self._hooks.on_open(counting)
        if plan.delay:
            self._hooks.note("Events disabled")
        else:
            self._enable(counting)
        if workload:
            workload.start()
        self._started = workload.started_ns if workload else time.monotonic_ns()
        if plan.delay > 0:
            time.sleep(plan.delay / 1000)
            self._enable(counting)
            self._hooks.note("Events enabled")
            self._started = time.monotonic_ns()
        self._wait(counting, workload)
        if workload:
            self._finish(workload, outcome)
        if plan.target.kind != "command":
            counting.disable()
        elapsed = time.monotonic_ns() - self._started
        self._elapsed.append(elapsed)
        readings = counting.read(self._tool_times(elapsed))
        self._hooks.round(readings, elapsed, True)
        return readings

    def _enable(self, counting: Counting) -> None:
        if counting.options.on_exec:
            counting.enable_ebb()
        else:
            counting.enable()

    def _finish(self, workload: Workload, outcome: Outcome) -> None:
        ended_here = bool(self._plan.timeout) and workload.poll() is None
        if ended_here:
            workload.kill()
        ended = workload.wait()
        self._rusage = ended
        outcome.killed_by = ended.signal
        outcome.exit_code = 0 if ended_here else ended.exit_code  # perfpy ended it as requested, which is no failure
        outcome.runs += 1
        outcome.failed_runs += outcome.exit_code != 0
        if ended.signal:
            self._hooks.on_kill(self._plan.command[0], ended.signal)

    def _tool_times(self, elapsed: int) -> dict[str, int]:
        names = [event.tool for event in self._plan.events if event.tool]
        if not names:
            return {}
        from perfpy.capture.counting import tool_values  # rarely needed

        return tool_values.times(elapsed, self._rusage) | tool_values.machine_values(names, on_cpus=not self._plan.target.has_tasks)

    # -- waiting ---------------------------------------------------------------

    def _wait(self, counting: Counting, workload: Workload | None) -> None:
        """Wait until the command or the tasks end, time is up, or a stop is requested; show intervals meanwhile."""
        plan, hooks = self._plan, self._hooks
        if workload and not plan.interval and not plan.timeout and not self._control:
            workload.wait()
            return
        from perfpy.capture.counting.watch import Watch  # most measurements only wait for their command

        with Watch(workload, plan.target.tids) as watch:
            poller = select.poll()
            for fd in (*watch.fds, hooks.stop_fd, self._control.fd if self._control else -1):
                if fd >= 0:
                    poller.register(fd, select.POLLIN)
            period = (plan.interval or plan.timeout) * _MS
            due = self._started + period
            intervals = 0
            while not hooks.stopped and not watch.have_ended():
                now = time.monotonic_ns()
                if period and now >= due:
                    if not plan.interval:
                        return
                    self._show_interval(counting)
                    intervals += 1
                    due = time.monotonic_ns() + period
                    if intervals == plan.interval_count:
                        return
                    continue
                ready = dict(poller.poll(watch.patience(period and (due - now) / _MS)))
                for fd in ready.keys() & set(watch.fds):
                    poller.unregister(fd)  # one of several tasks has ended
                    watch.see_end(fd)
                if self._control and self._obey(self._control, ready.get(self._control.fd, 0), poller, counting):
                    return
            if plan.interval:
                self._show_interval(counting)

    def _obey(self, control: Control, ready: int, poller: select.poll, counting: Counting) -> bool:
        """Carry out the commands; return True for "stop", which as in perf does not end a command."""
        if ready and not ready & select.POLLIN:  # all writers have closed
            poller.unregister(control.fd)
        if not ready & select.POLLIN:
            return False
        controlled = _Controlled(counting, self._hooks)
        stop = False
        for command in control.commands():
            command.obey(controlled)
            control.acknowledge(command)
            stop |= command.verb == "stop"
        return stop and not self._plan.command

    # -- results ---------------------------------------------------------------

    def _show_interval(self, counting: Counting) -> None:
        elapsed = time.monotonic_ns() - self._started
        readings = counting.read(self._tool_times(elapsed))
        self._hooks.round(readings, elapsed, False)
        rows = self._rows(self._differences.since_last(readings))
        self._hooks.show(self._tally(rows, wall_ns=self._plan.interval * _MS, timestamp=elapsed))

    def _rows(self, readings: Readings) -> dict[CountedEvent, list[CountRow]]:
        plan = self._plan
        rows: dict[CountedEvent, list[CountRow]] = {}
        for event, cells in readings.items():
            own = one_cell_a_package(cells, plan.package_of) if event.per_pkg else cells
            rows[event] = aggregate(event, own, plan.grouping, scale=plan.scale, state=event.state)
        return rows

    def _remember(self, number: int, rows: Mapping[CountedEvent, Sequence[CountRow]]) -> None:
        if self._plan.grouping.mode is Aggregation.GLOBAL:
            for event, (row,) in rows.items():
                self._values[event].append(row.value)
            self._hooks.run_ended(number, self._elapsed[-1], {event: row for event, (row,) in rows.items()})

    def _result(self, rows: dict[CountedEvent, list[CountRow]], elapsed: Sequence[int]) -> Tally:
        plan = self._plan
        noise = None
        if plan.repeat > 1:
            rows = {event: self._mean_rows(event, its_rows) for event, its_rows in rows.items()}
            noise = {event: relative_error(standard_error(v), mean(v)) for event, v in self._values.items()}
        times = RunTimes(tuple(elapsed))
        if plan.repeat <= 1 and plan.target.kind == "command" and self._rusage:
            usage = self._rusage.rusage
            times = RunTimes(tuple(elapsed), usage.ru_utime, usage.ru_stime)
        return self._tally(rows, wall_ns=mean(elapsed), times=times, noise=noise)

    def _mean_rows(self, event: CountedEvent, rows: list[CountRow]) -> list[CountRow]:
        values = self._values[event]
        if not values:
            return rows
        value = int(mean(values))
        return [CountRow(event, row.aggregate_id, value, row.enabled, row.running, row.cells, row.state) for row in rows]

    def _tally(
        self,
        rows: dict[CountedEvent, list[CountRow]],
        *,
        wall_ns: float,
        times: RunTimes | None = None,
        timestamp: int | None = None,
        noise: Mapping[CountedEvent, float] | None = None,
    ) -> Tally:
        plan = self._plan
        return Tally(
            self._counting.events,
            rows,
            plan.grouping,
            wall_ns=wall_ns,
            times=times,
            timestamp=timestamp,
            summary=bool(plan.interval) and timestamp is None,
            noise=noise,
            runs=max(plan.repeat, 1),
            every_thread=plan.target.kind == "threads",
            default_set=plan.default_set,
            hides_zeros=plan.hides_zeros,
            metrics=self._metrics(),
        )

    def _metrics(self) -> dict[CountedEvent, list[Metric]]:
        """Return the plan's metrics, with the events as they were opened."""
        if not self._plan.metrics:
            return {}
        from perfpy.counts.metrics import of_counterparts

        return of_counterparts(self._plan.metrics, {opened.event: opened for opened in self._counting.events})
