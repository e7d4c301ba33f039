"""Frames copied with their samples: the program's instructions on memory made by hand, its records, and their samples."""

from __future__ import annotations

import pytest

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
)
from perfpy.interpreters.frames import MOST_FRAMES, ThreadFrames
from perfpy.interpreters.layouts import LAYOUTS, NONE
from perfpy.interpreters.process import PythonProcess
from tests.builders.bpf_machine import BpfMachine
from tests.builders.python_memory import PythonMemory, memory_of

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


def test_samples_take_the_nearest_copy_of_their_thread():
    waiting = WaitingSamples()
    for time in (1_000_000, 2_000_000, 3_000_000):
        waiting.put(TID, sample(time))
    waiting.put(78, sample(2_000_100))
    assert waiting.take(TID, 2_000_010) == sample(2_000_000)  # that of 1,000,000 lost its sample
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
    assert len(waiting) == 0
