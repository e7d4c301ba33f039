"""What the user is told of a recording of Python programs, at its end.

What enters: PythonSummary. What leaves: lines.
"""

from __future__ import annotations

from typing import NamedTuple

from perfpy.capture.python_frames.merging import EXACT, OPEN_LINES, PARTIAL, SEEN, UNKNOWN, UNPROVEN


class PythonSummary(NamedTuple):
    """How it went. counts: samples by grade (see merging); functions; lag: median from sample to reading, in ns; refused: pid -> why."""

    counts: tuple[int, ...]
    functions: int
    lag: int
    refused: dict[int, str]
    copied: int = 0  # samples whose frames the kernel copied


def notes(summary: PythonSummary) -> list[str]:
    """Return the lines."""
    total = sum(summary.counts)
    lines = []
    if total:
        known = total - summary.counts[UNKNOWN]
        lines.append(
            f"[ perf record: --python: {summary.functions} functions in {known} of {total} samples of Python code"
            f"{_doubts(summary.counts)}; {_moment(summary, known)} ]"
        )
    for pid, reason in sorted(summary.refused.items())[:3]:
        lines.append(f"warning: --python: {f'process {pid}: ' if pid else ''}{reason}")
    if not total and not summary.refused:
        lines.append("note: --python: no sample was taken in CPython's evaluation loop")
    return lines


def _moment(summary: PythonSummary, known: int) -> str:
    """Return when the frames were read."""
    late = f"read {summary.lag / 1e6:.2f} ms after their samples"
    if not summary.copied:
        return f"frames were {late}"
    others = known - summary.copied
    return f"the kernel copied frames with their samples{f', {others} were {late}' if others > 0 else ''}"


def _doubts(counts: tuple[int, ...]) -> str:
    """Say what is less than exact."""
    doubts = [
        (counts[SEEN], "with callers as at other moments"),
        (counts[OPEN_LINES], "without the line of a caller"),
        (counts[UNPROVEN], "by the number of calls alone"),
        (counts[PARTIAL], "without Python callers"),
    ]
    told = ", ".join(f"{count} {words}" for count, words in doubts if count)
    return f" ({counts[EXACT]} exact, {told})" if told else ""
