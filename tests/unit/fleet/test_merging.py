"""Several builds of one file on several hosts: functions are rows by name, never by address; lines belong to each build."""

from __future__ import annotations

import pytest

import perfpy
from perfpy.abi import records
from perfpy.abi.flags import SampleType
from perfpy.analysis.report.options import CallGraph, ChainOptions, ColumnOptions, ReportOptions
from perfpy.analysis.stacks import StackOptions
from perfpy.fleet.folding import FoldingRequest, fold_group, fold_recording, merge_groups
from perfpy.fleet.merging import MergedProfile, add_local_symbols
from perfpy.fleet.recordings import Recordings
from perfpy.perfdata.header import Feature
from perfpy.recording import Recording
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.views.report.text import TextOptions, report_lines
from perfpy.views.stacks.exports import folded_lines, speedscope
from perfpy.views.stacks.protobuf_exports import pprof
from tests.builders.hosts import merge_profiles
from tests.builders.line_programs import COPY, END, advance_line, advance_pc, line_section, set_address, source_file, special
from tests.builders.perfdata import USUAL, PerfDataBuilder, usual_attr

OLD, NEW = "aa" * 20, "bb" * 20
BY_SITE = StackOptions(sites=True)
OPTIONS = SymbolOptions(cache=False)


def program(folder, build_id, first, functions):
    """Build a program whose functions have 0x10 bytes each, from 0x1000 on; its lines are `first` and the next."""
    steps = COPY + special(16, 1) + special(16, 1) + advance_pc(16) + END
    lines = line_section(set_address(0x1000) + advance_line(first - 1) + steps, [("a.c", 1)], ["src"], version=4)
    elf = source_file(lines, comp_dir="/build").build_id(build_id)
    for number, name in enumerate(functions):
        elf.symbol(name, 0x1000 + 0x10 * number, 0x10)
    folder.mkdir()
    (folder / "prog").write_bytes(elf.build())
    return str(folder / "prog")


def recording(path, build_id, addresses, host):
    """Record samples at addresses of a program, each with a callchain: its own address, and the first function."""
    built = PerfDataBuilder([usual_attr(USUAL | SampleType.CALLCHAIN)])
    built.record(records.Comm(0, 7, 7, "prog"))
    built.record(records.Mmap2(2 | 1 << 14, 7, 7, 0x400000, 0x1000, 0x1000, 0, 0, 0, 0, 5, 2, path, bytes.fromhex(build_id)))
    for number, address in enumerate(addresses):
        ip = 0x400000 + address - 0x1000
        built.sample(misc=2, ip=ip, pid=7, tid=7, time=200 + number, period=1000, callchain=[(1 << 64) - 512, ip, 0x400008])
    return built.feature(Feature.HOSTNAME, host).file()


@pytest.fixture
def hosts(tmp_path):
    """Record two hosts: main and work in the old program; other, main and work in the new one."""
    old = program(tmp_path / "old", OLD, 2, ["main", "work"])
    new = program(tmp_path / "new", NEW, 50, ["other", "main", "work"])
    (tmp_path / "one.data").write_bytes(recording(old, OLD, [0x1000, 0x1010, 0x1014], "one"))
    (tmp_path / "two.data").write_bytes(recording(new, NEW, [0x1000, 0x1010, 0x1020, 0x1024], "two"))
    return Recordings([str(tmp_path / "one.data"), str(tmp_path / "two.data")], jobs=1, symbols=OPTIONS)


def rows(report):
    return {tuple(row.texts.values()): row.samples for row in report}


def test_functions_are_one_row_by_name_and_file(hosts):
    assert rows(hosts.report(by="dso,symbol")) == {("prog", "[.] work"): 4, ("prog", "[.] main"): 2, ("prog", "[.] other"): 1}


def test_builds_are_separate_rows_on_request(hosts):
    actual_rows = rows(hosts.report(by="build_id,symbol"))
    assert actual_rows == {
        (OLD, "[.] main"): 1, (OLD, "[.] work"): 2, (NEW, "[.] other"): 1, (NEW, "[.] main"): 1, (NEW, "[.] work"): 2,
    }  # fmt: skip


def test_there_is_a_note_of_several_builds(hosts):
    assert any("prog (2)" in note for note in hosts.report(by="symbol").notes)
    assert not any("prog" in note for note in hosts.report(by="build_id,symbol").notes)
    assert not any("prog" in note for note in hosts.report(by="host").notes)


