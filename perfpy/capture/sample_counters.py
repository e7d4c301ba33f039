"""The counters of a recording and their ring buffers: every event on every CPU or thread, one ring buffer for each CPU (or thread)."""

from __future__ import annotations

import errno
import os
from errno import EACCES, EOPNOTSUPP, EPERM

from perfpy.abi.attr import EventAttr, decode_read, is_sampled_each_time, read_size
from perfpy.abi.cpu_list import parse_cpu_list
from perfpy.abi.flags import FLAG_PID_CGROUP, PerfType, ReadFormat, SampleType, SoftwareId
from perfpy.abi.perf_records import PMCU_NAME, IdIndexEntry
from perfpy.abi.sample_layout import minimal_registers, user_registers
from perfpy.abi.startup import NamedTuple
from perfpy.capture.counter import Counter
from perfpy.capture.counters import Opener, events_to_open
from perfpy.capture.record_options import DEFAULT_FREQ, MAX_FREQ, STANDARD_OUTPUT, Callchain, parse_branch_filter, stack_size
from perfpy.capture.targets import ANY, online_cpus
from perfpy.errors import KernelRefusedError, UsageError, plural
from perfpy.events.event import Event, change_events
from perfpy.kernel.procfs import raise_open_files_limit
from perfpy.kernel.ring import PAGE_SIZE, Ring
from perfpy.kernel.syscalls import is_of_another_user

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Final

    from perfpy.capture.aux_area import AuxOutput
    from perfpy.capture.counters import OpenEvent
    from perfpy.capture.record_options import RecordOptions
    from perfpy.capture.targets import Target
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
        tell: Callable[[str], None],
    ) -> None:
        self.events = events_to_open(events)
        self.cpus = tuple(cpus)
        self.tids = tuple(tids)
        self._kernel = kernel
        self._cgroups = dict(cgroup_fds or {})
        self._skip_missing = skip_missing
        self._skip_foreign = skip_foreign
        self._missing: set[int] = set()
        self._foreign: set[int] = set()
        self._opener = Opener(kernel, self, on_cpus=ANY in self.tids, tell=tell, more_files=raise_open_files_limit)
        self.rings: list[Ring] = []
        self._ring_fds: list[int] = []
        self.opened: list[Opened] = []
        self.aux: AuxOutput | None = None

    def open(self) -> None:
        """Open every event on its targets. Raises KernelRefusedError after closing all if one cannot be opened."""
        try:
            for event in self.events:
                if is_aux(event):
                    from perfpy.capture.aux_area import write_user_events  # few machines have one

                    write_user_events(event.event)
                targets = [(target, target.tid, target.cpu) for target in self._targets(event) if target.tid not in self._missing]
                self._opener.open(event, targets, flags=FLAG_PID_CGROUP if event.event in self._cgroups else 0)
                event.set_filter()
        except BaseException:
            self.close()
            raise

    def warn_of_skipped(self, warn: Callable[[str], None]) -> None:
        """Report the threads of processes with privileges, if there are any."""
        if number := len(self._foreign):
            threads = f"{number} {plural(number, 'thread')} of processes with privileges"
            warn(f"skipping {threads}, the first is {min(self._foreign)}; run with CAP_PERFMON or CAP_SYS_PTRACE to include them")

    def _targets(self, event: OpenEvent) -> Iterator[CounterTarget]:
        if is_aux(event):
            yield from (CounterTarget(cpu, ANY) for cpu in event.cpus or (0,))
            return
        cpus = self.cpus
        carries = is_dummy(event) and event.attr.mmap and not all(map(is_dummy, self.events))
        if ANY in self.tids and carries and ANY not in cpus:
            cpus = online_cpus()  # tasks migrate, and their mappings on other CPUs matter, too
        if event.cpus is not None and ANY not in cpus:
            cpus = tuple(cpu for cpu in cpus if cpu in event.cpus)
        for cpu in cpus:
            cgroup = self._cgroups.get(event.event)
            if cgroup is not None:
                yield CounterTarget(cpu, cgroup, cgroup=True)
            else:
                yield from (CounterTarget(cpu, tid) for tid in self.tids)

    # refusals, called by the opener

    def member_refused(self, opened: OpenEvent, _refusal: KernelRefusedError) -> bool | None:
        """Let a member of a weak group that does not fit count alone."""
        opened.leave_group()
        opened.ask(opened.requested.copy(disabled=1))
        return True

    def cannot_count(self, _opened: OpenEvent, _refusal: KernelRefusedError) -> bool:
        """Return False: a recording needs all its events."""
        return False

    def may_replace(self, _opened: OpenEvent, _refusal: KernelRefusedError) -> bool:
        """Return True: another event is better than none."""
        return True

    def goes_without(self, tid: int, refusal: KernelRefusedError) -> bool:
        """Whether to skip a thread that has ended or may not be measured, if one is left."""
        has_ended = self._skip_missing and refusal.errno == errno.ESRCH
        is_foreign = self._skip_foreign and is_of_another_user(refusal)
        if not has_ended and not is_foreign:
            return False
        self._missing.add(tid)
        if is_foreign:
            self._foreign.add(tid)
        return bool(set(self.tids) - self._missing)

    def map(self, pages: int, aux_pages: int = 0) -> None:
        """Map the ring buffers, `pages` pages each, and redirect every counter's records to that of its CPU (or thread).

        aux_pages is the size of the AUX area of an AUX event; 0 for the default.
        """
        owners: dict[tuple[int, int], int] = {}  # (CPU or thread, backward) -> ring buffer
        owner_fds = self._ring_fds
        by_thread = ANY in self.cpus
        for event in self.events:
            backward = event.attr.write_backward
            for target, counter in event.counters.items():
                key = (target.tid if by_thread else target.cpu, backward)
                ring = owners.get(key)
                if ring is None:
                    ring = owners[key] = len(self.rings)
                    self.rings.append(Ring.map(counter.fd, pages, backward=bool(backward)))
                    owner_fds.append(counter.fd)
                else:
                    self._kernel.set_output(counter.fd, owner_fds[ring])
                self.opened.append(Opened(event, target, counter, counter.id, ring))
        if self.opened and is_aux(self.opened[0].event):
            from perfpy.capture.aux_area import AuxOutput  # few machines have one

            self.aux = AuxOutput(self.opened[0].counter, self.rings[0], 0, aux_pages)

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
        return [one.counter.fd for one in self.opened if not is_aux(one.event)]

    def ring_fds(self) -> list[int]:
        """Return the counters whose ring buffers are mapped; polling them reports every record."""
        return list(self._ring_fds)

    def enable(self, *, with_program: bool = False) -> None:
        """Enable all counters; with_program: only those that a program's start does not enable."""
        for event in self.events:
            if not with_program or is_aux(event):
                self.switch(event, True)

    def disable(self) -> None:
        """Disable all counters."""
        for event in self.events:
            self.switch(event, False)

    def switch(self, event: OpenEvent, on: bool) -> None:
        """Enable or disable an event's counters; members of a group follow their leader."""
        action = Counter.enable if on else Counter.disable
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


