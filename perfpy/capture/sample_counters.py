"""The counters of a recording and their ring buffers: every event on every CPU or thread, one ring buffer for each CPU (or thread)."""

from __future__ import annotations

import errno
import os

from perfpy.abi.attr import CountState, EventAttr, decode_read, is_sampled_each_time, read_size
from perfpy.abi.cpu_list import parse_cpu_list
from perfpy.abi.flags import FLAG_PID_CGROUP, PMCU_NAME, PerfType, ReadFormat, SampleType, SoftwareId
from perfpy.abi.light_types import NamedTuple
from perfpy.abi.perf_records import IdIndexEntry
from perfpy.capture.counter import Counter, Opener, events_to_open
from perfpy.capture.sample_attrs import is_aux
from perfpy.capture.targets import ANY, online_cpus
from perfpy.errors import KernelRefusedError, plural
from perfpy.kernel.procfs import raise_open_files_limit
from perfpy.kernel.ring import PAGE_SIZE, Ring
from perfpy.kernel.syscalls import is_of_another_user

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Final

    from perfpy.capture.aux_area import AuxTrace
    from perfpy.capture.counter import OpenEvent
    from perfpy.capture.tracers import TracePlan
    from perfpy.events.event import Event
    from perfpy.kernel import Kernel
    from perfpy.kernel.procfs import ProcFs


class CounterTarget(NamedTuple):
    """The target of a counter: a task (ANY: all; with `cgroup` the fd of a cgroup's folder) on a CPU (ANY: all)."""

    cpu: int
    tid: int
    cgroup: bool = False


class Opened(NamedTuple):
    """One open counter; ring is the index of its ring buffer."""

    event: OpenEvent
    target: CounterTarget
    counter: Counter
    id: int
    ring: int


