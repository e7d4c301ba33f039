"""Frames of CPython: where its threads are, and copies that the kernel takes."""

from __future__ import annotations

import shutil
import struct
import subprocess
from typing import TYPE_CHECKING, cast

import numpy as np
import pytest

from perfpy.capture.python_frames import threads
from perfpy.capture.python_frames.answers import FoundCode
from perfpy.capture.python_frames.kernel_frames import (
    FRAME,
    HEAD,
    SCRATCH_SIZE,
    UNKNOWN_THREAD,
    CopiedFrames,
    SampleInTime,
    ThreadEntry,
    WaitingSamples,
    decode,
    entry_of,
    frame_program,
    ring_size,
)
from perfpy.capture.python_frames.locating import cold_parts, is_part, jump_targets, lines_of_candidates, loaded_files
from perfpy.capture.python_frames.recorded_frames import PythonSummary, notes
from perfpy.capture.python_frames.threads import LONGEST_NAME, BlockedLoops, PendingNames, ReadNames
from perfpy.capture.record_options import MAX_FREQ, OffCpuOptions, RecordOptions, SamplingOptions
from perfpy.interpreters.frames import MOST_FRAMES, ThreadFrames
from perfpy.interpreters.layouts import LAYOUTS, NONE
from perfpy.interpreters.process import PythonProcess
from perfpy.kernel.procfs import ProcMapping
from perfpy.symbols.files.elf import SHT_SYMTAB, ElfFile
from tests.builders.bpf_machine import BpfMachine
from tests.builders.python_memory import PythonMemory, memory_of

if TYPE_CHECKING:
    from pathlib import Path

    from perfpy.kernel.procfs import ProcFs


# Which mappings of a process are its interpreter.


READ, CODE = 1, 5
LIBPYTHON, PROGRAM = 77, 88


def mapping(start: int, prot: int, offset: int, inode: int = LIBPYTHON) -> ProcMapping:
    path = {LIBPYTHON: "/usr/lib/libpython3.12.so.1.0", PROGRAM: "/usr/bin/program"}.get(inode, "")
    return ProcMapping(start=start, end=start + 0x1000, prot=prot, flags=2, offset=offset, major=8, minor=1, inode=inode, path=path)


def test_files_that_are_mapped_as_data_are_not_loaded():
    loaded = [mapping(0x5000, READ, 0), mapping(0x6000, CODE, 0x1000)]
    below, above = mapping(0x1000, READ, 0), mapping(0x9000, READ, 0)
    assert loaded_files([below, *loaded, above]) == loaded[:1]
    assert loaded_files([below, above]) == []


@pytest.mark.parametrize("program", ["/usr/bin/python3.11", "/opt/app", "/opt/odd name (deleted)"])
def test_only_lines_that_may_name_the_interpreter_are_read(program: str):
    head = b"7f00-7f10 r-xp 00000000 fe:00 26 "
    others = (
        b"",
        b"                  [heap]",
        b" /usr/lib/python3.11/lib-dynload/_json.cpython-311-x86_64-linux-gnu.so",
        b" /opt/app.so",
        b" /x/opt/app",
    )
    chosen = (b" " + program.encode(), b" /usr/lib/libpython3.11.so.1.0", b" /usr/bin/python3.12")
    lines = [head + path for path in (*others, *chosen, *others)]
    assert list(lines_of_candidates(iter(lines), program)) == [head + path for path in chosen]


def test_every_file_has_its_own_beginning():
    program = [mapping(0x1000, CODE, 0, PROGRAM), mapping(0x2000, READ, 0x1000, PROGRAM)]
    library = [mapping(0x3000, READ, 0), mapping(0x4000, CODE, 0x1000), mapping(0x7000, CODE, 0, 0)]
    assert loaded_files([*program, *library]) == [program[0], library[0]]


BEGIN = 0x10_0000

