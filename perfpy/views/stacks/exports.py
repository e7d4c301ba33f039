"""Stacks -> the formats of other viewers.

What enters: perfpy.analysis.stacks.stacks.Stacks, one an event. What leaves: text or
bytes to write to a file: folded lines (flamegraph.pl and its kin),
speedscope's JSON (https://www.speedscope.app/file-format-schema.json), the
Gecko profile format, version 24, which Firefox Profiler opens, and pprof's
gzipped protocol buffer (profile.proto, message perftools.profiles.Profile).
"""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.abi.columns import distinct
from perfpy.analysis.stacks.stacks import Function, Stacks, TimedSamples, prefix_table
from perfpy.untrusted.text import one_line
from perfpy.views.readable import readable, source_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

#: events whose periods are nanoseconds
_CLOCKS: Final = ("cpu-clock", "task-clock")


def _counts_time(event: str) -> bool:
    return event.startswith(_CLOCKS)


def folded(parts: Sequence[Stacks]) -> Iterator[str]:
    """One line a distinct stack: `comm;outer;...;inner weight`, in order of the text.

    Semicolons in names become colons, line breaks ^J: the format has no way to quote them.
    Equal lines, of several events as well, are added up.
    """
    weights: dict[str, int] = {}
    for part in parts:
        names = [one_line(function.name.replace(";", ":")) for function in part.functions]
        comms = [one_line(comm.replace(";", ":")) for comm in part.comms]
        paths = {chain: ";".join(names[f] for f in part.chain_of(chain)[::-1].tolist()) for chain in distinct(part.chain).tolist()}
        for chain, comm, weight in zip(part.chain.tolist(), part.comm.tolist(), part.weight.tolist(), strict=True):
            path = paths[chain]
            line = f"{comms[comm]};{path}" if path else comms[comm]
            weights[line] = weights.get(line, 0) + weight
    return (f"{line} {weights[line]}" for line in sorted(weights))


def speedscope(parts: Sequence[Stacks], name: str) -> str:
    """speedscope's JSON: a sampled profile an event, each stack under its command."""
    frames: dict[Function, int] = {}
    profiles = []
    for part in parts:
        function_ids = [frames.setdefault(function, len(frames)) for function in part.functions]
        comm_ids = [frames.setdefault(Function(comm, ""), len(frames)) for comm in part.comms]
        rows = zip(part.comm.tolist(), part.chain.tolist(), strict=True)
        profiles.append(
            {
                "type": "sampled",
                "name": part.event,
                "unit": "nanoseconds" if _counts_time(part.event) else "none",
                "startValue": 0,
                "endValue": part.total,
                "samples": [[comm_ids[comm], *(function_ids[f] for f in part.chain_of(chain)[::-1].tolist())] for comm, chain in rows],
                "weights": part.weight.tolist(),
            }
        )
    files = [source_file(f.name) or f.dso for f in frames]
    shared = {"frames": [{"name": readable(f.name), **({"file": file} if file else {})} for f, file in zip(frames, files, strict=True)]}
    schema = "https://www.speedscope.app/file-format-schema.json"
    return json.dumps({"$schema": schema, "name": name, "exporter": "perfpy", "shared": shared, "profiles": profiles})


_GECKO_CATEGORIES: Final = (("User", "yellow"), ("Kernel", "orange"))
_GECKO_SCHEMAS: Final = {
    "markers": ("name", "startTime", "endTime", "phase", "category", "data"),
    "samples": ("stack", "time", "responsiveness"),
    "frameTable": (
        "location",
        "relevantForJS",
        "innerWindowID",
        "implementation",
        "optimizations",
        "line",
        "column",
        "category",
        "subcategory",
    ),
    "stackTable": ("prefix", "frame"),
}


def firefox(parts: Sequence[Stacks], product: str, *, started: float = 0.0) -> str:
    """The Gecko profile JSON: a track a thread; of several events, one for each event of a thread, which is named.

    product: what the viewer shows as the application; started: when the
    recording began, in seconds since 1970 (the viewer's zero).
    Raises ValueError when samples have no times.
    """
    threads: list[dict[str, Any]] = []
    timed = [_timed(part) for part in parts]
    zero = min((float(samples.time.min()) for samples in timed if len(samples.time)), default=0.0)
    for part, samples in zip(parts, timed, strict=True):
        order = np.lexsort((samples.time, samples.tid, samples.pid))
        pairs = np.stack([samples.pid[order], samples.tid[order]], axis=1)
        cuts = np.flatnonzero((pairs[1:] != pairs[:-1]).any(axis=1)) + 1
        suffix = f" ({part.event})" if len(parts) > 1 else ""
        threads += [_gecko_thread(part, samples, rows, zero, suffix) for rows in np.split(order, cuts) if len(rows)]
    meta = {
        "version": 24,
        "presymbolicated": True,
        "product": product,
        "interval": _median_interval(timed[0]) / 1e6 if timed else 1.0,
        "startTime": started * 1e3,
        "shutdownTime": None,
        "processType": 0,
        "stackwalk": 1,
        "debug": 0,
        "gcpoison": 0,
        "asyncstack": 1,
        "categories": [{"name": name, "color": color, "subcategories": ["Other"]} for name, color in _GECKO_CATEGORIES],
        "markerSchema": [],
    }
    return json.dumps({"meta": meta, "libs": [], "threads": threads, "processes": [], "pausedRanges": []})


def _timed(part: Stacks) -> TimedSamples:
    if part.timed is None:
        raise ValueError("Firefox Profiler needs the samples' times")
    return part.timed


def _median_interval(timed: TimedSamples) -> float:
    """The usual distance of two samples in nanoseconds; 1 ms where there are too few."""
    if len(timed.time) < 2:
        return 1e6
    return max(1.0, float(np.median(np.diff(np.sort(timed.time)))))


