"""Perf maps of runtimes, in inner namespaces too, and how long they are kept."""

from __future__ import annotations

import errno
import os
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from perfpy.abi import records
from perfpy.abi.flags import MISC_USER, RecordType
from perfpy.abi.records import SampleId
from perfpy.capture.runtimes import inner_maps
from perfpy.capture.runtimes.inner_maps import InnerMaps
from perfpy.capture.runtimes.store_names import Kept, store_names
from perfpy.perfdata.header import KEPT_FILES, Compression, Feature, encode_feature
from perfpy.recording import Recording
from perfpy.symbols import dso
from perfpy.untrusted import process_files
from tests.builders.jitdump import PID, header, load
from tests.builders.perfdata import PerfDataBuilder, usual_attr

if TYPE_CHECKING:
    from collections.abc import Iterator


# Perf maps of processes in pid namespaces.


@pytest.fixture
def maps(monkeypatch: pytest.MonkeyPatch) -> InnerMaps:
    """Looks at this process's descendants; their pid inside is 1."""
    monkeypatch.setattr(inner_maps, "innermost_pid", lambda pid: 999_999_999 if dso.innermost_pid(pid) else 0)
    return InnerMaps([])


@pytest.fixture
def perf_map() -> Iterator[Path]:
    path = Path("/tmp/perf-999999999.map")
    path.unlink(missing_ok=True)
    yield path
    path.unlink(missing_ok=True)


def sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "60"])


def test_the_map_of_an_ended_process_is_held(maps: InnerMaps, perf_map: Path) -> None:
    with sleeper() as process:
        maps._recorded = (process.pid,)
        maps.look()
        perf_map.write_bytes(b"1000 10 inside\n")
        maps.look()
        assert maps.read(process.pid) == b""  # it runs: its map may grow
        process.kill()
    maps.look()
    perf_map.unlink()
    assert maps.read(process.pid) == b"1000 10 inside\n"
    maps.close()
    assert maps.read(process.pid) == b""


@pytest.mark.parametrize("what", ["link", "hard link", "old", "fifo", "sparse"])
def test_a_map_that_may_be_anothers_is_not(maps: InnerMaps, perf_map: Path, tmp_path: Path, what: str) -> None:
    secret = perf_map.with_suffix(".secret") if what == "hard link" else tmp_path / "secret"
    secret.write_bytes(b"1000 10 secret\n")
    with sleeper() as process:
        maps._recorded = (process.pid,)
        maps.look()
        if what == "link":
            perf_map.symlink_to(secret)
        elif what == "hard link":
            perf_map.hardlink_to(secret)
        elif what == "fifo":
            os.mkfifo(perf_map)
        else:
            perf_map.write_bytes(secret.read_bytes())
            if what == "old":
                os.utime(perf_map, (time.time() - 100, time.time() - 100))
            else:
                os.truncate(perf_map, 1 << 30)
        process.kill()
    maps.look()
    secret.unlink()
    assert maps.read(process.pid) == b""
    maps.close()


