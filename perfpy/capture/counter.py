"""Counter: one counter as one file descriptor, and its operations.

perfpy.kernel has the system calls, perfpy.abi.attr the layout of read(2).
"""

from __future__ import annotations

import errno
import sys
from _struct import error as StructError  # type: ignore[attr-defined]  # noqa: N812  # struct itself is one more module to load
from _thread import get_ident

from perfpy.abi.attr import (
    COUNTED,
    TIMES_SIZE,
    CountedEvent,
    EventAttr,
    Reading,
    UserReading,
    decode_read,
    read_size,
    unpack_signed,
    unpack_times,
)
from perfpy.abi.cpu_list import cpu_list_text
from perfpy.abi.flags import FLAG_FD_CLOEXEC, PerfType, ReadFormat, SampleType, SoftwareId
from perfpy.errors import GroupIsFullError, KernelRefusedError, NotScheduledError, UsageError
from perfpy.kernel import this_kernel
from perfpy.kernel.syscalls import CLOSED, is_perf_event

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, Final, Protocol

    from perfpy.events.event import Event
    from perfpy.kernel import Kernel
    from perfpy.kernel.ring import AuxArea, Ring
    from perfpy.kernel.user_page import CodeReader, UserPage

    OpeningTarget = tuple[Any, int, int]

    class Refusals(Protocol):
        """A command's decisions about refusals."""

        def member_refused(self, opened: OpenEvent, refusal: KernelRefusedError) -> bool | None:
            """Handle a refused member of a weak group: True to retry, False to go on without it, None if the group is not the reason."""

        def cannot_count(self, opened: OpenEvent, refusal: KernelRefusedError) -> bool:
            """Whether the measurement goes on without an event that cannot be opened."""

        def may_replace(self, opened: OpenEvent, refusal: KernelRefusedError) -> bool:
            """Whether another event may replace it."""

        def goes_without(self, tid: int, refusal: KernelRefusedError) -> bool:
            """Whether to skip this task."""


_TIMES: Final = ReadFormat.TOTAL_TIME_ENABLED | ReadFormat.TOTAL_TIME_RUNNING
_new: Final = tuple.__new__


