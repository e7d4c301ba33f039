"""Damaged debug information is refused with one line, whatever its bytes."""

from __future__ import annotations

import contextlib
import random
from typing import TYPE_CHECKING

import pytest

from perfpy.errors import PerfError
from perfpy.probing.grammar import parse_line_range, parse_request
from perfpy.probing.program import Program, open_program
from perfpy.probing.requests import plan
from perfpy.probing.sites import Resolver, site_text
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.symbols.files.elf import BadElfError, ElfFile
from perfpy.tools.probe.listings import list_lines, list_variables
from tests.builders.probed import compiled

if TYPE_CHECKING:
    from pathlib import Path

_RUNS = 40
_REQUESTS = ("cost $vars", "twice n", "cost:2", "shop.c:8", "main:3 a.price sum", "cost it->next->name:string total label", "*")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("shop"))


def damaged(path: Path, seed: int) -> bytes:
    """Return the program with some bytes of its debug sections changed."""
    chance, data, file = random.Random(seed), bytearray(path.read_bytes()), ElfFile(str(path))
    sections = [one for one in file.sections if one.size and (one.name.startswith(".debug_") or one.name in (".eh_frame", ".symtab"))]
    for _ in range(chance.choice((1, 2, 5, 20))):
        section = chance.choice(sections)
        offset = section.offset + chance.randrange(section.size)
        piece = chance.choice((b"\xff" * 4, bytes(4), b"\x80" * 4, chance.randbytes(1)))
        data[offset : offset + len(piece)] = piece
    return bytes(data[: path.stat().st_size])


@pytest.mark.parametrize("seed", range(_RUNS))
def test_damage_is_refused_with_one_line(shop: Path, seed: int) -> None:
    try:
        file = ElfFile("/shop", damaged(shop, seed))
    except BadElfError:
        return
    program = Program("/shop", file, file)
    for text in _REQUESTS:
        with contextlib.suppress(PerfError):
            plan(program, parse_request(text))
    with contextlib.suppress(PerfError):
        list_lines(program, parse_line_range("cost"))
    with contextlib.suppress(PerfError):
        for site in Resolver(program).sites(parse_request("cost:2").point):
            list_variables(program, site, externs=True, ranges=True, test=lambda _: True)
    site_text(program, 0x401150)


def test_a_path_with_spaces_is_refused_before_the_kernel_reads_it_as_arguments(tmp_path: Path) -> None:
    folder = tmp_path / "a b\np:evil"
    folder.mkdir()
    program = open_program(str(compiled(folder)), SymbolOptions())
    with pytest.raises(PerfError, match="no path with spaces"):
        plan(program, parse_request("cost"))
