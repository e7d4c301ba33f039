"""Stacks as a profile for the Firefox Profiler, in its processed format, version 60.

Each thread and event has a track. Categories tell where code is from. Tracepoints are markers with their fields; forks, exits, switches and
page faults are markers with a text. Format:
https://github.com/firefox-devtools/profiler/blob/main/src/types/profile.ts; newer viewers convert older versions.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfpy.abi.columns import pieces
from perfpy.views.readable import readable, source_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfpy.analysis.code_sites import FileMapping, Source
    from perfpy.analysis.stacks import Function, Stacks, TimedSamples
    from perfpy.views.page.marks import Mark
    from perfpy.views.tracepoints.event_text import PayloadTexts


_VERSION: Final = 60
_GECKO_VERSION: Final = 31
_MS: Final = 1e6  # ns
_INSTANT: Final = 0
_NO_PAYLOAD: Final = -1
_TEXT: Final = "text"  # the field of marks
#: the panels in which the viewer shows tracepoint markers
_SHOWN_IN: Final = ("marker-chart", "marker-table", "timeline-overview")


class Heading(NamedTuple):
    """The profile's metadata.

    Attributes:
        started: time of the first sample, seconds since 1970
        cpu, cpus: the model and the number of CPUs
    """

    command: str = ""
    started: float = 0.0
    system: str = ""
    cpu: str = ""
    cpus: int = 0


def firefox(parts: Sequence[Stacks], recorded: Heading, words: PayloadTexts | None = None, marks: Sequence[Mark] = ()) -> str:
    """Return the profile as JSON. Raises ValueError if samples have no times.

    Args:
        parts: the stacks of each event.
        recorded: the profile's metadata.
        words: formats the data of tracepoints.
        marks: moments of threads, in order of time; those of threads without samples are left out.
    """
    return json.dumps(_Profile(parts, words).content(recorded, marks), separators=(",", ":"))


class _Profile:
    """A builder of the profile's tables."""

    def __init__(self, parts: Sequence[Stacks], words: PayloadTexts | None) -> None:
        self._parts = parts
        self._words = words
        self._tables = FrameTables()
        self._threads: dict[tuple[int, int, str], dict[str, Any]] = {}
        self._schemas: dict[str, list[str]] = {}
        self._timed = [_timed_samples(part) for part in parts]
        began = (_start_times(part, timed) for part, timed in zip(parts, self._timed, strict=True))
        self._zero = min((float(times.min()) for times in began if len(times)), default=0.0)
        self._interval = _median_interval(self._timed[0]) if parts else _MS
        last = max((float(timed.time.max()) for timed in self._timed if len(timed.time)), default=0.0)
        self._end = last + self._interval  # includes the last sample
        self._only_tracepoints = all(part.tracepoint for part in parts)
        self._tracks = [part.event for part in parts if self._only_tracepoints or not part.tracepoint]

    def content(self, recorded: Heading, marks: Sequence[Mark]) -> dict[str, Any]:
        """Return the whole profile."""
        for part, timed in zip(self._parts, self._timed, strict=True):
            stacks = self._tables.of(part).stack_of_chains(timed.chain)
            if not part.tracepoint or self._only_tracepoints:
                self._add_samples(part, timed, stacks)
            if part.tracepoint:
                self._add_markers(part, timed, stacks)
        self._add_marks(marks)
        threads = sorted(self._threads.values(), key=lambda thread: (int(thread["pid"]), not thread["isMainThread"]))
        return {
            "meta": self._meta(recorded),
            "libs": self._tables.libs,
            "threads": threads,
            "shared": self._tables.content(),
            "pages": [],
            "counters": [],
        }

    def _meta(self, recorded: Heading) -> dict[str, Any]:
        return {
            "version": _GECKO_VERSION,
            "preprocessedProfileVersion": _VERSION,
            "importedFrom": "perfpy",
            "product": recorded.command,
            "arguments": recorded.command,
            "oscpu": recorded.system,
            "CPUName": recorded.cpu,
            **({"logicalCPUs": recorded.cpus} if recorded.cpus else {}),
            "interval": self._interval / _MS,
            "startTime": recorded.started * 1e3,
            "profilingStartTime": 0,
            "profilingEndTime": (self._end - self._zero) / _MS,
            "processType": 0,
            "stackwalk": 1,
            "debug": False,
            "symbolicated": True,
            "usesOnlyOneStackType": True,
            "sourceCodeIsNotOnSearchfox": True,
            "sampleUnits": {"time": "ms", "eventDelay": "ms", "threadCPUDelta": "ns"},
            "categories": [{"name": name, "color": color, "subcategories": ["Other"]} for name, color in CATEGORIES],
            "markerSchema": [_schema(name, fields) for name, fields in self._schemas.items()],
        }

    def _add_samples(self, part: Stacks, timed: TimedSamples, stacks: NDArray[np.int64]) -> None:
        """Add a track for each thread."""
        began = _start_times(part, timed)
        order = np.lexsort((began, timed.tid, timed.pid))
        for rows in _runs(order, timed):
            thread = self._thread(part, timed, rows, part.event if len(self._tracks) > 1 else "")
            thread["samples"] = {
                "stack": [stack if stack >= 0 else None for stack in stacks[rows].tolist()],
                "time": self._milliseconds(began[rows]),
                "weight": (timed.weight[rows] / _MS).tolist() if part.in_nanoseconds else None,
                "weightType": "tracing-ms" if part.in_nanoseconds else "samples",
                **({"threadCPUDelta": _cpu_times(part, timed, rows)} if part.in_nanoseconds else {}),
                "length": len(rows),
            }

    def _add_markers(self, part: Stacks, timed: TimedSamples, stacks: NDArray[np.int64]) -> None:
        """Add a marker for each sample."""
        name, track = self._tables.string(part.event), self._tracks[0] if len(self._tracks) > 1 else ""
        fields_of = self._payload_fields(part, timed)
        for rows in _runs(np.lexsort((timed.time, timed.tid, timed.pid)), timed):
            markers = self._thread(part, timed, rows, track)["markers"]
            times = self._milliseconds(timed.time[rows])
            payloads = [_NO_PAYLOAD] * len(rows) if timed.payload is None else timed.payload[rows].tolist()
            causes = zip(stacks[rows].tolist(), times, payloads, strict=True)
            data = [{**fields_of.get(payload, {}), "type": part.event, **_cause(stack, time)} for stack, time, payload in causes]
            _append_markers(markers, name, times, data)

    def _add_marks(self, marks: Sequence[Mark]) -> None:
        """Add a marker for each mark to the first track of its thread."""
        first = self._tracks[0] if len(self._tracks) > 1 else ""
        for mark in marks:
            thread = self._threads.get((mark.pid, mark.tid, first))
            if thread is not None and mark.time >= self._zero:
                self._schemas.setdefault(mark.kind, [_TEXT])
                time = (mark.time - self._zero) / _MS
                data = {"type": mark.kind, f"_{_TEXT}": mark.text}
                _append_markers(thread["markers"], self._tables.string(mark.kind), [time], [data])

    def _payload_fields(self, part: Stacks, timed: TimedSamples) -> dict[int, dict[str, str]]:
        """Return the fields of each distinct payload, and collect their names for the schema."""
        names = self._schemas.setdefault(part.event, [])
        if self._words is None or timed.payload is None:
            return {}
        fields_of = {}
        for payload in np.unique(timed.payload).tolist():
            fields = dict(self._words.fields(part.payloads[payload]))
            names += [name for name in fields if name not in names]
            fields_of[payload] = {f"_{name}": text for name, text in fields.items()}
        return fields_of

    def _milliseconds(self, times: NDArray[np.float64] | NDArray[np.uint64]) -> list[float]:
        milliseconds: list[float] = ((times - self._zero) / _MS).tolist()
        return milliseconds

    def _thread(self, part: Stacks, timed: TimedSamples, rows: NDArray[np.int64], event: str) -> dict[str, Any]:
        """Return the track of a thread and an event; `event` is "" if there is only one."""
        pid, tid = int(timed.pid[rows[0]]), int(timed.tid[rows[0]])
        index = self._threads.get((pid, tid, event))
        if index is not None:
            return index
        comm = part.comms[int(timed.comm[rows[-1]])]  # the last comm, because the thread may have changed its name
        first = event in ("", self._tracks[0])
        return self._threads.setdefault(
            (pid, tid, event),
            {
                "processType": "default",
                "processStartupTime": 0,
                "processShutdownTime": None,
                "registerTime": 0,
                "unregisterTime": None,
                "pausedRanges": [],
                "showMarkersInTimeline": True,
                "name": f"{comm} ({event})" if event else comm,
                "isMainThread": pid == tid and first,
                "processName": comm,
                "pid": str(pid),
                "tid": tid if first else f"{tid} {event}",
                "samples": {"stack": [], "time": [], "weight": None, "weightType": "samples", "length": 0},
                "markers": {"data": [], "name": [], "startTime": [], "endTime": [], "phase": [], "category": [], "length": 0},
            },
        )


