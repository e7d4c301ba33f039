"""Tests of exported recordings: reading them back gives the same results; further exports to the folder change nothing."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

import pytest

import perfpy
from perfpy import cli
from perfpy.abi.flags import SampleType
from perfpy.errors import BadPerfDataError, OutputFailedError, PerfError
from perfpy.perfdata.header import Feature
from tests.builders import own_corpus
from tests.builders.perfdata import USUAL, PerfDataBuilder, usual_attr
from tests.builders.traced import traced_recording

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("pyarrow")
LINES = (["report", "--stdio"], ["report", "--stdio", "--no-children", "-s", "comm,pid,dso,symbol", "-n"], ["script"])


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own")
    own_corpus.unpack(folder)
    return folder


def printed(words: list[str], capfd: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    status = cli.run(words)
    return status, [line for line in capfd.readouterr().out.splitlines() if "(Tip: " not in line]


@pytest.mark.parametrize("name", ["chains", "fork-exec", "group", "arm64-sched", "cpu-clock"])
@pytest.mark.slow
def test_every_line_is_the_same(
    name: str, own: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in own_corpus.surroundings(own).items():
        monkeypatch.setenv(variable, value)
    monkeypatch.chdir(own)
    machine = next(row.machine for row in own_corpus.rows() if row.name == name)
    where = ["-f", "--symfs", "symfs", "--kallsyms", f"kallsyms.{machine}"]
    assert printed(["export", "--parquet", str(tmp_path), *where, "-i", f"{name}.data"], capfd)[0] == 0
    for words in LINES:
        status, lines = printed([*words, *where, "-i", str(tmp_path)], capfd)
        assert (status, lines) == printed([*words, *where, "-i", f"{name}.data"], capfd)
        assert len(lines) > 5
    nowhere = ["-f", "--symfs", str(own / "nowhere"), "--kallsyms", os.devnull]
    without_files = printed([*LINES[1], *nowhere, "-i", str(tmp_path)], capfd)
    assert without_files == printed([*LINES[1], *where, "-i", f"{name}.data"], capfd), "names come along"
    assert without_files != printed([*LINES[1], *nowhere, "-i", f"{name}.data"], capfd)


def test_fields_of_tracepoints_are_exported(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "traced.data"
    path.write_bytes(traced_recording())
    assert cli.run(["export", "-q", "--parquet", str(tmp_path / "tables"), "-i", str(path)]) == 0
    lines = printed(["script", "-F", "comm,tid,cpu,time,event,trace", "-i", str(tmp_path / "tables")], capfd)
    assert lines == printed(["script", "-F", "comm,tid,cpu,time,event,trace", "-i", str(path)], capfd)
    assert len(lines[1]) > 100


def recorded(path: Path, host: str, *, samples: int = 10) -> Path:
    built = PerfDataBuilder(attrs=[usual_attr(USUAL | SampleType.CALLCHAIN)])
    for number in range(samples):
        built.sample(pid=7, tid=7, time=1_000 + number, ip=0x401000 + number, period=3, misc=2, callchain=[0x401000 + number, 0x401100])
    path.write_bytes(built.feature(Feature.HOSTNAME, host).file())
    return path


def test_exporting_again_changes_nothing(tmp_path: Path) -> None:
    path, tables = recorded(tmp_path / "a.data", "one"), tmp_path / "tables"

    def written() -> dict[str, bytes]:
        return {str(file.relative_to(tables)): file.read_bytes() for file in tables.rglob("*.parquet")}

    with perfpy.open(path) as recording:
        first = recording.to_parquet(tables)
        once = written()
        assert recording.to_parquet(tables) == first
    assert written() == once
    assert not [name for name in once if "unfinished" in name]


def test_shared_rows_of_recordings_are_written_once(tmp_path: Path) -> None:
    import pyarrow.parquet

    tables = tmp_path / "tables"
    keys = []
    for name in ("one", "two"):
        with perfpy.open(recorded(tmp_path / f"{name}.data", name)) as recording:
            keys.append(recording.to_parquet(tables).recording)
    for table, key in (("stacks", "stack"), ("frames", "frame"), ("symbols", "symbol"), ("events", "event")):
        results = [one for file in (tables / table).glob("*.parquet") for one in pyarrow.parquet.read_table(file)[key].to_pylist()]
        assert len(results) == len(set(results)) > 0
    assert {path.name for path in (tables / "samples").glob("*")} == {"host=one", "host=two"}
    with pytest.raises(BadPerfDataError, match="2 recordings; name one of them"):
        perfpy.open(tables)
    with perfpy.open(tables / "recordings" / f"{keys[1]}.parquet") as two:
        assert two.header["hostname"] == "two"
        assert len(two.samples["ip"]) == 10


def test_a_folder_with_several_recordings_is_reported_as_one(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    paths = [recorded(tmp_path / f"{name}.data", name, samples=count) for name, count in (("one", 10), ("two", 30))]
    assert cli.run(["export", "-q", "-o", str(tmp_path / "tables"), *map(str, paths)]) == 0
    several = printed(["report", "--stdio", "-s", "host,comm", "-n", *(word for path in paths for word in ("-i", str(path)))], capfd)
    status, lines = printed(["report", "--stdio", "-s", "host,comm", "-n", "-i", str(tmp_path / "tables")], capfd)
    assert (status, lines) == (0, several[1])
    assert {"one", "two"} <= {word for line in lines for word in line.split()}


def test_names_are_not_used_as_paths(tmp_path: Path) -> None:
    with perfpy.open(recorded(tmp_path / "a.data", "../../evil/host")) as recording:
        recording.to_parquet(tmp_path / "tables")
    assert {path.name for path in (tmp_path / "tables" / "samples").glob("*")} == {"host=unknown"}
    assert {path.name for path in tmp_path.iterdir()} == {"a.data", "tables"}


def test_a_folder_with_other_files_is_rejected(tmp_path: Path) -> None:
    path = recorded(tmp_path / "a.data", "one")
    with perfpy.open(path) as recording, pytest.raises(OutputFailedError, match="the folder has other files"):
        recording.to_parquet(tmp_path)
    assert os.listdir(tmp_path) == ["a.data"]


def test_damaged_tables_are_an_error_of_one_line(tmp_path: Path) -> None:
    with perfpy.open(recorded(tmp_path / "a.data", "one")) as recording:
        key = recording.to_parquet(tmp_path / "tables").recording
    (tmp_path / "tables" / "chains" / f"{key}.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(PerfError, match="not a recording exported by perfpy") as raised:
        perfpy.open(tmp_path / "tables")
    assert "\n" not in str(raised.value)


def test_no_descriptor_stays_open(tmp_path: Path) -> None:
    with perfpy.open(recorded(tmp_path / "a.data", "one")) as recording:
        recording.to_parquet(tmp_path / "tables")

    def temporary() -> set[str]:
        results = []
        for name in os.listdir("/proc/self/fd"):
            with contextlib.suppress(FileNotFoundError):  # the descriptor of the listing itself
                results.append(os.readlink(f"/proc/self/fd/{name}"))
        return {target for target in results if "perfpy-" in target}

    before = temporary()  # of recordings of other tests
    with perfpy.open(tmp_path / "tables") as recording:
        assert recording.report(by="comm").samples == 10
        assert len(temporary() - before) == 1
    assert temporary() <= before


def test_an_unreadable_recording_is_named_and_skipped(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    good, bad = recorded(tmp_path / "a.data", "one"), tmp_path / "bad.data"
    bad.write_bytes(b"nothing")
    assert cli.run(["export", "--parquet", str(tmp_path / "tables"), str(bad), str(good)]) == 255
    errors = capfd.readouterr().err.splitlines()
    assert len(errors) == 2
    assert "bad.data" in errors[0]
    assert "skipped" in errors[0]
    assert "10 samples" in errors[1]
    assert cli.run(["export", str(good)]) == 129


def test_a_recording_without_samples_is_exported(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "empty.data"
    path.write_bytes(PerfDataBuilder(attrs=[usual_attr(USUAL)]).file())
    assert cli.run(["export", "--parquet", str(tmp_path / "tables"), "-i", str(path)]) == 0
    assert "internal error" not in capfd.readouterr().err
    assert cli.run(["script", "-i", str(tmp_path / "tables")]) == 0
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("damage", [b"PAR1", b"", None])
def test_damaged_symbols_are_a_line(damage: bytes | None, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """They are read when a report first needs a name; an export beside them looks for keys that are there already."""
    path = tmp_path / "chains.data"
    path.write_bytes(traced_recording())
    tables = tmp_path / "tables"
    assert cli.run(["export", "--parquet", str(tables), "-i", str(path)]) == 0
    for symbols in (tables / "symbols").iterdir():
        data = symbols.read_bytes()
        symbols.write_bytes(data[: len(data) // 2] if damage is None else damage)
    other = tmp_path / "other.data"
    other.write_bytes(PerfDataBuilder(attrs=[usual_attr(USUAL)]).sample(ip=1, pid=7, tid=7, time=1, period=1).file())
    capfd.readouterr()
    assert cli.run(["report", "--stdio", "-i", str(tables)]) == 255
    assert cli.run(["export", "--parquet", str(tables), "-i", str(other)]) != 0
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 2
    assert all("symbols/" in line and "not a table exported by perfpy" in line for line in lines)


@pytest.mark.parametrize("time", [1, (1 << 63) + 5, (1 << 64) - 1])
def test_times_that_no_clock_shows_are_exported(time: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    built = PerfDataBuilder(attrs=[usual_attr(USUAL)])
    for moment in (1, time):
        built.sample(ip=1, pid=7, tid=7, time=moment, period=1)
    path = tmp_path / "late.data"
    path.write_bytes(built.file())
    assert cli.run(["export", "--parquet", str(tmp_path / "tables"), "-i", str(path)]) == 0
    assert printed(["script", "-i", str(tmp_path / "tables")], capfd) == printed(["script", "-i", str(path)], capfd)
