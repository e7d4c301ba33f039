"""The command line of `perfpy top` as options of the library."""

from __future__ import annotations

import os

import pytest

from perfpy.analysis.entries.options import CallGraph, ReportOptions
from perfpy.analysis.sortkeys.sort_key import Mode
from perfpy.capture.option_values import parse_branch_filter
from perfpy.cli.line.perfconfig import Config
from perfpy.cli.top import request as module
from perfpy.cli.top.command import command
from perfpy.cli.top.request import TopRequest, first_wait
from perfpy.kernel.procfs import ProcFs


def request(*words: str, notes: list[str] | None = None) -> TopRequest:
    messages: list[str] = [] if notes is None else notes
    return TopRequest(command.options_class.read(command.parser(words)), Config({}), messages.append)


def report(*words: str) -> ReportOptions:
    return request(*words).report_options(of_tracepoints=False)


def test_without_options_rows_are_functions_of_files() -> None:
    options = report()
    assert (options.columns.sort, options.columns.children, options.chains.call_graph) == ("dso,symbol", False, None)


def test_tracepoints_are_shown_with_their_text() -> None:
    assert request().report_options(of_tracepoints=True).columns.sort == "trace"
    assert request("-s", "comm").report_options(of_tracepoints=True).columns.sort == "comm"


@pytest.mark.parametrize(
    ("words", "graph", "children"),
    [
        (["-g"], CallGraph(order="caller"), True),
        (["-g", "--no-children"], CallGraph(order="callee"), False),
        (["--call-graph", "fp,caller", "--no-children"], CallGraph(order="caller"), False),
        (["--call-graph", "dwarf,4096,flat,1.5"], CallGraph(style="flat", percent=1.5, order="caller"), True),
        (["--call-graph", "fp,graph,0.5,callee,address"], CallGraph(order="callee", key="address"), True),
    ],
)
def test_call_graphs_are_ordered_as_in_perf(words: list[str], graph: CallGraph, children: bool) -> None:
    options = report(*words)
    assert (options.chains.call_graph, options.chains.children) == (graph, children)


def test_the_mode_of_call_graph_is_that_of_record() -> None:
    chain = request("--call-graph", "dwarf,4096,flat").record_options().sampling.callchain
    assert chain is not None
    assert (chain.mode, chain.stack_size, chain.addresses) == ("dwarf", 4096, False)


def test_python_functions_are_rows_with_trees_on_a_screen_or_on_request() -> None:
    text, screen = report("--python"), request("--python").report_options(of_tracepoints=False, is_screen=True)
    assert (text.columns.sort, text.columns.children, text.chains.call_graph) == ("pyfunc", False, None)
    assert (screen.columns.sort, screen.columns.children) == ("pyfunc", True)
    assert screen.chains.call_graph == report("--python", "-g").chains.call_graph == CallGraph(order="caller")
    assert report("--python", "--children").columns.children
    assert request("--python").symbol_options().fold_interpreters
    assert not request().symbol_options().fold_interpreters


def test_python_frames_have_their_own_callchains_unless_a_mode_is_given() -> None:
    options = request("--python").record_options()
    assert (options.python, options.sampling.callchain) == (True, None)
    chain = request("--python", "--call-graph", "dwarf,4096").record_options().sampling.callchain
    assert chain is not None
    assert (chain.mode, chain.stack_size) == ("dwarf", 4096)


@pytest.mark.parametrize(("words", "follows"), [([], False), (["-s", "cgroup,comm"], True), (["--all-cgroups"], True)])
def test_cgroups_are_followed_if_rows_show_them(words: list[str], follows: bool) -> None:
    assert request(*words).record_options().side_band.all_cgroups is follows


@pytest.mark.parametrize(
    ("level", "words", "user"),
    [
        (2, [], str(os.getuid())),
        (1, [], str(os.getuid())),
        (2, ["-a"], ""),
        (2, ["-p", "1"], ""),
        (2, ["-u", "ada"], "ada"),
        (3, [], ""),  # the kernel's refusal has the reason
    ],
)
def test_users_without_privileges_watch_their_processes(level: int, words: list[str], user: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "may_count_cpus", lambda: False)
    monkeypatch.setattr(module, "paranoid_level", lambda: level)
    notes: list[str] = []
    assert request(*words, notes=notes).record_options().target.user == user
    assert bool(notes) == (user == str(os.getuid()) and not words)


def test_branches_are_sampled_and_their_ends_are_the_columns() -> None:
    for words, kinds in ((["-b"], "any"), (["-j", "any_call,u"], "any_call,u")):
        assert request(*words).record_options().sampling.branch_filter == parse_branch_filter(kinds)
        columns = report(*words).columns
        assert (columns.mode, columns.sort) == (Mode.BRANCH, None)


def test_a_hierarchy_has_no_callers_shares() -> None:
    options = report("-H", "-g")
    assert (options.rows.hierarchy, options.columns.children) == (True, False)


def test_waits_are_shown_by_command_and_state() -> None:
    assert report("--off-cpu").columns.sort == "comm,state,symbol"
    assert request("--off-cpu").record_options().off_cpu.enabled


def test_stacks_of_python_programs_are_copied_less_often() -> None:
    assert request("--python").record_options().sampling.freq == 499
    assert request("--python", "-F", "99").record_options().sampling.freq == 99
    sampling = request("--python", "-c", "1000").record_options().sampling
    assert (sampling.freq, sampling.period) == (None, 1000)


@pytest.mark.parametrize(("age", "wait"), [(0.4, 1.0), (1.0, 0.4), (5.0, 0.25)])
def test_a_slow_start_is_part_of_the_first_interval(age: float, wait: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProcFs, "seconds_since_start", lambda _self: age)
    assert first_wait(2) == pytest.approx(wait)
    assert first_wait(0.1) <= 0.05
