"""The reader of Python frames: what it keeps of a process is bounded, and what it says of two processes of one number is not mixed."""

from __future__ import annotations

import itertools
import os
import struct
from typing import TYPE_CHECKING

import numpy as np

from perfpy.abi.attr import EventAttr
from perfpy.abi.flags import NATIVE_ENDIAN, SampleType
from perfpy.abi.sample_encoding import encode_sample
from perfpy.capture.python_frames.answers import FoundChain, FoundCode, ReadUpTo, Refused
from perfpy.capture.python_frames.kernel_frames import SampleInTime
from perfpy.capture.unwinding.python_reader import FrameReader, SampleHeads, _KnownProcess
from perfpy.interpreters import frames as code_objects
from perfpy.interpreters.process import PythonProcess
from perfpy.kernel.procfs import ProcFs, TaskStatus
from tests.builders.python_memory import PythonMemory

if TYPE_CHECKING:
    import pytest

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


def test_code_objects_of_two_processes_of_one_number_have_different_numbers():
    """Frames of the first one may still wait for their samples when the second one is open."""
    reader = new_reader()
    opened(reader, "first")
    assert answer(reader) == ([("first", 0)], [0])
    opened(reader, "second")
    assert answer(reader) == ([("second", 1)], [1])


def test_the_recorders_own_processes_are_never_opened(monkeypatch: pytest.MonkeyPatch):
    statuses = {71: TaskStatus("perfpy-unwind", 71, 70, 0, False), 72: TaskStatus("python3", 72, 70, 0, False)}
    looked_at: list[int] = []
    reader = FrameReader(SampleHeads(reader_attr()), recorder=70)
    monkeypatch.setattr(reader._procfs, "status", statuses.get)
    monkeypatch.setattr(reader._locator, "find", looked_at.append)
    for pid in (os.getpid(), 70, 71, 72):
        assert reader._find_process(pid) is None
    assert looked_at == [72], "the workload is a child, too"