# Complete every event's attr for sampling: sample_type, read_format, period, side-band and enabling bits, by the options. If perf has
# one, a dummy event for the side-band is added. The rules are those of perf-record(1) 6.12.

_TRACE_FIELDS: Final = SampleType.RAW | SampleType.TIME | SampleType.CPU | SampleType.PERIOD
_TIMES: Final = ReadFormat.TOTAL_TIME_ENABLED | ReadFormat.TOTAL_TIME_RUNNING
_FUNCTION_TRACE: Final = ("ftrace", "function")
_MAX_PRECISION: Final = 3
_WORTH_WAKING: Final = 1 << 18  # bytes in a ring buffer


def configure_sampling(events: Sequence[Event], options: RecordOptions, target: Target, kernel: Kernel) -> list[Event]:
    """Return the events to open with their attrs, including the tracking event.

    The tracking event, which requests side-band (mmap, comm, fork ... records), is the first one. It is a separate dummy if the events
    are not enabled from the program's start (-a, -C, -D) or may be disabled (--max-cpu), unless the first one is a dummy. The
    kernel is checked for PERF_SAMPLE_IDENTIFIER if needed.
    """
    result = list(events)
    if any(map(is_aux, events)):
        from perfpy.capture.aux_area import with_aux_first  # few machines have one

        result = with_aux_first(events, options)
    tracking = result[0]
    if is_aux(tracking) or ((_starts_late(options, target) or options.max_cpu) and not is_dummy(tracking)):
        tracking = Event("dummy:u", _software(SoftwareId.DUMMY, sample_period=1))
        result.append(tracking)
    groups = {event.leader for event in result if not event.is_leader}
    attrs = {event: sampling_attr(event, options, target, tracks=event is tracking, in_group=event.leader in groups) for event in result}
    attrs |= {event: _following(event, attrs) for event in result if event.sample_read and not event.is_leader}
    final = dict(zip(result, _with_ids(list(attrs.values()), options, kernel), strict=True))
    return change_events(result, lambda event: {"attr": final[event]})


