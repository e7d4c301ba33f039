"""Trampolines of Python functions: those without a frame pointer are known by their size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from perfpy.symbols import perf_map
from perfpy.symbols.dso import Dso, DsoKind
from perfpy.unwind.architectures import architecture
from perfpy.unwind.code_rules import in_trampolines, of_trampoline
from perfpy.unwind.rules import OFFSET

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.symbols.symbolizer import Symbolizer

#: of 3.12 without and with endbr64, with a frame pointer, and of another runtime
MAP = b"10000 b py::f:/a.py\n1000b f py::g:/a.py\n1001a c py::h:/a.py\n10030 b JS:*fib\n10040 40 perfpy::evaluate\n"


class Maps:
    """A Symbolizer with a perf map, and a file that has the same names."""

    dsos = (Dso("/tmp/perf-7.map", DsoKind.JIT), Dso("/usr/bin/program"))

    def __init__(self, *later: bytes) -> None:
        self._text = MAP
        self._later = [*later]

    def symbols_of(self, number: int, addresses: NDArray[np.uint64]) -> tuple[Any, NDArray[np.int64]]:
        table = perf_map.MapTable(perf_map.parse(self._text))
        return table, table.find(addresses)

    def has_grown(self, number: int) -> bool:
        grown = bool(self._later)
        self._text += b"".join(self._later)
        self._later.clear()
        return grown


def found(dso: int, *addresses: int, maps: Maps | None = None) -> list[bool]:
    inside, _ = in_trampolines(cast("Symbolizer", maps or Maps()), dso, np.array(addresses, np.uint64))
    return [bool(one) for one in inside]


def test_trampolines_are_identified_by_name_and_size():
    assert found(0, 0x10005, 0x1000F, 0x1001F, 0x10035, 0x10100) == [True, True, False, False, False]
    assert found(0) == []


def test_perfpys_evaluator_is_identified_by_name():
    addresses = np.array([0x10005, 0x10035, 0x10050, 0x1007F, 0x10080], np.uint64)
    trampolines, evaluator = in_trampolines(cast("Symbolizer", Maps()), 0, addresses)
    assert trampolines.tolist() == [True, False, False, False, False]
    assert evaluator.tolist() == [False, False, True, True, False]


def test_a_growing_map_is_read_again_for_unknown_addresses():
    maps = Maps(b"20000 b py::later:/a.py\n")
    assert found(0, 0x10005, maps=maps) == [True]
    assert found(0, 0x10005, 0x20005, maps=maps) == [True, True]
    assert found(0, 0x30000, maps=maps) == [False]


def test_only_perf_maps_contain_trampolines():
    assert found(1, 0x10005) == [False]


def test_the_cfa_of_a_trampoline_is_16_bytes_above_its_stack_pointer():
    x86 = architecture("x86_64", 2)
    assert x86 is not None
    rules = of_trampoline(x86)
    assert rules is not None
    assert (rules.cfa, rules.registers, rules.reach) == ((7, 16), ((16, (OFFSET, -8)),), None)


def test_other_architectures_trampolines_have_frame_pointers():
    i386 = architecture("x86_64", 1)
    assert i386 is not None
    assert of_trampoline(i386) is None
