"""Stacks as folded lines (flamegraph.pl) and as speedscope's JSON (https://www.speedscope.app/file-format-schema.json)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from perfpy.abi.columns import distinct
from perfpy.analysis.stacks.stacks import Function, Stacks
from perfpy.untrusted.text import one_line
from perfpy.views.readable import readable, source_file
from perfpy.views.stacks.time_order import threads_in_order

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perfpy.analysis.stacks.code_sites import Source
    from perfpy.views.stacks.time_order import ThreadOrder


def folded_lines(part: Stacks) -> Iterator[str]:
    """Yield a line for each stack, `comm;outer;...;inner weight`, in order of the text.

    Semicolons in names become colons and line breaks ^J, because the format has no escapes. Equal lines are added up.
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
    """Return speedscope's JSON, with the command as root and the first line of functions.

    For each event: an evented profile of each thread if the single samples are known and few, then a sampled profile of all stacks.
    """
    frames: dict[Function, int] = {}
    sources: dict[Function, Source] = {}
    profiles: list[dict[str, Any]] = []
    for part in parts:
        begins = part.sites.begins if part.sites else ()
        sources |= {function: begin for function, begin in zip(part.functions, begins, strict=False) if begin}
        function_ids = [frames.setdefault(function, len(frames)) for function in part.functions]
        comm_ids = [frames.setdefault(Function(comm, ""), len(frames)) for comm in part.comms]
        rows = zip(part.comm.tolist(), part.chain.tolist(), strict=True)
        profiles += [_evented(part.event, thread) for thread in threads_in_order(part, function_ids, comm_ids)]
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


def _evented(event: str, thread: ThreadOrder) -> dict[str, Any]:
    """Return speedscope's profile of one thread in order of time."""
    events = [{"type": "O" if edge.is_begin else "C", "frame": edge.frame, "at": edge.time} for edge in thread.edges]
    times = {"startValue": thread.first, "endValue": thread.last}
    return {"type": "evented", "name": f"{thread.name}: {event}", "unit": "nanoseconds", **times, "events": events}


def _speedscope_frame(function: Function, begins: Source | None) -> dict[str, Any]:
    file = source_file(function.name) or (begins.path if begins else function.dso)
    fields = {"file": file, "line": begins.line if begins else 0}
    return {"name": readable(function.name), **{key: value for key, value in fields.items() if value}}
