"""Choose the next attempt after the kernel refused an event; shared by counting and recording.

Nothing is opened here. There are two layers, as in perf 6.12 (and 7.3 for newer features):

1. `next_attempt`: the same event without something that an older kernel or a simple PMU lacks (lower precision, then one feature after
   the other, newest first);
2. `replacement`: a different event under its own name (a clock for `cycles`; user space only for users who may not measure the kernel).

A missing feature stays missing for the rest of the run: pass the last attempt's `missing` to the next event.
"""

from __future__ import annotations

from errno import EACCES, EINVAL, ENODEV, ENOENT, ENXIO, EOPNOTSUPP

from perfpy.abi.flags import FLAG_FD_CLOEXEC, BranchSample, HardwareId, PerfType, ReadFormat, SampleType, SoftwareId
from perfpy.abi.light_types import NamedTuple
from perfpy.events.event import generic_name

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final

    from perfpy.abi.attr import EventAttr
    from perfpy.events.event import Event


_CLOCK_MONOTONIC: Final = 1
_NO_PMU: Final = (ENOENT, ENXIO, ENODEV, EOPNOTSUPP)
_BRANCH_FLAGS: Final = BranchSample.NO_CYCLES | BranchSample.NO_FLAGS


class Attempt(NamedTuple):
    """One call of perf_event_open.

    Attributes:
        flags: its last argument
        missing: features that this kernel lacks, as far as known
        leads: whether the event leads its group or is alone
        asked_precise: the precise_ip before it was lowered
        chooses_guests: whether the user chose host or guests, so that exclude_host and exclude_guest must not be dropped
    """

    attr: EventAttr
    flags: int
    missing: frozenset[str]
    leads: bool = True
    asked_precise: int = 0
    chooses_guests: bool = False


class Replacement(NamedTuple):
    """Another event for a refused one; `message` is one line with the reason."""

    attr: EventAttr
    name: str
    message: str


def first_attempt(attr: EventAttr, missing: frozenset[str] = frozenset(), *, leads: bool = True, chooses_guests: bool = False) -> Attempt:
    """Return the first call, without the features that earlier events of this run found missing."""
    return _without_missing(Attempt(attr.copy(), FLAG_FD_CLOEXEC, missing, leads, chooses_guests=chooses_guests))


def next_attempt(attempt: Attempt, errno: int, *, precise_max: bool = False, first: bool = True) -> Attempt | None:
    """Return the call to try after a refused one; None if none is left.

    Args:
        precise_max: whether the event has :P, so that its precision may be lowered
        first: whether this is the event's first CPU and thread; later ones must equal it
    """
    attr = attempt.attr
    if precise_max and attr.precise_ip:
        lower = attr.copy(precise_ip=attr.precise_ip - 1)
        return attempt._replace(attr=lower, asked_precise=attempt.asked_precise or attr.precise_ip)
    if precise_max and attempt.asked_precise:
        attempt = attempt._replace(attr=attr.copy(precise_ip=attempt.asked_precise))
    if errno != EINVAL or not first:
        return None
    for feature in _FEATURES:
        key = feature.key(attempt.attr)
        if key in attempt.missing or not feature.used(attempt):
            continue
        if feature.remove is None:
            return None  # the user requested it by name, so no event is better than one without it
        return _without_missing(attempt._replace(missing=attempt.missing | {key}))
    return None


def replacement(
    name: str, attr: EventAttr, errno: int, *, on_cpus: bool, paranoid: int | None, precise_max: bool = False
) -> Replacement | None:
    """Return another event for one that was refused for good; None if there is none.

    Args:
        name: the event's name
        on_cpus: whether whole CPUs are measured, not a task
        paranoid: the sysctl kernel.perf_event_paranoid (perfpy.kernel.syscalls.paranoid_level)
        precise_max: whether the event has :P, so that the precision is not a request
    """
    # A PMU that refuses a precision or branch records may still count cycles, and the clock has neither.
    needs_hardware = attr.sample_type & SampleType.BRANCH_STACK or (attr.precise_ip and not precise_max)
    lacks_cycles = errno in _NO_PMU and not (errno == EOPNOTSUPP and needs_hardware)
    if lacks_cycles and (attr.type, attr.config) == (PerfType.HARDWARE, HardwareId.CPU_CYCLES):
        clock = SoftwareId.CPU_CLOCK if on_cpus else SoftwareId.TASK_CLOCK
        other = attr.copy(type=PerfType.SOFTWARE, config=clock)
        words = "cpu-clock" if on_cpus else "task-clock"
        return Replacement(other, attr_name(other), f"no hardware cycle counter here; using {words} instead")
    if errno == EACCES and not attr.exclude_kernel and not attr.exclude_user and (paranoid or 0) > 1:
        other = attr.copy(exclude_kernel=1, exclude_hv=1)
        separator = "" if "/" in name or ":" in name else ":"
        return Replacement(other, f"{name}{separator}u", user_space_only(paranoid))
    return None


