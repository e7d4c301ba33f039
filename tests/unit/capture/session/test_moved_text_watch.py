"""Records of new memory with code are followed by records of the file whose text was moved there."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any

import pytest

from perfpy.abi.attr import EventAttr
from perfpy.abi.flags import MISC_KERNEL, MISC_MMAP_BUILD_ID, MISC_USER, RecordType, SampleType
from perfpy.abi.records import IdLayout, Mmap2, SampleId, decode, encode
from perfpy.capture.session.moved_text_watch import MovedTextWatch
from perfpy.capture.session.output import Drain
from perfpy.kernel.procfs import ProcMapping

FIELDS = SampleType.IP | SampleType.TID | SampleType.TIME
ATTR = EventAttr(sample_type=FIELDS, sample_id_all=True)
LAYOUT = IdLayout(FIELDS, "<")
TEXT, SIZE = 0x5500_0000_4000, 0x20_0000
PID = 4_194_305  # more than pid_max: no process


def mmap2(name: str = "//anon", start: int = TEXT, size: int = SIZE, *, time: int = 100, prot: int = 5, pid: int = PID, misc=MISC_USER):
    return encode(Mmap2(misc, pid, pid, start, size, 0, 0, 0, 0, 0, prot, 0x22, name, b"", SampleId(pid, pid, time)), LAYOUT, "<")


def sample(time: int, content: bytes = b"") -> bytes:
    content = content.ljust((len(content) + 7) & ~7, b"\0")
    return struct.pack("=IHHQIIQ", RecordType.SAMPLE, MISC_USER, 32 + len(content), TEXT, PID, PID, time) + content


class Process:
    """A process in /proc, and the text that is found in it."""

    def __init__(self, *texts: tuple[int, int, int], seconds: float = 0.0) -> None:
        self.texts = [ProcMapping(start, end, 5, 2, offset, 8, 1, 99, "/bin/program") for start, end, offset in texts]
        self.searches = 0
        self.now = 0.0
        self.seconds = seconds
        self.is_alive = True

    def memory_with_code(self, pid: int, is_memory: object) -> list[ProcMapping]:
        return self.texts or [ProcMapping(0, 1, 5, 2, 0, 0, 0, 0, "")] if self.is_alive else []

    def find(self, pid: int, mappings: list[ProcMapping]) -> list[ProcMapping]:
        self.searches += 1
        self.now += self.seconds
        return self.texts

    def watch(self, **options: Any) -> MovedTextWatch:
        return MovedTextWatch([ATTR], self, find=self.find, clock=lambda: self.now, **options)  # type: ignore[arg-type]


def taken(watch: MovedTextWatch, *records: bytes) -> list[Mmap2]:
    """The records that a pass adds to these ones."""
    watch.look([memoryview(b"".join(records))])
    results = []
    for record in watch.take():
        kind, misc, size = struct.unpack_from("=IHH", record)
        assert (kind, size) == (RecordType.MMAP2, len(record))
        decoded = decode(kind, misc, record[8:], LAYOUT, "<")
        assert isinstance(decoded, Mmap2)
        results.append(decoded)
    return results


def time_of(record: Mmap2) -> int | None:
    assert record.sample_id
    return record.sample_id.time


def extents(records: list[Mmap2]) -> list[tuple[int, int, int]]:
    return [(record.addr, record.len, record.pgoff) for record in records]


WHOLE = (TEXT, TEXT + SIZE, 0x4000)
NAMES = ["//anon", "/anon_hugepage (deleted)", "/memfd:text (deleted)", "/dev/shm/text", "/dev/hugepages/x", "/dev/zero (deleted)"]


@pytest.mark.parametrize("name", NAMES)
def test_moved_text_gets_the_record_of_its_file(name):
    (record,) = taken(Process(WHOLE).watch(), sample(90), mmap2(name, time=100), sample(110))
    assert (record.filename, record.maj, record.min, record.ino, record.ino_generation) == ("/bin/program", 8, 1, 99, 0)
    assert (record.misc, record.pid, record.tid, record.prot, record.flags) == (MISC_USER, PID, PID, 5, 2)
    assert extents([record]) == [(TEXT, SIZE, 0x4000)]
    assert record.sample_id == SampleId(PID, PID, 100)  # the kernel's


def test_only_the_proven_part_of_the_recorded_range_is_the_file():
    """The kernel joins mappings, so that the text may also be larger than the record's range."""
    process = Process((TEXT - 0x1000, TEXT + 0x2000, 0x3000), (TEXT + 0x3000, TEXT + SIZE + 0x1000, 0x7000))
    expected = [(TEXT, 0x2000, 0x4000), (TEXT + 0x3000, SIZE - 0x3000, 0x7000)]
    assert extents(taken(process.watch(), mmap2())) == expected


