"""`perfpy inject` into files and pipes: with build-ids of hit files, and unchanged."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from perfpy import cli
from perfpy.abi import perf_records, records
from perfpy.abi.flags import CONTEXT_USER, MISC_MMAP_BUILD_ID, MISC_USER, RecordType, SampleType
from perfpy.abi.records import SampleId
from perfpy.perfdata.header import Feature
from perfpy.perfdata.reader import PerfData
from tests.builders.perfdata import USUAL, PerfDataBuilder, usual_attr

if TYPE_CHECKING:
    from pathlib import Path

PERFPY = [sys.executable, "-m", "perfpy"]
IDS = {f"/bin/{name}": f"{number:02x}" * 20 for number, name in enumerate(("one", "two", "three"), 1)}
KNOWN = ",".join(f"{build_id} {path}" for path, build_id in IDS.items())


@pytest.fixture
def chained(tmp_path: Path) -> Path:
    """A sample in /bin/one whose caller is in /bin/two; nothing of /bin/three."""
    built = PerfDataBuilder(attrs=[usual_attr(USUAL | SampleType.CALLCHAIN)])
    for number, name in enumerate(IDS, 1):
        at = SampleId(pid=7, tid=7, time=number)
        built.record(records.Mmap2(MISC_USER, 7, 7, number << 12, 0x1000, 0, 8, 1, number, 0, 5, 2, name, b"", at))
    chain = (CONTEXT_USER, 0x1004, 0x2004)
    built.sample(ip=0x1004, pid=7, tid=7, time=10, period=1, callchain=chain, misc=MISC_USER)
    path = tmp_path / "perf.data"
    path.write_bytes(built.file())
    return path


def listed(path: Path) -> dict[str, str]:
    """Return the build-id table."""
    with PerfData(str(path)) as data:
        return {entry.filename: entry.build_id.hex() for entry in data.features.get("build_id", ()) if entry.filename in IDS}


def kinds(path: Path) -> list[int]:
    with PerfData(str(path)) as data:
        return [kind for stream in data.records.chunks() for ordered in stream for kind in ordered.chunk.types.tolist()]


def test_files_of_callers_get_build_ids_too(chained: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.data"
    assert cli.run(["inject", "-b", "--known-build-ids", KNOWN, "-i", str(chained), "-o", str(out)]) == 0
    assert listed(out) == {path: IDS[path] for path in ("/bin/one", "/bin/two")}
    assert kinds(out)[:2] == [RecordType.HEADER_BUILD_ID] * 2
    assert kinds(out)[2:] == kinds(chained)


def test_files_with_a_build_id_in_their_mapping_are_listed_too(tmp_path: Path) -> None:
    """As in perf: record --buildid-mmap writes no list, and readers of one need all of them."""
    built = PerfDataBuilder(attrs=[usual_attr(USUAL)])
    for number, (name, build_id) in enumerate(IDS.items(), 1):
        own = bytes.fromhex(build_id) if name == "/bin/three" else b""
        at, misc = SampleId(pid=7, tid=7, time=number), MISC_USER | (MISC_MMAP_BUILD_ID if own else 0)
        built.record(records.Mmap2(misc, 7, 7, number << 12, 0x1000, 0, 0, 0, 0, 0, 5, 2, name, own, at))
    built.sample(ip=0x1004, pid=7, tid=7, time=10, period=1, misc=MISC_USER)
    path, out = tmp_path / "perf.data", tmp_path / "out.data"
    path.write_bytes(built.file())
    assert cli.run(["inject", "-b", "--known-build-ids", KNOWN, "-i", str(path), "-o", str(out)]) == 0
    assert listed(out) == {name: IDS[name] for name in ("/bin/one", "/bin/three")}


def test_all_files_get_build_ids(chained: Path, tmp_path: Path) -> None:
    out, list_file = tmp_path / "out.data", tmp_path / "known"
    list_file.write_text(" " * 41 + "/bin/four\n" + KNOWN.replace(",", "\n") + "\n")
    assert cli.run(["inject", "--buildid-all", f"--known-build-ids=file://{list_file}", "-i", str(chained), "-o", str(out)]) == 0
    assert listed(out) == IDS


def test_without_an_option_it_is_a_copy(chained: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.data"
    assert cli.run(["inject", "-i", str(chained), "-o", str(out)]) == 0
    assert kinds(out) == kinds(chained)


def test_an_existing_result_is_kept_under_another_name(chained: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.data"
    out.write_bytes(b"earlier")
    assert cli.run(["inject", "-i", str(chained), "-o", str(out)]) == 0
    assert (tmp_path / "out.data.old").read_bytes() == b"earlier"
    assert kinds(out) == kinds(chained)


@pytest.mark.parametrize("output", [[], ["-o", "-"]])
def test_a_pipe_takes_the_result(chained: Path, tmp_path: Path, output: list[str]) -> None:
    out = tmp_path / "pipe.data"
    command = [*PERFPY, "inject", "-b", "--known-build-ids", KNOWN, "-i", str(chained), *output]
    out.write_bytes(subprocess.run(command, check=True, capture_output=True, timeout=60).stdout)
    assert kinds(out).count(RecordType.HEADER_BUILD_ID) == 2
    assert kinds(out).count(RecordType.SAMPLE) == 1
    again = tmp_path / "again.data"
    with out.open("rb") as source:
        subprocess.run([*PERFPY, "inject", "-i", "-", "-o", str(again)], check=True, stdin=source, timeout=60)
    assert kinds(again).count(RecordType.SAMPLE) == 1


def test_the_parts_of_a_pipes_header_are_written_once(tmp_path: Path) -> None:
    """Readers take the bytes of a second set of tracepoint formats for records, and a second attr for another event."""
    source, again, whole = tmp_path / "source.data", tmp_path / "again.data", tmp_path / "whole.data"
    formats = b"\x17\x08\x44tracing0.6\0"
    built = PerfDataBuilder(attrs=[usual_attr(USUAL)]).feature(Feature.HOSTNAME, "here")
    built.raw(perf_records.encode(perf_records.HeaderTracingData(0, len(formats)), "<") + formats)
    built.sample(ip=0x1004, pid=7, tid=7, time=10, period=1, misc=MISC_USER)
    source.write_bytes(built.pipe())
    again.write_bytes(subprocess.run([*PERFPY, "inject", "-i", str(source)], check=True, capture_output=True, timeout=60).stdout)
    last_feature = [RecordType.HEADER_FEATURE]
    assert sorted(kinds(again)) == sorted([*kinds(source), *last_feature])
    assert cli.run(["inject", "-i", str(source), "-o", str(whole)]) == 0
    assert kinds(whole) == [RecordType.SAMPLE]


@pytest.mark.parametrize("text", ["/bin/one", "xyz /bin/one", "00" * 21 + " /bin/one", "0" * 40, "/bin/one " + "00" * 20])
def test_a_bad_list_of_build_ids_is_refused(chained: Path, tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["inject", "-b", "--known-build-ids", text, "-i", str(chained), "-o", str(tmp_path / "out")]) == 129
    assert "--known-build-ids" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