def test_each_build_has_its_own_lines(hosts):
    """Both builds have code at one address, from different lines."""
    results = {(name.removeprefix("[.] "), line): count for (name, line), count in rows(hosts.report(by="symbol,srcline")).items()}
    old = {("main", "a.c:2"): 1, ("work", "a.c:3"): 2}
    assert results == old | {("other", "a.c:50"): 1, ("main", "a.c:51"): 1, ("work", "a.c:52"): 2}
    assert rows(hosts.report(by="srcfile")) == {("a.c",): 7}


def test_callers_are_functions_by_name(hosts):
    """`other` and the old `main` have the same address."""
    options = ReportOptions(chains=ChainOptions(call_graph=CallGraph(order="caller"), children=True), columns=ColumnOptions(sort="symbol"))
    text = "\n".join(report_lines(hosts.report(options=options), TextOptions()))
    children = {line.split()[-1]: line.split()[0] for line in text.splitlines() if "[.]" in line}
    assert children == {"other": "57.14%", "work": "57.14%", "main": "57.14%"}
    assert "28.57%--work" in text


def test_stacks_and_their_files(hosts):
    (stacks,) = hosts.stacks()
    assert sorted(folded_lines(stacks)) == [
        "prog;main;main 1000",
        "prog;main;work 2000",
        "prog;other;main 1000",
        "prog;other;other 1000",
        "prog;other;work 2000",
    ]
    (with_sites,) = hosts.stacks(options=BY_SITE)
    assert with_sites.sites is not None
    assert {mapping.build_id for mapping in with_sites.sites.mappings} == {OLD, NEW}
    assert {source.line for source in with_sites.sites.sources} >= {2, 3, 50, 51}
    assert pprof([with_sites])
    assert "/build/src/a.c" in speedscope([with_sites], "two")


def test_sites_of_one_recording_are_unchanged(hosts):
    for path in hosts.paths:
        with Recording(path, symbols=OPTIONS) as alone:
            expected = alone.stacks(options=BY_SITE)
        (result,) = Recordings([path], jobs=1, symbols=OPTIONS).stacks(options=BY_SITE)
        assert pprof([result]) == pprof(expected)
        assert speedscope([result], "x") == speedscope(expected, "x")


def test_symbols_that_workers_lack_are_found_by_build_id(hosts, tmp_path):
    """The program is at another path here, and missing where the recordings were read."""
    elsewhere = tmp_path / "elsewhere"
    for build_id, name in ((OLD, "old"), (NEW, "new")):
        folder = elsewhere / ".build-id" / build_id[:2]
        folder.mkdir(parents=True)
        (tmp_path / name / "prog").rename(folder / build_id[2:])

    def request_for(keys: str) -> FoldingRequest:
        options = ReportOptions(columns=ColumnOptions(sort=keys))
        return FoldingRequest(lambda _recording: (options, OPTIONS))

    for request in map(request_for, ("symbol", "build_id,symbol", "symbol,srcline")):
        parts = [fold_recording(path, request) for path in hosts.paths]
        part = merge_profiles([one for one in parts if one is not None])
        assert not part.symbols.names
        result = add_local_symbols(part, OPTIONS._replace(buildid_dir=str(cache_of(tmp_path, elsewhere))))
        assert set(result.symbols.names) == {"main", "work", "other"}
        assert len(MergedProfile(result).symbolizer.symbols) == len(result.symbols.names)


def cache_of(tmp_path, elsewhere):
    """Return a build-id cache with both programs."""
    folder = tmp_path / "cache"
    if not folder.exists():
        for build_id in (OLD, NEW):
            entry = folder / ".build-id" / build_id[:2] / build_id[2:]
            entry.mkdir(parents=True)
            (entry / "elf").write_bytes((elsewhere / ".build-id" / build_id[:2] / build_id[2:]).read_bytes())
    return folder


def test_missing_symbols_of_a_cluster_are_resolved_here(hosts, tmp_path, monkeypatch):
    """The workers have no files."""

    def folded_elsewhere(_address, paths, request, _progress):
        return merge_groups([fold_group([path], request) for path in paths])

    monkeypatch.setattr("perfpy.fleet.cluster.fold_on_cluster", folded_elsewhere)
    options = ReportOptions(columns=ColumnOptions(sort="symbol"))
    nothing = OPTIONS._replace(symfs=str(tmp_path / "nothing"))
    there = Recordings(hosts.paths, cluster="tcp://somewhere:1", symbols=OPTIONS)
    here = rows(there.report(options=options, options_of=lambda _recording: (options, nothing)))
    assert here == rows(hosts.report(by="symbol"))
    alone = rows(Recordings(hosts.paths, jobs=1).report(options=options, options_of=lambda _recording: (options, nothing)))
    assert not set(alone) & set(here)


