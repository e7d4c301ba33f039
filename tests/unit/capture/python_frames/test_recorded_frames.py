"""What the recorder keeps of the reader's answers: bounded, whatever the recorded processes do."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from perfpy.abi.attr import EventAttr
from perfpy.abi.perfpy_encodings import FIRST_ADDRESS
from perfpy.capture.python_frames import recorded_frames
from perfpy.capture.python_frames import recorded_frames as functions_module
from perfpy.capture.python_frames.answers import (
    Answer,
    FoundChain,
    FoundCode,
    FoundProcess,
    IncomingAnswers,
    ReadUpTo,
    Refused,
    encode_message,
)
from perfpy.capture.python_frames.recorded_frames import (
    IMAGE_OFFSET,
    PlacedFunction,
    PythonFrames,
    PythonFunctions,
    PythonSummary,
    lock_holder,
    notes,
)
from perfpy.perfdata.events import FileEvent
from perfpy.symbols.files.elf import SHT_SYMTAB, ElfFile

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest


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
    monkeypatch.setattr(recorded_frames, "_MOST_LIVE_CODE", 3000)
    with receiving(process(1), code(1, 0), process(2), code(2, 0), chain(1, 5), process(3), code(3, 0)) as frames:
        assert list(frames._processes) == [1, 3]
        assert frames._code_memory == sum(one.ranges.memory for one in frames._processes.values())


def test_loops_are_found_whatever_ranges_a_file_claims():
    ranges = [(0x3000, 0x3010), (0x1000, 0x1100), (0x1080, 0x1200), (0x1200, 0x1210), (0x1010, 0x1020), (0x5000, 0x5000), (0x7000, 0x6000)]
    addresses = [*range(0xFF0, 0x1230, 8), 0x2FFF, 0x3000, 0x300F, 0x3010, 0x5000, 0x6800, 0x7000]
    expected = [any(begin <= address < end for begin, end in ranges) for address in addresses]
    with receiving(FoundProcess(1, (3, 12), ranges), FoundProcess(2, (3, 12), [])) as frames:
        one, none = frames._processes[1], frames._processes[2]
        assert one.are_loops(np.array(addresses, np.uint64)).tolist() == expected
        assert one.loops_among(addresses) == [number for number, is_loop in enumerate(expected) if is_loop]
        assert not none.are_loops(np.array(addresses, np.uint64)).any()
        assert none.loops_among(addresses) == []


def test_answers_about_a_dropped_process_are_ignored():
    with receiving(code(1, 0), chain(1, 5), process(2), code(2, 0), process(2), chain(2, 5)) as frames:
        assert list(frames._chains) == [(2, 5)]
        assert (list(frames._processes), frames._code_memory) == ([2], 0)


def test_frames_that_wait_for_samples_are_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(recorded_frames, "_MOST_WAITING", 100)
    with receiving(process(1), *(chain(1, moment) for moment in range(50))) as frames:
        assert list(frames._chains) == [(1, moment) for moment in range(9)]
        frames._take_chain((1, 0))
        frames._add_chain(chain(1, 50))
        assert list(frames._chains) == [(1, moment) for moment in (*range(1, 9), 50)]
        frames._done_up_to = recorded_frames._LATEST + 5  # samples 1 to 4 were lost
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
    monkeypatch.setattr(recorded_frames, "_WORTH_SWEEPING", 20)
    with receiving(process(1)) as frames:
        frames._swept_at = 20
        sizes = []
        for number in range(1, 50):
            for moment in range(10):
                frames._add_chain(chain(1, number * recorded_frames._LATEST + moment))
            frames.finish(number * recorded_frames._LATEST, [])
            sizes.append(len(frames._chains))
    assert max(sizes) < 50


def test_too_many_functions_of_a_live_view_make_room_in_another_image(monkeypatch: pytest.MonkeyPatch):
    with receiving(process(1), code(1, 0)) as frames:
        owner = frames._processes[1]
        before = frames._addresses(owner, [(0, 0)])
        path, count = frames.image_path, frames.function_count
        owner.is_mapped = True
        monkeypatch.setattr(recorded_frames, "_MOST_LIVE_FUNCTIONS", 10)
        frames.finish(1, [])
        assert frames._addresses(owner, [(0, 0)]) == before
        assert not owner.is_mapped
        assert frames.function_count == count + 1
        assert [name for name, _ in frames.write_images()] == [path, frames.image_path]
        assert [name for name, _ in frames.write_images()] == [frames.image_path] != [path]


# Python functions as code at addresses, and the answers that bring them.


#: lines 10 and 12 of two instructions each, in 3.8's table
LINES = bytes((4, 2))


def code_of_functions(name: str, **others: Any) -> FoundCode:
    return FoundCode(1, 0, 0x6000, 0x7000, 0x7008, name, "/app/main.py", 10, LINES, 0)._replace(**others)


def placed(functions: PythonFunctions, function: FoundCode) -> PlacedFunction:
    addresses = functions.addresses_of(function, (3, 8))
    assert addresses is not None
    return addresses


def test_the_same_function_has_one_range_in_all_processes():
    functions = PythonFunctions()
    first = placed(functions, code_of_functions("f"))
    assert functions.addresses_of(code_of_functions("f", pid=2, begin=0x9000, end=0x9008), (3, 8)) is first
    other = placed(functions, code_of_functions("f", first_line=30))
    assert other.begin >= first.begin + first.size
    assert first.begin == FIRST_ADDRESS
    assert len(functions) == 2


def test_addresses_are_those_of_instructions():
    function = placed(PythonFunctions(), code_of_functions("f"))
    assert function.address(None) == function.begin
    assert function.address(-2) == function.begin + 2
    assert function.address(4) == function.begin + 6
    assert function.address(1000) == function.begin + function.size - 1


def test_there_are_no_addresses_beyond_mappings():
    functions = PythonFunctions()
    large = 1 << 29
    assert functions.addresses_of(code_of_functions("f", end=0x7000 + large), (3, 8)) is not None
    assert functions.addresses_of(code_of_functions("g", end=0x7000 + large), (3, 8)) is None
    assert functions.addresses_of(code_of_functions("h"), (3, 8)) is not None


def test_functions_are_bounded_by_their_memory(monkeypatch: pytest.MonkeyPatch):
    """Each has a name and a line table of the process's choice."""
    monkeypatch.setattr(functions_module, "_MOST_MEMORY", 10_000)
    functions = PythonFunctions()
    results = [functions.addresses_of(code_of_functions(f"f{number}", lines=bytes(2000)), (3, 8)) for number in range(10)]
    assert [one is not None for one in results] == [True] * 3 + [False] * 7
    assert functions.missing == "more than 3 functions; the later ones have no names"


