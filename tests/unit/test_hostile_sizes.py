"""Recordings that say much and hold little: what reading them costs is bounded by their size, tried in a process with limits."""

from __future__ import annotations

import os
import random
import resource
import struct
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from perfpy import cli
from perfpy.abi import perf_records, records
from perfpy.abi.flags import RecordType, SampleType
from perfpy.errors import BadPerfDataError
from perfpy.perfdata.features import Compression, EventGroup, Feature, decode_feature, encode_feature
from perfpy.perfdata.reader import PerfData
from tests.builders.perfdata import PerfDataBuilder, header_of, simple_recording, usual_attr

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from types import FrameType

    from _typeshed import TraceFunction

if sys.version_info >= (3, 14):
    from compression.zstd import ZstdCompressor
else:
    from backports.zstd import ZstdCompressor

MEMORY = 1 << 30  # of address space, in bytes; numpy and its libraries map some hundred MB of it
SECONDS = 10  # of CPU time: the machine of a test may be slow
ALL = (1 << 64) - 1


def run(*args: str) -> subprocess.CompletedProcess[str]:
    """perfpy within limits."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))

    command = [sys.executable, "-m", "perfpy", *args]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.run(
        command, check=False, capture_output=True, text=True, errors="replace", preexec_fn=limit, env=environment, timeout=60
    )


def bomb(size: int) -> bytes:
    """A COMPRESSED record of `size` bytes of small records."""
    one = header_of(RecordType.FINISHED_INIT, 8)
    zstd = ZstdCompressor()
    return perf_records.encode(perf_records.Compressed(0, zstd.compress(one * (size // len(one)), zstd.FLUSH_BLOCK)), "<")


def test_a_record_unpacks_to_its_stated_size_at_most(tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    builder = simple_recording(3)
    builder.feature(Feature.COMPRESSED, Compression(1, 1, 1, 5, 65536))
    before = len(builder.body)
    path.write_bytes(builder.raw(bomb(1 << 20)).file())
    with PerfData(path) as data:
        assert sum(len(batch) for batch in data.batches()) == 3
        assert data.record_index.type_counts[RecordType.FINISHED_INIT] < 1 << 17
        assert any("more than 65536 bytes" in warning for warning in data.warnings)
    assert before


def test_a_zstd_bomb_without_a_size_ends_soon(tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(simple_recording(3).raw(bomb(1 << 27)).file())
    result = run("script", "-i", str(path))
    assert result.returncode == 0
    assert len(result.stdout.splitlines()) == 3
    assert "more than 8 records for each byte of the compressed ones" in result.stderr


@pytest.mark.thorough
def test_a_bomb_of_large_records_ends_too(tmp_path: Path) -> None:
    zstd = ZstdCompressor(level=19)
    one = header_of(RecordType.CGROUP, 0xFFF8) + bytes(0xFFF0)
    packed = b"".join(zstd.compress(one) for _ in range(8192)) + zstd.flush()  # half a gigabyte
    assert len(packed) < 0xFFF0
    path = tmp_path / "perf.data"
    path.write_bytes(simple_recording(3).record(perf_records.Compressed(0, packed)).file())
    result = run("script", "-i", str(path))
    assert result.returncode == 0
    assert len(result.stdout.splitlines()) == 3
    assert "unpack to more than 3072 times their size" in result.stderr


def test_stacks_that_hardly_change_are_no_bomb(tmp_path: Path) -> None:
    """`perf record -z22 --call-graph dwarf,65528` of a loop was packed to a 1,723rd."""
    attr = usual_attr(SampleType.IP | SampleType.TID | SampleType.TIME | SampleType.STACK_USER, sample_stack_user=60_000)
    built = PerfDataBuilder(attrs=[attr])
    for number in range(300):
        top = random.Random(number).randbytes(16)
        built.sample(ip=number, pid=7, tid=7, time=number + 1, user_stack=top + bytes(60_000 - len(top)))
    whole = len(built.body)
    path = tmp_path / "perf.data"
    path.write_bytes(built.compressed().file())
    assert whole > 1000 * path.stat().st_size
    with PerfData(path) as data:
        assert sum(len(batch) for batch in data.batches(["ip"])) == 300
        assert not data.warnings


def test_very_many_zstd_frames_in_a_record_are_no_recording(tmp_path: Path) -> None:
    frame = ZstdCompressor().flush()
    path = tmp_path / "perf.data"
    path.write_bytes(simple_recording(3).record(perf_records.Compressed(0, frame * 5000)).file())
    with PerfData(path) as data:
        assert sum(len(batch) for batch in data.batches()) == 3
        assert any("zstd frames" in warning for warning in data.warnings)


def many_events(path: Path, count: int, step: int = 1) -> Path:
    """A recording of so many events; those whose number is a multiple of `step` have a sample."""
    attr = usual_attr(SampleType.IP | SampleType.TID | SampleType.TIME | SampleType.IDENTIFIER)
    builder = PerfDataBuilder(attrs=[attr] * count, ids=[(number + 1,) for number in range(count)])
    for number in range(0, count, step):
        builder.sample(number, ip=number, pid=7, tid=7, time=number)
    path.write_bytes(builder.file())
    return path


def lines_run(args: Sequence[str]) -> int:
    """How many lines of perfpy's code a command runs; each turn of a loop counts, in a comprehension too."""
    count = 0

    def in_function(_frame: FrameType, event: str, _: object) -> TraceFunction:
        nonlocal count
        count += event == "line"
        return in_function

    def entered(frame: FrameType, _event: str, _: object) -> TraceFunction | None:
        return in_function if frame.f_globals.get("__name__", "").startswith("perfpy.") else None

    before = sys.gettrace()
    sys.settrace(entered)
    try:
        assert cli.run(args) == 0
    finally:
        sys.settrace(before)
    return count


