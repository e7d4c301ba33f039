"""The language of `perf script -F`: the fields to print for each kind of event.

Syntax (perf-script(1)): `[type:]field,...`, `+field` and `-field`; types hw, sw, trace, raw, break, synth. Fields that samples lack are
removed from the default set; if requested, they are an error.
"""

from __future__ import annotations

from perfpy.abi.flags import BranchSample, PerfType, SampleType, SoftwareId
from perfpy.errors import PerfError, UsageError

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Final

    from perfpy.perfdata.events import FileEvent

FIELDS: Final = (
    "comm", "tid", "pid", "time", "cpu", "event", "trace", "ip", "sym", "dso", "dsoff", "addr", "symoff", "srcline", "period", "iregs",
    "uregs", "brstack", "brstacksym", "data_src", "weight", "bpf-output", "callindent", "insn", "disasm", "insnlen", "brstackinsn",
    "brstackoff", "synth", "phys_addr", "metric", "misc", "srccode", "ipc", "tod", "data_page_size", "code_page_size", "ins_lat",
    "brstackinsnlen", "machine_pid", "vcpu", "cgroup", "retire_lat", "brstackdisasm", "brcntr",
)  # fmt: skip

#: fields that depend on earlier samples, or that other programs compute
DEPENDENT_FIELDS: Final = frozenset(
    {"data_src", "metric", "callindent", "srccode", "srcline", "insn", "disasm", "brstackinsn", "brstackinsnlen", "brstackdisasm"}
)
SYNTH: Final = 6
OTHER: Final = 7
SYNTH_TYPE: Final = 0x80000000  # PERF_TYPE_SYNTH
_COMMON: Final = ("comm", "tid", "cpu", "time", "event")
_ADDRESS: Final = ("ip", "sym", "symoff", "dso")
_RAW_ONLY: Final = ("addr", "data_src", "weight", "phys_addr", "data_page_size", "code_page_size", "ins_lat", "retire_lat")
_DEFAULTS: Final = {
    PerfType.HARDWARE: (*_COMMON, *_ADDRESS, "period"),
    PerfType.SOFTWARE: (*_COMMON, *_ADDRESS, "period", "bpf-output"),
    PerfType.TRACEPOINT: (*_COMMON, "trace"),
    PerfType.HW_CACHE: (*_COMMON, *_ADDRESS, "period"),
    PerfType.RAW: (*_COMMON, *_ADDRESS, "period", *_RAW_ONLY),
    PerfType.BREAKPOINT: (*_COMMON, *_ADDRESS, "period"),
    SYNTH: (*_COMMON, *_ADDRESS, "synth"),
    OTHER: (*_COMMON, *_ADDRESS, "period"),
}  # fmt: skip
_TYPE_NAMES: Final = {
    "hw": PerfType.HARDWARE,
    "sw": PerfType.SOFTWARE,
    "trace": PerfType.TRACEPOINT,
    "raw": PerfType.RAW,
    "break": PerfType.BREAKPOINT,
    "synth": SYNTH,
}
_LONG_NAMES: Final = {
    PerfType.HARDWARE: "hardware",
    PerfType.SOFTWARE: "software",
    PerfType.TRACEPOINT: "tracepoint",
    PerfType.HW_CACHE: "hardware-cache",
}

#: a field, the sample_type bits of which it needs one, perf's name for them, and whether a file with AUX data may lack it
_NEEDS: Final = (
    ("ip", SampleType.IP, "IP", False),
    ("addr", SampleType.ADDR, "ADDR", True),
    ("data_src", SampleType.DATA_SRC, "DATA_SRC", True),
    ("weight", SampleType.WEIGHT | SampleType.WEIGHT_STRUCT, "WEIGHT", True),
    ("tid", SampleType.TID, "TID", False),
    ("pid", SampleType.TID, "TID", False),
    ("time", SampleType.TIME, "TIME", False),
    ("cpu", SampleType.CPU, "CPU", True),
    ("iregs", SampleType.REGS_INTR, "IREGS", True),
    ("uregs", SampleType.REGS_USER, "UREGS", False),
    ("phys_addr", SampleType.PHYS_ADDR, "PHYS_ADDR", True),
    ("data_page_size", SampleType.DATA_PAGE_SIZE, "DATA_PAGE_SIZE", False),
    ("code_page_size", SampleType.CODE_PAGE_SIZE, "CODE_PAGE_SIZE", False),
    ("ins_lat", SampleType.WEIGHT_STRUCT, "WEIGHT_STRUCT", False),
    ("cgroup", SampleType.CGROUP, "CGROUP", False),
    ("retire_lat", SampleType.WEIGHT_STRUCT, "WEIGHT_STRUCT", False),
)


