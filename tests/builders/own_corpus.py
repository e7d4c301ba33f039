"""Small recordings of our own, and what perf 6.12 printed of each: see tests/corpus/README.md.

Input: the files of tests/corpus. Output: rows of INDEX.tsv, the
recordings unpacked, and the command lines that were and are to be asked of them.
"""

from __future__ import annotations

import csv
import lzma
import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE: Final = Path(__file__).resolve().parents[1] / "corpus"
RECORDINGS: Final = HERE / "recordings"
MODIFIED: Final = 1_700_000_000  # the header prints when a recording was changed last

SHOWN: Final = "task mmap switch namespace cgroup lost bpf text-poke".split()
KINDS: Final = {
    "script": ["script"],
    "events": ["script", *(f"--show-{kind}-events" for kind in SHOWN)],
    "report": ["report", "--stdio"],
    "tree": ["report", "--stdio", "--no-children", "-n", "-s", "comm,sym", "-G"],
    "stats": ["report", "--stats", "--stdio"],
    "header": ["report", "--header-only", "-I"],
    "evlist": ["evlist", "-v"],
    "buildids": ["buildid-list"],
    "stat": ["stat", "report"],
    "dump": ["report", "-D", "--stdio"],
    "code": ["script", "-F", "ip,sym,insn,insnlen,brstackinsn"],
}
#: those that look for symbols
RESOLVING: Final = ("script", "events", "report", "tree", "code")
#: lines that are random
RANDOM: Final = re.compile(rb"(?m)^# \(Tip: .*\n")
#: answers of more bytes than these are packed
PLAIN: Final = 8192


class Row(NamedTuple):
    """A recording. machine: whose kernel's symbols hold; unlike: kind -> why perf's answer is not ours."""

    name: str
    machine: str
    perf: str
    command: str
    unlike: dict[str, str]


def rows() -> list[Row]:
    """INDEX.tsv."""
    with open(HERE / "INDEX.tsv", encoding="utf-8", newline="") as file:
        lines = [*csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)]
    return [Row(name, machine, perf, command, reasons(unlike)) for name, machine, perf, command, unlike in lines[1:]]


def reasons(text: str) -> dict[str, str]:
    """`kind kind: why; kind: why` by kind."""
    results = {}
    for part in filter(None, text.split("; ")):
        kinds, _, why = part.partition(": ")
        results.update(dict.fromkeys(kinds.split(), why))
    return results


def unpack(folder: Path) -> None:
    """The recordings as NAME.data, symfs/, maps/, kallsyms.MACHINE, and an empty folder `empty` for what must not be found elsewhere."""
    for packed in RECORDINGS.glob("*.data.xz"):
        target = folder / packed.stem
        target.write_bytes(lzma.decompress(packed.read_bytes()))
        os.utime(target, (MODIFIED, MODIFIED))
    for name in ("symfs", "maps"):
        shutil.copytree(HERE / name, folder / name)
    for packed in HERE.glob("kallsyms/*.xz"):
        (folder / f"kallsyms.{packed.stem}").write_bytes(lzma.decompress(packed.read_bytes()))
    (folder / "empty").mkdir()


def command_line(row: Row, kind: str) -> list[str]:
    """What to ask perf or perfpy, in the folder that unpack() filled."""
    line = [*KINDS[kind], "-i", f"{row.name}.data"]
    return [*line, "--symfs", "symfs", "--kallsyms", f"kallsyms.{row.machine}"] if kind in RESOLVING else line


def surroundings(folder: Path) -> dict[str, str]:
    """The environment of such a command: nothing of the machine or of its user."""
    empty = str(folder / "empty")
    return {
        "TZ": "UTC", "LC_ALL": "C", "PERF_CONFIG": "/dev/null", "HOME": empty, "PERF_BUILDID_DIR": empty, "XDG_CACHE_HOME": empty,
        "NO_COLOR": "1", "PAGER": "cat", "DEBUGINFOD_URLS": "",
    }  # fmt: skip


def comparable(output: bytes) -> bytes:
    """Without what is random."""
    return RANDOM.sub(b"", output)


def answer_path(row: Row, kind: str, *, ours: bool = False) -> Path:
    """Where an answer is kept when it is not packed; ours: perfpy's own, where perf's is another."""
    return RECORDINGS / f"{row.name}.{kind}{'.ours' if ours else ''}.txt"


def answer(row: Row, kind: str, *, ours: bool = False) -> bytes | None:
    """A kept answer, None where there is none."""
    plain = answer_path(row, kind, ours=ours)
    packed = plain.with_name(plain.name + ".xz")
    if plain.exists():
        return plain.read_bytes()
    return lzma.decompress(packed.read_bytes()) if packed.exists() else None


def keep(row: Row, kind: str, output: bytes, *, ours: bool = False) -> None:
    """Keep an answer; an empty one is kept by its file not being there."""
    plain = answer_path(row, kind, ours=ours)
    packed = plain.with_name(plain.name + ".xz")
    plain.unlink(missing_ok=True)
    packed.unlink(missing_ok=True)
    if len(output) > PLAIN:
        packed.write_bytes(lzma.compress(output, preset=9 | lzma.PRESET_EXTREME))
    elif output:
        plain.write_bytes(output)


def answered() -> Iterator[tuple[Row, str]]:
    """Every recording with every kind of text that there is an answer for."""
    for row in rows():
        for kind in KINDS:
            if answer(row, kind) is not None or answer(row, kind, ours=True) is not None:
                yield row, kind
