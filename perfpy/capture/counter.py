"""Counter and CounterGroup: one file descriptor is one counter, and what the kernel lets one do with it.

What enters: an EventAttr (or an event's text), a task and a CPU. What leaves:
`Reading` values. The system calls are perfpy.kernel's; layout of what read(2)
returns: perfpy.abi.readings.
"""

from __future__ import annotations

from perfpy.abi.flags import FLAG_FD_CLOEXEC, ReadFormat
from perfpy.abi.readings import Reading, decode_read, read_size
from perfpy.errors import KernelRefused, NotScheduled, UsageError
from perfpy.kernel import this_kernel

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any, Final

    from perfpy.abi.attr import EventAttr
    from perfpy.kernel import Kernel
    from perfpy.kernel.ring import Ring
    from perfpy.kernel.user_page import UserPage, UserReading

_TIMES: Final = ReadFormat.TOTAL_TIME_ENABLED | ReadFormat.TOTAL_TIME_RUNNING


class Counter:
    """One open counter.

    attr: what to count; pid: a task, 0 = the calling one, -1 = all; cpu: its
    number, -1 = any; group: the counter that leads the group, or None; event:
    its name in messages; flags: FLAG_* of perf_event_open(2).

    Raises KernelRefused, and UsageError for pid -1 with cpu -1. A context
    manager; closing gives the counter back.
    """

    __slots__ = ("_kernel", "_members", "_overflow", "_page", "_read_size", "_ring", "attr", "cpu", "event", "fd", "pid")

    fd: int

    def __init__(
        self,
        attr: EventAttr,
        pid: int = 0,
        cpu: int = -1,
        group: Counter | None = None,
        *,
        event: str = "",
        flags: int = FLAG_FD_CLOEXEC,
        kernel: Kernel | None = None,
    ) -> None:
        self._kernel = kernel or this_kernel()
        self.attr = attr
        self.event = event
        self.pid = pid
        self.cpu = cpu
        self._members = 1
        self._read_size = read_size(attr.read_format)
        self._page: UserPage | None = None
        self._ring: Ring | None = None
        self._overflow: tuple[int, Any] | None = None  # the signal of on_overflow, and what handled it before
        self.fd = self._kernel.perf_event_open(attr, pid, cpu, group.fd if group else -1, flags, event=event)
        if group:
            group._add_member()  # noqa: SLF001  # its own kind

    def _add_member(self) -> None:
        self._members += 1
        self._read_size = read_size(self.attr.read_format, self._members)

    @classmethod
    def open(cls, event: str, pid: int = 0, cpu: int = -1, **attr_fields: int) -> Counter:
        """A counter for an event's text ("task-clock:u"); attr_fields: attr bits to set, as inherit=1 or disabled=1."""
        from perfpy.events import parse_events  # the event language is not needed by those who bring an attr

        parsed = parse_events([event])
        if len(parsed) != 1 or parsed[0].tool:
            raise UsageError(f"'{event}' is not one event of the kernel's")
        attr = parsed[0].attr.copy(**{"read_format": int(_TIMES), **attr_fields})
        return cls(attr, pid, cpu, event=parsed[0].name)

    def fileno(self) -> int:
        """The file descriptor, so that select and poll take a Counter."""
        return self.fd

    def read(self) -> Reading:
        """The count and its times. Raises NotScheduled when a pinned counter has lost the PMU."""
        return self.read_group()[0]

    def read_group(self) -> list[Reading]:
        """The counts of the whole group, the leader's first (with ReadFormat.GROUP; otherwise only this one)."""
        data = self._kernel.read(self.fd, self._read_size)
        if not data:
            raise NotScheduled(self.event)
        return decode_read(data, self.attr.read_format, "=")

    def read_user(self, read_register: Callable[[int], int] | None = None, read_clock: Callable[[], int] | None = None) -> UserReading:
        """The count from the counter's mapped page, without a system call; by read() where that cannot be, saying why.

        For counters of the calling thread. read_register: a function of yours
        that runs the machine's instruction for PMU register n (rdpmc on x86);
        read_clock: one for its time stamp counter, needed while counters share
        the PMU. Python has neither: without them this is read(), with the
        reason. The times are those of the page's last update, unless the
        counter shares the PMU. Raises NotScheduled as read() does.
        """
        from perfpy.kernel.user_page import CounterUnreadable, UserPage, UserReading

        try:
            if self._page is None:
                self._page = UserPage(self._ring.control if self._ring else self._kernel.map_page(self.fd))
            return UserReading(self._page.read(read_register, read_clock), "")
        except CounterUnreadable as reason:
            return UserReading(self.read(), str(reason))
        except KernelRefused as refused:
            return UserReading(self.read(), refused.cause)

    def enable(self, *, group: bool = False) -> None:
        """Count (group: with all members)."""
        self._kernel.enable(self.fd, group=group)

    def disable(self, *, group: bool = False) -> None:
        """Stop counting (group: with all members)."""
        self._kernel.disable(self.fd, group=group)

    def reset(self, *, group: bool = False) -> None:
        """Set the count to 0; the times go on (group: with all members)."""
        self._kernel.reset(self.fd, group=group)

    def refresh(self, overflows: int) -> None:
        """Enable a sampling counter for so many overflows more."""
        self._kernel.refresh(self.fd, overflows)

    def set_period(self, period: int) -> None:
        """Sample every `period` events from now on (Hz, where attr.freq is set)."""
        self._kernel.set_period(self.fd, period)

    def set_output(self, target: Counter | None) -> None:
        """Write records to another counter's ring (None: to its own again)."""
        self._kernel.set_output(self.fd, target.fd if target else -1)

    def set_filter(self, expression: str) -> None:
        """Count only the tracepoint's hits for which the expression holds."""
        self._kernel.set_filter(self.fd, expression)

    def set_bpf(self, program_fd: int) -> None:
        """Run a loaded BPF program at each hit of the tracepoint or probe."""
        self._kernel.set_bpf(self.fd, program_fd)

    def pause_output(self, paused: bool = True) -> None:
        """Stop writing records to the ring, or go on."""
        self._kernel.pause_output(self.fd, paused)

    def modify_attributes(self, attr: EventAttr) -> None:
        """Take another attr; the kernel allows it for breakpoints."""
        self._kernel.modify_attributes(self.fd, attr)
        self.attr = attr

    @property
    def id(self) -> int:
        """The number by which records and group reads name this counter."""
        return self._kernel.event_id(self.fd)

    def ring(self, pages: int = 8) -> Ring:
        """The ring that a sampling counter writes its records to; mapped when first asked for, a power of two pages.

        Raises KernelRefused.
        """
        if self._ring is None:
            from perfpy.kernel.ring import Ring

            if self._page is not None:
                self._page.close()  # the kernel maps one size of a counter at a time
                self._page = None
            self._ring = Ring.map(self.fd, pages, backward=bool(self.attr.write_backward))
        return self._ring

    def poll(self, timeout: float | None = None) -> bool:
        """Wait for records (as many as attr.wakeup_events says); timeout in seconds. False: none came, or the task ended.

        The kernel wakes only who has mapped the ring: take the records from
        ring(), or the ring fills up and nothing more comes.
        """
        import select

        self.ring()
        poller = select.poll()
        poller.register(self.fd, select.POLLIN)
        ready = poller.poll(None if timeout is None else timeout * 1000)
        return any(events & select.POLLIN for _, events in ready)

    def on_overflow(self, handler: Callable[[Counter], None] | None, signum: int = 0) -> None:
        """Call `handler(counter)` at each overflow, by a signal (default SIGIO); None: no more, as it was before.

        Python runs signal handlers in the main thread, where this is to be
        called, too; overflows in quick succession may share one call.
        """
        import fcntl
        import os
        import signal

        flags = fcntl.fcntl(self.fd, fcntl.F_GETFL)
        if handler is None:
            fcntl.fcntl(self.fd, fcntl.F_SETFL, flags & ~os.O_ASYNC)
            if self._overflow is not None:
                signal.signal(*self._overflow)
                self._overflow = None
            return
        signum = signum or signal.SIGIO
        before = signal.signal(signum, lambda *_: handler(self))
        if self._overflow is None:
            self._overflow = (signum, before)
        fcntl.fcntl(self.fd, _F_SETSIG, signum)
        fcntl.fcntl(self.fd, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(self.fd, fcntl.F_SETFL, flags | os.O_ASYNC)

    def close(self) -> None:
        """Give the counter back; more than once does no harm."""
        if self.fd < 0:
            return
        if self._overflow is not None:
            self.on_overflow(None)
        for mapped in (self._page, self._ring):
            if mapped is not None:
                mapped.close()
        self._page = self._ring = None
        self._kernel.close(self.fd)
        self.fd = -1

    def __enter__(self) -> Counter:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Counter {self.event or self.attr!r} pid={self.pid} cpu={self.cpu} fd={self.fd}>"


_F_SETSIG: Final = 10  # fcntl.h; the fcntl module of some Pythons lacks the name


class CounterGroup:
    """Counters that are on the PMU together or not at all, read in one call.

    attrs: the leader's first. The group starts disabled: enable() it, or use
    it as a context manager around what is to be counted. Raises KernelRefused.
    """

    def __init__(
        self,
        attrs: Sequence[EventAttr],
        pid: int = 0,
        cpu: int = -1,
        *,
        events: Sequence[str] = (),
        kernel: Kernel | None = None,
    ) -> None:
        if not attrs:
            raise UsageError("a group needs at least one event")
        names = list(events) or [""] * len(attrs)
        self.counters: list[Counter] = []
        read_format = int(_TIMES | ReadFormat.GROUP | ReadFormat.ID)
        try:
            for i, attr in enumerate(attrs):
                member = attr.copy(read_format=read_format, disabled=int(i == 0))
                leader = self.counters[0] if i else None
                self.counters.append(Counter(member, pid, cpu, leader, event=names[i], kernel=kernel))
        except BaseException:
            self.close()
            raise

    @classmethod
    def open(cls, events: Sequence[str], pid: int = 0, cpu: int = -1) -> CounterGroup:
        """A group for events' texts."""
        from perfpy.events import parse_events

        parsed = parse_events(list(events))
        return cls([event.attr for event in parsed], pid, cpu, events=[event.name for event in parsed])

    @property
    def leader(self) -> Counter:
        """The first counter, which stands for the group."""
        return self.counters[0]

    def read(self) -> dict[str, Reading]:
        """All counts of one moment, by the events' names. Raises NotScheduled."""
        readings = self.leader.read_group()
        return {counter.event: reading for counter, reading in zip(self.counters, readings, strict=True)}

    def enable(self) -> None:
        """Count."""
        self.leader.enable(group=True)

    def disable(self) -> None:
        """Stop counting."""
        self.leader.disable(group=True)

    def reset(self) -> None:
        """Set all counts to 0."""
        self.leader.reset(group=True)

    def close(self) -> None:
        """Give all counters back."""
        for counter in reversed(self.counters):
            counter.close()

    def __iter__(self) -> Iterator[Counter]:
        return iter(self.counters)

    def __len__(self) -> int:
        return len(self.counters)

    def __enter__(self) -> CounterGroup:
        self.enable()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def enable_all(kernel: Kernel | None = None) -> None:
    """Let every counter that the calling thread has opened count, on whatever task it is. Raises KernelRefused."""
    (kernel or this_kernel()).enable_all()


def disable_all(kernel: Kernel | None = None) -> None:
    """Stop every counter that the calling thread has opened; enable_all() lets them go on. Raises KernelRefused."""
    (kernel or this_kernel()).disable_all()
