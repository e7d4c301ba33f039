"""Recording: columns over the whole file, batches, and all records in order."""

from __future__ import annotations

import gc
import os
from typing import TYPE_CHECKING

import pytest

from perfpy.abi import records
from perfpy.abi.flags import SampleType
from perfpy.errors import OutputFailedError, UsageError
from perfpy.perfdata.event_format import TracingData
from perfpy.perfdata.header import Feature
from perfpy.recording import Recording, Sample
from perfpy.symbols.files.debug_files import Inline, SymbolOptions
from tests.builders.elf import Elf
from tests.builders.perfdata import USUAL, PerfDataBuilder, simple_recording, usual_attr

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    path = tmp_path / "perf.data"
    path.write_bytes(simple_recording(20).feature(Feature.HOSTNAME, "vm").file())
    return Recording(path)


def test_columns_are_read_by_name(recording: Recording) -> None:
    assert recording.samples.keys() == ["event", "misc", "cpumode", "ip", "pid", "tid", "time", "period"]
    assert recording.samples["ip"].tolist() == list(range(0x1000, 0x1014))
    assert recording.samples["event"].tolist() == [0] * 20
    assert set(recording.samples.to_dict()) == set(recording.samples)
    with pytest.raises(KeyError, match="this recording has event, misc"):
        recording.samples["callchain"]


def test_a_recording_without_samples_has_empty_columns(tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(PerfDataBuilder().file())
    assert {name: len(column) for name, column in Recording(path).samples.to_dict().items()} == dict.fromkeys(
        ["event", "misc", "cpumode", "ip", "pid", "tid", "time", "period"], 0
    )


def test_an_event_that_was_never_sampled_has_empty_columns(tmp_path: Path) -> None:
    addresses = usual_attr(USUAL | SampleType.IDENTIFIER | SampleType.ADDR | SampleType.CALLCHAIN)
    built = PerfDataBuilder(attrs=[usual_attr(USUAL | SampleType.IDENTIFIER), addresses], ids=[(1,), (2,)])
    (tmp_path / "perf.data").write_bytes(built.sample(0, ip=5, time=1).sample(0, ip=6, time=2).file())
    samples = Recording(tmp_path / "perf.data").samples
    assert samples["addr"].tolist() == [0, 0]
    assert [row.tolist() for row in samples["callchain"]] == [[], []]
    assert set(samples.to_dict()) == set(samples)


@pytest.mark.parametrize("sampled", [0, 1])
def test_a_tracepoint_without_raw_data_is_an_error(tmp_path: Path, sampled: int) -> None:
    text = b'name: switch\nID: 314\nformat:\n\tfield:int x;\toffset:8;\tsize:4;\tsigned:1;\n\nprint fmt: "%d", REC->x\n'
    page = b"\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n"
    tracing = TracingData("0.6", "<", 8, 4096, page, b"", (), (("sched", (text,)),), b"", b"", b"")
    attr = usual_attr(USUAL | SampleType.IDENTIFIER, type=2, config=314)
    built = PerfDataBuilder(attrs=[attr, usual_attr(USUAL | SampleType.IDENTIFIER)], ids=[(1,), (2,)]).sample(sampled, ip=5, time=1)
    (tmp_path / "perf.data").write_bytes(built.feature(Feature.TRACING_DATA, tracing.encode()).file())
    with pytest.raises(UsageError, match="have no raw data"):
        Recording(tmp_path / "perf.data").tracepoint("sched:switch")


def test_records_come_in_order_samples_among_them(recording: Recording) -> None:
    result = list(recording.records())
    assert [type(record) for record in result] == [records.Comm, records.Mmap2, *[Sample] * 20]
    assert result[2].event.name == "cpu-clock:u"
    assert int(result[2].fields["ip"]) == 0x1000


def test_the_header_and_the_context_manager(recording: Recording) -> None:
    with recording as same:
        assert same.header["hostname"] == "vm"
        assert sum(len(batch) for batch in same.batches(["ip"])) == 20
    assert recording.warnings == []


def test_the_title_is_without_the_folder_of_the_recorder(recording: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the name of exported profiles, which speedscope makes names of files from."""
    for command, title in (
        (["/opt/a b/bin/perf", "record", "--", "/srv/app x"], "perf record -- /srv/app x"),
        ([], recording.path),
        ("/bin/perf record", "perf record"),
    ):
        monkeypatch.setitem(recording.data.features, "cmdline", command)
        assert recording.title == title
        assert recording.command_line == (command if isinstance(command, str) else " ".join(command) or recording.path)


def test_damaged_symbol_files_are_among_the_warnings(recording: Recording, tmp_path: Path) -> None:
    (mapping,) = [record for record in recording.records() if isinstance(record, records.Mmap2)]
    program = tmp_path / mapping.filename.lstrip("/")
    program.parent.mkdir(parents=True)
    program.write_bytes(Elf().text().symbol("f", 0x1000, 16).build()[:-8])
    recording.report(symbols=SymbolOptions(symfs=str(tmp_path)))
    (warning,) = recording.warnings
    assert warning.startswith(f"{program} cannot be read: damaged ELF file (a table of ")


def test_a_report_takes_its_keys_as_a_text_too(recording: Recording) -> None:
    assert recording.report(by="comm,pid").top(1)[0].texts == recording.report(by=["comm", "pid"]).top(1)[0].texts


def test_a_flame_graph_is_one_page(recording: Recording, tmp_path: Path) -> None:
    recording.flamegraph(tmp_path / "flame.html", after=recording)
    assert (tmp_path / "flame.html").read_text().startswith("<!doctype html>")
    with pytest.raises(OutputFailedError, match="nowhere"):
        recording.flamegraph("/nowhere/flame.html")


def test_a_page_of_changes_tells_what_both_sides_share_once(recording: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Long command lines need the room of the first line."""
    with Recording(recording.path) as after:
        monkeypatch.setitem(recording.data.features, "cmdline", ["/bin/perf", "record", "./old"])
        monkeypatch.setitem(after.data.features, "cmdline", ["/bin/perf", "record", "./new"])
        monkeypatch.setitem(after.data.features, "arch", "x86_64")
        recording.flamegraph(tmp_path / "flame.html", after=after)
    assert '"environment":["before: perf record ./old","after: perf record ./new, x86_64","vm"]' in (tmp_path / "flame.html").read_text()


def test_a_page_resolves_symbols_once(recording: Recording) -> None:
    page = recording.page()
    assert len(recording._symbolizers) == 1
    recording.stacks()
    recording.stacks()
    assert len(recording._symbolizers) == 3, "outside of a context nothing is shared"
    with recording.shared_symbols, recording.shared_symbols:
        recording.stacks()
        recording.stacks(SymbolOptions(inline=Inline.NONE))
        recording.annotate(symbols=SymbolOptions(inline=Inline.NONE))
    assert len(recording._symbolizers) == 5, "only equal options share symbols"
    assert recording.page() == page


def test_an_unreferenced_recording_is_closed(recording: Recording) -> None:
    def open_files() -> int:
        return len(os.listdir("/proc/self/fd"))

    before = open_files()
    for _ in range(3):
        Recording(recording.path).report(by="comm")
    gc.collect()
    assert open_files() <= before


def test_columns_become_tables_of_other_packages(recording: Recording) -> None:
    pandas = pytest.importorskip("pandas")
    assert isinstance(recording.samples.to_pandas(), pandas.DataFrame)
    pytest.importorskip("pyarrow")
    assert recording.samples.to_arrow().num_rows == 20