SOURCE = """
#include <stdlib.h>
#define COLD __attribute__((cold, noinline))
COLD void fail(int n) { abort(); }
COLD void other(int n) { exit(n); }
__attribute__((noinline)) int loop(volatile int *p) {
  int sum = 0;
  for (int i = 0; i < *p; i++) {
    if (__builtin_expect(p[1] == i, 0)) { sum += p[2]; fail(sum); sum *= p[3]; fail(sum + 1); }
    if (__builtin_expect(p[4] == i, 0)) { sum -= p[5]; other(sum); sum *= p[6]; fail(sum); }
    if (__builtin_expect(p[7] == i, 0)) { sum ^= p[8]; fail(sum); other(sum); }
    sum += i;
  }
  return sum;
}
int main(void) { volatile int p[9] = {1}; return loop(p); }
"""


def test_jumps_of_both_kinds():
    code = b"\x90\x0f\x84" + struct.pack("<i", 0x100) + b"\xe9" + struct.pack("<i", -0x200) + b"\x90\x90"
    assert sorted(jump_targets(code, BEGIN).tolist()) == [BEGIN + 12 - 0x200, BEGIN + 7 + 0x100]
    assert not len(jump_targets(b"\xe9\0", BEGIN))


def test_calls_of_another_function_make_it_no_part():
    assert not is_part(np.array([100, 100, 100]), 100, 200)
    assert not is_part(np.array([150]), 100, 200)
    assert not is_part(np.array([200, 90]), 100, 200)
    assert is_part(np.array([100, 150]), 100, 200)


