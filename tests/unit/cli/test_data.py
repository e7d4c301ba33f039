"""`perfpy data convert`: JSON of any recording, and refused options."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from perfpy import cli
from perfpy.abi import records
from perfpy.abi.flags import MISC_USER
from perfpy.abi.records import SampleId
from tests.builders.perfdata import USUAL, PerfDataBuilder, usual_attr

if TYPE_CHECKING:
    from pathlib import Path

HOSTILE = 'a"\\\n\x1b\udcff\u00e9'


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """Three samples of a task with a name that JSON has to escape; nothing is said of the machine."""
    built = PerfDataBuilder(attrs=[usual_attr(USUAL)])
    built.record(records.Comm(0, 7, 8, HOSTILE, SampleId(pid=7, tid=8, time=1)))
    for time in (1_000_000_000, 2_000_000_000, 3_000_000_000):
        built.sample(ip=0x1004, pid=7, tid=8, time=time, period=1, misc=MISC_USER)
    path = tmp_path / "perf.data"
    path.write_bytes(built.file())
    return path


def converted(recording: Path, *more: str) -> dict[str, Any]:
    """The JSON, read."""
    target = recording.with_name("samples.json")
    assert cli.run(["data", "convert", "--force", "--to-json", str(target), "-i", str(recording), *more]) == 0
    document: dict[str, Any] = json.loads(target.read_text())
    return document


def test_all_names_are_strings(recording: Path) -> None:
    samples = converted(recording)["samples"]
    assert [sample["comm"] for sample in samples] == [HOSTILE] * 3
    assert [sample["callchain"] for sample in samples] == [[{"ip": "0x1004"}]] * 3


def test_facts_that_the_recording_lacks_are_omitted(recording: Path) -> None:
    assert "cpu-desc" not in converted(recording)["headers"]


def test_time_chooses_samples(recording: Path) -> None:
    assert [sample["timestamp"] for sample in converted(recording, "--time", "1.5,2.5")["samples"]] == [2_000_000_000]


def test_standard_output(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["data", "convert", "--to-json", "-", "-i", str(recording)]) == 0
    captured = capsys.readouterr()
    assert len(json.loads(captured.out)["samples"]) == 3
    assert captured.err == ""


@pytest.mark.parametrize(
    ("line", "status", "message"),
    [
        ("convert --to-json there", 255, "--force"),
        ("convert", 255, "--to-json"),
        ("convert --to-json new --all", 255, "CTF"),
        ("convert --to-json new --tod", 255, "CTF"),
        ("convert --to-ctf new", 129, "--to-json"),
        ("--to-json new", 129, "data convert"),
        ("invert --to-json new", 129, "data convert"),
    ],
)
def test_refused(
    line: str, status: int, message: str, recording: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(recording.parent)
    (recording.parent / "there").write_text("mine")
    assert cli.run(["data", *line.split()]) == status
    assert message in capsys.readouterr().err
    assert not (recording.parent / "new").exists()
    assert (recording.parent / "there").read_text() == "mine"