def test_files_of_one_build_have_no_note(hosts):
    one = Recordings(hosts.paths[:1], jobs=1, symbols=OPTIONS)
    assert not any("prog" in note for note in one.report(by="symbol").notes)


def test_code_that_runtimes_made_is_one_file_in_all_processes(tmp_path):
    """The map of one process has the function twice, because it was compiled again."""
    for pid in (7, 8):
        lines = ["1000 10 py::f:/a.py", "1010 10 py::f:/a.py", "1020 10 py::g:/a.py"]
        built = PerfDataBuilder()
        built.record(records.Comm(0, pid, pid, "python"))
        built.record(records.Mmap2(2, pid, pid, 0x1000, 0x1000, 0x1000, 0, 0, 0, 0, 5, 2, f"/tmp/perf-{pid}.map", b""))
        for number in range(3):
            built.sample(misc=2, ip=0x1000 + 0x10 * number, pid=pid, tid=pid, time=200 + number, period=1000)
        (tmp_path / f"{pid}.data").write_bytes(built.file())
        (tmp_path / "root" / "tmp").mkdir(parents=True, exist_ok=True)
        (tmp_path / "root" / "tmp" / f"perf-{pid}.map").write_text("\n".join(lines) + "\n")
    options = OPTIONS._replace(symfs=str(tmp_path / "root"))
    recordings = Recordings([str(tmp_path / f"{pid}.data") for pid in (7, 8)], jobs=1, symbols=options)
    assert rows(recordings.report(by="dso,symbol")) == {("[JIT]", "[.] py::f:/a.py"): 4, ("[JIT]", "[.] py::g:/a.py"): 2}


def test_where_and_columns(hosts):
    assert rows(hosts.where(host="two").report(by="symbol")) == {("[.] work",): 2, ("[.] main",): 1, ("[.] other",): 1}
    assert rows(hosts.where(symbol="main").report(by="host")) == {("one",): 1, ("two",): 1}
    assert hosts.samples["host"].tolist() == ["one"] * 3 + ["two"] * 4
    assert hosts.samples["symbol"].tolist() == ["main", "work", "work", "other", "main", "work", "work"]
    assert hosts.where(host="one").samples["recording"].tolist() == hosts.paths[:1] * 3
    assert len(hosts.samples["callchain"]) == 7
    assert sum(len(batch["host"]) for batch in hosts.samples.in_batches()) == 7
    assert [event.name for event in hosts.events] == ["cpu-clock:u"]
    assert [one.header["hostname"] for one in hosts] == ["one", "two"]
    with pytest.raises(KeyError, match="host, recording"):
        hosts.samples["nothing"]


def test_code_is_that_of_each_build(hosts):
    functions = list(hosts.annotate("work").functions())
    assert sorted((one.name, one.dso.build_id, int(one.samples[0].sum())) for one in functions) == [("work", OLD, 2), ("work", NEW, 2)]


def test_the_page_and_its_title(hosts, tmp_path):
    hosts.flamegraph(tmp_path / "page.html")
    assert "2 recordings" in (tmp_path / "page.html").read_text()


def test_many_have_the_methods_of_one():
    """Except methods of one machine or one clock, which a loop over the recordings provides."""
    own = {name for name in vars(perfpy.Recording) | vars(perfpy.Recording.__mro__[1]) if not name.startswith("_")}
    many = {name for kind in perfpy.Recordings.__mro__ for name in vars(kind)}
    assert {
        "report",
        "stacks",
        "page",
        "flamegraph",
        "where",
        "samples",
        "events",
        "tracepoint",
        "to_parquet",
        "annotate",
        "title",
        "warnings",
        "close",
    } <= own
    missing = own - many - {"warnings"}
    assert missing <= {
        "batches", "batch_of", "changes", "command_line", "environment", "follow_calls", "header", "merge_off_cpu", "make_timeline",
        "naming", "narrowed", "new_symbolizer", "page_of_changes", "path", "payloads", "pmcu", "records", "side_band", "source_files",
        "symbolizer", "timeline", "times", "unwinding", "within",
    }  # fmt: skip