def user_space_only(paranoid: int | None) -> str:
    """Return the note that samples of the kernel are missing, and why."""
    return f"kernel.perf_event_paranoid={paranoid} excludes the kernel; measuring user space only"


class _Feature(NamedTuple):
    """A later addition to the ABI: whether an attempt uses it, and how to remove it (None: impossible)."""

    name: str
    used: Callable[[Attempt], object]
    remove: Callable[[EventAttr], None] | None = None
    per_type: bool = False

    def key(self, attr: EventAttr) -> str:
        """Return its name in `missing`. A PMU that lacks it implies nothing about other PMUs."""
        return f"{self.name}:{_pmu_type(attr)}" if self.per_type else self.name


def _pmu_type(attr: EventAttr) -> int:
    """Return the type of an event's PMU: of generic events, the core PMU's, which hybrid machines have in the high half of config."""
    if attr.type in (PerfType.HARDWARE, PerfType.HW_CACHE):
        return attr.config >> 32 or int(PerfType.RAW)
    return attr.type


def _clear(field: str, bits: int) -> Callable[[EventAttr], None]:
    def remove(attr: EventAttr) -> None:
        setattr(attr, field, getattr(attr, field) & ~bits)

    return remove


def _zero(*fields: str) -> Callable[[EventAttr], None]:
    def remove(attr: EventAttr) -> None:
        for field in fields:
            setattr(attr, field, 0)

    return remove


def _old_weight(attr: EventAttr) -> None:
    attr.sample_type = attr.sample_type & ~SampleType.WEIGHT_STRUCT | SampleType.WEIGHT


def _monotonic_clock(attr: EventAttr) -> None:
    if attr.use_clockid:
        attr.clockid = _CLOCK_MONOTONIC


def _nothing(attr: EventAttr) -> None:
    """Keep the attr: the feature is in the call's flags, see _without_missing."""


_CLOEXEC: Final = "cloexec"

#: newest first, the order in which perf drops them
_FEATURES: Final[tuple[_Feature, ...]] = (
    _Feature("deferred callchains", lambda a: a.attr.defer_callchain or a.attr.defer_output, _zero("defer_callchain", "defer_output")),
    _Feature(
        "branch counters",
        lambda a: a.attr.branch_sample_type & BranchSample.COUNTERS,
        _clear("branch_sample_type", BranchSample.COUNTERS),
    ),
    _Feature("lost count", lambda a: a.attr.read_format & ReadFormat.LOST, _clear("read_format", ReadFormat.LOST)),
    _Feature("weight struct", lambda a: a.attr.sample_type & SampleType.WEIGHT_STRUCT, _old_weight),
    _Feature("code page size", lambda a: a.attr.sample_type & SampleType.CODE_PAGE_SIZE),
    _Feature("data page size", lambda a: a.attr.sample_type & SampleType.DATA_PAGE_SIZE),
    _Feature("cgroup", lambda a: a.attr.cgroup),
    _Feature(
        "branch hardware index",
        lambda a: a.attr.branch_sample_type & BranchSample.HW_INDEX,
        _clear("branch_sample_type", BranchSample.HW_INDEX),
    ),
    _Feature("aux output", lambda a: a.attr.aux_output),
    _Feature("bpf", lambda a: a.attr.bpf_event, _zero("bpf_event")),
    _Feature("ksymbol", lambda a: a.attr.ksymbol, _zero("ksymbol")),
    _Feature("write backward", lambda a: a.attr.write_backward),
    _Feature("other clocks", lambda a: a.attr.use_clockid, _monotonic_clock),
    _Feature("clock id", lambda a: a.attr.use_clockid, _zero("use_clockid", "clockid")),
    _Feature(_CLOEXEC, lambda a: a.flags & FLAG_FD_CLOEXEC, _nothing),
    _Feature("mmap2", lambda a: a.attr.mmap2, _zero("mmap2")),
    _Feature(
        "exclude guest",
        lambda a: not a.chooses_guests and (a.attr.exclude_guest or a.attr.exclude_host),
        _zero("exclude_guest", "exclude_host"),
        per_type=True,
    ),
    _Feature("sample id all", bool, _zero("sample_id_all")),  # bool: always tried, as in perf
    _Feature("branch flags", lambda a: a.attr.branch_sample_type & _BRANCH_FLAGS, _clear("branch_sample_type", _BRANCH_FLAGS)),
    _Feature(
        "group read",
        lambda a: a.leads and a.attr.inherit and a.attr.read_format & ReadFormat.GROUP,
        _clear("read_format", ReadFormat.GROUP | ReadFormat.ID),
    ),
)