def is_aux(event: Event | OpenEvent) -> bool:
    """Whether hardware writes this event's data to memory."""
    return event.pmu.startswith(PMCU_NAME)


def _aux_attr(attr: EventAttr) -> EventAttr:
    """Return the attr of an AUX event: its records only mark the times of its data."""
    sample_type = SampleType.IP | SampleType.TID | SampleType.TIME | SampleType.CPU
    excluded = dict.fromkeys(("exclude_user", "exclude_kernel", "exclude_hv", "exclude_guest", "exclude_host"), 0)
    read_format = int(ReadFormat.ID | ReadFormat.LOST)
    return attr.copy(
        sample_type=int(sample_type), read_format=read_format, sample_period=1, freq=0, sample_id_all=1, disabled=1, **excluded
    )


def sampling_attr(event: Event, options: RecordOptions, target: Target, *, tracks: bool, in_group: bool) -> EventAttr:
    """Return the attr to sample an event with. tracks: it requests side-band; in_group: it leads or follows other events."""
    if event.ebb:
        raise UsageError(f"'{event.name}' branches to the program at overflows (EBB, bit 63), and has no samples; clear that bit")
    if is_aux(event):
        return _aux_attr(event.attr)
    return _Draft(event, options, target, tracks=tracks, in_group=in_group).finish()


def is_dummy(event: Event | OpenEvent) -> bool:
    """Whether an event only provides side-band records."""
    return event.attr.type == PerfType.SOFTWARE and event.attr.config == SoftwareId.DUMMY


def _starts_late(options: RecordOptions, target: Target) -> bool:
    """Whether events are enabled later than the side-band begins."""
    return options.starts_disabled or not target.has_tasks


def _software(config: int, **fields: int) -> EventAttr:
    """Return the attr of a software event, in user space only."""
    return EventAttr(type=PerfType.SOFTWARE, config=config, exclude_kernel=1, exclude_hv=1, exclude_guest=1, **fields)


