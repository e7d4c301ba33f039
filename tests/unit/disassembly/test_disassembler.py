"""Who reads the code of a function, how it is called, and what is said where nobody can."""

from __future__ import annotations

import re
import struct
import sys
from typing import TYPE_CHECKING

from perfpy.abi import records
from perfpy.abi.sample_id import SampleId
from perfpy.disassembly.objdump import CodeStyle
from perfpy.perfdata.container.feature_values import BpfProgram
from perfpy.perfdata.container.features import Feature
from perfpy.recording import Recording
from perfpy.symbols.files.debug_files import SymbolOptions
from tests.builders.annotated import SPIN, program, recording, spin_with_lines, stand_in
from tests.builders.elf import ALLOC, EXEC, Elf
from tests.builders.perfdata import PerfDataBuilder

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from perfpy.analysis.annotation.annotation import Annotation

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
    monkeypatch.setattr("perfpy.disassembly.objdump._SECONDS_MOST", 0.2)
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