def _gecko_thread(stacks: Stacks, timed: TimedSamples, rows: NDArray[np.int64], zero: float, suffix: str) -> dict[str, Any]:
    chains, chain = np.unique(timed.chain[rows], return_inverse=True)
    prefix, function, leaf = prefix_table(stacks, chains)
    used, frame = np.unique(function, return_inverse=True)
    functions = [stacks.functions[f] for f in used.tolist()]
    strings = [_gecko_name(f) for f in functions]
    frames = [[i, False, 0, None, None, None, None, int(f.kernel), None] for i, f in enumerate(functions)]
    table = [[p if p >= 0 else None, f] for p, f in zip(prefix.tolist(), frame.tolist(), strict=True)]
    times = ((timed.time[rows] - zero) / 1e6).tolist()
    samples = [[s if s >= 0 else None, t, 0] for s, t in zip(leaf[chain].tolist(), times, strict=True)]
    pid, tid = int(timed.pid[rows[0]]), int(timed.tid[rows[0]])
    data = {"markers": [], "samples": samples, "frameTable": frames, "stackTable": table}
    return {
        "name": _comm_of(stacks, timed, rows) + suffix,
        "processType": "default",
        "pid": pid,
        "tid": tid,
        "registerTime": times[0],
        "unregisterTime": None,
        "stringTable": strings,
        **{key: {"schema": {name: i for i, name in enumerate(_GECKO_SCHEMAS[key])}, "data": value} for key, value in data.items()},
    }


def _gecko_name(function: Function) -> str:
    """`name (in library)`, or where the runtime told it `name (file)`."""
    if source_file(function.name):
        return readable(function.name)
    return f"{function.name} (in {function.dso})" if function.dso else function.name


def _comm_of(stacks: Stacks, timed: TimedSamples, rows: NDArray[np.int64]) -> str:
    """The command that a thread's last sample ran under (it may have changed its name)."""
    return stacks.comms[int(timed.comm[rows[-1]])]


def pprof(parts: Sequence[Stacks], *, time_nanos: int = 0, duration_nanos: int = 0) -> bytes:
    """pprof's gzipped profile: two values an event (samples, and the sum of periods), the command as label `comm`."""
    return gzip.compress(_PprofWriter(parts).profile(time_nanos, duration_nanos), 6, mtime=0)


class _PprofWriter:
    """Builds the Profile message; field numbers are profile.proto's."""

    def __init__(self, parts: Sequence[Stacks]) -> None:
        self._parts = parts
        self._strings: dict[str, int] = {"": 0}
        self._functions: dict[Function, int] = {}
        self._mappings: dict[str, int] = {}

    def profile(self, time_nanos: int, duration_nanos: int) -> bytes:
        out = [_message(1, self._value_type(*kind)) for kind in self._kinds()]
        out += [_message(2, sample) for sample in self._samples()]
        locations = [self._location(i, function) for function, i in self._functions.items()]
        functions = [self._function(i, function) for function, i in self._functions.items()]
        out += [_message(3, self._mapping(i, dso)) for dso, i in self._mappings.items()]
        out += [_message(4, location) for location in locations]
        out += [_message(5, function) for function in functions]
        period_type = self._value_type(*self._kinds()[-1])
        out += [_message(6, text.encode("utf-8", "replace")) for text in self._strings]
        out += [_number(9, time_nanos), _number(10, duration_nanos), _message(11, period_type), _number(12, 1)]
        return b"".join(out)

    def _kinds(self) -> list[tuple[str, str]]:
        kinds = []
        for part in self._parts:
            kinds += [(f"{part.event} samples", "count"), (part.event, "nanoseconds" if _counts_time(part.event) else "count")]
        return kinds

    def _string(self, text: str) -> int:
        return self._strings.setdefault(text, len(self._strings))

    def _value_type(self, kind: str, unit: str) -> bytes:
        return _number(1, self._string(kind)) + _number(2, self._string(unit))

    def _samples(self) -> Iterator[bytes]:
        label = self._string("comm")
        for position, part in enumerate(self._parts):
            ids = np.array([self._functions.setdefault(f, len(self._functions) + 1) for f in part.functions], np.int64)
            chains = {c: _packed(1, ids[part.chain_of(c)].tolist()) for c in distinct(part.chain).tolist()}
            comms = [_message(3, _number(1, label) + _number(2, self._string(comm))) for comm in part.comms]
            rows = zip(part.chain.tolist(), part.comm.tolist(), part.count.tolist(), part.weight.tolist(), strict=True)
            for chain, comm, count, weight in rows:
                values = [0] * (2 * len(self._parts))
                values[2 * position : 2 * position + 2] = count, weight
                yield chains[chain] + _packed(2, values) + comms[comm]

    def _location(self, ident: int, function: Function) -> bytes:
        mapping = self._mappings.setdefault(function.dso, len(self._mappings) + 1) if function.dso else 0
        return _number(1, ident) + _number(2, mapping) + _message(4, _number(1, ident))

    def _function(self, ident: int, function: Function) -> bytes:
        name, raw = self._string(readable(function.name)), self._string(function.name)
        file = self._string(source_file(function.name) or function.dso)
        return _number(1, ident) + _number(2, name) + _number(3, raw) + _number(4, file)

    def _mapping(self, ident: int, dso: str) -> bytes:
        return _number(1, ident) + _number(5, self._string(dso)) + _number(7, 1)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(field: int, value: int) -> bytes:
    """A varint field; 0 is left out, as proto3 has it."""
    return _varint(field << 3) + _varint(value) if value else b""


def _message(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _packed(field: int, values: Sequence[int]) -> bytes:
    return _message(field, b"".join(map(_varint, values)))
