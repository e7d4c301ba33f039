"""`perfpy top`: its options, the model of its table, and names."""

from __future__ import annotations

import gc
import json
import os
import re
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import perfpy
from perfpy.analysis.report.options import CallGraph, ColumnOptions, ReportOptions
from perfpy.analysis.sort_key import Mode
from perfpy.capture.record_options import parse_branch_filter
from perfpy.capture.runtimes.known_runtimes import runtime_of
from perfpy.cli import run
from perfpy.cli.line.perfconfig import Config
from perfpy.kernel.procfs import ProcFs
from perfpy.symbols.dso import Dso, DsoKind
from perfpy.tools.top import command as command_module
from perfpy.tools.top import names as names_module
from perfpy.tools.top import options as options_module
from perfpy.tools.top.command import Start, command
from perfpy.tools.top.model import CELLS, TopModel
from perfpy.tools.top.names import LiveJitNames, RunningContainers
from perfpy.tools.top.options import WINDOW, Rates, Subject, TopRequest, first_wait, header_lines
from tests.builders.perfdata import PerfDataBuilder
from tests.builders.sampled_program import Stack, sampled_program

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from perfpy.analysis.report.report import Report


# `perfpy top`: lines that are refused before anything is opened.


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["-d", "0"], "option -d expects a number of seconds, at least 0.01, not '0'"),
        (["-d", "nan"], "option -d expects a number of seconds, at least 0.01, not 'nan'"),
        (["--updates", "-1"], "option --updates expects a whole number up to 2147483647, not '-1'"),
        (["-F", "9", "-c", "9"], "-F excludes -c"),
        (["-G", "/"], "--cgroup requires -e before it"),
        (["-H", "--json"], "--hierarchy excludes --json"),
        (["-H", "--children"], "--hierarchy excludes --children"),
        (["-j", "nothing"], "--branch-filter nothing: unknown filter 'nothing'"),
        (["--off-cpu", "--python"], "--off-cpu excludes --python"),
        (["--off-cpu", "--by", "container"], "--off-cpu excludes --by container, because samples of waits have no cgroup"),
        (["--prefix-strip", "1"], "--prefix-strip requires --prefix"),
        (["--json", "--stdio"], "--json excludes --stdio"),
    ],
)
def test_a_wrong_line_exits_129_with_one_line(words: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["top", *words]) == 129
    assert capsys.readouterr().err.startswith(f"perfpy top: {text}")


@pytest.mark.parametrize("words", [["--branch-history"], ["--stitch-lbr"], ["--ignore-callees", "x"]])
def test_options_that_only_perf_has_are_refused_with_a_reason(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["top", *words]) == 129
    assert capsys.readouterr().err.startswith(f"perfpy top: perfpy does not have perf's option {words[0]}: ")


# The start of perfpy top ends with the first table, and leaves nothing changed.