@pytest.mark.parametrize(
    "record",
    [mmap2("/lib/x.so"), mmap2(prot=1), mmap2(misc=MISC_KERNEL), mmap2("//anonymous"), sample(1, bytes(8) + mmap2())],
    ids=["file", "data", "kernel", "other name", "in a sample"],
)
def test_other_records_are_not_looked_into(record):
    process = Process(WHOLE)
    assert taken(process.watch(), record) == []
    assert not process.searches


def test_a_record_that_is_wrapped_around_the_end_of_the_buffer_is_read():
    watch = Process(WHOLE).watch()
    data = sample(1) + mmap2()
    for cut in (40, 56, 100):
        watch.look([memoryview(data)[:cut], memoryview(data)[cut:]])
        assert len(watch.take()) == 1


def test_large_contents_are_searched_too():
    watch = Process(WHOLE).watch()
    assert len(taken(watch, *[sample(time) for time in range(10_000)], mmap2())) == 1
    assert taken(watch, *[sample(time) for time in range(10_000)]) == []


@pytest.mark.parametrize("before", [0, 1, 31, 32, 500, 5_000])
@pytest.mark.parametrize("content", [b"", b"\x09" * 8_000])
def test_a_record_behind_samples_of_one_size_is_found(before: int, content: bytes):
    samples = [sample(time, content) for time in range(min(before, 100 if content else before))]
    assert len(taken(Process(WHOLE).watch(), *samples, mmap2(), *samples)) == 1
    for cut in (4, 40, 100):  # the buffer ends in the record
        contents = b"".join([*samples, mmap2()])
        watch = Process(WHOLE).watch()
        at = len(contents) - cut
        watch.look([memoryview(contents)[:at], memoryview(contents)[at:]])
        assert len(watch.take()) == 1


@pytest.mark.parametrize("size", [0, 1, 7, 8, 32, 40])
def test_damaged_contents_end_the_search(size: int):
    """Sizes of 0, too small ones, and samples longer than the contents."""
    whole = sample(1)
    process = Process(WHOLE)
    for contents in (struct.pack("=IHH", RecordType.SAMPLE, 0, size) + whole[8:], whole[:size], whole * 40 + whole[:size]):
        process.watch().look([memoryview(contents)])
    assert not process.searches


def test_text_that_is_still_being_copied_is_found_later():
    """In the next pass the kernel's time is still right. Later readers have sorted that time, so that of the pass is used."""
    process = Process()
    watch = process.watch()
    assert taken(watch, mmap2(time=100)) == []
    process.texts = Process(WHOLE).texts
    (record,) = taken(watch, sample(200))
    assert time_of(record) == 100
    assert taken(watch, sample(300)) == []  # once
    process.texts = []
    for time in (400, 500):
        assert taken(watch, mmap2(time=400) if time == 400 else sample(time)) == []
    process.texts = Process(WHOLE).texts
    (record,) = taken(watch, sample(600))
    assert time_of(record) == 600


def test_ranges_to_search_again_end_waiting():
    process = Process()
    watch = process.watch()
    assert 1000 < watch.wait(0) < 1e6  # poll() takes milliseconds up to 2^31
    taken(watch, mmap2())
    assert 0 < watch.wait(process.now) < 0.1
    watch.ring(process.now + 0.1)
    assert 1000 < watch.wait(process.now) < 1e6
    process.texts = Process(WHOLE).texts
    assert len(taken(watch, sample(1))) == 1
    assert 1000 < watch.wait(process.now) < 1e6


def test_a_range_is_not_searched_for_ever():
    process = Process()
    watch = process.watch()
    taken(watch, mmap2())
    for time in range(20):
        taken(watch, sample(time))
    assert process.searches == 4
    assert not watch._ranges


