"""Stacks from folded lines, the shortest way to write a profile down."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from perfpy.analysis.stacks import Function, Stacks, TimedSamples

if TYPE_CHECKING:
    from collections.abc import Sequence


def stacks(folded: str, event: str = "cycles") -> Stacks:
    """Parse `comm;outer;inner weight` lines; a name with the suffix _[k] is the kernel's."""
    rows = [line.rsplit(" ", 1) for line in folded.strip().splitlines()]
    paths = [path.strip().split(";") for path, _ in rows]
    functions = list(dict.fromkeys(name for path in paths for name in path[1:]))
    comms = list(dict.fromkeys(path[0] for path in paths))
    chains = [[functions.index(name) for name in reversed(path[1:])] for path in paths]
    return Stacks(
        event,
        [Function(name.removesuffix("_[k]"), "kernel" if name.endswith("_[k]") else "app", name.endswith("_[k]")) for name in functions],
        np.array([f for chain in chains for f in chain], np.int32),
        np.cumsum([0, *map(len, chains)]),
        comms,
        np.arange(len(rows), dtype=np.int32),
        np.array([comms.index(path[0]) for path in paths], np.int32),
        np.array([int(weight) for _, weight in rows], np.uint64),
        np.ones(len(rows), np.int64),
    )


class At(NamedTuple):
    """A sample: its stack as `comm;outer;inner`, when it was taken (ns), where, and how much it stands for."""

    path: str
    time: int
    weight: int = 1_000_000
    pid: int = 7
    tid: int = 7
    cpu: int = 0


def timed_stacks(samples: Sequence[At], event: str = "cpu-clock", *, in_seconds: bool = True, off_cpu: bool = False) -> Stacks:
    """Return the stacks of single samples, each path once."""
    paths = list(dict.fromkeys(sample.path for sample in samples))
    weights = {path: sum(sample.weight for sample in samples if sample.path == path) for path in paths}
    part = stacks("\n".join(f"{path} {weights[path]}" for path in paths), event)
    row = np.array([paths.index(sample.path) for sample in samples])
    columns = {name: np.array([getattr(sample, name) for sample in samples]) for name in ("pid", "tid", "time", "cpu", "weight")}
    counts = np.bincount(row, minlength=len(paths))
    timed = TimedSamples(chain=part.chain[row], comm=part.comm[row], **columns)
    return replace(part, count=counts, timed=timed, in_seconds=in_seconds, off_cpu=off_cpu)