class Counter:
    """One open counter. A context manager, which closes it. Raises KernelRefusedError, and UsageError for pid -1 with cpu -1.

    Args:
        attr: the event to count.
        pid: a task; 0 for the calling one, -1 for all.
        cpu: a CPU's number; -1 for any.
        group: the counter that leads the group, or None.
        event: the event's name in messages.
        flags: FLAG_* of perf_event_open(2).

    >>> import perfpy
    >>> with perfpy.Counter.open("page-faults:u") as counter:
    ...     counter.read().value >= 0
    True
    """

    __slots__ = (
        "__weakref__",
        "_aux",
        "_has_handler",
        "_is_ebb",
        "_kernel",
        "_leader",
        "_members",
        "_migrations",
        "_only_times",
        "_page",
        "_position",
        "_read",
        "_read_page",
        "_reader",
        "_ring",
        "_sharers",
        "_target",
        "_thread",
        "attr",
        "cpu",
        "cpus",
        "event",
        "fd",
        "pid",
    )  # fmt: skip

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
        self.fd = -1
        self._take(attr, group, kernel)
        self.event = event
        self.pid = pid
        self.cpu = cpu
        if self._is_ebb or (group and group._is_ebb):  # noqa: SLF001  # the same class
            from perfpy.events import ebb as particular_pmus  # rarely needed

            particular_pmus.check(attr, pid, cpu, group.attr if group else None, event)
        self.fd = self._kernel.perf_event_open(attr, pid, cpu, group.fd if group else -1, flags, event=event)
        if group:
            group._members += 1  # noqa: SLF001  # the same class

    def _take(self, attr: EventAttr, group: Counter | None, kernel: Kernel | None) -> None:
        self._kernel = kernel or this_kernel()
        self._read = self._kernel.read
        self.attr = attr
        self._leader = group
        self._members = 1
        self._position = group._members if group else 0  # noqa: SLF001  # the same class; the position in reads of the group
        self._is_ebb = bool(attr.config >> 63) and _ebb_here(attr)
        self._only_times = attr.read_format == _TIMES and not self._is_ebb
        self._page: UserPage | None = None
        self._reader: CodeReader | None = None
        self._read_page: Callable[[], bytes] = bytes  # b"" without a mapped page
        self._ring: Ring | None = None
        self._aux: AuxArea | None = None
        self._target: Counter | None = None
        self._sharers: list[Counter] = []  # counters that write to this one's ring buffer
        self._thread = get_ident()
        self._has_handler = False
        self._migrations: Counter | None = None  # of the same task, for on_forbidden_cpu
        self.cpus: tuple[int, ...] | None = None  # that the PMU counts on; None for all

    @classmethod
    def open(cls, event: str, pid: int = 0, cpu: int = -1, *, ebb: int = 0, **attr_fields: int) -> Counter:
        """Open a counter for an event's text ("task-clock:u"). attr_fields are attr bits to set, for example inherit=1 or disabled=1.

        ebb: an event-based branch of POWER (bit 63, pinned, exclusive): overflows branch to the program's own handler.
        """
        from perfpy.events import parse_events  # not needed with an attr

        parsed = parse_events([event])
        if len(parsed) != 1 or parsed[0].tool:
            names = f", but {len(parsed)}: {', '.join(each.name for each in parsed)}; open them one by one" if len(parsed) > 1 else ""
            raise UsageError(f"'{event}' is not a single kernel event{names}")
        attr = parsed[0].attr.copy(**{"read_format": int(_TIMES), **attr_fields})
        if ebb:
            from perfpy.events.ebb import with_needs  # rarely needed

            attr = with_needs(attr)
        counter = open_with_less(attr, pid, cpu, event=parsed[0].name)
        counter.cpus = parsed[0].cpus
        return counter

    @classmethod
    def from_fd(cls, fd: int, attr: EventAttr | None = None, *, event: str = "", kernel: Kernel | None = None) -> Counter:
        """Wrap an inherited descriptor, or one received over a socket (socket.recv_fds). It is closed with this counter.

        fileno() is the descriptor to pass on. Raises UsageError if the descriptor is no perf event.

        Args:
            attr: the attr that the counter was opened with; None: as Counter.open() does, with both times in reads.
        """
        if kernel is None and not is_perf_event(fd):
            raise UsageError(f"file descriptor {fd} is not a perf event")
        counter = cls.__new__(cls)
        counter.fd = -1
        counter._take(attr or EventAttr(read_format=int(_TIMES)), None, kernel)  # noqa: SLF001  # the same class
        counter.pid, counter.cpu, counter.event = 0, -1, event
        counter.fd = fd
        return counter

    def fileno(self) -> int:
        """Return the file descriptor, so that select and poll accept a Counter."""
        return self.fd

    def read(self) -> Reading:
        """Read the count and its times. Raises NotScheduledError if a pinned counter has lost the PMU, KernelRefusedError.

        A counter that never ran has the value 0 and the share 0, which why_partial() explains. Raises UsageError for an event-based branch
        (EBB): its count is in the program's PMC; see verify().
        """
        if self._only_times:
            try:
                return _new(Reading, unpack_times(self._read(self.fd, TIMES_SIZE)))  # counters may be read a million times
            except (OSError, StructError):
                pass  # the slow path finds the reason
        if self._is_ebb:
            self.verify()
            raise self.unread()
        readings = self.read_group()
        if not self.attr.read_format & ReadFormat.GROUP:
            return readings[0]
        if self.attr.read_format & ReadFormat.ID:
            own = self.id
            return next(reading for reading in readings if reading.id == own)
        return readings[self._position]

    def why_partial(self, reading: Reading) -> str:
        """Return the share of the time that a reading covers, and the reason; "" if the counter ran whenever it was enabled.

        A task's counter stops while the task runs on a CPU that the PMU lacks, such as the other kind of core of a hybrid machine.
        """
        if not reading.enabled or reading.share >= 1:
            return ""
        share = f"counted for {reading.share:.1%} of the time" if reading.running else "never counted"
        if self.cpus is None:
            return f"{share}: other events had the PMU"
        reason = "and shares them with other events" if reading.running else "where its task did not run or other events had the PMU"
        return f"{share}: {self.event or 'it'} counts on CPUs {cpu_list_text(self.cpus)} only, {reason}"

    def verify(self) -> None:
        """Raise NotScheduledError if the counter can never be scheduled: a pinned one may be open and enabled without counting."""
        if self._is_ebb:
            try:
                self.read_raw()
            except NotScheduledError:
                raise NotScheduledError(self.event, "another pinned event holds the PMU") from None
        else:
            self.read_raw()

    @property
    def is_ebb(self) -> bool:
        """Whether overflows are event-based branches (EBB, POWER)."""
        return self._is_ebb

    def unread(self) -> UsageError:
        """Return the error for reading an event-based branch."""
        return UsageError(
            f"'{self.event}' branches to the program at overflows (EBB): its count is in the PMC, which only the program can read"
        )

    def read_group(self) -> list[Reading]:
        """Return the counts of the whole group, the leader's first (with ReadFormat.GROUP; otherwise only this counter's)."""
        return decode_read(self.read_raw(), self.attr.read_format, "=")

    def read_raw(self) -> bytes:
        """Return the bytes of read(2) for the whole group. Raises NotScheduledError, KernelRefusedError."""
        leader = self._leader or self
        try:
            data = self._kernel.read(self.fd, read_size(self.attr.read_format, leader._members))  # noqa: SLF001  # the same class
        except OSError as error:
            raise KernelRefusedError("read of a counter", error.errno or 0, event=self.event) from None
        if not data:
            raise NotScheduledError(self.event)
        return data

    def read_user(self, read_register: Callable[[int], int] | None = None, read_clock: Callable[[], int] | None = None) -> UserReading:
        """Read the counter from its mapped page without a system call, or by read() with the reason if that is impossible.

        It works for counters of the calling thread, by perfpy's machine code (x86-64 and arm64), if the kernel lets user space read the
        PMU: on x86-64 by default, on arm64 with sysctl kernel.perf_user_access and config1:1 in the event. The times are those of the
        page's last update, unless the counter is multiplexed. Raises NotScheduledError as read() does.

        Args:
            read_register: a function of yours that reads PMU register n instead.
            read_clock: a function of yours that reads the time stamp counter.
        """
        data = self._read_page()
        reader = self._reader
        if reader is None or read_register is not None:
            return self._read_mapped(read_register, read_clock)
        if not data:
            return reader.read_by_syscall()
        words = unpack_signed(data)
        return _new(UserReading, words) if words[0] >= reader.least else reader.read()

    def _read_mapped(self, read_register: Callable[[int], int] | None, read_clock: Callable[[], int] | None) -> UserReading:
        from perfpy.kernel.user_page import CodeReader, CounterUnreadableError, UserPage

        try:
            if self._page is None:
                self._page = UserPage(self._ring.control if self._ring else self._kernel.map_page(self.fd))
            if read_register is not None:
                return UserReading(*self._page.read(read_register, read_clock))
            if self.pid != 0 or get_ident() != self._thread:
                raise CounterUnreadableError("it counts another task, whose registers are not readable")
            reader = self._reader = CodeReader(self._page, self.read)
        except CounterUnreadableError as reason:
            return UserReading.of_read(self.read(), str(reason))
        except KernelRefusedError as refused:
            return UserReading.of_read(self.read(), refused.cause)
        self._read_page = reader.read_page
        return reader.read()

    def enable(self, *, group: bool = False) -> None:
        """Start counting (group: all members). Raises NotScheduledError for an event-based branch if another event holds the PMU."""
        self._kernel.enable(self.fd, group=group)
        if self._is_ebb:
            self.verify()

    def disable(self, *, group: bool = False) -> None:
        """Stop counting (group: all members)."""
        self._kernel.disable(self.fd, group=group)

    def reset(self, *, group: bool = False) -> None:
        """Set the count to 0, but not the times (group: all members)."""
        self._kernel.reset(self.fd, group=group)

    def refresh(self, overflows: int) -> None:
        """Enable a sampling counter for this number of overflows."""
        self._kernel.refresh(self.fd, overflows)

    def set_period(self, period: int) -> None:
        """Sample every `period` events from now on (Hz if attr.freq is set)."""
        self._kernel.set_period(self.fd, period)

    def set_output(self, target: Counter | None) -> None:
        """Write records to another counter's ring buffer (None: to its own again)."""
        self._kernel.set_output(self.fd, target.fd if target else -1)
        if self._target is not None:
            self._target._sharers.remove(self)  # noqa: SLF001  # the same class
        self._target = target
        if target is not None:
            target._sharers.append(self)  # noqa: SLF001  # the same class

    def set_filter(self, expression: str) -> None:
        """Count only the tracepoint's hits that satisfy the expression."""
        self._kernel.set_filter(self.fd, expression)

    def set_bpf(self, program_fd: int) -> None:
        """Run a loaded BPF program at each hit of the tracepoint or probe."""
        self._kernel.set_bpf(self.fd, program_fd)

    def pause_output(self, paused: bool = True) -> None:
        """Stop or resume writing records to the ring buffer."""
        self._kernel.pause_output(self.fd, paused)

    def modify_attributes(self, attr: EventAttr) -> None:
        """Change the attr; the kernel allows it for breakpoints."""
        self._kernel.modify_attributes(self.fd, attr)
        self.attr = attr

    @property
    def id(self) -> int:
        """The number by which records and group reads identify this counter."""
        return self._kernel.event_id(self.fd)

    def ring(self, pages: int = 8) -> Ring:
        """Return the ring buffer of a sampling counter, mapped on first use; pages is a power of two.

        Iterating over it yields decoded records. Raises KernelRefusedError.
        """
        if self._ring is None:
            from perfpy.kernel.ring import Ring

            self._unmap()  # the kernel maps one size of a counter at a time
            self._ring = Ring.map(self.fd, pages, backward=bool(self.attr.write_backward))
            self._ring.set_writers(lambda: {counter.id: counter.attr for counter in (self, *self._sharers)})
        return self._ring

    def aux(self, pages: int = 64) -> AuxArea:
        """Return the AUX area for hardware traces, a power of two pages. Raises KernelRefusedError, also if the PMU writes none."""
        if self._aux is None:
            from perfpy.kernel.ring import AuxArea

            self._aux = AuxArea.map(self.fd, self.ring(), pages)
        return self._aux

    def poll(self, timeout: float | None = None) -> bool:
        """Wait for records (attr.wakeup_events of them); timeout is in seconds. Return False if none came, or the task ended.

        The kernel wakes only processes that have mapped the ring buffer. Take the records from ring(), or it fills up and no more
        records come.
        """
        import select

        self.ring()
        poller = select.poll()
        poller.register(self.fd, select.POLLIN)
        ready = poller.poll(None if timeout is None else timeout * 1000)
        return any(events & select.POLLIN for _, events in ready)

    def on_overflow(self, handler: Callable[[Counter], object] | None, *, refresh: int = 0, signum: int = 0) -> None:
        """Call `handler(counter)` at each overflow from now on; None stops it.

        The handler runs on a thread of perfpy, concurrently with the program, one call at a time. The calls are for this process only:
        a forked child has none, and does not end its parent's. Raises UsageError, KernelRefusedError.

        Args:
            refresh: count this number of overflows, then pause until the handler returns, and so on (enables the counter); 0: never pause.
            signum: the real-time signal that the kernel uses; no handler is installed for it.
        """
        from perfpy.capture.overflow_handlers import overflow_thread  # threads and ctypes' structures: rarely needed

        if handler is None:
            overflow_thread().forget(self.fd)
            return
        self._has_handler = True
        overflow_thread().watch(self, handler, signum=signum, refresh=refresh)
        if refresh:
            self.refresh(refresh)

    def on_forbidden_cpu(self, handler: Callable[[Counter, int], object] | None) -> None:
        """Call `handler(counter, cpu)` when the task has moved to a CPU on which this counter does not count; None stops it.

        These are the CPUs that are not in `cpus`, such as the other kind of core of a hybrid machine. The handler runs as that of
        on_overflow(). Raises UsageError for a counter of a CPU, or one that counts on all CPUs; KernelRefusedError if the user may not
        count the task's migrations, which are events of the kernel.
        """
        if self._migrations is not None:
            self._migrations.close()
            self._migrations = None
        if handler is None:
            return
        if self.cpus is None or self.cpu >= 0:
            raise UsageError(f"{self!r} counts wherever its task runs, or a CPU instead of a task: no CPU is forbidden")
        import weakref  # rarely needed

        from perfpy.abi.ring_records import RingSample

        owner, cpus = weakref.ref(self), self.cpus

        def moved(migrations: Counter) -> None:
            for record in migrations.ring():
                counter = owner()
                if counter is not None and isinstance(record, RingSample) and record.cpu not in cpus:
                    handler(counter, record.cpu)

        attr = EventAttr(
            type=PerfType.SOFTWARE, config=SoftwareId.CPU_MIGRATIONS, sample_type=int(SampleType.CPU), sample_period=1, wakeup_events=1
        )
        migrations = self._migrations = Counter(attr, self.pid, event="cpu-migrations", kernel=self._kernel)
        migrations.ring(1)
        migrations.on_overflow(moved)

    def close(self) -> None:
        """Close the counter; closing twice is harmless."""
        if self.fd < 0:
            return
        self.on_forbidden_cpu(None)
        if self._has_handler:
            self.on_overflow(None)
        self._unmap()
        fd, self.fd = self.fd, -1
        self._kernel.close(fd)
        self._kernel = CLOSED
        self._read = CLOSED.read

    def _unmap(self) -> None:
        for mapped in (self._reader, self._page, self._aux, self._ring):
            if mapped is not None:
                mapped.close()
        self._reader = self._page = self._aux = self._ring = None
        self._read_page = bytes

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if self.fd >= 0 and not is_finalizing():  # nothing can be imported or called then, and all is closed anyway
            import warnings

            try:
                warnings.warn(f"{self!r} was never closed", ResourceWarning, stacklevel=2, source=self)
            finally:
                self.close()

    def __enter__(self) -> Counter:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Counter {self.event or self.attr!r} pid={self.pid} cpu={self.cpu} fd={self.fd}>"


