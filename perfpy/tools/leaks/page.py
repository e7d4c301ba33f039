"""The page of a command's memory: flame graphs of what was held at the highest moment, at the end, and of all allocations."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from perfpy.analysis.stacks import Function, Stacks
from perfpy.tools.leaks.text import category, holding_functions, peak_sentence
from perfpy.views.page.page import HeadlineSentence, PageText, render

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfpy.capture.python_frames.current_stacks import CurrentFrame
    from perfpy.tools.leaks.sums import ProcessSums

#: what each flame graph shows, and the fields of StackSums with its bytes and its number of allocations
_EVENTS = (("held at the peak", "peak", "peak_objects"), ("held at the end", "left", "left_objects"), ("allocated", "total", "objects"))


def memory_page(processes: Sequence[ProcessSums]) -> str:
    """Return the page of the processes of a command. Weights are bytes; a process is the root of its stacks."""
    functions: dict[Function, int] = {}
    categories_of: dict[Function, int] = {}
    stacks = [stack for one in processes for stack in one.stacks]
    chains = []
    for stack in stacks:
        named = [_function(frame, is_innermost=not index) for index, frame in enumerate(stack.frames)]
        chains.append([functions.setdefault(function, len(functions)) for function in named])
        categories_of.update(zip(named, map(category, stack.frames), strict=True))
    frames = np.array([number for chain in chains for number in chain], np.int32)
    offsets = np.cumsum([0, *map(len, chains)], dtype=np.int64)
    comm = np.repeat(np.arange(len(processes), dtype=np.int32), [len(one.stacks) for one in processes])
    categories = [categories_of[function] for function in functions]
    parts = []
    for event, weight, count in _EVENTS:
        weights = np.array([getattr(stack, weight) for stack in stacks], np.uint64)
        counts = np.array([getattr(stack, count) for stack in stacks], np.int64)
        rows = np.flatnonzero(weights)
        comms = [f"{one.command or one.pid} ({one.pid})" for one in processes]
        chain = rows.astype(np.int32)
        part = Stacks(f"bytes {event}", list(functions), frames, offsets, comms, chain, comm[rows], weights[rows], counts[rows])
        parts.append(replace(part, in_bytes=True, categories=categories))
    first = processes[0]
    holders = holding_functions(first)
    environment = [f"Python {first.python}"] if first.python else []
    headline = HeadlineSentence(
        peak_sentence(first), [(name, _function(frame, is_innermost=True).name) for _, name, frame in holders], "self"
    )
    return render([part for part in parts if part.total], PageText(f"Memory: {first.command}", environment, headline=[headline]))


def _function(frame: CurrentFrame, *, is_innermost: bool) -> Function:
    """Return a frame as the page names it. The line at which a stack allocates tells allocations of one function apart."""
    return Function(f"{frame.function}:{frame.line}" if is_innermost and frame.line else frame.function, frame.file)
