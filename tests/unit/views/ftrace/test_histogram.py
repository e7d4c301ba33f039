"""Tests of histograms and profiles from lines of the tracer function_graph."""

from __future__ import annotations

import pytest

from perfpy.views.ftrace.graph_line import Duration, duration_of
from perfpy.views.ftrace.histogram import DurationHistogram
from perfpy.views.ftrace.profile import FunctionProfile


@pytest.mark.parametrize(
    ("line", "call"),
    [
        (" 0)   0.768 us    |    irq_enter_rcu();", Duration("irq_enter_rcu", 0.768)),
        (" 0) + 82.272 us   |    }", Duration("", 82.272)),
        (" 0) ! 112.160 us  |    } /* do_filp_open */", Duration("do_filp_open", 112.16)),
        (" 12)   1.000 us    |  } /* nf_hook [nf_tables] */", Duration("nf_hook", 1.0)),
        ("    2.288536 |   0)   true-141     |   1.392 us    |    vfs_open() {", None),
        (" 0)               |    getname() {", None),
        (" 0)   1.5.5 us    |    odd();", None),
        (" ------------------------------------------", None),
        (" 0)  kworker-12   =>   true-141   ", None),
        ("CPU:0 [LOST 123 EVENTS]", None),
        ("", None),
    ],
)
def test_a_line_finishes_a_call_or_none(line, call):
    assert duration_of(line) == call


def test_the_histogram_is_perfs():
    histogram = DurationHistogram()
    for _ in range(27):
        histogram.add(" 0)   2.500 us    |  do_sys_openat2();")
    for _ in range(11):
        histogram.add(" 0)   7.999 us    |  do_sys_openat2();")
    histogram.add(" 0) $ 5000000 us   |  do_sys_openat2();")
    lines = list(histogram.lines())
    assert lines[0] == "#   DURATION     |      COUNT | GRAPH                                          |"
    assert lines[3] == "     2 - 4    us |         27 | ###############################                |"
    assert lines[4] == "     4 - 8    us |         11 | ############                                   |"
    assert lines[11] == "   512 - 1024 us |          0 |                                                |"
    assert lines[12] == "     1 - 2    ms |          0 |                                                |"
    assert lines[22] == "     1 - ...   s |          1 | #                                              |"
    assert len(lines) == 23


def test_an_empty_histogram_has_a_message():
    assert list(DurationHistogram().lines()) == ["No data found"]


def test_nanoseconds():
    histogram = DurationHistogram(nanoseconds=True)
    histogram.add(" 0)   0.768 us    |  vfs_open();")
    assert [line for line in histogram.lines() if " 1 |" in line] == [f"   512 - 1024 ns |          1 | {'#' * 46} |"]


def test_a_profile_adds_calls_by_function():
    profile = FunctionProfile()
    for line in (" 0)   1.000 us    |  a();", " 0)   3.000 us    |  } /* a */", " 0)   3.500 us    |  b();", " 0)   3.500 us    |  }"):
        profile.add(line)
    total = list(profile.lines("total"))
    assert [line.split()[-1] for line in total] == ["Function", "a", "b"]
    assert total[1].split()[:4] == ["4.000", "2.000", "3.000", "2"]
    assert [line.split()[-1] for line in profile.lines("avg")] == ["Function", "b", "a"]
