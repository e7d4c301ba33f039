"""The texts and the page of `perfpy leaks`: what a running process kept, and what a command's processes held at their highest moment."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.analysis.verdict.categories import INTERPRETER, LIBRARY, OWN, is_packaged
from perfpy.errors import plural
from perfpy.tools.leaks.hook import SMALL_STEP, SMALLEST
from perfpy.tools.leaks.sums import own_begin, parts_of_peak
from perfpy.untrusted.text import visible
from perfpy.views.readable import short_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from perfpy.analysis.stacks import Function
    from perfpy.tools.leaks.attached import MemoryGrowth
    from perfpy.tools.leaks.sums import Frame, ProcessSums

_MOST_ROWS: Final = 10
_MOST_CALLERS: Final = 3
_MOST_PROCESSES: Final = 3  # with lines of their own
_LEAST_SHARE: Final = 0.1  # of the largest process's peak, for lines of its own
_LEAST_TEMPORARY: Final = 0.02  # share of all allocations
_MOST_HOLDERS: Final = 3  # lines in the first sentence
_LEAST_HOLDER: Final = 0.1  # of the peak, for a place in it
_YOUNG: Final = 10  # the last tenth of the time
_LEAST_ROW: Final = 0.002  # of the peak
_LEAST_PART: Final = 0.01  # of the peak, for what the program did not allocate itself
_LEAST_REPEATED: Final = 1_000_000  # bytes that a line allocated in all, for a row of what came and went
_TIMES: Final = 3  # times the most that the line held at a time
_UNITS: Final = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
_LEAST_GROWTH: Final = 128 << 10  # bytes: a new arena may be some seconds away, but its pages are used one after the other
_OUTSIDE: Final = "[threads without Python functions]"


_EXAMPLE: Final = 10_000_000  # bytes


def _within(size: int) -> str:
    """Return how far an estimate may be off: the 95 % interval of bytes that are drawn one by one. At equal distances it is less."""
    return f"{100 * 1.96 * (SMALL_STEP / size) ** 0.5:.0f} %"


class _KeepingLine(NamedTuple):
    """The kept memory of one line. way: how the stack that keeps most leads to the line and from it, as text."""

    frame: Frame | None
    bytes: int
    objects: int
    early_bytes: int
    way: str


def growth_lines(growth: MemoryGrowth) -> Iterator[str]:
    """Yield the text of a watched process."""
    kept = sum(one.bytes for one in growth.retained)
    yield f"Process {growth.pid}: {visible(growth.command)}  (Python {growth.python})"
    yield f"It allocated {_size(growth.allocated)} in {growth.seconds:.1f} s, and {_kept_text(kept, growth.arenas)}."
    yield from _rows_and_notes(growth)


def _kept_text(kept: int, arenas: int) -> str:
    """Return what was kept, with the memory that CPython reserved for small objects: first, if that is more."""
    of_small = f"CPython reserved {_size(arenas)} for objects of up to {SMALLEST} bytes"
    if not arenas:
        return f"kept {_size(kept)}"
    return f"{of_small}; larger ones kept {_size(kept)}" if arenas > kept else f"kept {_size(kept)}; {of_small}"


def _rows_and_notes(growth: MemoryGrowth) -> Iterator[str]:
    kept = sum(one.bytes for one in growth.retained)
    if kept:
        yield ""
        yield f"{'Kept':>10}  {'Share':>6}  {'First half':>10}  {'Objects':>9}  Function and line"
        for line in _lines(growth)[:_MOST_ROWS]:
            share = f"{100 * line.bytes / kept:.1f}%"
            yield f"{_size(line.bytes):>10}  {share:>6}  {_size(line.early_bytes):>10}  {line.objects:>9,}  {_named(line.frame)}"
            if line.way:
                yield f"{'':44}{line.way}"
    notes = list(_notes(growth))
    if notes:
        yield ""
        yield from notes


def service_lines(growths: Sequence[MemoryGrowth], names: Mapping[int, str]) -> Iterator[str]:
    """Yield the text of the watched processes of a service: what each kept, and the lines of all of them."""
    kept = {growth.pid: sum(one.bytes for one in growth.retained) for growth in growths}
    order = sorted(growths, key=lambda growth: -kept[growth.pid])
    all_kept, all_arenas = sum(kept.values()), sum(growth.arenas for growth in growths)
    yield f"{len(growths)} processes, in {max(growth.seconds for growth in growths):.1f} s: {_kept_text(all_kept, all_arenas)}"
    yield ""
    yield f"{'Kept':>10}  {'Allocated':>10}  Process"
    for growth in order:
        name = visible(names.get(growth.pid) or growth.command)
        yield f"{_size(kept[growth.pid]):>10}  {_size(growth.allocated):>10}  {growth.pid} {name}"
    young, arenas, grown, lost, unnamed = (
        sum(getattr(growth, name) for growth in growths) for name in ("young", "arenas", "grown", "lost", "unnamed")
    )
    retained = sorted((one for growth in growths for one in growth.retained), key=lambda one: -one.bytes)
    yield from _rows_and_notes(order[0]._replace(young=young, arenas=arenas, grown=grown, lost=lost, unnamed=unnamed, retained=retained))


def _notes(growth: MemoryGrowth) -> Iterator[str]:
    if growth.young:
        yield f"{_size(growth.young)} of the last {growth.seconds / _YOUNG:.1f} s are not counted: they may be freed soon."
    if growth.arenas or _has_grown_beyond(growth):
        reason = "Which of the reserved memory is kept, only its objects tell."
        if not growth.arenas:
            reason = f"The program's memory grew by {_size(growth.grown)}, so it may keep objects of up to {SMALLEST} bytes, too."
        yield f"{reason} --small-objects shows the lines that keep them; it makes the program much slower while it watches."
    if growth.unnamed:
        yield f"{_size(growth.unnamed)} of {_OUTSIDE} is memory of further stacks: the program has too many distinct ones to name."
    if growth.lost:
        yield f"{growth.lost:,} further allocations were not followed: there were too many at a time. Watch for a shorter time."


def _has_grown_beyond(growth: MemoryGrowth) -> bool:
    """Return whether the memory of the process grew by much more than the allocations that it kept, which are estimates."""
    others = growth.grown - growth.young - sum(one.bytes for one in growth.retained)
    return not growth.lost and others > max(_LEAST_GROWTH, growth.grown // 3)


def _lines(growth: MemoryGrowth) -> list[_KeepingLine]:
    """Return the lines, the one that keeps most first."""
    lines: dict[Frame | None, _KeepingLine] = {}
    for one in growth.retained:  # the largest stack of a line comes first
        index = _charged(one.frames)
        frame = None if index is None else one.frames[index]
        before = lines.get(frame) or _KeepingLine(frame, 0, 0, 0, _way(one.frames, index))
        numbers = (before.bytes + one.bytes, before.objects + one.objects, before.early_bytes + one.early_bytes)
        lines[frame] = _KeepingLine(frame, *numbers, before.way)
    return sorted(lines.values(), key=lambda line: -line.bytes)


def _named(frame: Frame | None) -> str:
    """Return a frame as a line shows it, without the folder of Python's packages."""
    if frame is None:
        return _OUTSIDE
    return f"{visible(frame.function)} ({visible(_PREFIX.sub('', frame.file))}:{frame.line or '?'})"


