"""What /proc says of tasks."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from perfpy.kernel.procfs import ProcFs
from perfpy.untrusted.process_files import TOO_LONG

if TYPE_CHECKING:
    from pathlib import Path


def test_the_main_thread_comes_first_when_numbers_began_again(tmp_path: Path) -> None:
    """A thread before its process would lose its mappings to the process's, as perf reads a recording."""
    for tid in (817, 31045, 31046):
        (tmp_path / "31045" / "task" / str(tid)).mkdir(parents=True)
    assert ProcFs(str(tmp_path)).threads(31045) == [31045, 817, 31046]
    assert ProcFs(str(tmp_path)).threads(1) == []


def test_parents_and_cpu_times_are_read_behind_any_name(tmp_path: Path) -> None:
    fields = "4 4 4 -1 0 0 0 0 0 30 12 0 0 20 0 1 0 100"
    for pid, name, parent in ((7, "a) R 1 (b", 3), (8, "x", 7)):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "stat").write_text(f"{pid} ({name}) S {parent} {fields}\n")
    (tmp_path / "9").mkdir()
    (tmp_path / "9" / "stat").write_text("9 (cut")
    assert ProcFs(str(tmp_path)).parents() == {7: (3, 42), 8: (7, 42)}


def test_the_age_of_this_process_is_known(tmp_path: Path) -> None:
    age = ProcFs().seconds_since_start()
    assert 0 < age < 1_000_000
    assert ProcFs().seconds_since_start() >= age
    assert ProcFs(str(tmp_path)).seconds_since_start() == 0


#: a file whose name continues with another line of maps
_FORGING = b"/tmp/a\r7f00000-7f01000 r-xp 00000000 08:01 12 /etc/shadow"


def _process_with(tmp_path: Path, **files: bytes) -> ProcFs:
    (tmp_path / "5").mkdir()
    for name, data in files.items():
        (tmp_path / "5" / name).write_bytes(data)
    return ProcFs(str(tmp_path))


def test_a_name_with_a_carriage_return_is_one_mapping(tmp_path: Path) -> None:
    """The kernel escapes line feeds in names only, so other line ends are part of them."""
    head = b"5000-6000 r-xp 00001000 fe:00 7                    "
    procfs = _process_with(
        tmp_path, maps=head + b"/tmp/lib\rx\n" + head + _FORGING + b"\n" + head + b"/tmp/\x0b\x0c\x85 b \n" + head + b"\n"
    )
    mappings = [*procfs.maps(5)]
    assert [os.fsencode(mapping.path) for mapping in mappings] == [b"/tmp/lib\rx", _FORGING, b"/tmp/\x0b\x0c\x85 b ", b""]
    assert {mapping.start for mapping in mappings} == {0x5000}


def test_mappings_with_endless_names_take_no_memory(tmp_path: Path) -> None:
    """A path can be longer than PATH_MAX, and one file can be mapped thousands of times."""
    head, number = b"5000-6000 r-xp 00001000 fe:00 7  /", 1000
    procfs = _process_with(tmp_path, maps=(head + b"d" * (1 << 17) + b"\n") * number + head + b"\n")
    mappings = [*procfs.maps(5)]
    assert 1 < len(mappings) < number
    assert {mapping.path for mapping in mappings} == {TOO_LONG}


def test_the_name_of_a_task_is_read_as_the_kernel_records_it(tmp_path: Path) -> None:
    """The kernel escapes line feeds and backslashes in /proc/PID/status, and a name can be empty."""
    procfs = _process_with(tmp_path, status=b"Name:\ta\\nb\\\\nc\rUid:\t7\nTgid:\t5\nPPid:\t1\nUid:\t9\t9\t9\t9\nVmPeak:\t1 kB\n")
    assert procfs.status(5) == ("a\nb\\nc\rUid:\t7", 5, 1, 9, False)
    (tmp_path / "5" / "status").write_bytes(b"Name:\t\nTgid:\t5\nPPid:\t1\nUid:\t9\n")
    assert procfs.status(5) == ("", 5, 1, 9, True)
    assert procfs.status(6) is None


def test_memory_with_code_comes_with_the_nearest_files(tmp_path):
    """Text that was moved to memory is found by them."""

    def line(start: int, access: str, path: str = "") -> str:
        return f"{start:012x}-{start + 0x1000:012x} {access} 00000000 fe:00 7 ".ljust(73) + path

    lines = [
        line(0x1000, "r--p", "/bin/far"),
        line(0x2000, "r--p", "/bin/program"),
        line(0x3000, "r-xp"),
        line(0x4000, "r-xp", "/anon_hugepage (deleted)"),
        line(0x5000, "---p", "/bin/program"),
        line(0x6000, "rw-p"),
        line(0x7000, "r--p", "/bin/program"),
        line(0x8000, "r-xp", "[anon:my /code/]"),
        line(0x9000, "rw-p", "[heap]"),
        line(0xA000, "r-xp", "/lib/with [brackets].so"),
        line(0xB000, "r-xp", "/lib/far.so"),
        line(0xC000, "r-xp", "[vdso]"),
    ]
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "maps").write_text("\n".join(lines) + "\n")
    mappings = ProcFs(str(tmp_path)).memory_with_code(7, lambda path: path.startswith(("/anon", "[anon:")) or not path)
    assert [mapping.start for mapping in mappings] == [0x2000, 0x3000, 0x4000, 0x7000, 0x8000, 0xA000]
    assert mappings[-1].path == "/lib/with [brackets].so"
    assert ProcFs(str(tmp_path)).memory_with_code(8, lambda _path: True) == []