class _Draft:
    """One event's attr while the rules are applied; each method is one group of rules."""

    def __init__(self, event: Event, options: RecordOptions, target: Target, *, tracks: bool, in_group: bool) -> None:
        self.event = event
        self.draft = event.attr.copy()
        self.options = options
        self.target = target
        self.tracks = tracks
        self.in_group = in_group
        self.own_dummy = tracks and is_dummy(event) and event.attr.sample_period == 1  # not one that the user requested
        self.at_once = self.own_dummy or (tracks and is_dummy(event) and _starts_late(options, target))
        self.sample = SampleType.IP | SampleType.TID
        self.read = ReadFormat.ID | ReadFormat.LOST

    def finish(self) -> EventAttr:
        """Return the complete attr; later rules override earlier ones."""
        draft, options = self.draft, self.options
        draft.sample_id_all = 1
        draft.inherit = int(options.target.inherit and not options.target.per_thread)
        draft.write_backward = int(options.buffers.overwrite)
        self._set_group_reads()
        self._set_period()
        self._set_fields()
        if options.sampling.callchain and not self.own_dummy:
            self._set_callchain(options.sampling.callchain)
        self._set_registers()
        self._set_side_band()
        self._set_enabling()
        if options.off_cpu.enabled and not options.buffers.no_buffering:  # half of a large ring buffer would be minutes of few waits
            draft.watermark, draft.wakeup_events = 1, _WORTH_WAKING
        if self.event.precise_max:
            draft.precise_ip = _MAX_PRECISION
        if options.sampling.all_user or options.sampling.all_kernel:
            draft.exclude_kernel, draft.exclude_user = int(options.sampling.all_user), int(options.sampling.all_kernel)
        self._apply_terms()
        self._set(SampleType.PERIOD, True if options.max_cpu else options.sampling.period_field)
        draft.sample_type |= int(self.sample)
        draft.read_format = int(self.read)
        return draft

    def _set(self, field: int, present: bool | None) -> None:
        """Add a field (True), remove it (False), or leave it (None)."""
        if present is not None:
            self.sample = self.sample | field if present else self.sample & ~field

    def _set_group_reads(self) -> None:
        if not self.event.sample_read:
            return
        self.sample |= SampleType.READ | SampleType.ID
        if self.in_group:
            self.read |= ReadFormat.GROUP
            self.draft.inherit = 0  # an inherited group cannot be read as one

    def _set_period(self) -> None:
        draft, options = self.draft, self.options
        if self.event.tracepoint or (self.event.attr.type == PerfType.SOFTWARE and self.event.attr.config == SoftwareId.BPF_OUTPUT):
            self.sample |= _TRACE_FIELDS
            draft.sample_period = draft.sample_period or 1
        elif draft.type == PerfType.BREAKPOINT:
            draft.sample_period = 1
        if not draft.sample_period or options.sampling.freq is not None or options.sampling.period is not None:
            if options.sampling.period:
                draft.sample_period, draft.freq = options.sampling.period, 0
            else:
                draft.sample_freq, draft.freq = options.sampling.freq or DEFAULT_FREQ, 1
        if draft.freq:
            self.sample |= SampleType.PERIOD
        if options.sampling.no_samples:
            draft.sample_period = 0
        if options.buffers.no_buffering:
            draft.watermark, draft.wakeup_events = 0, 1

    def _set_fields(self) -> None:
        options, draft = self.options, self.draft
        chain = options.sampling.callchain
        stacks = chain is not None and chain.mode == "dwarf" and (chain.addresses or options.sampling.unwind)
        # perf records data addresses with stacks; they are useless if stacks are unwound at once.
        addresses = options.sampling.data or (stacks and not options.sampling.unwind)
        for is_wanted, field in (
            (addresses, SampleType.ADDR | SampleType.DATA_SRC),
            (not self.target.has_tasks or options.sampling.cpu_field, SampleType.CPU),
            (options.sampling.raw and not self.own_dummy, SampleType.TIME | SampleType.RAW | SampleType.CPU),
            (options.sampling.sample_mem_info, SampleType.DATA_SRC),
            (options.sampling.transaction, SampleType.TRANSACTION),
            (options.sampling.phys_data, SampleType.PHYS_ADDR),
            (
                options.sampling.weight,
                SampleType.WEIGHT_STRUCT if os.uname().machine in ("x86_64", "i686", "ppc64le", "ppc64") else SampleType.WEIGHT,
            ),
            (options.side_band.all_cgroups, SampleType.CGROUP),
            (options.sampling.data_page_size, SampleType.DATA_PAGE_SIZE),
            (options.sampling.code_page_size, SampleType.CODE_PAGE_SIZE),
            (bool(options.sampling.branch_filter) and not is_dummy(self.event), SampleType.BRANCH_STACK),
        ):
            if is_wanted:
                self.sample |= field
        if self.sample & SampleType.BRANCH_STACK:
            draft.branch_sample_type = options.sampling.branch_filter
        if addresses or stacks or options.sampling.data_mmap:  # call frame information is in mappings that are not executable
            draft.mmap_data = int(self.tracks)
        if options.sampling.time is not False and (options.sampling.time or not options.target.per_thread):
            self.sample |= SampleType.TIME
        if options.sampling.inherit_stat:
            self.read |= _TIMES
            draft.inherit_stat = 1
        if options.sampling.running_time:
            self.read |= _TIMES
        if options.sampling.clockid is not None:
            draft.use_clockid, draft.clockid = 1, options.sampling.clockid

    def _set_callchain(self, callchain: Callchain) -> None:
        draft, options = self.draft, self.options
        is_function = self.event.tracepoint == _FUNCTION_TRACE
        self.sample |= SampleType.CALLCHAIN
        draft.sample_max_stack = callchain.max_stack
        draft.exclude_callchain_user = int(options.sampling.kernel_callchains or is_function)
        draft.exclude_callchain_kernel = int(options.sampling.user_callchains)
        draft.defer_callchain = int(callchain.defer)
        if callchain.mode == "dwarf" and not is_function:  # page faults while tracing functions would never end
            self.sample |= SampleType.REGS_USER | SampleType.STACK_USER
            # A user's choice of registers gets those, and the ones that unwinding needs.
            registers = minimal_registers if options.sampling.user_regs else user_registers
            draft.sample_regs_user |= registers(os.uname().machine)
            draft.sample_stack_user = callchain.stack_size
            if (
                options.sampling.unwind and not options.buffers.no_buffering
            ):  # half of a large ring buffer would be seconds of a few samples
                draft.watermark, draft.wakeup_events = 1, _WORTH_WAKING
            draft.exclude_callchain_user = 1

    def _set_registers(self) -> None:
        if is_dummy(self.event):
            return
        if self.options.sampling.intr_regs:
            self.sample |= SampleType.REGS_INTR
            self.draft.sample_regs_intr = self.options.sampling.intr_regs
        if self.options.sampling.user_regs:
            self.sample |= SampleType.REGS_USER
            self.draft.sample_regs_user |= self.options.sampling.user_regs

    def _set_side_band(self) -> None:
        draft, options = self.draft, self.options
        if not self.tracks:
            return
        draft.task = draft.mmap = draft.mmap2 = draft.comm = draft.comm_exec = draft.ksymbol = 1
        draft.build_id = int(options.side_band.buildid_mmap)
        draft.bpf_event = int(options.side_band.bpf_events)
        draft.namespaces = int(options.side_band.namespaces)
        draft.cgroup = int(options.side_band.all_cgroups)
        draft.context_switch = int(options.side_band.switch_events)
        draft.defer_output = int(bool(options.sampling.callchain and options.sampling.callchain.defer))

    def _set_enabling(self) -> None:
        """Set the enabling bits: leaders start disabled, a program's events start with it, side-band of a system starts at once."""
        draft = self.draft
        draft.disabled = int(self.event.is_leader)
        from_exec = self.target.kind == "command" and (self.at_once or not self.options.starts_disabled)
        draft.enable_on_exec = int(from_exec and self.event.is_leader)
        if self.at_once and not from_exec:
            draft.disabled = 0

    def _apply_terms(self) -> None:
        draft, terms = self.draft, self.event.terms
        if terms.period is not None:
            draft.sample_period, draft.freq = terms.period, 0
            self.sample &= ~SampleType.PERIOD
        if terms.freq is not None:
            draft.sample_freq, draft.freq = terms.freq, 1
            self.sample |= SampleType.PERIOD
        self._set(SampleType.TIME, terms.time)
        if terms.inherit is not None:
            draft.inherit = int(terms.inherit)
        if terms.overwrite is not None:
            draft.write_backward = int(terms.overwrite)
        if terms.branch_type is not None:
            self.sample |= SampleType.BRANCH_STACK
            draft.branch_sample_type = parse_branch_filter(",".join(terms.branch_type))
        if terms.call_graph is not None or terms.stack_size or terms.max_stack:
            self._set_own_callchain()
        self._refuse_hardware_terms()

    def _refuse_hardware_terms(self) -> None:
        terms = self.event.terms
        terms_given = {
            "call-graph=lbr": terms.call_graph == "lbr",
            "aux-output": terms.aux_output,
            "aux-sample-size": terms.aux_sample_size,
        }
        for name in (name for name, is_given in terms_given.items() if is_given):
            cause = f"'{name}' needs branch records or a hardware tracer, which perfpy does not support"
            raise KernelRefusedError("perf_event_open", EOPNOTSUPP, event=self.event.name, cause=cause, remedy="drop the term")

    def _set_own_callchain(self) -> None:
        """Apply the event's terms about stacks, which override the options."""
        terms, draft = self.event.terms, self.draft
        common = self.options.sampling.callchain
        mode = terms.call_graph or ("fp" if terms.max_stack else common.mode if common else "no")
        self.sample &= ~(SampleType.CALLCHAIN | SampleType.REGS_USER | SampleType.STACK_USER)
        draft.exclude_callchain_user = draft.exclude_callchain_kernel = draft.sample_stack_user = draft.sample_regs_user = 0
        if mode == "no":
            return
        if mode == "dwarf":
            self.sample |= 0 if self.options.sampling.unwind else SampleType.ADDR | SampleType.DATA_SRC
            draft.mmap_data = int(self.tracks)
        copied = stack_size(terms.stack_size) if terms.stack_size else common.stack_size if common else 0
        chain = Callchain(mode, max_stack=terms.max_stack or 0)
        self._set_callchain(chain._replace(stack_size=copied) if copied else chain)


