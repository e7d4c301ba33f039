"""Damaged and unusual location expressions are refused; simple ones are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfpy.probing.problems import ProbeError
from perfpy.probing.program import Program, open_program
from perfpy.probing.variables import Base, Location, LocationReader
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.symbols.files.elf import DAMAGE
from tests.builders.probed import compiled

if TYPE_CHECKING:
    from perfpy.debuginfo.dies import CodeDie


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> LocationReader:
    program: Program = open_program(str(compiled(tmp_path_factory.mktemp("shop"))), SymbolOptions())
    unit = next(program.all_units())
    functions = program.functions(unit)
    assert functions is not None
    code: CodeDie = next(one for one in functions.code if functions.name_of(one).name == "cost")
    return LocationReader(program, unit, code, code.entry)


@pytest.mark.parametrize(
    ("expression", "location"),
    [
        (b"\x55", Location(Base("%di"), 0, is_value=True)),
        (b"\x75\x08", Location(Base("%di"), 8)),
        (b"\x75\x78", Location(Base("%di"), -8)),
        (b"\x75\x08\x06\x23\x04", Location(Base("+8(%di)"), 4)),
        (b"\x75\x08\x9f", Location(Base("%di"), 8, is_value=True)),
        (b"\x75\x00\x9f", Location(Base("%di"), 0, is_value=True)),
        (b"\x35\x9f", Location(None, 5)),
        (b"\x09\xff\x9f", Location(None, -1)),
        (b"\x9e\x04\xff\xff\xff\xff", Location(None, -1)),
        (b"\xa3\x01\x55\x9f", Location(Base("%di"), 0, is_value=True)),
        (b"\x03" + (0x404010).to_bytes(8, "little"), Location(Base(""), 0x404010)),
        (b"\x91\x00", Location(Base("%sp"), 8)),
    ],
)
def test_an_expression_is_a_location(reader: LocationReader, expression: bytes, location: Location) -> None:
    assert reader.read(expression) == location


@pytest.mark.parametrize("expression", [b"", b"\x61", b"\x55\x93\x04", b"\x75\x00\x74\x00\x22", b"\x75\x00\xe0", b"\x9e\x10" + bytes(16)])
def test_values_that_the_kernel_cannot_read_are_unsupported(reader: LocationReader, expression: bytes) -> None:
    with pytest.raises(ProbeError) as caught:
        reader.read(expression)
    assert caught.value.exit_code == 161


@settings(max_examples=300)
@given(expression=st.binary(max_size=24))
def test_any_bytes_are_read_or_refused(reader: LocationReader, expression: bytes) -> None:
    try:
        reader.read(expression)
    except (ProbeError, *DAMAGE):
        pass
