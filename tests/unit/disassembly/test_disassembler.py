"""Who reads the code of a function, how it is called, and what is said where nobody can."""

from __future__ import annotations

import re
import struct
import sys
from typing import TYPE_CHECKING

import pytest

from perfpy.abi import records
from perfpy.abi.records import SampleId
from perfpy.disassembly.disassembler import NOT_CODE, AsmLine, CodeStyle, instructions, of_objdump, pieces
from perfpy.disassembly.function_code import FunctionCode
from perfpy.perfdata.features import BpfProgram, Feature
from perfpy.recording import Recording
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.symbols.files.elf import ElfFile
from tests.builders.annotated import SPIN, program, recording, spin_with_lines, stand_in
from tests.builders.elf import ALLOC, EXEC, LOCAL, NOTYPE, Elf
from tests.builders.perfdata import PerfDataBuilder

if TYPE_CHECKING:
    from pathlib import Path

    from perfpy.analysis.annotation import Annotation


ARM64, UNKNOWN = 183, 999


def annotation(folder: Path, machine: int = 62, function: str = "spin", *, there: bool = True, above: int = 0) -> Annotation:
    (folder / "bin").mkdir()
    if there:
        (folder / "bin" / "spin").write_bytes(program(machine, above).build())
    (folder / "perf.data").write_bytes(recording())
    with Recording(str(folder / "perf.data")) as opened:
        annotate = opened.annotate(function, symbols=SymbolOptions(symfs=str(folder), cache=False))
        list(annotate.functions(style=CodeStyle(program="/nonexistent")))  # files are searched for while it is open
        annotate.without_code.clear()
        return annotate


def asked(folder: Path) -> list[str]:
    return (folder / "asked.txt").read_text().splitlines()


def test_objdump_gets_perfs_arguments(tmp_path: Path) -> None:
    style = CodeStyle(program=str(stand_in(tmp_path)))
    (function,) = annotation(tmp_path).functions(style=style)
    where = ["--start-address=0x0000000000001010", "--stop-address=0x0000000000001017", "-d"]
    assert asked(tmp_path)[:-1] == [*where, "--no-show-raw-insn", "-S", "-l", "--prefix=/dev/null", "-C", "--"]
    assert re.fullmatch(r"/proc/self/fd/[0-9]+", asked(tmp_path)[-1]), "the file that was read, whoever exchanges it"
    assert [line.offset for line in function.lines if line.is_code] == [0, 1, 4, 6]


def test_every_way_to_show_code_is_an_option_of_objdump(tmp_path: Path) -> None:
    style = CodeStyle(False, True, "intel", "/src", "2", demangle=False, program=str(stand_in(tmp_path)))
    list(annotation(tmp_path).functions(style=style))
    assert asked(tmp_path)[:2] == ["-M", "intel"]
    assert asked(tmp_path)[4:-1] == ["-d", "--prefix=/src", "--prefix-strip=2", "--"]


def test_code_alone_needs_no_source_lines_of_a_file_that_has_them(tmp_path: Path) -> None:
    """objdump's search for lines takes most of its time. In a file without them, -S reads the names of a separate debug file."""
    for name, folder in (("without", tmp_path / "without"), ("with", tmp_path / "with")):
        folder.mkdir()
        if name == "with":
            spin_with_lines(folder)
        else:
            (folder / "bin").mkdir()
            (folder / "bin" / "spin").write_bytes(program().build())
            (folder / "perf.data").write_bytes(recording())
        with Recording(str(folder / "perf.data")) as opened:
            annotate = opened.annotate("spin", symbols=SymbolOptions(symfs=str(folder), cache=False))
            list(annotate.functions(style=CodeStyle(program=str(stand_in(folder)), code_only=True)))
    assert "-S" in asked(tmp_path / "without")
    assert "-S" not in asked(tmp_path / "with")
    assert "-C" in asked(tmp_path / "with")


def test_an_option_cannot_stand_in_a_files_name(tmp_path: Path) -> None:
    style = CodeStyle(program=str(stand_in(tmp_path)))
    list(annotation(tmp_path).functions(style=style))
    assert asked(tmp_path)[-2] == "--"


def test_capstone_reads_code_where_there_is_no_objdump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _name: None)
    (function,) = annotation(tmp_path).functions()
    assert [row.text for row in function.rows()] == ["nop", "decq   %rdi", "jne    0x1011", "retq"]
    assert [row.samples for row in function.rows()] == [1, 6, 2, 1]


def test_capstone_writes_intel_syntax_and_bytes_on_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _name: None)
    (function,) = annotation(tmp_path).functions(style=CodeStyle(raw=True, syntax="intel"))
    assert [row.text.split() for row in function.rows()][1] == ["48", "ff", "cf", "dec", "rdi"]


def test_capstone_reads_code_of_machines_unknown_to_objdump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = stand_in(tmp_path, "\nfile format elf64-little\n\n")
    monkeypatch.setattr("shutil.which", lambda name: str(nothing) if name == "objdump" else None)
    (function,) = annotation(tmp_path, ARM64).functions()
    assert len(list(function.rows())) > 0
    assert all(".byte" in row.text or row.text for row in function.rows())