MANY_EVENTS = pytest.mark.parametrize("command", [["report", "--stdio"], ["script"], ["evlist"], ["report", "--stats"]], ids=" ".join)


@MANY_EVENTS
@pytest.mark.slow
def test_the_work_for_many_events_grows_as_their_number(tmp_path: Path, command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """An event costs the same however many there are: nothing is looked through for each of them."""
    paths = [many_events(tmp_path / f"{count}.data", count) for count in (60, 60, 120, 240)]  # the first one loads modules
    _, few, more, most = (lines_run([*command, "-i", str(path)]) for path in paths)
    assert most - more < 2.2 * (more - few)
    assert capsys.readouterr().out


@MANY_EVENTS
@pytest.mark.slow
def test_very_many_events_are_read_within_limits(tmp_path: Path, command: list[str]) -> None:
    result = run(*command, "-i", str(many_events(tmp_path / "perf.data", 6000, 10)))
    assert result.returncode == 0, result.stderr
    assert result.stdout


def test_ids_that_lie_in_each_other_are_refused(tmp_path: Path) -> None:
    data = bytearray(PerfDataBuilder(attrs=[usual_attr()] * 100, ids=[tuple(range(1, 9))] * 100).file())
    (table,) = struct.unpack_from("<Q", data, 24)
    (entry,) = struct.unpack_from("<Q", data, 16)
    for number in range(100):
        struct.pack_into("<2Q", data, table + (number + 1) * entry - 16, 0, len(data) & ~7)
    path = tmp_path / "perf.data"
    path.write_bytes(data)
    with pytest.raises(BadPerfDataError, match="longer than the file"):
        PerfData(path)


@pytest.mark.parametrize("groups", [(EventGroup("g", 0, 1 << 31),), (EventGroup("g", 0, 9), EventGroup("h", 4, 9))])
def test_groups_that_cannot_be_are_omitted(groups: tuple[EventGroup, ...]) -> None:
    with pytest.raises(ValueError, match="group"):
        decode_feature(Feature.GROUP_DESC, encode_feature(Feature.GROUP_DESC, groups))


@pytest.mark.thorough
def test_updates_of_events_are_kept_within_bounds(tmp_path: Path) -> None:
    update = struct.pack("<QQ", 2, 1)
    update = update.replace(struct.pack("<Q", 2), struct.pack("<Q", perf_records.EVENT_UPDATE_CPUS), 1)
    body = update + struct.pack("<HBxHH", perf_records.RANGE, 0, 0, 65535)
    builder = PerfDataBuilder(ids=[(1,)])
    for _ in range(2000):
        builder.raw(header_of(RecordType.EVENT_UPDATE, 8 + len(body)) + body)
    path = tmp_path / "perf.data"
    path.write_bytes(builder.pipe())
    result = run("evlist", "-i", str(path))
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("start", [b"y\n" * 60, bytes(120), b"PERFILE2" + struct.pack("<Q", 16) + bytes(120)])
@pytest.mark.parametrize("command", ["script", "report"])
def test_a_pipe_that_is_no_recording_is_refused_though_it_does_not_end(start: bytes, command: str) -> None:
    reading, writing = os.pipe()
    try:
        os.write(writing, start)  # and nothing more, nor an end
        result = subprocess.run(
            [sys.executable, "-m", "perfpy", command, "-i", "-"], check=False, stdin=reading, capture_output=True, text=True, timeout=30
        )
    finally:
        os.close(reading)
        os.close(writing)
    assert result.returncode == 255
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "command",
    [
        ["script"],
        ["script", "-D"],
        ["report", "--stdio"],
        ["report", "--stdio", "-g"],
        ["evlist", "-v"],
    ],
)
def test_the_largest_numbers_cost_nothing(tmp_path: Path, command: list[str]) -> None:
    attr = usual_attr(SampleType.IP | SampleType.TID | SampleType.TIME | SampleType.CPU | SampleType.PERIOD | SampleType.CALLCHAIN)
    builder = PerfDataBuilder(attrs=[attr])
    builder.record(records.Comm(0, 0xFFFFFFFF, 0xFFFFFFFF, "most"))
    builder.record(records.Mmap(0, 0xFFFFFFFF, 0xFFFFFFFF, ALL - 4096, ALL, ALL, "/bin/most"))
    for task in (0, -1, 0x7FFFFFFF, -0x80000000):
        for value in (0, 1 << 63, ALL):
            builder.sample(ip=value, pid=task, tid=task, time=value, cpu=task, period=value, callchain=[value, ALL - 511, value])
    path = tmp_path / "perf.data"
    path.write_bytes(builder.file())
    result = run(*command, "-i", str(path))
    assert result.returncode == 0, result.stderr
    assert "error" not in result.stderr
