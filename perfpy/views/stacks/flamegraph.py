"""Stacks -> one self-contained HTML file: flame graph, icicle, inverted, differential, and the flat table.

What enters: perfpy.analysis.stacks.stacks.Stacks, one an event; for a differential
graph those of a second recording too. What leaves: the text of a page that
needs no network. The page (flamegraph.html beside this file) holds the trees
as columns in depth-first order, deflated and base64-coded, so that 200,000
stacks stay a small file; a browser draws only what is wide enough to see.
Names of functions are shown short and told whole; a box in the page changes that.
"""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from perfpy.analysis.stacks.stacks import Function, Stacks, StackTree
from perfpy.symbols.demangling.managed_names import without_tier
from perfpy.views.readable import at_a_glance, source_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


def render(parts: Sequence[Stacks], *, title: str, circumstances: Sequence[str] = (), after: Sequence[Stacks] | None = None) -> str:
    """The page.

    parts: the events' stacks; title and circumstances: what stands above the graph
    (facts are short phrases: host, command, duration ...); after: the same
    events of a second recording, to show what changed since `parts`. Events
    that only one of the two has are left out.
    """
    parts, after = _with_tiers_as_one(parts), None if after is None else _with_tiers_as_one(after)
    pairs = [(part,) for part in parts] if after is None else _pairs(parts, after)
    trees = [StackTree.build(*pair) for pair in pairs]
    names: dict[Function, int] = {}
    events = [
        {
            "event": pair[0].event,
            "seconds": int(pair[0].in_seconds),
            "totals": tree.totals,
            "name": _column(np.array([names.setdefault(f, len(names)) for f in tree.names], np.int32)[tree.name]),
            "depth": _column(tree.depth),
            "own": [_column(own) for own in tree.own],
        }
        for pair, tree in zip(pairs, trees, strict=True)
    ]
    data: dict[str, Any] = {
        "title": title,
        "facts": list(circumstances),
        "unit": "periods",
        "parts": 1 if after is None else 2,
        "events": events,
        "names": [_named(function) for function in names],
    }
    # "<" must not end the script element that holds the data
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    page = Path(__file__).with_suffix(".html").read_text(encoding="utf-8")
    return page.replace("/*DATA*/", text)


def _with_tiers_as_one(parts: Sequence[Stacks]) -> list[Stacks]:
    """All code that a runtime made of one function is that function."""
    return [replace(part, functions=[one._replace(name=without_tier(one.name)) for one in part.functions]) for part in parts]


def _named(function: Function) -> list[Any]:
    """Name, module, whether it is the kernel's; and the short name where that is another."""
    short = at_a_glance(function.name)
    return [function.name, source_file(function.name) or function.dso, int(function.kernel), *([short] if short != function.name else [])]


def _pairs(before: Sequence[Stacks], after: Sequence[Stacks]) -> list[tuple[Stacks, Stacks]]:
    second = {part.event: part for part in after}
    return [(part, second[part.event]) for part in before if part.event in second]


def _column(values: NDArray[Any]) -> str:
    """A column as base64 of its deflated little-endian bytes."""
    little = values.astype(values.dtype.newbyteorder("<"))
    return base64.b64encode(zlib.compress(little.tobytes(), 4)).decode("ascii")
