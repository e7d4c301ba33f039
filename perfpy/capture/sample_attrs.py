"""Complete every event's attr for sampling by the options: sample_type, read_format, period, side-band and enabling bits.

The rules are those of perf-record(1) 6.12. If perf has one, a dummy event for the side-band is added.
"""

from __future__ import annotations

import os
from errno import EACCES, EPERM

from perfpy.abi.attr import EventAttr, is_counted_by_kernel
from perfpy.abi.flags import PMCU_NAME, BranchSample, PerfType, ReadFormat, SampleType, SoftwareId
from perfpy.abi.sample_layout import minimal_registers, user_registers
from perfpy.capture.record_options import DEFAULT_FREQ, MAX_FREQ, STANDARD_OUTPUT, Callchain, parse_branch_filter, stack_size
from perfpy.capture.targets import ANY, online_cpus
from perfpy.errors import KernelRefusedError, RefusedOptionsError, UsageError
from perfpy.events.event import INTEL_PT, TRACKING, Event, change_events, is_tracer

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Final

    from perfpy.capture.counter import OpenEvent
    from perfpy.capture.record_options import RecordOptions
    from perfpy.capture.targets import Target
    from perfpy.kernel import Kernel
    from perfpy.kernel.sysfs import Sysfs


_TRACE_FIELDS: Final = SampleType.RAW | SampleType.TIME | SampleType.CPU | SampleType.PERIOD


_TIMES: Final = ReadFormat.TOTAL_TIME_ENABLED | ReadFormat.TOTAL_TIME_RUNNING


_FUNCTION_TRACE: Final = ("ftrace", "function")


_MAX_PRECISION: Final = 3
_MEM_LOADS_AUX: Final = 0x8203


_AUX_ACTIONS: Final = {"start-paused": 1, "pause": 2, "resume": 4}  # bits of the attr


#: of --call-graph lbr: the hardware keeps the calls of user code that have not returned
_OF_CALL_STACK: Final = BranchSample.USER | BranchSample.CALL_STACK | BranchSample.HW_INDEX
_CALL_STACK: Final = _OF_CALL_STACK | BranchSample.NO_CYCLES | BranchSample.NO_FLAGS


#: of AMD's samplers: the bit of config for l3missonly (arch/x86/events/amd/ibs.c)
_L3_MISSES_ONLY: Final = {"ibs_op": 1 << 16, "ibs_fetch": 1 << 59}


#: the tracepoint of context switches
SWITCH: Final = ("sched", "sched_switch")
_CALLS: Final = ("raw_syscalls", "sys_enter")
_SOME_STACKS: Final = 2000  # of switches on a CPU, a second
_WORTH_WAKING: Final = 1 << 18  # bytes in a ring buffer


def configure_sampling(
    events: Sequence[Event], options: RecordOptions, target: Target, kernel: Kernel, sysfs: Sysfs | None = None
) -> list[Event]:
    """Return the events to open with their attrs, including the tracking event.

    The tracking event, which requests side-band (mmap, comm, fork ... records), is the first one. It is a separate dummy if the events
    are not enabled from the program's start (-a, -C, -D), may be disabled (--max-cpu), or do not cover all kinds of cores, unless the
    first one is a dummy. The kernel is checked for PERF_SAMPLE_IDENTIFIER if needed.

    Args:
        sysfs: the machine's; None for one with a single kind of cores.
    """
    result = list(events)
    at_once = not target.has_tasks or options.starts_disabled or bool(sysfs and len(sysfs.core_pmus) > 1)
    tracking = next((event for event in result if event.role == TRACKING), result[0] if result else None)
    if tracking is not None and not tracking.role and (tracer := next(filter(is_aux, result), None)):  # no plan: perfpy.capture.tracers
        raise UsageError(f"'{tracer.name}' has no samples but AUX data, which only perfpy record takes")
    is_wide = not target.has_tasks and not all(map(is_dummy, result))  # tasks migrate from the CPUs of -C to others
    if tracking is None or ((at_once or options.max_cpu) and not is_dummy(tracking)):
        tracking = new_dummy(TRACKING, system_wide=is_wide)
        result.append(tracking)
    elif is_wide and not tracking.role:
        requested = tracking
        result = change_events(result, lambda event: {"system_wide": event is requested})
        tracking = result[0]
    groups = {event.leader for event in result if not event.is_leader}
    attrs = {
        event: sampling_attr(event, options, target, tracks=event is tracking, at_once=at_once, in_group=event.leader in groups)
        for event in result
    }
    attrs |= {event: _following(event, attrs, result) for event in result if event.leader in groups and event.leader.sample_read}
    final = dict(zip(result, _with_ids(list(attrs.values()), options, kernel), strict=True))
    return change_events(result, lambda event: {"attr": final[event]})