def test_files_are_closed(maps: InnerMaps, perf_map: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with sleeper() as process:
        maps._recorded = (process.pid,)
        for _ in range(5):
            maps.look()
        perf_map.write_bytes(b"1000 10 inside\n")
        process.kill()
    maps.look()
    maps.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_processes_of_our_own_namespace_are_not_held() -> None:
    maps = InnerMaps([os.getpid()])
    maps.look()
    assert not maps._processes
    maps.close()


# Names are stored in a finished recording.


CODE = 0x7F0000001000
MAP = f"{CODE:x} 10 py::f:/a.py\n".encode()
LONG_AGO, NOW = 0.0, 2_000_000_000.0


def mapping(name: str, address: int, time: int, size: int = 0x1000) -> records.Mmap2:
    identity = SampleId(PID, PID, time)
    return records.Mmap2(MISC_USER, PID, PID, address, size, 0, 0, 0, 0, 0, 5, 2, name, sample_id=identity)


def recording_of(
    folder: Path, *mappings: records.Mmap2, times: tuple[int, ...] = (15, 35), rounds: bool = False, packed: bool = False
) -> str:
    """A recording of record --jit before its names are stored: with an empty section for them."""
    builder = PerfDataBuilder(attrs=[usual_attr(use_clockid=1, clockid=1)])
    builder.features[Feature.HOSTNAME] = encode_feature(Feature.HOSTNAME, "here")
    builder.features[KEPT_FILES] = b""
    for record in mappings:
        builder.record(record)
    for moment in times:
        builder.sample(ip=CODE + 4, pid=PID, tid=PID, time=moment, period=1, misc=MISC_USER)
        if rounds:
            builder.round()
    if packed:
        size = len(builder.body)
        builder.compressed()
        builder.features[Feature.COMPRESSED] = encode_feature(Feature.COMPRESSED, Compression(1, 1, 1, 2, size))
    path = folder / "perf.data"
    path.write_bytes(builder.file())
    return str(path)


def names(path: str) -> list[str]:
    with Recording(path) as recording:
        symbolizer = recording.symbolizer()
        results = []
        for batch in recording.data.batches():
            columns = batch.columns
            ids = symbolizer.frame_ids(columns["pid"], columns["ip"], batch.key, columns["cpumode"])
            symbol = symbolizer.resolve().symbol[ids]
            results += [symbolizer.symbols.name(number) if number >= 0 else "-" for number in symbol.tolist()]
        assert recording.warnings == []
        return results


@pytest.fixture
def kept_perf_map(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of the process's perf map, instead of /tmp."""
    path = tmp_path / "perf-77.map"
    monkeypatch.setattr(dso, "perf_map_paths", lambda pid: iter([str(tmp_path / f"perf-{pid}.map")]))
    monkeypatch.setattr(process_files, "began", lambda pid: None)
    return path


@pytest.fixture
def dump(tmp_path: Path, kept_perf_map: Path) -> Path:
    """A jitdump with a function compiled at time 20."""
    path = tmp_path / "jit-77.dump"
    path.write_bytes(header() + load("JS:*fib", CODE, b"\x90" * 16, 3, time=20))
    return path


def test_a_perf_map_is_kept_and_read_when_the_file_has_gone(tmp_path: Path, kept_perf_map: Path):
    kept_perf_map.write_bytes(MAP)
    path = recording_of(tmp_path, mapping("//anon", CODE, 10))
    before = Path(path).read_bytes()
    stored = store_names(path, LONG_AGO)
    assert stored == Kept(1, 0, (), frozenset({PID}))
    kept_perf_map.unlink()
    assert names(path) == ["py::f:/a.py"] * 2
    assert len(Path(path).read_bytes()) > len(before)


def test_names_in_a_recording_precede_those_of_the_machine(tmp_path: Path, kept_perf_map: Path):
    kept_perf_map.write_bytes(MAP)
    path = recording_of(tmp_path, mapping("//anon", CODE, 10))
    store_names(path, LONG_AGO)
    kept_perf_map.write_bytes(MAP.replace(b"py::f", b"another's"))
    assert names(path) == ["py::f:/a.py"] * 2


def test_nothing_is_written_where_there_is_nothing_to_keep(tmp_path: Path, kept_perf_map: Path):
    path = recording_of(tmp_path, mapping("//anon", CODE, 10))
    before = Path(path).read_bytes()
    assert store_names(path, LONG_AGO).maps == 0
    assert Path(path).read_bytes() == before


@pytest.mark.parametrize(("began", "first", "maps"), [(NOW, 10, 0), (LONG_AGO, 10, 1), (NOW, 0, 1)])
def test_a_map_from_before_its_process_is_another_ones(tmp_path: Path, kept_perf_map: Path, began: float, first: int, maps: int):
    """A mapping of time 0 was there when the recording began, and so may be a map from before."""
    kept_perf_map.write_bytes(MAP)
    os.utime(kept_perf_map, (NOW - 1000, NOW - 1000))
    assert store_names(recording_of(tmp_path, mapping("//anon", CODE, first)), began).maps == maps


def test_a_map_from_before_a_process_that_runs_is_another_ones(tmp_path: Path, kept_perf_map: Path, monkeypatch: pytest.MonkeyPatch):
    kept_perf_map.write_bytes(MAP)
    monkeypatch.setattr(process_files, "began", lambda pid: NOW * 2)
    assert store_names(recording_of(tmp_path, mapping("//anon", CODE, 0)), LONG_AGO).maps == 0


def test_maps_of_others_are_not_trusted(tmp_path: Path, kept_perf_map: Path, monkeypatch: pytest.MonkeyPatch):
    kept_perf_map.write_bytes(MAP)
    monkeypatch.setattr(process_files, "trusted_owners", lambda pid: {os.geteuid() + 1})
    stored = store_names(recording_of(tmp_path, mapping("//anon", CODE, 10)), LONG_AGO)
    assert (stored.maps, stored.failures) == (0, (f"{kept_perf_map}: belongs to user {os.geteuid()}; not stored",))


def test_jitted_code_is_mapped_from_when_it_was_made(tmp_path: Path, dump: Path):
    path = recording_of(tmp_path, mapping(str(dump), 0x1000, 10), mapping("//anon", CODE, 5), mapping("//anon", CODE, 30))
    stored = store_names(path, LONG_AGO, str(tmp_path / "cache"))
    dump.unlink()
    assert (stored.maps, stored.functions, stored.failures) == (0, 1, ())
    assert names(path) == ["-", "JS:*fib"]
    with Recording(path) as recording:
        assert recording.header["hostname"] == "here"
        files = recording.data.kept_files
        assert files is not None
        (image,) = files
        assert os.path.dirname(os.path.dirname(image)) == str(tmp_path / "cache" / "jit")
        assert Path(image).read_bytes() == files.get(image)
    assert [entry.name for entry in tmp_path.iterdir() if entry.name.startswith("perf.data")] == ["perf.data"]


def test_images_are_read_from_the_recording(tmp_path: Path, dump: Path):
    path = recording_of(tmp_path, mapping(str(dump), 0x1000, 10))
    store_names(path, LONG_AGO, str(tmp_path / "cache"))
    for image in (tmp_path / "cache" / "jit").rglob("*.so"):
        image.unlink()
    assert names(path) == ["-", "JS:*fib"]


def test_no_image_is_written_where_no_copies_are_wanted(tmp_path: Path, dump: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    path = recording_of(tmp_path, mapping(str(dump), 0x1000, 10))
    store_names(path, LONG_AGO, None)
    assert names(path) == ["-", "JS:*fib"]
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("rounds", [True, False])
def test_records_stand_in_the_round_of_their_time(tmp_path: Path, dump: Path, rounds: bool):
    times = (10, 15, 18, 25, 35, 45)
    path = recording_of(tmp_path, mapping(str(dump), 0x1000, 8), times=times, rounds=rounds)
    store_names(path, LONG_AGO, str(tmp_path / "cache"))
    assert names(path) == ["-", "-", "-", "JS:*fib", "JS:*fib", "JS:*fib"]
    with Recording(path) as recording:
        types = [kind for stream in recording.data.records.chunks() for ordered in stream for kind in ordered.chunk.types.tolist()]
    assert types.count(RecordType.FINISHED_ROUND) == (len(times) if rounds else 0)
    if rounds:  # behind the sample of time 25, before the end of its round
        assert types.index(RecordType.MMAP2) == 7


def test_a_compressed_recording_stays_compressed(tmp_path: Path, dump: Path):
    path = recording_of(tmp_path, mapping(str(dump), 0x1000, 8), times=tuple(range(10, 3010)), packed=True)
    store_names(path, LONG_AGO, str(tmp_path / "cache"))
    assert names(path) == ["-"] * 10 + ["JS:*fib"] * 2990
    with Recording(path) as recording:
        assert recording.data.record_index.type_counts[RecordType.COMPRESSED]
        assert recording.header["compressed"].mmap_len >= recording.header["compressed"].ratio > 1


@pytest.mark.parametrize("name", ["replace", "writev"])
def test_a_recording_that_cannot_be_rewritten_stays_unchanged(
    tmp_path: Path, dump: Path, kept_perf_map: Path, monkeypatch: pytest.MonkeyPatch, name: str
):
    def full(*arguments: object, **options: int) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = recording_of(tmp_path, mapping(str(dump), 0x1000, 10))
    before = Path(path).read_bytes()
    monkeypatch.setattr(os, name, full)
    stored = store_names(path, LONG_AGO, str(tmp_path / "cache"), remove_dumps=True)
    assert stored.functions == 0
    assert "No space left on device" in stored.failures[0]
    assert "the recording is unchanged" in stored.failures[0]
    assert Path(path).read_bytes() == before
    assert dump.exists()
    assert [entry.name for entry in tmp_path.iterdir() if entry.name.startswith("perf.data")] == ["perf.data"]


def test_the_perf_maps_are_kept_all_the_same(tmp_path: Path, dump: Path, kept_perf_map: Path, monkeypatch: pytest.MonkeyPatch):
    def refused(*arguments: object, **options: int) -> None:
        raise PermissionError(errno.EACCES, "no")

    kept_perf_map.write_bytes(MAP)
    path = recording_of(tmp_path, mapping(str(dump), 0x1000, 10), mapping("//anon", CODE, 10))
    monkeypatch.setattr(os, "replace", refused)
    assert store_names(path, LONG_AGO, str(tmp_path / "cache")).maps == 1
    assert names(path) == ["py::f:/a.py"] * 2


def test_a_section_that_cannot_be_added_leaves_the_recording_as_it_was(
    tmp_path: Path, kept_perf_map: Path, monkeypatch: pytest.MonkeyPatch
):
    real = os.write
    sizes: list[int] = []

    def half(fd: int, data: bytes) -> int:
        sizes.append(len(data))
        if len(sizes) > 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(fd, data[: len(data) // 2])

    kept_perf_map.write_bytes(MAP)
    path = recording_of(tmp_path, mapping("//anon", CODE, 10))
    before = Path(path).read_bytes()
    monkeypatch.setattr(os, "write", half)
    stored = store_names(path, LONG_AGO)
    assert (stored.maps, len(sizes)) == (0, 2)
    assert "No space left on device" in stored.failures[0]
    assert Path(path).read_bytes() == before


def test_dumps_are_removed_when_their_code_is_in_the_recording(tmp_path: Path, dump: Path):
    state = dump.stat()
    mapped = mapping(str(dump), 0x1000, 10)._replace(maj=os.major(state.st_dev), min=os.minor(state.st_dev), ino=state.st_ino)
    store_names(recording_of(tmp_path, mapped._replace(ino=1)), LONG_AGO, str(tmp_path / "cache"), remove_dumps=True)
    assert dump.exists()  # not the file that was mapped
    store_names(recording_of(tmp_path, mapped), LONG_AGO, str(tmp_path / "cache"), remove_dumps=True)
    assert not dump.exists()


def test_an_invalid_dump_is_reported(tmp_path: Path, dump: Path):
    dump.write_bytes(b"x" * 100)
    stored = store_names(recording_of(tmp_path, mapping(str(dump), 0x1000, 10)), LONG_AGO, str(tmp_path / "cache"))
    assert stored.failures == (f"{dump}: not a jitdump file",)


def test_functions_of_other_processes_are_omitted(tmp_path: Path, dump: Path):
    dump.write_bytes(header() + load("theirs", CODE, b"\x90" * 16, 3, time=20, pid=PID + 1))
    assert store_names(recording_of(tmp_path, mapping(str(dump), 0x1000, 10)), LONG_AGO, str(tmp_path / "cache")).functions == 0


def test_lines_that_were_found_out_are_kept_and_stand_in_the_map_for_others(tmp_path: Path, kept_perf_map: Path):
    kept_perf_map.write_bytes(MAP)
    path = recording_of(tmp_path, mapping("//anon", CODE, 10))
    more = f"{CODE + 0x100:x} 10 void App.main()\n".encode()
    assert store_names(path, LONG_AGO, known_lines={PID: more}).maps == 1
    assert kept_perf_map.read_bytes() == MAP + more
    kept_perf_map.unlink()
    assert "py::f:/a.py" in names(path)
    path = recording_of(tmp_path, mapping("//anon", CODE, 10))
    assert store_names(path, LONG_AGO, known_lines={PID: more}).maps == 1  # a process that was killed has written none
    assert not kept_perf_map.exists()