def _charged(frames: Sequence[Frame]) -> int | None:
    """Return the position of the frame that a stack (innermost first) is charged to: the innermost one of own code, if any is."""
    begin = own_begin(frames)
    for index in range(begin, len(frames)):
        if category(frames[index]) == OWN:
            return index
    return begin if frames else None


def _way(frames: Sequence[Frame], index: int | None) -> str:
    """Return how a stack leads to the frame that it is charged to, and from it."""
    if index is None:
        return ""
    inside = [_named(frame) for frame in frames[own_begin(frames) : index][:_MOST_CALLERS]]
    callers = [_named(frame) for frame in frames[index + 1 : index + 1 + _MOST_CALLERS - len(inside)]]
    way = [*([f"by {', '.join(inside)}"] if inside else []), *([f"called from {', '.join(callers)}"] if callers else [])]
    return "; ".join(way)


_INTERPRETER: Final = re.compile(r"/(?:Objects|Python|Modules|Parser)/\w+\.[ch]$|^(?:lib)?python3[^/]*$|libpython")
_LIBRARY: Final = re.compile(r"/sysdeps/|\.so(?:\.|$)|^/usr/(?:include|lib)")
_PREFIX: Final = re.compile(r"^.*/(?:(?:site|dist)-packages|lib/python\d[^/]*)/|^.*/(?=(?:Objects|Python|Modules|Parser)/\w+\.[ch]$)")


@lru_cache(maxsize=1 << 16)
def category(frame: Frame) -> int:
    """Return the category of a frame's function (OWN, LIBRARY or INTERPRETER) by its file: a Python module, a C source or a binary."""
    if _INTERPRETER.search(frame.file):
        return INTERPRETER
    return LIBRARY if is_packaged(frame.file) or _LIBRARY.search(frame.file) else OWN


def _size(size: int) -> str:
    return next((f"{size / unit:.2f} {name}" for unit, name in _UNITS if size >= unit), f"{size} B")


class _HoldingLine(NamedTuple):
    """The memory of one line.

    Attributes:
        peak, objects, left, temporary, total, allocations: see StackSums.
        most: the most bytes at a time, at most: each of its stacks may have held its most at another time.
        frames, charged: the stack that held most, and the position of the line's frame in it.
    """

    frame: Frame | None
    peak: int
    objects: int
    left: int
    temporary: int
    total: int
    allocations: int
    most: int
    frames: tuple[Frame, ...]
    charged: int | None


