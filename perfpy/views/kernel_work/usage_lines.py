"""The tasks by the CPU time that they used, byte for byte perf 6.12's `kwork top`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.analysis.kernel_work.events import IRQ, SOFTIRQ
from perfpy.views.kernel_work.work_tables import MILLISECOND

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perfpy.analysis.kernel_work.cpu_usage import CpuUsage, TaskUsage

_BAR_WIDTH: Final = 30
_WHOLE: Final = 10_000  # hundredths of a percent
_MOST_BARS: Final = 4 * _BAR_WIDTH


def usage_lines(usage: CpuUsage, tasks: Sequence[TaskUsage]) -> Iterator[str]:
    """Yield the lines. tasks: those of the usage, sorted."""
    yield ""
    yield f"Total  : {usage.total / MILLISECOND:10.3f} ms, {len(usage.load)} cpus"
    shares = [100 * time / usage.total if usage.total else 0.0 for time in (usage.idle, usage.interrupts[IRQ], usage.interrupts[SOFTIRQ])]
    yield "%Cpu(s): {:6.2f}% id, {:6.2f}% hi, {:6.2f}% si".format(*shares)
    for cpu, load in usage.load.items():
        bar = "|" * min(load * _BAR_WIDTH // _WHOLE, _MOST_BARS)
        yield f"%Cpu{cpu:<4d}[{bar:<{_BAR_WIDTH}} {load // 100:3d}.{load % 100:02d}%]"
    yield ""
    yield f"  {'PID':>7}  {'%CPU':>6}  {'RUNTIME':>16}  {'COMMAND':<16}"
    yield "  " + "-" * 52
    for task in tasks:
        share = f"{task.share // 100}.{task.share % 100:02d}"
        yield f"  {task.tid:7d}  {share:>6}  {task.runtime / MILLISECOND:13.3f} ms  {task.comm:<16}"
    yield ""
