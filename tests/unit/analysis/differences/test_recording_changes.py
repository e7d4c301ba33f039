"""The changes between two recordings as values, and the limit of diff."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import perfpy
from perfpy import cli
from perfpy.abi import records
from perfpy.abi.sample_id import SampleId
from tests.builders.perfdata import PerfDataBuilder

if TYPE_CHECKING:
    from perfpy.analysis.differences.group_changes import GroupChanges
    from perfpy.analysis.differences.recording_changes import RecordingChanges


def recording(path: Path, samples: dict[str, int]) -> str:
    """Record samples of some commands, one file each."""
    built = PerfDataBuilder()
    for tid, (comm, count) in enumerate(samples.items(), 7):
        ids = {"pid": tid, "tid": tid}
        built.record(records.Comm(0, tid, tid, comm, SampleId(**ids, time=tid)))
        built.record(records.Mmap2(2, tid, tid, 0x1000, 0x1000, 0, 8, 1, 99, 0, 5, 2, f"/bin/{comm}", b"", SampleId(**ids, time=tid)))
        for number in range(count):
            built.sample(misc=2, ip=0x1000, **ids, time=100 + number, period=1000)
    path.write_bytes(built.file())
    return str(path)


@pytest.fixture
def both(tmp_path: Path) -> tuple[str, str]:
    before = recording(tmp_path / "old.data", {"parse": 300, "sort": 100, "rest": 20})
    return before, recording(tmp_path / "new.data", {"parse": 305, "sort": 250, "rest": 21})


def test_rows_that_changed_most_come_first(both: tuple[str, str]) -> None:
    with perfpy.open(both[0]) as before, perfpy.open(both[1]) as after:
        (changes,) = perfpy.diff(before, after, by="dso")
        assert (changes.before, changes.after) == ((420, 420_000), (576, 576_000))
        assert [changes.name(row) for row in changes] == ["sort", "parse", "rest"]
        assert (changes[0].change, changes[0].has_changed, len(changes), len(changes[1:])) == (150_000, True, 3, 2)
        assert [changes.name(row) for row in changes.above()] == ["sort"]
        assert changes.above(0.3) == [changes[0]]
        assert changes.above(0.4) == []
        columns = changes.to_columns()
        assert (columns["dso"], columns["change"]) == (["sort", "parse", "rest"], [150_000, 5_000, 1_000])
        assert changes.to_pandas()["samples_after"].tolist() == changes.to_arrow()["samples_after"].to_pylist() == [250, 305, 21]
        assert changes.to_dict() == columns
        assert repr(changes) == "<RecordingChanges of cpu-clock:u: 420000 -> 576000, 2 of 3 rows changed>"


@pytest.mark.parametrize(("limit", "status"), [("30%", 90), ("0.3", 90), ("40%", 0)])
def test_a_limit_is_an_exit_status(both: tuple[str, str], limit: str, status: int, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["diff", "--fail-above", limit, "-s", "dso", *both]) == status
    line = f"sort costs more than before, by 35.7% of all cpu-clock:u; the limit is {float(limit.strip('%')):.1f}%"
    assert capfd.readouterr().err.splitlines() == [line] * (status != 0)


def test_cheaper_rows_exceed_no_limit(both: tuple[str, str]) -> None:
    assert cli.run(["diff", "--fail-above", "1%", "-s", "dso", *reversed(both)]) == 0


def test_three_recordings_have_no_limit(both: tuple[str, str], capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["diff", "--fail-above", "1%", *both, both[0]]) == 129
    assert "--fail-above requires two recordings" in capfd.readouterr().err


@pytest.mark.parametrize("text", ["x", "-1", "nan", "inf", ""])
def test_a_limit_is_a_share(both: tuple[str, str], text: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["diff", f"--fail-above={text}", *both]) == 129
    assert "expects a share of 0 % or more, such as 3%" in capfd.readouterr().err


def test_paths_are_opened(both: tuple[str, str], tmp_path: Path) -> None:
    """Recordings by path, groups by folder; the result outlives the files' closing."""
    all_changes: list[RecordingChanges] = perfpy.diff(both[0], Path(both[1]), by="dso")
    changes = all_changes[0]
    assert [changes.name(row) for row in changes] == ["sort", "parse", "rest"]
    assert changes[0].has_changed
    with perfpy.open(both[0]) as before:
        assert len(perfpy.diff(before, both[1], by="dso")) == 1
    for folder, seed in (("before", 300), ("after", 500)):
        (tmp_path / folder).mkdir()
        recording(tmp_path / folder / "one.data", {"parse": seed, "rest": 20})
    groups: list[GroupChanges] = perfpy.diff(str(tmp_path / "before"), tmp_path / "after", by="dso")
    assert len(groups[0]) == 2
    with pytest.raises(perfpy.errors.BadPerfDataError, match="nowhere"):
        perfpy.diff("nowhere", both[1])
