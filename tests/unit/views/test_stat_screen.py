"""Tests of counts on a terminal: they fit the window, nothing is skipped silently, reasons are below."""

from __future__ import annotations

import errno
import re
from typing import TYPE_CHECKING

import pytest

from perfpy.counts.aggregation import CountState
from perfpy.errors import KernelRefusedError
from perfpy.views.stat_screen import ScreenView
from tests.builders.tallies import clock, hardware, pmu_counts, tally

if TYPE_CHECKING:
    from perfpy.counts.tally import Tally


def shown(counts: Tally, *, width: int = 100, colour: str = "", separators: str = ",") -> list[str]:
    return "".join(ScreenView("'cmd'", width=width, colour=colour, separators=separators).render(counts)).splitlines()


def without_pmu() -> Tally:
    missing = hardware("cycles", 0)
    why_not = KernelRefusedError("perf_event_open", errno.ENOENT, event="cycles", cause="no PMU here", remedy="count clocks")
    state = CountState(supported=False, why_not=why_not)
    return tally({clock(): (10**9, 10**9, 10**9), missing: (0, 0, 0)}, {missing: state})


def test_columns_are_as_wide_as_necessary() -> None:
    """Count, unit, event, ratio; the second ratio below the first; the share of what shared the PMU."""
    lines = shown(tally(pmu_counts()))
    assert lines[3:10] == [
        "          count  unit  event                       ratio                           counted",
        "       1,000.00  msec  task-clock                  0.500  CPUs utilized",
        "  3,000,000,000        cycles                      3.000  GHz",
        " 12,000,000,000        instructions                 4.00  insn per cycle               50%",
        "                                                    0.05  stalled cycles per insn",
        "          1,000        branches                 1000.000  /sec",
        "             25        branch-misses               2.50%  of all branches",
    ]


def test_estimates_are_marked() -> None:
    assert any(
        re.match(r" 1 events? shared the PMU: .*instructions was counted 50% of the time", line) for line in shown(tally(pmu_counts()))
    )


def test_missing_counts_have_a_reason_and_a_remedy() -> None:
    lines = shown(without_pmu())
    assert " not supported        cycles" in lines
    assert " cycles: no PMU here; count clocks" in lines


@pytest.mark.parametrize("width", [20, 40, 60, 79, 200])
def test_no_line_of_the_table_is_wider_than_the_screen(width: int) -> None:
    for counts in (tally(pmu_counts()), without_pmu()):
        table = shown(counts, width=width)[3:]
        table = table[: table.index("")]
        assert len(table) >= 3
        assert all(len(line) <= max(width, 40) for line in table)


def test_a_ratio_is_never_shown_without_its_unit() -> None:
    for width in range(40, 90):
        text = "\n".join(shown(tally(pmu_counts()), width=width))
        assert ("3.000" in text) == ("GHz" in text)


def test_colours_mark_missing_counts_if_enabled() -> None:
    assert "\033[31m not supported        cycles\033[0m" in shown(without_pmu(), colour="\033")
    assert not any("\033" in line for line in shown(without_pmu()))


def test_intervals_keep_perfs_columns() -> None:
    """Widths cannot change from one interval to the next."""
    lines = shown(tally({clock(): (10**9, 10**9, 10**9)}, timestamp=10**9))
    assert lines[1].startswith("     1.000000000           1,000.00 msec task-clock                       #")