def copy_stacks_of_chosen(events: Sequence[Event], *, is_calm: bool) -> list[Event]:
    """Return the events of a recording of all tasks, with tracepoints that copy stacks replaced by two or three events each.

    The first one copies the stacks of the chosen tasks, the last one has the kernel's callchains of all tasks: a machine may switch
    some ten thousand times a second. Switches have a further event between them that copies the stacks of all tasks. On machines that
    are not calm, it copies some, only switches have the kernel's callchains, and system calls are those of chosen tasks. Hits have
    samples of several events, of which perfpy.capture.unwinding.chosen_tasks keeps one.
    """
    result = []
    for event in events:
        attr = event.attr
        if attr.type != PerfType.TRACEPOINT or not attr.sample_type & SampleType.STACK_USER:
            of_chosen = event.tracepoint == _CALLS and not is_calm
            result.append(event._replace(of_chosen=True, attr=attr.copy(inherit=1)) if of_chosen else event)
            continue
        kept = attr.sample_type & ~(SampleType.STACK_USER | SampleType.REGS_USER)
        if event.tracepoint != SWITCH and not is_calm:
            kept &= ~SampleType.CALLCHAIN
        result.append(event._replace(of_chosen=True, attr=attr.copy(inherit=1)))
        if event.tracepoint == SWITCH:
            result.append(event if is_calm else event._replace(attr=attr.copy(freq=1, sample_freq=_SOME_STACKS)))
        result.append(event._replace(attr=attr.copy(sample_type=kept, sample_stack_user=0, sample_regs_user=0)))
    return result


def _walks_instead_of_lbr(event: Event, options: RecordOptions) -> str:
    """Return why frame pointers are walked although branch records were requested for callchains; "" if they are recorded."""
    if options.sampling.branch_filter:
        return "--call-graph lbr excludes branch filters; walking frame pointers instead"
    if event.attr.exclude_user:
        return f"--call-graph lbr has callers of user code only, which '{event.name}' excludes; walking frame pointers instead"
    return ""


def sampling_warnings(events: Sequence[Event], options: RecordOptions) -> Iterator[str]:
    """Yield lines about samples that differ from what the options suggest."""
    common = options.sampling.callchain
    for event in events:
        if (event.terms.call_graph or (common and common.mode)) == "lbr" and (reason := _walks_instead_of_lbr(event, options)):
            yield reason
        if event.attr.config & _L3_MISSES_ONLY.get(event.pmu, 0):
            yield f"'{event.name}' samples L3 misses only: other tagged operations reset the period, so that periods are not exact"


def new_dummy(role: str, *, system_wide: bool = False, immediate: bool = False, **fields: int) -> Event:
    """Return an event for side-band. fields are those of its attr."""
    attr = _software(SoftwareId.DUMMY, sample_period=1, **fields)
    return Event("dummy:u", attr, role=role, system_wide=system_wide, immediate=immediate)


def is_aux(event: Event | OpenEvent) -> bool:
    """Whether hardware writes this event's data to memory."""
    return is_tracer(event.pmu)


def _pmcu_attr(attr: EventAttr) -> EventAttr:
    """Return the attr of a HiSilicon PMCU's event: its records only mark the times of its data."""
    sample_type = SampleType.IP | SampleType.TID | SampleType.TIME | SampleType.CPU
    excluded = dict.fromkeys(("exclude_user", "exclude_kernel", "exclude_hv", "exclude_guest", "exclude_host"), 0)
    read_format = int(ReadFormat.ID | ReadFormat.LOST)
    return attr.copy(
        sample_type=int(sample_type), read_format=read_format, sample_period=1, freq=0, sample_id_all=1, disabled=1, **excluded
    )


