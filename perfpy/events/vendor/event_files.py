"""Read named events of PMUs, and metrics, from JSON files.

A file is a list of objects (the kernel's tools/perf/pmu-events), or an object with "Events" (Intel's perfmon). The terms of an event use
the names of the PMU's format/ in sysfs. Keys: pmu-events/README, perfmon's README. Raises UsageError for unreadable folders and files.
"""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.errors import UsageError
from perfpy.kernel.sysfs import Alias, split_number
from perfpy.untrusted.files import read_regular

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfpy.kernel.sysfs import Pmu

#: key -> format term; the default of each is 0
_LARGEST: Final = 256 << 20  # bytes of one file
_MOST_DIGITS: Final = 20  # of a decimal number
_TERMS: Final = (
    ("AnyThread", "any"),
    ("PortMask", "ch_mask"),
    ("CounterMask", "cmask"),
    ("EdgeDetect", "edge"),
    ("FCMask", "fc_mask"),
    ("Invert", "inv"),
    ("SampleAfterValue", "period"),
    ("UMask", "umask"),
    ("NodeType", "type"),
    ("RdWrMask", "rdwrmask"),
    ("EnAllCores", "enallcores"),
    ("EnAllSlices", "enallslices"),
    ("SliceId", "sliceid"),
    ("ThreadMask", "threadmask"),
)
#: the model-specific register that an event also sets -> format term
_REGISTERS: Final = {0x3F6: "ldlat", 0x1A6: "offcore_rsp", 0x1A7: "offcore_rsp", 0x3F7: "frontend"}
#: Intel's fixed counters: the files have pseudo codes, and the kernel expects the codes that it maps to them
_FIXED: Final = {
    "inst_retired.any": "event=0xc0",
    "inst_retired.any_p": "event=0xc0",
    "cpu_clk_unhalted.thread": "event=0x3c",
    "cpu_clk_unhalted.core": "event=0x3c",
    "cpu_clk_unhalted.thread_any": "event=0x3c,any=1",
    "cpu_clk_unhalted.ref": "event=0x0,umask=0x3",
    "cpu_clk_unhalted.ref_tsc": "event=0x0,umask=0x3",
}
#: Unit of the files -> name of the PMU, unless it is the unit in lower case, with or without `uncore_`
_UNITS: Final = {
    "CBO": "uncore_cbox",
    "QPI LL": "uncore_qpi",
    "SBO": "uncore_sbox",
    "iMPH-U": "uncore_arb",
    "NCU": "uncore_cbox",
    "UPI LL": "uncore_upi",
    "CPU-M-CF": "cpum_cf",
    "CPU-M-SF": "cpum_sf",
    "PAI-CRYPTO": "pai_crypto",
    "PAI-EXT": "pai_ext",
    "L3PMC": "amd_l3",
    "DFPMC": "amd_df",
    "UMCPMC": "amd_umc",
}
_CORE: Final = ""


#: the topic, and the fields of an event or a metric
EventEntry = tuple[str, "dict[str, str]"]


class MetricDefinition(NamedTuple):
    """A formula over events. `groups` has the names of its metric groups."""

    name: str
    expression: str
    unit: str = ""
    description: str = ""
    long_description: str = ""
    groups: tuple[str, ...] = ()
    threshold: str = ""


class EventFiles:
    """The events and metrics of a folder, read on first use."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._units_by_pmu: dict[str, list[str]] = {}

    def alias(self, pmu: Pmu, name: str) -> Alias | None:
        """Return the PMU's event of this name in any case; None if there is none."""
        for unit in self._units_of(pmu):
            alias = self._aliases[unit].get(name.lower())
            if alias:
                return alias
        return None

    def names(self, pmu: Pmu) -> list[str]:
        """Return the names of the PMU's events."""
        return sorted({name for unit in self._units_of(pmu) for name in self._aliases[unit]})

    @cached_property
    def metrics(self) -> list[MetricDefinition]:
        """All metrics, by name."""
        metrics = [_metric(entry) for _, entry in self._entries if entry.get("MetricName")]
        return sorted(metrics, key=lambda metric: metric.name)

    def _units_of(self, pmu: Pmu) -> list[str]:
        units = self._units_by_pmu.get(pmu.name)
        if units is None:
            units = [unit for unit in self._aliases if belongs(pmu, unit)]
            self._units_by_pmu[pmu.name] = units
        return units

    @cached_property
    def _aliases(self) -> dict[str, dict[str, Alias]]:
        """unit -> name in lower case -> event."""
        standard = {entry["EventName"].lower(): entry for _, entry in self._entries if entry.get("EventName")}
        aliases: dict[str, dict[str, Alias]] = {}
        for topic, raw in self._entries:
            entry = merge_standard(raw, standard)
            if entry.get("EventName"):
                aliases.setdefault(unit_of(entry), {})[entry["EventName"].lower()] = _alias(entry, topic)
        return aliases

    @cached_property
    def _entries(self) -> list[EventEntry]:
        """(topic, object) of every event and metric."""
        paths = sorted(os.path.join(folder, file) for folder, _, files in os.walk(self.folder) for file in files if file.endswith(".json"))
        if not paths:
            raise UsageError(f"no event files (*.json) in '{self.folder}'")
        return [entry for path in paths for entry in _read(path)]