def test_garbage_is_collected_again_after_the_first_table(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("setpriority", "sched_setscheduler"):
        monkeypatch.setattr(os, name, lambda *_values: None)
    frozen = gc.get_freeze_count()
    try:
        with Start() as begun:
            assert not gc.isenabled()
            begun.end()
            assert gc.isenabled()
            assert gc.get_freeze_count() > frozen
        gc.disable()
        with Start():
            pass
        assert not gc.isenabled()  # as before
    finally:
        gc.enable()
        gc.unfreeze()


def test_programs_before_the_first_table_are_no_realtime_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    realtime: list[float] = []
    monkeypatch.setattr(command_module, "HigherPriority", lambda _change, seconds: realtime.append(seconds))
    Start()
    Start(runs_programs=True)
    assert realtime == [2, 0]


# The command line of `perfpy top` as options of the library.


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
    monkeypatch.setattr(options_module, "may_count_cpus", lambda: False)
    monkeypatch.setattr(options_module, "paranoid_level", lambda: level)
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


# The rows of a live screen: their last minute, and what is certain about them.


SECONDS = 2.0


class Machine:
    """Makes reports of invented intervals: comm -> samples."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def report(self, samples: Mapping[str, int]) -> Report:
        builder = PerfDataBuilder()
        time = 0
        for tid, (comm, count) in enumerate(samples.items(), 100):
            builder.record(perfpy.abi.records.Comm(0, tid, tid, comm, perfpy.abi.records.SampleId(pid=tid, tid=tid, time=1)))
            for _ in range(count):
                time += 1
                builder.sample(ip=1, pid=tid, tid=tid, time=time + 10, period=1, misc=2)
        self._path.write_bytes(builder.file())
        with perfpy.open(self._path) as recording:
            report = recording.report(options=ReportOptions(columns=ColumnOptions(sort="comm")))
        for table in report.histograms:
            table.entries.measures[WINDOW] = table.entries.measures["period"]
        return report


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "perf.data")


def rates(samples: Mapping[str, int]) -> Rates:
    return Rates(SECONDS, sum(samples.values()), 0, 0, 0, 0)


def after(machine: Machine, *intervals: Mapping[str, int]) -> TopModel:
    model = TopModel()
    for samples in intervals:
        model.update(machine.report(samples), rates(samples))
    return model


def risen(model: TopModel) -> list[str]:
    return [row.texts[0] for row in model.rows() if row.has_risen]


def test_rows_are_sorted_by_their_share(machine: Machine) -> None:
    rows = after(machine, {"a": 10, "b": 30, "c": 20}).rows()
    assert [(row.texts, round(row.percent)) for row in rows] == [(("b",), 50), (("c",), 33), (("a",), 17)]


def test_a_sparkline_has_a_cell_for_each_five_seconds(machine: Machine) -> None:
    calm, busy = {"a": 10, "b": 90}, {"a": 80, "b": 20}
    row = next(row for row in after(machine, *[calm] * 10, *[busy] * 5).rows() if row.texts == ("a",))
    assert len(row.sparkline) == CELLS
    assert row.sparkline.startswith(" " * 6)  # before the first interval
    assert row.sparkline[6:10] == "▁" * 4
    assert row.sparkline[10:] == "██"


def test_intervals_older_than_a_minute_are_forgotten(machine: Machine) -> None:
    model = after(machine, *[{"a": 90, "b": 10}] * 5, *[{"b": 10}] * 31)
    model.update(machine.report({"a": 1, "b": 99}), rates({"a": 1, "b": 99}))
    row = next(row for row in model.rows() if row.texts == ("a",))
    assert row.sparkline[:-1].strip() == ""


def test_a_row_that_rose_in_the_last_seconds_is_marked(machine: Machine) -> None:
    calm, busy = {"a": 100, "b": 900}, {"a": 400, "b": 600}
    assert risen(after(machine, *[calm] * 5, *[busy] * 5)) == ["a"]
    assert risen(after(machine, *[calm] * 10)) == []


def test_a_rise_within_the_noise_is_not_marked(machine: Machine) -> None:
    assert risen(after(machine, *[{"a": 10, "b": 90}] * 5, *[{"a": 13, "b": 87}] * 5)) == []


def test_nothing_has_risen_without_a_time_before(machine: Machine) -> None:
    assert risen(after(machine, {"a": 1, "b": 999}, {"a": 999, "b": 1})) == []


def test_the_verdict_names_a_row_that_certainly_stands_out(machine: Machine) -> None:
    assert after(machine, {"a": 800, "b": 200}).verdict() == "a: 77 to 83 % of the samples"


@pytest.mark.parametrize("samples", [{"a": 500, "b": 500}, {"a": 8, "b": 2}, {"a": 1000}])
def test_without_certainty_there_is_no_verdict(machine: Machine, samples: Mapping[str, int]) -> None:
    assert after(machine, samples).verdict() == ""


@pytest.mark.parametrize(("python", "other", "is_told"), [(120, 60, True), (60, 120, False)])
def test_the_option_for_python_functions_is_named(python: int, other: int, is_told: bool, tmp_path: Path) -> None:
    """The interpreter's own functions say little about a program."""
    stacks = [Stack(("evaluate@python3.11",), python // 2), Stack(("allocate@python3.11",), python // 2), Stack(("work",), other)]
    with perfpy.open(sampled_program(tmp_path, stacks)) as recording:
        report = recording.report(options=ReportOptions(columns=ColumnOptions(sort="dso,symbol")))
    model = TopModel()
    model.update(report, Rates(SECONDS, python + other, 0, 0, 0, 0))
    assert ("perfpy top --python" in model.verdict()) is is_told


def test_the_filter_keeps_rows_with_its_text(machine: Machine) -> None:
    model = after(machine, {"server": 10, "Client": 30})
    model.filter = "CLI"
    assert [row.texts for row in model.rows()] == [("Client",)]


def test_names_are_safe_for_a_terminal(machine: Machine) -> None:
    (row,) = after(machine, {"p\33[2J\u202e": 10}).rows()
    assert row.texts == ("p^[[2J\\u202e",)


def test_processes_have_the_names_of_their_command_lines(tmp_path: Path) -> None:
    """Keys stay perf's texts, which find a row again when its process writes a title. Names of others are not trusted."""
    with perfpy.open(sampled_program(tmp_path, [Stack(("work",), 120)])) as recording:
        report = recording.report(options=ReportOptions(columns=ColumnOptions(sort="tgid")))
    model = TopModel(name_processes=lambda pids: dict.fromkeys(pids, "gunicorn: worker\33[2J 2"))
    model.update(report, Rates(SECONDS, 120, 0, 0, 0, 0))
    (row,) = model.rows()
    number, _, comm = row.key[0].strip().partition(":")
    assert (row.texts, comm) == ((f"{number}:gunicorn: worker^[[2J 2",), "app")


def test_no_samples_are_no_rows(machine: Machine) -> None:
    model = TopModel()
    assert (model.rows(), model.verdict(), model.table) == ([], "", None)
    del machine


def test_a_sentence_that_is_wider_than_the_screen_has_no_file(tmp_path: Path) -> None:
    stacks = [Stack(("work",), 180), Stack(("rest",), 20)]
    with perfpy.open(sampled_program(tmp_path, stacks)) as recording:
        report = recording.report(options=ReportOptions(columns=ColumnOptions(sort="dso,symbol")))
    model = TopModel()
    model.update(report, Rates(SECONDS, 200, 0, 0, 0, 0))
    whole = model.verdict()
    assert " in app: " in whole
    assert model.verdict(len(whole)) == whole
    assert re.fullmatch(r"0x[0-9a-f]+: \d+ to \d+ % of the samples", model.verdict(len(whole) - 1))


# Names of containers from files of Docker, Podman, CRI-O and containerd, also from damaged and hostile ones.


ID = "0123456789abcdef" * 4
DOCKER, PODMAN, CONTAINERD = f"/system.slice/docker-{ID}.scope", f"/machine.slice/libpod-{ID}.scope", f"/kubepods/pod1/{ID}"


def write(folder: Path, path: str, content: Any) -> None:
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content if isinstance(content, str) else json.dumps(content))


def text(root: Path, path: str) -> str:
    return RunningContainers(str(root), str(root / "home")).text(path)


def test_each_runtime_gives_its_names(tmp_path: Path) -> None:
    assert text(tmp_path, DOCKER) == "docker 0123456789ab"
    write(tmp_path, f"var/lib/docker/containers/{ID}/config.v2.json", {"ID": ID, "Name": "/web"})
    assert text(tmp_path, DOCKER) == "docker web (0123456789ab)"
    assert text(tmp_path, "/user.slice") == "host"
    assert text(tmp_path, "/lxc/web") == "lxc web"


@pytest.mark.parametrize("place", ["var/lib", "home/.local/share"])
def test_podman_names_its_containers_in_one_file(place: str, tmp_path: Path) -> None:
    rows = [{"id": "f" * 64, "names": ["other"]}, {"id": ID, "names": ["db"]}, {"id": 3}, "row"]
    write(tmp_path, f"{place}/containers/storage/overlay-containers/containers.json", rows)
    assert text(tmp_path, PODMAN) == "podman db (0123456789ab)"


def test_containers_of_kubernetes_have_the_names_of_their_pods(tmp_path: Path) -> None:
    annotations = {f"io.kubernetes.cri.{name}": name[:4] for name in ("container-name", "sandbox-name", "sandbox-namespace")}
    write(tmp_path, f"run/containerd/io.containerd.runtime.v2.task/k8s.io/{ID}/config.json", {"annotations": annotations})
    assert text(tmp_path, CONTAINERD) == "kubernetes sand/sand/cont (0123456789ab)"


@pytest.mark.parametrize(
    "content", ["", "{", "[[]]", "7", '{"Name": 7}', '{"Name": null}', "[" * 100_000, "\ufeff{}", '{"annotations": []}']
)
def test_damaged_files_give_no_names(content: str, tmp_path: Path) -> None:
    for path in (f"var/lib/docker/containers/{ID}/config.v2.json", "var/lib/containers/storage/overlay-containers/containers.json"):
        write(tmp_path, path, content)
    write(tmp_path, f"run/containerd/io.containerd.runtime.v2.task/k8s.io/{ID}/config.json", content)
    assert text(tmp_path, DOCKER) == "docker 0123456789ab"


def test_names_are_one_short_line(tmp_path: Path) -> None:
    write(tmp_path, f"var/lib/docker/containers/{ID}/config.v2.json", {"Name": "/a\x1b]0;title\x07\n" + "b" * 1000})
    name = text(tmp_path, DOCKER)
    assert name.isprintable()
    assert len(name) < 120


def test_names_are_looked_up_again_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    containers = RunningContainers(str(tmp_path), str(tmp_path))
    assert containers.text(DOCKER) == "docker 0123456789ab"
    write(tmp_path, f"var/lib/docker/containers/{ID}/config.v2.json", {"Name": "/web"})
    assert containers.text(DOCKER) == "docker 0123456789ab"
    monkeypatch.setattr(names_module, "_VALID_FOR", 0.0)
    containers._texts.clear()
    assert containers.text(DOCKER) == "docker web (0123456789ab)"


# Requests of perf maps for a live view: when, of which processes, and what follows an answer.


class Symbols:
    """Notes the files that are to be read again."""

    def __init__(self) -> None:
        self.forgotten: list[str] = []

    def forget(self, names: set[str]) -> None:
        self.forgotten += names


def frames(*pids: int, symbol: int = -1) -> Any:
    """Frames in the compiled code of processes, and one of a file."""
    dsos = [Dso("/bin/java"), *(Dso(f"/tmp/perf-{pid}.map", DsoKind.JIT) for pid in pids)]
    symbols = np.full(len(dsos), symbol, np.int32)
    return SimpleNamespace(dsos=dsos, frames=SimpleNamespace(dso=np.arange(len(dsos), dtype=np.int32), symbol=symbols))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The processes that were asked; 13 refuses, 40 and more are no JVMs."""
    pids: list[int] = []

    def ask(requested: list[int]) -> list[str]:
        pids.extend(requested)
        return ["process 13 refuses"] if 13 in requested else []

    monkeypatch.setattr(names_module, "ask", ask)
    monkeypatch.setattr(names_module, "is_java", lambda pid: pid < 40)
    monkeypatch.setattr(names_module, "_PAUSE", 0.0)
    return pids


def await_answers(names: LiveJitNames, symbols: Any, number: int) -> list[str]:
    """Take the answers; return the failures."""
    end, failures = time.monotonic() + 10, list[str]()
    while number and time.monotonic() < end:
        number -= not names._answers.empty()
        names.prepare(symbols)
        failures += names.failures()
        time.sleep(0.001)
    return failures


def test_a_map_is_requested_for_code_without_names_and_read_again(asked: list[int]) -> None:
    names, symbols = LiveJitNames(), Symbols()
    names.see(frames(7, 41))
    names.see(frames(7))  # it has not answered
    assert await_answers(names, symbols, 1) == []
    assert (asked, symbols.forgotten) == ([7], ["/tmp/perf-7.map"])
    names.see(frames(7, symbol=0))
    assert asked == [7]
    names.see(frames(7))
    await_answers(names, symbols, 1)
    names.close()
    assert asked == [7, 7]


def test_a_process_that_gave_no_map_is_reported_once_and_left_alone(asked: list[int]) -> None:
    names, symbols = LiveJitNames(), Symbols()
    names.see(frames(13))
    assert await_answers(names, symbols, 1) == ["process 13 refuses"]
    names.see(frames(13))
    names.close()
    assert (asked, symbols.forgotten, names.failures()) == ([13], [], [])


def test_with_targets_no_other_process_is_read(asked: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names_module, "runtime_of_process", lambda pid: runtime_of("python3" if pid == 41 else "java"))
    monkeypatch.setattr(names_module, "lacks", lambda pid, **_options: "" if pid == 8 else f"process {pid} is Node.js")
    names = LiveJitNames([8, 41, 42])
    hints = list(names.begin(with_callers=False))
    names.see(frames(9))
    await_answers(names, Symbols(), 1)
    names.close()
    assert asked == [8]
    assert ["top --python" in hint for hint in hints] == [True, False]