class FieldSet:
    """The fields of one kind of event.

    Attributes:
        chosen: whether -F named this kind (wildcard: as one of all kinds)
        asked, dropped: fields that -F added and removed by name
    """

    def __init__(self, fields: set[str], invalid: frozenset[str]) -> None:
        self.fields = fields
        self.invalid = invalid
        self.chosen = False
        self.wildcard = False
        self.requested: set[str] = set()
        self.dropped: set[str] = set()


def kind_of(event: FileEvent) -> int:
    """Return the kind of an event, an index into the field sets."""
    if event.attr.type == SYNTH_TYPE:
        return SYNTH
    return event.attr.type if event.attr.type <= PerfType.BREAKPOINT else OTHER


def is_dummy(event: FileEvent) -> bool:
    """Whether it is a dummy event, which carries side-band only."""
    return event.attr.type == PerfType.SOFTWARE and event.attr.config == SoftwareId.DUMMY


def has_callchain(event: FileEvent) -> bool:
    """Whether its samples have callchains."""
    return bool(event.attr.sample_type & SampleType.CALLCHAIN)


def long_kind_name(kind: int) -> str:
    """Return the name of a kind in messages."""
    return _LONG_NAMES.get(kind, "unknown") if kind <= PerfType.BREAKPOINT else "unknown"


class OutputFields:
    """The field sets of all kinds of events."""

    def __init__(self) -> None:
        self.sets = {int(kind): FieldSet(set(names), _invalid(kind)) for kind, names in _DEFAULTS.items()}
        self.flags = False  # -F flags applies to all kinds
        self.warnings: list[str] = []
        self.skipped: list[str] = []  # messages of -v about default fields that samples lack

    def apply(self, text: str) -> None:
        """Apply one -F option. Raises UsageError as perf refuses it."""
        head, colon, rest = text.partition(":")
        kind: int | None = None
        if colon:
            if head not in _TYPE_NAMES:
                raise UsageError(f"-F {text}: unknown kind of event {head!r}; expected one of " + ", ".join(_TYPE_NAMES))
            kind = int(_TYPE_NAMES[head])
            if self.sets[kind].chosen:
                self.warnings.append(f"-F for {long_kind_name(kind)} events is given again: the last one counts")
        else:
            rest = text
            if not text:
                raise UsageError("-F: no field; `-F KIND:` takes them from one kind of event")
        if "+" not in rest and "-" not in rest.replace("bpf-output", ""):
            self._clear(kind)
        self._change(kind, [word for word in rest.split(",") if word])

    def _clear(self, kind: int | None) -> None:
        if kind is None and any(one.chosen for one in self.sets.values()):
            self.warnings.append("-F for all events is given again: the last one counts")
        for one in self.sets.values() if kind is None else (self.sets[kind],):
            one.fields = set()
            one.chosen, one.wildcard = True, kind is None

    def _change(self, kind: int | None, words: Sequence[str]) -> None:
        signs = {word[0] if word[0] in "+-" else "" for word in words}
        if "" in signs and len(signs) > 1:
            raise UsageError(f"-F {','.join(words)}: + and - change the usual fields, other names replace them; use one form")
        for word in words:
            removes, name = word[0] == "-", word.lstrip("+-")
            if name == "flags":
                self.flags = not removes
            elif name not in FIELDS:
                raise UsageError(f"-F: unknown field {name!r}; `perfpy script --help` names them")
            else:
                self._set(kind, name, removes)

    def _set(self, kind: int | None, name: str, removes: bool) -> None:
        for number, one in self.sets.items() if kind is None else ((kind, self.sets[kind]),):
            if name in one.invalid:
                text = f"-F: {long_kind_name(number)} events have no field {name!r}"
                if kind is not None:
                    raise UsageError(text)
                self.warnings.append(text + "; it is skipped there")
                continue
            _put(one, name, removes, by_name=kind is None)
            one.chosen = one.wildcard = True

    def settle(
        self, events: Sequence[FileEvent], *, is_pipe: bool, has_stat: bool, has_aux: bool, use_callchain: bool, has_clock: bool
    ) -> bool:
        """Fit the sets to the events of a file; return whether callchains are printed.

        Raises PerfError for a requested field that samples lack.
        """
        for kind, one in self.sets.items():
            first = next((event for event in events if kind_of(event) == kind and not is_dummy(event)), None)
            if first is None:
                if one.chosen and not one.wildcard and kind != SYNTH:
                    raise PerfError(f"-F: this recording has no {long_kind_name(kind)} events; drop their -F")
                continue
            if not has_stat:
                _check_branches(one, events)
            if one.fields and not has_stat and not (is_pipe and (kind >= SYNTH or not first.attr.sample_type)):
                self._fit(one, first, events, has_aux)
            if "dsoff" in one.fields:
                one.fields.add("dso")
            if "tod" in one.fields and not has_clock and not is_pipe:
                raise PerfError("-F tod: the recording does not name its clock; record with -k CLOCK")
        if is_pipe:
            if use_callchain:
                self._add_pipe_chains(events)
            return use_callchain
        use_callchain = use_callchain and any(has_callchain(event) for event in events)
        traced = [event for event in events if event.attr.type == PerfType.TRACEPOINT and has_callchain(event)]
        if use_callchain and traced and not self.sets[PerfType.TRACEPOINT].chosen:
            self.sets[PerfType.TRACEPOINT].fields.update(_ADDRESS)
        return use_callchain

    def _fit(self, one: FieldSet, event: FileEvent, events: Iterable[FileEvent], has_aux: bool) -> None:
        """Check one kind by its first event."""
        sample_type = event.attr.sample_type
        if "trace" in one.fields and not any(other.attr.type == PerfType.TRACEPOINT for other in events):
            raise PerfError("-F trace: this recording has no tracepoint events; record one, for example with -e sched:sched_switch")
        for name, bits, label, aux_may_lack in _NEEDS:
            if name not in one.fields or sample_type & bits:
                continue
            if name not in one.requested:
                one.fields.discard(name)
                self.skipped.append(f"Samples for '{event.name}' event do not have {label} attribute set. Skipping '{name}' field.")
                if name == "tid":
                    one.fields.discard("pid")
            elif not (aux_may_lack and has_aux):
                raise PerfError(f"-F {name}: samples of {event.name} have no {label}; drop the field, or record it")
            if name == "ip":
                _check_symbols(one, sample_type)
        _check_symbols(one, sample_type)
        _check_sources(one)

    def _add_pipe_chains(self, events: Sequence[FileEvent]) -> None:
        """Add ip and symbol to events with stacks in a pipe, as perf does for any kind."""
        kinds: set[int] = set()
        combined = 0
        for event in events:
            combined |= event.attr.sample_type
            kind = kind_of(event)
            if kind in kinds or kind == OTHER:
                continue
            kinds.add(kind)
            stacks = SampleType.REGS_USER | SampleType.STACK_USER
            if combined & (SampleType.CALLCHAIN | SampleType.BRANCH_STACK) or combined & stacks == stacks:
                one = self.sets[kind]
                one.fields.update({"ip", "sym"} - one.dropped)


