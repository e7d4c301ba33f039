"""The process that unwinds: its start, requests and waits."""

from __future__ import annotations

import itertools
import os
import resource
import struct
import time
from typing import TYPE_CHECKING

import numpy as np
import pytest

from perfpy.abi.attr import EventAttr
from perfpy.abi.columns import Ragged
from perfpy.abi.flags import CONTEXT_KERNEL, CONTEXT_USER, MISC_KERNEL, MISC_USER, NATIVE_ENDIAN, SampleType
from perfpy.abi.perfpy_encodings import IS_WAIT, WOKEN_BY_THREAD
from perfpy.abi.records import NO_ID, Comm, encode
from perfpy.abi.sample_decoding import SampleLayout
from perfpy.abi.sample_encoding import encode_sample
from perfpy.capture.off_cpu_events import TIME_ATTR, RawField
from perfpy.capture.python_frames.answers import FoundChain, FoundCode, ReadUpTo, Refused
from perfpy.capture.python_frames.kernel_frames import CopiedFrames, SampleInTime
from perfpy.capture.unwinding import process, python_reader
from perfpy.capture.unwinding.chosen_tasks import ConcernedProcesses
from perfpy.capture.unwinding.process import DISK, MEMORY, Extent, PublishedExtents, SharedProcesses, Spool
from perfpy.capture.unwinding.python_reader import FrameReader, SampleHeads, _KnownProcess
from perfpy.capture.unwinding.serving import Rescue, chunk_of
from perfpy.capture.unwinding.switches_to_waits import records, sum_short_waits
from perfpy.errors import OutputFailedError
from perfpy.interpreters import frames as code_objects
from perfpy.interpreters.process import PythonProcess
from perfpy.kernel.procfs import ProcFs, TaskStatus
from perfpy.perfdata.header import Feature, encode_feature
from perfpy.perfdata.reader import PerfData
from perfpy.perfdata.writer import FINISHED_ROUND, FileWriter, WrittenEvent
from perfpy.scheduling.intervals import INTERVAL, Intervals
from tests.builders.python_memory import PythonMemory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


# Messages between the two processes are complete, wherever the pipe splits them.


EXTENTS = [Extent(0, 1 << 40, 7), Extent(1, 5, 1 << 33)]


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_requests_come_through(step):
    sent = process.request(process.PIECE, EXTENTS) + process.request(process.END)
    incoming, result = process.Incoming(), []
    for start in range(0, len(sent), step):
        incoming.add(sent[start : start + step])
        result += list(incoming.requests())
    assert result == [(process.PIECE, EXTENTS), (process.END, [])]


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_answers_come_through(step):
    sent = process.answer(process.RECORDS, b"x" * 100) + process.answer(process.FINISHED)
    incoming, result = process.Incoming(), []
    for start in range(0, len(sent), step):
        incoming.add(sent[start : start + step])
        result += list(incoming.answers())
    assert result == [(process.RECORDS, b"x" * 100), (process.FINISHED, b"")]


# Pieces wait in memory first, then on disk, and are returned in order.


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    new_spool = Spool(str(tmp_path), capacity=64)
    yield new_spool
    new_spool.close()


def read(spool: Spool, extents: list[Extent]) -> bytes:
    return b"".join(os.pread((spool.memory, spool.disk)[store], size, offset) for store, offset, size in extents)


def test_the_memory_has_its_size_before_it_is_written(spool):
    """Another process maps it once."""
    status = os.fstat(spool.memory)
    assert (status.st_size, status.st_blocks) == (64, 0)


def test_a_limit_for_files_does_not_forbid_smaller_pieces(tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limits[1]))
    try:
        spool = Spool(str(tmp_path))
        spool.write([b"abc"])
        assert read(spool, spool.close_piece()) == b"abc"
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    spool.close()


def test_a_piece_is_one_extent(spool):
    spool.write([b"abc", b"defg"])
    piece = spool.close_piece()
    assert piece == [Extent(MEMORY, 0, 7)]
    assert read(spool, piece) == b"abcdefg"


