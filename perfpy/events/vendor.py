"""Read named events of PMUs, and metrics, from JSON files.

A file is a list of objects (the kernel's tools/perf/pmu-events), or an object with "Events" (Intel's perfmon). The terms of an event use
the names of the PMU's format/ in sysfs. Keys: pmu-events/README, perfmon's README. Raises UsageError for unreadable folders and files.
"""

from __future__ import annotations

import csv
import errno
import os
import re
import time
from functools import cached_property
from typing import TYPE_CHECKING, Final

from perfpy.counts.formulas import compile_formula
from perfpy.errors import EventSyntaxError, UsageError
from perfpy.events.vendor_tables import MetricDefinition, belongs, file_name, own_folder, scale_and_unit
from perfpy.kernel.sysfs import Alias
from perfpy.untrusted.destinations import own
from perfpy.untrusted.files import below, read_regular

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perfpy.kernel.sysfs import Pmu


_LARGEST: Final = 256 << 20  # bytes of one file
_MOST_DIGITS: Final = 20  # of a decimal number
#: key -> format term; the default of each is 0
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

    def is_of_cores(self, name: str) -> bool:
        """Whether no PMU but the cores' can have an event of this name."""
        return not any(unit and name.lower() in aliases for unit, aliases in self._aliases.items())

    def aliases(self, pmu: Pmu) -> list[Alias]:
        """Return all events of the PMU, by name."""
        aliases: dict[str, Alias] = {}
        for unit in self._units_of(pmu):
            aliases = self._aliases[unit] | aliases
        return [aliases[name] for name in sorted(aliases)]

    def names(self, pmu: Pmu) -> list[str]:
        """Return the names of the PMU's events."""
        return [alias.name for alias in self.aliases(pmu)]

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
        is_described=bool(description),
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
        entry["Unit"] if entry.get("Unit", "") in _CORE_ROLES.values() else "",
        CONSTRAINTS.get(entry.get("MetricConstraint", ""), ""),
        ungrouped_in=tuple(filter(None, entry.get("MetricgroupNoGroup", "").split(";"))),
        default_group=entry.get("DefaultMetricgroupName", ""),
    )


# Make the event table of one CPU from a vendor's event files (`list --update-events`). The source is a folder or a URL that has one of
#
#     mapfile.csv, and the files it names          as Intel's perfmon repository
#     arch/ARCH/mapfile.csv, and folders           as the kernel's tools/perf/pmu-events (arch/ and ARCH/ are optional),
#                                                  or the kernel's whole tree
#
# In both layouts a row of mapfile.csv is `pattern of identities,version,path,kind,...`. The first matching row of the kernel's mapfile is
# complete. Table format: see perfpy.events.vendor_tables. Raises UsageError if there is nothing to read, or nothing for the CPU.

_LARGEST_DOWNLOAD: Final = 64 << 20  # bytes of one file
_SECONDS: Final = 60  # of one file
_ALL_SECONDS: Final = 600
_PIECE: Final = 1 << 20
#: repeated groups, which can take the matcher for ever; no maker's pattern has them
_REPEATED_GROUP: Final = re.compile(r"\)[*+{]")
_PATTERN_MOST: Final = 256
_REPETITIONS_MOST: Final = 4
_ADDRESS: Final = ("http://", "https://")
_ARCHITECTURES: Final = ("x86", "arm64", "powerpc", "riscv", "s390")
_NAME: Final = re.compile(r"[\w.:+-]+", re.ASCII)
_CORE_ROLES: Final = {"Core": "cpu_core", "Atom": "cpu_atom"}  # of hybrid CPUs
#: MetricConstraint of the files -> MetricDefinition.constraint
CONSTRAINTS: Final = {"NO_GROUP_EVENTS": "always", "NO_GROUP_EVENTS_NMI": "nmi", "NO_GROUP_EVENTS_SMT": "smt"}
_METRICS: Final = "_perf.json"
_STEPPING: Final = "(-[0-9A-F]+)?"
_CLASSES: Final = {"[:xdigit:]": "0-9A-Fa-f", "[:digit:]": "0-9", "[:alpha:]": "A-Za-z", "[:alnum:]": "0-9A-Za-z"}
_IN_KERNEL: Final = "tools/perf/pmu-events/arch"
_ORIGIN: Final = "Intel publishes its files in a public repository: git clone https://github.com/intel/perfmon"