def _without_missing(attempt: Attempt) -> Attempt:
    attr, flags = attempt.attr.copy(), attempt.flags
    for feature in _FEATURES:
        if feature.remove and feature.key(attr) in attempt.missing and feature.used(attempt):
            feature.remove(attr)
            if feature.name == _CLOEXEC:
                flags &= ~FLAG_FD_CLOEXEC
    return attempt._replace(attr=attr, flags=flags)


# Convert attrs to names and events to texts, the reverse of the event language. `attr_name` returns perf's name of an event without a
# text; `event_text` returns a text for -e that means exactly the same event here.

_LOW_HALF = 0xFFFFFFFF  # the high half of a generic event's config has the core PMU
_ACCESS = ((1, "r"), (2, "w"), (4, "x"))


def modifiers_of(attr: EventAttr) -> str:
    """Return the letters for exclude_* and precise_ip; "" if nothing is excluded."""
    letters = ""
    if attr.exclude_user or attr.exclude_kernel or attr.exclude_hv:
        letters += "" if attr.exclude_kernel else "k"
        letters += "" if attr.exclude_user else "u"
        letters += "" if attr.exclude_hv else "h"
    letters += "p" * attr.precise_ip
    guests_left_out_anyway = bool(letters)  # perf's default in combination with other modifiers
    if attr.exclude_host or bool(attr.exclude_guest) == guests_left_out_anyway:
        letters += "" if attr.exclude_host else "H"
        letters += "" if attr.exclude_guest else "G"
    return letters


def attr_name(attr: EventAttr) -> str:
    """Return perf's name of an attr: generic if possible, with modifiers."""
    name, letters = _base_name(attr), modifiers_of(attr)
    return f"{name}:{letters}" if letters else name


def _base_name(attr: EventAttr) -> str:
    """Return the generic name, or TYPE:CONFIG, rCONFIG or mem:ADDRESS."""
    name = generic_name(attr.type, attr.config)
    if name:
        return name
    if attr.type == PerfType.BREAKPOINT:
        access = "".join(letter for bit, letter in _ACCESS if attr.bp_type & bit)
        return f"mem:{attr.bp_addr:#x}/{attr.bp_len}:{access}"
    if attr.type == PerfType.RAW:
        return f"r{attr.config:x}"
    return f"{attr.type}:{attr.config:#x}"


def event_text(event: Event) -> str:
    """Return a text for -e that resolves to the same attr and terms on the same machine, without groups and filters."""
    attr = event.attr
    # all modifiers that the event needs; none for the default, which excludes only guests
    letters = modifiers_of(attr).rstrip("GH")
    letters += "I" * attr.exclude_idle + "D" * attr.pinned + "e" * attr.exclusive
    letters += "P" * event.precise_max + "S" * event.sample_read
    if letters or attr.exclude_host or not attr.exclude_guest:
        letters += "" if attr.exclude_host else "H"
        letters += "" if attr.exclude_guest else "G"
    terms = _term_texts(event)
    if event.tool:
        return f"{event.tool}:{letters}" if letters else event.tool
    if event.pmu and not event.tracepoint and not event.keepalive:
        words = [f"{field}={getattr(attr, field):#x}" for field in ("config", "config1", "config2", "config3")]
        if attr.type in (PerfType.HARDWARE, PerfType.HW_CACHE):  # a generic event on a core PMU
            words[:1] = [generic_name(attr.type, attr.config & _LOW_HALF)]
        return f"{event.pmu}/{','.join(words + terms)}/{letters}"
    name = ":".join(event.tracepoint) if event.tracepoint else _base_name(attr)
    if attr.type == PerfType.BREAKPOINT and terms:
        return f"{name}/{','.join(terms)}/{letters}"
    return name + (f"/{','.join(terms)}/" if terms else "") + (f":{letters}" if letters else "")


def _term_texts(event: Event) -> list[str]:
    """Return the event's terms as texts."""
    texts = []
    for field, value in event.terms.present_terms().items():
        name = {"branch_type": "branch_type", "max_events": "nr"}.get(field, field.replace("_", "-"))
        if field == "proposes_period":
            continue
        if field == "driver":
            texts += [f"@{setting}" for setting in value]
        elif field == "cpu":
            texts += [f"cpu={cpu}" for cpu in value]
        elif isinstance(value, tuple):
            texts.append(f"{name}={':'.join(value)}")
        else:
            texts.append(f"{name}={int(value) if isinstance(value, bool) else value}")
    return texts