def _following(event: Event, attrs: Mapping[Event, EventAttr]) -> EventAttr:
    """Return the attr of a :S group's member: the leader samples, and the member is only read, but has the leader's sample_type."""
    attr = attrs[event]
    if event.terms.period is None and event.terms.freq is None:
        attr = attr.copy(freq=0, sample_period=0)
    return attr.copy(write_backward=0, sample_type=attrs[event.leader].sample_type)


def _with_ids(attrs: Sequence[EventAttr], options: RecordOptions, kernel: Kernel) -> list[EventAttr]:
    """Add ids to the attrs: with several events, each record must identify its event at a fixed offset."""
    if not options.sampling.identifier and len(attrs) == 1 and options.output.path != STANDARD_OUTPUT:  # perf always has ids in pipes
        return list(attrs)
    differ = any(attr.sample_type != attrs[0].sample_type for attr in attrs)
    if (differ or options.sampling.identifier) and _knows_identifier(kernel):
        return [attr.copy(sample_type=attr.sample_type & ~SampleType.ID | SampleType.IDENTIFIER) for attr in attrs]
    return [attr.copy(sample_type=attr.sample_type | SampleType.ID) for attr in attrs]


def _knows_identifier(kernel: Kernel) -> bool:
    """Whether the kernel (3.12 and newer) has ids at a fixed offset."""
    attr = _software(SoftwareId.CPU_CLOCK, sample_type=SampleType.IDENTIFIER)
    for pid in (ANY, 0):  # users may only query their own tasks
        try:
            kernel.close(kernel.perf_event_open(attr, pid, min(online_cpus())))
            return True
        except KernelRefusedError as refusal:
            if refusal.errno not in (EACCES, EPERM):
                return False
    return False


