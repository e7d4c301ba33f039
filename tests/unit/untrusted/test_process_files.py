"""What the kernel writes about processes, with names that imitate its lines."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
from typing import TYPE_CHECKING

from perfpy.capture.runtimes.attaching import is_java
from perfpy.symbols.mapped_names import innermost_pid
from perfpy.untrusted.process_files import map_lines, status_words
from perfpy.untrusted.process_root import rights_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_PR_SET_NAME = 15
_PR_GET_NAME = 16


@contextlib.contextmanager
def _named(comm: bytes) -> Iterator[None]:
    """This thread with another name."""
    libc, before = ctypes.CDLL(None), ctypes.create_string_buffer(16)
    libc.prctl(_PR_GET_NAME, before, 0, 0, 0)
    libc.prctl(_PR_SET_NAME, comm, 0, 0, 0)
    try:
        yield
    finally:
        libc.prctl(_PR_SET_NAME, before, 0, 0, 0)


def test_a_name_is_no_line_of_the_status() -> None:
    """Only line feeds end lines: the kernel escapes no other line end in a name."""
    pid = os.getpid()
    with _named(b"\rNStgid:\t77"):
        assert innermost_pid(pid) != 77
    with _named(b"\rUid:\t77 77"):
        assert status_words(pid, "Uid:")[0] == str(os.getuid())
    assert rights_of(b"Name:\t\rGroups:\t7\nUid:\t5 5 5 5\nGid:\t6 6 6 6\nGroups:\t8 \n") == (5, 6, (8,))


def test_a_name_is_no_line_of_the_mappings(tmp_path: Path) -> None:
    folder = tmp_path / "a\r1-2 r-xp 0 0:0 0 "
    folder.mkdir()
    (folder / "libjvm.so\rb").write_bytes(b"x")
    with open(folder / "libjvm.so\rb", "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ):
        assert not is_java(os.getpid())
        assert any(line.endswith(os.fsencode(folder / "libjvm.so\rb")) for line in map_lines(os.getpid()))
