"""Inputs of a recording besides its ring buffers: signals, the clock, --control, answers of other processes, the end of the target.

Events are switched here by the clock and --control. If ring buffers fill faster than they are read, the recorder never waits.
look() is therefore called after every pass over them: signals take effect at once, other inputs (which need a system call) after
a moment at the latest.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from typing import TYPE_CHECKING, Any, Final

from perfpy.abi.flags import PerfType, SampleType, SoftwareId
from perfpy.abi.light_types import NamedTuple
from perfpy.capture.counter import Counter
from perfpy.capture.sample_attrs import is_dummy
from perfpy.capture.sample_counters import SampleCounters
from perfpy.capture.targets import ANY, online_cpus
from perfpy.events import parse_events
from perfpy.events.event import change_events

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Protocol

    from perfpy.capture.control import Control
    from perfpy.capture.counter import OpenEvent
    from perfpy.capture.record_options import SwitchOutput
    from perfpy.capture.targets import Workload
    from perfpy.kernel import Kernel

    class Answers(Protocol):
        """Another process whose descriptor becomes readable."""

        def fileno(self) -> int:
            """Return the descriptor."""

        def take(self) -> bool:
            """Read the available data; return False at the end."""

    class Alarm(Protocol):
        """A periodic action."""

        def wait(self, now: float) -> float:
            """Return the seconds until it is due."""

        def ring(self, now: float) -> None:
            """Perform it if it is due."""

    Describe = Callable[[Sequence[OpenEvent], str], str]


class TimedSwitch(NamedTuple):
    """A time at which the counters are enabled or disabled."""

    time: float
    on: bool


class Timetable:
    """Future switches. delay is in milliseconds (-1: never), or ranges of milliseconds."""

    def __init__(self, delay: int | tuple[tuple[int, int], ...], start: float) -> None:
        self._switches: list[TimedSwitch] = []
        self._in_ranges = isinstance(delay, tuple)
        if isinstance(delay, tuple):
            for on, off in delay:
                self._switches += (TimedSwitch(start + on / 1000, True), TimedSwitch(start + off / 1000, False))
        elif delay > 0:
            self._switches.append(TimedSwitch(start + delay / 1000, True))

    def due(self, now: float) -> Iterator[TimedSwitch]:
        """Yield the switches that are due, each once."""
        while self._switches and self._switches[0].time <= now:
            yield self._switches.pop(0)

    @property
    def over(self) -> bool:
        """Whether the last range has ended, and with it the recording."""
        return self._in_ranges and not self._switches

    def wait(self, now: float) -> float | None:
        """Return the seconds until the next switch; None if there is none."""
        return max(self._switches[0].time - now, 0.0) if self._switches else None


#: Signals that end a recording normally.
STOPPING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_GONE: Final = select.POLLHUP | select.POLLERR | select.POLLNVAL
#: Seconds before the second read of ring buffers: programs move their text when they start, and short ones end soon (moved_text_watch).
FIRST_PATIENCE: Final = 0.02
_MOMENT: Final = 0.1  # seconds; the poll interval without SIGCHLD, and the longest time between two looks


class Regularly:
    """An alarm that only ends waiting: large ring buffers are read long before the kernel reports them half full.

    Args:
        seconds: the time between two alarms.
        first: the time before the second one, which doubles each time; None for `seconds`.
    """

    def __init__(self, seconds: float, first: float | None = None) -> None:
        self._seconds = seconds
        self._current = seconds if first is None else first
        self._next = 0.0

    def wait(self, now: float) -> float:
        """Return the seconds until the next time."""
        return max(self._next - now, 0.0)

    def ring(self, now: float) -> None:
        """Schedule the next time, counted from now: the ring buffers are read after every wakeup."""
        is_due = now >= self._next
        self._next = now + self._current
        if is_due:
            self._current = min(2 * self._current, self._seconds)


def names_only(events: Sequence[OpenEvent], _option: str) -> str:
    """Return the shortest answer to evlist."""
    return "\n".join(event.name for event in events)


class Attention:
    """Handles the inputs of one recording.

    Args:
        tell: called with a line for the user.
        describe: events -> the text of --control's evlist.
        answers: data from helper processes.

    Attributes:
        stopping: whether to stop.
        wants_snapshot: whether a snapshot of AUX data is requested.
        signal: the signal that ended the recording, 0 for none.
        wakeups: how often the recorder waited.
        alarms: periodic actions.
        others: further inputs.
    """

    def __init__(
        self,
        signals: Wakeups,
        counters: SampleCounters,
        output_switch: OutputSwitch,
        *,
        workload: Workload | None = None,
        control: Control | None = None,
        answers: Answers | None = None,
        tell: Callable[[str], None],
        describe: Describe = names_only,
    ) -> None:
        self._signals = signals
        self._counters = counters
        self._output_switch = output_switch
        self._workload = workload
        self._control = control
        self._answers = answers
        self.tell = tell
        self._describe = describe
        self._timetable = Timetable(0, 0.0)
        self._poller = select.poll()
        self._alive: set[int] = set()
        self._looked = 0.0
        self.alarms: list[Alarm] = []
        self.others: list[SwitchEvent] = []
        self.stopping = False
        self.wants_snapshot = False
        self.signal = 0
        self.wakeups = 0

    def begin(self, fds: Iterable[int], delay: int | tuple[tuple[int, int], ...], *, ends_only: bool = False) -> None:
        """Start the measurement. fds are the counters whose end ends it; delay is as in Timetable.

        ends_only: other threads read the counters' records.
        """
        now = self._looked = time.monotonic()
        self._timetable = Timetable(delay, now)
        self._alive = set(fds)
        others = [source.fileno() for source in (self._signals, self._control, self._answers, *self.others) if source]
        for fd in self._alive:
            self._poller.register(fd, 0 if ends_only else select.POLLIN)
        for fd in others:
            if fd >= 0:  # not of a --control that nobody can write to
                self._poller.register(fd, select.POLLIN)
        for other in self.others:
            other.enable()

    @property
    def has_signal(self) -> bool:
        """Whether a signal has arrived; needs no system call."""
        return self._signals.arrived

    @property
    def signal_fd(self) -> int:
        """The descriptor that becomes readable when a signal arrives."""
        return self._signals.fileno()

    def settle(self) -> None:
        """Note a signal that has arrived together with another reason to stop: Ctrl-C also ends the command, which may be seen first."""
        if not self.signal:
            self.signal = next(iter(self._signals.read() & set(STOPPING)), 0)

    def is_called_again(self) -> bool:
        """Return whether another signal that ends a recording has arrived."""
        return bool(self._signals.read() & set(STOPPING))

    def look(self, *, wait: bool) -> None:
        """Handle pending inputs; wait: nothing else is to do until one arrives."""
        now = time.monotonic()
        patience: float | None = 0.0
        if wait:
            waits = [self._timetable.wait(now), self._output_switch.wait(now), None if self._signals.works else _MOMENT]
            waits += (alarm.wait(now) for alarm in self.alarms)
            patience = min((seconds for seconds in waits if seconds is not None), default=None)
        if not (wait or self.has_signal or now - self._looked >= _MOMENT):
            return
        ready = self._poller.poll(None if patience is None else patience * 1000 + wait)
        self._looked = time.monotonic()
        self.wakeups += wait
        for fd, events in ready:
            self._see(fd, events)
        if not self._alive or (self._workload and self._workload.poll()):
            self.stopping = True
        for switch in self._timetable.due(time.monotonic()):
            self.switch(switch.on, "")
            self.tell("Events enabled" if switch.on else "Events disabled")
        if self._timetable.over:
            self.stopping = True
        for alarm in self.alarms:
            alarm.ring(self._looked)

    def _see(self, fd: int, events: int) -> None:
        if fd == self._signals.fileno():
            for number in self._signals.read():
                if number in STOPPING:
                    self.signal = number
                    self.stopping = True
                elif number == signal.SIGUSR2:
                    self.wants_snapshot = True
                    self._output_switch.ask()
        elif self._answers and fd == self._answers.fileno():
            if not self._answers.take():
                self._poller.unregister(fd)
        elif self._control and fd == self._control.fileno():
            if events & select.POLLIN:
                self._obey(self._control)
            elif events & _GONE:  # all writers have closed
                self._poller.unregister(fd)
        elif other := next((one for one in self.others if one.fileno() == fd), None):
            other.take()
        elif events & _GONE:
            self._poller.unregister(fd)
            self._alive.discard(fd)

    def switch(self, on: bool, name: str) -> bool:
        """Enable or disable events, except those with only side-band: later samples need their names."""
        matches = [event for event in self._counters.events if name in ("", event.name)]
        for event in matches:
            if not is_dummy(event):
                self._counters.switch(event, on)
        return bool(matches)

    def describe(self, option: str) -> str:
        """Return the events, as evlist prints them."""
        return self._describe(self._counters.events, option)

    def _obey(self, control: Control) -> None:
        """Carry out the commands of --control."""
        for command in control.commands():
            if command.verb == "stop":
                self.stopping = True
            elif command.verb == "snapshot":
                self.wants_snapshot = True
            else:
                command.obey(self)
            control.acknowledge(command)

    def wait_for_workload(self) -> None:
        """Wait until the workload has ended, after it was signalled. A further signal kills it."""
        workload = self._workload
        if not self._signals.works:  # it can only be reaped
            return
        poller = select.poll()
        poller.register(self._signals.fileno(), select.POLLIN)
        while workload and not workload.poll():
            poller.poll(_MOMENT * 1000)
            if self._signals.read() & set(STOPPING):
                workload.kill(signal.SIGKILL)


# Signals as something to poll: Ctrl-C, the end of the workload, the request for a snapshot.


class Wakeups:
    """Catches signals while it is open; a context manager that restores the old handlers.

    Only the main thread can set handlers. In other threads nothing is caught, and the caller has to poll the workload. An ignored
    SIGHUP (nohup) stays ignored.

    Attributes:
        works: whether signals are caught.
        arrived: whether a signal has arrived that read() has not returned. It needs no system call, so that loops may check it often,
            also when system calls are recorded.
    """

    def __init__(self, signals: Iterable[int]) -> None:
        self._signals = tuple(signals)
        self._handlers: dict[int, Any] = {}
        self._reading, self._writing = -1, -1
        self._old_fd = -1
        self.works = False
        self.arrived = False

    def __enter__(self) -> Wakeups:
        self._reading, self._writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            self._old_fd = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        except ValueError:  # not the main thread
            return self
        self.works = True
        for number in self._signals:
            self._catch(number)
        return self

    def add(self, number: int) -> None:
        """Catch another signal from now on."""
        self._signals += (number,)
        if self.works:
            self._catch(number)

    def _catch(self, number: int) -> None:
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            self._handlers[number] = signal.signal(number, self._note)

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        if self.works:
            signal.set_wakeup_fd(self._old_fd)
        os.close(self._reading)
        os.close(self._writing)

    def _note(self, _number: int, _frame: object) -> None:
        self.arrived = True  # the number is in the pipe

    def fileno(self) -> int:
        """Return the descriptor to poll."""
        return self._reading

    def read(self) -> set[int]:
        """Return the signals since the last call."""
        self.arrived = False  # first: a signal that arrives now is returned by the next call at the latest
        numbers: set[int] = set()
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self._reading, 512):
                numbers.update(data)
        return numbers & set(self._signals)


# --switch-output-event: start a new file whenever an event happens. The events are counted on every CPU; their records are discarded.

_PAGES = 1


class SwitchEvent:
    """Counts the events on the whole machine. ask is called after each hit."""

    def __init__(self, text: str, kernel: Kernel, ask: Callable[[], None], tell: Callable[[str], None]) -> None:
        self._ask = ask
        events = parse_events([text])
        kinds = int(SampleType.IP | SampleType.TID | SampleType.TIME)
        attrs = {event: event.attr.copy(sample_period=1, freq=0, sample_type=kinds, disabled=1, wakeup_events=1) for event in events}
        woken = change_events(events, lambda event: {"attr": attrs[event]})  # each hit wakes a poll
        self._counters = SampleCounters(kernel, woken, online_cpus(), (ANY,), tell=tell)
        self._counters.open()
        self._poller = select.epoll()
        try:
            self._counters.map(_PAGES)
            for fd in self._counters.ring_fds():
                self._poller.register(fd, select.EPOLLIN)
        except BaseException:
            self.close()
            raise

    def fileno(self) -> int:
        """Return the descriptor that becomes readable after a hit."""
        return self._poller.fileno()

    def take(self) -> bool:
        """Discard the records, and request another file."""
        for ring in self._counters.rings:
            if ring.pending():
                ring.consume()
                self._ask()
        return True

    def enable(self) -> None:
        """Enable the counters when the measurement starts."""
        self._counters.enable()

    def close(self) -> None:
        """Close the counters."""
        self._poller.close()
        self._counters.close()


# --switch-output: when a recording continues in a new file, and which old files are kept.


class OutputSwitch:
    """The state for one recording. rule None means never; keep is the limit of files, 0 for all."""

    def __init__(self, rule: SwitchOutput | None, keep: int) -> None:
        self._rule = rule
        self._keep = keep
        self._is_requested = False
        self.files: list[str] = []  # complete files that still exist
        self._next: float | None = None

    def begin(self, start: float) -> None:
        """Start the time between switches, with the measurement."""
        self._next = start + self._rule.seconds if self._rule and self._rule.seconds else None

    def ask(self) -> None:
        """Request a switch, after a signal; ignored without the option."""
        self._is_requested = self._rule is not None

    def due(self, size: int, now: float) -> bool:
        """Return whether to switch now, and reset the request."""
        rule = self._rule
        if rule is None:
            return False
        is_time = self._next is not None and now >= self._next
        if not (self._is_requested or is_time or (rule.size and size >= rule.size)):
            return False
        self._is_requested = False
        if is_time:
            self._next = now + rule.seconds
        return True

    def wait(self, now: float) -> float | None:
        """Return the seconds until a timed switch; None if there is none."""
        return None if self._next is None else max(self._next - now, 0.0)

    def add_file(self, name: str) -> list[str]:
        """Add a complete file; return the oldest beyond the limit, which are to be removed."""
        self.files.append(name)
        surplus = self.files[: -self._keep] if self._keep else []
        del self.files[: len(surplus)]
        return surplus


# --max-cpu: keep the cost of recording below a share of a CPU by taking fewer samples, and report it to the user.
#
# The kernel's ioctl sets the frequency of the opened counters. Threads that inherited a counter earlier keep its old frequency, and
# tracepoints are sampled at each hit, whatever their period. If a lower frequency does not help, the events are disabled from time to
# time, which affects all counters.


_LOOK: Final = 0.5  # seconds between two checks
_SHORTEST_REST: Final = 0.05
_LONGEST_REST: Final = 5.0
_MARGIN: Final = 0.8  # of the limit is the goal, because not all cost is due to samples
_SLACK: Final = 1.1  # times the limit is tolerated
_CLOCKS: Final = (SoftwareId.CPU_CLOCK, SoftwareId.TASK_CLOCK)
_SAMPLED_ALWAYS: Final = (PerfType.TRACEPOINT, PerfType.SOFTWARE)  # with a period in each sample, which --max-cpu requests
_NANOSECONDS: Final = 1_000_000_000
_OF_A_PROCESS: Final = 2  # CPUCLOCK_SCHED, for clock ids made of process ids


class CostLimit:
    """Watches one recording; an alarm of Attention.

    Args:
        events: those that may be sampled less.
        most: seconds of CPU time per second.
        others: processes that help to record.
        may_rest: whether the events may be disabled for a while.
    """

    def __init__(
        self,
        counters: SampleCounters,
        events: Sequence[OpenEvent],
        most: float,
        tell: Callable[[str], None],
        *,
        others: Iterable[int] = (),
        may_rest: bool = False,
    ) -> None:
        self._counters = counters
        self._events = [event for event in events if not is_dummy(event) and event.attr.sample_period]
        self._most = most
        self._tell = tell
        self._others = tuple(others)
        self._may_rest = may_rest
        self._rarer = 1.0
        self._looked, self._spent = time.monotonic(), self._cpu_time()
        self._debt = 0.0
        self._was_lowered = self._rests = False
        self._resume = 0.0  # when disabled events are enabled again; 0 while they are on

    def wait(self, now: float) -> float:
        """Return the seconds until the next check, or until events are enabled again."""
        return max((self._resume or self._looked + _LOOK) - now, 0.0)

    def ring(self, now: float) -> None:
        """Check if it is due."""
        if self._resume:
            if now >= self._resume:
                self._resume = 0.0
                self._switch(True)
        elif now - self._looked >= _LOOK:
            spent = self._cpu_time()
            passed, used = now - self._looked, spent - self._spent
            self._looked, self._spent = now, spent
            self._debt = max(self._debt + used - self._most * passed, 0.0)
            share = used / passed
            if share <= self._most * _SLACK:
                self._was_lowered = False
            elif self._rests or self._was_lowered or not self._lower(share):
                self._rest(now, share)

    def _lower(self, share: float) -> bool:
        self._rarer *= share / (self._most * _MARGIN)
        changed = [text for event in self._events if (text := _made_rarer(event, self._rarer))]
        self._was_lowered = bool(changed)
        if changed:
            self._explain(share, f"now sampling {', '.join(changed)}")
        return self._was_lowered

    def _rest(self, now: float, share: float) -> None:
        if not self._rests:
            self._rests = True
            self._explain(share, "now pausing part of the time" if self._may_rest else "lower -F or --off-cpu-limit")
        seconds = min(self._debt / self._most, _LONGEST_REST)
        if self._may_rest and seconds >= _SHORTEST_REST:
            self._switch(False)
            self._resume = now + seconds

    def _explain(self, share: float, remedy: str) -> None:
        self._tell(f"note: recording takes {share:.1%} of a CPU, more than --max-cpu {self._most:.1%}; {remedy}")

    def _switch(self, on: bool) -> None:
        for event in self._events:
            self._counters.switch(event, on)

    def _cpu_time(self) -> float:
        return time.process_time() + sum(map(_time_of, self._others))


def _made_rarer(event: OpenEvent, factor: float) -> str:
    """Sample an event less often by this factor. Return the new rate as text, "" if it cannot be changed."""
    attr = event.attr
    if attr.freq:
        rate = max(round(attr.sample_freq / factor), 1)
        is_clock = attr.type == PerfType.SOFTWARE and attr.config in _CLOCKS
        value, text = _NANOSECONDS // rate if is_clock else rate, f"{event.name} at {rate} Hz"  # the kernel keeps the period of clocks
    elif attr.type in _SAMPLED_ALWAYS:
        return ""
    else:
        value = max(round(attr.sample_period * factor), attr.sample_period)
        text = f"{event.name} once in {value}"
    for counter in event.counters.values():
        Counter.set_period(counter, value)
    return text


def _time_of(pid: int) -> float:
    """Return another process's CPU time in seconds; 0 if it has ended."""
    try:
        return time.clock_gettime(~pid << 3 | _OF_A_PROCESS)
    except OSError:
        return 0.0
