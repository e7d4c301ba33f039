"""Stacks from folded lines, the shortest way to write a profile down."""

import numpy as np

from perfpy.analysis.stacks.stacks import Function, Stacks


def stacks(folded: str, event: str = "cycles") -> Stacks:
    """`comm;outer;inner weight` a line; a name that ends in _[k] is the kernel's."""
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