# Apply the kernel's limit of sampling frequencies to -F, whose value "max" is that limit.

#: the setting with the limit
MAX_RATE: Final = "kernel.perf_event_max_sample_rate"


def with_frequency(options: RecordOptions, most: int | None, tell: Callable[[str], None]) -> RecordOptions:
    """Return the options with a frequency of at most `most` Hz (None: unknown)."""
    requested = options.sampling.freq
    if options.sampling.period or most is None:
        return options
    if requested == MAX_FREQ:
        tell(f"info: -F max is {most} Hz here (sysctl {MAX_RATE})")
        return options._replace(sampling=options.sampling._replace(freq=most))
    if requested is None:
        return options._replace(sampling=options.sampling._replace(freq=most)) if most < DEFAULT_FREQ else options
    if requested <= most:
        return options
    if options.sampling.strict_freq:
        raise UsageError(f"maximum frequency rate ({most} Hz) exceeded; use a lower -F, or raise sysctl {MAX_RATE}")
    tell(f"warning: {requested} Hz exceeds the kernel's limit; sampling at {most} Hz instead; for more raise sysctl {MAX_RATE}")
    return options._replace(sampling=options.sampling._replace(freq=most))


# The sizes of ring buffers: as large as the events need, within what the user may lock.

_MLOCK_SETTING: Final = "kernel.perf_event_mlock_kb"
_DEFAULT_MLOCK_KB: Final = 516
_PARANOID: Final = "kernel.perf_event_paranoid"
_CAP_IPC_LOCK: Final = 14
_ROOMY: Final = 8 << 20  # bytes: a quarter of a second of stacks of 16 kB at 2 kHz
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
        return roomy_pages(procfs, capabilities, _ROOMY)
    return default_pages(procfs)


def roomy_pages(procfs: ProcFs, capabilities: int, size: int) -> int:
    """Return the pages of a ring of some bytes, fewer on machines with many CPUs; perf's number where the user may not lock more."""
    may_lock = capabilities >> _CAP_IPC_LOCK & 1 or (procfs.setting(_PARANOID) or 0) < 0
    each = min(size, _ALL_RINGS // (os.cpu_count() or 1))
    return max(default_pages(procfs), 1 << (each // PAGE_SIZE).bit_length() - 1 if may_lock else 0)


def _fills_ring_quickly(attr: EventAttr) -> bool:
    """Whether an event may fill an ordinary ring before the recorder runs again: within some hundredths of a second."""
    if attr.type == PerfType.SOFTWARE and attr.config in (SoftwareId.DUMMY, SoftwareId.BPF_OUTPUT):
        return False
    if attr.sample_type & SampleType.STACK_USER:
        return True
    return attr.sample_freq >= _HURRY if attr.freq else is_sampled_each_time(attr)


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
