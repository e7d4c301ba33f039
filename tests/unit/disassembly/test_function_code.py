"""Code of the kernel: out of its vmlinux, or out of the memory of the kernel that runs, if that is the recorded one."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest

from perfpy.abi import records
from perfpy.abi.records import SampleId
from perfpy.disassembly import function_code
from perfpy.recording import Recording
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.symbols.symbolizer import Symbolizer
from tests.builders.annotated import SPIN, program
from tests.builders.perfdata import PerfDataBuilder

if TYPE_CHECKING:
    from pathlib import Path

    from perfpy.analysis.annotation import Annotation

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


def recording(folder: Path) -> str:
    built = PerfDataBuilder()
    ids = SampleId(pid=0xFFFFFFFF, tid=0, time=0)
    built.record(records.Mmap(1, 0xFFFFFFFF, 0, BASE + MOVED, 0x100000, BASE + MOVED, "[kernel.kallsyms]_text", ids))
    for number, offset in enumerate((0, 1, 1, 6)):
        built.sample(misc=1, ip=BASE + MOVED + 0x10 + offset, pid=7, tid=7, time=200 + number, period=1000)
    path = folder / "perf.data"
    path.write_bytes(built.file())
    return str(path)


def annotation(folder: Path, options: SymbolOptions) -> Annotation:
    with Recording(recording(folder)) as opened:
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
    function = annotation(tmp_path, kallsyms).function()
    assert (function.name, function.path, function.start) == ("spin", str(tmp_path / "kcore"), BASE + 0x10)
    assert [(row.text.split()[0], row.samples) for row in function.rows()] == [("nop", 1), ("decq", 2), ("jne", 0), ("retq", 1)]


def test_another_kernels_memory_has_not(tmp_path: Path, kallsyms: SymbolOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(function_code, "PATH", kcore(tmp_path))
    result = annotation(tmp_path, kallsyms)
    assert list(result.functions()) == []
    assert "the recorded kernel is missing" in next(iter(result.without_code))


def test_memory_that_cannot_be_read_is_named(tmp_path: Path, kallsyms: SymbolOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Symbolizer, "running_kernel", lambda _self: MOVED)
    for path, reason in ((str(tmp_path / "no"), "No such file"), (kcore(tmp_path, start=BASE + 0x5000), "nothing at")):
        monkeypatch.setattr(function_code, "PATH", path)
        result = annotation(tmp_path, kallsyms)
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
    function = annotation(tmp_path, SymbolOptions(vmlinux=str(tmp_path / "vmlinux"), cache=False)).function()
    assert (function.name, function.start) == ("spin", 0x1010)
    assert sum(row.samples for row in function.rows()) == 4
