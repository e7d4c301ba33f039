"""Text moved to other memory is found by the file's other mappings, the program headers and the bytes; other code is not."""

from __future__ import annotations

import os
import random
import struct
import time
from typing import TYPE_CHECKING

import pytest

from perfpy.abi.records import Mmap2, decode
from perfpy.capture import moved_text, synthesis
from perfpy.capture.moved_text import find_moved_text, load_segments
from perfpy.capture.synthesis import Synthesis, id_layout
from perfpy.kernel.procfs import ProcFs, ProcMapping
from tests.builders.elf import Elf

if TYPE_CHECKING:
    from pathlib import Path

PAGE = os.sysconf("SC_PAGESIZE")
TEXT_AT, TEXT_SIZE = 4 * PAGE, 64 * PAGE
DATA_AT = TEXT_AT + TEXT_SIZE
BASE = 0x5500_0000_0000
READ, EXEC = 1, 5


class FakeMemory:
    """Memory with these contents: start -> bytes."""

    def __init__(self, contents: dict[int, bytes]) -> None:
        self.contents = contents
        self.read_bytes = 0

    def some(self, address: int, most: int) -> bytes:
        for start, data in self.contents.items():
            if start <= address < start + len(data):
                self.read_bytes += most
                return data[address - start : address - start + most]
        return b""

    def close(self) -> None:
        pass


class Program:
    """A program file with a header, text and data, each in a segment, and its mappings at BASE."""

    def __init__(self, folder: Path, name: str = "program", seed: int = 1) -> None:
        self.text = random.Random(seed).randbytes(TEXT_SIZE)
        elf = Elf().section(".text", self.text, addr=TEXT_AT, offset=TEXT_AT).section(".data", b"d" * PAGE, addr=DATA_AT, offset=DATA_AT)
        self.path = folder / name
        self.path.write_bytes(elf.segment(0, 0, TEXT_AT).segment(TEXT_AT, TEXT_AT, TEXT_SIZE).segment(DATA_AT, DATA_AT, PAGE).build())
        self.state = os.stat(self.path)

    def mapping(self, start: int, end: int, prot: int, base: int = BASE) -> ProcMapping:
        device = self.state.st_dev
        return ProcMapping(base + start, base + end, prot, 2, start, os.major(device), os.minor(device), self.state.st_ino, str(self.path))

    @property
    def header(self) -> ProcMapping:
        return self.mapping(0, TEXT_AT, READ)

    @property
    def data(self) -> ProcMapping:
        return self.mapping(DATA_AT, DATA_AT + PAGE, READ)


def memory_at(start: int, end: int, path: str = "", prot: int = EXEC, inode: int = 0) -> ProcMapping:
    return ProcMapping(BASE + start, BASE + end, prot, 2, 0, 0, 0, inode, path)


@pytest.fixture
def program(tmp_path):
    return Program(tmp_path)


def ranges(mappings, contents, **options):
    """The moved text: start and end from BASE, offset in the file."""
    moved = find_moved_text(7, mappings, open_memory=lambda _pid: FakeMemory(contents), **options)
    return [(text.start - BASE, text.end - BASE, text.offset) for text in moved]


WHOLE = [(TEXT_AT, DATA_AT, TEXT_AT)]


@pytest.mark.parametrize("path", ["", "/anon_hugepage (deleted)", "/memfd:text (deleted)", "/dev/shm/text (deleted)", "[anon:hot text]"])
def test_text_in_memory_is_that_of_the_file_around_it(program, path):
    mappings = [program.header, memory_at(TEXT_AT, DATA_AT, path), program.data]
    assert ranges(mappings, {BASE + TEXT_AT: program.text}) == WHOLE
    (text,) = find_moved_text(7, mappings, open_memory=lambda _pid: FakeMemory({BASE + TEXT_AT: program.text}))
    assert (text.path, text.inode, text.prot, text.flags) == (str(program.path), program.state.st_ino, EXEC, 2)


