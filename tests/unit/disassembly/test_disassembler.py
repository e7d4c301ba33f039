"""Disassembled functions, their source lines, and lengths of instructions."""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from perfpy.abi import records
from perfpy.abi.records import SampleId
from perfpy.disassembly import function_code
from perfpy.disassembly.disassembler import NOT_CODE, AsmLine, CodeStyle, instructions, of_objdump, pieces, with_source
from perfpy.disassembly.function_code import FunctionCode
from perfpy.disassembly.x86_lengths import always_elsewhere, length
from perfpy.perfdata.header import BpfProgram, Feature
from perfpy.recording import Recording
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.symbols.files.elf import ElfFile
from perfpy.symbols.symbolizer import Symbolizer
from tests.builders.annotated import SPIN, program, recording, spin_with_lines, stand_in
from tests.builders.elf import ALLOC, EXEC, LOCAL, NOTYPE, Elf
from tests.builders.perfdata import PerfDataBuilder

if TYPE_CHECKING:
    from pathlib import Path

    from perfpy.analysis.annotation import Annotation


# Who reads the code of a function, how it is called, and what is said where nobody can.


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


# Code of the kernel: out of its vmlinux, or out of the memory of the kernel that runs, if that is the recorded one.


BASE = 0xFFFFFFFF81000000
MOVED = 0x2000000  # how far the recorded kernel lay above


def kcore(folder: Path, code: bytes = SPIN, start: int = BASE) -> str:
    """Two segments; the second has the code at 0x10."""
    size = 0x10 + len(code)
    header = b"\x7fELF\x02\x01\x01".ljust(16, b"\0") + struct.pack("<HHIQQQIHHHHHH", 4, 62, 1, 0, 64, 0, 0, 64, 56, 2, 0, 0, 0)
    segments = struct.pack("<IIQQQQQQ", 1, 7, 0, 0x1000, 0, 0, 0, 1) + struct.pack("<IIQQQQQQ", 1, 7, 0x200, start, 0, size, size, 1)
    path = folder / "kcore"
    path.write_bytes((header + segments).ljust(0x200, b"\0") + bytes(0x10) + code)
    return str(path)


def spinning_recording(folder: Path) -> str:
    built = PerfDataBuilder()
    ids = SampleId(pid=0xFFFFFFFF, tid=0, time=0)
    built.record(records.Mmap(1, 0xFFFFFFFF, 0, BASE + MOVED, 0x100000, BASE + MOVED, "[kernel.kallsyms]_text", ids))
    for number, offset in enumerate((0, 1, 1, 6)):
        built.sample(misc=1, ip=BASE + MOVED + 0x10 + offset, pid=7, tid=7, time=200 + number, period=1000)
    path = folder / "perf.data"
    path.write_bytes(built.file())
    return str(path)


def code_annotation(folder: Path, options: SymbolOptions) -> Annotation:
    with Recording(spinning_recording(folder)) as opened:
        return opened.annotate(symbols=options)


@pytest.fixture
def kallsyms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SymbolOptions:
    """Symbols of the kernel; objdump is not there."""
    monkeypatch.setattr("shutil.which", lambda _name: None)
    path = tmp_path / "kallsyms"
    symbols = ((0, "_text"), (0x10, "spin"), (0x17, "rest"), (0x1000, "_etext"))
    path.write_text("".join(f"{BASE + offset:016x} T {name}\n" for offset, name in symbols))
    return SymbolOptions(kallsyms=str(path), cache=False)


def test_the_running_kernels_memory_has_the_code(tmp_path: Path, kallsyms: SymbolOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Symbolizer, "running_kernel", lambda _self: MOVED)
    monkeypatch.setattr(function_code, "PATH", kcore(tmp_path))
    function = code_annotation(tmp_path, kallsyms).function()
    assert (function.name, function.path, function.start) == ("spin", str(tmp_path / "kcore"), BASE + 0x10)
    assert [(row.text.split()[0], row.samples) for row in function.rows()] == [("nop", 1), ("decq", 2), ("jne", 0), ("retq", 1)]


def test_another_kernels_memory_has_not(tmp_path: Path, kallsyms: SymbolOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(function_code, "PATH", kcore(tmp_path))
    result = code_annotation(tmp_path, kallsyms)
    assert list(result.functions()) == []
    assert "the recorded kernel is missing" in next(iter(result.without_code))


def test_memory_that_cannot_be_read_is_named(tmp_path: Path, kallsyms: SymbolOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Symbolizer, "running_kernel", lambda _self: MOVED)
    for path, reason in ((str(tmp_path / "no"), "No such file"), (kcore(tmp_path, start=BASE + 0x5000), "nothing at")):
        monkeypatch.setattr(function_code, "PATH", path)
        result = code_annotation(tmp_path, kallsyms)
        assert list(result.functions()) == []
        assert reason in next(iter(result.without_code))


def test_every_cut_of_a_kcore_is_an_error_or_the_code(tmp_path: Path) -> None:
    path = kcore(tmp_path)
    whole = (tmp_path / "kcore").read_bytes()
    for size in (*range(200), 0x200, len(whole) - 1):
        (tmp_path / "kcore").write_bytes(whole[:size])
        with pytest.raises(ValueError, match="kcore"):
            function_code.code_of(BASE + 0x10, BASE + 0x17, path)
    (tmp_path / "kcore").write_bytes(whole)
    assert bytes(function_code.code_of(BASE + 0x10, BASE + 0x17, path).content).endswith(SPIN)


def test_a_vmlinux_has_the_code_below_where_it_was_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _name: None)
    (tmp_path / "vmlinux").write_bytes(program().symbol("_text", 0x1000, 0).build())
    function = code_annotation(tmp_path, SymbolOptions(vmlinux=str(tmp_path / "vmlinux"), cache=False)).function()
    assert (function.name, function.start) == ("spin", 0x1010)
    assert sum(row.samples for row in function.rows()) == 4