class SampleCounters:
    """The open counters and ring buffers of one recording.

    Args:
        events: configured, in the file's order.
        cpus, tids: where to open each of them (tid ANY: all tasks; cpus (ANY,): each thread on any CPU).
        skip_missing: skip threads that have ended, if one is left.
        skip_foreign: skip threads of processes with privileges too, such as ssh-agent, if one is left.
        cgroup_fds: event -> the folder of the cgroup whose tasks it follows.
        needs_all: refuse an event that one kind of core lacks, even if another kind has it.
        chosen: the threads of events that are opened for the chosen tasks only.
        tell: called with each line for the user.

    Attributes:
        rings: the mapped ring buffers, by index.
    """

    def __init__(
        self,
        kernel: Kernel,
        events: Sequence[Event],
        cpus: Sequence[int],
        tids: Sequence[int],
        *,
        cgroup_fds: Mapping[Event, int] | None = None,
        skip_missing: bool = False,
        skip_foreign: bool = False,
        needs_all: bool = False,
        chosen: Sequence[int] = (),
        tell: Callable[[str], None],
    ) -> None:
        self.events = events_to_open(events)
        self.cpus = tuple(cpus)
        self.tids = tuple(tids)
        self._kernel = kernel
        self._cgroups = dict(cgroup_fds or {})
        self._skip_missing = skip_missing
        self._skip_foreign = skip_foreign
        self._needs_all = needs_all
        self._chosen = tuple(chosen)
        self._tell = tell
        self._missing: set[int] = set()
        self._foreign: set[int] = set()
        self._opener = Opener(kernel, self, on_cpus=ANY in self.tids, tell=tell, more_files=raise_open_files_limit)
        self.rings: list[Ring] = []
        self._ring_fds: list[int] = []
        self.opened: list[Opened] = []
        self.aux: AuxTrace | None = None

    def open(self) -> None:
        """Open every event on its targets. Raises KernelRefusedError after closing all if one cannot be opened."""
        try:
            for event in self.events:
                if event.event.terms.user_events:
                    from perfpy.capture.aux_area import write_user_events  # few machines have one

                    write_user_events(event.event)
                self._open_event(event)
        except BaseException:
            self.close()
            raise
        left_out = [event for event in self.events if not event.state.supported]
        self.events = [event for event in self.events if event.state.supported]
        for event in {(event.pmu, event.text_name): event for event in left_out}.values():
            pmus = ", ".join(dict.fromkeys(other.pmu for other in self._of_other_cores(event)))
            self._tell(f"the CPUs of {event.pmu} cannot count '{event.text_name}'; sampling it on those of {pmus} only")

    def _of_other_cores(self, event: OpenEvent) -> list[OpenEvent]:
        """Return the events of the same text on other kinds of cores that can count them."""
        others = [other for other in self.events if other.text_name == event.text_name and other.pmu != event.pmu]
        return [other for other in others if event.text_name and other.state.supported]

    def _open_event(self, event: OpenEvent) -> None:
        targets = [(target, target.tid, target.cpu) for target in self._targets(event) if target.tid not in self._missing]
        is_cgroup = any(target.cgroup for target, _, _ in targets)
        self._opener.open(event, targets, flags=FLAG_PID_CGROUP if is_cgroup else 0)
        event.set_filter()

    def warn_of_skipped(self, warn: Callable[[str], None]) -> None:
        """Report the threads of processes with privileges, if there are any."""
        if number := len(self._foreign):
            threads = f"{number} {plural(number, 'thread')} of processes with privileges"
            warn(f"skipping {threads}, the first is {min(self._foreign)}; run with CAP_PERFMON or CAP_SYS_PTRACE to include them")

    def _targets(self, event: OpenEvent) -> Iterator[CounterTarget]:
        if event.pmu.startswith(PMCU_NAME):
            yield from (CounterTarget(cpu, ANY) for cpu in event.cpus or (0,))
            return
        cpus = self.cpus
        if event.event.system_wide:  # tasks migrate, and their mappings and switches on other CPUs matter, too
            yield from (CounterTarget(cpu, ANY) for cpu in online_cpus())
            return
        if event.cpus is not None and ANY not in cpus:
            cpus = tuple(cpu for cpu in cpus if cpu in event.cpus)
        for cpu in cpus:
            cgroup = self._cgroups.get(event.event)
            if cgroup is not None:
                yield CounterTarget(cpu, cgroup, cgroup=True)
            else:
                yield from (CounterTarget(cpu, tid) for tid in (self._chosen if event.event.of_chosen else self.tids))

    # refusals, called by the opener

    def member_refused(self, opened: OpenEvent, refusal: KernelRefusedError) -> bool | None:
        """Break up a weak group that does not fit on the PMU: each of its events counts alone, and starts as its leader did."""
        if refusal.errno not in (errno.EINVAL, errno.EBADF):
            return None
        leader = opened.leader
        members = [event for event in self.events if event.leader is leader]
        for event in members:
            event.close()
            event.leave_group()
            event.ask(event.requested.copy(disabled=leader.requested.disabled, enable_on_exec=leader.requested.enable_on_exec))
        for event in members[: members.index(opened)]:
            self._open_event(event)
        return True

    def cannot_count(self, opened: OpenEvent, refusal: KernelRefusedError) -> bool:
        """Whether to go on without an event: if the CPU's other kind of core has it. A recording needs its other events."""
        is_single = opened.is_leader and not any(event.leader is opened for event in self.events if event is not opened)
        if refusal.errno != errno.ENOENT or self._needs_all or not is_single or not self._of_other_cores(opened):
            return False
        opened.state = CountState(supported=False, why_not=refusal)
        return True

    def may_replace(self, _opened: OpenEvent, _refusal: KernelRefusedError) -> bool:
        """Return True: another event is better than none."""
        return True

    def goes_without(self, tid: int, refusal: KernelRefusedError) -> bool:
        """Whether to skip a thread that has ended or may not be measured, if one is left."""
        has_ended = (self._skip_missing or tid in self._chosen) and refusal.errno == errno.ESRCH
        is_foreign = self._skip_foreign and is_of_another_user(refusal)
        if not has_ended and not is_foreign:
            return False
        self._missing.add(tid)
        if is_foreign:
            self._foreign.add(tid)
        return bool(set(self.tids) - self._missing)

    def map(
        self, pages: int, trace: TracePlan | None = None, warn: Callable[[str], None] | None = None, apart: OpenEvent | None = None
    ) -> None:
        """Map the ring buffers, `pages` pages each, and redirect every counter's records to that of its CPU (or thread).

        Args:
            pages: of each ring buffer.
            trace: how the AUX data of a tracer's event are collected.
            warn: called with lines about them.
            apart: the event that has ring buffers of its own, so that its records leave room for the others'; None for none.
        """
        owners: dict[tuple[int, int, int, bool], int] = {}  # (thread, CPU, backward, apart) -> ring buffer; one of the first two is ANY
        owner_fds = self._ring_fds
        by_thread = ANY in self.cpus
        for event in self.events:
            backward = event.attr.write_backward
            for target, counter in event.counters.items():
                key = (target.tid if by_thread else ANY, target.cpu, backward, event is apart)
                ring = owners.get(key)
                if ring is None:
                    ring = owners[key] = len(self.rings)
                    try:
                        self.rings.append(Ring.map(counter.fd, pages, backward=bool(backward)))
                        owner_fds.append(counter.fd)
                    except KernelRefusedError:  # no more memory may be locked
                        shared = owners.get((*key[:3], False))
                        if event is not apart or shared is None:
                            raise
                        ring = owners[key] = shared
                if owner_fds[ring] != counter.fd:
                    self._kernel.set_output(counter.fd, owner_fds[ring])
                self.opened.append(Opened(event, target, counter, counter.id, ring))
        if trace:
            from perfpy.capture.aux_area import AuxTrace, TracedCounter  # few machines have one

            traced = [
                TracedCounter(one.counter, one.event, one.target.cpu, one.target.tid, one.ring) for one in self.opened if is_aux(one.event)
            ]
            self.aux = AuxTrace(traced, self.rings, self.cpus, trace, warn or self._tell)

    def restricted_to(self, events: Sequence[OpenEvent]) -> SampleCounters:
        """Return the same open counters, restricted to these events."""
        from copy import copy  # only for recordings of waits

        restricted = copy(self)
        restricted.events = list(events)
        restricted.opened = [one for one in self.opened if one.event in events]
        return restricted

    def ids(self, event: OpenEvent) -> tuple[int, ...]:
        """Return the ids that identify an event's counters in records."""
        return tuple(one.id for one in self.opened if one.event is event)

    def id_index(self) -> tuple[IdIndexEntry, ...]:
        """Return every counter for the ID_INDEX record."""
        unsigned = (1 << 64) - 1
        return tuple(
            IdIndexEntry(one.id, one.ring, one.target.cpu & unsigned, (ANY if one.target.cgroup else one.target.tid) & unsigned)
            for one in self.opened
        )

    def fds(self) -> list[int]:
        """Return every counter's file descriptor, except those that do not end with the tasks."""
        is_of_tasks = ANY not in self.tids
        return [one.counter.fd for one in self.opened if not (is_of_tasks and one.target.tid == ANY)]

    def ring_fds(self) -> list[int]:
        """Return the counters whose ring buffers are mapped; polling them reports every record."""
        return list(self._ring_fds)

    def enable(self, *, with_program: bool = False) -> None:
        """Enable all counters; with_program: only those that a program's start does not enable."""
        for event in self.events:
            if not with_program or (event.attr.disabled and not event.attr.enable_on_exec):
                self.switch(event, True)

    def disable(self) -> None:
        """Disable all counters."""
        for event in self.events:
            self.switch(event, False)

    def switch(self, event: OpenEvent, on: bool) -> None:
        """Enable or disable an event's counters; members of a group follow their leader."""
        action = Counter.enable if on else Counter.disable
        event.is_enabled = on
        if event.is_leader:
            for counter in event.counters.values():
                action(counter)

    def count(self, event: OpenEvent) -> int:
        """Return how often the event has happened on all its counters."""
        size = read_size(event.attr.read_format, 1)
        read = (self._kernel.read(counter.fd, size) for counter in event.counters.values())
        return sum(next(iter(decode_read(data, event.attr.read_format, "="))).value for data in read if data)

    def pause(self, paused: bool) -> None:
        """Pause or resume writing to backward ring buffers while they are read."""
        paused_fds: set[int] = set()
        for one in self.opened:
            if one.event.attr.write_backward and one.ring not in paused_fds:
                paused_fds.add(one.ring)
                one.counter.pause_output(paused)

    def lost(self) -> Iterator[tuple[Opened, int]]:
        """Yield the counters that lost samples, with the number."""
        members = {id(event): 0 for event in self.events}
        for event in self.events:
            members[id(event.leader)] += 1
        for one in self.opened:
            read_format = one.event.attr.read_format
            if not read_format & ReadFormat.LOST or one.event.attr.write_backward:
                continue
            data = self._kernel.read(one.counter.fd, read_size(read_format, members[id(one.event.leader)]))
            if not data:
                continue
            lost = next((reading.lost for reading in decode_read(data, read_format, "=") if reading.id in (None, one.id)), None)
            if lost:
                yield one, lost

    def close(self) -> None:
        """Unmap the ring buffers and close the counters."""
        if self.aux:
            self.aux.close()
            self.aux = None
        for ring in self.rings:
            ring.close()
        self.rings.clear()
        for event in self.events:
            event.close()
        for fd in set(self._cgroups.values()):
            os.close(fd)
        self._cgroups.clear()