def test_the_image_is_bounded(monkeypatch: pytest.MonkeyPatch):
    """A code object may have eight megabytes of instructions."""
    monkeypatch.setattr(functions_module, "_LARGEST_IMAGE", 100_000)
    functions = PythonFunctions()
    for number in range(10):
        functions.addresses_of(code_of_functions(f"f{number}", end=0x7000 + 30_000), (3, 8))
    image = functions.image()
    assert len(image) < 120_000
    file = ElfFile("image", image)
    section = file.section(".symtab", SHT_SYMTAB)
    assert section is not None
    assert len(file.symbols(section)) == 1 + 3
    assert "the later functions have no names" in functions.missing


def test_lines_are_bounded_and_the_longest_tables_end_first(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(functions_module, "_MOST_LINES", 100)
    functions = PythonFunctions()
    long, short = (bytes((2, 1)) * count for count in (200, 20))  # a line for each instruction
    for number, table in enumerate((long, short, long + short)):
        functions.addresses_of(code_of_functions(f"f{number}", lines=table, end=0x7000 + 1000), (3, 8))
    lines = functions._all_lines(functions._functions.values(), 0)
    counts = [sum(one.begin <= line.address < one.begin + one.size for line in lines) for one in functions._functions.values()]
    assert counts == [78, 22, 1]
    assert functions.missing == "more than 100 source lines; the longest functions have only their first one"


def test_the_image_names_functions():
    functions = PythonFunctions()
    functions.addresses_of(code_of_functions("Class.method"), (3, 8))
    functions.addresses_of(code_of_functions("evil\n\x1b[31m", filename="a\nb.py"), (3, 8))
    file = ElfFile("image", functions.image())
    section = file.section(".symtab", SHT_SYMTAB)
    assert section is not None
    names = bytes(file.strings(section)).split(b"\0")
    assert b"py::Class.method:/app/main.py" in names
    assert b"py::evil??[31m:a?b.py" in names
    assert file.symbols(section)["value"].tolist()[1] == IMAGE_OFFSET


def test_answers_survive_the_pipe_in_pieces():
    answers: list[Answer] = [
        FoundProcess(1, (3, 12), [(1, 2)]),
        code_of_functions("f"),
        FoundChain(1, 2, [3, 4], [(5, 0, 6, True)], [], True, False, 7),
        ReadUpTo(8),
        Refused(9, "why"),
    ]
    data = b"".join(map(encode_message, answers))
    incoming, result = IncomingAnswers(), list[Answer]()
    for begin in range(0, len(data), 7):
        incoming.add(data[begin : begin + 7])
        result += incoming.answers()
    assert result == answers
    assert [type(one) for one in result] == [type(one) for one in answers]


def test_notes_count_inexact_frames():
    (line,) = notes(PythonSummary((80, 10, 4, 3, 2, 1), 5, 1_500_000, {}))
    assert "5 functions in 99 of 100 samples" in line
    assert line.partition(" (")[2].partition(")")[0].split(", ") == [
        "80 exact",
        "10 with callers as at other moments",
        "4 without the line of a caller",
        "3 by the number of calls alone",
        "2 without Python callers",
    ]
    assert "1.50 ms" in line
    (line,) = notes(PythonSummary((80, 0, 0, 3, 0, 1), 5, 1_500_000, {}, 80))
    assert line.endswith("; the kernel copied frames with their samples; frames of 3 samples were read 1.50 ms after their samples ]")
    assert notes(PythonSummary((80, 0, 0, 0, 0, 1), 5, 0, {}, 80))[0].endswith("; the kernel copied frames with their samples ]")
    assert "exact" not in notes(PythonSummary((90, 0, 0, 0, 0, 0), 5, 0, {}))[0]
    short = notes(PythonSummary((60, 0, 0, 0, 0, 40), 5, 0, {}))
    assert short[1] == "note: --python: 40 of 100 samples of Python code have no functions; their threads end too soon to be read"
    assert len(notes(PythonSummary((90, 0, 0, 0, 0, 10), 5, 0, {}))) == len(notes(PythonSummary((0, 0, 0, 0, 0, 15), 5, 0, {}))) == 1
    assert notes(PythonSummary((0, 0, 0, 0, 0, 0), 0, 0, {7: "it may not be read"})) == ["warning: --python: process 7: it may not be read"]
    assert "no sample" in notes(PythonSummary((0, 0, 0, 0, 0, 0), 0, 0, {}))[0]


def test_holders_of_the_lock_have_names():
    spin = FoundCode(1, 0, 0, 0, 10, "spin", "/app/main.py", 7, b"", 0)
    assert lock_holder(12, spin)[5:8] == ("[GIL held by spin, thread 12]", "/app/main.py", 7)
    assert lock_holder(0, spin).name == "[GIL held by spin, another thread]"
    assert lock_holder(12, None)[5:7] == ("[GIL held by thread 12]", "<GIL>")
