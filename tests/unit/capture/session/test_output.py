"""Output files: the old one is renamed, names get times, and failures leave no files."""

from __future__ import annotations

import os
import struct
from types import SimpleNamespace
from typing import Any

import pytest

from perfpy.abi import records
from perfpy.abi.attr import EventAttr
from perfpy.abi.flags import CONTEXT_KERNEL, CONTEXT_USER, MISC_MMAP_BUILD_ID, MISC_USER, NATIVE_ENDIAN, PerfType, RecordType, SampleType
from perfpy.abi.records import NO_ID, IdLayout, Mmap2
from perfpy.abi.sample_encoding import encode_sample
from perfpy.capture.counter import OpenEvent
from perfpy.capture.dso_hits import DsoHits
from perfpy.capture.record_options import RecordOptions, SamplingOptions, SwitchOutput
from perfpy.capture.session.closing import OwnSamples
from perfpy.capture.session.inputs import OutputSwitch, Timetable
from perfpy.capture.session.output import (
    Drain,
    OutputPart,
    RecordOutput,
    RoundStarts,
    chain_ends,
    has_walked_chains,
    looks_at_chains,
    scan_part,
    truncate_attr,
)
from perfpy.errors import OutputFailedError
from perfpy.events.event import Event
from perfpy.kernel.ring import Ring
from perfpy.perfdata.reader import PerfData
from perfpy.perfdata.writer import Packer, WrittenEvent
from perfpy.symbols.quality_notes import ChainEnds
from tests.builders.perfdata import USUAL, usual_attr


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "perf.data")


def content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def put(path: str, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)


def test_the_recording_before_is_kept(path):
    put(path, b"older")
    RecordOutput(path).writer.close()
    assert content(path + ".old") == b"older"


def test_an_empty_file_is_not_worth_keeping(path):
    put(path, b"")
    RecordOutput(path).writer.close()
    assert not os.path.exists(path + ".old")


def test_a_recording_that_never_began_gives_the_old_one_back(path):
    put(path, b"older")
    RecordOutput(path).abandon()
    assert content(path) == b"older"
    assert not os.path.exists(path + ".old")


def test_two_files_of_one_moment_have_two_names(path, monkeypatch):
    monkeypatch.setattr("time.time", lambda: 1_700_000_000.5)
    names = set()
    for _ in range(3):
        output = RecordOutput(path)
        output.begin([WrittenEvent(EventAttr(), (1,))], {})
        output.finish({})
        names.add(output.stamp())
    assert len(names) == 3
    assert all(map(os.path.exists, names))


def test_a_finished_file_gets_the_time_into_its_name(path):
    output = RecordOutput(path)
    output.begin([WrittenEvent(EventAttr(), (1,))], {})
    output.finish({})
    name = output.stamp()
    assert name.startswith(path + ".20")
    assert os.listdir(os.path.dirname(path)) == [os.path.basename(name)]


def test_each_compressed_file_can_be_read_by_itself(path):
    output = RecordOutput(path, Packer(1))
    names = []
    for number in range(3):
        output.begin([WrittenEvent(usual_attr(), ())], {})
        output.write_ring([encode_sample(usual_attr(), {"ip": number, "time": 1 + number}, NATIVE_ENDIAN)] * 5)
        output.finish({})
        names.append(f"{path}.{number}")
        os.rename(path, names[-1])
        output.reopen()
    for number, name in enumerate(names):
        with PerfData(name) as data:
            assert [int(ip) for batch in data.batches(["ip"]) for ip in batch.columns["ip"]] == [number] * 5
            assert not data.warnings


def test_files_are_switched_by_size_time_and_signal():
    by_size = OutputSwitch(SwitchOutput(size=100), 0)
    assert [by_size.due(size, 0.0) for size in (99, 100)] == [False, True]
    by_time = OutputSwitch(SwitchOutput(seconds=2), 0)
    by_time.begin(10.0)
    assert [by_time.due(0, now) for now in (11.9, 12.0, 12.1, 14.0)] == [False, True, False, True]
    by_signal = OutputSwitch(SwitchOutput(), 0)
    by_signal.ask()
    assert [by_signal.due(0, 0.0), by_signal.due(0, 0.0)] == [True, False]
    never = OutputSwitch(None, 0)
    never.ask()
    assert not never.due(1 << 40, 1e9)