# Source lines between instructions are objdump's, but read by perfpy.


HEADER = """static inline int mixed(int times) {
  int value = times;
  for (int i = 0; i < times; i++)
    value ^= i * value;
default_label:
  return value;
}
"""
SOURCE = """#include "mixed.h"




int twice(int x) { return 2 * x; }

int main(int count, char **words) {
  int sum = 0;
  for (int i = 0; i < count; i++) {
    sum += mixed(i) + twice(sum);
    sum -= mixed(sum);
  }
  return sum;
}
"""


def objdump(program: Path, option: str) -> list[bytes]:
    command = ["objdump", "-d", "-C", "--no-show-raw-insn", option, str(program)]
    return subprocess.run(command, check=True, capture_output=True, timeout=60).stdout.split(b"\n")


@pytest.mark.skipif(not shutil.which("gcc") or not shutil.which("objdump"), reason="needs gcc and objdump")
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "unfinished"])
@pytest.mark.parametrize("option", ["-O0", "-O2"])
def test_the_lines_are_objdumps(tmp_path: Path, option: str, end: str):
    text = SOURCE.removesuffix("\n") if end == "unfinished" else SOURCE
    (tmp_path / "mixed.h").write_text(HEADER)
    (tmp_path / "main.c").write_text(text)
    subprocess.run(["gcc", "-g", option, "-w", "-o", "program", "main.c"], check=True, timeout=60, cwd=tmp_path)
    if end != "unfinished":
        (tmp_path / "main.c").write_bytes(text.replace("\n", end).encode())
    lines = [*with_source(objdump(tmp_path / "program", "-l"))]
    assert lines == objdump(tmp_path / "program", "-S")
    assert any(b"sum += mixed(i)" in line for line in lines)


def test_lines_without_a_file_are_left_out(tmp_path: Path):
    os.mkfifo(tmp_path / "fifo")
    names = [b"/nowhere/a.c", os.fsencode(tmp_path / "fifo"), b"???", b"/dev/zero", b"/proc/self/maps", b"a\0b"]
    text = [b"0000000000001010 <spin>:", b"spin():", *(name + b":7 (discriminator 2)" for name in names), b"    1010:\tnop", b""]
    assert [*with_source(text)] == [text[0], *text[-2:]]


# Lengths of x86's instructions.


#: bytes of one instruction each, of 64-bit code
INSTRUCTIONS = [
    "c3", "c2 08 00", "55", "41 54", "48 89 e5", "e8 a9 ff ff ff", "75 f3", "0f 84 2c 01 00 00", "eb fe", "ff 25 e2 2f 00 00",
    "48 ba 67 66 66 66 66 66 66 66", "66 b8 01 00", "48 c7 c0 01 00 00 00", "66 c7 07 01 00", "f6 07 01", "f6 d8", "f7 07 01 00 00 00",
    "66 f7 07 01 00", "48 8b 0c 25 10 00 00 00", "48 8b 84 24 10 01 00 00", "66 66 2e 0f 1f 84 00 00 00 00 00", "c8 10 00 00",
    "48 a1 01 02 03 04 05 06 07 08", "67 a1 01 02 03 04", "0f 05", "66 0f 3a 0f c1 08", "66 0f 38 00 c1", "c5 f8 77", "c5 fd 6f 07",
    "c4 e2 7d 18 07", "c4 e3 7d 19 c1 01", "62 f1 fe 48 6f 47 01", "62 f3 f5 48 25 c9 ff", "8f e9 78 81 c1", "8f 07", "f3 0f 1e fa",
    "66 0f 78 c1 02 03", "f2 0f 70 c1 1b", "0f 77", "0f c8", "6b c0 0a", "69 c0 e8 03 00 00", "d9 07", "dd d8", "e2 fe", "cd 80", "c9",
]  # fmt: skip


@pytest.mark.parametrize("text", INSTRUCTIONS)
def test_lengths(text: str) -> None:
    code = bytes.fromhex(text)
    assert length(code + b"\x90" * 20) == len(code)
    assert length(code) == len(code)
    assert length(code[:-1]) == 0


@pytest.mark.parametrize(
    ("text", "size"),
    [("40", 1), ("c5 07", 2), ("62 07", 2), ("67 8b 06 34 12", 5), ("9a 01 02 03 04 05 06", 7), ("a1 01 02 03 04", 5)],
)
def test_code_of_32_bits(text: str, size: int) -> None:
    assert length(bytes.fromhex(text) + b"\x90" * 20, bits=32) == size


def test_no_instruction_is_longer_than_fifteen_bytes() -> None:
    assert length(b"\x66" * 13 + b"\x50\x90") == 14
    assert length(b"\x66" * 15 + b"\x50") == 0
    assert length(b"") == 0


@pytest.mark.parametrize(
    ("text", "elsewhere"),
    [
        ("c3", True), ("e8 00 00 00 00", True), ("eb fe", True), ("ff e0", True), ("ff d0", True), ("ff 30", False), ("75 f3", False),
        ("0f 05", True), ("0f 84 00 00 00 00", False), ("e2 fe", False), ("90", False), ("c5 f8 77", False), ("", False), ("ff", False),
    ],
)  # fmt: skip
def test_instructions_never_followed_by_the_next(text: str, elsewhere: bool) -> None:
    assert always_elsewhere(bytes.fromhex(text)) is elsewhere
