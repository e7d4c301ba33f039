"""An address belongs to the FDE that begins last before it, by whatever table."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
import pytest

from perfpy.symbols.files.elf import ElfFile
from perfpy.unwind import call_frames
from perfpy.unwind import call_frames as kept_rules
from perfpy.unwind.call_frames import NONE, SILENT, UNASKED, CallFrames, KeptRules, KnownRules, index_of, section_of
from perfpy.unwind.frame_entries import FrameRows, InitialState, rows_of
from perfpy.unwind.rules import FrameRules
from tests.builders import call_frames as cfi
from tests.builders.elf import Elf

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from perfpy.unwind.frame_entries import FrameEntry


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


# What call frame information said in one run is known in the next, and only there where it still holds.


CODE, FRAMES = 0x1000, 0x2000


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(kept_rules, "_WORTH_KEEPING", 1)
    return tmp_path / "cache" / "perfpy" / "unwinding"


def program(path: Path, distance: int = 16) -> Path:
    info = cfi.CallFrameInfo(address=FRAMES)
    usual = info.common(cfi.define_cfa(7, 8), cfi.offset(16, 1))
    info.entry(usual, CODE, 0x100, cfi.define_cfa_offset(distance), cfi.offset(6, 2), cfi.advance(0x20), cfi.undefined(16))
    info.entry(usual, CODE + 0x100, 0x100, cfi.define_cfa(6, 16), cfi.advance(8), cfi.define_cfa_expression(b"\x77\x08"))
    elf = Elf().text(CODE, size=0x800).section(".dynsym", type=11).segment(0, 0, 0x4000)
    path.write_bytes(elf.section(".eh_frame", info.section(), addr=FRAMES, offset=FRAMES).build())
    return path


OFFSETS = np.array([CODE, CODE + 0x20, CODE + 0x21, CODE + 0x100, CODE + 0x110, CODE + 0x300], np.uint64)


def rules_kept_at_the_end(path: Path) -> list[FrameRules | None]:
    """As a run does it, which ends here."""
    frames = CallFrames(ElfFile(str(path)))
    frames.keep()
    return rules_at(frames, OFFSETS)


def rules_at(frames: CallFrames, offsets: NDArray[np.uint64]) -> list[FrameRules | None]:
    rows = frames.find(offsets).tolist()
    return [frames.rules[row] if row >= 0 else None for row in rows]


def refuse(*_: object, **__: object) -> None:
    raise AssertionError("instructions are run")


def test_instructions_run_once_for_several_runs(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch):
    path = program(tmp_path / "program")
    first = rules_kept_at_the_end(path)
    assert [rules is None for rules in first] == [False, False, False, False, False, True]
    assert len(list(folder.iterdir())) == 1
    ran: list[int] = []

    def noted(entry: FrameEntry, initial: InitialState, *, endian: str, word: int) -> FrameRows:
        ran.append(entry.start)
        return rows_of(entry, initial, endian=endian, word=word)

    monkeypatch.setattr(call_frames, "rows_of", noted)
    assert rules_kept_at_the_end(path) == first
    assert ran == [CODE + 0x100]  # of the expression, which is not kept
    frames = CallFrames(ElfFile(str(path)))
    frames.keep()
    monkeypatch.setattr(call_frames, "rows_of", refuse)
    assert rules_at(frames, OFFSETS[:4]) == first[:4]


def test_a_file_that_has_changed_is_read_again(tmp_path: Path):
    path = program(tmp_path / "program")
    first = rules_kept_at_the_end(path)
    program(path, 32)
    os.utime(path, ns=(1, 1))
    again = rules_kept_at_the_end(path)
    assert again[0] != first[0]
    assert again[0] is not None
    assert again[0].cfa == (7, 32)


def test_damaged_cache_files_are_ignored(tmp_path: Path, folder: Path):
    path = program(tmp_path / "program")
    first = rules_kept_at_the_end(path)
    (cache_file,) = folder.iterdir()
    whole = cache_file.read_bytes()
    for offset in range(0, len(whole), 23):
        cache_file.write_bytes(whole[:offset] + bytes([whole[offset] ^ 1]) + whole[offset + 1 :])
        assert rules_kept_at_the_end(path) == first
    one = KeptRules("key")
    plain = FrameRules((7, 8), ((16, (2, -8)),), 16)
    columns = kept_rules._encode(*known({1: plain}).columns(), [plain])
    wrong: tuple[tuple[str, list[int]], ...] = (
        ("registers", [16, 99, -8]),
        ("registers", []),
        ("number", [7]),
        ("number", [-1]),
        ("number", []),
        ("rules", [1, 2]),
    )
    for name, value in (*wrong, ("address", [1])):
        kind = np.int32 if name == "number" else np.int64
        one._files.keep(one._key, columns | {name: np.array(value, kind)})
        assert loaded(one) == {}
    one._files.keep(one._key, columns)
    assert loaded(one) == {1: plain}


def known(rules: dict[int, FrameRules | None]) -> KnownRules:
    known_rules = KnownRules()
    known_rules.add(list(rules), list(rules.values()))
    return known_rules


def loaded(kept: KeptRules) -> dict[int, FrameRules]:
    known_rules = KnownRules()
    kept.load(known_rules)
    return {address: known_rules.rules[row] for address, row in zip(*(column.tolist() for column in known_rules.columns()), strict=True)}


def test_rules_are_found_in_any_order_of_insertion():
    one, other = (FrameRules((7, offset), ((16, (2, -8)),), 16) for offset in (8, 16))
    result = known({5: one, 9: None})
    result.add([1, 7, 12], [other, one, other])
    rows = result.find(np.array([12, 9, 8, 7, 5, 1, 0, 99], np.uint64)).tolist()
    assert [result.rules[row] if row >= 0 else row for row in rows] == [other, SILENT, UNASKED, one, one, other, UNASKED, UNASKED]
    assert len(result.rules) == 2


def test_cheap_and_very_large_results_are_not_cached(folder: Path, monkeypatch: pytest.MonkeyPatch):
    plain = FrameRules((7, 8), ((16, (2, -8)),), 16)
    one = KeptRules("key")
    one.store(known({1: plain}))
    one.cost = 1
    one.store(known({1: None, 2: FrameRules(b"\x77\x08", (), 16), 3: plain._replace(reach=0)}))
    monkeypatch.setattr(kept_rules, "_MOST", 1)
    one.cost = 1
    one.store(known({1: plain, 2: plain}))
    assert not folder.exists()
    one.cost = 1
    one.store(known({1: plain}))
    assert len(list(folder.iterdir())) == 1


@pytest.mark.parametrize(
    "large",
    [FrameRules((1 << 63, 8), (), 16), FrameRules((7, (1 << 64) - 1), (), 16), FrameRules((7, 8), (((1 << 64) - 1, (2, -8)),), 16)],
)
def test_registers_and_offsets_of_64_bits_are_not_cached(large: FrameRules, folder: Path):
    small, rules = FrameRules((7, 8), (), 16), KeptRules("key")
    rules.cost = 1
    rules.store(known({1: small, 2: large}))
    assert loaded(KeptRules("key")) == {1: small}


def test_an_image_in_memory_is_not_cached(tmp_path: Path, folder: Path):
    data = program(tmp_path / "program").read_bytes()
    frames = CallFrames(ElfFile("nowhere", data))
    frames.keep()
    frames.find(OFFSETS)
    del frames
    assert not folder.exists()