def test_the_oldest_files_go():
    switch = OutputSwitch(SwitchOutput(), 2)
    assert [switch.add_file(name) for name in "abcd"] == [[], [], ["a"], ["b"]]
    assert switch.files == ["c", "d"]
    unlimited = OutputSwitch(SwitchOutput(), 0)
    assert [unlimited.add_file(name) for name in "abcd"] == [[], [], [], []]


def test_delays_are_ranges_or_one_start():
    table = Timetable(((10, 20), (30, 40)), 100.0)
    assert table.wait(100.0) == pytest.approx(0.010)
    assert [switch.on for switch in table.due(100.025)] == [True, False]
    assert [switch.on for switch in table.due(100.025)] == []
    assert [switch.on for switch in Timetable(50, 0.0).due(1.0)] == [True]
    assert Timetable(-1, 0.0).wait(0.0) is None
    assert (table.over, [switch.on for switch in table.due(100.1)], table.over) == (False, [True, False], True)
    assert not any(Timetable(delay, 0.0).over for delay in (-1, 0, 50))


def folder(path: str, *names: str) -> None:
    os.mkdir(path)
    for name in names:
        put(f"{path}/{name}", b"there")


@pytest.mark.parametrize("before", ["nothing", "file", "folder", "link"])
def test_a_folder_replaces_the_previous_backup(path, before):
    folder(path, "data", "data.0", "data.1")
    if before == "file":
        put(path + ".old", b"oldest")
    elif before == "folder":
        folder(path + ".old", "data", "data.0", "data.7")
    elif before == "link":
        os.symlink("/nonexistent", path + ".old")
    RecordOutput(path).writer.close()
    assert sorted(os.listdir(path + ".old")) == ["data", "data.0", "data.1"]
    assert os.path.isfile(path)


def test_a_folder_with_other_things_is_not_removed(path):
    put(path, b"older")
    folder(path + ".old", "data", "letters")
    with pytest.raises(OutputFailedError, match="not empty"):
        RecordOutput(path)
    assert sorted(os.listdir(path + ".old")) == ["data", "letters"]
    assert content(path) == b"older"


# The end of a file: scans of plain and compressed records, marks of mappings without build-ids, and truncated attrs.


ON_DISK = (0xFE, 0, 349700, 0)  # maj, min, ino, generation of a file; 0xfe would be the size of a build-id
BUILD_ID = bytes(range(1, 21))


def mapping(name: str, misc: int, place: tuple[int, int, int, int] = (0, 0, 0, 0), build_id: bytes = b"") -> bytes:
    return records.encode(Mmap2(misc | MISC_USER, 1, 1, 0x400000, 0x1000, 0, *place, 5, 2, name, build_id), NO_ID, NATIVE_ENDIAN)


def scanned(path, *parts: bytes, packed: bool = False, begin: int = 24) -> DsoHits:
    path.write_bytes(bytes(begin) + b"".join(parts))
    fd = os.open(path, os.O_RDWR)
    hits = DsoHits([usual_attr()])
    content = path.read_bytes()
    scan_part(memoryview(content)[begin:], OutputPart(fd, begin, len(content), []), hits, packed=packed)
    os.close(fd)
    return hits


def test_a_mapping_with_a_wrong_build_id_flag_is_corrected(tmp_path):
    wrong = mapping("/lib/wrong", MISC_MMAP_BUILD_ID, ON_DISK)
    right = mapping("/lib/right", MISC_MMAP_BUILD_ID, build_id=BUILD_ID)
    plain = mapping("/lib/plain", 0, ON_DISK)
    hits = scanned(tmp_path / "file", plain, wrong, right)
    assert {dso.name: dso.build_id for dso in hits.dsos.values()} == {"/lib/plain": b"", "/lib/wrong": b"", "/lib/right": BUILD_ID}
    assert (tmp_path / "file").read_bytes()[24:] == plain + mapping("/lib/wrong", 0, ON_DISK) + right