def open_with_less(
    attr: EventAttr, pid: int, cpu: int, group: Counter | None = None, *, event: str = "", kernel: Kernel | None = None
) -> Counter:
    """Open a counter as requested or, as stat does, without attr bits that a simple PMU such as msr rejects. Raises KernelRefusedError."""
    try:
        return Counter(attr, pid, cpu, group, event=event, kernel=kernel)
    except KernelRefusedError as refusal:
        from perfpy.events.fallback import Attempt, next_attempt

        less = next_attempt(Attempt(attr, FLAG_FD_CLOEXEC, frozenset(), group is None), refusal.errno)
        while less is not None:
            try:
                return Counter(less.attr, pid, cpu, group, event=event, flags=less.flags, kernel=kernel)
            except KernelRefusedError as again:
                less = next_attempt(less, again.errno)
        raise


_WITHOUT_COUNTERS: Final = (PerfType.SOFTWARE, PerfType.TRACEPOINT)
_SPLIT_GROUP: Final = "split the group, or end it with :W, so that it may break up"


def refusal_by_group(
    refusal: KernelRefusedError, attr: EventAttr, pid: int, cpu: int, remedy: str, *, kernel: Kernel | None
) -> KernelRefusedError:
    """Return the refusal of a group's member: GroupIsFullError if the kernel opens the event alone."""
    # only hardware runs out of counters; exclusive and pinned events must lead their group
    if refusal.errno != errno.EINVAL or attr.type in _WITHOUT_COUNTERS or attr.exclusive or attr.pinned:
        return refusal
    try:
        open_with_less(attr.copy(disabled=1), pid, cpu, event=refusal.event, kernel=kernel).close()
    except KernelRefusedError:
        return refusal
    return GroupIsFullError(refusal, remedy)


