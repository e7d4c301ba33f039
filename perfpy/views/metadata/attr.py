"""An event attr as (label, value) pairs of its set fields in perf's order, for `evlist -v` and the header's event lines."""

from __future__ import annotations

from perfpy.abi.attr import FLAG_BITS
from perfpy.abi.flags import BranchSample, CacheId, CacheOp, CacheResult, HardwareId, PerfType, ReadFormat, SampleType, SoftwareId, names_of

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Final, Protocol

    from perfpy.abi.attr import EventAttr
    from perfpy.perfdata.reader import PerfData

    class EventNames(Protocol):
        """Names for the numbers in attrs; "" for unknown ones."""

        def pmu(self, type_number: int) -> str:
            """Return the PMU whose events have this type."""

        def tracepoint(self, number: int) -> str:
            """Return SYSTEM:NAME of the tracepoint with this id."""


class FileNames:
    """The names in the recording: correct even if it is read on another machine."""

    def __init__(self, data: PerfData) -> None:
        self._data = data

    def pmu(self, type_number: int) -> str:
        """Return the PMU's name from the PMU_MAPPINGS feature."""
        return next((pmu.name for pmu in self._data.features.get("pmu_mappings", ()) if pmu.type == type_number), "")

    def tracepoint(self, number: int) -> str:
        """Return the tracepoint's name from the TRACING_DATA feature."""
        tracing = self._data.tracing
        point = tracing.tracepoints.get(number) if tracing else None
        return f"{point.system}:{point.name}" if point else ""


# perf's order, which is neither that of the bits nor of the layout
_SAMPLE_TYPES: Final = (
    SampleType.IP,
    SampleType.TID,
    SampleType.TIME,
    SampleType.ADDR,
    SampleType.READ,
    SampleType.CALLCHAIN,
    SampleType.ID,
    SampleType.CPU,
    SampleType.PERIOD,
    SampleType.STREAM_ID,
    SampleType.RAW,
    SampleType.BRANCH_STACK,
    SampleType.REGS_USER,
    SampleType.STACK_USER,
    SampleType.IDENTIFIER,
    SampleType.REGS_INTR,
    SampleType.DATA_SRC,
    SampleType.WEIGHT,
    SampleType.PHYS_ADDR,
    SampleType.AUX,
    SampleType.CGROUP,
    SampleType.DATA_PAGE_SIZE,
    SampleType.CODE_PAGE_SIZE,
    SampleType.WEIGHT_STRUCT,
)
_LAST_FLAG: Final = "sigtrap"  # perf 6.12 prints no later ones
_FLAGS: Final = tuple(name for name, _ in FLAG_BITS[: [name for name, _ in FLAG_BITS].index(_LAST_FLAG) + 1])


def attr_fields(attr: EventAttr, names: EventNames) -> Iterator[tuple[str, str]]:
    """Yield (label, value) of every field that perf prints: type, size and config always, the others if not 0."""
    yield "type", _with_name(str(attr.type), names.pmu(attr.type) or _type_name(attr.type))
    yield from _numbers(attr, ("size",))
    yield "config", _with_name(_hex(attr.config), _config_name(attr, names))
    if attr.sample_period:
        yield "{ sample_period, sample_freq }", str(attr.sample_period)
    if attr.sample_type:
        yield "sample_type", _bits(attr.sample_type, {bit: names_of(SampleType)[bit] for bit in _SAMPLE_TYPES})
    if attr.read_format:
        yield "read_format", _bits(attr.read_format, names_of(ReadFormat))
    yield from _numbers(attr, _FLAGS)
    if attr.wakeup_events:
        yield "{ wakeup_events, wakeup_watermark }", str(attr.wakeup_events)
    yield from _numbers(attr, ("bp_type",))
    if attr.config1:
        yield "{ bp_addr, config1 }", _hex(attr.config1)
    if attr.config2:
        yield "{ bp_len, config2 }", _hex(attr.config2)
    if attr.branch_sample_type:
        yield "branch_sample_type", _bits(attr.branch_sample_type, names_of(BranchSample))
    if attr.sample_regs_user:
        yield "sample_regs_user", _hex(attr.sample_regs_user)
    yield from _numbers(attr, ("sample_stack_user", "clockid"))
    if attr.sample_regs_intr:
        yield "sample_regs_intr", _hex(attr.sample_regs_intr)
    yield from _numbers(attr, ("aux_watermark", "sample_max_stack", "aux_sample_size", "sig_data"))


def _numbers(attr: EventAttr, fields: Sequence[str]) -> Iterator[tuple[str, str]]:
    for name in fields:
        value = getattr(attr, name)
        if value:
            yield name, str(value)


def _hex(value: int) -> str:
    return f"{value:#x}" if value else "0"


def _with_name(number: str, name: str) -> str:
    return f"{number} ({name})" if name else number


def _bits(value: int, names: Mapping[int, str]) -> str:
    return "|".join(name for bit, name in names.items() if value & bit)


def _type_name(number: int) -> str:
    return _member_name("PERF_TYPE_", PerfType, number)


def _config_name(attr: EventAttr, names: EventNames) -> str:
    if attr.type == PerfType.TRACEPOINT:
        return names.tracepoint(attr.config)
    if attr.type == PerfType.HARDWARE:
        return _member_name("PERF_COUNT_HW_", HardwareId, attr.config)
    if attr.type == PerfType.SOFTWARE:
        return _member_name("PERF_COUNT_SW_", SoftwareId, attr.config)
    if attr.type == PerfType.HW_CACHE:
        return _cache_name(attr.config)
    return ""


def _member_name(prefix: str, kind: type, number: int) -> str:
    name = names_of(kind).get(number)
    return prefix + name if name else ""


def _cache_name(config: int) -> str:
    cache, op, result = config & 0xFF, config >> 8 & 0xFF, config >> 16 & 0xFF
    try:
        parts = f"RESULT_{names_of(CacheResult)[result]}", f"OP_{names_of(CacheOp)[op]}", names_of(CacheId)[cache]
    except KeyError:
        return ""
    return " | ".join(f"PERF_COUNT_HW_CACHE_{part}" for part in parts)
