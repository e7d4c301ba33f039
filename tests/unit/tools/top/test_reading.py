"""The records between two updates: nothing is lost below the limit; beyond it only samples are."""

from __future__ import annotations

import errno
import os
import re
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from perfpy import cli
from perfpy.abi.records import Lost, Mmap2
from perfpy.capture.session import output
from perfpy.errors import OutputFailedError
from perfpy.perfdata.records.delivery import RawRecords
from perfpy.perfdata.writer import FileWriter
from perfpy.tools.top import reading
from perfpy.tools.top.reading import Retained, RingReader, without_samples, write_snapshot
from tests.builders.perfdata import PerfDataBuilder, usual_attr

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class Rings:
    """Ring buffers that return prepared records, one piece per read."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = [*pieces]

        self.rates: list[float] = []

    def read(self) -> bytes:
        return self._pieces.pop(0) if self._pieces else b""

    def change_rate(self, share: float) -> None:
        self.rates.append(share)


class Spool:
    """Notes the calls of the reader."""

    def __init__(self) -> None:
        self.calls = ""

    def look(self, records: bytes) -> None:
        self.calls += f"look {len(records)}, "

    def close_piece(self) -> None:
        self.calls += "close, "

    def release_pieces(self) -> None:
        self.calls += "release, "


def reader(*pieces: bytes, **options: Any) -> RingReader:
    return RingReader(Rings(pieces), **options)  # type: ignore[arg-type]


def samples(count: int) -> bytes:
    builder = PerfDataBuilder()
    for time in range(count):
        builder.sample(ip=0x1000, pid=5, tid=5, time=time, period=1)
    return bytes(builder.body)


LOST = bytes(PerfDataBuilder().record(Lost(0, 1, 42)).body)


def test_a_reading_has_all_records_since_the_last_one() -> None:
    live = reader(samples(2), LOST, samples(1))
    live.drain()
    assert live.take().records == samples(2) + LOST
    assert live.take(last=True)[1:] == (samples(1), b"", 0, True)
    assert live.take().records == b""


def test_beyond_the_limit_samples_are_dropped_and_counted() -> None:
    live = reader(samples(3), samples(4) + LOST + samples(2), samples(1), most=len(samples(4)))
    live.drain()
    taken = live.take()
    assert (taken.records, taken.dropped) == (samples(3) + LOST, 6)
    assert live.take()[1:4] == (samples(1), b"", 0)  # there is memory again


def test_records_without_samples_keep_their_order() -> None:
    assert without_samples(b"") == (b"", 0)
    assert without_samples(LOST + samples(1) + LOST) == (LOST + LOST, 1)


def test_the_other_process_sees_two_pieces_per_reading() -> None:
    """Records are complete only when all ring buffers were read once more."""
    spool = Spool()
    taken = reader(LOST, samples(1), spooled=spool).take()
    assert (taken.records, taken.further) == (LOST, samples(1))
    assert re.sub(r"\d+", "N", spool.calls) == "release, look N, close, look N, close, "


def test_no_more_waits_for_conversion_than_one_takes_in_an_interval() -> None:
    """A conversion of a megabyte takes 4 s: in an interval of 2 s, half a megabyte would be done; the least is a megabyte."""
    live, megabyte = reader(samples(100), samples(100), spooled=Spool()), 1 << 20
    for size, seconds, most in ((8 * megabyte, 4, 4), (megabyte, 4, 1), (8 * megabyte, 1, 2), (8 * megabyte, 1, 4), (9, 1e9, 4)):
        live.adapt(size, seconds, 2.0)
        assert live._most == most * megabyte


def test_on_a_busy_machine_less_waits_for_an_update_and_later_more_again() -> None:
    live, megabyte = reader(most=16 << 20), 1 << 20
    for size, seconds, most in ((8 * megabyte, 2, 8), (8 * megabyte, 20, 4), (4 * megabyte, 1, 8), (8 * megabyte, 0.1, 16), (9, 1e9, 16)):
        live.adapt(size, seconds, 2.0)
        assert live._most == most * megabyte


def test_samples_from_before_the_start_are_forgotten() -> None:
    live = reader(samples(2) + LOST, samples(1))
    live.drain()
    live.forget_samples()
    assert live.take()[1:4] == (LOST + samples(1), b"", 0)


def test_mappings_are_dropped_beyond_the_limit_of_the_side_band(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process can map 65,530 files with names of 4 kB, again and again."""
    mapping = bytes(PerfDataBuilder().record(Mmap2(2, 5, 5, 0x1000, 0x1000, 0, 8, 1, 7, 0, 5, 2, "/" + "x" * 4000, b"")).body)
    monkeypatch.setattr(reading, "_MOST_SIDE_BAND", 2 * len(mapping))
    live = reader(mapping, mapping, mapping + LOST + mapping, most=len(LOST))
    live.drain()
    live.drain()
    assert live.take()[1:4] == (2 * mapping + LOST, b"", 2)


def test_the_rate_falls_while_most_samples_are_dropped_and_rises_again() -> None:
    """There is room for six samples: two of them are kept, then three of nine, three of ten, and so on."""
    rings = Rings([samples(count) for kept in (2, 3) for count in (kept, 7)] + [samples(1), samples(1), samples(1)])
    live = RingReader(rings, most=len(samples(6)), adapts_rate=True)  # type: ignore[arg-type]
    for reads in (2, 2, 1, 1, 1):
        for _ in range(reads):
            live.drain()
        live.take()
    assert rings.rates == [0.5, 0.25, 0.5, 1.0]


# The key w of top: the last minute as a perf.data, and what stays if the disk is full.


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