def _append_markers(markers: dict[str, Any], name: int, times: Sequence[float], data: Sequence[dict[str, Any]]) -> None:
    """Append instant markers of one name to a thread's table."""
    markers["data"] += data
    markers["startTime"] += times
    markers["endTime"] += [None] * len(times)
    for column, value in (("name", name), ("phase", _INSTANT), ("category", 0)):
        markers[column] += [value] * len(times)
    markers["length"] += len(times)


def _schema(event: str, fields: Sequence[str]) -> dict[str, Any]:
    """Return the schema of markers of one name."""
    schema_fields = [{"key": f"_{field}", "label": field, "format": "string"} for field in fields]
    label = " ".join(f"{'' if field == _TEXT else f'{field}='}{{marker.data._{field}}}" for field in fields)
    return {
        "name": event,
        "tooltipLabel": event,
        "tableLabel": label,
        "chartLabel": event,
        "display": list(_SHOWN_IN),
        "fields": schema_fields,
    }


def _timed_samples(part: Stacks) -> TimedSamples:
    if part.timed is None:
        raise ValueError("Firefox Profiler needs the samples' times")
    return part.timed


def _start_times(part: Stacks, timed: TimedSamples) -> NDArray[np.float64]:
    """Return the start of each sample's time: a wait begins its duration before its sample."""
    times = timed.time.astype(np.float64)
    return times - timed.weight if part.off_cpu else times