# The sizes of ring buffers: as large as the events need, within what the user may lock.

_MLOCK_SETTING: Final = "kernel.perf_event_mlock_kb"
_DEFAULT_MLOCK_KB: Final = 516
_PARANOID: Final = "kernel.perf_event_paranoid"
_CAP_IPC_LOCK: Final = 14
_ROOMY: Final = 8 << 20  # bytes: a quarter of a second of stacks of 16 kB at 2 kHz
_LEAST_ROOMY: Final = 2 << 20
_BESIDE_STACK: Final = 2048  # bytes of a sample without its stack: the kernel's callchain, registers, and records of tasks
_CLOCKS: Final = (SoftwareId.CPU_CLOCK, SoftwareId.TASK_CLOCK)
_FOR_BURSTS: Final = 32 << 20  # bytes: page faults with stacks fill 8 MB within some milliseconds
_ALL_RINGS: Final = 256 << 20
_HURRY: Final = 10_000  # Hz


def default_pages(procfs: ProcFs) -> int:
    """Return perf's default pages of a ring buffer: as many as a user may lock, rounded down to 2^n."""
    allowed = procfs.setting(_MLOCK_SETTING) or _DEFAULT_MLOCK_KB
    pages = max(allowed * 1024 // PAGE_SIZE - 1, 1)
    return 1 << (pages.bit_length() - 1)


def pages_for(attrs: Sequence[EventAttr], procfs: ProcFs, capabilities: int, *, rewritten: bool = False) -> int:
    """Return the pages of a ring by how fast these events fill it; perf's number where the user may not lock more.

    rewritten: whether another process takes the records, as with --unwind.
    """
    if any(attr.sample_type & SampleType.STACK_USER and is_sampled_each_time(attr) for attr in attrs):  # each writes a copy of the stack
        return roomy_pages(procfs, capabilities, _FOR_BURSTS)
    if rewritten or any(map(_fills_ring_quickly, attrs)):
        return roomy_pages(procfs, capabilities, _room_for(attrs))
    return default_pages(procfs)


def _room_for(attrs: Sequence[EventAttr]) -> int:
    """Return the bytes of a roomy ring: a second of samples of clocks, which are never faster than their frequency.

    The kernel takes 3 ms to allocate 8 MB.
    """
    sampled = [attr for attr in attrs if not _is_silent(attr)]
    if not all(attr.freq and attr.type == PerfType.SOFTWARE and attr.config in _CLOCKS for attr in sampled):
        return _ROOMY
    needed = sum(attr.sample_freq * (attr.sample_stack_user + _BESIDE_STACK) for attr in sampled)
    return min(max(1 << (needed - 1).bit_length(), _LEAST_ROOMY), _ROOMY) if sampled else _ROOMY


def roomy_pages(procfs: ProcFs, capabilities: int, size: int) -> int:
    """Return the pages of a ring of some bytes, fewer on machines with many CPUs; perf's number where the user may not lock more."""
    may_lock = capabilities >> _CAP_IPC_LOCK & 1 or (procfs.setting(_PARANOID) or 0) < 0
    each = min(size, _ALL_RINGS // (os.cpu_count() or 1))
    return max(default_pages(procfs), 1 << (each // PAGE_SIZE).bit_length() - 1 if may_lock else 0)


def _fills_ring_quickly(attr: EventAttr) -> bool:
    """Whether an event may fill an ordinary ring before the recorder runs again: within some hundredths of a second."""
    if _is_silent(attr):
        return False
    if attr.sample_type & SampleType.STACK_USER:
        return True
    return attr.sample_freq >= _HURRY if attr.freq else is_sampled_each_time(attr)


def _is_silent(attr: EventAttr) -> bool:
    """Whether an event takes no samples by itself."""
    return attr.type == PerfType.SOFTWARE and attr.config in (SoftwareId.DUMMY, SoftwareId.BPF_OUTPUT)


# --affinity: the CPUs on which the recorder reads a ring buffer, so that a CPU's records are read near it.

_NODES = "/sys/devices/system/node"


def mover(word: str, counters: SampleCounters) -> Callable[[int], None]:
    """Return a function that moves to the CPUs of a ring buffer, given by index. word is cpu or node."""
    import contextlib

    groups = [frozenset({cpu}) for cpu in counters.cpus if cpu != ANY]
    if word != "cpu":
        groups = []
        with contextlib.suppress(OSError):
            for name in sorted(os.listdir(_NODES)):
                if name.startswith("node") and name[4:].isdecimal():
                    with open(f"{_NODES}/{name}/cpulist") as file:
                        groups.append(frozenset(parse_cpu_list(file.read().strip())))
    home = {one.ring: next((group for group in groups if one.target.cpu in group), frozenset[int]()) for one in counters.opened}
    here: frozenset[int] = frozenset()

    def move(ring: int) -> None:
        nonlocal here
        cpus = home.get(ring)
        if not cpus or cpus == here:
            return
        here = cpus
        with contextlib.suppress(OSError):  # the CPU is offline or not permitted; the recorder stays where it is
            os.sched_setaffinity(0, cpus)

    return move
