"""Stacks as a profile for the Firefox Profiler, in its processed format, version 60.

Each thread and event has a track. Categories tell where code is from. Tracepoints are markers with their fields; forks, exits, switches and
page faults are markers with a text. Format:
https://github.com/firefox-devtools/profiler/blob/main/src/types/profile.ts; newer viewers convert older versions.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfpy.views.stacks.firefox_tables import CATEGORIES, FrameTables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfpy.analysis.stacks.stacks import Stacks, TimedSamples
    from perfpy.views.page.marks import Mark
    from perfpy.views.tracepoints.payloads import PayloadTexts

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
    return [rows for rows in np.split(order, cuts) if len(rows)]


def _median_interval(timed: TimedSamples) -> float:
    """Return the median distance of samples in nanoseconds; 1 ms if there are too few."""
    if len(timed.time) < 2:
        return _MS
    return max(1.0, float(np.median(np.diff(np.sort(timed.time)))))
