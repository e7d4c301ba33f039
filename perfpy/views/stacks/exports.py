"""Stacks -> the formats of other viewers.

What enters: perfpy.analysis.stacks.stacks.Stacks, one an event. What leaves: text or
bytes to write to a file: folded lines (flamegraph.pl and its kin),
speedscope's JSON (https://www.speedscope.app/file-format-schema.json), the
Gecko profile format, version 24, which Firefox Profiler opens, and pprof's
gzipped protocol buffer (profile.proto, message perftools.profiles.Profile).
"""

from __future__ import annotations

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

    from perfpy.analysis.stacks.code_sites import Source


def folded(part: Stacks) -> Iterator[str]:
    """One line a distinct stack: `comm;outer;...;inner weight`, in order of the text.

    Semicolons in names become colons, line breaks ^J: the format has no way to quote them. Equal lines are added up.
    """
    weights: dict[str, int] = {}
    names = [one_line(function.name.replace(";", ":")) for function in part.functions]
    comms = [one_line(comm.replace(";", ":")) for comm in part.comms]
    paths = {chain: ";".join(names[f] for f in part.chain_of(chain)[::-1].tolist()) for chain in distinct(part.chain).tolist()}
    for chain, comm, weight in zip(part.chain.tolist(), part.comm.tolist(), part.weight.tolist(), strict=True):
        path = paths[chain]
        line = f"{comms[comm]};{path}" if path else comms[comm]
        weights[line] = weights.get(line, 0) + weight
    return (f"{line} {weights[line]}" for line in sorted(weights))


def speedscope(parts: Sequence[Stacks], name: str) -> str:
    """speedscope's JSON: a sampled profile an event, each stack under its command; functions with the lines where they begin."""
    frames: dict[Function, int] = {}
    sources: dict[Function, Source] = {}
    profiles = []
    for part in parts:
        begins = part.sites.begins if part.sites else ()
        sources |= {function: begin for function, begin in zip(part.functions, begins, strict=False) if begin}
        function_ids = [frames.setdefault(function, len(frames)) for function in part.functions]
        comm_ids = [frames.setdefault(Function(comm, ""), len(frames)) for comm in part.comms]
        rows = zip(part.comm.tolist(), part.chain.tolist(), strict=True)
        profiles.append(
            {
                "type": "sampled",
                "name": part.event,
                "unit": "nanoseconds" if part.in_nanoseconds else "none",
                "startValue": 0,
                "endValue": part.total,
                "samples": [[comm_ids[comm], *(function_ids[f] for f in part.chain_of(chain)[::-1].tolist())] for comm, chain in rows],
                "weights": part.weight.tolist(),
            }
        )
    shared = {"frames": [_speedscope_frame(function, sources.get(function)) for function in frames]}
    schema = "https://www.speedscope.app/file-format-schema.json"
    return json.dumps({"$schema": schema, "name": name, "exporter": "perfpy", "shared": shared, "profiles": profiles})


def _speedscope_frame(function: Function, begins: Source | None) -> dict[str, Any]:
    file = source_file(function.name) or (begins.path if begins else function.dso)
    known = {"file": file, "line": begins.line if begins else 0}
    return {"name": readable(function.name), **{key: value for key, value in known.items() if value}}


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