def test_the_objdump_of_the_codes_machine_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = str(stand_in(tmp_path))
    sought: list[str] = []

    def which(name: str) -> str | None:
        sought.append(name)
        return tool if name.startswith("aarch64") else None

    monkeypatch.setattr("shutil.which", which)
    assert len(list(annotation(tmp_path, ARM64).functions())) == 1
    assert sought[0] == "aarch64-linux-gnu-objdump"


def reasons(found: Annotation, style: CodeStyle | None = None) -> dict[str, list[str]]:
    assert list(found.functions(style=style)) == []
    return found.without_code


def test_without_both_the_message_names_the_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _name: None)
    monkeypatch.setitem(sys.modules, "capstone", None)
    ((reason, functions),) = reasons(annotation(tmp_path)).items()
    assert functions == ["spin"]
    assert "pip install 'perfpy[annotate]'" in reason


def test_a_missing_or_silent_objdump_is_named(tmp_path: Path) -> None:
    result = annotation(tmp_path)
    assert "cannot run /nonexistent" in next(iter(reasons(result, CodeStyle(program="/nonexistent"))))
    result.without_code.clear()
    silent = str(stand_in(tmp_path, ""))
    assert "finds no instructions" in next(iter(reasons(result, CodeStyle(program=silent))))


def test_an_unknown_machine_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _name: None)
    assert "999" in next(iter(reasons(annotation(tmp_path, UNKNOWN))))


def test_an_unneeded_objdump_is_ended(tmp_path: Path) -> None:
    style = CodeStyle(program=str(stand_in(tmp_path)))
    functions = annotation(tmp_path, function="").functions(style=style)
    assert next(functions).name == "spin"
    del functions  # a child that is left would be a ResourceWarning, which is an error here


def test_a_program_that_does_not_end_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perfpy.disassembly.disassembler._SECONDS_MOST", 0.2)
    tool = tmp_path / "slow"
    tool.write_text("#!/bin/sh\nexec sleep 60\n")
    tool.chmod(0o755)
    assert "finds no instructions" in next(iter(reasons(annotation(tmp_path), CodeStyle(program=str(tool)))))


def test_code_of_power_is_shown_with_its_bytes(tmp_path: Path) -> None:
    list(annotation(tmp_path, 21).functions(style=CodeStyle(program=str(stand_in(tmp_path)))))
    assert "--no-show-raw-insn" not in asked(tmp_path)


def test_lines_are_found_for_code_in_the_upper_half_of_addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _name: None)
    above = 0xFFFF800008000000
    (function,) = annotation(tmp_path, above=above).functions()
    rows = list(function.rows())
    assert [row.address - above for row in rows] == [0x1010, 0x1011, 0x1014, 0x1016]
    assert {row.source for row in rows} == {None}


def test_code_of_a_module_is_in_its_file_although_that_has_no_debug_information(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _name: None)
    start, path = 0xFFFFFFFFC0000000, "/lib/modules/6.1.0/kernel/spin.ko"
    built = PerfDataBuilder()
    for name, where, size in (("[kernel.kallsyms]_text", 0xFFFFFFFF81000000, 0x1000000), (path, start, 0x1000)):
        built.record(records.Mmap(1, 0xFFFFFFFF, 0, where, size, 0, name, SampleId(pid=0, tid=0, time=1)))
    for time, offset in enumerate((0x10, 0x11, 0x11), 10):
        built.sample(misc=1, ip=start + offset, pid=0, tid=0, time=time, period=1000)
    (tmp_path / "perf.data").write_bytes(built.file())
    module = Elf(type=1).section(".text", bytes(16) + SPIN, flags=ALLOC | EXEC, addr=0, offset=0x40).symbol("spin", 0x10, len(SPIN))
    (tmp_path / path[1:]).parent.mkdir(parents=True)
    (tmp_path / path[1:]).write_bytes(module.build())
    with Recording(str(tmp_path / "perf.data")) as opened:
        (function,) = opened.annotate(symbols=SymbolOptions(symfs=str(tmp_path), cache=False)).functions()
        rows = list(function.rows())
    assert [(row.address, row.text.split()[0], row.samples) for row in rows] == [
        (0x10, "nop", 1),
        (0x11, "decq", 2),
        (0x14, "jne", 0),
        (0x16, "retq", 0),
    ]


