"""Lines of perfpy trace are one line each, wherever they go."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from perfpy.cli.trace.output import TraceOutput
from perfpy.errors import OutputFailedError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FORGED = "     0.001 ( 0.001 ms): a\n     0.002 ( 0.001 ms): sshd/1 read(fd: 3<x\ry>)"


def test_names_with_line_breaks_make_no_lines(tmp_path: Path) -> None:
    """A thread or a file can be called as a line of another program."""
    with TraceOutput(str(tmp_path / "out")) as output:
        output.write([FORGED, "second"])
        output.write([])
    assert (tmp_path / "out").read_bytes().decode().splitlines() == [FORGED.replace("\n", "^J").replace("\r", "^M"), "second"]


@pytest.mark.parametrize("write", [lambda output: output.write(["line"]), lambda output: output.write_lines(SimpleNamespace(parts=[b"x"]))])
def test_a_full_disk_is_reported_with_the_files_name(write: Callable[[TraceOutput], None], tmp_path: Path) -> None:
    """It is not standard output that could not be written."""
    (tmp_path / "out").symlink_to("/dev/full")
    with pytest.raises(OutputFailedError) as caught, TraceOutput(str(tmp_path / "out")) as output:
        write(output)
    assert str(caught.value) == f"cannot write {tmp_path}/out: No space left on device"