def test_pieces_beyond_the_memory_limit_go_to_disk(spool):
    spool.write([bytes(60)])
    first = spool.close_piece()
    spool.write([b"0123456789"])
    second = spool.close_piece()
    assert [extent.store for extent in first + second] == [MEMORY, MEMORY, DISK]
    assert read(spool, second) == b"0123456789"
    assert spool.most_on_disk == 6


def test_memory_is_used_round_and_round(spool):
    for _ in range(2):
        spool.write([bytes(30)])
        spool.close_piece()
    spool.release_first()  # 0-30 are free, 30-60 wait
    spool.write([b"x" * 20])
    piece = spool.close_piece()
    assert piece == [Extent(MEMORY, 60, 4), Extent(MEMORY, 0, 16)]
    assert read(spool, piece) == b"x" * 20
    assert spool.most_on_disk == 0


def test_memory_that_is_all_in_use_takes_nothing(spool):
    spool.write([bytes(64)])
    spool.close_piece()
    spool.write([b"more"])
    assert spool.close_piece() == [Extent(DISK, 0, 4)]


def test_the_disk_is_given_back_when_nothing_on_it_waits(spool):
    spool.write([bytes(100)])
    spool.close_piece()
    assert os.fstat(spool.disk).st_size == 36
    spool.release_first()
    assert os.fstat(spool.disk).st_size == 0


def test_everything_that_waits_can_be_taken_in_order(spool):
    spool.write([b"a" * 60])
    spool.close_piece()
    spool.write([b"b" * 10])
    spool.close_piece()
    spool.write([b"c"])
    assert b"".join(spool.take_all()) == b"a" * 60 + b"b" * 10 + b"c"
    assert len(spool) == 0
    assert spool.take_all() == []


def test_many_pieces_come_back_as_they_were(spool):
    waiting = []
    for number in range(200):
        spool.write([bytes([number]) * (number % 37 + 1)])
        waiting.append((number, spool.close_piece()))
        if number % 3:
            first, extents = waiting.pop(0)
            assert read(spool, extents) == bytes([first]) * (first % 37 + 1)
            spool.release_first()


def test_a_folder_that_takes_no_files_is_named(tmp_path):
    with pytest.raises(OutputFailedError, match="no-such-folder"):
        Spool(str(tmp_path / "no-such-folder"))


def test_the_error_of_a_full_disk_names_a_remedy(spool):
    os.close(spool.disk)
    spool.disk = os.open("/dev/full", os.O_RDWR)
    with pytest.raises(OutputFailedError, match="a lower frequency"):
        spool.write([bytes(100)])


# The reader of Python frames: what it keeps of a process is bounded, and what it says of two processes of one number is not mixed.


PID = 77


class OpenMemory:
    """The memory of a process that knows whether it was closed."""

    def __init__(self, memory: PythonMemory) -> None:
        self.read = memory.heap.read
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


def opened(reader: FrameReader, name: str) -> OpenMemory:
    """Let a reader have a process with one function."""
    made = PythonMemory((3, 12))
    made.thread(PID, made.stack([[(made.code(name), 0)]]))
    memory = OpenMemory(made)
    python = PythonProcess(memory, made.runtime, (3, 12), itertools.count().__next__, reader._numbers)
    reader._processes[PID] = _KnownProcess(PID, memory, python, ProcFs())  # type: ignore[arg-type]
    return memory


def answer(reader: FrameReader) -> tuple[list[tuple[str, int]], list[int]]:
    """Name and number of the code objects, and the numbers in the chains that a sample is answered with."""
    process = reader._processes[PID]
    read = process.python.frames(PID)
    assert read is not None
    reader._answer(process, PID, [5], SampleInTime(5, read, 0, is_exact=False))
    codes = [(one.name, one.number) for one in reader.answers if isinstance(one, FoundCode)]
    frames = [frame[1] for one in reader.answers if isinstance(one, FoundChain) for frame in one.frames]
    reader.answers.clear()
    return codes, frames


def reader_attr() -> EventAttr:
    return EventAttr(sample_type=SampleType.IP | SampleType.TID | SampleType.TIME)


def new_reader() -> FrameReader:
    return FrameReader(SampleHeads(reader_attr()))


