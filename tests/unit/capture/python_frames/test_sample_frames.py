"""What the recorder keeps of the reader's answers: bounded, whatever the recorded processes do."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from perfpy.abi.attr import EventAttr
from perfpy.capture.python_frames import sample_frames
from perfpy.capture.python_frames.answers import FoundChain, FoundCode, FoundProcess, encode_message
from perfpy.capture.python_frames.sample_frames import PythonFrames
from perfpy.perfdata.container.events import FileEvent

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

    from perfpy.capture.python_frames.answers import Answer


@contextmanager
def receiving(*answers: Answer) -> Iterator[PythonFrames]:
    """The recorder's side after some answers."""
    end, other = os.pipe()
    with open(end, "rb"), open(other, "wb") as pipe:
        frames = PythonFrames(FileEvent(EventAttr(), (1,), "cpu-clock", 0), end, None)
        for answer in answers:
            pipe.write(encode_message(answer))
            pipe.flush()
            frames.receive()
        yield frames


def process(pid: int) -> FoundProcess:
    return FoundProcess(pid, (3, 12), [(0x1000, 0x2000)])


def code(pid: int, number: int) -> FoundCode:
    return FoundCode(pid, number, 0x6000 + number, 0x7000, 0x7008, "f" * 400, "/app/main.py", 10, b"", 0)


def chain(pid: int, moment: int, length: int = 10) -> FoundChain:
    return FoundChain(pid, pid, [moment], [(0x9000, 0, 6, False)] * length, [], True, False, 7)


def test_code_of_processes_that_are_long_unused_is_dropped(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sample_frames, "_MOST_CODE", 3000)
    with receiving(process(1), code(1, 0), process(2), code(2, 0), chain(1, 5), process(3), code(3, 0)) as frames:
        assert list(frames._processes) == [1, 3]
        assert frames._code_memory == sum(one.ranges.memory for one in frames._processes.values())


def test_answers_about_a_dropped_process_are_ignored():
    with receiving(code(1, 0), chain(1, 5), process(2), code(2, 0), process(2), chain(2, 5)) as frames:
        assert list(frames._chains) == [(2, 5)]
        assert (list(frames._processes), frames._code_memory) == ([2], 0)


def test_frames_that_wait_for_samples_are_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sample_frames, "_MOST_WAITING", 100)
    with receiving(process(1), *(chain(1, moment) for moment in range(50))) as frames:
        assert list(frames._chains) == [(1, moment) for moment in range(9)]
        frames._take_chain((1, 0))
        frames._add_chain(chain(1, 50))
        assert list(frames._chains) == [(1, moment) for moment in (*range(1, 9), 50)]
        frames._done_up_to = sample_frames._LATEST + 5  # samples 1 to 4 were lost
        frames._add_chain(chain(1, 51))
        assert list(frames._chains) == [(1, moment) for moment in (5, 6, 7, 8, 50, 51)]


def test_code_objects_with_the_same_instructions_are_bounded():
    """A process can point ten thousand code objects to the same bytes."""
    with receiving(process(1), *(code(1, number) for number in range(100))) as frames:
        assert [one.number for one in frames._processes[1].ranges.find(0x7004)] == list(range(84, 100))
