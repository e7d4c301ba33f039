"""record: open counters, poll their ring buffers, write a perf.data.

The order of the file is perf's: header, records about the recording, synthesized records, the ring buffers' records in rounds,
features.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import ExitStack, nullcontext, suppress
from typing import TYPE_CHECKING, Final

from perfpy.abi.cpu_list import cpu_list_text
from perfpy.abi.light_types import NamedTuple
from perfpy.capture.record_options import ANYWHERE, GUEST_EVENT, RecordOptions, TraceOptions
from perfpy.capture.sample_attrs import (
    MAX_RATE,
    SWITCH,
    configure_sampling,
    copy_stacks_of_chosen,
    is_aux,
    sampling_warnings,
    with_frequency,
)
from perfpy.capture.sample_counters import SampleCounters, pages_for
from perfpy.capture.session import closing
from perfpy.capture.session.inputs import STOPPING, Attention, OutputSwitch, Wakeups, names_only
from perfpy.capture.session.moved_text_watch import MovedTextWatch
from perfpy.capture.session.output import DataFile, Drain, RecordOutput
from perfpy.capture.synthesis import guest_kernels
from perfpy.capture.targets import ANY, NoSuchThreadError, OfflineCpuError, Target, Workload, parse_cpus, resolve
from perfpy.errors import OutputFailedError, PerfError, UsageError
from perfpy.events import parse_events
from perfpy.events.machine import this_machine as event_source
from perfpy.kernel import this_kernel
from perfpy.kernel.procfs import ProcFs
from perfpy.kernel.syscalls import kernel_addresses_hidden, may_measure_kernel, own_status, paranoid_level
from perfpy.perfdata.writer import Packer

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from contextlib import AbstractContextManager

    from perfpy.capture.control import Control
    from perfpy.capture.off_cpu_events import WaitPlan
    from perfpy.capture.python_frames.kernel_frames import FrameCopier
    from perfpy.capture.runtimes.session import RuntimeNames
    from perfpy.capture.session.closing import OwnSamples, ProgressLine
    from perfpy.capture.session.inputs import Describe
    from perfpy.capture.session.threaded_output import ThreadedDrain
    from perfpy.capture.sleeping_threads import DepartureRecords
    from perfpy.capture.tracers import TracePlan
    from perfpy.events.event import Event
    from perfpy.kernel import Kernel


_DEFAULT_EVENT: Final = "cycles:P"
_STATUS: Final = "[ perf record: "  # perf's status lines begin with it
_CLOCK: Final = "task-clock"  # in seconds, as the time off the CPU beside it
_NO_TASKS: Final = 244  # exit status of perf record for tasks that do not exist: -ENOMEM
_KILLED: Final = 128  # plus the signal's number: the exit status
_HIGH_PRIORITY: Final = -10  # nice value
_MOST_CHOSEN: Final = 1 << 13  # counters of one event for chosen threads
_WORTH_ANOTHER_PASS: Final = 1 << 16  # bytes; with less in the ring buffers, wait for the next wakeup

#: perf's text.
_HIDDEN_ADDRESSES: Final = (
    "warning: the kernel hides its addresses, so its samples will have no names;"
    " run as root, or set sysctl kernel.kptr_restrict=0 kernel.perf_event_paranoid=1"
)


class RecordSummary(NamedTuple):
    """The result of a recording.

    Attributes:
        exit_code: the command's, or 128 + the number of the signal that ended the recording.
        path: the (last) file.
        size: its bytes without the features.
        samples: their number; None if unknown.
        lost: samples that did not fit in the ring buffers.
        wakeups: how often there was data to write.
        pid: the process of the command; 0 without one.
        left: the stacks of chosen processes that were not unwound in time.

    >>> import perfpy
    >>> summary = perfpy.record(["true"], output="true.data")
    >>> summary.path, summary.exit_code, summary.lost
    ('true.data', 0, 0)
    """

    exit_code: int
    path: str
    size: int
    samples: int | None
    lost: int
    wakeups: int
    pid: int = 0
    left: int = 0


class Recorder:
    """One recording, from its events to its file.

    Args:
        command: the program to run, () for none.
        events: their texts, () for perf's default.
        filters: (number of events before it, expression).
        describe: events -> the text of --control's evlist.
        warn: called with a line about each event that another one replaces; None to print it unless the options are quiet.
    """

    def __init__(
        self,
        command: Sequence[str],
        events: Sequence[str] = (),
        filters: Sequence[tuple[int, str]] = (),
        options: RecordOptions | None = None,
        *,
        kernel: Kernel | None = None,
        describe: Describe = names_only,
        warn: Callable[[str], None] | None = None,
    ) -> None:
        self._describe = describe
        self._warn = warn or self._tell
        self.options = options or RecordOptions()
        try:
            self.options.check()
        except PerfError:
            # As in perf, an invalid event is reported before options that exclude each other.
            parse_events(events, filters, event_source(self.options.event_files))
            raise
        self.command = tuple(command)
        self._texts = tuple(events)
        self._filters = tuple(filters)
        self._kernel = kernel or this_kernel()
        self._machine = event_source(self.options.event_files)
        self._procfs = ProcFs()
        self._packer = Packer(self.options.output.compression_level) if self.options.output.compression_level else None
        self._workload: Workload | None = None
        self._progress: ProgressLine | None = None
        if self.options.python:
            from perfpy.capture.record_options import complete_python_options  # rarely needed

            self.options = complete_python_options(self.options)
        self._names: RuntimeNames | None = None
        if self.options.jit:
            from perfpy.capture.runtimes.session import RuntimeNames  # rarely needed

            self._names = RuntimeNames(self.options, self.command, self._tell)
            self.options = self._names.options
        self.sleeping: Collection[int] = ()  #: processes whose threads that sleep at first get a sample of sched:sched_switch
        #: surrounds the work of its helpers, whose processes are given, at the end
        self.at_end: Callable[[Collection[int]], AbstractContextManager[object]] = nullcontext
        self.is_calm = True  #: whether the machine switches rarely enough to copy the stacks of all tasks
        self._waits: WaitPlan | None = None
        self._trace: TracePlan | None = None
        self._copier: FrameCopier | None = None
        self._size = 0
        self._failure: OutputFailedError | None = None

    def run(self) -> RecordSummary:
        """Record until the command ends, all targets have ended, or a signal arrives.

        Raises PerfError if it cannot start. A full disk ends the recording; the error is raised when the file is as complete as possible.
        """
        target, events = self.prepare()
        with ExitStack() as stack:
            # First, so that signals interrupt nothing.
            signals = stack.enter_context(Wakeups((*STOPPING, signal.SIGUSR2)))
            self._output = open_output(self.options, self._packer, events, self._tell, self._waits, self._copier)
            if self.options.target.exclude_perf:
                events = closing.exclude_threads(events, [os.getpid(), *self._output.others])
            beginning = stack.enter_context(ExitStack())
            beginning.callback(self._output.abandon)
            if self.command:
                variables = self._names.variables if self._names else {}
                command = self._names.command if self._names else self.command
                self._workload = stack.enter_context(Workload(command, stdout_to_stderr=self._output.is_pipe, environment=variables))
            control: Control | None = None
            if self.options.control:
                from perfpy.capture.control import Control  # rarely needed

                control = stack.enter_context(Control(self.options.control))
            self._counters = self._open_counters(events, target)
            stack.callback(self._counters.close)
            self._output_switch = OutputSwitch(self.options.output.switch_output, self.options.output.switch_max_files)
            self._attention = Attention(
                signals,
                self._counters,
                self._output_switch,
                workload=self._workload,
                control=control,
                answers=self._output.answers,
                tell=self._tell,
                describe=self._describe,
            )
            ask = self._output_switch.ask
            self._attention.others += closing.switch_events(self.options, self._kernel, ask, self._note, stack.callback)
            self._warn_of_hidden_addresses()
            if self._names:
                self._names.begin(stack.callback, self.sleeping)
            workload = self._workload.pid if self._workload else 0
            self._file = open_file(self._output, self._counters, self.options, self._procfs, workload, self._packer, self._waits)
            self._file.guests = guest_kernels(self.options.guests, self._tell)
            self._file.begin()
            self._output.start(self._attention.signal_fd)
            signals.add(signal.SIGCHLD)  # only now: programs that switch on names of functions are children, too, and end
            self._start(target)
            beginning.pop_all()
            self._loop(target)
            self._end()
        if self._failure:
            raise self._failure
        code = self._workload.wait().exit_code if self._workload else 0
        if self._attention.signal:
            code = _KILLED + self._attention.signal
        file, pid = self._file, self._workload.pid if self._workload else 0
        wakeups, left = self._attention.wakeups, self._output.left
        return RecordSummary(code, self.options.output.path, self._size, file.samples, file.lost, wakeups, pid, left)

    def prepare(self) -> tuple[Target, list[Event]]:
        """Return the target and the events, before anything is opened or written. Raises PerfError for invalid ones."""
        self.options = with_frequency(self.options, self._procfs.setting(MAX_RATE), self._tell)
        target = self._find_target()
        if self.options.python:
            from perfpy.capture.python_frames.kernel_frames import open_copier  # rarely needed

            self._copier = open_copier(self.options, len(self._texts))
            if self._copier is None:  # frames are read the better the sooner
                self.options = self.options._replace(buffers=self.options.buffers._replace(no_buffering=True))
        events = self._parse() if target.has_tasks else self._on_requested_cpus(self._parse(), target)
        if any(map(is_aux, events)) or self.options.trace != TraceOptions() or any(event.terms.aux_sample_size for event in events):
            from perfpy.capture.tracers import plan_trace  # rarely needed

            events, self.options, self._trace = plan_trace(events, self.options, target, self._machine.sysfs, self._tell)
        if not self.options.off_cpu.enabled:
            events = configure_sampling(events, self.options, target, self._kernel, self._machine.sysfs)
            return target, copy_stacks_of_chosen(events, is_calm=self.is_calm) if self._has_chosen(target) else events
        from perfpy.capture.off_cpu_events import add_wait_events  # rarely needed

        self.options = options = self.options._replace(
            sampling=self.options.sampling._replace(identifier=True, time=True, cpu_field=True, period_field=True)
        )
        if options.sampling.clockid is None:  # a clock that this process can read, too
            self.options = options = options._replace(sampling=options.sampling._replace(clockid=time.CLOCK_MONOTONIC))
        events = configure_sampling(events, options, target, self._kernel, self._machine.sysfs)
        tell = (lambda _text: None) if options.brief else self._note  # the report has its own note
        events, self._waits = add_wait_events(events, options, target, self._kernel, tell)
        return target, events

    def _tell(self, text: str) -> None:
        if self._progress:
            self._progress.clear()
        if self.options.quiet or (self.options.brief and text.startswith(_STATUS)):
            return
        is_wrapped = not text.startswith(_STATUS) and sys.stderr.isatty()
        print(_wrap(text) if is_wrapped else text, file=sys.stderr)

    def _note(self, text: str) -> None:
        if self.options.notes:
            self._tell(text)

    # the target and the events

    def _find_target(self) -> Target:
        options = self.options
        requested = options.target if self.command or options.target.is_given else options.target._replace(all_cpus=True)
        # As in perf, events of kinds of cores are limited to their CPUs; other machines refuse a CPU that they lack.
        is_hybrid = bool(requested.cpu) and len(self._machine.core_pmus) > 1
        try:
            target, warnings = resolve(requested, skip_offline=is_hybrid, procfs=self._procfs)
            if not target.cpus:
                target, warnings = resolve(requested, procfs=self._procfs)  # raises
        except UsageError as error:
            if (requested.pid or requested.tid) and not isinstance(error, NoSuchThreadError):
                error.exit_code = _NO_TASKS
            raise
        if requested.per_thread and requested.is_given and not target.has_tasks:
            warnings.append("--per-thread is ignored, because -a or -C is given")
            self.options = options = options._replace(target=options.target._replace(per_thread=False))
        for text in warnings:
            self._tell(f"Warning:\n{text}")
        if target.kind == "tid" and options.target.inherit:
            self.options = options._replace(target=options.target._replace(inherit=False))  # no other threads were requested
        return target

    def _default_event(self) -> str:
        """Return perf's default event; for users who may not measure the kernel, that of user space."""
        if self.options.off_cpu.enabled:
            return _CLOCK
        if self.options.guests.guest:
            return GUEST_EVENT
        if may_measure_kernel():
            return _DEFAULT_EVENT
        from perfpy.events.fallback import user_space_only  # loaded only if the kernel refuses

        self._warn(user_space_only(paranoid_level()))
        return _DEFAULT_EVENT + "u"

    def _parse(self) -> list[Event]:
        guests = self.options.guests
        texts = self._texts or (self._default_event(),)
        events = parse_events(texts, self._filters, self._machine, host=guests.host, guests=guests.guest)
        for text in (*events.warnings, *dict.fromkeys(sampling_warnings(events, self.options))):
            self._tell(text)
        if self.options.target.exclude_perf and not any(event.tracepoint for event in events):
            raise UsageError("--exclude-perf requires a tracepoint event, -e SYSTEM:NAME")
        tool = next((event.name for event in events if event.tool), "")
        if tool:
            raise PerfError(f"'{tool}' can be counted, not sampled; use perfpy stat")
        return events

    def _on_requested_cpus(self, events: Sequence[Event], target: Target) -> list[Event]:
        """Return the events that at least one of the CPUs can count. Warn of each that some CPU of -C cannot: the kinds of cores differ."""
        text, online, kept = self.options.target.cpu, set(target.cpus), []
        requested = set(parse_cpus(text)) if text else online
        for event in events:
            covered = online if event.requires_cpu or event.cpus is None else online.intersection(event.cpus)
            if text and covered != requested:
                where = f"PMU '{event.pmu}' (CPUs {cpu_list_text(event.cpus or ())})"
                self._tell(f"WARNING: A requested CPU in '{text}' is not supported by {where} for event '{event.text_name or event.name}'")
            if event.cpus is None and requested > online:
                raise OfflineCpuError(f"--cpu: CPU {min(requested - online)} is offline or does not exist")
            if covered:
                kept.append(event)
        first: dict[Event, Event] = {}  # former leader of a group -> its first remaining event
        copies: dict[Event, Event] = {}
        for event in kept:
            leader = first.setdefault(event.leader, event)
            copies[event] = event._replace(led_by=None if leader is event else copies[leader])
        return list(copies.values())

    def _open_counters(self, events: list[Event], target: Target) -> SampleCounters:
        options = self.options
        tids = target.tids if target.has_tasks else (ANY,)
        if target.kind == "command" and self._workload:
            tids = (self._workload.pid,)
        cgroup_fds: dict[Event, int] = {}
        if options.target.cgroups:
            from perfpy.capture.cgroups import folders_of  # rarely needed

            folders = folders_of(options.target.cgroups, len(events))
            cgroup_fds = {event: fd for event, fd in zip(events, folders, strict=False) if fd is not None}
        counters = SampleCounters(
            self._kernel,
            events,
            (ANY,) if options.target.per_thread else target.cpus,
            tids,
            cgroup_fds=cgroup_fds,
            skip_missing=target.kind in ("pid", "user"),
            skip_foreign=target.kind == "user",
            needs_all=options.off_cpu.enabled,  # whose plan has the indexes of events
            chosen=self._chosen_threads(),
            tell=self._warn,
        )
        counters.open()
        counters.warn_of_skipped(self._tell)
        try:
            attrs = [event.attr for event in counters.events]  # as the kernel accepted them
            usual = pages_for(attrs, self._procfs, own_status()[0], rewritten=options.rewritten)
            stacks_of_waits = counters.events[self._waits.switches] if self._waits is not None and self._waits.switches >= 0 else None
            counters.map(options.buffers.mmap_pages or usual, self._trace, self._tell, apart=stacks_of_waits)
        except BaseException:
            counters.close()
            raise
        for event in counters.events if options.verbose else ():
            self._tell(f"{event.name}: {len(counters.ids(event))} counters, {event.attr!r}")
        return counters

    def _chosen_threads(self) -> list[int]:
        """Return the threads whose stacks are copied if other tasks' are not: those of processes, or the new program's."""
        if pids := self.options.sampling.unwind_around:
            return [tid for pid in pids for tid in self._procfs.threads(pid)]
        return [self._workload.pid] if self._workload else []

    def _has_chosen(self, target: Target) -> bool:
        """Whether only chosen tasks' stacks are copied: those of too many threads on too many CPUs need too many counters."""
        around = self.options.sampling.unwind_around
        return around is not None and len(self._chosen_threads() if around else self.command) * len(target.cpus) <= _MOST_CHOSEN

    def _warn_of_hidden_addresses(self) -> None:
        """Warn if the kernel is sampled, but hides the addresses of its functions."""
        restriction, paranoid = (self._procfs.setting(f"kernel.{name}") or 0 for name in ("kptr_restrict", "perf_event_paranoid"))
        hidden = kernel_addresses_hidden(restriction, paranoid, own_status()[0])
        if hidden and not all(event.attr.exclude_kernel for event in self._counters.events):
            self._tell(_HIDDEN_ADDRESSES)

    # recording

    def _start(self, target: Target) -> None:
        options = self.options
        if options.realtime:
            try:
                os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(options.realtime))
            except OSError as error:
                reason = os.strerror(error.errno or 0)
                raise PerfError(f"-r {options.realtime}: cannot set the realtime priority: {reason}; root may set 1 to 99") from None
        begin = time.clock_gettime_ns(options.sampling.clockid) if self.sleeping and options.sampling.clockid is not None else 0
        if options.starts_disabled:
            self._tell("Events disabled")
        else:
            self._counters.enable(with_program=target.kind == "command")
        if self._waits and target.has_tasks and not options.starts_disabled:
            self._record_sleepers(self._departures(self._waits), target.tids, time.clock_gettime_ns(self._clock))
        elif begin:
            self._record_departures(begin)
        if self._workload:
            self._workload.start()
        now = time.monotonic()
        self._output_switch.begin(now)
        self._progress = closing.progress(self.command, self._counters, self._output, options, now)
        self._attention.alarms += closing.emptying(self._counters, options)
        self._attention.alarms += closing.cost_limit(self._counters, self._output, options, self._tell)
        self._attention.alarms += [self._progress] if self._progress else []
        self._attention.alarms += self._names.alarms() if self._names else []
        ends = self._counters.fds() if target.has_tasks else self._counters.ring_fds()
        self._attention.begin(ends, options.delay, ends_only=bool(options.buffers.threads))

    def _record_departures(self, begin: int) -> None:
        """Write samples of sched:sched_switch of the processes' threads that sleep already, as if they left their CPU then."""
        from perfpy.capture.off_cpu_events import tracepoint_field  # rarely needed
        from perfpy.capture.sleeping_threads import DepartureRecords

        state, task = (tracepoint_field(*SWITCH, name) for name in ("prev_state", "prev_pid"))
        event = next((event for event in self._counters.events if event.event.tracepoint == SWITCH), None)  # that of chosen tasks, if any
        if event is not None and state is not None and task is not None:
            tids = [tid for pid in self.sleeping for tid in self._procfs.threads(pid)]
            records = DepartureRecords(event.attr, self._counters.ids(event)[0], 0, state, task=task)
            self._record_sleepers(records, tids, begin)

    def _record_sleepers(self, records: DepartureRecords, tids: Collection[int], now: int) -> None:
        """Write the records of threads that sleep already."""
        from perfpy.capture.sleeping_threads import sleepers  # rarely needed

        sleeping = [*sleepers(tids, self._procfs, records.stack_size)]
        if sleeping:
            self._output.write_ring([records.of(sleeping, now, self._procfs)])

    def _departures(self, plan: WaitPlan) -> DepartureRecords:
        from perfpy.capture.sleeping_threads import DepartureRecords  # rarely needed

        events = self._counters.events
        attr = events[plan.switches].attr if plan.switches >= 0 else None
        ident = self._counters.ids(events[plan.switches])[0] if attr else 0
        return DepartureRecords(attr, ident, self._counters.ids(events[plan.time])[0], plan.state)

    @property
    def _clock(self) -> int:
        """The recording's clock."""
        assert self.options.sampling.clockid is not None
        return self.options.sampling.clockid

    def _loop(self, target: Target) -> None:
        """Read the ring buffers until it is time to stop; then once more their current contents."""
        attention = self._attention
        drain = new_drain(self._counters, self._output, self.options, self._procfs, lambda: attention.has_signal)
        attention.alarms += [drain.watch] if drain.watch else []
        own: OwnSamples | None = None
        if any(one.event.tracepoint for one in self._counters.events):  # other events do not run faster because of a write
            own = closing.OwnSamples(self._counters.events, (*self._output.others, *drain.tids))
        priority = os.getpriority(os.PRIO_PROCESS, 0)
        # each switch has a stack: a busy machine must not keep this process from the ring buffers; root may ask for that
        if self._waits or self.options.sampling.unwind_around is not None:
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, 0, min(priority, _HIGH_PRIORITY))
        try:
            while not attention.stopping:
                size = drain.forward()
                if attention.wants_snapshot:
                    attention.wants_snapshot = False
                    self._take_snapshot(drain)
                self._check_size(drain)
                attention.look(wait=size < _WORTH_ANOTHER_PASS and not attention.stopping)
                looks = own if own and own.look(self._output.bytes_read, self._tell) else self._progress
                drain.inspect = looks.inspect if looks else None
            attention.settle()
            if target.kind != "command" or attention.signal or self._counters.aux:  # the events of a command end with it
                self._counters.disable()
            drain.rest()
            drain.backward()
            if self._trace and self._trace.snapshot_at_exit:
                self._take_snapshot(drain)
            if self._waits:  # waits that have not ended last until now
                self._output.write_ring([self._departures(self._waits).switch(0, 0, 0, time.clock_gettime_ns(self._clock), 0)])
        except OutputFailedError as failure:
            self._failure = failure
        finally:
            drain.close()
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, 0, priority)
        try:
            with self.at_end(self._output.others):
                self._output.complete(attention.signal_fd, attention.is_called_again)
        except OutputFailedError as failure:
            self._failure = self._failure or failure

    def _take_snapshot(self, drain: Drain | ThreadedDrain) -> None:
        if self._trace and self._trace.snapshot_size:
            drain.snapshot()

    def _check_size(self, drain: Drain | ThreadedDrain) -> None:
        """Stop at --max-size; start a new file for --switch-output."""
        most, size = self.options.output.max_size, self._output.size
        if most and size >= most:
            self._tell(f"[ perf record: perf size limit reached ({size // 1024} KB), stopping session ]")
            self._attention.stopping = True
            self._counters.disable()
        elif self._output_switch.due(size, time.monotonic()):
            drain.backward()
            self._tell(f"[ perf record: dump data: Woken up {self._attention.wakeups} times ]")
            self._attention.wakeups = 0
            self._file.end(last=False)
            self._stamp()
            self._output.reopen()
            self._file.begin(first=False)

    def _stamp(self) -> None:
        name = self._output.stamp()
        for surplus in self._output_switch.add_file(name):
            self._output.remove(surplus)
        self._tell(f"[ perf record: Dump {name} ]")

    # the end

    def _end(self) -> None:
        """Complete the file, and end the command."""
        self._tell(f"[ perf record: Woken up {self._attention.wakeups} times to write data ]")
        if self._workload and not self._workload.poll():
            self._workload.kill(signal.SIGTERM)
        self._size = self._output.size
        try:
            self._file.end()
            if self._stamps:
                self._stamp()
        except OutputFailedError as failure:
            self._failure = self._failure or failure
        if not self.options.quiet:
            name = self.options.output.path + (".<timestamp>" if self._stamps else "")
            self._tell(closing.captured_line(name, self._size, self._file.samples, self._packer))
            for line in closing.judgement(self._file, self.options, max((ring.size for ring in self._counters.rings), default=0)):
                self._tell(line)
        self._attention.wait_for_workload()  # last, because it may ignore signals, and the file is complete
        files = self._output_switch.files if self._stamps else [self.options.output.path]
        if self._names and not self._failure:
            self._names.end(files, self._output.names(), self._output.images)
        elif self._output.images and not self._failure and not self._output.is_pipe:
            from perfpy.capture.runtimes.rewriting import keep_images  # it reads recordings, which needs numpy

            keep_images(files, self._output.images, self._tell)

    @property
    def _stamps(self) -> bool:
        """Whether the files' names include the time."""
        return not self._output.is_pipe and (self.options.output.timestamp_filename or self.options.output.switch_output is not None)


