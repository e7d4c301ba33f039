"""The final note of a recording with Python frames: their number and quality."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from perfpy.capture.python_frames.merging.callchains import EXACT, OPEN_LINES, PARTIAL, SEEN, UNKNOWN, UNPROVEN
from perfpy.plurals import plural
from perfpy.untrusted.text import visible

if TYPE_CHECKING:
    from perfpy.capture.python_frames.blocked_loops import BlockedLoops


class PythonSummary(NamedTuple):
    """The quality of a recording's Python frames.

    Attributes:
        counts: samples by grade (see merging).
        functions: the number of functions.
        lag: median time from a sample to its reading, ns.
        refused: pid -> why its memory was not read; pid 0: another problem.
        copied: samples whose frames the kernel copied.
        blocked_loops: the turns of event loops that lasted long.
    """

    counts: tuple[int, ...]
    functions: int
    lag: int
    refused: dict[int, str]
    copied: int = 0
    blocked_loops: BlockedLoops | None = None


def notes(summary: PythonSummary) -> list[str]:
    """Return the lines of the note."""
    total = sum(summary.counts)
    lines = []
    if total:
        known_count = total - summary.counts[UNKNOWN]
        lines.append(
            f"[ perf record: --python: {summary.functions} functions in {known_count} of {total} samples of Python code"
            f"{_describe_doubts(summary.counts)}; {_describe_lag(summary, known_count)} ]"
        )
    if summary.blocked_loops is not None and summary.blocked_loops.count:
        lines.append(_describe_blocked_loops(summary.blocked_loops))
    for pid, reason in sorted(summary.refused.items())[:3]:
        lines.append(f"warning: --python: {f'process {pid}: ' if pid else ''}{reason}")
    if not total and not summary.refused:
        lines.append("note: --python: no sample was taken in CPython's evaluation loop; perfpy stacks -p PID shows where a program waits")
    return lines


def _describe_blocked_loops(blocked: BlockedLoops) -> str:
    """Return how often event loops were blocked, for how long, and by what at most."""
    times = f"{blocked.count:,} {plural(blocked.count, 'time')}"
    code = blocked.callback
    name = f" by {visible(code.name)} ({visible(code.filename.rpartition('/')[2])}:{code.first_line})" if code else ""
    return f"note: --python: callbacks blocked the event loop for over 100 ms {times}, for {blocked.longest / 1e6:,.0f} ms or longer{name}"


def _describe_lag(summary: PythonSummary, sample_count: int) -> str:
    """Return when the frames were read."""
    late = f"read {summary.lag / 1e6:.2f} ms after their samples"
    if not summary.copied:
        return f"frames were {late}"
    others = sample_count - summary.copied
    return f"the kernel copied frames with their samples{f'; frames of {others} samples were {late}' if others > 0 else ''}"


def _describe_doubts(counts: tuple[int, ...]) -> str:
    """Count the samples that are less than exact."""
    doubts = [
        (counts[SEEN], "with callers as at other moments"),
        (counts[OPEN_LINES], "without the line of a caller"),
        (counts[UNPROVEN], "by the number of calls alone"),
        (counts[PARTIAL], "without Python callers"),
    ]
    text = ", ".join(f"{count} {words}" for count, words in doubts if count)
    return f" ({counts[EXACT]} exact, {text})" if text else ""
