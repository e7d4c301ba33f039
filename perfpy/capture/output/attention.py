"""What a recording attends to beside its rings: signals, the clock, --control, answers of others, the end of what is recorded.

What enters: open counters, the signals, the workload and --control, if any.
What leaves: whether the recording is to stop, and because of which signal;
events are switched here as the clock and --control have it.

Rings that fill up faster than they are emptied never let the recorder wait.
So look() is called after every pass over them: a signal is seen at once, the
rest (which needs a system call) at the latest after a moment.
"""

from __future__ import annotations

import select
import signal
import time
from typing import TYPE_CHECKING, Final

from perfpy.abi.startup import NamedTuple
from perfpy.capture.rings.sample_attrs import is_dummy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Protocol

    from perfpy.capture.control import Command, Control
    from perfpy.capture.opening import OpenEvent
    from perfpy.capture.output.output_switch import OutputSwitch
    from perfpy.capture.output.wakeups import Wakeups
    from perfpy.capture.rings.sample_counters import SampleCounters
    from perfpy.capture.rings.switch_event import SwitchEvent
    from perfpy.capture.workload import Workload

    class Answers(Protocol):
        """Something else that wants attention when its descriptor becomes readable."""

        def fileno(self) -> int:
            """The descriptor."""

        def take(self) -> bool:
            """Take what is there; False when no more is to come."""

    class Alarm(Protocol):
        """Something that is due from time to time."""

        def wait(self, now: float) -> float:
            """Seconds until it is."""

        def ring(self, now: float) -> None:
            """Do it, if it is due."""

    #: events and evlist's option -> its lines
    Describe = Callable[[Sequence[OpenEvent], str], str]


class TimedSwitch(NamedTuple):
    """The counters go on or off."""

    time: float
    on: bool


class Timetable:
    """The switches to come. delay: milliseconds, -1 = never, or ranges of milliseconds."""

    def __init__(self, delay: int | tuple[tuple[int, int], ...], start: float) -> None:
        self._switches: list[TimedSwitch] = []
        self._in_ranges = isinstance(delay, tuple)
        if isinstance(delay, tuple):
            for on, off in delay:
                self._switches += (TimedSwitch(start + on / 1000, True), TimedSwitch(start + off / 1000, False))
        elif delay > 0:
            self._switches.append(TimedSwitch(start + delay / 1000, True))

    def due(self, now: float) -> Iterator[TimedSwitch]:
        """What has to be done by now, each once."""
        while self._switches and self._switches[0].time <= now:
            yield self._switches.pop(0)

    @property
    def over(self) -> bool:
        """The last range has ended: there is nothing more to record."""
        return self._in_ranges and not self._switches

    def wait(self, now: float) -> float | None:
        """Seconds until the next switch; None when there is none."""
        return max(self._switches[0].time - now, 0.0) if self._switches else None


#: what ends a recording as it should
STOPPING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_GONE: Final = select.POLLHUP | select.POLLERR | select.POLLNVAL
_MOMENT: Final = 0.1  # seconds: where signals cannot tell that the command has ended, and where there is no time to wait