def test_a_process_with_too_many_code_objects_is_opened_again(monkeypatch: pytest.MonkeyPatch):
    reader = new_reader()
    memory = opened(reader, "main")
    answer(reader)
    reader._forget_full()
    assert PID in reader._processes
    monkeypatch.setattr(code_objects, "_MOST_BYTES", 100)
    answer(reader)
    reader._forget_full()
    assert (PID in reader._processes, memory.is_closed) == (False, True)


def test_memory_that_misleads_the_checks_costs_its_own_process_only(monkeypatch: pytest.MonkeyPatch):
    reader = new_reader()
    memory = opened(reader, "main")

    def fail(*_args: object, **_options: object) -> None:
        raise struct.error("unpack_from requires a buffer of at least 508 bytes")

    monkeypatch.setattr(reader._processes[PID].python, "frames", fail)
    sample = encode_sample(reader_attr(), {"pid": PID, "tid": PID, "time": 9}, NATIVE_ENDIAN)
    reader.look(np.frombuffer(sample, np.uint8))
    assert memory.is_closed
    assert list(reader.answers) == [
        Refused(PID, "its memory has unexpected content (unpack_from requires a buffer of at least 508 bytes)"),
        ReadUpTo(9),
    ]


class Copies:
    """The kernel's copies: each call of take() returns the next list."""

    def __init__(self, *lists: list[int]) -> None:
        self._lists = [[(PID, PID, CopiedFrames(moment, 0, 0, 0, False, 0, None, False)) for moment in times] for times in lists]

    def take(self) -> list[tuple[int, int, CopiedFrames]]:
        return self._lists.pop(0) if self._lists else []

    def know(self, *_arguments: object) -> None:
        pass