def _check_symbols(one: FieldSet, sample_type: int) -> None:
    if "sym" in one.fields and not sample_type & (SampleType.IP | SampleType.ADDR):
        raise PerfError("-F sym: the samples have neither ip nor addr; symbols are looked up by address")
    if "symoff" in one.fields and "sym" not in one.fields:
        raise PerfError("-F symoff requires sym")
    if "dso" in one.fields and not sample_type & (SampleType.IP | SampleType.ADDR):
        raise PerfError("-F dso: the samples have neither ip nor addr; files are looked up by address")


def _check_sources(one: FieldSet) -> None:
    if one.fields & {"srcline", "srccode"} and "ip" not in one.fields:
        raise PerfError("-F srcline and srccode require ip")


def _check_branches(one: FieldSet, events: Iterable[FileEvent]) -> None:
    recorded = 0
    for event in events:
        recorded |= event.attr.branch_sample_type
    if one.fields & {"brstackinsn", "brstackinsnlen", "brstackdisasm"} and not recorded & BranchSample.ANY:
        raise PerfError("-F brstackinsn requires all branches between two samples; record with -b")
    if "brcntr" in one.fields and not recorded & BranchSample.COUNTERS:
        raise PerfError("-F brcntr: the branches have no counters; record with -j any,counter")


def _invalid(kind: int) -> frozenset[str]:
    if kind == PerfType.TRACEPOINT:
        return frozenset()
    return frozenset(("trace",)) if kind == PerfType.SOFTWARE else frozenset(("trace", "bpf-output"))


def _put(one: FieldSet, name: str, removes: bool, *, by_name: bool) -> None:
    if removes:
        one.fields.discard(name)
    else:
        one.fields.add(name)
    if by_name:  # perf remembers it only for fields of all kinds
        (one.dropped if removes else one.requested).add(name)
        (one.requested if removes else one.dropped).discard(name)