def update(identity: str, source: str) -> tuple[str, int, int]:
    """Write the user's table of a CPU. Return its path, and the numbers of events and metrics."""
    if not identity:
        raise UsageError("--update-events: this CPU has no identity")
    rows = sorted(set(_rows(identity, source)))
    if not rows:
        raise UsageError(f"--update-events: {source} has nothing for {identity}")
    text = "".join(row + "\n" for row in rows)
    name = file_name(identity)
    with own(own_folder()) as folder:
        fd = folder.create(f".{name}.{os.getpid()}")
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(f".{name}.{os.getpid()}", name, src_dir_fd=folder.fd, dst_dir_fd=folder.fd)
    return os.path.join(own_folder(), name), text.count("\nE\t") + text.startswith("E"), text.count("\nF\t") + text.startswith("F")


def _rows(identity: str, source: str) -> Iterator[str]:
    files = _Address(source) if source.startswith(_ADDRESS) else _Folder(source)
    top, mapped = _mapfile(files)
    of_architecture = [entry for name in files.beside(top) for _, entry in _entries(name, files)]  # its CPUs share them
    standard = {entry["EventName"].lower(): entry for entry in of_architecture if "EventName" in entry}
    for path, pmu in _named_files(identity, mapped, top):
        for name in _files_of(path, files):
            for topic, fields in _entries(name, files):
                row = _row(topic, merge_standard(fields, standard), pmu)
                if row is not None:
                    yield row


def _entries(name: str, files: _Folder) -> list[EventEntry]:
    try:
        return entries_of(files.read(name), name)
    except OSError as error:
        if name.endswith(_METRICS):  # some CPUs have none in this notation
            return []
        raise UsageError(f"--update-events: cannot read {name} in {files.path}: {error}") from None


class _Folder:
    """Files below a folder."""

    def __init__(self, path: str) -> None:
        self.path = path

    def read(self, name: str) -> bytes:
        """Return a file's bytes. Raises OSError."""
        return read_regular(below(self.path, name), limit=_LARGEST_DOWNLOAD)

    def beside(self, top: str) -> list[str]:
        """Return the event files directly in a folder."""
        folder = below(self.path, top) if top else self.path
        return sorted(os.path.join(top, name) for name in os.listdir(folder) if name.endswith(".json"))

    def inside(self, name: str) -> list[str]:
        """Return the event files of a folder and its subfolders."""
        top = below(self.path, name)
        paths = [os.path.join(folder, file) for folder, _, files in os.walk(top) for file in files if file.endswith(".json")]
        return sorted(os.path.relpath(path, self.path) for path in paths)


class _Address(_Folder):
    """Files below a URL, whose folders cannot be listed."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._end = time.monotonic() + _ALL_SECONDS

    def read(self, name: str) -> bytes:
        """Return a file's bytes. Raises OSError, also if the server is slow."""
        from perfpy.untrusted.download import get  # most tables come from a folder

        end = min(time.monotonic() + _SECONDS, self._end)
        try:
            answer = get(f"{self.path.rstrip('/')}/{name.lstrip('/')}", end - time.monotonic())
        except ValueError as error:  # no URL, with this name
            raise OSError(str(error)) from None
        if answer is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        data = bytearray()  # a list of pieces takes 30 times the memory if the server sends single bytes
        with answer:
            while len(data) <= _LARGEST_DOWNLOAD and (piece := answer.read(_PIECE, end - time.monotonic())):
                data += piece
        size = len(data)
        if size > _LARGEST_DOWNLOAD or size < answer.size:
            raise OSError(
                f"{name} is larger than {_LARGEST_DOWNLOAD} bytes" if size > _LARGEST_DOWNLOAD else f"{name} ends after {size} bytes"
            )
        return bytes(data)

    def beside(self, top: str) -> list[str]:
        """Return no files: a URL cannot be listed."""
        return []

    def inside(self, name: str) -> list[str]:
        """Refuse to list a folder. Raises UsageError."""
        raise UsageError(f"--update-events: {self.path} refers to folders, which a URL cannot list; use a local copy of the files")


