"""Filters of hardware tracers: their grammar, and the addresses of functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from perfpy.capture.address_filters import kernel_filter
from perfpy.errors import TraceOptionsError
from perfpy.symbols.symbol_table import Symbols, symbols_of_names
from tests.builders.elf import ET_EXEC, OBJECT, Elf

if TYPE_CHECKING:
    from pathlib import Path

FUNCTIONS = ((0x1000, 0x1010, b"main"), (0x1010, 0x1080, b"twice"), (0x2000, 0x2040, b"last"), (0x3000, 0x3008, b"twice"))


def functions(_path: str) -> Symbols:
    start, end = (np.array([row[column] for row in FUNCTIONS], np.uint64) for column in (0, 1))
    symbols = symbols_of_names(start, end, [row[2] for row in FUNCTIONS])
    return symbols.with_columns(binding=np.array([1, 0, 1, 1], np.uint8))


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "program"
    path.write_bytes(bytes(5000))
    (tmp_path / "link").symlink_to(path)
    return str(path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("filter 0x10/0x20", "filter 0x10/0x20"),
        ("filter 16 / 32 @ FILE", "filter 0x10/0x20@FILE"),
        ("start 0x10 @FILE,stop 0x20 @ FILE", "start 0x10@FILE,stop 0x20@FILE"),
        ("tracestop 1/2 filter 3", "stop 0x1/0x2,filter 0x3/0x0"),
        ("filter main @ FILE", "filter 0x1000/0x10@FILE"),
        ("start main @ FILE", "start 0x1000@FILE"),
        ("start main / last @ FILE", "start 0x1000/0x1040@FILE"),
        ("filter main/0x5 @ FILE", None),  # a name ends at a blank
        ("filter main / 5 @ FILE", "filter 0x1000/0x5@FILE"),
        ("filter 0x1800 / last @ FILE", "filter 0x1800/0x840@FILE"),
        ("filter * @ FILE", "filter 0x0/0x1388@FILE"),
        ("filter *", "filter 0x1000/0x3000"),
        ("filter main", "filter 0x1000/0x10"),
        ("filter twice #2 @ FILE", "filter 0x3000/0x8@FILE"),
        ("filter twice #g @ FILE", "filter 0x3000/0x8@FILE"),
        ("filter twice #0", "filter 0x3000/0x8"),
        ("filter main / twice #1", "filter 0x1000/0x80"),
    ],
)
def test_names_become_addresses(program: str, text: str, expected: str | None) -> None:
    text = text.replace("FILE", program)
    if expected is None:
        with pytest.raises(TraceOptionsError, match="no such function"):
            kernel_filter(text, 2, functions=functions)
    else:
        assert kernel_filter(text, 2, functions=functions) == expected.replace("FILE", program)


def test_links_are_followed(program: str) -> None:
    link = program.replace("program", "link")
    assert kernel_filter(f"filter main @ {link}", 2, functions=functions) == f"filter 0x1000/0x10@{program}"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("watch 1/2", "expected filter|start"),
        ("filter", "expected filter|start"),
        ("filter ", "expected filter|start"),
        ("filter 1/2 @ /no/where", "/no/where: no such file"),
        ("filter 1/2 filter 3/4 filter 5/6", "3 filters, and this CPU has 2"),
        ("filter absent", "the kernel has no such function 'absent'"),
        ("filter main #2", "no such function 'main'"),
        ("filter twice", "several 'twice'; choose one: #1 at 0x1010, #2 at 0x3000"),
        ("filter last / main", "'main' comes before 0x2000"),
    ],
)
def test_what_is_wrong_is_named(text: str, reason: str) -> None:
    with pytest.raises(TraceOptionsError) as caught:
        kernel_filter(text, 2, functions=functions)
    assert reason in str(caught.value)
    assert caught.value.exit_code == 234


def test_addresses_in_a_file_are_offsets(tmp_path: Path) -> None:
    """The kernel compares them with the mapping's offset in the file."""
    elf = Elf(type=ET_EXEC).segment(0x401000, 0x1000, 0x1000).text(addr=0x401000, offset=0x1000)
    elf.symbol("main", 0x401100, 0x40).symbol("data", 0x401200, 8, OBJECT)
    path = tmp_path / "program"
    path.write_bytes(elf.build())
    assert kernel_filter(f"filter main @ {path}", 2) == f"filter 0x1100/0x40@{path}"
    with pytest.raises(TraceOptionsError, match="no such function 'data'"):
        kernel_filter(f"filter data @ {path}", 2)