def _cpu_times(part: Stacks, timed: TimedSamples, rows: NDArray[np.int64]) -> list[int]:
    """Return the time on the CPU before each sample, in ns."""
    return [0] * len(rows) if part.off_cpu else timed.weight[rows].tolist()


def _cause(stack: int, time: float) -> dict[str, Any]:
    """Return a marker's stack."""
    return {"cause": {"stack": stack, "time": time}} if stack >= 0 else {}


def _runs(order: NDArray[np.int64], timed: TimedSamples) -> list[NDArray[np.int64]]:
    """Return the samples of each thread, in order."""
    pairs = np.stack([timed.pid[order], timed.tid[order]], axis=1)
    cuts = np.flatnonzero((pairs[1:] != pairs[:-1]).any(axis=1)) + 1
    return [rows for rows in pieces(order, cuts) if len(rows)]


def _median_interval(timed: TimedSamples) -> float:
    """Return the median distance of samples in nanoseconds; 1 ms if there are too few."""
    if len(timed.time) < 2:
        return _MS
    return max(1.0, float(np.median(np.diff(np.sort(timed.time)))))


# The tables that all threads of a Firefox profile share: strings, libraries, functions, frames, stacks.
#
# Stacks are a tree: each has its parent and its frame. Calls inlined at an address are frames of that address, the outermost with depth
# 0.


#: categories of code, and their colours; grey is the viewer's default
CATEGORIES: Final = (
    ("Other", "grey"),
    ("Program", "yellow"),
    ("Libraries", "green"),
    ("Kernel", "orange"),
    ("Made at run time", "purple"),
    ("Off the CPU", "blue"),
)
_OTHER, _PROGRAM, _LIBRARY, _KERNEL, _MADE, _WAITING = range(len(CATEGORIES))
_NONE: Final = -1
_LIBRARY_RESOURCE: Final = 1