def peak_lines(processes: Sequence[ProcessSums], *, small_objects: bool) -> Iterator[str]:
    """Yield the text of a command's processes, the command itself first."""
    highest = max(one.peak for one in processes)
    shown = [one for one in processes if one.peak >= _LEAST_SHARE * highest][:_MOST_PROCESSES]
    for process in shown:
        yield from _process_lines(process)
        yield ""
    others = [one for one in processes if one not in shown]
    if others:
        most = _size(max(one.peak for one in others))
        yield f"{len(others)} further {plural(len(others), 'process', 'processes')} held at most {most} each."
    yield "Counted by a library that perfpy loaded into the command (LD_PRELOAD): malloc, free, and anonymous mappings (whole,"
    yield "also what was never touched: NumPy's OpenBLAS reserves 32 MB for each of its threads)."
    if any(one.small for one in shown):
        yield f"CPython's objects of up to {SMALLEST} bytes are estimated: one in {SMALL_STEP:,} bytes of them is followed, so that"
        yield f"{_size(_EXAMPLE)} are right within {_within(_EXAMPLE)}; --small-objects counts all, which takes much longer."
    elif not small_objects and any(one.python for one in shown):
        yield f"CPython's objects of up to {SMALLEST} bytes are in arenas, each at the line that needed it; --small-objects counts all."


