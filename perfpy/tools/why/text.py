"""The text of `perfpy why`: the verdict, the critical path, the times of threads, and their longest waits with stacks."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from perfpy.analysis.verdict import wait_reasons as reasons
from perfpy.errors import plural
from perfpy.tools.why.causes import ROOT
from perfpy.tools.why.tasks import COLUMNS, RUNNING, SPINNING
from perfpy.tools.why.verdict import activity_text, place_text, tasks_text, verdict, waker_function
from perfpy.untrusted.text import visible
from perfpy.views.latency_text import duration_text
from perfpy.views.readable import readable
from perfpy.views.verdict.sentence import percent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perfpy.tools.why.causes import Cause, CauseGroups
    from perfpy.tools.why.explanation import Explanation, ThreadTimes


_SMALLEST: Final = 0.02  # of the time: smaller parts of the path are left out
_DEEPEST: Final = 6
_THREADS: Final = 10
_WAITS: Final = 5
_FRAMES: Final = 8
_INTERPRETER: Final = "_PyEval_EvalFrameDefault"
_TITLES: Final = {"runnable": "for a CPU"}  # of columns whose names are JSON's
_RUNS, _OTHER = "running", "other"  # columns
_NO_WAITS: Final = (RUNNING, SPINNING, reasons.CPU)


def why_lines(explanation: Explanation, *, stacks: bool = False, width: int | None = None) -> Iterator[str]:
    """Yield all lines; stacks: show whole stacks and all threads; width: of the terminal, None without one."""
    yield from verdict(explanation)
    if not explanation.elapsed:
        return
    yield ""
    titles = {thread.tid: thread.title for thread in explanation.threads}
    main = titles.get(explanation.main, f"{explanation.comm(explanation.main)} ({explanation.main})")
    yield f"Where the time of {visible(main)} went: {duration_text(explanation.elapsed)}"
    yield from _path(explanation, [ROOT], 1)
    yield ""
    yield from thread_table(explanation.threads, None if stacks else _THREADS, width)
    waits = longest_waits(explanation)
    if waits:
        yield ""
        yield "Longest waits of all threads"
        shown = waits if stacks else _merge_alike(explanation.waits, waits)[:_WAITS]
        whos = [f"{visible(one.comm)} ({tasks_text(explanation.waits.all_of('tids', one.nodes), explanation.tasks)})" for one in shown]
        for cause, text in zip(shown, told_apart(explanation.waits, shown, whos), strict=True):
            yield from _wait(explanation, cause, text, whole=stacks)
    if _has_python(explanation, waits[:_WAITS]):
        yield ""
        yield "note: Python code waits; perfpy why --python names its functions and lines"
    if explanation.lost:
        yield ""
        yield f"note: {explanation.lost:,} {plural(explanation.lost, 'event')} lost while recording; some waits may be missing or too long"
    if explanation.path.tree.cut or explanation.waits.tree.cut:
        yield ""
        yield "note: too many waits to follow all of them; the shortest ones are not explained"


def _path(explanation: Explanation, nodes: Sequence[int], depth: int) -> Iterator[str]:
    """Yield the tree of the critical path."""
    groups = explanation.path
    causes = [cause for cause in groups.children(nodes) if cause.time >= _SMALLEST * explanation.elapsed]
    for cause, text in zip(causes, told_apart(groups, causes, [visible(cause.comm) for cause in causes]), strict=True):
        share = percent(cause.time / explanation.elapsed)
        by = waker_text(explanation, groups, cause)
        yield f"{share:>10} {duration_text(cause.time):>9} {'  ' * (depth - 1)}{text}{by}"
        if depth < _DEEPEST:
            yield from _path(explanation, cause.nodes, depth + 1)


def told_apart(groups: CauseGroups, causes: Sequence[Cause], whos: Sequence[str]) -> list[str]:
    """Return who does what, so that no two texts are the same: different locks may have one name, and names of functions are short."""
    texts = [f"{who} {activity_text(groups, cause)}" for who, cause in zip(whos, causes, strict=True)]
    for text in [text for text, count in Counter(texts).items() if count > 1]:
        rows = [row for row, one in enumerate(texts) if one == text]
        for details in (
            [f"lock {causes[row].lock:#x}" for row in rows],
            [visible(causes[row].function) for row in rows],
            [f"thread {min(groups.all_of('tids', causes[row].nodes), default=0)}" for row in rows],
        ):
            if len(set(details)) == len(rows):
                for row, detail in zip(rows, details, strict=True):
                    texts[row] = f"{text} ({detail})"
                break
    return texts


def waker_text(explanation: Explanation, groups: CauseGroups, cause: Cause) -> str:
    """Return the thread that ended a wait, ", ended by worker (17) in flush()", or the thread that used the CPU."""
    if cause.kind == reasons.CPU:
        runner, time = explanation.runner(groups, cause)
        return f" while {visible(explanation.comm(runner))} ({runner}) ran" if time else ""
    if cause.kind in (RUNNING, SPINNING):
        return ""
    waker, time = groups.largest("wakers", cause.nodes)
    if groups.interrupted(cause.nodes) > time:
        return ", ended by an interrupt" if cause.kind != reasons.SLEEP else ""
    if not time:
        return ""
    function = waker_function(groups, cause)
    return f", ended by {visible(explanation.comm(waker))} ({waker}){f' in {place_text(function)}' if function else ''}"


def thread_table(threads: Sequence[ThreadTimes], most: int | None, width: int | None = None) -> Iterator[str]:
    """Yield the table of threads; only columns with times. Without room, waits with least time are one column, "other"."""
    names = [name for name in COLUMNS if any(thread.columns[name] >= 0.001 * thread.wall and thread.columns[name] for thread in threads)]
    longest = max((len(visible(thread.title)) for thread in threads[:most]), default=6)
    room = sum(map(_column, names)) if width is None else width - longest - _column("") - 2
    others: list[str] = []
    while names and sum(map(_column, names)) + (_column(_OTHER) if others else 0) > room:
        least = min(names, key=lambda name: (name != _OTHER, name == _RUNS, sum(thread.columns[name] for thread in threads)))
        others.append(least)
        names.remove(least)
    columns = {**{name: [name] for name in names}, **({_OTHER: others} if others else {})}
    yield f"{'Thread':<{longest}} {'time':>10}" + "".join(f"{_TITLES.get(name, name):>{_column(name)}}" for name in columns)
    for thread in threads[:most]:
        times = {name: sum(thread.columns[one] for one in parts) for name, parts in columns.items()}
        cells = "".join(f"{percent(time / thread.wall) if time and thread.wall else '-':>{_column(name)}}" for name, time in times.items())
        yield f"{visible(thread.title):<{longest}} {duration_text(thread.wall):>10}{cells}"
    rest = len(threads) - len(threads[:most])
    if rest:
        yield f"{rest:,} more {plural(rest, 'thread')} (-v shows all)"


def _column(name: str) -> int:
    """Return the width of a column with the blank before it."""
    return 1 + max(len(_TITLES.get(name, name)), 8)


def longest_waits(explanation: Explanation) -> list[Cause]:
    """Return the waits of all threads by what they wait for, the longest first."""
    groups = explanation.waits
    return [cause for cause in groups.children([ROOT]) if cause.kind not in _NO_WAITS]


def _merge_alike(groups: CauseGroups, waits: Sequence[Cause]) -> list[Cause]:
    """Return the waits, the longest first; waits of several threads for something of their own are one, as workers have.

    They differ by the addresses of locks without a name only.
    """
    merged: dict[Cause, list[Cause]] = {}
    for cause in waits:
        is_own = cause.lock and cause.lock not in groups.lock_names and len(groups.all_of("tids", cause.nodes)) == 1
        label = cause._replace(lock=0, time=0, nodes=()) if is_own else cause
        merged.setdefault(label, []).append(cause)
    causes = [
        label._replace(time=sum(one.time for one in some), nodes=tuple(node for one in some for node in one.nodes)) if some[1:] else some[0]
        for label, some in merged.items()
    ]
    return sorted(causes, key=lambda cause: -cause.time)


def _has_python(explanation: Explanation, waits: Sequence[Cause]) -> bool:
    """Return whether Python code waits, and its functions were not recorded."""
    groups = explanation.waits
    chains = [chain for chain, _ in (groups.largest("chains", cause.nodes) for cause in waits) if chain >= 0]
    is_run = any(_INTERPRETER in groups.meanings.names_of(chain) for chain in chains)
    return is_run and not any(meaning.is_python for meaning in groups.meanings.meanings)


def _wait(explanation: Explanation, cause: Cause, text: str, *, whole: bool) -> Iterator[str]:
    groups = explanation.waits
    count = sum(groups.all_of("counts", cause.nodes).values())
    times = f"{count:,} {plural(count, 'time')}"
    yield f"{duration_text(cause.time):>10}  {text}, {times}{waker_text(explanation, groups, cause)}"
    for title, detail in (("waits", "chains"), ("ended by", "waker_chains")):
        chain, _ = groups.largest(detail, cause.nodes)
        names = groups.meanings.names_of(chain) if chain >= 0 else []
        if not names or (detail == "waker_chains" and groups.interrupted(cause.nodes) > groups.largest("wakers", cause.nodes)[1]):
            continue
        if whole:
            yield f"              {title}:"
            yield from (f"                  {visible(readable(name))}" for name in names)
        else:
            yield f"              {title}: {' < '.join(visible(readable(name)) for name in short_stack(names))}"


def short_stack(names: Sequence[str]) -> list[str]:
    """Return the functions of a stack that fit in a line: without the kernel's entry and the scheduler.

    >>> short_stack(["__schedule", "schedule", "futex_do_wait", "do_syscall_64", "entry_SYSCALL_64_after_hwframe", "hold", "main"])
    ['futex_do_wait', 'hold', 'main']
    """
    left_out = ("__schedule", "schedule", "do_syscall_64", "x64_sys_call", "entry_SYSCALL_64_after_hwframe", "try_to_wake_up", "wake_up_q")
    frames = [name for name in names if name not in left_out]
    return frames if len(frames) <= _FRAMES else [*frames[: _FRAMES - 1], "..."]
