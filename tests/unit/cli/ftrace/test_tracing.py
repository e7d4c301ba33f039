"""Tests of the settings that options of ftrace select, and of wrong lines."""

from __future__ import annotations

import pytest

from perfpy.cli import run
from perfpy.cli.ftrace import tracing
from perfpy.cli.ftrace.options import FtraceTraceOptions
from perfpy.errors import UsageError


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
    assert tracing.trace_settings(FtraceTraceOptions(**options)) == (tracer, settings)


@pytest.mark.parametrize(("text", "mask"), [("0", "1"), ("0-3,5", "2f"), ("32", "1,00000000"), ("31-32", "1,80000000")])
def test_cpus_are_masks(text, mask):
    assert tracing._cpu_mask(text) == mask


@pytest.mark.parametrize("text", ["depth", "depth=x", "depth=-1", "tail=1", "sleep"])
def test_wrong_options_of_the_tracer_are_refused(text):
    with pytest.raises(UsageError, match="--graph-opts"):
        tracing.graph_settings(text)


@pytest.mark.parametrize(
    "line",
    [
        "trace -m 1", "trace -m 4X", "trace --graph-opts depth", "trace -t hwlat", "latency -- true", "latency -T a -T b -- true",
        "latency -b -T a", "profile -s size -- true", "trace -p 1 -- true",
    ],
)  # fmt: skip
def test_wrong_command_lines_are_refused_before_any_system_call(line, capsys, monkeypatch):
    monkeypatch.setattr(tracing, "FunctionTracer", None)
    assert run(["ftrace", *line.split()]) == 129
    assert capsys.readouterr().err.count("\n") == 1


def test_a_command_without_an_action_is_traced(monkeypatch):
    calls = []

    def trace(options):
        calls.append((options.command, options.trace_funcs))
        return 0

    monkeypatch.setattr("perfpy.cli.ftrace.actions.trace", trace)
    for line in ("ftrace -T vfs_open -- ls -l", "ftrace ls -l", "ftrace trace ls -l"):
        assert run(line.split()) == 0
    assert calls == [(("ls", "-l"), ("vfs_open",)), (("ls", "-l"), ()), (("ls", "-l"), ())]