def _ebb_here(attr: EventAttr) -> bool:
    from perfpy.events import ebb as particular_pmus  # rarely needed

    return particular_pmus.is_ebb(attr) and particular_pmus.means_ebb()


# Open events as counters: the loop of attempts that stat, count() and record share.
#
# perfpy.events.fallback decides what to try after a refusal. The command decides what happens to an event that cannot be opened
# (`Refusals`).


class OpenEvent(CountedEvent):
    """An event that is being opened, and its counters.

    Attributes:
        name, attr: those tried last.
        flags: the flags of the last attempt.
        leader, weak: its current group.
        state: its outcome.
        filter: the filter for its counters.
        requested: the requested attr.
        asked_precise: the requested precise_ip, before it was lowered.
        is_enabled: whether it has been enabled, by the start of a program at the latest, and not disabled since.
    """

    __slots__ = ("asked_precise", "counters", "event", "filter", "flags", "is_enabled", "requested", "state", "weak")

    leader: OpenEvent

    def __init__(self, event: Event, leader: OpenEvent | None = None) -> None:
        super().__init__(event.name, event.attr, unit=event.unit, scale=event.scale, pmu=event.pmu, tool=event.tool)
        self.per_pkg, self.snapshot, self.cpus, self.cgroup = event.per_pkg, event.snapshot, event.cpus, event.cgroup
        self.generic, self.is_named, self.text_name = event.generic, event.is_named, event.text_name
        self.event = event
        self.leader = leader or self
        self.weak = event.weak
        self.filter = event.filter
        self.state = COUNTED
        self.counters: dict[Any, Counter] = {}
        self.is_enabled = bool(event.attr.enable_on_exec)
        self.ask(event.attr)

    @property
    def is_leader(self) -> bool:
        """Whether it leads a group, or has none."""
        return self.leader is self

    def ask(self, attr: EventAttr) -> None:
        """Request this attr from the next attempt on."""
        self.requested = self.attr = attr
        self.flags = FLAG_FD_CLOEXEC
        self.asked_precise = 0

    def leave_group(self) -> None:
        """Leave the group, and count alone."""
        self.leader, self.group_size, self.weak = self, 1, False

    def set_filter(self) -> None:
        """Set the filter of the counters, if there is one."""
        if self.filter:
            for counter in self.counters.values():
                counter.set_filter(self.filter)

    def close(self, *, but: int = 0) -> None:
        """Close the counters, except the first `but`."""
        for known_by in list(self.counters)[but:]:
            self.counters.pop(known_by).close()


