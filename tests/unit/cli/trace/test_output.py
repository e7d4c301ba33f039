"""Lines of perfpy trace are one line each, wherever they go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.cli.trace.output import TraceOutput

if TYPE_CHECKING:
    from pathlib import Path

FORGED = "     0.001 ( 0.001 ms): a\n     0.002 ( 0.001 ms): sshd/1 read(fd: 3<x\ry>)"


def test_names_with_line_breaks_make_no_lines(tmp_path: Path) -> None:
    """A thread or a file can be called as a line of another program."""
    with TraceOutput(str(tmp_path / "out")) as output:
        output.write([FORGED, "second"])
        output.write([])
    assert (tmp_path / "out").read_bytes().decode().splitlines() == [FORGED.replace("\n", "^J").replace("\r", "^M"), "second"]