@pytest.mark.parametrize("place", [ON_DISK, (8, 1, 12345, 7), (8, 1, 1 << 40, 0), (0, 39, 77, 0), (0x103, 1, 5, 0)])
def test_numbers_of_a_file_are_no_build_id(place):
    record = records.decode(10, MISC_MMAP_BUILD_ID | MISC_USER, mapping("/lib/x", 0, place)[8:], NO_ID, NATIVE_ENDIAN)
    assert isinstance(record, Mmap2)
    assert (record.misc, record.maj, record.min, record.ino, record.ino_generation, record.build_id) == (MISC_USER, *place, b"")


def test_hit_files_of_compressed_recordings_are_found(tmp_path):
    packer = Packer(1)
    samples = [encode_sample(usual_attr(), {"ip": 0x400010, "pid": 1, "time": time}, NATIVE_ENDIAN) for time in range(1, 5000)]
    first = b"".join(packer.pack(mapping("/lib/hit", 0, ON_DISK), *samples[:2000]))
    between = mapping("/lib/other", 0, ON_DISK)
    rest = b"".join(packer.pack(*samples[2000:]))
    hits = scanned(tmp_path / "file", first, between, rest, packed=True)
    assert (hits.samples, hits.first_time, hits.last_time) == (4999, 1, 4999)
    assert [dso.name for dso in hits.hit()] == ["/lib/hit", "/lib/other"]


def test_callchains_are_checked_whether_or_not_a_person_reads_the_hint():
    chains = usual_attr(int(SampleType.CALLCHAIN))
    for notes in (False, True):
        assert looks_at_chains(RecordOptions(notes=notes), [chains])
    assert not looks_at_chains(RecordOptions(quiet=True, notes=True), [chains])
    assert not looks_at_chains(RecordOptions(sampling=SamplingOptions(unwind=True)), [chains])
    assert not looks_at_chains(RecordOptions(), [chains, usual_attr()])


@pytest.mark.parametrize(
    ("release", "config3", "size"), [("6.18.1", 0, 136), ("6.3.0-1-x", 0, 136), ("6.1.0-56-arm64", 0, 128), ("6.1.0", 1, 136)]
)
def test_a_perf_as_old_as_the_kernel_reads_the_attrs(monkeypatch, release, config3, size):
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(release=release))
    attr = EventAttr(type=1, config3=config3)
    assert truncate_attr(attr).size == size
    assert len(truncate_attr(attr).pack("<")) == size
    assert truncate_attr(attr) == attr


# Ring buffers that fill up while they are read.


PAGE = 4096
HEAD, TAIL = 1024, 1032
SIZE = 64
OTHER = 1


class Kernel:
    """Ring buffers that record every write to the output."""

    def __init__(self, rings: int = 2, *, feeds: int = PAGE, tid: int = OTHER) -> None:
        self._memory = [bytearray(2 * PAGE) for _ in range(rings)]
        self.rings = [Ring(memory, page_size=PAGE) for memory in self._memory]
        self.aux = None
        self.feeds = feeds
        self.tid = tid
        self.written = 0
        self.rounds = 0

    def fill(self, size: int, tid: int = OTHER) -> None:
        """Add samples, as far as there is room."""
        for memory in self._memory:
            head, tail = (struct.unpack_from("=Q", memory, at)[0] for at in (HEAD, TAIL))
            for at in range(head, min(head + size, tail + PAGE), SIZE):
                memory[PAGE + at % PAGE : PAGE + at % PAGE + SIZE] = sample(tid)
                head = at + SIZE
            struct.pack_into("=Q", memory, HEAD, head)

    def pause(self, paused: bool) -> None:
        pass

    # as an Output

    def write_ring(self, slices) -> None:
        self.written += sum(map(len, slices))
        self.fill(self.feeds, self.tid)

    def end_round(self) -> None:
        self.rounds += 1


def sample(tid: int, size: int = SIZE) -> bytes:
    return struct.pack("=IHHQII", RecordType.SAMPLE, 0, size, 0xF00, tid, tid).ljust(size, b"\0")


def event(
    fields: int = SampleType.IP | SampleType.TID, *, tracepoint: tuple[str, str] | None = ("raw_syscalls", "sys_enter"), filter: str = ""
) -> OpenEvent:
    return OpenEvent(Event("e", EventAttr(type=PerfType.TRACEPOINT, sample_type=fields), tracepoint=tracepoint, filter=filter))


def drain_of(kernel: Any, **options: Any) -> Drain:
    """Counters and output in one: its ring buffers are written to itself."""
    return Drain(kernel, kernel, **options)


