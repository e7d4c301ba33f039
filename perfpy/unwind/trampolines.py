"""Find trampolines of Python functions that have neither call frame information nor a frame pointer.

The trampolines of CPython 3.12 and 3.13 (-X perf) are `sub $8, %rsp; call *%rcx; add $8, %rsp; ret` and leave %rbp unchanged. Later ones,
and those that perfpy adds to earlier interpreters, push %rbp, so a frame pointer leads through them. Both kinds are distinguished by their
sizes, with and without an endbr64 (objdump of libpython: _Py_trampoline_func_start).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.abi.columns import distinct
from perfpy.symbols.dso import DsoKind
from perfpy.unwind.rules import OFFSET, FrameRules

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.symbols.symbolizer import Symbolizer
    from perfpy.unwind.architectures import Architecture

_PYTHON: Final = "py::"
_EVALUATOR: Final = "perfpy::evaluate"  # capture/runtimes/cpython/evaluator.c: it jumps to the trampolines
_SIZES: Final = (11, 15)
_X86_64_STACK: Final = (7, 16)  # DWARF number of the stack pointer; the trampoline's 8 bytes and its return address


def of_trampoline(architecture: Architecture) -> FrameRules | None:
    """Return the rules of these trampolines during calls; None for architectures whose trampolines have a frame pointer."""
    if architecture.word != 8 or architecture.stack_pointer != _X86_64_STACK[0] or architecture.return_column != 16:
        return None
    return FrameRules(_X86_64_STACK, ((architecture.return_column, (OFFSET, -8)),), architecture.return_column)


def in_trampolines(symbolizer: Symbolizer, dso: int, addresses: NDArray[np.uint64]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which addresses of a dso are in such trampolines, and which in perfpy's evaluator, which pushes nothing."""
    if symbolizer.dsos[dso].kind is not DsoKind.JIT:
        return np.zeros(len(addresses), bool), np.zeros(len(addresses), bool)
    table, row = symbolizer.symbols_of(dso, addresses)
    if bool((row < 0).any()) and symbolizer.has_grown(dso):
        table, row = symbolizer.symbols_of(dso, addresses)
    mask = row >= 0
    size = table.symbols.end[row[mask]] - table.symbols.start[row[mask]]
    small = mask.copy()
    small[mask] = np.isin(size, _SIZES)
    python = [one for one in distinct(row[small]).tolist() if table.name(one).startswith(_PYTHON)]
    ours = [one for one in distinct(row[mask & ~small]).tolist() if table.name(one) == _EVALUATOR]
    return small & np.isin(row, python), mask & np.isin(row, ours)
