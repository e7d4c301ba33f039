"""An address belongs to the FDE that begins last before it, by whatever table."""

from __future__ import annotations

import numpy as np
import pytest

from perfpy.symbols.files.elf import ElfFile
from perfpy.unwind.call_frame_info.call_frames import NONE, index_of, section_of
from tests.builders import call_frames as cfi
from tests.builders.elf import Elf

STARTS = (0x1000, 0x1040, 0x1400)


def info(*, is_eh: bool = True) -> cfi.CallFrameInfo:
    call_frame_info = cfi.CallFrameInfo(is_eh=is_eh)
    common = call_frame_info.common(cfi.define_cfa(7, 8))
    for start in reversed(STARTS):
        call_frame_info.entry(common, start, 0x20)
    return call_frame_info


def found(file: ElfFile, name: str, *addresses: int) -> list[int]:
    section = section_of(file, name)
    assert section is not None
    offsets = index_of(file, section).offsets_of(np.array(addresses, np.uint64)).tolist()
    return [section.entry(offset).start if offset != NONE else NONE for offset in offsets]


@pytest.mark.parametrize("with_header", [True, False], ids=["the linker's table", "none"])
def test_an_address_belongs_to_the_last_entry_before_it(with_header):
    details = info()
    elf = Elf().section(".eh_frame", details.section(), addr=details.address)
    if with_header:
        elf.section(".eh_frame_hdr", details.header(0x3000), addr=0x3000)
    file = ElfFile("program", elf.build())
    assert found(file, ".eh_frame", 0xFFF, 0x1000, 0x103F, 0x1050, 0x9000) == [NONE, 0x1000, 0x1000, 0x1040, 0x1400]


def test_debug_frame_has_absolute_addresses():
    file = ElfFile("program", Elf().section(".debug_frame", info(is_eh=False).section(), flags=0).build())
    assert found(file, ".debug_frame", 0x1001, 0x1400) == [0x1000, 0x1400]


@pytest.mark.parametrize("damage", [b"\x02\x1b\x03\x3b", b"\x01\x1b\xff\x3b", b"\x01\x1b\x03\x01", b"\x01"], ids=str)
def test_an_unusable_table_is_ignored(damage):
    details = info()
    header = damage + details.header(0x3000)[len(damage) :] if len(damage) > 1 else damage
    elf = Elf().section(".eh_frame", details.section(), addr=details.address).section(".eh_frame_hdr", header, addr=0x3000)
    assert found(ElfFile("program", elf.build()), ".eh_frame", 0x1041) == [0x1040]


def test_a_table_that_is_not_sorted_is_sorted():
    details = info()
    header = details.header(0x3000)
    rows = [header[at : at + 8] for at in range(12, len(header), 8)]
    mixed = header[:12] + b"".join(rows[::-1])
    elf = Elf().section(".eh_frame", details.section(), addr=details.address).section(".eh_frame_hdr", mixed, addr=0x3000)
    assert found(ElfFile("program", elf.build()), ".eh_frame", 0x1000, 0x1041) == [0x1000, 0x1040]


def test_a_table_with_too_large_a_count_ends_with_its_section():
    details = info()
    header = bytearray(details.header(0x3000))
    header[8:12] = b"\xff\xff\xff\x7f"
    elf = Elf().section(".eh_frame", details.section(), addr=details.address).section(".eh_frame_hdr", bytes(header), addr=0x3000)
    assert found(ElfFile("program", elf.build()), ".eh_frame", 0x1041) == [0x1040]