def test_an_ended_process_is_forgotten():
    process = Process(WHOLE)
    process.is_alive = False
    watch = process.watch()
    assert taken(watch, mmap2()) == []
    assert not watch._ranges


def test_the_last_of_equal_ranges_decides():
    """mmap() and mprotect() each have a record; what was mapped last lies over all earlier records."""
    assert [time_of(record) for record in taken(Process(WHOLE).watch(), mmap2(time=1), mmap2(time=2))] == [2]


def test_a_hundred_thousand_ranges_take_little_memory_and_time():
    process = Process(seconds=0.01)
    watch = process.watch()
    for number in range(100):
        records = [mmap2(start=TEXT + SIZE * (number * 1000 + one), time=number) for one in range(1000)]
        taken(watch, *records)
        process.now += 0.01
    assert len(watch._ranges[PID]) <= 256
    assert process.searches * process.seconds < 0.7  # half a second at once, then a fiftieth


def test_text_is_searched_again_after_skipped_records():
    """A process that maps memory all the time uses up the allowance; then records are not read, which may cover its text."""
    process = Process(WHOLE)
    watch = process.watch()
    assert len(taken(watch, mmap2(time=1))) == 1
    watch._walking._seconds = -0.1
    assert taken(watch, mmap2(time=2)) == []
    process.now += 100
    (record,) = taken(watch, sample(3))
    assert (record.filename, time_of(record)) == ("/bin/program", 3)
    assert taken(watch, sample(4)) == []


def test_a_process_without_moved_text_does_not_delay_others():
    process = Process(seconds=0.3)
    watch = process.watch()
    for _ in range(3):
        taken(watch, mmap2(pid=PID + 1))
    process.texts = Process(WHOLE).texts
    process.now += 20
    assert {record.pid for record in taken(watch, mmap2(pid=PID + 1), mmap2())} >= {PID}


def test_thousands_of_processes_take_little_memory():
    watch = Process(seconds=1).watch()
    for number in range(2000):
        taken(watch, mmap2(pid=PID + number))
    assert len(watch._ranges) <= 256


def test_records_with_build_ids_have_that_of_the_file():
    build_ids = {"/bin/program": bytes(range(20))}
    (record,) = taken(Process(WHOLE).watch(build_id=lambda path: build_ids[path]), mmap2())
    assert (record.misc, record.build_id) == (MISC_USER | MISC_MMAP_BUILD_ID, bytes(range(20)))


def test_events_without_times_have_none():
    attr = EventAttr(sample_type=SampleType.IP | SampleType.TID, sample_id_all=True)
    layout = IdLayout(attr.sample_type, "<")
    process = Process(WHOLE)
    watch = MovedTextWatch([attr], process, find=process.find, clock=lambda: 0.0)  # type: ignore[arg-type]
    record = encode(Mmap2(MISC_USER, PID, PID, TEXT, SIZE, 0, 0, 0, 0, 0, 5, 0, "//anon", b"", SampleId(PID, PID)), layout, "<")
    watch.look([memoryview(record)])
    (result,) = watch.take()
    assert decode(RecordType.MMAP2, MISC_USER, result[8:], layout, "<").sample_id == SampleId(PID, PID)


def test_the_records_are_written_before_the_end_of_the_pass():
    class Output:
        def __init__(self) -> None:
            self.log: list[object] = []

        def write_ring(self, slices: Any) -> None:
            self.log.append(b"".join(slices))

        def end_round(self) -> None:
            self.log.append("round")

    class OneRing:
        backward = False

        def __init__(self, data: bytes) -> None:
            self.slices = [memoryview(data)]

        def pending(self) -> list[memoryview]:
            return self.slices

        def consume(self) -> None:
            self.slices = []

    data, output = mmap2(), Output()
    counters = SimpleNamespace(rings=[OneRing(data)], aux=None)
    drain = Drain(counters, output, watch=Process(WHOLE).watch())  # type: ignore[arg-type]
    drain.forward()
    written, added, end = output.log
    assert (written, end) == (data, "round")
    assert isinstance(added, bytes)
    assert b"/bin/program\0" in added
    drain.forward()
    assert len(output.log) == 3
