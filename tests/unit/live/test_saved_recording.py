"""The key w of top: the last minute as a perf.data, and what stays if the disk is full."""

from __future__ import annotations

import errno
import os
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from perfpy import cli
from perfpy.capture.output import output
from perfpy.errors import OutputFailedError
from perfpy.live.saved_recording import Retained, write_snapshot
from perfpy.perfdata.container.writer import FileWriter
from perfpy.perfdata.records.raw_records import RawRecords
from tests.builders.perfdata import usual_attr

if TYPE_CHECKING:
    from pathlib import Path

SAMPLE = b"\t\0\0\0\1\0\x28\0" + bytes(32)


def save(path: Path) -> int:
    retained = Retained(60)
    retained.add(1, 2, SAMPLE * 100)
    counters = SimpleNamespace(events=["cpu-clock"], ids=lambda _: (1,))
    rings = SimpleNamespace(recorded=(counters, [usual_attr()]), tracing_data=bytes)
    features = SimpleNamespace(collect=lambda **_: {})
    return write_snapshot(str(path), rings, RawRecords.concat([]), retained, features, {})  # type: ignore[arg-type]


def names(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes()[:8] for path in folder.iterdir()}


def test_an_existing_recording_is_kept_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "perf.data").write_bytes(b"earlier")
    assert save(tmp_path / "perf.data") > len(SAMPLE) * 100
    assert names(tmp_path) == {"perf.data": b"PERFILE2", "perf.data.old": b"earlier"}
    assert cli.run(["evlist", "-i", str(tmp_path / "perf.data")]) == 0
    assert capfd.readouterr().out


@pytest.mark.parametrize("method", ["begin", "write", "finish"])
def test_a_failed_attempt_gives_the_recording_its_name_back(method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second attempt would otherwise replace perf.data.old by the cut file of the first."""

    def fail(*_: object) -> None:
        raise OutputFailedError("perf.data", "No space left on device")

    monkeypatch.setattr(FileWriter, method, fail)
    (tmp_path / "perf.data").write_bytes(b"earlier")
    for _ in range(2):
        with pytest.raises(OutputFailedError, match="No space left on device"):
            save(tmp_path / "perf.data")
        assert names(tmp_path) == {"perf.data": b"earlier"}


def test_a_file_that_cannot_be_created_costs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(output, "create_named", fail)
    (tmp_path / "perf.data").write_bytes(b"earlier")
    with pytest.raises(OutputFailedError, match="Too many open files"):
        save(tmp_path / "perf.data")
    assert names(tmp_path) == {"perf.data": b"earlier"}
