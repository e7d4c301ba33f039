"""ELF files that are damaged, or made to take time and memory: what can be read of them is, within their own size."""

from __future__ import annotations

import io
import lzma
import random
import struct
import subprocess
import sys
import time
import tracemalloc
import zlib
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import NoteSection, SymbolTableSection

from perfpy.symbols.files import elf_symbols
from perfpy.symbols.files.elf import DAMAGE, BadElfError, ElfFile, read_mini_debug_info, read_module
from tests.builders import elf as b
from tests.builders.elf import Elf
from tests.builders.plt_entries import FORMS

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from perfpy.symbols.symbol_table import SymbolTable

MB = 1 << 20
HERE = np.arange(0x1000, 0x1100, 8, dtype=np.uint64)


@contextmanager
def bounded(megabytes: int = 40, seconds: float = 2.0) -> Iterator[None]:
    """Nothing inside takes more memory or time."""
    tracemalloc.start()
    start = time.process_time()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < megabytes * MB
        assert time.process_time() - start < seconds
    finally:
        tracemalloc.stop()


def program(**options: object) -> Elf:
    """A library with all that is read: symbols, both kinds of stubs, relocations, a build-id."""
    file = Elf(**options).segment(0x1000, 0x1000, 0x1000).text(size=0x100)  # type: ignore[arg-type]
    stubs = FORMS["x86-64 lazy"].entries(0x1110, [0x4000, 0x4008], 0)
    file.section(".plt", bytes(16) + stubs, addr=0x1100, offset=0x1100, entsize=16)
    file.section(".plt.got", b"\xff\x25\x10\0\0\0\x66\x90", addr=0x1140, offset=0x1140, size=8, entsize=8)
    file.symbol("f", 0x1010, 16).symbol("g", 0x1020, 0).symbol("puts", 0, section=b.UNDEF, table=".dynsym")
    if file.bits == 64:
        file.relocations(".rela.plt", [(0x4000, 1, 7, 0), (0x4008, 0, 37, 0x1010)])
        file.relocations(".rela.dyn", [(0x1156, 1, 6, 0)])
    return file.section(".gnu_debuglink", b"x.debug\0", flags=0).build_id("0123456789abcdef")


def use(data: bytes) -> SymbolTable | None:
    """All that a report does with a file; None where it is refused."""
    try:
        file = ElfFile("x", data)
        assert len(file.build_id) <= 40
        file.debuglink()
        mini = read_mini_debug_info(file)
        table = elf_symbols.table_of(elf_symbols.collect(file, file), file, mini=mini)
    except DAMAGE:
        return None
    rows = table.find(np.arange(0x1000, 0x1200, 8, dtype=np.uint64))
    assert all(len(table.raw_name(row)) <= len(data) for row in rows.tolist() if row >= 0)
    return table


def patched(data: bytes, name: str, **fields: int) -> bytes:
    """The file with other values in the header of a section."""
    places = {"type": (4, "I"), "flags": (8, "Q"), "offset": (24, "Q"), "size": (32, "Q"), "link": (40, "I"), "entsize": (56, "Q")}
    file, result = ElfFile("x", data), bytearray(data)
    section = file.section(name)
    assert section is not None
    (headers,) = struct.unpack_from("<Q", data, 40)
    for field, value in fields.items():
        at, code = places[field]
        struct.pack_into("<" + code, result, headers + 64 * section.index + at, value)
    return bytes(result)


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("endian", ["<", ">"])
def test_a_file_cut_anywhere_is_read_or_refused(bits: int, endian: str):
    data = program(bits=bits, endian=endian, machine=b.X86_64 if bits == 64 else b.I386).build()
    for size in range(0, len(data), 1 if size_is_small(data) else 7):
        use(data[:size])
    table = use(data)
    assert table is not None
    assert table.name(int(table.find(np.array([0x1018], np.uint64))[0])) == "f"


