"""Tests that perf reads recordings with kept names, and does not complain about the unknown section."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from perfpy.abi import records
from perfpy.abi.flags import MISC_USER
from perfpy.abi.records import SampleId
from perfpy.capture.runtimes.keeping import store_names
from perfpy.perfdata.features import CpuCount, Feature, encode_feature
from perfpy.perfdata.kept_files import KEPT_FILES, encode
from tests.builders.jitdump import PID, header, load, unwinding
from tests.builders.perfdata import PerfDataBuilder, usual_attr

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.versus_perf

CODE = 0x7F0000001000
PERFS = [
    "perf",
    pytest.param("perf7", marks=[pytest.mark.particular, pytest.mark.skipif(not shutil.which("perf7"), reason="no perf 7 in PATH")]),
]
FEATURES = {
    Feature.HOSTNAME: encode_feature(Feature.HOSTNAME, "here"),
    Feature.NRCPUS: encode_feature(Feature.NRCPUS, CpuCount(4, 4)),
}


def recording(folder: Path) -> str:
    """Record two functions of a jitdump, made at times 20 and 30, with a sample before and after each; in rounds."""
    dump = folder / f"jit-{PID}.dump"
    dump.write_bytes(header() + b"".join(unwinding(16) + load(name, CODE + 0x1000 * index, bytes(16), index, time=20 + 10 * index)
                                         for index, name in enumerate(("first", "second"))))  # fmt: skip
    builder = PerfDataBuilder(attrs=[usual_attr(use_clockid=1, clockid=1)])
    builder.features |= FEATURES
    builder.features[KEPT_FILES] = b""
    mapped = records.Mmap2(MISC_USER, PID, PID, 0x1000, 0x1000, 0, 0, 0, 0, 0, 5, 2, str(dump), sample_id=SampleId(PID, PID, 10))
    builder.record(records.Comm(0, PID, PID, "app", sample_id=SampleId(PID, PID, 9))).record(mapped)
    for time, offset in ((15, 4), (25, 4), (28, 0x1004), (35, 0x1004), (45, 4)):
        builder.sample(ip=CODE + offset, pid=PID, tid=PID, time=time, period=1, misc=MISC_USER).round()
    (folder / "perf.data").write_bytes(builder.file())
    stored = store_names(str(folder / "perf.data"), 0.0, str(folder / "cache"))
    assert (stored.functions, stored.failures) == (2, ())
    return str(folder / "perf.data")


def output(*command: str) -> tuple[str, str]:
    process = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    return process.stdout, process.stderr


def without_tip(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("# (")]


@pytest.mark.parametrize("perf", PERFS)
def test_perf_names_the_code_from_when_it_was_made(tmp_path: Path, perf: str):
    path = recording(tmp_path)
    text, complaints = output(perf, "script", "-f", "-i", path, "-F", "ip,sym")
    assert [line.split()[-1] for line in text.splitlines()] == ["[unknown]", "first", "[unknown]", "second", "first"]
    assert complaints == ""


@pytest.mark.parametrize("perf", PERFS)
@pytest.mark.parametrize("options", [["report", "--stdio"], ["report", "--header-only"], ["report", "-D"], ["evlist"]])
def test_perf_does_not_complain(tmp_path: Path, perf: str, options: list[str]):
    text, complaints = output(perf, *options, "-f", "-i", recording(tmp_path))
    assert text
    assert complaints == ""


def test_both_print_the_same(tmp_path: Path):
    path = recording(tmp_path)
    for options in (["script"], ["report", "--stdio", "-s", "sym,dso"], ["evlist", "-v"]):
        theirs, _ = output("perf", *options, "-f", "-i", path)
        ours, _ = output(sys.executable, "-m", "perfpy", *options, "-f", "-i", path)
        assert without_tip(ours) == without_tip(theirs)


@pytest.mark.parametrize("perf", PERFS)
def test_a_large_section_is_accepted(tmp_path: Path, perf: str):
    builder = PerfDataBuilder().sample(ip=CODE, pid=PID, tid=PID, time=5, period=1, misc=MISC_USER)
    builder.features |= FEATURES
    builder.features[KEPT_FILES] = encode({f"/tmp/perf-{pid}.map": b"7f00 10 f\n" * 1000 for pid in range(5000)}, "<")
    path = tmp_path / "perf.data"
    path.write_bytes(builder.file())
    text, complaints = output(perf, "script", "-f", "-i", str(path))
    assert len(text.splitlines()) == 1
    assert complaints == ""