@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
def test_the_part_that_gcc_moves_away(tmp_path: Path):
    (tmp_path / "program.c").write_text(SOURCE)
    command = ["gcc", "-O2", "-fno-pie", "-no-pie", "-o", "program", "program.c"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    symbols = subprocess.run(["nm", "-S", "program"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout.split("\n")
    ranges = {words[3]: (int(words[0], 16), int(words[0], 16) + int(words[1], 16)) for words in map(str.split, symbols) if len(words) == 4}
    if "loop.cold" not in ranges:
        pytest.skip("this compiler keeps the function in one piece")
    subprocess.run(["strip", "program"], cwd=tmp_path, check=True)
    file = ElfFile(str(tmp_path / "program"))
    assert file.section(".symtab", SHT_SYMTAB) is None
    assert cold_parts(file, *ranges["loop"]) == [ranges["loop.cold"]]
    assert cold_parts(file, *ranges["main"]) == []
    assert cold_parts(file, 1 << 40, (1 << 40) + 100) == []


# Names of threads in recordings: which replace the kernel's, when they are read again, and their COMM records.


class Comms:
    """The kernel's names of tasks."""

    def __init__(self, **comms: str) -> None:
        self.comms = {int(tid.removeprefix("t")): comm for tid, comm in comms.items()}

    def status(self, tid: int) -> Comms | None:
        self.comm = self.comms.get(tid, "")
        return Comms(**{f"t{tid}": self.comm})._of(tid) if tid in self.comms else None

    def _of(self, tid: int) -> Comms:
        self.comm = self.comms[tid]
        return self


def names(**comms: str) -> ReadNames:
    return ReadNames(7, cast("ProcFs", Comms(**comms)))


@pytest.mark.parametrize(
    ("name", "comm", "expected"),
    [
        ("worker-1", "python", "worker-1"),
        ("worker-1", "own", "worker-1"),
        ("Thread-1 (work)", "python", "Thread-1 (work)"),
        ("Thread-1", "python", "Thread-1"),
        ("Thread-1 (work)", "own", ""),
        ("Dummy-3", "python", ""),
        ("MainThread", "python", ""),
        ("", "python", ""),
    ],
)
def test_names_that_say_more_than_the_kernels_replace_it(name: str, comm: str, expected: str) -> None:
    assert names(t7="python", t8=comm).new_name(8, 1.0, lambda: name) == expected


def test_the_main_thread_keeps_the_programs_name() -> None:
    assert names(t7="python").new_name(7, 1.0, lambda: "main") == ""


def test_a_name_is_read_again_ever_more_rarely_and_reported_once() -> None:
    read = names(t7="python", t8="python")
    reads: list[int] = []

    def name() -> str:
        reads.append(len(reads))
        return "first" if len(reads) < 3 else "second"

    messages = [read.new_name(8, number / 1000, name) for number in range(1000)]
    assert [one for one in messages if one] == ["first", "second"]
    assert len(reads) < 12


def test_a_thread_with_the_number_of_an_ended_one_is_read_at_once() -> None:
    read = names(t7="python", t8="python")
    assert read.new_name(8, 1.0, lambda: "first") == "first"
    read.forget(8)
    assert read.new_name(8, 1.001, lambda: "first") == "first"


def test_a_record_has_the_time_of_the_threads_first_sample() -> None:
    pending = PendingNames()
    pending.add(7, 8, "worker")
    pending.add(7, 9, "waits")
    (record,) = pending.take([(7, 8, 30), (7, 8, 20), (7, 7, 10)], 5)
    assert (record.pid, record.tid, record.comm, record.sample_id and record.sample_id.time) == (7, 8, "worker", 20)
    assert [comm.comm for comm in pending.take([(7, 8, 40), (7, 9, 41)], 5)] == ["waits"]


@pytest.mark.parametrize("name", ["x" * 5000, "ü" * 500, "a\0b", "\ud800" * 90])
def test_names_fit_into_a_record(name: str) -> None:
    pending = PendingNames()
    pending.add(7, 8, name)
    (record,) = pending.take([(7, 8, 1)], 5)
    assert len(record.comm.encode()) <= LONGEST_NAME
    assert "\0" not in record.comm


# Turns of event loops that last long: which samples are in them, how many they are, and what ran in the longest.


MS = 1_000_000


def code(number: int, name: str, filename: str) -> FoundCode:
    return FoundCode(1, number, 0x6000, 0x7000, 0x7008, name, filename, 10, b"", 0)


TURN = code(1, "BaseEventLoop._run_once", "/lib/asyncio/base_events.py")
RUN = code(2, "Handle._run", "/lib/asyncio/events.py")
SLOW, QUICK, INNER = code(3, "slow", "/app/main.py"), code(4, "quick\x1b[2J", "/app/main.py"), code(5, "inner", "/app/main.py")
STACK = [INNER, SLOW, RUN, TURN, code(6, "run", "/lib/asyncio/runners.py")]


def test_only_samples_of_long_turns_have_the_mark() -> None:
    blocked = BlockedLoops()
    assert blocked.find(STACK, 7, 5 * MS, 50 * MS) == -1
    assert blocked.find(STACK, 7, 0, 500 * MS) == -1, "an unknown beginning"
    assert blocked.find(STACK, 7, 5 * MS, 105 * MS) == 3, "between the turn and what it calls"
    assert blocked.find([INNER, SLOW, TURN], 7, 5 * MS, 105 * MS) == -1, "no callback"
    assert blocked.find([RUN, code(1, "BaseEventLoop._run_once", "/app/other.py")], 7, 5 * MS, 105 * MS) == -1, "not asyncio's"


def test_turns_are_counted_once_for_each_thread() -> None:
    blocked = BlockedLoops()
    for tid, began, moment in ((7, 5, 110), (7, 5, 150), (8, 5, 120), (7, 300, 410)):
        blocked.find(STACK, tid, began * MS, moment * MS)
    assert (blocked.count, blocked.longest) == (3, 145 * MS)


def test_the_callback_with_most_samples_of_the_longest_turn_is_named() -> None:
    blocked = BlockedLoops()
    for moment in (110, 120, 130):
        blocked.find([INNER, SLOW, RUN, TURN], 7, 5 * MS, moment * MS)
    blocked.find([QUICK, RUN, TURN], 7, 5 * MS, 140 * MS)
    blocked.find([QUICK, RUN, TURN], 7, 200 * MS, 301 * MS)
    assert blocked.callback == SLOW


def test_memory_does_not_grow_with_threads_and_callbacks(monkeypatch) -> None:
    monkeypatch.setattr(threads, "_MOST_LOOPS", 3)
    monkeypatch.setattr(threads, "_MOST_CALLBACKS", 2)
    blocked = BlockedLoops()
    for number in range(10):
        blocked.find([code(10 + number, "f", "/app"), RUN, TURN], number, 5 * MS, 200 * MS)
        blocked.find([code(10 + number, "f", "/app"), RUN, TURN], 99, 5 * MS, 200 * MS)
    assert len(blocked._turns) <= 3
    assert all(len(turn.callbacks) <= 2 for turn in blocked._turns.values())


def test_the_note_names_the_longest_turn() -> None:
    blocked = BlockedLoops()
    assert not any("event loop" in line for line in notes(PythonSummary((1, 0, 0, 0, 0, 0), 1, 0, {}, 1, blocked)))
    blocked.find([QUICK, RUN, TURN], 7, 5 * MS, 305 * MS)
    assert notes(PythonSummary((1, 0, 0, 0, 0, 0), 1, 0, {}, 1, blocked))[1:] == [
        "note: --python: callbacks blocked the event loop for over 100 ms 1 time, for 300 ms or longer by quick^[[2J (main.py:10)"
    ]


# Frames copied with their samples: the program's instructions on memory made by hand, its records, and their samples.


MAPS = (3, 4, 5)
TID = 77
NO_WAKEUP, FORCE_WAKEUP = 1, 2


@pytest.fixture(params=[*LAYOUTS, (3, 13), (3, 14), (3, 15)], ids=lambda version: "{}.{}".format(*version))
def memory(request) -> PythonMemory:
    return memory_of(request.param)


def process_of(memory: PythonMemory) -> PythonProcess:
    process = PythonProcess(memory.heap, memory.runtime, memory.layout.version, lambda: 0.0)
    assert process.frames(TID, is_main=True) is not None
    return process


def entry(process: PythonProcess) -> ThreadEntry:
    frame_entry = entry_of(process, TID)
    assert frame_entry is not None
    return frame_entry


def run(memory: PythonMemory, threads: dict[int, ThreadEntry], *, is_sample: bool = True) -> BpfMachine:
    machine = BpfMachine(MAPS, {tid: one.pack() for tid, one in threads.items()}, SCRATCH_SIZE, memory.heap)
    assert machine.run(frame_program(*MAPS, is_sample=is_sample), 0x7FFF_0000) == 1  # the sample is written
    return machine


def copied(machine: BpfMachine) -> CopiedFrames:
    (output,) = machine.outputs
    pid, tid, result = decode(output.record)
    assert (pid, tid) == (7, TID)
    return result


def test_loops_of_both_kinds_copy_the_same_frames(memory):
    with_calls(memory)
    records = []
    for may_goto in (False, True):
        machine = BpfMachine(MAPS, {TID: entry(process_of(memory)).pack()}, SCRATCH_SIZE, memory.heap)
        machine.run(frame_program(*MAPS, is_sample=True, may_goto=may_goto))
        (output,) = machine.outputs
        records.append(output.record)
    assert records[0] == records[1]
    assert len(decode(records[0])[2].words or b"") > 32


def with_calls(memory: PythonMemory) -> int:
    outer, inner, actual_calls = memory.code("main"), memory.code("Class.method"), memory.code("<lambda>")
    calls = (
        [[(outer, 8), (inner, 20)], [(actual_calls, 4)]]
        if memory.layout.has_data_stack
        else [[(outer, 8)], [(inner, 20)], [(actual_calls, 4)]]
    )
    return memory.thread(TID, memory.stack(calls))


def test_the_copy_has_the_frames_that_a_walk_through_memory_has(memory):
    with_calls(memory)
    process = process_of(memory)
    copy = copied(run(memory, {TID: entry(process)}))
    walked = process.frames(TID, is_main=True)
    assert walked is not None
    assert len(walked.frames) == 3
    assert process.frames_of_words(copy.frames(), is_whole=copy.is_whole) == ThreadFrames(walked.frames, True, False, [])
    assert copy.time == 1_000
    assert copy.native_id == (TID if memory.layout.thread.native_id != NONE else 0)


def test_frames_without_an_end_end(memory):
    code = memory.code("main")
    innermost, chunk, top = memory.stack([[(code, 8)]])
    memory.thread(TID, (innermost, chunk, top))
    process = process_of(memory)
    memory.heap.put(innermost + memory.layout.frame.previous, innermost)
    (output,) = run(memory, {TID: entry(process)}).outputs
    assert len(output.record) == HEAD.size + MOST_FRAMES * FRAME.size
    copy = decode(output.record)[2]
    assert not copy.is_whole
    assert not process.frames_of_words(copy.frames(), is_whole=copy.is_whole).is_whole


def test_memory_that_is_not_there_ends_the_frames(memory):
    state = with_calls(memory)
    process = process_of(memory)
    frame_entry = entry(process)
    walked = process.frames(TID, is_main=True)
    assert walked is not None
    innermost = walked.frames[0].address
    memory.heap.put(innermost + memory.layout.frame.previous, 0x10)
    copy = copied(run(memory, {TID: frame_entry}))
    assert len(copy.words or b"") == FRAME.size
    assert not copy.is_whole
    variant = frame_entry._replace(native_id=0x10, frame=0x10)
    machine = run(memory, {TID: variant})
    assert copied(machine).words is None
    assert machine.outputs[0].flags == FORCE_WAKEUP
    assert state == frame_entry.state


def test_offsets_beyond_a_frame_stay_in_the_copy(memory):
    """The kernel's verifier requires it; a map value with other numbers must not lead beyond the scratch memory."""
    with_calls(memory)
    wild = entry(process_of(memory))._replace(previous=MOST_FRAMES * 4096, code=1 << 40, instruction=1 << 63, owner=0xFFFF, size=1 << 20)
    run(memory, {TID: wild})


def test_threads_that_are_not_in_the_map_wake_the_reader():
    memory = PythonMemory((3, 12))
    machine = run(memory, {})
    (output,) = machine.outputs
    assert output.flags == FORCE_WAKEUP
    assert HEAD.unpack(output.record)[3] == UNKNOWN_THREAD
    assert copied(machine).stack_pointer == 0x7FFF_0000
    assert copied(machine).words is None


def test_at_tracepoints_only_threads_of_python_processes_wake_the_reader():
    memory = PythonMemory((3, 12))
    with_calls(memory)
    python = entry(process_of(memory))
    assert not run(memory, {}, is_sample=False).outputs
    assert not run(memory, {7: ThreadEntry(quiet_until=1)}, is_sample=False).outputs
    assert run(memory, {7: python}, is_sample=False).outputs[0].flags == FORCE_WAKEUP
    assert copied(run(memory, {TID: python}, is_sample=False)).words


def test_threads_without_python_are_quiet_for_some_time():
    memory = PythonMemory((3, 12))
    assert not run(memory, {TID: ThreadEntry(quiet_until=1_001)}).outputs
    assert run(memory, {TID: ThreadEntry(quiet_until=1_000)}).outputs


def test_copies_wake_the_reader_now_and_then():
    memory = PythonMemory((3, 12))
    with_calls(memory)
    frame_entry = entry(process_of(memory))
    machine = run(memory, {TID: frame_entry})
    assert machine.outputs[0].flags == FORCE_WAKEUP
    later = ThreadEntry(*memoryview(machine.entry).cast("Q")).wake_at
    assert later == 20_001_000
    assert run(memory, {TID: frame_entry._replace(wake_at=later)}).outputs[0].flags == NO_WAKEUP


@pytest.mark.parametrize("version", [(3, 8), (3, 11), (3, 12)])
def test_the_holder_of_the_gil_is_read(version):
    memory = PythonMemory(version)
    state = with_calls(memory)
    runtime = memory.layout.runtime
    gil = memory.runtime
    if version >= (3, 12):
        gil = memory.heap.new(64)
        memory.heap.put(memory.interpreter + runtime.gil, gil)
    memory.heap.put(gil + runtime.gil_holder, state)
    frame_entry = entry(process_of(memory))
    assert (copied(run(memory, {TID: frame_entry})).holder, copied(run(memory, {TID: frame_entry})).is_locked) == (state, False)
    memory.heap.put(gil + runtime.gil_locked, 1, 4)
    copy = copied(run(memory, {TID: frame_entry}))
    assert copy.is_locked
    assert next(address for _, address, _, _ in copy.frames() if address) == copy.holder_code


def test_a_holder_that_is_not_there_has_no_code():
    memory = PythonMemory((3, 8))
    with_calls(memory)
    memory.heap.put(memory.runtime + memory.layout.runtime.gil_holder, 0x12_3450)
    copy = copied(run(memory, {TID: entry(process_of(memory))}))
    assert (copy.holder, copy.holder_code) == (0x12_3450, 0)
    assert len(list(copy.frames())) >= 3


def sample(time: int) -> SampleInTime:
    return SampleInTime(time, ThreadFrames([], True, False, []), 0, True)


@pytest.mark.parametrize(
    ("sampling", "megabytes"),
    [
        (SamplingOptions(freq=99), 1),
        (SamplingOptions(freq=199), 2),
        (SamplingOptions(freq=999), 8),
        (SamplingOptions(freq=MAX_FREQ), 8),
        (SamplingOptions(period=10_000), 8),
        (SamplingOptions(), 8),
    ],
)
def test_the_ring_has_room_for_the_frames_of_a_second(sampling: SamplingOptions, megabytes: int):
    assert ring_size(RecordOptions(sampling=sampling), 2) == megabytes << 20
    waits = RecordOptions(sampling=sampling, off_cpu=OffCpuOptions(enabled=True))
    assert ring_size(waits, 2) == 8 << 20  # each switch has frames, too


def test_samples_take_the_nearest_copy_of_their_thread():
    waiting = WaitingSamples()
    for time in (1_000_000, 2_000_000, 3_000_000):
        waiting.put(TID, sample(time))
    waiting.put(78, sample(2_000_100))
    assert waiting.take(TID, 2_000_010) == sample(2_000_000)
    assert waiting.take(TID, 2_500_100) == sample(3_000_000)
    assert waiting.take(TID, 3_000_000) is None
    assert waiting.take(78, 3_000_000) is None
    assert waiting.take(78, 1_999_990) == sample(2_000_100)
    assert waiting.take(79, 0) is None


def test_copies_that_no_sample_takes_are_bounded():
    waiting = WaitingSamples()
    for time in range(10_000):
        waiting.put(TID, sample(time * 1_000_000))
    assert waiting.take(TID, 5_000_000) is None
    assert waiting.take(TID, 9_999_000_000) == sample(9_999_000_000)
    for tid in range(10):
        for time in range(2_000):
            waiting.put(tid, sample(time))
    assert 0 < len(waiting) <= 1 << 14


def test_the_copies_of_ended_threads_are_dropped():
    waiting = WaitingSamples()
    for tid in (TID, 78):
        for time in (1_000_000, 2_000_000):
            waiting.put(tid, sample(time))
    waiting.forget(TID)
    waiting.forget(79)
    assert (len(waiting), waiting.take(TID, 1_000_000)) == (2, None)
    assert waiting.take(78, 2_000_000) == sample(2_000_000)
    assert len(waiting) == 1


def test_records_of_other_buffers_that_arrive_later_find_earlier_copies():
    """Those of context switches; copies that no sample takes are dropped after two seconds."""
    waiting = WaitingSamples()
    for time in (1_000_000, 2_000_000, 3_000_000):
        waiting.put(TID, sample(time))
    assert [waiting.take(TID, time) for time in (3_000_010, 1_000_010)] == [sample(3_000_000), sample(1_000_000)]
    waiting.put(TID, sample(2_100_000_000))
    assert waiting.take(TID, 2_100_000_000) == sample(2_100_000_000)
    assert len(waiting) == 0