@pytest.mark.parametrize(
    ("state", "lists", "exact"),
    [
        ("S", [[5, 8], []], {5: False, 8: True}),
        ("R", [[5, 8], []], {5: False, 8: False}),
        ("S", [[5], [8], []], {5: False, 8: True}),
    ],
    ids=["sleeping", "running", "sampled again while its frames were read"],
)
def test_frames_of_a_thread_that_sleeps_are_those_of_its_last_sample(
    state: str, lists: list[list[int]], exact: dict[int, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(python_reader, "read_wait", lambda _pid, _tid: (state, 0))
    reader = FrameReader(SampleHeads(reader_attr()), sampled=Copies(*lists))  # type: ignore[arg-type]
    opened(reader, "main")
    reader.take_copies()
    for moment, is_exact in exact.items():
        sample = reader._samples.take(PID, moment)
        assert sample is not None
        assert (sample.time, sample.is_exact, sample.lag > 0) == (moment, is_exact, True)


def test_code_objects_of_two_processes_of_one_number_have_different_numbers():
    """Frames of the first one may still wait for their samples when the second one is open."""
    reader = new_reader()
    opened(reader, "first")
    assert answer(reader) == ([("first", 0)], [0])
    opened(reader, "second")
    assert answer(reader) == ([("second", 1)], [1])


def test_the_recorders_own_processes_are_never_opened(monkeypatch: pytest.MonkeyPatch):
    statuses = {71: TaskStatus("perfpy-unwind", 71, 70, 0, False), 73: TaskStatus("perfpy-python", 73, 69, 0, False)}
    comms = {"71/comm": b"perfpy-unwind\n", "72/comm": b"python3\n", "73/comm": b"perfpy-python\n"}
    looked_at: list[int] = []
    reader = FrameReader(SampleHeads(reader_attr()), recorder=70)
    monkeypatch.setattr(reader._procfs, "read", lambda path, _size: comms[path])
    monkeypatch.setattr(reader._procfs, "status", statuses.get)
    monkeypatch.setattr(reader._locator, "find", looked_at.append)
    for pid in (os.getpid(), 70, 71, 72, 73):
        assert reader._find_process(pid) is None
    assert looked_at == [72, 73], "the workload is a child, too, and others may have the helpers' names"


def test_only_processes_that_matter_are_opened(monkeypatch: pytest.MonkeyPatch):
    concerned = SharedProcesses([71])
    looked_at: list[int] = []
    reader = FrameReader(SampleHeads(reader_attr()), concerned=concerned)
    monkeypatch.setattr(reader._locator, "find", looked_at.append)
    for pid in (71, 72, 73):
        assert reader._find_process(pid) is None
    assert looked_at == [71]
    chosen = ConcernedProcesses([71], recorder=50, shared=concerned)
    chosen.note_forks([(72, 71, 72)])  # of a process that matters
    later = time.monotonic() + 1
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert reader._find_process(72) is reader._find_process(73) is None
    assert looked_at == [71, 72]


def test_processes_are_shared_with_forked_ones_as_far_as_there_is_room(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(process, "_MOST_SHARED", 3)
    shared = SharedProcesses([7])
    child = os.fork()
    if not child:
        shared.add(8)
        os._exit(0)
    os.waitpid(child, 0)
    assert [pid in shared for pid in (7, 8, 9)] == [True, True, False]
    for pid in (9, 10):
        shared.add(pid)
    assert [pid in shared for pid in (9, 10, 11)] == [True, True, True], "without room for more, all may matter"


@pytest.mark.parametrize(("is_shared", "number"), [(True, PID), (False, 3)])
def test_only_threads_of_other_pid_namespaces_have_other_numbers(is_shared: bool, number: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(python_reader, "shares_pid_namespace", lambda _pid: is_shared)
    monkeypatch.setattr("perfpy.symbols.dso.innermost_tid", lambda _pid, _tid: 3)
    reader = new_reader()
    opened(reader, "main")
    assert reader._processes[PID].inner_tid(PID) == number


# The file of a killed recorder is completed: each piece is in it once, whenever the recorder ended.


FEATURES = {Feature.HOSTNAME: encode_feature(Feature.HOSTNAME, "box")}


def comm(name: str) -> bytes:
    return encode(Comm(0, 1, 1, name), NO_ID, NATIVE_ENDIAN)


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "perf.data")


@pytest.fixture
def writer(path):
    writer = FileWriter(path)
    writer.begin([WrittenEvent(EventAttr(type=1, sample_type=7), (11,))], {})
    writer.write(comm("before"))
    writer.mark()
    yield writer
    writer.close()


def rescue_of(path: str, *pieces: str) -> Rescue:
    rescue = Rescue(path)
    rescue.features = FEATURES
    for name in pieces:
        rescue.keep([comm(name)])
    return rescue


def tell(rescue: Rescue, writer: FileWriter) -> None:
    rescue.written(os.fstat(writer.fd).st_ino, writer.size)


def put(writer: FileWriter, name: str) -> None:
    writer.write(comm(name), FINISHED_ROUND)
    writer.mark()


def recorded_comms(path: str) -> list[str]:
    with PerfData(path) as data:
        assert data.features["hostname"] == "box"
        names = [side.record.comm for side in data.side_band()]
        assert not data.warnings
    return names


def test_pieces_handed_over_and_not_written_are_written(path, writer):
    rescue = rescue_of(path, "one", "two")
    put(writer, "one")
    tell(rescue, writer)
    rescue.finish([[comm("three"), comm("four")], [comm("five")]])
    assert recorded_comms(path) == ["before", "one", "two", "three", "four", "five"]


def test_half_a_piece_counts_for_nothing(path, writer):
    rescue = rescue_of(path, "one", "two")
    put(writer, "one")
    tell(rescue, writer)
    writer.write(comm("two")[:-3])
    rescue.finish([])
    assert recorded_comms(path) == ["before", "one", "two"]


def test_a_marked_but_unpublished_piece_is_written_once(path, writer):
    rescue = rescue_of(path, "one", "two", "three")
    put(writer, "one")
    tell(rescue, writer)
    put(writer, "two")
    rescue.finish([])
    assert recorded_comms(path) == ["before", "one", "two", "three"]


def test_before_the_first_round_all_is_written(path, writer):
    rescue_of(path, "one").finish([])
    assert recorded_comms(path) == ["before", "one"]


def test_another_file_of_the_same_name_gets_its_own_records(path, writer):
    rescue = rescue_of(path, "one", "two")
    put(writer, "one")
    tell(rescue, writer)
    os.rename(path, path + ".1")
    second = FileWriter(path)
    second.begin([WrittenEvent(EventAttr(type=1, sample_type=7), (11,))], {})
    second.write(comm("once more") * 50)
    second.mark()
    rescue.finish([])
    assert recorded_comms(path) == ["once more"] * 50 + ["two"]


@pytest.mark.parametrize("content", [b"", b"PERFILE2", b"x" * 300])
def test_a_file_that_is_no_recording_stays_unchanged(path, content):
    with open(path, "wb") as file:
        file.write(content)
    with pytest.raises(ValueError, match=r"empty|short|magic|header|no "):
        rescue_of(path, "one").finish([])
    with open(path, "rb") as file:
        assert file.read() == content


def test_a_link_in_its_place_is_not_followed(path, writer, tmp_path):
    os.rename(path, tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", path)
    before = (tmp_path / "elsewhere").read_bytes()
    with pytest.raises(OSError, match="symbolic links"):
        rescue_of(path, "one").finish([])
    assert (tmp_path / "elsewhere").read_bytes() == before


def test_the_open_piece_can_be_found_by_another_process(tmp_path):
    spool = Spool(str(tmp_path), 8192)
    published_extents = PublishedExtents(spool.open_piece)
    assert published_extents.extents() == []
    spool.write([bytes(5000)])
    spool.write([bytes(5000)])
    assert published_extents.extents() == [Extent(MEMORY, 0, 8192), Extent(DISK, 0, 1808)]
    spool.close_piece()
    assert published_extents.extents() == []
    spool.close()


def test_features_come_through():
    features = {1: b"", 24: b"abc", 7: bytes(9)}
    assert process.decode_features(process.encode_features(features)) == features


def test_the_file_is_completed_in_the_folder_that_was_opened(tmp_path, writer):
    """Others may exchange the folder for one with another recording of the same name."""
    (tmp_path / "a").mkdir()
    os.rename(tmp_path / "perf.data", tmp_path / "a/perf.data")
    (tmp_path / "dir").symlink_to("a")
    rescue = rescue_of(str(tmp_path / "dir/perf.data"), "one")
    (tmp_path / "b").mkdir()
    (tmp_path / "b/perf.data").write_bytes((tmp_path / "a/perf.data").read_bytes())
    (tmp_path / "dir").unlink()
    (tmp_path / "dir").symlink_to("b")
    before = (tmp_path / "b/perf.data").read_bytes()
    tell(rescue, writer)
    rescue.keep([comm("two")])
    rescue.finish([])
    assert recorded_comms(str(tmp_path / "a/perf.data")) == ["before", "two"]
    assert (tmp_path / "b/perf.data").read_bytes() == before


# Intervals become equivalent samples.


BOTH = [CONTEXT_KERNEL, 0xFFFFFFFF81000010, CONTEXT_USER, 0x401000, 0x402000]
KERNEL = [CONTEXT_KERNEL, 0xFFFFFFFF81000010]


def waits(*given: tuple[int, int, int], stacks: list[list[int]] | None = None) -> Intervals:
    """(end, duration, index of the stack) of thread 8 of process 7."""
    rows = np.zeros(len(given), INTERVAL)
    for number, (end, duration, stack) in enumerate(given):
        rows[number] = (7, 8, 1, end, duration, ord("S"), 99, WOKEN_BY_THREAD, stack)
    chains = [BOTH, KERNEL] if stacks is None else stacks
    offsets = np.concatenate([[0], np.cumsum([len(chain) for chain in chains])]).astype(np.int64)
    return Intervals(rows, Ragged(np.array([value for chain in chains for value in chain], np.uint64), offsets))


def decoded(data: bytes):
    chunk = chunk_of(np.frombuffer(data, np.uint8))
    return SampleLayout(TIME_ATTR, NATIVE_ENDIAN).decode(chunk.data, chunk.starts)


def test_a_sample_has_all_that_is_known_of_the_wait():
    columns = decoded(records(waits((5000, 300, 0)), 42))
    results = {name: columns[name].tolist() for name in ("identifier", "ip", "pid", "tid", "time", "cpu", "period", "cpumode")}
    assert results == {
        "identifier": [42], "ip": [0x401000], "pid": [7], "tid": [8], "time": [5000], "cpu": [1], "period": [300], "cpumode": [MISC_USER],
    }  # fmt: skip
    assert columns["callchain"][0].tolist() == BOTH
    assert (columns["weight"][0], columns["ins_lat"][0], columns["retire_lat"][0]) == (99, ord("S"), IS_WAIT | WOKEN_BY_THREAD)


@pytest.mark.parametrize(("stack", "ip"), [(1, KERNEL[1]), (-1, 0)])
def test_without_a_user_part_it_lies_in_the_kernel(stack, ip):
    columns = decoded(records(waits((5000, 300, stack)), 42))
    assert (columns["ip"][0], columns["cpumode"][0]) == (ip, MISC_KERNEL)


def test_samples_are_in_order_of_time_each_with_its_own_chain():
    columns = decoded(records(waits((30, 1, 0), (10, 2, -1), (20, 3, 1)), 42))
    assert columns["time"].tolist() == [10, 20, 30]
    assert [chain.tolist() for chain in columns["callchain"]] == [[], KERNEL, BOTH]


def test_a_chain_longer_than_a_record_is_truncated():
    long = [CONTEXT_USER, *range(1, 9000)]
    columns = decoded(records(waits((10, 1, 0), (20, 1, 1), stacks=[long, BOTH]), 42))
    assert columns["callchain"][0].tolist() == long[: len(columns["callchain"][0])]
    assert len(columns["callchain"][0]) > 8000
    assert columns["callchain"][1].tolist() == BOTH


def test_short_waits_that_are_alike_are_one_and_long_ones_stay():
    result = sum_short_waits(waits((10, 100, 0), (20, 200, 0), (30, 300, 1), (40, 1000, 0), (50, 50, 0)), 1000)
    assert sorted((int(r["end"]), int(r["duration"]), int(r["stack"])) for r in result.rows) == [(30, 300, 1), (40, 1000, 0), (50, 350, 0)]


def test_equal_chains_are_alike_wherever_they_stand():
    result = sum_short_waits(waits((10, 100, 0), (20, 200, 1), stacks=[BOTH, list(BOTH)]), 1000)
    assert [int(r["duration"]) for r in result.rows] == [300]


def test_chains_that_differ_in_order_alone_are_two():
    assert len(sum_short_waits(waits((10, 100, 0), (20, 200, 1), stacks=[[CONTEXT_USER, 1, 2], [CONTEXT_USER, 2, 1]]), 1000).rows) == 2


def test_other_wakers_and_states_are_kept_separate():
    three = waits((10, 100, 0), (20, 200, 0), (30, 300, 0))
    three.rows["waker"][1], three.rows["state"][2] = 5, ord("D")
    assert len(sum_short_waits(three, 1000).rows) == 3


def test_no_waits_are_no_records():
    assert records(sum_short_waits(waits(), 1000), 42) == b""


def test_stacks_of_processes_that_do_not_concern_others_are_not_unwound() -> None:
    """Concerned are the processes themselves, what they and the recorder start, those that wake them, and the wakers of these."""
    concerned = ConcernedProcesses([100], recorder=50)
    concerned.note_forks([(100, 100, 101), (102, 100, 102), (103, 102, 103), (60, 50, 60), (70, 1, 70), (201, 200, 201)])
    assert {*concerned.pids.tolist()} == {100, 102, 103, 60}
    concerned.note_threads(np.array([300, 400, 500], np.int32), np.array([301, 400, 500], np.int32))

    def wakeups(*wakes: tuple[int, int, int]) -> tuple[np.ndarray, Ragged, RawField]:
        raw = b"".join(struct.pack("<HBBi16si4x", 1, flags, 0, 7, b"name", target) for _, target, flags in wakes)
        offsets = np.arange(len(wakes) + 1) * (len(raw) // len(wakes))
        return np.array([pid for pid, *_ in wakes], np.int32), Ragged(np.frombuffer(raw, np.uint8), offsets), RawField(24, 4)

    in_interrupt = 8
    concerned.note_wakeups(*wakeups((300, 101, 0), (400, 301, 0), (500, 400, 0), (600, 100, in_interrupt), (0, 100, 0), (700, 999, 0)))
    assert {*concerned.pids.tolist()} == {100, 102, 103, 60, 300, 400}