def merge_standard(entry: dict[str, str], standard: dict[str, dict[str, str]]) -> dict[str, str]:
    """Merge an entry with its architecture's entry. `standard` maps names in lower case to the architecture's entries."""
    standard_name = entry.get("ArchStdEvent")
    return {**standard.get(standard_name.lower(), {"EventName": standard_name}), **entry} if standard_name else entry


def _read(path: str) -> list[EventEntry]:
    try:
        return entries_of(read_regular(path, limit=_LARGEST), path)
    except OSError as error:
        raise UsageError(f"cannot read the event file {path}: {error}") from None


def entries_of(data: bytes, path: str) -> list[EventEntry]:
    """Return the events and metrics of a file's bytes. The path determines their topic. Raises UsageError."""
    import json  # only event files need it

    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"cannot read the event file {path}: {error}") from None
    if isinstance(content, dict):
        content = content.get("Events", [])
    topic = os.path.basename(path).removesuffix(".json").replace("-", " ")
    if not isinstance(content, list):
        raise UsageError(f"the event file {path} has no list of events")
    objects = [entry for entry in content if isinstance(entry, dict)]
    return [(topic, {key: str(value) for key, value in entry.items() if value is not None}) for entry in objects]


def unit_of(entry: dict[str, str]) -> str:
    """Return the PMU of an entry's unit; "" for the CPU's own."""
    unit = entry.get("Unit", "")
    if unit in _UNITS:
        return _UNITS[unit]
    if not unit or unit.lower() in ("core", "cpu", "default_core"):
        return _CORE
    return unit.lower().replace(" ", "_")


def belongs(pmu: Pmu, unit: str) -> bool:
    """Whether the unit of a file means this PMU. A comma matches anything: hisi_sccl,ddrc."""
    if unit == _CORE:
        return pmu.is_core
    if "," in unit:
        position = 0
        for part in unit.split(","):
            position = pmu.name.find(part, position) + len(part)
            if position < len(part):
                return False
        return True
    return not {unit, "uncore_" + unit}.isdisjoint((pmu.name, split_number(pmu.name)[0]))


def _number(text: str) -> int:
    """Return a number of the files: 0x3c, 60, or the first of "0xB7,0xBB"."""
    text = text.partition(",")[0].strip()
    try:
        return int(text, 0)
    except ValueError:
        return int(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else 0


def _alias(entry: dict[str, str], topic: str) -> Alias:
    scale, unit = scale_and_unit(entry.get("ScaleUnit", ""))
    name = entry["EventName"]
    description = entry.get("BriefDescription", "")
    return Alias(
        name.lower(),
        event_terms(entry),
        scale,
        unit,
        per_pkg=entry.get("PerPkg", "0") != "0",
        description=description.strip(),
        long_description=entry.get("PublicDescription", description).strip(),
        topic=topic,
        deprecated=entry.get("Deprecated", "0") != "0",
    )


def event_terms(entry: dict[str, str]) -> str:
    """Return an entry's codes as terms of the PMU's format/ in sysfs."""
    fixed = _FIXED.get(entry["EventName"].lower()) if not _number(entry.get("EventCode", "0")) else None
    if fixed:
        terms = [fixed]
        keys: Sequence[tuple[str, str]] = [("SampleAfterValue", "period")]
    elif "ConfigCode" in entry:
        terms, keys = [f"config={_number(entry['ConfigCode']):#x}"], _TERMS
    elif "EventidCode" in entry:
        terms, keys = [f"eventid={_number(entry['EventidCode']):#x}"], _TERMS
    else:
        code = _number(entry.get("EventCode", "0")) | _number(entry.get("ExtSel", "0")) << 21
        terms, keys = [f"event={code:#x}"], _TERMS
    for key, term in keys:
        value = _number(entry.get(key, "0"))
        if key == "UMask":
            value |= _number(entry.get("UMaskExt", "0")) << 8
        if value:
            terms.append(f"{term}={value:#x}" if term != "period" else f"period={value}")
    register = _REGISTERS.get(_number(entry.get("MSRIndex", "0")))
    if register and _number(entry.get("MSRValue", "0")):
        terms.append(f"{register}={_number(entry['MSRValue']):#x}")
    if entry.get("Filter"):
        terms.append(entry["Filter"].strip())
    return ",".join(terms)


def scale_and_unit(text: str) -> tuple[float, str]:
    """Split a number and a unit: 64Bytes -> (64.0, "Bytes")."""
    end = len(text)
    while end:
        try:
            return float(text[:end]), text[end:]
        except ValueError:
            end -= 1
    return 1.0, text


def _metric(entry: dict[str, str]) -> MetricDefinition:
    description = entry.get("BriefDescription", "")
    return MetricDefinition(
        entry["MetricName"],
        entry.get("MetricExpr", ""),
        entry.get("ScaleUnit", ""),
        description,
        entry.get("PublicDescription", description),
        tuple(name for name in entry.get("MetricGroup", "").split(";") if name),
        entry.get("MetricThreshold", ""),
    )
