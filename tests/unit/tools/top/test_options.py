"""The command line of `perfpy top` as options of the library."""

from __future__ import annotations

import os

import pytest

from perfpy.analysis.report.options import CallGraph, ReportOptions
from perfpy.analysis.sort_key import Mode
from perfpy.capture.record_options import parse_branch_filter
from perfpy.cli.line.perfconfig import Config
from perfpy.kernel.procfs import ProcFs
from perfpy.tools.top import options as module
from perfpy.tools.top.command import command
from perfpy.tools.top.options import Rates, Subject, TopRequest, first_wait, header_lines


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


# The line above perf top's table: the same as perf 6.12's for every target.


RATES = Rates(2.0, 12730, 1044, 0, 0, 0)
ALL = Subject("cpu-clock:ppp", 4000, True, True, "", "", "", "", 2)
NUMBERS = "   PerfTop:    6365 irqs/sec  kernel: 8.2%  exact:  0.0% lost: 0/0 drop: 0/0 "


@pytest.mark.parametrize(
    ("subject", "text"),
    [
        (ALL, "[4000Hz cpu-clock:ppp],  (all, 2 CPUs)"),
        (ALL._replace(cpu_count=1), "[4000Hz cpu-clock:ppp],  (all, 1 CPU)"),
        (ALL._replace(pace=1000000, is_frequency=False), "[1000000 cpu-clock:ppp],  (all, 2 CPUs)"),
        (ALL._replace(is_alone=False), "[cpu-clock:ppp],  (all, 2 CPUs)"),
        (ALL._replace(pid="12,13"), "[4000Hz cpu-clock:ppp],  (target_pid: 12,13)"),
        (ALL._replace(tid="14"), "[4000Hz cpu-clock:ppp],  (target_tid: 14)"),
        (ALL._replace(cpus="0"), "[4000Hz cpu-clock:ppp],  (all, CPU: 0)"),
        (ALL._replace(cpus="0-1"), "[4000Hz cpu-clock:ppp],  (all, CPUs: 0-1)"),
        (ALL._replace(user="ada"), "[4000Hz cpu-clock:ppp],  (uid: ada, 2 CPUs)"),
    ],
)
def test_the_header_names_event_and_target(subject: Subject, text: str) -> None:
    assert header_lines(RATES, subject) == [NUMBERS + text, "-" * 79, ""]


def test_an_interval_without_samples_has_no_shares() -> None:
    line = header_lines(Rates(1.0, 0, 0, 0, 3, 17), ALL)[0]
    assert line.startswith("   PerfTop:       0 irqs/sec  kernel: 0.0%  exact:  0.0% lost: 3/17 drop: 0/0 [")


def test_all_samples_in_the_kernel_need_no_space() -> None:
    assert "kernel:100.0%  exact: 100.0%" in header_lines(Rates(1.0, 5, 5, 5, 0, 0), ALL)[0]


def test_skipped_samples_have_a_sentence() -> None:
    assert RATES.warning == ""
    assert RATES._replace(dropped=1, total_dropped=9).warning == "1 sample was skipped: this machine is too busy"
    assert RATES._replace(dropped=7).warning == "7 samples were skipped: this machine is too busy"