def _named_files(identity: str, mapped: list[list[str]], top: str) -> Iterator[tuple[str, str]]:
    """Yield (path, PMU of events without one) of the files or folders for a CPU."""
    for row in mapped:
        pattern, _, path, *rest = [field.strip() for field in row]
        if matches_identity(pattern, identity):
            pmu = _CORE_ROLES.get(rest[-1], "") if len(rest) > 1 else ""
            yield os.path.normpath(f"{top}/{path}").lstrip("/"), pmu
            if not path.endswith(".json"):
                return


def _files_of(path: str, files: _Folder) -> list[str]:
    if not path.endswith(".json"):
        return files.inside(path)
    folder, name = os.path.split(path)
    if os.path.basename(folder) == "metrics":  # perf's notation of these metrics is in a folder beside them
        return [f"{folder}/perf/{name.removesuffix('.json')}{_METRICS}"]
    return [path]


def _mapfile(files: _Folder) -> tuple[str, list[list[str]]]:
    """Return the mapfile's folder, and its rows that name files."""
    architecture = _architecture()
    for top in ("", f"arch/{architecture}", architecture, f"{_IN_KERNEL}/{architecture}"):
        try:
            text = files.read(os.path.join(top, "mapfile.csv"))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:  # the other places of a silent server would take a minute each
            raise UsageError(f"--update-events: cannot read mapfile.csv in {files.path}: {error.strerror or error}") from None
        rows = csv.reader(line for line in text.decode("utf-8", "replace").splitlines() if line and not line.startswith("#"))
        return top, [row for row in rows if len(row) >= 4 and row[0] != "Family-model"]
    raise UsageError(f"--update-events: no mapfile.csv in {files.path}, nor for {architecture} in arch/; {_ORIGIN}")


def _architecture() -> str:
    machine = os.uname().machine
    folder_of = {"x86_64": "x86", "i686": "x86", "aarch64": "arm64", "ppc64le": "powerpc", "ppc64": "powerpc", "s390x": "s390"}
    return folder_of.get(machine, next((name for name in _ARCHITECTURES if machine.startswith(name)), machine))


def matches_identity(pattern: str, identity: str) -> bool:
    """Whether a pattern of mapfile.csv means the CPU. Patterns that could take the matcher for ever mean none."""
    for name, members in _CLASSES.items():
        pattern = pattern.replace(name, members)
    repetitions = sum(map(pattern.count, "*+{"))
    if len(pattern) > _PATTERN_MOST or repetitions > _REPETITIONS_MOST or _REPEATED_GROUP.search(pattern):
        return False
    try:
        return re.fullmatch(pattern + _STEPPING, identity, re.IGNORECASE) is not None
    except re.error:
        return False


def metric_row(fields: dict[str, str], pmu: str = "") -> tuple[str, ...]:
    """Return the fields of a metric's row. Raises EventSyntaxError if its formula is none."""
    name, threshold = fields["MetricName"], fields.get("MetricThreshold", "")
    return (
        "F",
        name.lower(),
        compile_formula(fields["MetricExpr"]),
        fields.get("ScaleUnit", ""),
        fields.get("MetricGroup", ""),
        compile_formula(threshold) if threshold else "",
        fields["Unit"] if fields.get("Unit", "") in _CORE_ROLES.values() else pmu,
        CONSTRAINTS.get(fields.get("MetricConstraint", ""), ""),
        fields.get("MetricgroupNoGroup", ""),
        fields.get("DefaultMetricgroupName", ""),
        name if name != name.lower() else "",
    )


def _row(topic: str, fields: dict[str, str], pmu: str) -> str | None:
    """Return the row of an event or a metric; None for other entries, and for text that would not stay on one row."""
    row: tuple[str, ...]
    if _NAME.fullmatch(fields.get("EventName", "")):
        deprecated = "d" if fields.get("Deprecated", "0") != "0" else ""
        row = (
            "E",
            fields["EventName"].lower(),
            unit_of(fields) or pmu,
            event_terms(fields),
            fields.get("ScaleUnit", ""),
            topic,
            deprecated,
        )
    elif _NAME.fullmatch(fields.get("MetricName", "")) and fields.get("MetricExpr"):
        try:
            row = metric_row(fields, pmu)
        except EventSyntaxError:
            return None
    else:
        return None
    return "\t".join(row).rstrip("\t") if all(map(str.isprintable, row)) else None
