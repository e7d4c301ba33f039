"""What running programs of other users say of themselves is read within bounds."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from perfpy.capture.runtimes import attaching
from perfpy.capture.runtimes.programs import runtime_of
from perfpy.capture.runtimes.table import PYTHON
from perfpy.untrusted import process_files

if TYPE_CHECKING:
    import pytest


def test_only_the_beginning_of_arguments_and_variables_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """prctl(PR_SET_MM_MAP) can make them as large as all memory."""
    assert len(attaching._of_process(os.getpid(), "environ")) > 100
    monkeypatch.setattr(attaching, "_MOST_WORDS", 100)
    assert len(attaching._of_process(os.getpid(), "environ")) == 100


def test_a_program_that_embeds_python_is_found_by_its_library(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [b"1000-2000 r-xp 00000000 fe:00 7 /usr/bin/app", b"3000-4000 r-xp 00000000 fe:00 8 /usr/lib/libpython3.12.so.1.0"]
    monkeypatch.setattr(process_files, "map_lines", lambda _pid: iter(lines))
    monkeypatch.setattr(os, "readlink", lambda _path: "/usr/bin/app")
    assert attaching.runtime_of_process(7) is PYTHON

    lines.pop()
    assert attaching.runtime_of_process(7) is runtime_of("/usr/bin/app") is None


def test_a_process_that_has_ended_has_no_runtime() -> None:
    assert attaching.runtime_of_process(1 << 30) is None
    assert attaching._of_process(1 << 30, "cmdline") == b""
