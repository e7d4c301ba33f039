"""record --kcore copies the kernel's code, and a report elsewhere finds it."""

from __future__ import annotations

import os
import shutil
import struct
from typing import TYPE_CHECKING

import pytest

from perfpy.abi import records
from perfpy.abi.records import SampleId
from perfpy.capture.kernel_copy import copy_kernel
from perfpy.capture.record_options import OutputOptions, RecordOptions
from perfpy.disassembly import function_code
from perfpy.errors import PerfError
from perfpy.recording import Recording
from perfpy.symbols.files.elf import ElfFile
from perfpy.untrusted.destinations import own
from tests.builders.options import record_options
from tests.builders.perfdata import PerfDataBuilder

if TYPE_CHECKING:
    from pathlib import Path

TEXT = 0xFFFFFFFF81000000
MODULE = 0xFFFFFFFFC0000000
CODE = bytes(range(256)) * 32  # two pages
MODULE_CODE = b"\x90" * 4096
SYMBOLS = f"""{TEXT:x} T _stext
{TEXT:x} T _text
{TEXT + 0x100:x} t kernel_works
{TEXT + 0x1200:x} T _etext
{MODULE + 0x40:x} t module_works\t[mod]
{MODULE + 0x8000:x} d module_data\t[mod]
"""


@pytest.fixture
def proc(tmp_path):
    """/proc of a kernel with two pages of text and a module."""
    folder = tmp_path / "proc"
    folder.mkdir()
    header = b"\x7fELF\x02\x01\x01".ljust(16, b"\0") + struct.pack("<HHIQQQIHHHHHH", 4, 62, 1, 0, 64, 0, 0, 64, 56, 3, 0, 0, 0)
    parts = [(4, 0, 0, 0), (1, TEXT, 0x1000, len(CODE)), (1, MODULE, 0x3000, len(MODULE_CODE))]
    segments = b"".join(struct.pack("<IIQQQQQQ", kind, 7, at, start, 0, size, size, 1) for kind, start, at, size in parts)
    (folder / "kcore").write_bytes((header + segments).ljust(0x1000, b"\0") + CODE + MODULE_CODE)
    (folder / "kallsyms").write_text(SYMBOLS)
    (folder / "modules").write_text(f"mod 49152 0 - Live 0x{MODULE:x}\ngone 4096 0 - Live 0x{MODULE + 0x100000:x}\n")
    return folder


def copy(folder: Path, name: str, proc: Path) -> None:
    with own(str(folder)) as opened:
        copy_kernel(opened, name, str(proc))


def test_the_text_of_the_kernel_and_of_its_modules_is_copied(proc, tmp_path):
    copy(tmp_path, "copy", proc)
    assert sorted(os.listdir(tmp_path / "copy")) == ["kallsyms", "kcore", "modules"]
    assert (tmp_path / "copy" / "kallsyms").read_text() == SYMBOLS
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "copy").iterdir()} == {0o400}
    file = ElfFile("kcore", (tmp_path / "copy" / "kcore").read_bytes())
    assert [(int(one["vaddr"]), int(one["filesz"])) for one in file.segments] == [(TEXT, 8192), (MODULE, 4096)]
    code = function_code.code_of(TEXT + 0x100, TEXT + 0x110, str(tmp_path / "copy" / "kcore"))
    assert bytes(code.content)[-16:] == CODE[0x100:0x110]


@pytest.mark.parametrize(
    ("spoilt", "content"), [("kcore", None), ("kcore", b"short"), ("kallsyms", b"0 T _stext\n0 T _etext\n"), ("modules", b"x\n")]
)
def test_a_kernel_that_does_not_show_itself_is_reported_in_one_line(proc, tmp_path, spoilt, content):
    (proc / spoilt).unlink()
    if content is not None:
        (proc / spoilt).write_bytes(content)
    with pytest.raises(PerfError, match="--kcore: "):
        copy(tmp_path, "copy", proc)


def recording(folder: Path) -> None:
    built = PerfDataBuilder()
    ids = SampleId(pid=0xFFFFFFFF, tid=0, time=0)
    built.record(records.Mmap(1, 0xFFFFFFFF, 0, TEXT, 0x2000, TEXT, "[kernel.kallsyms]_text", ids))
    built.sample(misc=1, ip=TEXT + 0x104, pid=7, tid=7, time=200, period=1000)
    folder.mkdir()
    (folder / "data").write_bytes(built.file())


def test_a_report_takes_names_and_code_from_the_copy(proc, tmp_path):
    recording(tmp_path / "recorded")
    copy(tmp_path / "recorded", "kcore_dir", proc)
    shutil.rmtree(proc)
    with Recording(tmp_path / "recorded") as opened:
        assert list(opened.samples["symbol"]) == ["kernel_works"]
        symbolizer = opened.symbolizer()
        assert symbolizer.kernel_code == str(tmp_path / "recorded" / "kcore_dir" / "kcore")
        symbolizer.kernel_symbol(TEXT + 0x104)
        assert symbolizer.running_kernel() == 0


@pytest.mark.parametrize("others", [{"output": "-"}, {"unwind": True}, {"off_cpu": True}, {"jit": True}])
def test_one_file_for_input_and_output_is_refused(others):
    RecordOptions(output=OutputOptions(kcore=True)).check()
    with pytest.raises(PerfError, match="--kcore excludes"):
        record_options(kcore=True, **others).check()


def test_a_recording_s_folder_that_is_exchanged_gets_no_copy(proc, tmp_path):
    (tmp_path / "recorded").mkdir(0o700)
    (tmp_path / "victim").mkdir()
    with own(str(tmp_path / "recorded")) as opened:
        (tmp_path / "recorded").rename(tmp_path / "moved")
        (tmp_path / "recorded").symlink_to("victim")
        copy_kernel(opened, "kcore_dir", str(proc))
    assert os.listdir(tmp_path / "victim") == []
    assert "kcore" in os.listdir(tmp_path / "moved" / "kcore_dir")