def events_to_open(events: Iterable[Event]) -> list[OpenEvent]:
    """Return the events to open, in their groups; leaders come before their members."""
    opened: dict[Event, OpenEvent] = {}
    for event in events:
        opened[event] = OpenEvent(event, None if event.led_by is None else opened[event.led_by])
        opened[event].added_to = None if event.added_to is None else opened.get(event.added_to)
    return list(opened.values())


class Opener:
    """Opens events in order; features that the kernel lacks are not requested again.

    Args:
        on_cpus: whole CPUs are measured, not tasks.
        tell: called with a line for each replaced event.
        more_files: raises the limit of open files; False if it cannot.
    """

    def __init__(
        self,
        kernel: Kernel,
        refusals: Refusals,
        *,
        on_cpus: bool,
        tell: Callable[[str], None],
        more_files: Callable[[], bool] = lambda: False,
    ) -> None:
        self._kernel = kernel
        self._refusals = refusals
        self._on_cpus = on_cpus
        self._tell = tell
        self._more_files = more_files
        self._missing: frozenset[str] = frozenset()

    def open(self, opened: OpenEvent, targets: Sequence[OpeningTarget], *, flags: int = 0) -> None:
        """Open an event's counters on the targets that have none yet: as requested, with less, or as another event.

        flags are added to those of the attempt. Raises KernelRefusedError if no attempt succeeds.
        """
        self._begin(opened)
        counters = opened.counters
        earlier, ended_tasks = len(counters), set()
        again = True
        while again:
            leaders = {} if opened.is_leader else opened.leader.counters
            again = False
            try:
                for known_by, pid, cpu in targets:
                    if known_by not in counters and pid not in ended_tasks:
                        leader, open_flags = leaders.get(known_by), opened.flags | flags
                        counters[known_by] = Counter(
                            opened.attr, pid, cpu, leader, event=opened.name, flags=open_flags, kernel=self._kernel
                        )
            except KernelRefusedError as refusal:
                if again := self._refusals.goes_without(pid, refusal):
                    ended_tasks.add(pid)
                    continue
                first = not counters
                opened.close(but=earlier)
                again = self._may_try_again(opened, refusal, pid, cpu, first=first)

    def _begin(self, opened: OpenEvent) -> None:
        """Omit features that earlier events have found missing."""
        if not self._missing or opened.counters:
            return
        from perfpy.events.fallback import first_attempt

        first = first_attempt(opened.attr, self._missing, leads=opened.is_leader, chooses_guests=opened.event.host_or_guest)
        opened.attr, opened.flags = first.attr, first.flags

    def _may_try_again(self, opened: OpenEvent, refusal: KernelRefusedError, pid: int, cpu: int, *, first: bool) -> bool:
        """Handle a refusal: True to retry, False to go on without the event; otherwise raise it."""
        if refusal.errno == errno.EMFILE and self._more_files():
            return True
        # As in perf 6.12, a group that is too large looks like a kernel without the newer features, which later events go without, too.
        if self._ask_for_less(opened, refusal, first=first):
            return True
        if opened.weak and not opened.is_leader:
            again = self._refusals.member_refused(opened, refusal)
            if again is not None:
                return again
        if not opened.is_leader:
            refusal = refusal_by_group(refusal, opened.attr, pid, cpu, _SPLIT_GROUP, kernel=self._kernel)
        if self._refusals.cannot_count(opened, refusal):
            return False
        if self._refusals.may_replace(opened, refusal) and self._replace(opened, refusal):
            return True
        if refusal.errno == errno.EINVAL and opened.event.requires_cpu and opened.attr.sample_period:
            cause = f"the PMU {opened.pmu} counts for whole CPUs and takes no samples"
            raise KernelRefusedError(refusal.call, refusal.errno, event=opened.name, cause=cause, remedy="count it by perfpy stat -a")
        raise refusal

    def _ask_for_less(self, opened: OpenEvent, refusal: KernelRefusedError, *, first: bool) -> bool:
        """Omit a feature that an old kernel, or a simple PMU such as msr, rejects; False if nothing is left to omit."""
        event = opened.event
        if refusal.errno != errno.EINVAL and not (event.precise_max and opened.attr.precise_ip):
            return False
        from perfpy.events.fallback import Attempt, next_attempt

        attempt = Attempt(opened.attr, opened.flags, self._missing, opened.is_leader, opened.asked_precise, event.host_or_guest)
        less = next_attempt(attempt, refusal.errno, precise_max=event.precise_max, first=first)
        if less is None:
            return False
        opened.attr, opened.flags, self._missing, opened.asked_precise = less.attr, less.flags, less.missing, less.asked_precise
        return True

    def _replace(self, opened: OpenEvent, refusal: KernelRefusedError) -> bool:
        """Replace cycles by a clock, or restrict the event to user space if the kernel is off limits; the event's name changes with it."""
        from perfpy.events.fallback import replacement
        from perfpy.kernel.syscalls import paranoid_level

        attr, precise_max = opened.requested, opened.event.precise_max
        paranoid = paranoid_level()
        instead = replacement(opened.name, attr, refusal.errno, on_cpus=self._on_cpus, paranoid=paranoid, precise_max=precise_max)
        if instead is None:
            return False
        opened.name = instead.name
        opened.ask(instead.attr)
        self._begin(opened)
        self._tell(instead.message)
        return True