def _process_lines(process: ProcessSums) -> Iterator[str]:
    language = f"  (Python {process.python})" if process.python else ""
    yield f"Process {process.pid}: {visible(process.command)}{language}"
    lines = _holding_lines(process)
    yield _peak_sentence(process, lines)
    parts = parts_of_peak(process)
    if parts.loading >= _LEAST_PART * process.peak:
        start = f", the start of Python {_size(parts.start)}" if parts.start >= _LEAST_PART * process.peak else ""
        yield f"Libraries took {_size(parts.loading)} of that while they were loaded{start}; the program itself held {_size(parts.own)}."
    elif parts.start >= _LEAST_PART * process.peak:
        yield f"The start of Python took {_size(parts.start)} of that; the program itself held {_size(parts.own)}."
    end = "at its end" if process.seconds else "when it was killed"
    number = f"{'about ' if process.small else ''}{process.objects:,}"
    yield f"It allocated {_size(process.total)} in {number} allocations, and held {_size(process.left)} {end}."
    repeated = sorted((line for line in lines if _is_repeated(line, process)), key=lambda line: -line.total)
    yield from _most_repeated(repeated[:1], process)
    if process.arenas >= _LEAST_PART * process.peak:
        yield f"CPython's arenas for objects of up to {SMALLEST} bytes, with the free space in them, took up to {_size(process.arenas)}."
    yield ""
    yield f"{'At peak':>10}  {'Share':>6}  {'Objects':>9}  {'At exit':>10}  Function and line"
    for line in [one for one in lines if one.peak > _LEAST_ROW * process.peak][:_MOST_ROWS]:
        share = f"{100 * line.peak / max(process.peak, 1):.1f}%"
        yield f"{_size(line.peak):>10}  {share:>6}  {line.objects:>9,}  {_size(line.left):>10}  {_named(line.frame)}"
        if way := _way(line.frames, line.charged):
            yield f"{'':44}{way}"
    yield from _repeated_rows(repeated)
    if process.temporary >= _LEAST_TEMPORARY * process.objects:
        yield ""
        share = f"{100 * process.temporary / process.objects:.0f} %"
        yield f"{process.temporary:,} allocations ({share}) were freed before the next one of their thread:"
        by_temporary = sorted(lines, key=lambda line: -line.temporary)[: _MOST_ROWS // 2]
        yield from (f"{line.temporary:>10,}  {_named(line.frame)}" for line in by_temporary if line.temporary)
    if process.lost:
        yield f"{process.lost:,} allocations have no stack: the program has too many distinct ones."


def _peak_sentence(process: ProcessSums, lines: Sequence[_HoldingLine]) -> str:
    """Return how much a process held at its highest moment, when, and the lines that held most of it."""
    after = f" after {process.peak_after:.1f} s" if process.peak_after else ""
    of_all = f" of {process.seconds:.1f} s" if after and process.seconds else ""
    holders = _and([f"{100 * share:.0f} % in {name}" for share, name, _ in _holders(process, lines)])
    return f"It held {_size(process.peak)} at its highest moment{after}{of_all}{f': {holders}' if holders else ''}."


def _holders(process: ProcessSums, lines: Sequence[_HoldingLine]) -> list[tuple[float, str, Frame]]:
    """Return the lines that held most at the peak: their share, their text "pack() (app.py:5)", and their frame."""
    return [
        (line.peak / max(process.peak, 1), _located(line.frame), line.frame)
        for line in lines[:_MOST_HOLDERS]
        if line.frame is not None and line.peak >= _LEAST_HOLDER * process.peak
    ]


def _located(frame: Frame) -> str:
    """Return a frame as a sentence names it: "pack() (app.py:5)"."""
    name = frame.function if frame.function.endswith((">", "]", ")")) else f"{frame.function}()"
    location = f"{short_path(frame.file)}:{frame.line}" if frame.line else short_path(frame.file)
    return f"{visible(name)} ({visible(location)})"


def _most_repeated(lines: Sequence[_HoldingLine], process: ProcessSums) -> Iterator[str]:
    """Yield a sentence on a line whose memory came and went, if it is much of all."""
    for line in lines:
        if line.frame is not None and line.total >= _LEAST_HOLDER * process.total:
            share = f"{_size(line.total)} of that ({100 * line.total / max(process.total, 1):.0f} %)"
            yield f"{share} came and went in {_located(line.frame)}, at most {_size(line.most)} at a time."


def _repeated_rows(lines: Sequence[_HoldingLine]) -> Iterator[str]:
    """Yield the table of the lines whose memory came and went."""
    if lines:
        yield ""
        yield "Memory that came and went, such as temporary copies:"
        yield f"{'In all':>10}  {'At most':>10}  {'Objects':>9}  Function and line"
    for line in lines[: _MOST_ROWS // 2]:
        yield f"{_size(line.total):>10}  {_size(line.most):>10}  {line.allocations:>9,}  {_named(line.frame)}"
        if way := _way(line.frames, line.charged):
            yield f"{'':35}{way}"


def _is_repeated(line: _HoldingLine, process: ProcessSums) -> bool:
    """Whether a line allocated much more than it held at any time."""
    is_much = line.total >= max(_LEAST_REPEATED, _LEAST_PART * process.total)
    return line.frame is not None and is_much and line.most > 0 and line.total >= _TIMES * line.most


def _and(texts: Sequence[str]) -> str:
    """Return "a, b and c"."""
    *first, last = texts or [""]
    return f"{', '.join(first)} and {last}" if first else last


def _holding_lines(process: ProcessSums) -> list[_HoldingLine]:
    """Return the lines, the one that held most first."""
    totals: dict[tuple[str, str, int] | None, list[int]] = {}
    largest: dict[tuple[str, str, int] | None, tuple[tuple[Frame, ...], int | None]] = {}
    for stack in process.stacks:  # the largest stack of a line comes first
        index = _charged(stack.frames)
        line = None if index is None else _line(stack.frames[index])
        if line not in totals:
            totals[line], largest[line] = [0] * 7, (stack.frames, index)
        total = totals[line]
        total[0] += stack.peak
        total[1] += stack.peak_objects
        total[2] += stack.left
        total[3] += stack.temporary
        total[4] += stack.total
        total[5] += stack.objects
        total[6] += stack.most
    lines = []
    for line, (peak, objects, left, temporary, total_bytes, allocations, most) in totals.items():
        frames, index = largest[line]
        frame = None if index is None else frames[index]
        lines.append(_HoldingLine(frame, peak, objects, left, temporary, total_bytes, allocations, most, frames, index))
    return sorted(lines, key=lambda line: -line.peak)


@lru_cache(maxsize=1 << 16)
def _line(frame: Frame) -> tuple[str, str, int]:
    return frame.function, frame.file, frame.line


# The page of a command's memory: flame graphs of what was held at the highest moment, at the end, and of all allocations.

#: what each flame graph shows, and the fields of StackSums with its bytes and its number of allocations
_EVENTS = (("held at the peak", "peak", "peak_objects"), ("held at the end", "left", "left_objects"), ("allocated", "total", "objects"))


def memory_page(processes: Sequence[ProcessSums]) -> str:
    """Return the page of the processes of a command. Weights are bytes; a process is the root of its stacks."""
    from perfpy.analysis.stacks import Stacks  # only with --html
    from perfpy.views.page.page import HeadlineSentence, PageText, render

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
    lines = _holding_lines(first)
    environment = [f"Python {first.python}"] if first.python else []
    headline = HeadlineSentence(
        _peak_sentence(first, lines),
        [(name, _function(frame, is_innermost=True).name) for _, name, frame in _holders(first, lines)],
        "self",
    )
    return render([part for part in parts if part.total], PageText(f"Memory: {first.command}", environment, headline=[headline]))


def _function(frame: Frame, *, is_innermost: bool) -> Function:
    """Return a frame as the page names it. The line at which a stack allocates tells allocations of one function apart."""
    from perfpy.analysis.stacks import Function

    return Function(f"{frame.function}:{frame.line}" if is_innermost and frame.line else frame.function, frame.file)
