"""Tests of mem: the arguments for record and report, and the events of machines."""

from __future__ import annotations

import pytest

from perfpy.cli import run
from perfpy.cli.commands import load_command
from perfpy.errors import PerfError, UsageError
from perfpy.kernel.sysfs import Sysfs
from perfpy.tools.mem.command import choose_memory_events, memory_events
from tests.builders.memory_accesses import access, access_recording, data_src
from tests.builders.sysfs_tree import Tree

BOTH = ("load", "store")


def events_of(tmp_path, *pmus, latency=30):
    tree = Tree(tmp_path)
    for name, formats, events, files in pmus:
        tree.pmu(name, 4, formats, events, **files)
    return memory_events(Sysfs(str(tree.sys)), latency)


def intel(name="cpu", **events):
    return name, {"event": "config:0-7", "ldlat": "config1:0-15"}, {"mem-loads": "event=0xcd", "mem-stores": "event=0xd0", **events}, {}


def test_intel_samples_loads_above_a_latency_and_stores(tmp_path):
    events = events_of(tmp_path, intel(), latency=50)
    assert choose_memory_events(events, (), BOTH) == ["cpu/mem-loads,ldlat=50/P", "cpu/mem-stores/P"]
    assert choose_memory_events(events, (), ("store",)) == ["cpu/mem-stores/P"]
    assert choose_memory_events(events, ("ldlat-loads",), BOTH) == ["cpu/mem-loads,ldlat=50/P"]


def test_newer_intel_needs_a_leader_for_loads(tmp_path):
    events = events_of(tmp_path, intel(**{"mem-loads-aux": "event=0x3"}))
    assert events[0].text == "{cpu/mem-loads-aux/,cpu/mem-loads,ldlat=30/}:P"


def test_amd_samples_both_by_one_event(tmp_path):
    events = events_of(tmp_path, ("ibs_op", {"cnt_ctl": "config:19"}, {}, {}))
    assert choose_memory_events(events, (), ("load",)) == ["ibs_op//"]


def test_arm_has_filters_for_loads_and_stores(tmp_path):
    events = events_of(tmp_path, ("arm_spe_0", {"load_filter": "config:0"}, {}, {}))
    assert choose_memory_events(events, (), BOTH) == ["arm_spe_0/ts_enable=1,pa_enable=1,load_filter=1,store_filter=1,min_latency=30/"]
    assert "store_filter=1" in choose_memory_events(events, (), ("store",))[0]


def test_power_has_no_latency(tmp_path):
    events = events_of(tmp_path, ("cpu", {"event": "config:0-59"}, {"mem-loads": "event=0x1", "mem-stores": "event=0x2"}, {}))
    assert choose_memory_events(events, (), BOTH) == ["cpu/mem-loads/", "cpu/mem-stores/"]


def test_a_machine_without_events_is_refused_with_a_remedy(tmp_path):
    with pytest.raises(PerfError, match="no PMU of this machine samples memory accesses"):
        choose_memory_events(events_of(tmp_path, ("software", {}, {}, {})), (), BOTH)


def test_an_unknown_event_is_refused_with_the_known_ones(tmp_path):
    with pytest.raises(UsageError, match="ldlat-loads, ldlat-stores"):
        choose_memory_events(events_of(tmp_path, intel()), ("loads",), BOTH)


@pytest.fixture
def forwarded(monkeypatch):
    """The words that mem hands on to record or report."""
    words: list[list[str]] = []

    def run(name: str, args: list[str]) -> int:
        words.append([name, *args])
        return 0

    for name in ("record", "report"):
        monkeypatch.setattr(load_command(name), "run", run)
    return words


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("report", ["--mem-mode", "-n"]),
        ("-t load report -i x -f", ["--mem-mode", "-n", "--input=x", "--force"]),
        ("report -t store", ["--mem-mode", "-n", "--sort=mem,sym,dso,symbol_daddr,dso_daddr,tlb,locked"]),
        ("report -s mem -p", ["--mem-mode", "-n", "--sort=mem,phys_daddr"]),
        (
            "report --stdio --symfs DIR --no-children -x, word",
            ["--mem-mode", "-n", "--field-separator=,", "--stdio", "--symfs=DIR", "--no-children", "word"],
        ),
        ("report -S main --call-graph=caller", ["--mem-mode", "-n", "--symbols=main", "--call-graph=caller"]),
    ],
)
def test_report_gets_its_options(line, words, forwarded):
    assert run(["mem", *line.split()]) == 0
    assert forwarded == [["report", *words]]


def test_record_gets_events_and_its_options(forwarded, tmp_path, monkeypatch):
    events = events_of(tmp_path, intel())
    monkeypatch.setattr("perfpy.tools.mem.command.memory_events", lambda _sysfs, _latency: events)
    assert run(["mem", "record", "-p", "-o", "x", "-K", "--", "./program", "-a"]) == 0
    chosen = ["-e", "cpu/mem-loads,ldlat=30/P", "-e", "cpu/mem-stores/P"]
    assert forwarded == [["record", "-W", "-d", "--phys-data", "--all-kernel", *chosen, "--output=x", "./program", "-a"]]
    assert run(["c2c", "record", "-l", "30", "-u", "-g", "./program"]) == 0
    own = ["-W", "-d", "--phys-data", "--sample-cpu", "--all-user"]
    assert forwarded[1] == ["record", *own, *chosen, "-g", "./program"]


def test_events_are_listed(tmp_path, monkeypatch, capsys):
    events = events_of(tmp_path, intel())
    monkeypatch.setattr("perfpy.tools.mem.command.memory_events", lambda _sysfs, _latency: events)
    assert run(["mem", "record", "-v", "-e", "list"]) == 0
    assert capsys.readouterr().out == "ldlat-loads  : available (cpu/mem-loads,ldlat=30/P)\nldlat-stores : available (cpu/mem-stores/P)\n"


@pytest.mark.parametrize("line", ["report -t loads", "report -T", "report --nonsense", "nonsense"])
def test_wrong_lines_are_refused(line, capsys):
    assert run(["mem", *line.split()]) == 129
    assert capsys.readouterr().err.count("\n") == 1


def test_accesses_are_lines(tmp_path, capsys):
    path = tmp_path / "x"
    path.write_bytes(access(access(access_recording(), data_src()), data_src(), ip=0x1, cpu=3).file())
    assert run(["mem", "report", "-D", "-x,", "-i", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "# PID, TID, IP, ADDR, LOCAL WEIGHT, DSRC, SYMBOL"
    assert lines[1:] == ["10,10,0x400010,0x600008,50,0x100142,/bin/prog-alpha:???", "10,10,0x1,0x600008,50,0x100142,???:???"]
    assert run(["mem", "-C", "3", "report", "-D", "-i", str(path)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