def test_one_other_segment_of_the_file_suffices(program):
    for rest in ([program.header], [program.data]):
        mappings = sorted([*rest, memory_at(TEXT_AT, DATA_AT)])
        assert ranges(mappings, {BASE + TEXT_AT: program.text}) == WHOLE


def test_parts_of_the_text_are_moved(program):
    start, end = TEXT_AT + 2 * PAGE, TEXT_AT + 5 * PAGE
    mappings = [program.mapping(TEXT_AT, start, EXEC), memory_at(start, end), program.mapping(end, DATA_AT, EXEC)]
    assert ranges(mappings, {BASE + start: program.text[2 * PAGE : 5 * PAGE]}) == [(start, end, start)]


def test_neighbouring_memory_is_not_the_file(program):
    """The kernel joins anonymous memory: beside the text there may be other code."""
    after = 8 * PAGE
    mappings = [program.header, memory_at(TEXT_AT, DATA_AT + after)]
    assert ranges(mappings, {BASE + TEXT_AT: program.text + b"\xc3" * after}) == WHOLE


def test_memory_of_two_kinds_lies_over_one_text(program):
    middle = TEXT_AT + 16 * PAGE
    mappings = [program.header, memory_at(TEXT_AT, middle), memory_at(middle, DATA_AT, "/anon_hugepage (deleted)"), program.data]
    parts = [(TEXT_AT, middle, TEXT_AT), (middle, DATA_AT, middle)]
    assert ranges(mappings, {BASE + TEXT_AT: program.text}) == parts


def test_other_code_at_the_address_of_the_text_has_no_names(program):
    mappings = [program.header, memory_at(TEXT_AT, DATA_AT), program.data]
    assert ranges(mappings, {BASE + TEXT_AT: random.Random(2).randbytes(TEXT_SIZE)}) == []
    assert ranges(mappings, {}) == []  # unreadable


def test_changed_pages_have_no_names(program):
    changed = bytearray(program.text)
    changed[3 * PAGE + 5] ^= 1
    mappings = [program.header, memory_at(TEXT_AT, DATA_AT), program.data]
    third = TEXT_AT + 3 * PAGE
    expected = [(TEXT_AT, third, TEXT_AT), (third + PAGE, DATA_AT, third + PAGE)]
    assert ranges(mappings, {BASE + TEXT_AT: bytes(changed)}) == expected


def test_a_runtime_generates_code_where_a_library_was(program, tmp_path):
    """dlclose() unmaps all segments; the nearest files are others. The same bytes would prove nothing."""
    other = Program(tmp_path, "other", 2)
    far = 1 << 30
    mappings = [
        other.mapping(0, TEXT_AT, READ, BASE - far),
        memory_at(TEXT_AT, DATA_AT),
        other.mapping(TEXT_AT, DATA_AT, EXEC, BASE + far),
    ]
    assert ranges(mappings, {BASE + TEXT_AT: program.text}) == []


def test_data_and_memory_that_is_not_executable_are_left_out(program):
    mappings = [program.header, memory_at(TEXT_AT, DATA_AT, prot=READ), program.data]
    assert ranges(mappings, {BASE + TEXT_AT: program.text}) == []


def test_a_replaced_file_proves_nothing(program):
    mappings = [program.header, memory_at(TEXT_AT, DATA_AT), program.data]
    with open(program.path, "rb"):  # its inode number is not used again
        program.path.unlink()
        Program(program.path.parent)
        assert ranges(mappings, {BASE + TEXT_AT: program.text}) == []


def test_without_permission_the_headers_decide(program):
    def refuse(_pid: int) -> FakeMemory:
        raise PermissionError

    inside = [program.header, memory_at(TEXT_AT, DATA_AT), program.data]
    assert [text.offset for text in find_moved_text(7, inside, open_memory=refuse)] == [TEXT_AT]
    beyond = [program.header, memory_at(TEXT_AT, DATA_AT + PAGE)]
    assert find_moved_text(7, beyond, open_memory=refuse) == []


