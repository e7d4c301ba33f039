"""Python functions as code at addresses, and the answers that bring them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perfpy.abi.python_code import FIRST_ADDRESS
from perfpy.capture.python_frames import functions as functions_module
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
from perfpy.capture.python_frames.functions import IMAGE_OFFSET, PlacedFunction, PythonFunctions, lock_holder
from perfpy.capture.python_frames.notes import PythonSummary, notes
from perfpy.symbols.files.elf import SHT_SYMTAB, ElfFile

if TYPE_CHECKING:
    import pytest

#: lines 10 and 12 of two instructions each, in 3.8's table
LINES = bytes((4, 2))


def code(name: str, **others: Any) -> FoundCode:
    return FoundCode(1, 0, 0x6000, 0x7000, 0x7008, name, "/app/main.py", 10, LINES, 0)._replace(**others)


def placed(functions: PythonFunctions, function: FoundCode) -> PlacedFunction:
    addresses = functions.addresses_of(function, (3, 8))
    assert addresses is not None
    return addresses


def test_the_same_function_has_one_range_in_all_processes():
    functions = PythonFunctions()
    first = placed(functions, code("f"))
    assert functions.addresses_of(code("f", pid=2, begin=0x9000, end=0x9008), (3, 8)) is first
    other = placed(functions, code("f", first_line=30))
    assert other.begin >= first.begin + first.size
    assert first.begin == FIRST_ADDRESS
    assert len(functions) == 2


def test_addresses_are_those_of_instructions():
    function = placed(PythonFunctions(), code("f"))
    assert function.address(None) == function.begin
    assert function.address(-2) == function.begin + 2
    assert function.address(4) == function.begin + 6
    assert function.address(1000) == function.begin + function.size - 1


def test_there_are_no_addresses_beyond_mappings():
    functions = PythonFunctions()
    large = 1 << 29
    assert functions.addresses_of(code("f", end=0x7000 + large), (3, 8)) is not None
    assert functions.addresses_of(code("g", end=0x7000 + large), (3, 8)) is None
    assert functions.addresses_of(code("h"), (3, 8)) is not None


def test_functions_are_bounded_by_their_memory(monkeypatch: pytest.MonkeyPatch):
    """Each has a name and a line table of the process's choice."""
    monkeypatch.setattr(functions_module, "_MOST_MEMORY", 10_000)
    functions = PythonFunctions()
    results = [functions.addresses_of(code(f"f{number}", lines=bytes(2000)), (3, 8)) for number in range(10)]
    assert [one is not None for one in results] == [True] * 3 + [False] * 7
    assert functions.missing == "more than 3 functions; the later ones have no names"


def test_the_image_is_bounded(monkeypatch: pytest.MonkeyPatch):
    """A code object may have eight megabytes of instructions."""
    monkeypatch.setattr(functions_module, "_LARGEST_IMAGE", 100_000)
    functions = PythonFunctions()
    for number in range(10):
        functions.addresses_of(code(f"f{number}", end=0x7000 + 30_000), (3, 8))
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
        functions.addresses_of(code(f"f{number}", lines=table, end=0x7000 + 1000), (3, 8))
    lines = functions._all_lines(functions._functions.values(), 0)
    counts = [sum(one.begin <= line.address < one.begin + one.size for line in lines) for one in functions._functions.values()]
    assert counts == [78, 22, 1]
    assert functions.missing == "more than 100 source lines; the longest functions have only their first one"


def test_the_image_names_functions():
    functions = PythonFunctions()
    functions.addresses_of(code("Class.method"), (3, 8))
    functions.addresses_of(code("evil\n\x1b[31m", filename="a\nb.py"), (3, 8))
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
        code("f"),
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
    assert notes(PythonSummary((0, 0, 0, 0, 0, 0), 0, 0, {7: "it may not be read"})) == ["warning: --python: process 7: it may not be read"]
    assert "no sample" in notes(PythonSummary((0, 0, 0, 0, 0, 0), 0, 0, {}))[0]


def test_holders_of_the_lock_have_names():
    spin = FoundCode(1, 0, 0, 0, 10, "spin", "/app/main.py", 7, b"", 0)
    assert lock_holder(12, spin)[5:8] == ("[GIL held by spin, thread 12]", "/app/main.py", 7)
    assert lock_holder(0, spin).name == "[GIL held by spin, another thread]"
    assert lock_holder(12, None)[5:7] == ("[GIL held by thread 12]", "<GIL>")