def size_is_small(data: bytes) -> bool:
    return len(data) < 8192


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.slow
def test_a_file_with_any_bytes_changed_is_read_or_refused(seed: int):
    data = program().build()
    dice = random.Random(seed)
    interesting = [*range(64 + 56), *range(0x1100, len(data))]  # headers, tables
    with bounded(megabytes=100, seconds=60):
        for _ in range(300):
            changed = bytearray(data)
            for _ in range(dice.randint(1, 4)):
                at = dice.choice(interesting)
                value = dice.choice([b"\xff" * 8, b"\0" * 8, dice.randbytes(8), struct.pack("<Q", len(data) - dice.randint(0, 9))])
                size = dice.choice([1, 2, 4, 8])
                changed[at : at + size] = value[:size]
            use(bytes(changed[: len(data)]))


@pytest.mark.parametrize("size", [0x15CF6AF5D1D0E536, 0x20000000, (1 << 64) - 1])
def test_a_section_that_claims_more_than_the_file_ends_where_that_does(size: int):
    data = patched(program().build(), ".plt.got", size=size)
    with bounded():
        file = ElfFile("x", data)
        table = elf_symbols.load(file, file)
        assert [table.name(row) for row in table.find(np.array([0x1010, 0x1140], np.uint64)).tolist()] == ["f", "puts@plt"]
    assert len(file.flaws) == 1
    assert f"section '.plt.got' of {size} bytes at 0x1140 ends beyond the file" in file.flaws[0]


def test_without_program_headers_sections_place_the_symbols():
    data = bytearray(program().build())
    struct.pack_into("<Q", data, 32, (1 << 64) - 1)
    file = ElfFile("x", bytes(data))
    table = elf_symbols.load(file, file)
    assert table.name(int(table.find(np.array([0x1010], np.uint64))[0])) == "f"
    assert file.flaws[0].startswith("program headers: a table of 1 entries at 0xffffffffffffffff ends beyond the file")


def test_headers_of_thousands_of_segments_are_not_read():
    data = bytearray(program().build())
    struct.pack_into("<H", data, 56, 0xFFFF)
    assert ElfFile("x", bytes(data) + bytes(4 * MB)).flaws == ["program headers: 65535 of them"]


@pytest.mark.parametrize("count", [1 << 20, 1 << 63, 3])
def test_a_number_of_sections_in_the_first_header_is_not_trusted(count: int):
    data = bytearray(program().build())
    (headers,) = struct.unpack_from("<Q", data, 40)
    struct.pack_into("<H", data, 60, 0)  # the number is in the first header's size
    struct.pack_into("<Q", data, headers + 32, count)
    with bounded():
        if count == 3:
            assert len(ElfFile("x", bytes(data)).sections) == 3
        else:
            with pytest.raises(BadElfError, match="sections"):
                ElfFile("x", bytes(data) + bytes(MB))


def test_names_of_sections_without_an_end_are_cut():
    data = program().build()
    file = ElfFile("x", data)
    names = file.section(".shstrtab")
    assert names is not None
    endless = data[: names.offset] + b"x" * names.size + data[names.offset + names.size :]
    assert all(len(section.name) <= 256 for section in ElfFile("x", endless).sections)


def compressed(kind: int, data: bytes, claimed: int) -> bytes:
    return struct.pack("<IIQQ", kind, 0, claimed, 1) + data


@pytest.mark.parametrize("claimed", [0, 24, 1 << 62])
@pytest.mark.parametrize("name", [".symtab", ".note.gnu.build-id"])
def test_a_section_that_becomes_a_thousand_times_its_size_is_omitted(name: str, claimed: int):
    bomb = compressed(1, zlib.compress(bytes(32 * MB)), claimed)
    file = Elf().segment(0x1000, 0x1000, 0x1000).text()
    file.section(name, bomb, type=b.SYMTAB if name == ".symtab" else b.NOTE, flags=b.COMPRESSED, link=".strtab")
    with bounded():
        read = ElfFile("x", file.build())
        assert read.build_id == ""
        if name == ".symtab":
            with pytest.raises(BadElfError, match=r"'.symtab': .* bytes of zlib data become more than 4194304"):
                elf_symbols.load(read, read)
        else:
            assert "become more than" in read.flaws[0]


def test_mini_debug_information_that_becomes_too_large_is_omitted():
    bomb = lzma.compress(bytes(64 * MB), preset=0)
    file = Elf().segment(0x1000, 0x1000, 0x1000).text().section(".gnu_debugdata", bomb, flags=0)
    with bounded():
        read = ElfFile("x", file.build())
        assert read_mini_debug_info(read) is None
    assert "section '.gnu_debugdata'" in read.flaws[0]