class Regularly:
    """An alarm that only ends the waiting: large rings are emptied long before the kernel finds them half full."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._next = 0.0

    def wait(self, now: float) -> float:
        """Seconds until the next time."""
        return max(self._next - now, 0.0)

    def ring(self, now: float) -> None:
        """Once more."""
        if now >= self._next:
            self._next = now + self._seconds


def names_only(events: Sequence[OpenEvent], _option: str) -> str:
    """The shortest answer to evlist."""
    return "\n".join(event.name for event in events)


class Attention:
    """Attends to one recording.

    tell: a line for whoever watches; describe: the events as --control's
    evlist shows them; answers: comes from whoever helps. stopping: it is time to stop; signal: what ended it, 0
    = no signal; wakeups: how often it was waited; alarms: what else is due from time to time; others: what else may come.
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
        self.signal = 0
        self.wakeups = 0

    def begin(self, fds: Iterable[int], delay: int | tuple[tuple[int, int], ...], *, ends_only: bool = False) -> None:
        """The measurement starts. fds: the counters whose end is its end; delay: as a Timetable takes it.

        ends_only: what the counters write is for others to take.
        """
        now = self._looked = time.monotonic()
        self._timetable = Timetable(delay, now)
        self._alive = set(fds)
        others = [source.fileno() for source in (self._signals, self._control, self._answers, *self.others) if source]
        for fd in self._alive:
            self._poller.register(fd, 0 if ends_only else select.POLLIN)
        for fd in others:
            self._poller.register(fd, select.POLLIN)
        for other in self.others:
            other.enable()

    @property
    def called(self) -> bool:
        """A signal has come; costs nothing to ask."""
        return self._signals.arrived

    @property
    def signal_fd(self) -> int:
        """Becomes readable when a signal has come."""
        return self._signals.fileno()

    def is_called_again(self) -> bool:
        """One more signal has come that ends a recording."""
        return bool(self._signals.read() & set(STOPPING))

    def look(self, *, wait: bool) -> None:
        """See what there is to do, and do it; wait: there is nothing else to do until then."""
        now = time.monotonic()
        patience = self._patience(now) if wait else 0.0
        if not (wait or self.called or now - self._looked >= _MOMENT):
            return
        ready = self._poller.poll(None if patience is None else patience * 1000 + wait)
        self._looked = time.monotonic()
        self.wakeups += wait
        for fd, events in ready:
            self._see(fd, events)
        if not self._alive or (self._workload and self._workload.poll()):
            self.stopping = True
        self._follow_timetable()
        for alarm in self.alarms:
            alarm.ring(self._looked)

    def _patience(self, now: float) -> float | None:
        waits = [self._timetable.wait(now), self._output_switch.wait(now), None if self._signals.works else _MOMENT]
        waits += (alarm.wait(now) for alarm in self.alarms)
        return min((wait for wait in waits if wait is not None), default=None)

    def _see(self, fd: int, events: int) -> None:
        if fd == self._signals.fileno():
            self._take_signals()
        elif self._answers and fd == self._answers.fileno():
            if not self._answers.take():
                self._poller.unregister(fd)
        elif self._control and fd == self._control.fileno():
            if events & select.POLLIN:
                self._obey(self._control)
            elif events & _GONE:  # nobody is left who could write
                self._poller.unregister(fd)
        elif other := next((one for one in self.others if one.fileno() == fd), None):
            other.take()
        elif events & _GONE:
            self._poller.unregister(fd)
            self._alive.discard(fd)

    def _take_signals(self) -> None:
        for number in self._signals.read():
            if number in STOPPING:
                self.signal = number
                self.stopping = True
            elif number == signal.SIGUSR2:
                self._output_switch.ask()

    def _follow_timetable(self) -> None:
        for switch in self._timetable.due(time.monotonic()):
            self.switch(switch.on, "")
            self.tell("Events enabled" if switch.on else "Events disabled")
        if self._timetable.over:
            self.stopping = True

    def switch(self, on: bool, name: str) -> bool:
        """Enable or disable events; those that only tell of tasks and mappings go on, or later samples would lack names."""
        named = [event for event in self._counters.events if name in ("", event.name)]
        for event in named:
            if not is_dummy(event):
                self._counters.switch(event, on)
        return bool(named)

    def describe(self, option: str) -> str:
        """The events, as evlist has them."""
        return self._describe(self._counters.events, option)

    def _obey(self, control: Control) -> None:
        """Do what came over --control."""
        for command in control.commands():
            self._obey_one(command)
            control.acknowledge(command)

    def _obey_one(self, command: Command) -> None:
        """A snapshot is one of an AUX trace, which there is not: perf answers and does nothing, too."""
        if command.verb == "stop":
            self.stopping = True
        else:
            command.obey(self)

    def wait_for_workload(self) -> None:
        """Until it has ended: it was told to. Who asks again has it killed."""
        workload = self._workload
        if not self._signals.works:  # it can only be waited for
            return
        poller = select.poll()
        poller.register(self._signals.fileno(), select.POLLIN)
        while workload and not workload.poll():
            poller.poll(_MOMENT * 1000)
            if self._signals.read() & set(STOPPING):
                workload.kill(signal.SIGKILL)