def test_code_of_a_bpf_program_is_in_the_recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _name: None)
    start, tag = 0xFFFFFFFFC0022110, bytes(range(8))
    name = f"bpf_prog_{tag.hex()}_spin"
    numbers = {
        16: ("I", len(SPIN)),
        24: ("Q", 0),
        104: ("I", 1),
        108: ("I", 1),
        112: ("Q", 8),
        120: ("Q", 16),
        180: ("I", 1),
        184: ("Q", 20),
    }
    info = bytearray(208)
    info[64:68] = b"spin"
    for offset, (code, value) in numbers.items():
        struct.pack_into(f"<{code}", info, offset, value)
    data = SPIN.ljust(8, b"\0") + struct.pack("<QI8s", start, len(SPIN), tag)
    built = PerfDataBuilder()
    built.record(records.Ksymbol(0, start, len(SPIN), 1, 0, name, SampleId(pid=0, tid=0, time=1)))
    for time, offset in enumerate((0, 1, 1), 10):
        built.sample(misc=1, ip=start + offset, pid=0, tid=0, time=time, period=1000)
    built.feature(Feature.BPF_PROG_INFO, (BpfProgram(0, bytes(info), data),)).feature(Feature.ARCH, "x86_64")
    (tmp_path / "perf.data").write_bytes(built.file())
    with Recording(str(tmp_path / "perf.data")) as opened:
        (function,) = opened.annotate(symbols=SymbolOptions(cache=False)).functions()
        rows = list(function.rows())
    assert function.name == name
    assert [(row.address - start, row.text.split()[0], row.samples) for row in rows] == [
        (0, "nop", 1),
        (1, "decq", 2),
        (4, "jne", 0),
        (6, "retq", 0),
    ]


# 32-bit ARM code has instructions of two kinds, and data among them.


#: push {r7, lr}; adds r0, #1; ldr r3, [pc, #0]; bx lr; then a word
THUMB = bytes.fromhex("80b5 0130 004b 7047") + struct.pack("<I", 123456789)
#: add r0, r0, #1; bx lr
ARM = bytes.fromhex("010080e2 1eff2fe1")


def file_of(code: bytes, marks: dict[int, str], *, thumb: bool) -> ElfFile:
    """f is at 0x1000."""
    elf = Elf(machine=40, bits=32).section(".text", code, flags=ALLOC | EXEC, addr=0x1000, offset=0x1000, size=len(code))
    elf = elf.segment(0x1000, 0x1000, len(code)).symbol("f", 0x1000 | thumb, len(code))
    for address, name in marks.items():
        elf = elf.symbol(name, address, type=NOTYPE, binding=LOCAL)
    return ElfFile("/f", elf.build())


def words(file: ElfFile, code: bytes) -> list[str]:
    lines = instructions(FunctionCode("f", file, 0x1000, 0x1000 + len(code)), CodeStyle())
    return [line.text.split()[0] for line in lines if line.is_code]


def test_mapping_symbols_separate_instructions_and_data() -> None:
    file = file_of(THUMB, {0x1000: "$t", 0x1008: "$d"}, thumb=True)
    assert pieces(file, 0x1000, 0x100C) == [(0x1000, 0x1008, "t"), (0x1008, 0x100C, "d")]
    assert words(file, THUMB) == ["push", "adds", "ldr", "bx", ".word"]


def test_a_mark_before_the_function_holds() -> None:
    file = file_of(ARM, {0xFF0: "$t.1", 0xFF8: "$a.2"}, thumb=False)
    assert pieces(file, 0x1000, 0x1008) == [(0x1000, 0x1008, "a")]


@pytest.mark.parametrize(("code", "thumb", "said"), [(THUMB[:8], True, ["push", "adds", "ldr", "bx"]), (ARM, False, ["add", "bx"])])
def test_without_marks_the_functions_address_selects_thumb(code: bytes, thumb: bool, said: list[str]) -> None:
    assert words(file_of(code, {}, thumb=thumb), code) == said


def test_trailing_data_of_a_function_is_shown() -> None:
    file = file_of(THUMB[:10], {0x1000: "$t", 0x1008: "$d"}, thumb=True)
    assert words(file, THUMB[:10])[-1] == ".short"


# Which lines of objdump's text are instructions of a function, and what the others say.


def lines(*text: bytes) -> list[AsmLine]:
    return of_objdump(text, 0x1010, 0x1017, "/bin/spin")


def test_an_instruction_follows_an_address_of_the_function() -> None:
    assert lines(b"    1011:\tdec    %rdi") == [AsmLine(1, "   dec    %rdi")]


def test_tabs_are_as_wide_as_after_the_address_without_the_blanks_before_it() -> None:
    assert of_objdump([b"   11011:\tdec"], 0x11010, 0x11017, "x") == [AsmLine(1, "  dec")]


def test_addresses_of_other_functions_and_words_that_look_like_some_are_no_instructions() -> None:
    assert lines(b"    1017:\tret", b"deadbeef: label", b"1010:") == [
        AsmLine(NOT_CODE, "1017:   ret", 4),
        AsmLine(NOT_CODE, "deadbeef: label"),
        AsmLine(NOT_CODE, "1010:"),
    ]


def test_the_line_that_names_the_file_is_omitted() -> None:
    assert lines(b"", b"/bin/spin:     file format elf64-x86-64", b"") == [AsmLine(NOT_CODE, ""), AsmLine(NOT_CODE, "")]


def test_source_lines_lose_the_blanks_at_their_ends_and_keep_bytes_that_are_no_text() -> None:
    assert lines(b"\t  x = y;") == [AsmLine(NOT_CODE, "x = y;", 6)]
    (line,) = lines(b"\t\tx = y;\t /* \xff */ \r")
    assert line.text.encode("utf-8", "surrogateescape") == b"x = y;   /* \xff */"