def test_modules_that_become_too_large_are_refused(tmp_path):
    module = tmp_path / "x.ko.xz"
    module.write_bytes(lzma.compress(bytes(64 * MB), preset=0))
    with bounded(), pytest.raises(BadElfError, match=r"x\.ko\.xz: cannot decompress: .* become more than"):
        read_module(str(module))


def tables_of(symbols: int, names: bytes, offset_of: Callable[[int], int], address_of: Callable[[int], tuple[int, int]]) -> bytes:
    rows = b"".join(struct.pack("<IBBHQQ", offset_of(number), 0x12, 0, 1, *address_of(number)) for number in range(symbols))
    file = Elf().segment(0x1000, 0x1000, 0x100000).text(size=0x100000)
    file.section(".symtab", bytes(24) + rows, type=b.SYMTAB, flags=0, link=".strtab", entsize=24)
    return file.section(".strtab", names, type=b.STRTAB, flags=0).build()


def test_names_that_lie_one_in_another_do_not_take_the_square_of_the_tables_size():
    data = tables_of(10_000, b"x" * 100_000, lambda number: 1 + number, lambda number: (0x1000 + 8 * number, 8))
    with bounded(megabytes=60):
        file = ElfFile("x", data)
        table = elf_symbols.load(file, file)
        rows = table.find(np.arange(0x1000, 0x1000 + 80_000, 8, dtype=np.uint64)).tolist()
        assert sum(len(table.raw_name(row)) for row in rows) < 16 * 100_000 + 10_000 * 600


def test_many_names_for_one_address_do_not_take_the_square_of_the_tables_size():
    data = tables_of(10_000, b"x" * 100_000, lambda number: 1 + number, lambda number: (0x1000, 8))
    with bounded(megabytes=60):
        file = ElfFile("x", data)
        table = elf_symbols.load(file, file)
        assert table.find(np.array([0x1000], np.uint64))[0] >= 0


def test_a_symbol_around_all_others_is_found_quickly():
    data = tables_of(40_000, b"\0f\0", lambda number: 1, lambda number: (0x1000, 0x90000) if not number else (0x1000 + 8 * number, 4))
    with bounded(megabytes=100, seconds=3):
        file = ElfFile("x", data)
        table = elf_symbols.load(file, file)
        between = np.arange(0x1000 + 12, 0x1000 + 320_000, 80, dtype=np.uint64)
        assert set(table.symbols.start[table.find(between)].tolist()) == {0x1000}


def test_names_of_stubs_do_not_take_the_square_of_the_tables_size():
    count = 20_000
    file = Elf().segment(0x1000, 0x1000, 0x100000).text(size=0x100)
    stubs = FORMS["x86-64 lazy"].entries(0x1110, [0x4000 + 8 * n for n in range(count)], 0)
    file.section(".plt", bytes(16) + stubs, addr=0x1100, offset=0x1100, entsize=16)
    file.section(".dynsym", b"".join(struct.pack("<IBBHQQ", n + 1, 0x12, 0, 0, 0, 0) for n in range(count)), type=b.DYNSYM, link=".dynstr")
    file.section(".dynstr", b"x" * 100_000, type=b.STRTAB)
    file.relocations(".rela.plt", [(0x4000 + 8 * n, n, 7, 0) for n in range(count)])
    file.symbol("f", 0x1010, 8)
    with bounded(megabytes=100, seconds=4):
        read = ElfFile("x", file.build())
        assert elf_symbols.load(read, read).find(np.array([0x1110], np.uint64))[0] >= 0


def test_the_build_id_among_the_kernels_notes_is_found():
    note = struct.pack("<III", 6, 4, 1) + b"Linux\0\0\0" + bytes(4)
    note += struct.pack("<III", 4, 8, 3) + b"GNU\0" + bytes.fromhex("0123456789abcdef")
    for endian, notes in (("<", note),):
        assert ElfFile("x", Elf(endian=endian).text().section(".notes", notes, type=b.NOTE).build()).build_id == "0123456789abcdef"