def test_the_last_pass_writes_the_rest_of_the_rings():
    """Each write fills all ring buffers again; records that arrive during the last pass are not read."""
    kernel = Kernel(feeds=PAGE // 2)
    kernel.fill(PAGE // 2)
    assert drain_of(kernel).rest() == PAGE
    assert (kernel.written, kernel.rounds) == (PAGE, 1)


def test_a_pass_reads_no_ring_twice():
    kernel = Kernel()
    kernel.fill(PAGE)
    assert drain_of(kernel).forward() == 2 * PAGE


def test_a_pass_ends_between_two_rings_where_it_is_to_stop():
    """An interrupted pass is no round: the unread ring buffer may contain older records."""
    kernel = Kernel(feeds=0)
    kernel.fill(SIZE)
    drain = drain_of(kernel, stop=lambda: kernel.written > 0)
    assert (drain.forward(), kernel.rounds) == (SIZE, 0)
    assert (drain.rest(), kernel.rounds) == (SIZE, 1)


def test_little_waits_for_more_except_at_the_end():
    kernel = Kernel(feeds=0)
    kernel.fill(SIZE)
    drain = drain_of(kernel, flush=SIZE + 1)
    assert (drain.forward(), drain.rest()) == (0, 2 * SIZE)


def looks(own: OwnSamples, kernel: Kernel, passes: int) -> bool:
    """Passes over the rings, with so much written between them that each is looked at: do our own samples prevail now?"""
    drain = drain_of(kernel)
    for number in range(1, passes + 2):
        drain.inspect = own.inspect if own.due(number << 24) else None
        drain.forward()
    return own.prevail


def test_a_recorder_that_feeds_itself_leaves_itself_out():
    own = OwnSamples([event()])
    kernel = Kernel(tid=own.tid)
    kernel.fill(PAGE, own.tid)
    assert not looks(own, kernel, 2)
    assert looks(own, kernel, 2)
    (selection,) = own.leave_out()
    assert selection.filter == f"common_pid != {own.tid}"
    assert not own.prevail  # said once
    assert not looks(own, kernel, 9)


@pytest.mark.parametrize(
    "events",
    [
        [event(tracepoint=None)],  # has no filter
        [event(SampleType.IP)],  # does not tell whose samples they are
        [event(), event(SampleType.IDENTIFIER | SampleType.IP | SampleType.TID)],
    ],
)
def test_processes_that_cannot_be_filtered_are_not_read(events):
    assert not OwnSamples(events).due(1 << 40)


def test_samples_of_others_stay_unchanged():
    own = OwnSamples([event()])
    kernel = Kernel()
    kernel.fill(PAGE)
    assert not looks(own, kernel, 20)


def test_an_event_with_a_filter_keeps_it():
    """The kernel refuses a second filter for a counter with EEXIST."""
    filtered, other = event(filter="id == 1"), event()
    assert OwnSamples([filtered, other]).leave_out() == [other]
    assert filtered.filter == "id == 1"


def test_own_samples_are_counted_rarely():
    own = OwnSamples([event()])
    assert [own.due(written) for written in (0, 1 << 20, 8 << 20, 9 << 20, 16 << 20)] == [False, False, True, False, True]
    assert own.due(0), "another file has begun"


def test_a_ring_that_ends_within_a_header_is_read_as_far_as_it_goes():
    own = OwnSamples([event()])
    for data in (b"", b"\0" * 5, b"\0" * 64, sample(own.tid) + b"\t\0"):
        own.inspect((memoryview(data),))
    assert own._all == SIZE


# record -g prints a hint if callchains of programs without frame pointers end after one frame, and only then.


ATTR = usual_attr(USUAL | SampleType.CALLCHAIN)
APP, LIBC, HEAP = 0x400000, 0x7F0000000000, 0x600000


def mapped(name: str, start: int) -> bytes:
    record = records.Mmap2(MISC_USER, 7, 7, start, 0x10000, 0, 0, 0, 0, 0, 5, 2, name, b"")
    return records.encode(record, IdLayout.of(ATTR, NATIVE_ENDIAN), NATIVE_ENDIAN)


def hint_sample(*chain: int) -> bytes:
    return encode_sample(ATTR, {"ip": chain[-1] if chain else 0, "pid": 7, "tid": 7, "time": 1, "callchain": chain}, NATIVE_ENDIAN)


def judged(*samples: bytes, starts: tuple[int, ...] = (0,)) -> ChainEnds:
    data = memoryview(mapped("/usr/bin/app", APP) + mapped("/lib/libc.so.6", LIBC) + b"".join(samples))
    hits = DsoHits([ATTR])
    hits.scan(data)
    return chain_ends(data, starts, [ATTR], hits)


def test_chains_that_end_after_one_frame_are_reported_with_their_programs():
    result = judged(*[hint_sample(CONTEXT_USER, APP + 1)] * 30, *[hint_sample(CONTEXT_USER, LIBC + 1)] * 10)
    assert result.of_frame_pointers() == (
        "100% of the user call chains end after one frame: no frame pointers in app, libc.so.6; record --unwind has their callers"
    )


def test_a_caller_that_lies_in_no_code_is_none():
    assert judged(hint_sample(CONTEXT_USER, APP + 1, HEAP)) == ChainEnds(1, {"/usr/bin/app": 1})


def test_the_kernels_frames_are_not_the_users():
    result = judged(
        hint_sample(CONTEXT_KERNEL, 1 << 63, 2 << 62, CONTEXT_USER, LIBC + 5),
        hint_sample(CONTEXT_KERNEL, 1 << 63),
    )
    assert result == ChainEnds(1, {"/lib/libc.so.6": 1})


def test_complete_chains_have_no_note():
    whole = [hint_sample(CONTEXT_USER, APP + 1, APP + 2, LIBC + 1)] * 60
    assert judged(*whole, *[hint_sample(CONTEXT_USER, LIBC + 1)] * 60).of_frame_pointers() == ""


def test_few_samples_have_no_note():
    assert judged(*[hint_sample(CONTEXT_USER, APP + 1)] * 10).of_frame_pointers() == ""


def test_code_that_no_program_has_is_not_named():
    data = memoryview(mapped("//anon", APP) + hint_sample(CONTEXT_USER, APP + 1) * 30)
    hits = DsoHits([ATTR])
    hits.scan(data)
    assert "end after one frame; " in chain_ends(data, [0], [ATTR], hits).of_frame_pointers()


def test_every_part_of_the_file_is_read():
    front = b"".join([hint_sample(CONTEXT_USER, APP + 1)] * 3000)
    rest = b"".join([hint_sample(CONTEXT_USER, APP + 1, APP + 2)] * 3000)
    head = len(mapped("/usr/bin/app", APP) + mapped("/lib/libc.so.6", LIBC))
    result = judged(front, rest, starts=(0, head + len(front)))
    assert result == ChainEnds(2000, {"/usr/bin/app": 1000})


def test_a_cut_end_ends_the_look():
    data = mapped("/usr/bin/app", APP) + hint_sample(CONTEXT_USER, APP + 1) * 2
    hits = DsoHits([ATTR])
    hits.scan(memoryview(data))
    for end in range(len(data)):
        assert chain_ends(memoryview(data)[:end], [0], [ATTR], hits).chains <= 2


@pytest.mark.parametrize(
    ("changes", "judged_by_it"),
    [
        ({}, True),
        ({"exclude_callchain_user": 1}, False),
        ({"exclude_user": 1}, False),
    ],
)
def test_only_chains_that_the_kernel_walked_are_judged(changes: dict[str, Any], judged_by_it: bool):
    assert has_walked_chains([usual_attr(USUAL | SampleType.CALLCHAIN, **changes)]) == judged_by_it


def test_stacks_are_another_matter():
    assert not has_walked_chains([usual_attr(USUAL | SampleType.CALLCHAIN | SampleType.STACK_USER)])
    assert not has_walked_chains([usual_attr(USUAL)])


def test_the_starts_of_rounds_stay_few_and_spread():
    starts = RoundStarts(most=16)
    for offset in range(0, 100_000, 100):
        starts.add(offset)
    assert 8 <= len(starts.offsets) <= 16
    gaps = {later - offset for offset, later in zip(starts.offsets, starts.offsets[1:], strict=False)}
    assert max(gaps) <= 4 * min(gaps)
    assert starts.offsets[-1] > 80_000
