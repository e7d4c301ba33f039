"""Each run of kernel work on a line, byte for byte perf 6.12's `kwork timehist`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.views.kernel_work.work_tables import MILLISECOND, NAME_WIDTH, seconds_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_HEAD: Final = (
    f" {'Runtime start':<17}  {'Runtime end':<17}  {'Cpu':<6}  {'Kwork name':<30}  {'Runtime':<10}  {'Delaytime':<10}",
    f" {'':<17}  {'':<17}  {'':<6}  {'(TYPE)NAME:NUM':<30}  {'(msec)':<10}  {'(msec)':<10}",
    f" {'-' * 17}  {'-' * 17}  {'-' * 6}  {'-' * 30}  {'-' * 10}  {'-' * 10}",
)


def history_lines(runs: Iterable[tuple[int, int, int, str, int, str]]) -> Iterator[str]:
    """Yield the title and the line of each run.

    Args:
        runs: begin and end (nanoseconds), CPU, label, delay (nanoseconds; -1: none), and the text of the callchain.
    """
    yield from _HEAD
    for begin, end, cpu, label, delay, chain in runs:
        delay_text = f"{delay / MILLISECOND:10.3f}" if delay >= 0 else " " * 10
        runtime = max(end - begin, 0) / MILLISECOND
        times = f" {seconds_text(begin):>17}  {seconds_text(end):>17}  [{cpu:04d}]"
        yield f"{times}  {label:<{NAME_WIDTH}}  {runtime:10.3f}  {delay_text} {chain}"
