"""Branch stacks for scripts: brstack has addresses and flags, brstacksym has symbols and letters."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from perfpy.views.script.addresses import frames_of
from perfpy.views.script.field_text import branch_parts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.perfdata.records.batches import Batch
    from perfpy.views.script.line_context import LineContext
    from perfpy.views.scripting.frames import FrameValues

    Branches = list[list[dict[str, Any]]]


def branch_lists(batch: Batch, pid: NDArray[Any], context: LineContext, frames: FrameValues) -> tuple[Branches, Branches]:
    """Return brstack and brstacksym of each sample."""
    stacks = batch.columns["branch_stack"]
    counts = np.diff(stacks.offsets)
    sample = np.repeat(np.arange(len(batch)), counts)
    of_each = pid[sample], batch.key[sample], batch.columns["cpumode"][sample]
    ends = []
    for name in ("from", "to"):
        ids = frames_of(context.symbolizer, of_each[0], stacks.values[name], of_each[1], of_each[2], context.kernel_start)
        ends.append(list(map(frames.locations().__getitem__, ids.tolist())))
    numbers = [stacks.values[name].tolist() for name in ("from", "to", "flags")]
    plain = [_plain(*values) for values in zip(*numbers, *ends, strict=True)]
    named = [_named(*values) for values in zip(numbers[2], *ends, strict=True)]
    bounds = list(itertools.pairwise(stacks.offsets.tolist()))
    return [plain[begin:end] for begin, end in bounds], [named[begin:end] for begin, end in bounds]


def _plain(source: int, target: int, word: int, left: dict[str, Any], entered: dict[str, Any]) -> dict[str, Any]:
    parts, _ = branch_parts(word)
    flags = {name: bool(parts[name]) for name in ("mispred", "predicted", "in_tx", "abort")}
    files = {"from_dsoname": left.get("dso", ""), "to_dsoname": entered.get("dso", "")}
    return {"from": source, "to": target, **flags, "cycles": parts["cycles"], **files}


def _named(word: int, left: dict[str, Any], entered: dict[str, Any]) -> dict[str, Any]:
    parts, _ = branch_parts(word)
    guess = "P" if parts["predicted"] else "M" if parts["mispred"] else "-"
    flags = {"pred": guess, "in_tx": "X" if parts["in_tx"] else "-", "abort": "A" if parts["abort"] else "-"}
    return {"from": _function(left), "to": _function(entered), **flags}


def _function(located: dict[str, Any]) -> str:
    return f"{located['symbol']}+0x{located['symoff']:x}" if "symbol" in located else "[unknown]"