class FrameTables:
    """The tables; the first use of a value adds a row."""

    def __init__(self) -> None:
        self.libs: list[dict[str, Any]] = []
        self._strings: dict[str, int] = {}
        self._sources: dict[str, int] = {}
        self._resources: dict[tuple[str, int], int] = {}
        self._functions: dict[tuple[Any, ...], int] = {}
        self._symbols: dict[tuple[int, int, int, int], int] = {}
        self._frames: dict[tuple[Any, ...], int] = {}
        self._stacks: dict[tuple[int, int], int] = {}
        self._lib_numbers: dict[tuple[str, str], int] = {}

    def of(self, part: Stacks) -> StackRows:
        """Return a builder of rows for an event's stacks."""
        return StackRows(self, part)

    def string(self, text: str) -> int:
        """Return the index of a text."""
        return self._strings.setdefault(text, len(self._strings))

    def lib(self, path: str, build_id: str) -> int:
        """Return the index of a code file."""
        number = self._lib_numbers.setdefault((path, build_id), len(self.libs))
        if number == len(self.libs):
            name = path.rpartition("/")[2]
            self.libs.append(
                {
                    "arch": "",
                    "name": name,
                    "path": path,
                    "debugName": name,
                    "debugPath": path,
                    "breakpadId": _breakpad_id(build_id),
                    "codeId": build_id or None,
                }
            )
        return number

    def resource(self, name: str, lib: int) -> int:
        """Return the index of a group of functions: a code file."""
        return self._resources.setdefault((name, lib), len(self._resources)) if name else _NONE

    def function(self, function: Function, lib: int, begins: Source | None) -> int:
        """Return the index of a function."""
        path = source_file(function.name) or (begins.path if begins else "")
        source = self._sources.setdefault(path, len(self._sources)) if path else None
        name, resource = self.string(readable(function.name)), self.resource(function.dso, lib)
        line = begins.line or None if begins else None
        return self._functions.setdefault((name, resource, source, line), len(self._functions))

    def symbol(self, lib: int, address: int, name: str, size: int) -> int:
        """Return the index of a symbol of a file."""
        return self._symbols.setdefault((lib, address, self.string(name), size), len(self._symbols))

    def frame(self, function: int, category: int, address: int, depth: int, symbol: int | None, line: int | None) -> int:
        """Return the index of a frame."""
        return self._frames.setdefault((function, category, address, depth, symbol, line), len(self._frames))

    def stack(self, below: int, frame: int) -> int:
        """Return the index of a stack: a frame on the stack `below`, or on none (-1)."""
        return self._stacks.setdefault((below, frame), len(self._stacks))

    def content(self) -> dict[str, Any]:
        """Return all tables, column by column."""
        below, frame = _columns(self._stacks, 2)
        lib, address, symbol, size = _columns(self._symbols, 4)
        tables: dict[str, Any] = {
            "stackTable": {"frame": frame, "prefix": [one if one >= 0 else None for one in below]},
            "frameTable": self._frame_table(),
            "funcTable": self._function_table(),
            "resourceTable": self._resource_table(),
            "nativeSymbols": {"libIndex": lib, "address": address, "name": symbol, "functionSize": size},
            "sources": {"uuid": [None] * len(self._sources), "filename": [self.string(path) for path in self._sources]},
        }
        for table in tables.values():
            table["length"] = len(next(iter(table.values())))
        return {**tables, "stringArray": list(self._strings)}

    def _frame_table(self) -> dict[str, list[Any]]:
        function, category, address, depth, symbol, line = _columns(self._frames, 6)
        none = [None] * len(function)
        return {
            "address": address,
            "inlineDepth": depth,
            "category": category,
            "subcategory": [0] * len(function),
            "func": function,
            "nativeSymbol": symbol,
            "innerWindowID": none,
            "line": line,
            "column": none,
        }

    def _function_table(self) -> dict[str, list[Any]]:
        name, resource, source, begins = _columns(self._functions, 4)
        none, no = [None] * len(name), [False] * len(name)
        return {
            "isJS": no,
            "relevantForJS": no,
            "name": name,
            "resource": resource,
            "source": source,
            "lineNumber": begins,
            "columnNumber": none,
        }

    def _resource_table(self) -> dict[str, list[Any]]:
        name, lib = _columns(self._resources, 2)
        return {
            "lib": [one if one >= 0 else None for one in lib],
            "name": [self.string(one) for one in name],
            "host": [None] * len(name),
            "type": [_LIBRARY_RESOURCE] * len(name),
        }


