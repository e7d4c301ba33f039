"""Plan the recording of a hardware tracer: its events, their side-band, and the sizes of buffers, snapshots and AUX samples.

The rules are those of perf 6.12: auxtrace_record__init() and the recording_options() of each tracer. An error has perf's status.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.abi.flags import PMCU_NAME, SampleType
from perfpy.capture.sample_attrs import is_aux, new_dummy
from perfpy.errors import PerfError, TraceOptionsError, UsageError
from perfpy.events.event import (
    ARM_SPE,
    CS_ETM,
    HISI_PTT,
    INTEL_BTS,
    INTEL_PT,
    SWITCHES,
    TEXT_POKES,
    TRACERS,
    TRACKING,
    Event,
)
from perfpy.kernel.ring import PAGE_SIZE
from perfpy.kernel.syscalls import may_count_cpus, may_lock_more
from perfpy.kernel.sysfs import read_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from perfpy.capture.record_options import RecordOptions
    from perfpy.capture.targets import Target
    from perfpy.kernel.sysfs import Pmu, Sysfs


_KILO: Final = 1 << 10
_MEGA: Final = 1 << 20
_AREA: Final = 4 * _MEGA
_LARGE_AREA: Final = 16 * _MEGA
_USERS_AREA: Final = 128 * _KILO  # of users without privileges, and the ring buffers beside it:
_USERS_RING: Final = 256 * _KILO
_LEAST_AREA: Final = 8 * _KILO
_LEAST_SNAPSHOT: Final = 4 * _KILO
_AUX_SAMPLE: Final = 4 * _KILO
_LARGEST_AUX_SAMPLE: Final = 60 * _KILO  # of the 64 kB of a record
_NEAR_PSB: Final = 256  # bytes beyond a PSB period
_LARGEST_WATERMARK: Final = (1 << 32) - 1
_GUESSED_PERIOD: Final = 4096  # of SPE, if the driver does not tell the shortest
_SEVERAL_TRACERS: Final = {INTEL_PT: 234, INTEL_BTS: 234}  # exit statuses; of Arm's:
_SEVERAL_ON_ARM: Final = 161
_SWITCHES_OF_TASKS: Final = 2
_SWITCHES_OF_CPUS: Final = 3
_KVM_MODE: Final = "module/kvm_intel/parameters/pt_mode"
#: terms of Intel PT, the file with their valid values as bits, and that of the feature that they need
_PT_CHOICES: Final = (
    ("cyc_thresh", "caps/cycle_thresholds", "caps/psb_cyc"),
    ("mtc_period", "caps/mtc_periods", "caps/mtc"),
    ("psb_period", "caps/psb_periods", "caps/psb_cyc"),
)


class TracePlan(NamedTuple):
    """How the AUX data of a recording are collected.

    Attributes:
        tracer: the beginning of the PMU's name, one of events.tracers
        pmu: the PMU
        pages: of an AUX area
        snapshot_size: bytes of a snapshot; 0 if all data are recorded
        snapshot_at_exit: whether the end of the recording takes one, too
        is_sampled: whether the kernel copies the data into samples
        switches: how Intel PT's context switches are recorded: 0 not, 2 by the traced tasks, 3 by CPUs
        per_cpu: whether each CPU has an AUX area, not each thread
        config: of the tracer's event
        filter: the addresses that are traced; "" for all
    """

    tracer: str
    pmu: Pmu
    pages: int
    snapshot_size: int = 0
    snapshot_at_exit: bool = False
    is_sampled: bool = False
    switches: int = 0
    per_cpu: bool = True
    config: int = 0
    filter: str = ""

    @property
    def overwrites(self) -> bool:
        """Whether new data overwrite the oldest ones."""
        return bool(self.snapshot_size) or self.is_sampled


def plan_trace(
    events: Sequence[Event], options: RecordOptions, target: Target, sysfs: Sysfs, tell: Callable[[str], None]
) -> tuple[list[Event], RecordOptions, TracePlan | None]:
    """Return the events with those of the side-band, the options that a tracer changes, and its plan, if one of the events is a tracer's.

    Raises TraceOptionsError, UsageError.
    """
    traces = [event for event in events if is_aux(event)]
    tracers = {next(tracer for tracer in TRACERS if event.pmu.startswith(tracer)) for event in traces}
    if len(tracers) > 1:
        names = " and ".join(sorted(tracers))
        error = TraceOptionsError(f"{names} cannot trace in the same recording; record them one after the other")
        error.exit_code = min(_SEVERAL_TRACERS.get(tracer, _SEVERAL_ON_ARM) for tracer in tracers)
        raise error
    if not traces:
        return _without_tracer(events, options), options, None
    planner = _Planner(list(events), options, target, sysfs, tell, tracers.pop())
    return planner.plan()


def _without_tracer(events: Sequence[Event], options: RecordOptions) -> list[Event]:
    """Return the events. Raises TraceOptionsError for options that need a tracer."""
    remedy = f"add one of this machine, such as -e {INTEL_PT}//u"
    if options.trace.snapshot is not None:
        raise TraceOptionsError(f"--snapshot takes data of a hardware tracer, and no event is one; {remedy}")
    if options.trace.aux_sample is not None or any(event.terms.aux_sample_size is not None for event in events):
        raise TraceOptionsError(f"samples can have AUX data of a hardware tracer, and no event is one; {remedy}")
    return list(events)


class _Planner:
    """Plans for the events of one tracer. Their new attrs, leaders and filters are kept until the end."""

    def __init__(
        self, events: Sequence[Event], options: RecordOptions, target: Target, sysfs: Sysfs, tell: Callable[[str], None], tracer: str
    ) -> None:
        self.events = list(events)
        self.attrs = {event: event.attr for event in self.events}
        self.leaders = {event: event.leader for event in self.events}
        self.traces = [event for event in self.events if is_aux(event)]
        self.options = options
        self.target = target
        self.sysfs = sysfs
        self.tell = tell
        self.tracer = tracer
        self.per_cpu = not options.target.per_thread
        pmu = sysfs.pmu(self.traces[0].pmu)
        assert pmu is not None  # the event comes from it
        self.pmu = pmu
        self.pages = options.buffers.aux_pages
        self.filter = ""
        self.snapshot, self.at_exit = self._parse_snapshot()
        self.is_sampled = False
        self.switches = 0

    def plan(self) -> tuple[list[Event], RecordOptions, TracePlan]:
        """Return the events, the options and the plan."""
        self._set_aux_samples()
        self._group({event for event in self.events if event.terms.aux_output or event.terms.aux_action})
        self._resolve_filter()
        self._check_options()
        if self.tracer == PMCU_NAME:
            self._plan_pmcu()
        else:
            self._complete_traces()
            self._set_sizes()
            self._add_side_band()
        options = self.options
        self.options = options._replace(
            sampling=options.sampling._replace(identifier=options.sampling.identifier or self.tracer != PMCU_NAME),
            output=options.output._replace(buildid_all=True),  # what a trace hits is known after decoding only
        )
        plan = TracePlan(
            self.tracer,
            self.pmu,
            self.pages,
            snapshot_size=self.snapshot or 0,
            snapshot_at_exit=self.at_exit,
            is_sampled=self.is_sampled,
            switches=self.switches,
            per_cpu=self.per_cpu,
            config=self.attrs[self.traces[0]].config,
            filter=self.filter,
        )
        return self._finish(), self.options, plan

    def _finish(self) -> list[Event]:
        """Return the events with their leaders and filters, the tracer's groups first, as perf has them in its files."""
        leaders = list(dict.fromkeys(self.leaders[trace] for trace in reversed(self.traces)))
        front = [event for leader in leaders for event in self.events if self.leaders[event] is leader]
        copies: dict[Event, Event] = {}
        for event in front + [event for event in self.events if self.leaders[event] not in leaders]:
            leader = self.leaders[event]
            filter_expression = self.filter if is_aux(event) and self.filter else event.filter
            led_by = None if leader is event else copies[leader]
            copies[event] = event._replace(attr=self.attrs[event], led_by=led_by, filter=filter_expression)
        return list(copies.values())

    # -- options -------------------------------------------------------------

    def _parse_snapshot(self) -> tuple[int | None, bool]:
        """Return the bytes of a snapshot (None: no snapshots; 0: the default), and whether the end takes one."""
        text = self.options.trace.snapshot
        if text is None:
            return None, False
        if self.tracer in (HISI_PTT, PMCU_NAME):
            raise TraceOptionsError(f"--snapshot: {self.pmu.name} records all its data; drop --snapshot")
        try:
            size = int(text.removeprefix("e") or "0", 0)
        except ValueError:
            size = -1
        if size < 0:
            raise PerfError(f"--snapshot={text}: expected a number of bytes, after an e for a snapshot at exit")
        return size, text.startswith("e")

    def _resolve_filter(self) -> None:
        """Convert the filter of the tracer's event to the kernel's form."""
        event = next((event for event in self.traces if event.filter), None)
        if event:
            from perfpy.capture.address_filters import kernel_filter  # rarely needed

            self.filter = kernel_filter(event.filter, self.pmu.address_filters)

    def _check_options(self) -> None:
        """Raise an error for options that this tracer excludes."""
        options, name = self.options, self.pmu.name
        refused = {"--unwind": options.sampling.unwind, "--off-cpu": options.off_cpu.enabled, "--overwrite": options.buffers.overwrite}
        if self.tracer == PMCU_NAME:
            refused |= {"--switch-output": options.output.switch_output is not None, "--per-thread": options.target.per_thread}
        if options.buffers.threads:
            raise PerfError(f"--threads: several threads cannot read AUX data, such as those of '{self.traces[0].name}'; drop --threads")
        for option, is_given in refused.items():
            if is_given:
                raise UsageError(f"'{self.traces[0].name}' records AUX data for the whole recording; drop {option}")
        reasons = {
            f"a recording can have one {self.tracer} event only; record the others separately": len(self.traces) > 1
            and self.tracer not in (ARM_SPE, PMCU_NAME),
            "--snapshot and AUX data in samples exclude each other": self.snapshot is not None and self.is_sampled,
            f"{name} has its own clock, so that -k has no effect on its times; drop --clockid": self.tracer in (INTEL_PT, CS_ETM)
            and options.sampling.clockid is not None,
            f"{name} cannot add its data to samples; use {INTEL_PT}": self.tracer == INTEL_BTS and self.is_sampled,
            f"{name} traces threads, not CPUs; add --per-thread": self.tracer == INTEL_BTS and self.per_cpu,
        }
        if reason := next((reason for reason, applies in reasons.items() if applies), ""):
            raise TraceOptionsError(reason)

    def _plan_pmcu(self) -> None:
        from perfpy.events.tracers import check_session  # few machines have one

        check_session(self.events)
        if not may_count_cpus():
            raise UsageError(f"'{self.traces[0].name}' counts all tasks; run as root")
        self.pages = self.pages or _LARGE_AREA // PAGE_SIZE
        self._add(new_dummy(TRACKING))

    def _add(self, event: Event) -> None:
        self.events.append(event)
        self.attrs[event] = event.attr
        self.leaders[event] = event

    def _set(self, event: Event, *, sample_type: int = 0, **fields: int) -> None:
        """Set fields of an event's attr; bits of sample_type are added."""
        attr = self.attrs[event]
        self.attrs[event] = attr.copy(sample_type=attr.sample_type | sample_type, **fields)

    # -- events that use the AUX data ------------------------------------------

    def _set_aux_samples(self) -> None:
        """Let members of the tracer's group have AUX data in their samples: all by --aux-sample, others by their terms."""
        text = self.options.trace.aux_sample
        terms = {event: event.terms.aux_sample_size for event in self.events if event.terms.aux_sample_size is not None}
        if text is None and not terms:
            return
        sizes: dict[Event, int] = {}
        if text is not None:
            size = _aux_sample_size(text)
            sizes = {event: size for event in self.events if not event.is_leader and is_aux(event.leader)}
        sizes |= terms
        self._group({event for event, size in terms.items() if size})
        example = f"write -e '{{{self.pmu.name}//,EVENT/aux-sample-size=N/}}'"
        for event, size in sizes.items():
            leader = self.leaders[event]
            if size and not (is_aux(leader) and leader is not event):
                raise TraceOptionsError(f"'{event.name}': AUX data in samples need a group that the tracer's event leads; {example}")
            if size > _LARGEST_AUX_SAMPLE:
                raise TraceOptionsError(f"'{event.name}': {size} bytes of AUX data are too many; a sample takes {_LARGEST_AUX_SAMPLE}")
            if size:
                self._set(event, sample_type=SampleType.AUX, aux_sample_size=size)
        self.is_sampled = any(sizes.values())
        if not self.is_sampled:
            raise TraceOptionsError(f"no event has AUX data in its samples; {example}")

    def _group(self, users: set[Event]) -> None:
        """Let the tracer's event before these events lead them, and those between, unless they are in other groups."""
        for last in (event for event in self.events if event in users):
            before = self.events[: self.events.index(last) + 1]
            start = max((before.index(trace) for trace in self.traces if trace in before), default=-1)
            if start < 0:
                continue
            trace, members = before[start], before[start + 1 :]
            groups = [self.leaders[event] for event in self.events]
            if self.leaders[trace] is trace and all(self.leaders[one] in (trace, one) and groups.count(one) <= 1 for one in members):
                self.leaders |= dict.fromkeys(members, trace)

    # -- the tracer's own event ------------------------------------------------

    def _complete_traces(self) -> None:
        """Set the attrs of the tracer's events."""
        for event in self.traces:
            self._set(event, freq=0, sample_period=1, sample_type=SampleType.CPU if self.per_cpu or self.tracer == CS_ETM else 0)
            if self.tracer == INTEL_PT:
                self._complete_intel_pt(event)
            elif self.tracer == ARM_SPE:
                self._complete_spe(event)
            elif self.tracer == CS_ETM:
                self._complete_etm(event)
            elif self.tracer == HISI_PTT:
                self._set(event, sample_type=SampleType.TIME)

    def _set_if_unset(self, event: Event, term: str, value: int) -> None:
        """Set a term of config, unless the user has set or cleared it."""
        pmu = self.sysfs.pmu(event.pmu)
        layout = pmu.formats.get(term) if pmu else None
        if pmu and layout and layout.field == "config" and not pmu.bits(term) & (event.terms.config_bits or 0):
            self._set(event, config=self.attrs[event].config & ~pmu.bits(term) | layout.spread(value))

    def _complete_intel_pt(self, event: Event) -> None:
        pmu = self.pmu
        guest_traces_itself = (read_text(f"{self.sysfs.root}/{_KVM_MODE}") or "").strip() == "1"
        self._set(event, exclude_guest=int(guest_traces_itself))
        if self.is_sampled:
            self._set_if_unset(event, "psb_period", 0)
        if "pt" in pmu.formats and not self.attrs[event].config & 1:
            self.tell("pt=0 doesn't make sense, forcing pt=1")
            self._set(event, config=self.attrs[event].config | 1)
        for term, choices, condition in _PT_CHOICES:
            valid = pmu.number(choices, 16) or 0 if pmu.number(condition) != 0 else 0
            value = _value(pmu, term, self.attrs[event].config)
            if not (valid | 1) >> value & 1:
                names = ", ".join(str(bit) for bit in range(valid.bit_length() or 1) if (valid | 1) >> bit & 1)
                raise TraceOptionsError(f"'{event.name}': {term}={value} is not among the values of this CPU: {names}")

    def _complete_spe(self, event: Event) -> None:
        pmu = self.sysfs.pmu(event.pmu) or self.pmu
        if self.per_cpu:
            self._set_if_unset(event, "ts_enable", 1)
        fields = SampleType.DATA_SRC  # decoded samples have it
        if event.attr.config & pmu.bits("pa_enable"):
            fields |= SampleType.PHYS_ADDR
        self._set(event, sample_type=fields, sample_period=pmu.number("caps/min_interval") or _GUESSED_PERIOD)

    def _complete_etm(self, event: Event) -> None:
        if not event.attr.config2 & 0xFFFFFFFF:
            self._set(event, config2=event.attr.config2 | _etm_sink(self.pmu, event))
        if self.per_cpu:
            self._set_if_unset(event, "contextid", 1)
        if self.per_cpu or self.options.sampling.time:
            self._set_if_unset(event, "timestamp", 1)
        _check_etm_config(self.pmu, event.name, self.attrs[event].config, self.target.cpus)

    # -- sizes -----------------------------------------------------------------

    def _set_sizes(self) -> None:
        """Set the sizes of the AUX areas, of snapshots, and of the ring buffers beside them."""
        privileged = may_lock_more()
        usual = (_LARGE_AREA if self.tracer == HISI_PTT else _AREA) if privileged else _USERS_AREA
        buffers = self.options.buffers
        if not (self.pages or privileged or buffers.mmap_pages):
            self.options = self.options._replace(buffers=buffers._replace(mmap_pages=_USERS_RING // PAGE_SIZE))
        samples = [attr.aux_sample_size for attr in self.attrs.values() if attr.aux_sample_size]
        needed = max(samples) if samples else self.snapshot or usual
        self.pages = self.pages or 1 << (-(-needed // PAGE_SIZE) - 1).bit_length()
        area = self.pages * PAGE_SIZE
        if self.snapshot is not None:
            self.snapshot = self.snapshot or area
        for size, option in ((self.snapshot or 0, "--snapshot"), (max(samples, default=0), "AUX data of a sample")):
            if size > area:
                raise TraceOptionsError(f"{option}: {size} bytes do not fit an AUX area of {area} bytes; enlarge it with -m,{size >> 10}K")
        overwrites = self.snapshot is not None or self.is_sampled
        least = _LEAST_SNAPSHOT if overwrites and self.tracer in (INTEL_PT, INTEL_BTS) else _LEAST_AREA
        if area < least and self.tracer != CS_ETM:
            raise TraceOptionsError(f"-m,{self.pages}: AUX areas of {self.pmu.name} have at least {least >> 10} kB; give -m,{least >> 10}K")
        if self.tracer == INTEL_PT:
            if overwrites:
                self._warn_of_small_snapshots(min(samples) if samples else self.snapshot or 0)
            else:
                self._set(self.traces[0], aux_watermark=min(area // 4, _LARGEST_WATERMARK))

    def _warn_of_small_snapshots(self, size: int) -> None:
        """Warn if few snapshots can be decoded: decoding begins at a PSB packet."""
        period = 256
        if self.pmu.number("caps/topa_multiple_entries"):
            period = 2048 << _value(self.pmu, "psb_period", self.attrs[self.traces[0]].config)
        if size <= period + _NEAR_PSB:
            kind = "sample" if self.is_sampled else "snapshot"
            self.tell(f"Warning:\nIntel PT {kind} size ({size}) may be too small for PSB period ({period})")

    # -- side-band -------------------------------------------------------------

    def _add_side_band(self) -> None:
        """Add the events of switches, changes of the kernel's code, and tracking."""
        trace, per_cpu = self.attrs[self.traces[0]], self.per_cpu
        is_intel_pt = self.tracer == INTEL_PT
        fields = int(SampleType.TIME) if per_cpu or self.tracer == HISI_PTT else 0
        if per_cpu and self.tracer in (INTEL_PT, ARM_SPE):
            fields |= SampleType.CPU
        wanted = self.options.side_band.switch_events
        has_switches, immediate = False, False
        if is_intel_pt:
            has_times = bool(trace.config & self.pmu.bits("tsc"))
            if has_times and per_cpu and wanted is not False:
                immediate = self._add_switches()
            if has_times and not trace.exclude_kernel and may_count_cpus():
                self._set_side_band(text_pokes=True)
        elif self.tracer == ARM_SPE:
            has_switches = per_cpu and wanted is not False
        elif self.tracer == CS_ETM and wanted is None:
            self._set_side_band(switch_events=True)
        self._add(
            new_dummy(
                TRACKING,
                system_wide=not self.target.has_tasks,
                immediate=immediate,
                sample_type=fields,
                context_switch=int(has_switches),
            )
        )
        if self.options.side_band.text_pokes:
            dummy = new_dummy(TEXT_POKES, system_wide=True, immediate=True, sample_type=int(SampleType.TIME), text_poke=1, ksymbol=1)
            self._add(dummy)
        if is_intel_pt and per_cpu and not (self.switches or trace.exclude_user or self.target.kind == "command"):
            self.tell("Warning:\nIntel Processor Trace decoding will not be possible except for kernel tracing!")

    def _add_switches(self) -> bool:
        """Record the switches of the traced CPUs; return whether the tracking event does it, from the start."""
        is_whole_cpus = not self.target.has_tasks
        if not is_whole_cpus and may_count_cpus():
            fields = int(SampleType.TID | SampleType.TIME | SampleType.CPU)
            self._add(new_dummy(SWITCHES, system_wide=True, immediate=True, sample_type=fields, context_switch=1))
            self._set_side_band(switch_events=False)
            self.switches = _SWITCHES_OF_CPUS
            return False
        self._set_side_band(switch_events=True)
        self.switches = _SWITCHES_OF_CPUS if is_whole_cpus else _SWITCHES_OF_TASKS
        return True

    def _set_side_band(self, **fields: Any) -> None:
        self.options = self.options._replace(side_band=self.options.side_band._replace(**fields))


def _aux_sample_size(text: str) -> int:
    """Return the bytes of --aux-sample; 0 and "" stand for the default."""
    try:
        size = int(text or "0", 0)
    except ValueError:
        size = -1
    if not 0 <= size <= _LARGEST_WATERMARK:
        raise TraceOptionsError(f"--aux-sample={text}: expected a number of bytes up to {_LARGEST_AUX_SAMPLE}")
    return size or _AUX_SAMPLE


def _value(pmu: Pmu, term: str, config: int) -> int:
    """Return the value of a term whose bits are contiguous."""
    bits = pmu.bits(term)
    return (config & bits) // (bits & -bits) if bits else 0


# Arm CoreSight (cs_etm): the config, the sink, and the registers of each CPU's tracer that decoding needs.
#
# Facts: tools/perf/arch/arm/util/cs-etm.c of perf 6.12, include/linux/coresight-pmu.h, and the kernel's
# Documentation/ABI/testing/sysfs-bus-coresight-devices-etm4x.


_ETM_INFO_VERSION: Final = 2
_ETM3, _ETM4, _ETE = "ETMv3", "ETMv4", "ETE"
_ETM_MAGIC: Final = {_ETM3: 0x3030303030303030, _ETM4: 0x4040404040404040, _ETE: 0x5050505050505050}
_ETM3_FILES: Final = ("mgmt/etmccer", "mgmt/etmidr")
_ETM4_FILES: Final = ("trcidr/trcidr0", "trcidr/trcidr1", "trcidr/trcidr2", "trcidr/trcidr8", "mgmt/trcauthstatus")
_ETE_ARCHITECTURE: Final = "mgmt/trcdevarch"  # of ETE: version 5 of architecture 0xA13
_ETM_CLOCK: Final = "ts_source"
#: bit of config -> bits of the tracer's register TRCCONFIGR
_ETM_REGISTER_BITS: Final = {8: 1 << 3, 12: 1 << 4, 14: 1 << 6, 15: 1 << 7 | 1 << 15, 28: 1 << 11, 29: 1 << 12}
_FIRST_TRACE_ID, _TRACE_IDS = 0x10, 48  # trace ids of old kernels; newer ones announce them in records
_ETM_WORD: Final = (1 << 64) - 1


def _etm_sink(pmu: Pmu, event: Event) -> int:
    """Return the number of the sink that the event names (@tmc_etr0), 0 if it names none. Raises TraceOptionsError."""
    name = next(iter(event.terms.driver or ()), "")
    if not name:
        return 0
    number = pmu.number(f"sinks/{name}", 16)
    if number is None:
        raise TraceOptionsError(f"'{event.name}': no sink '{name}' in {pmu.path}/sinks; drop @{name}, and the kernel chooses one")
    return number


def _check_etm_config(pmu: Pmu, name: str, config: int, cpus: Sequence[int]) -> None:
    """Raise TraceOptionsError if the CPUs cannot write the requested context ids and times. name is the event's."""
    for cpu in cpus:
        version = _etm_version(pmu, cpu)
        if not version:
            raise TraceOptionsError(f"CPU {cpu} has no tracer in {pmu.path}; load the CoreSight drivers, or choose other CPUs with -C")
        registers = _etm_register(pmu, cpu, "trcidr/trcidr2") if version != _ETM3 else 0
        lacks = {
            "contextid": version == _ETM3,
            "contextid1": version == _ETM3 or registers >> 5 & 0x1F != 4,
            "contextid2": version == _ETM3 or not registers >> 29 & 3 or registers >> 10 & 0x1F < 4,
            "timestamp": version == _ETM3 or not _etm_register(pmu, cpu, "trcidr/trcidr0") >> 24 & 0x1F,
        }
        for term, is_lacking in lacks.items():
            if is_lacking and config & pmu.bits(term):
                raise TraceOptionsError(f"'{name}': the tracer of CPU {cpu} has no {term}; write {pmu.name}/{term}=0/")


def etm_info_words(pmu: Pmu, config: int, cpus: Sequence[int], *, snapshot: bool) -> Iterator[int]:
    """Yield the content of the AUXTRACE_INFO record: a header, then the registers of each CPU's tracer."""
    yield _ETM_INFO_VERSION
    yield (pmu.type or 0) << 32 | len(cpus)
    yield int(snapshot)
    for cpu in cpus:
        version = _etm_version(pmu, cpu)
        trace_id = _FIRST_TRACE_ID + 2 * (cpu % _TRACE_IDS)
        if version == _ETM3:
            words = [config, trace_id, *(_etm_register(pmu, cpu, file) for file in _ETM3_FILES)]
        else:
            register = sum(bits for bit, bits in _ETM_REGISTER_BITS.items() if config >> bit & 1)
            files = (*_ETM4_FILES, _ETE_ARCHITECTURE) if version == _ETE else _ETM4_FILES
            clock = pmu.number(f"cpu{cpu}/{_ETM_CLOCK}")
            words = [register, trace_id, *(_etm_register(pmu, cpu, file) for file in files), (-1 if clock is None else clock) & _ETM_WORD]
        yield from (_ETM_MAGIC[version or _ETM4], cpu, len(words), *words)


def _etm_version(pmu: Pmu, cpu: int) -> str:
    """Return the version of a CPU's tracer; "" if it has none."""
    architecture = pmu.number(f"cpu{cpu}/{_ETE_ARCHITECTURE}", 16) or 0
    if architecture >> 12 & 0xF == 5 and architecture & 0xFFF == 0xA13:
        return _ETE
    if pmu.number(f"cpu{cpu}/{_ETM4_FILES[0]}", 16) is not None:
        return _ETM4
    return _ETM3 if pmu.number(f"cpu{cpu}/{_ETM3_FILES[0]}", 16) is not None else ""


def _etm_register(pmu: Pmu, cpu: int, file: str) -> int:
    return pmu.number(f"cpu{cpu}/{file}", 16) or 0