def _wrap(text: str) -> str:
    """Wrap a message at words, to the width of the terminal."""
    from shutil import get_terminal_size  # only for people

    width = get_terminal_size().columns
    if len(text) <= width or "\n" in text:
        return text
    from textwrap import fill

    return fill(text, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


# Choose the output of a recording by its options: one file, a folder, or a file that another process rewrites first.


def open_output(
    options: RecordOptions,
    packer: Packer | None,
    events: Sequence[Event],
    tell: Callable[[str], None],
    waits: WaitPlan | None,
    copier: FrameCopier | None,
) -> RecordOutput:
    """Open the empty output.

    Args:
        waits: how switches become waits (record --off-cpu).
        copier: copies Python frames (record --python).
    """
    if options.is_folder:
        from perfpy.capture.session.threaded_output import open_folder  # rarely needed

        return open_folder(options, packer)
    if options.rewritten:
        from perfpy.capture.session.unwound_output import open_output as open_unwound  # as above

        return open_unwound(options, packer, events, tell, waits, copier)
    return RecordOutput(options.output.path, packer)


def open_file(
    output: RecordOutput,
    counters: SampleCounters,
    options: RecordOptions,
    procfs: ProcFs,
    workload: int,
    packer: Packer | None,
    waits: WaitPlan | None,
) -> DataFile:
    """Return the file to begin and end in the output."""
    if not options.rewritten:
        return DataFile(output, counters, options, procfs, workload=workload, packer=packer)
    from perfpy.capture.session.unwound_output import open_file as open_unwound  # as above

    return open_unwound(output, counters, options, procfs, workload, packer, waits)


def new_drain(
    counters: SampleCounters, output: RecordOutput, options: RecordOptions, procfs: ProcFs, stop: Callable[[], bool]
) -> Drain | ThreadedDrain:
    """Return the object that reads the ring buffers. stop returns whether a pass must end early."""
    build_id: Callable[[str], bytes] | None = None
    if options.side_band.buildid_mmap:
        from perfpy.capture.dso_hits import own_build_id  # as above

        build_id = own_build_id

    def new_watch() -> MovedTextWatch:
        return MovedTextWatch([event.attr for event in counters.events], procfs, build_id=build_id)

    if options.buffers.threads:
        from perfpy.capture.session.threaded_output import threaded_drain  # as above

        return threaded_drain(counters, output, options, new_watch)
    move: Callable[[int], None] | None = None
    if options.buffers.affinity != ANYWHERE:
        from perfpy.capture.sample_counters import mover  # as above

        move = mover(options.buffers.affinity, counters)
    return Drain(counters, output, options.buffers.mmap_flush, stop=stop, move=move, watch=new_watch())
