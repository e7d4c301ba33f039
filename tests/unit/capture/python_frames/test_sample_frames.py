"""What the recorder keeps of the reader's answers: bounded, whatever the recorded processes do."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from perfpy.abi.attr import EventAttr
from perfpy.capture.python_frames import sample_frames
from perfpy.capture.python_frames.answers import FoundChain, FoundCode, FoundProcess, ReadUpTo, encode_message
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
    monkeypatch.setattr(sample_frames, "_MOST_LIVE_CODE", 3000)
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


def test_a_live_view_forgets_processes_after_their_last_samples():
    with receiving(*(one for pid in range(1, 500) for one in (process(pid), code(pid, pid), chain(pid, 10 * pid)))) as frames:
        ends = [(pid, 10 * pid + 5) for pid in range(1, 499)]
        frames.finish(10, ends)
        assert len(frames._processes) == 499  # the piece with these ends may have samples
        frames.finish(5000, [])
        assert (list(frames._processes), frames._code_memory) == ([499], frames._processes[499].ranges.memory)


def test_a_process_that_reuses_the_number_of_an_ended_one_stays():
    with receiving(ReadUpTo(100), process(1), code(1, 0)) as frames:
        frames.finish(90, [(1, 80)])
        frames.finish(200, [])
        assert list(frames._processes) == [1]


def test_frames_of_lost_samples_are_dropped_long_before_they_fill_their_memory(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sample_frames, "_WORTH_SWEEPING", 20)
    with receiving(process(1)) as frames:
        frames._swept_at = 20
        sizes = []
        for number in range(1, 50):
            for moment in range(10):
                frames._add_chain(chain(1, number * sample_frames._LATEST + moment))
            frames.finish(number * sample_frames._LATEST, [])
            sizes.append(len(frames._chains))
    assert max(sizes) < 50


def test_too_many_functions_of_a_live_view_make_room_in_another_image(monkeypatch: pytest.MonkeyPatch):
    with receiving(process(1), code(1, 0)) as frames:
        owner = frames._processes[1]
        before = frames._addresses(owner, [(0, 0)])
        path, count = frames.image_path, frames.function_count
        owner.is_mapped = True
        monkeypatch.setattr(sample_frames, "_MOST_LIVE_FUNCTIONS", 10)
        frames.finish(1, [])
        assert frames._addresses(owner, [(0, 0)]) == before
        assert not owner.is_mapped
        assert frames.function_count == count + 1
        assert [name for name, _ in frames.write_images()] == [path, frames.image_path]
        assert [name for name, _ in frames.write_images()] == [frames.image_path] != [path]
