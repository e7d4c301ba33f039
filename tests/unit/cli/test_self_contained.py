"""What of an ELF file travels with a recording."""

from __future__ import annotations

import numpy as np
import pytest

from perfpy.cli.self_contained import reduce_elf
from perfpy.symbols.demangling.demangle import demangle
from perfpy.symbols.files import elf_symbols
from perfpy.symbols.files.elf import ElfFile
from tests.builders import elf as b
from tests.builders.elf import Elf

BUILD_ID = "0123456789abcdef0123456789abcdef01234567"


def program(**options: object) -> ElfFile:
    """With two functions, a call into another file, and a megabyte that no report needs."""
    file = Elf(**options).segment(0x1000, 0x1000, 0x2000).text(0x1400, size=0x400)  # type: ignore[arg-type]
    file.symbol("puts", 0, 0, section=b.UNDEF, table=".dynsym").symbol("main", 0x1400, 16).symbol("other", 0x1410, 16)
    file.section(".plt", addr=0x1020, offset=0x1020, size=0x20, entsize=16)
    file.section(".debug_info", b"\1" * (1 << 20)).section(".eh_frame", b"call frames", addr=0x2000)
    return ElfFile("test", file.build_id(BUILD_ID).build())


def names(file: ElfFile) -> list[str]:
    table = elf_symbols.load(file, file, demangle)
    return [table.name(row) if row >= 0 else "-" for row in table.find(np.arange(0x1000, 0x1440, 8, dtype=np.uint64)).tolist()]


@pytest.mark.parametrize("options", [{}, {"bits": 32, "machine": b.I386}, {"endian": ">"}], ids=str)
def test_names_are_the_same_and_the_rest_is_gone(options):
    whole = program(**options)
    small = ElfFile("test", reduce_elf(whole))
    assert len(small.content) < len(whole.content) // 100
    assert small.flaws == []
    assert names(small) == names(whole)
    assert {"main", "other"} <= set(names(small))
    assert small.build_id == whole.build_id == BUILD_ID
    assert small.segments.tolist() == whole.segments.tolist()
    frames, info = small.section(".eh_frame"), small.section(".debug_info")
    assert frames is not None
    assert info is not None
    assert bytes(small.data(frames)) == b"call frames"
    assert not small.data(info)


@pytest.mark.parametrize("bits", [32, 64])
def test_all_program_headers_are_kept(bits: int):
    """Linkers put headers of other types before the segments."""
    built = Elf(bits=bits).segment(0x40, 0x40, 0x100, kind=6).segment(0x200, 0x200, 16, kind=3).segment(0x401000, 0x1000, 0x2000)
    file = built.segment(0x500000, 0x2000, 0x1000).text(0x401400, 0x1400, 0x400).symbol("main", 0x401400, 16)
    whole = ElfFile("test", file.build())
    reduced = ElfFile("test", reduce_elf(whole))
    assert len(whole.segments) == 2
    assert reduced.segments.tolist() == whole.segments.tolist()
    assert names(reduced) == names(whole)
