"""Stacks as folded lines (flamegraph.pl) and as speedscope's JSON (https://www.speedscope.app/file-format-schema.json)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from perfpy.abi.columns import distinct
from perfpy.analysis.stacks.stacks import Function, Stacks
from perfpy.untrusted.text import one_line
from perfpy.views.readable import readable, source_file
from perfpy.views.stacks.time_order import threads_in_order

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perfpy.analysis.stacks.code_sites import Source
    from perfpy.views.stacks.time_order import ThreadOrder

#: events of a thread, which take less than 0.1 MB
_FEW_EVENTS: Final = 2000
#: room for an event, and for the weight of a stack, in numbers of frames
_EVENT: Final = 10
_WEIGHT: Final = 3


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

    For each event: a profile of each thread in order of time if the single samples are known and few, then a sampled profile of all stacks.
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
        profiles += [_in_order(part.event, thread) for thread in threads_in_order(part, function_ids, comm_ids)]
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
    data = {"$schema": schema, "name": name, "exporter": "perfpy", "shared": shared, "profiles": profiles}
    return json.dumps(data, separators=(",", ":"))


def _in_order(event: str, thread: ThreadOrder) -> dict[str, Any]:
    """Return speedscope's profile of one thread in order of time.

    It has the begins and ends of frames, or whole stacks if there are many events and stacks take less room. Both look the same.
    """
    profile = {"name": f"{thread.name}: {event}", "unit": "nanoseconds", "startValue": thread.first, "endValue": thread.last}
    events = [{"type": "O" if edge.is_begin else "C", "frame": edge.frame, "at": edge.time} for edge in thread.edges]
    if len(events) <= max(_FEW_EVENTS, sum(_WEIGHT + len(steady.path) for steady in thread.steady_stacks) // _EVENT):
        return {"type": "evented", **profile, "events": events}
    weights = [steady.end - steady.begin for steady in thread.steady_stacks]
    return {"type": "sampled", **profile, "samples": [steady.path for steady in thread.steady_stacks], "weights": weights}


def _speedscope_frame(function: Function, begins: Source | None) -> dict[str, Any]:
    file = source_file(function.name) or (begins.path if begins else function.dso)
    fields = {"file": file, "line": begins.line if begins else 0}
    return {"name": readable(function.name), **{key: value for key, value in fields.items() if value}}