def _columns(rows: dict[tuple[Any, ...], int], width: int) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(width)]


class StackRows:
    """A builder of the rows of one event's callchains."""

    def __init__(self, tables: FrameTables, part: Stacks) -> None:
        self._tables = tables
        self._part = part
        self._frames: dict[tuple[int, int, int, int], int] = {}

    def stack_of_chains(self, chains: NDArray[Any]) -> NDArray[np.int64]:
        """Return the stack of each callchain; -1 for empty ones."""
        distinct, which = np.unique(chains, return_inverse=True)
        stacks = np.array([self._stack(chain) for chain in distinct.tolist()], np.int64)
        return stacks[which.ravel()] if len(distinct) else np.zeros(0, np.int64)

    def _stack(self, chain: int) -> int:
        below = _NONE
        for frame in reversed(self._frames_of(chain)):
            below = self._tables.stack(below, frame)
        return below

    def _frames_of(self, chain: int) -> list[int]:
        """Return the frames of a callchain, innermost first."""
        functions, sites = self._part.chain_of(chain).tolist(), self._part.sites
        if sites is None:
            return [self._frame(function, _NONE, 0, function) for function in functions]
        numbers = self._part.sites_of(chain).tolist()
        frames: list[int] = []
        depth, outer = 0, _NONE
        for function, number in zip(reversed(functions), reversed(numbers), strict=True):
            depth = depth + 1 if sites.inlined[number] and frames else 0
            outer = outer if depth else function
            frames.append(self._frame(function, number, depth, outer))
        return frames[::-1]

    def _frame(self, number: int, site: int, depth: int, outer: int) -> int:
        index = self._frames.get((number, site, depth, outer))
        if index is None:
            index = self._frames[number, site, depth, outer] = self._new_frame(number, site, depth, outer)
        return index

    def _new_frame(self, number: int, site: int, depth: int, outer: int) -> int:
        function, sites, tables = self._part.functions[number], self._part.sites, self._tables
        if sites is None or site < 0 or sites.mapping[site] < 0:
            return tables.frame(tables.function(function, _NONE, None), self._category(function, None), _NONE, depth, None, None)
        mapping = sites.mappings[int(sites.mapping[site])]
        lib = tables.lib(mapping.path, mapping.build_id)
        begins = sites.begins[number] if number < len(sites.begins) else None
        source, in_file = sites.source_of(site), mapping.offset - mapping.start
        symbol, size = None, int(sites.function_size[site])
        if size:
            symbol = tables.symbol(lib, int(sites.function_address[site]) + in_file, readable(self._part.functions[outer].name), size)
        line = source.line or None if source else None
        address = max(int(sites.address[site]) + in_file, 0)
        return tables.frame(tables.function(function, lib, begins), self._category(function, mapping), address, depth, symbol, line)

    def _category(self, function: Function, mapping: FileMapping | None) -> int:
        if function.kernel:
            return _KERNEL
        if source_file(function.name) or (mapping and mapping.is_runtime_code):
            return _MADE
        if not function.dso:
            return _WAITING if self._part.off_cpu or (function.name.startswith("[") and function.name != "[unknown]") else _OTHER
        return _LIBRARY if ".so" in function.dso or function.dso.startswith("[") else _PROGRAM


def _breakpad_id(build_id: str) -> str:
    """Return a build-id as the viewer's symbol servers write it: the first 16 bytes as a GUID, its first three parts little-endian."""
    raw = build_id[:32].ljust(32, "0")
    parts = (raw[0:8], raw[8:12], raw[12:16])
    turned = ("".join(reversed([part[i : i + 2] for i in range(0, len(part), 2)])) for part in parts)
    return f"{''.join(turned)}{raw[16:]}0".upper() if build_id else ""
