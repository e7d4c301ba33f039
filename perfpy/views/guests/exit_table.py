"""The table of `perfpy kvm stat report`, in perf's text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.analysis.guests.exits import EVENTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perfpy.analysis.guests.exits import Durations


def exit_lines(durations: Sequence[Durations], event: str, *, pids: str, vcpu: int) -> Iterator[str]:
    """Yield the lines of the table. pids: of -p, "" for all."""
    machines = f"pid(s) {pids}" if pids else "all VMs"
    cpus = f"VCPU {vcpu}" if vcpu >= 0 else "all VCPUs"
    yield from ("", "", f"Analyze events for {machines}, {cpus}:", "")
    headings = f"{'Samples':>10} {'Samples%':>9} {'Time%':>9} {'Min Time':>11} {'Max Time':>11} {'Avg time':>16} "
    yield f"{EVENTS[event]:>40} {headings}"
    yield ""
    count, total = sum(one.count for one in durations), sum(one.total for one in durations)
    for one in durations:
        shares = f"{one.count:>10} {100 * one.count / count:>8.2f}% {100 * one.total / max(total, 1):>8.2f}%"
        times = f"{_microseconds(one.shortest):>11} {_microseconds(one.longest):>11} {_microseconds(one.mean):>11}"
        yield f"{one.name:>40} {shares} {times} ( +-{one.relative_error:>7.2f}% )"
    yield ""
    yield f"Total Samples:{count}, Total events handled time:{_microseconds(total)}."
    yield ""


def _microseconds(nanoseconds: float) -> str:
    return f"{nanoseconds / 1000:.2f}us"