def sampling_attr(
    event: Event, options: RecordOptions, target: Target, *, tracks: bool = False, at_once: bool = False, in_group: bool = False
) -> EventAttr:
    """Return the attr to sample an event with.

    Args:
        tracks: whether it requests side-band.
        at_once: whether a dummy that requests side-band starts before the other events.
        in_group: whether it leads or follows other events.
    """
    if event.ebb:
        raise UsageError(f"'{event.name}' branches to the program at overflows (EBB, bit 63), and has no samples; clear that bit")
    if event.pmu.startswith(PMCU_NAME):
        return _pmcu_attr(event.attr)
    return _Draft(event, options, target, tracks=tracks, at_once=at_once, in_group=in_group).finish()


def is_dummy(event: Event | OpenEvent) -> bool:
    """Whether an event only provides side-band records."""
    return event.attr.type == PerfType.SOFTWARE and event.attr.config == SoftwareId.DUMMY


def _software(config: int, **fields: int) -> EventAttr:
    """Return the attr of a software event, in user space only."""
    return EventAttr(type=PerfType.SOFTWARE, config=config, exclude_kernel=1, exclude_hv=1, exclude_guest=1, **fields)


class _Draft:
    """One event's attr while the rules are applied; each method is one group of rules."""

    def __init__(self, event: Event, options: RecordOptions, target: Target, *, tracks: bool, at_once: bool, in_group: bool) -> None:
        self.event = event
        self.draft = event.attr.copy()
        self.options = options
        self.target = target
        self.tracks = tracks
        self.in_group = in_group
        self.is_plain = bool(event.role) or event.pmu == INTEL_PT  # perf adds nothing to their records
        self.at_once = at_once and tracks and is_dummy(event)
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
        if options.sampling.callchain and not self.is_plain:
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
        if options.sampling.each_occurrence and is_counted_by_kernel(self.event.attr):
            draft.sample_period, draft.freq = 1, 0
        elif not draft.sample_period or options.sampling.freq is not None or options.sampling.period is not None:
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
            (options.sampling.raw and not self.is_plain, SampleType.TIME | SampleType.RAW | SampleType.CPU),
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
            (bool(options.sampling.branch_filter) and not (self.is_plain or is_dummy(self.event)), SampleType.BRANCH_STACK),
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
        elif callchain.mode == "lbr" and not _walks_instead_of_lbr(self.event, options):
            self.sample |= SampleType.BRANCH_STACK
            draft.branch_sample_type = _CALL_STACK

    def _set_registers(self) -> None:
        if self.is_plain or is_dummy(self.event):
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
        draft.task = draft.mmap = draft.mmap2 = draft.comm = draft.comm_exec = 1
        draft.ksymbol = int(not options.side_band.text_pokes)
        draft.build_id = int(options.side_band.buildid_mmap)
        draft.bpf_event = int(options.side_band.bpf_events)
        draft.namespaces = int(options.side_band.namespaces)
        draft.cgroup = int(options.side_band.all_cgroups)
        if options.side_band.switch_events:
            draft.context_switch = 1
        draft.defer_output = int(bool(options.sampling.callchain and options.sampling.callchain.defer))

    def _set_enabling(self) -> None:
        """Set the enabling bits: leaders start disabled, a program's events start with it, the side-band of others starts at once."""
        draft, starts_disabled = self.draft, self.options.starts_disabled
        is_command = self.target.kind == "command"
        waits_for_exec = is_command and (starts_disabled if self.at_once else not starts_disabled)
        if self.event.immediate:
            waits_for_exec = False
        draft.enable_on_exec = int(waits_for_exec and self.event.is_leader)
        starts = self.event.immediate or (self.at_once and not waits_for_exec)
        draft.disabled = int(self.event.is_leader and not starts)

    def _apply_terms(self) -> None:
        draft, terms = self.draft, self.event.terms
        if terms.period is not None and not (terms.proposes_period and self.options.sampling.period):
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
        if terms.branch_type == ("no",):
            self.sample &= ~SampleType.BRANCH_STACK  # the mask of -b stays, as in perf
        elif terms.branch_type is not None:
            self.sample |= SampleType.BRANCH_STACK
            draft.branch_sample_type = parse_branch_filter(",".join(terms.branch_type))
        if terms.call_graph is not None or terms.stack_size or terms.max_stack:
            self._set_own_callchain()
        draft.aux_output = int(terms.aux_output or 0)
        draft.aux_action = sum(_AUX_ACTIONS[name] for name in terms.aux_action or ())

    def _set_own_callchain(self) -> None:
        """Apply the event's terms about stacks, which override the options."""
        terms, draft = self.event.terms, self.draft
        common = self.options.sampling.callchain
        mode = terms.call_graph or ("fp" if terms.max_stack else common.mode if common else "no")
        self.sample &= ~(SampleType.CALLCHAIN | SampleType.REGS_USER | SampleType.STACK_USER)
        draft.exclude_callchain_user = draft.exclude_callchain_kernel = draft.sample_stack_user = draft.sample_regs_user = 0
        self._set_registers()
        if common and common.mode == "lbr" and not self.options.sampling.branch_filter:
            self.sample &= ~SampleType.BRANCH_STACK
            draft.branch_sample_type &= ~_OF_CALL_STACK
        if mode == "no":
            return
        if mode == "dwarf":
            self.sample |= 0 if self.options.sampling.unwind else SampleType.ADDR | SampleType.DATA_SRC
            draft.mmap_data = int(self.tracks)
        copied = stack_size(terms.stack_size) if terms.stack_size else common.stack_size if common else 0
        chain = Callchain(mode, max_stack=terms.max_stack or 0)
        self._set_callchain(chain._replace(stack_size=copied) if copied else chain)