def test_an_ended_process_has_no_text(program):
    def fail(_pid: int) -> FakeMemory:
        raise ProcessLookupError

    assert find_moved_text(7, [program.header, memory_at(TEXT_AT, DATA_AT)], open_memory=fail) == []


def test_the_time_is_limited(program):
    mappings = [program.header, memory_at(TEXT_AT, DATA_AT), program.data]
    assert ranges(mappings, {BASE + TEXT_AT: program.text}, seconds=-1) == []


def test_the_number_of_ranges_is_limited(program, monkeypatch):
    monkeypatch.setattr(moved_text, "_MOST_RANGES", 4)
    changed = bytearray(program.text)
    for page in range(0, TEXT_SIZE, 2 * PAGE):
        changed[page] ^= 1
    mappings = [program.header, memory_at(TEXT_AT, DATA_AT), program.data]
    assert len(ranges(mappings, {BASE + TEXT_AT: bytes(changed)})) == 4


def test_tens_of_thousands_of_mappings_are_searched_quickly(program):
    far = 1 << 40
    generated = [memory_at(far + number * 2 * PAGE, far + (number * 2 + 1) * PAGE) for number in range(60_000)]
    mappings = [program.header, memory_at(TEXT_AT, DATA_AT), program.data, *generated]
    begun = time.process_time()
    assert ranges(mappings, {BASE + TEXT_AT: program.text}, seconds=60) == WHOLE
    assert time.process_time() - begun < 5


@pytest.mark.parametrize(("bits", "endian"), [(64, "<"), (64, ">"), (32, "<"), (32, ">")])
def test_segments_of_all_machines(tmp_path, bits, endian):
    path = tmp_path / "elf"
    path.write_bytes(Elf(bits, endian).text().segment(0x40_1000, 0x1000, 0x1000).build())
    with open(path, "rb") as file:
        assert [tuple(segment) for segment in load_segments(file.fileno())] == [(0x1000, 0x40_1000, 0x1000, True)]


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"no program" * 10, b"\x7fELF\2\1".ljust(64, b"\xff")])
def test_damaged_files_have_no_segments(tmp_path, data):
    path = tmp_path / "elf"
    path.write_bytes(data)
    with open(path, "rb") as file:
        assert load_segments(file.fileno()) == []


def test_synthesized_mappings_end_with_the_moved_text(tmp_path, monkeypatch):
    """perf and report take the last mapping of a range."""
    line = f"{BASE:x}-{BASE + PAGE:x} r-xp 00000000 00:00 0"
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "maps").write_text(line + "\n")
    text = ProcMapping(BASE, BASE + PAGE, EXEC, 2, PAGE, 8, 1, 99, "/bin/program")
    monkeypatch.setattr(moved_text, "find_moved_text", lambda _pid, mappings, _seconds: [text] if list(mappings) else [])
    pieces = list(Synthesis(ProcFs(str(tmp_path)), id_layout(0)).maps_of(7))
    (first, second) = [
        decode(kind, misc, piece[8:], id_layout(0), "<") for piece in pieces for kind, misc in [struct.unpack_from("=IH", piece)]
    ]
    assert isinstance(first, Mmap2)
    assert isinstance(second, Mmap2)
    assert (first.filename, second.filename) == ("//anon", "/bin/program")
    assert (second.addr, second.len, second.pgoff, second.ino) == (BASE, PAGE, PAGE, 99)


def test_the_time_for_all_processes_is_limited(tmp_path, monkeypatch):
    for pid in (7, 8):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "maps").write_text(f"{BASE:x}-{BASE + PAGE:x} r-xp 00000000 00:00 0\n")
    searched: list[int] = []

    def find(pid: int, _mappings: object, _seconds: float) -> list[ProcMapping]:
        searched.append(pid)
        return []

    monkeypatch.setattr(moved_text, "find_moved_text", find)
    monkeypatch.setattr(synthesis, "_MOVED_TEXT_SECONDS", 1e-9)
    made = Synthesis(ProcFs(str(tmp_path)), id_layout(0))
    assert len([*made.maps_of(7), *made.maps_of(8)]) == 2
    assert searched == [7]
