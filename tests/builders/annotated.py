"""A program of two functions, a recording of it, and a stand-in for objdump that keeps what it was asked.

`SPIN` is at 0x1010: nop, then dec %rdi; jne, then ret; samples are at its instructions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.abi import records
from perfpy.abi.flags import SampleType
from perfpy.abi.records import SampleId
from perfpy.debuginfo import dwarf
from tests.builders.dies import Dies, code, function, inlined, unit
from tests.builders.elf import ALLOC, EXEC, Elf
from tests.builders.line_programs import COPY, END, advance_line, advance_pc, line_section, set_address, set_file
from tests.builders.perfdata import USUAL, PerfDataBuilder, usual_attr

if TYPE_CHECKING:
    from pathlib import Path

SPIN = bytes.fromhex("90 48ffcf 75fb c3")
#: offset in spin -> samples
HITS = {0: 1, 1: 6, 4: 2, 6: 1}
TEXT = """
@FILE@:     file format elf64-x86-64


Disassembly of section .text:

0000000000001010 <spin>:
\twhile (--n)
    1010:\tnop
    1011:\tdec    %rdi
\t\t;
    1014:\tjne    1011 <spin+0x1>

deadbeef: no instruction
    1016:\tret
"""

#: a.c:2 from 0x1010 on, b.h:9 from 0x1011 to 0x1016, a.c:3 from there to 0x1020
LINES = line_section(
    set_address(0x1010)
    + advance_line(1)
    + COPY
    + set_file(2)
    + advance_pc(1)
    + advance_line(7)
    + COPY
    + set_file(1)
    + advance_pc(5)
    + advance_line(-6)
    + COPY
    + advance_pc(10)
    + END,
    [("a.c", 0), ("b.h", 0)],
    [],
    version=4,
)


def program(machine: int = 62, above: int = 0) -> Elf:
    """ELF with spin and rest, so far above where they are in the file; the same bytes whatever machine it says it is for."""
    code = bytes(16) + SPIN + bytes(9) + b"\xc3" * 16
    elf = (
        Elf(machine=machine)
        .section(".text", code, flags=ALLOC | EXEC, addr=above + 0x1000, offset=0x1000, size=0x1000)
        .segment(above + 0x1000, 0x1000, 0x1000)
    )
    return elf.symbol("spin", above + 0x1010, len(SPIN)).symbol("rest", above + 0x1020, 16)


def recording(events: int = 1, path: str = "/bin/spin") -> bytes:
    """Each event has ten samples in spin, two in rest and one in no function; of the n-th event periods are n times as large."""
    attrs = [usual_attr(USUAL | SampleType.IDENTIFIER, config=number) for number in range(events)]
    built = PerfDataBuilder(attrs=attrs, ids=[(number + 1,) for number in range(events)])
    ids = {"pid": 7, "tid": 7, "time": 100, "identifier": 1}
    built.record(records.Comm(0, 7, 7, "spin", SampleId(**ids)))
    built.record(records.Mmap2(2, 7, 7, 0x401000, 0x1000, 0x1000, 8, 1, 99, 0, 5, 2, path, b"", SampleId(**ids)))
    time = 200
    for event in range(events):
        spots = [(0x401010 + offset, count) for offset, count in HITS.items()] + [(0x401020, 2), (0x401800, 1)]
        for ip, count in spots:
            for _ in range(count):
                built.sample(event, misc=2, ip=ip, pid=7, tid=7, time=(time := time + 10), period=1000 * (event + 1))
    return built.file()


def stand_in(folder: Path, text: str = TEXT) -> Path:
    """A program that prints a text, and writes into asked.txt beside it how it was called."""
    message, path = folder / "said.txt", folder / "objdump"
    message.write_text(text)
    path.write_text(f'#!/bin/sh\nprintf \'%s\\n\' "$@" >>{folder}/asked.txt\nfor file; do :; done\nsed "s#@FILE@#$file#" {message}\n')
    path.chmod(0o755)
    return path


def spin_with_lines(folder: Path) -> Path:
    """A folder for --symfs with /bin/spin: in spin, b.h:9 was inlined at a.c:2; rest has no lines. And perf.data, a recording of it."""
    helper = function("helper")
    spin = function("spin", (0x1010, 0x1017), inlined(helper, (0x1011, 0x1016), line=2))
    root = code(unit(helper, spin, low_pc=None), (0x1010, 0x1020))
    root.add(dwarf.AT_STMT_LIST, dwarf.FORM_SEC_OFFSET, 0).add(dwarf.AT_COMP_DIR, dwarf.FORM_STRING, str(folder))
    elf = Dies(root, line=LINES).elf().symbol("spin", 0x1010, 7).symbol("rest", 0x1020, 16)
    (folder / "bin").mkdir()
    (folder / "bin" / "spin").write_bytes(elf.build())
    (folder / "a.c").write_text("first\n\tsecond\x1b[2J\nthird\nfourth\nfifth\nsixth\n")
    (folder / "perf.data").write_bytes(recording())
    return folder