@pytest.mark.parametrize("notes", [b"\xff" * 64, bytes(64), struct.pack("<III", 4, 1 << 31, 3) + b"GNU\0", b"\1", bytes(MB)])
@pytest.mark.parametrize("name", [".notes", ".note.gnu.build-id"])
def test_damaged_notes_have_no_build_id_and_end(notes: bytes, name: str):
    with bounded():
        assert ElfFile("x", Elf().text().section(name, notes, type=b.NOTE).build()).build_id == ""


def test_pyelftools_reads_the_same():
    for machine, bits, endian in ((b.X86_64, 64, "<"), (b.I386, 32, "<"), (b.S390X, 64, ">"), (b.PPC64, 64, ">")):
        data = program(machine=machine, bits=bits, endian=endian).build()
        ours, theirs = ElfFile("x", data), ELFFile(io.BytesIO(data))
        assert [section.name for section in ours.sections] == [section.name for section in theirs.iter_sections()]
        assert [section.size for section in ours.sections] == [section["sh_size"] for section in theirs.iter_sections()]
        loads = [segment["p_vaddr"] for segment in theirs.iter_segments("PT_LOAD")]
        assert ours.segments["vaddr"].tolist() == loads
        table = ours.section(".symtab")
        assert table is not None
        entries, strings = ours.symbols(table), bytes(ours.strings(table))
        names = [strings[at : strings.index(b"\0", at)].decode() for at in entries["name"].tolist()]
        symbols, notes = theirs.get_section_by_name(".symtab"), theirs.get_section_by_name(".note.gnu.build-id")
        assert isinstance(symbols, SymbolTableSection)
        assert names == [symbol.name for symbol in symbols.iter_symbols()]
        assert isinstance(notes, NoteSection)
        assert ours.build_id == next(notes.iter_notes())["n_desc"]


@pytest.mark.parametrize("compressed_names", [False, True])
def test_pyelftools_is_imported_only_for_rare_structures(tmp_path, compressed_names: bool):
    file = Elf().segment(0x1000, 0x1000, 0x1000).text().build_id("0123")
    if compressed_names:
        file.section(".strtab", compressed(1, zlib.compress(b"\0f\0"), 3), type=b.STRTAB, flags=b.COMPRESSED)
        file.section(".symtab", bytes(24), type=b.SYMTAB, link=".strtab")
    path = tmp_path / "file"
    path.write_bytes(file.build())
    code = (
        "import sys; from perfpy.symbols.files import elf, elf_symbols; file = elf.ElfFile(sys.argv[1]);"
        "elf_symbols.load(file, file); assert file.build_id == '0123'; print('elftools' in sys.modules)"
    )
    output = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True).stdout
    assert output == f"{compressed_names}\n"


@pytest.mark.parametrize(("bits", "endian", "machine"), [(64, "<", b.X86_64), (64, ">", b.S390X), (32, "<", b.I386)])
@pytest.mark.parametrize("kind", [1, 2])
def test_compressed_sections_are_read(kind: int, bits: int, endian: str, machine: int):
    packed = zlib.compress(b"debug" * 9) if kind == 1 else zstd.compress(b"debug" * 9)
    header = struct.pack(endian + ("IIQQ" if bits == 64 else "III"), *((kind, 0, 45, 1) if bits == 64 else (kind, 45, 1)))
    file = Elf(machine=machine, bits=bits, endian=endian).text().section(".debug_info", header + packed, flags=b.COMPRESSED)
    read = ElfFile("x", file.build())
    section = read.section(".debug_info")
    assert section is not None
    assert bytes(read.data(section)) == b"debug" * 9


@pytest.mark.parametrize(
    ("data", "reason"), [(bytes(23), "damaged compression header"), (struct.pack("<IIQQ", 3, 0, 1, 1) + b"x", "unknown compression 3")]
)
def test_a_damaged_header_of_compressed_data_is_an_error(data: bytes, reason: str):
    read = ElfFile("x", Elf().text().section(".debug_info", data, flags=b.COMPRESSED).build())
    section = read.section(".debug_info")
    assert section is not None
    with pytest.raises(BadElfError, match=f"cannot decompress section '.debug_info': {reason}"):
        read.data(section)
