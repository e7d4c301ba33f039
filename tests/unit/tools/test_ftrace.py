"""Tests of the settings that options of ftrace select, and of wrong lines."""

from __future__ import annotations

import pytest

from perfpy.cli import run
from perfpy.errors import UsageError
from perfpy.tools import ftrace
from perfpy.tools.ftrace import Duration, DurationHistogram, FtraceTraceOptions, FunctionProfile, duration_of


@pytest.mark.parametrize(
    ("options", "tracer", "settings"),
    [
        ({}, "function_graph", {}),
        ({"trace_funcs": ("vfs_*", "do_exit")}, "function", {"set_ftrace_filter": "vfs_*\ndo_exit"}),
        ({"trace_funcs": ("a",), "tracer": "function_graph"}, "function_graph", {"set_ftrace_filter": "a"}),
        ({"graph_funcs": ("a",), "nograph_funcs": ("b",)}, "function_graph", {"set_graph_function": "a", "set_graph_notrace": "b"}),
        ({"notrace_funcs": ("a",), "inherit": True}, "function", {"set_ftrace_notrace": "a", "options/function-fork": "1"}),
        ({"buffer_size": "2M"}, "function_graph", {"buffer_size_kb": "2048"}),
        (
            {"func_opts": "call-graph,irq-info", "tracer": "function"},
            "function",
            {"options/func_stack_trace": "1", "options/irq-info": "1"},
        ),
        (
            {"graph_opts": "nosleep-time,thresh=10,depth=3,tail"},
            "function_graph",
            {"options/sleep-time": "0", "tracing_thresh": "10", "max_graph_depth": "3", "options/funcgraph-tail": "1"},
        ),
    ],
)
def test_options_select_a_tracer_and_its_settings(options, tracer, settings):
    assert ftrace.trace_settings(FtraceTraceOptions(**options)) == (tracer, settings)


@pytest.mark.parametrize(("text", "mask"), [("0", "1"), ("0-3,5", "2f"), ("32", "1,00000000"), ("31-32", "1,80000000")])
def test_cpus_are_masks(text, mask):
    assert ftrace._cpu_mask(text) == mask


@pytest.mark.parametrize("text", ["depth", "depth=x", "depth=-1", "tail=1", "sleep"])
def test_wrong_options_of_the_tracer_are_refused(text):
    with pytest.raises(UsageError, match="--graph-opts"):
        ftrace.graph_settings(text)


@pytest.mark.parametrize(
    "line",
    [
        "trace -m 1", "trace -m 4X", "trace --graph-opts depth", "trace -t hwlat", "latency -- true", "latency -T a -T b -- true",
        "latency -b -T a", "profile -s size -- true", "trace -p 1 -- true",
    ],
)  # fmt: skip
def test_wrong_command_lines_are_refused_before_any_system_call(line, capsys, monkeypatch):
    monkeypatch.setattr(ftrace, "FunctionTracer", None)
    assert run(["ftrace", *line.split()]) == 129
    assert capsys.readouterr().err.count("\n") == 1


def test_a_command_without_an_action_is_traced(monkeypatch):
    calls = []

    def trace(options):
        calls.append((options.command, options.trace_funcs))
        return 0

    monkeypatch.setattr(ftrace.command.actions["trace"], "function", trace)
    for line in ("ftrace -T vfs_open -- ls -l", "ftrace ls -l", "ftrace trace ls -l"):
        assert run(line.split()) == 0
    assert calls == [(("ls", "-l"), ("vfs_open",)), (("ls", "-l"), ()), (("ls", "-l"), ())]


# Tests of histograms and profiles from lines of the tracer function_graph.


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