def _following(event: Event, attrs: Mapping[Event, EventAttr], events: Sequence[Event]) -> EventAttr:
    """Return the attr of an event of a :S group: one event samples, and the others are only read, but have its sample_type."""
    leader, attr = event.leader, attrs[event]
    sampler = _sampler(leader, [other for other in events if other.leader is leader])
    if event is sampler:
        return attr
    if event.terms.period is None and event.terms.freq is None:
        attr = attr.copy(freq=0, sample_period=0)
    if event.terms.overwrite is None:
        attr = attr.copy(write_backward=0)
    return attr.copy(sample_type=attrs[sampler].sample_type | attrs[leader].sample_type)


def _sampler(leader: Event, group: Sequence[Event]) -> Event:
    """Return the event of a :S group that samples: the leader, unless it is there for the others' sake. Then it is the second event.

    So it is after a tracer, and after the event that Intel's mem-loads needs beside it. After the slots of topdown metrics it is the
    first event that is none of these metrics, which cannot sample.
    """
    is_for_loads = leader.attr.type == PerfType.RAW and leader.attr.config == _MEM_LOADS_AUX and _has_event(leader.pmu, "mem-loads-aux")
    is_for_metrics = leader.must_be_grouped and any(event.must_be_grouped for event in group if event is not leader)
    if is_for_metrics:
        return next((event for event in group if not event.must_be_grouped), group[1])
    return group[1] if is_aux(leader) or is_for_loads else leader


def _has_event(pmu: str, name: str) -> bool:
    return os.path.exists(f"/sys/bus/event_source/devices/{pmu}/events/{name}")


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


#: the setting with the limit
MAX_RATE: Final = "kernel.perf_event_max_sample_rate"


def with_frequency(options: RecordOptions, most: int | None, tell: Callable[[str], None]) -> RecordOptions:
    """Return the options with a frequency of at most `most` Hz (None: unknown)."""
    requested = options.sampling.freq
    if options.sampling.period or most is None:
        return options
    if requested == MAX_FREQ:
        tell(f"info: Using a maximum frequency rate of {most} Hz")
        return options._replace(sampling=options.sampling._replace(freq=most))
    if requested is None:
        return options._replace(sampling=options.sampling._replace(freq=most)) if most < DEFAULT_FREQ else options
    if requested <= most:
        return options
    if options.sampling.strict_freq:
        raise RefusedOptionsError(f"maximum frequency rate ({most} Hz) exceeded; use a lower -F, or raise sysctl {MAX_RATE}")
    tell(f"warning: {requested} Hz exceeds the kernel's limit; sampling at {most} Hz instead; for more raise sysctl {MAX_RATE}")
    return options._replace(sampling=options.sampling._replace(freq=most))
