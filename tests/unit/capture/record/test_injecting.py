"""Recordings written anew with jitted code and build-ids."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np
import pytest

from perfpy.abi import records
from perfpy.abi.flags import MISC_USER
from perfpy.abi.user_records import HeaderBuildId
from perfpy.capture.record.injecting import JitInjector, inject, require_monotonic_times
from perfpy.errors import OutputFailed, PerfError
from perfpy.perfdata.features import Feature, encode_feature
from perfpy.recording import Recording
from tests.builders.perfdata import PerfDataBuilder, usual_attr

if TYPE_CHECKING:
    from pathlib import Path

PID, CODE = 77, 0x7F0000001000


def dump(path: Path) -> None:
    """A jitdump with a function that was made at time 20, and moved at 40."""
    header = struct.pack("<IIIIIIQQ", 0x4A695444, 1, 40, 62, 0, PID, 5, 0)
    load = struct.pack("<IIQQQQ", PID, PID, CODE, CODE, 16, 3) + b"JS:*fib\0" + b"\x90" * 16
    move = struct.pack("<IIQQQQQ", PID, PID, 0, CODE, CODE + 0x1000, 16, 3)
    parts = [struct.pack("<IIQ", kind, 16 + len(body), time) + body for kind, time, body in ((0, 20, load), (1, 40, move))]
    path.write_bytes(header + b"".join(parts))


def mapping(name: str, address: int, time: int, prot: int = 5) -> records.Mmap2:
    identity = records.SampleId(PID, PID, time)
    return records.Mmap2(MISC_USER, PID, PID, address, 0x1000, 0, 0, 0, 0, 0, prot, 2, name, sample_id=identity)


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    dump(tmp_path / "jit-77.dump")
    builder = PerfDataBuilder(attrs=[usual_attr(use_clockid=1, clockid=1)])
    builder.features[Feature.HOSTNAME] = encode_feature(Feature.HOSTNAME, "here")
    builder.record(mapping(str(tmp_path / "jit-77.dump"), 0x1000, 10))
    builder.record(mapping("//anon", CODE, 30))
    for time, ip in ((15, CODE + 4), (35, CODE + 4), (45, CODE + 0x1004)):
        builder.sample(ip=ip, pid=PID, tid=PID, time=time, period=1, misc=MISC_USER)
    (tmp_path / "perf.data").write_bytes(builder.file())
    return Recording(str(tmp_path / "perf.data"))


def names(recording: Recording) -> list[str]:
    symbolizer = recording.symbolizer()
    found = []
    for batch in recording.data.batches():
        columns = batch.columns
        ids = symbolizer.frame_ids(columns["pid"], columns["ip"], batch.key, columns["cpumode"])
        symbol = symbolizer.resolve().symbol[ids]
        found += [symbolizer.symbols.name(number) if number >= 0 else "-" for number in symbol.tolist()]
    return found


def test_jitted_functions_are_named_from_when_they_were_made(recording: Recording, tmp_path: Path):
    assert names(recording) == ["-", "-", "-"]
    injector = JitInjector(recording.data)
    inject(recording.data, str(tmp_path / "out.data"), jit=injector)
    assert (injector.functions, list(injector.dumps)) == (1, [PID])
    assert (tmp_path / "jitted-77-3.so").exists()
    assert names(Recording(str(tmp_path / "out.data"))) == ["-", "JS:*fib", "JS:*fib"]


def test_everything_else_stays(recording: Recording, tmp_path: Path):
    inject(recording.data, str(tmp_path / "out.data"))
    copy = Recording(str(tmp_path / "out.data"))
    assert copy.data.features["hostname"] == "here"
    assert [event.attr for event in copy.events] == [event.attr for event in recording.events]
    assert [type(record).__name__ for record in copy.records()] == [type(record).__name__ for record in recording.records()]


def test_build_ids_are_put_into_the_table(recording: Recording, tmp_path: Path):
    entry = HeaderBuildId(MISC_USER, -1, b"\xab" * 20, "/bin/x")
    inject(recording.data, str(tmp_path / "out.data"), build_ids=[entry])
    (found,) = Recording(str(tmp_path / "out.data")).data.features["build_id"]
    assert (found.build_id.hex(), found.filename) == ("ab" * 20, "/bin/x")


def test_a_dump_that_is_gone_says_so(recording: Recording, tmp_path: Path):
    (tmp_path / "jit-77.dump").unlink()
    with pytest.raises(PerfError, match=r"jit-77\.dump: No such file"):
        inject(recording.data, str(tmp_path / "out.data"), jit=JitInjector(recording.data))


def test_images_that_cannot_be_written_say_so(recording: Recording, tmp_path: Path):
    with pytest.raises(OutputFailed, match=r"jitted-77-3\.so"):
        inject(recording.data, str(tmp_path / "out.data"), jit=JitInjector(recording.data, str(tmp_path / "none")))


def test_a_recording_is_not_written_over_itself(recording: Recording, tmp_path: Path):
    with pytest.raises(OutputFailed, match="it is the input"):
        inject(recording.data, str(tmp_path / "perf.data"))


def test_times_have_to_be_those_of_the_jit(tmp_path: Path, recording: Recording):
    require_monotonic_times(recording.data)
    (tmp_path / "other.data").write_bytes(PerfDataBuilder().file())
    with pytest.raises(PerfError, match="record with -k mono"):
        require_monotonic_times(Recording(str(tmp_path / "other.data")).data)


def test_hit_files_are_those_with_samples(recording: Recording):
    from perfpy.analysis.hit_dsos import hit_dsos

    assert [dso.name for dso in hit_dsos(recording.data, recording.symbolizer())] == ["/tmp/perf-77.map"]
    assert np.count_nonzero([dso.name.endswith("jit-77.dump") for dso in recording.timeline.dso_table.dsos]) == 1
