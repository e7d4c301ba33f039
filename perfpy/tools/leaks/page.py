"""The page of a command's memory: flame graphs of what was held at the highest moment, at the end, and of all allocations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfpy.analysis.stacks import Function, Stacks
from perfpy.views.page.page import PageText, render

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfpy.tools.leaks.sums import ProcessSums, StackSums

#: what each flame graph shows, and the fields of StackSums with its bytes and its number of allocations
_EVENTS = (("held at the peak", "peak", "peak_objects"), ("held at the end", "left", "left_objects"), ("allocated", "total", "objects"))


def memory_page(processes: Sequence[ProcessSums]) -> str:
    """Return the page of the processes of a command. Weights are bytes; a process is the root of its stacks."""
    functions: dict[Function, int] = {}
    stacks = [stack for one in processes for stack in one.stacks]
    chains = [[functions.setdefault(_function(stack, index), len(functions)) for index in range(len(stack.frames))] for stack in stacks]
    frames = np.array([number for chain in chains for number in chain], np.int32)
    offsets = np.cumsum([0, *map(len, chains)], dtype=np.int64)
    comm = np.repeat(np.arange(len(processes), dtype=np.int32), [len(one.stacks) for one in processes])
    parts = []
    for event, weight, count in _EVENTS:
        weights = np.array([getattr(stack, weight) for stack in stacks], np.uint64)
        counts = np.array([getattr(stack, count) for stack in stacks], np.int64)
        rows = np.flatnonzero(weights)
        comms = [f"{one.command or one.pid} ({one.pid})" for one in processes]
        chain = rows.astype(np.int32)
        parts.append(Stacks(f"bytes {event}", list(functions), frames, offsets, comms, chain, comm[rows], weights[rows], counts[rows]))
    first = processes[0]
    environment = [f"Python {first.python}"] if first.python else []
    return render([part for part in parts if part.total], PageText(f"Memory: {first.command}", environment))


def _function(stack: StackSums, index: int) -> Function:
    """Return a frame as the page names it. The line at which a stack allocates tells allocations of one function apart."""
    frame = stack.frames[index]
    return Function(f"{frame.function}:{frame.line}" if not index and frame.line else frame.function, frame.file)
