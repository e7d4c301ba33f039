"""pyelftools reads the ELF files of this machine as our own fast readers do: sections, symbols, lines, call frames."""

from __future__ import annotations

import io
import itertools
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from elftools.dwarf.callframe import FDE
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from perfpy.debuginfo import line_programs
from perfpy.debuginfo.line_programs import LineFiles, LineMachine
from perfpy.debuginfo.sections import DebugSections
from perfpy.debuginfo.unit_index import UnitIndex
from perfpy.symbols.files.elf import ElfFile
from perfpy.unwind.call_frames import CallFrames
from perfpy.unwind.rules import EXPRESSION, OFFSET, REGISTER, SAME, UNDEFINED, VAL_EXPRESSION, VAL_OFFSET

if TYPE_CHECKING:
    from collections.abc import Mapping

_FOLDERS = ("/usr/bin", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", f"{sys.base_prefix}/lib")
_FILES_MOST = 12  # of each test; pyelftools takes up to a second for a file
_LOOKED_AT = 400
_LARGEST = 2 << 20
_SYMBOLS_MOST = 3_000
_LINE_BYTES_MOST = 30_000  # of one unit's program
_UNITS_MOST = 4  # of one file
_ENTRIES_MOST = 60  # of one file
_KINDS = {
    "UNDEFINED": UNDEFINED,
    "OFFSET": OFFSET,
    "VAL_OFFSET": VAL_OFFSET,
    "REGISTER": REGISTER,
    "EXPRESSION": EXPRESSION,
    "VAL_EXPRESSION": VAL_EXPRESSION,
}


@cache
def files_of_this_machine() -> list[ElfFile]:
    """Return some of this machine's ELF files, from all over its folders."""
    paths = sorted({path.resolve() for folder in _FOLDERS for path in Path(folder).rglob("*") if path.suffix == ".so" or "bin" in folder})
    files = []
    for path in paths[:: max(len(paths) // _LOOKED_AT, 1)]:
        content = path.read_bytes() if path.is_file() and path.stat().st_size <= _LARGEST else b""
        if content.startswith(b"\x7fELF"):
            files.append(ElfFile(str(path), content))
    return files


def elf_files(section: str) -> list[ElfFile]:
    """Return some of this machine's ELF files with a section."""
    found = [file for file in files_of_this_machine() if file.section(section) is not None]
    if not found:
        pytest.skip(f"no ELF file of this machine has a section {section}")
    return found[:: -(-len(found) // _FILES_MOST)]


def theirs(file: ElfFile) -> ELFFile:
    """Return pyelftools' reader of the same bytes."""
    return ELFFile(io.BytesIO(bytes(file.content)))


def test_sections_and_segments_are_the_same() -> None:
    for file in elf_files(".text"):
        other = theirs(file)
        headers = [
            (one.name, one["sh_addr"], one["sh_offset"], one["sh_size"], one["sh_link"], one["sh_flags"]) for one in other.iter_sections()
        ]
        assert [(one.name, one.addr, one.offset, one.size, one.link, one.flags) for one in file.sections[1:]] == headers[1:]
        loads = [(one["p_vaddr"], one["p_offset"], one["p_filesz"], one["p_flags"]) for one in other.iter_segments("PT_LOAD")]
        assert [tuple(int(one[name]) for name in ("vaddr", "offset", "filesz", "flags")) for one in file.segments] == loads


@pytest.mark.parametrize("name", [".dynsym", ".symtab"])
def test_symbols_are_the_same(name: str) -> None:
    for file in elf_files(name):
        section, table = file.section(name), theirs(file).get_section_by_name(name)
        assert section is not None
        assert isinstance(table, SymbolTableSection)
        strings = bytes(file.strings(section))
        ours = [
            (strings[row["name"] : strings.index(b"\0", row["name"])].decode(), int(row["value"]), int(row["size"]))
            for row in file.symbols(section)[:_SYMBOLS_MOST]
        ]
        assert ours == [(one.name, one["st_value"], one["st_size"]) for one in itertools.islice(table.iter_symbols(), _SYMBOLS_MOST)]


def test_lines_are_the_same() -> None:
    compared = 0
    for file in elf_files(".debug_line"):
        units = UnitIndex(DebugSections(file))
        other = theirs(file).get_dwarf_info()
        for info in itertools.islice(other.iter_CUs(), _UNITS_MOST):
            unit, program = units.unit(info.cu_offset), other.line_program_for_CU(info)
            if unit is None or unit.stmt_list is None or program is None or program["unit_length"] > _LINE_BYTES_MOST:
                continue
            header = line_programs.read(units.sections, unit.stmt_list)
            rows = LineMachine(header, file.endian).run(units.sections.data("line")[header.program : header.end])
            states = [entry.state for entry in program.get_entries() if entry.state is not None]
            assert rows.address.tolist() == [state.address for state in states]
            assert rows.file.tolist() == [state.file for state in states]
            assert rows.line.tolist() == [state.line for state in states]
            assert rows.end.tolist() == [state.end_sequence for state in states]
            begins = [bool(state.is_stmt) for state in states if not state.end_sequence]  # pyelftools clears it at the end
            assert rows.statement[~rows.end].tolist() == begins
            files = LineFiles(unit, header)
            names = [entry.name.decode() for entry in program["file_entry"]]
            assert [files.path(number).endswith(name) for number, name in zip(files.numbers, names, strict=True)] == [True] * len(names)
            compared += len(states)
    assert compared


def test_call_frames_are_the_same() -> None:
    compared = 0
    for file in elf_files(".eh_frame"):
        frames = CallFrames(file)
        entries = [entry for entry in theirs(file).get_dwarf_info().EH_CFI_entries() if isinstance(entry, FDE)]
        for entry in entries[:: -(-len(entries) // _ENTRIES_MOST)] if entries else ():
            end = entry["initial_location"] + entry["address_range"]
            rows = entry.get_decoded().table
            for row, following in zip(rows, [*(row["pc"] for row in rows[1:]), end], strict=True):
                if row["pc"] < following:
                    assert _our_row(frames, file, row["pc"]) == _their_row(row), f"{file.path} at {row['pc']:#x}"
                    compared += 1
    assert compared


def _our_row(frames: CallFrames, file: ElfFile, address: int) -> tuple[Any, dict[int, Any]]:
    segment = next(one for one in file.segments if 0 <= address - int(one["vaddr"]) < int(one["filesz"]))
    offset = address - int(segment["vaddr"]) + int(segment["offset"])
    number = int(frames.find(np.array([offset], np.uint64))[0])
    assert number >= 0
    rules = frames.rules[number]
    return rules.cfa, {register: rule for register, rule in rules.registers if rule[0] != SAME}


def _their_row(row: Mapping[Any, Any]) -> tuple[Any, dict[int, Any]]:
    cfa = row["cfa"]
    rules = {}
    for register, rule in row.items():
        if isinstance(register, int) and rule.type != "SAME_VALUE":
            value = bytes(rule.arg) if isinstance(rule.arg, list) else rule.arg or 0
            rules[register] = _KINDS[rule.type], value
    return bytes(cfa.expr) if cfa.expr is not None else (cfa.reg, cfa.offset), rules
