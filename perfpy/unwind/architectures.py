"""What the stepper must know of an architecture, as data.

What enters: the machine that uname names, and the ABI of a sample's registers. What leaves: an Architecture. DWARF
numbers of registers: the psABI supplements of each architecture; perf's: arch/*/include/uapi/asm/perf_regs.h.
"""

from __future__ import annotations

from typing import Final, NamedTuple

_ABI_32: Final = 1
NO_REGISTER: Final = -1


class FrameRecord(NamedTuple):
    """Where code that keeps a frame pointer has its caller's: from the frame pointer on.

    register: DWARF number; saved, returns: where the caller's frame pointer and the return address are; size: from
    the frame pointer to the caller's stack pointer.
    """

    register: int
    saved: int
    returns: int
    size: int


class Architecture(NamedTuple):
    """An architecture as unwinding sees it.

    word: bytes of an address. registers: DWARF number -> perf's number, NO_REGISTER where samples lack it. pc: perf's
    number of the program counter. stack_pointer, return_column: DWARF numbers; the latter is where rules keep the
    caller's pc. frame: how functions without call frame information are left. stub: what a linkage stub has pushed (bytes).
    """

    word: int
    registers: tuple[int, ...]
    pc: int
    stack_pointer: int
    return_column: int
    frame: FrameRecord | None = None
    stub: int = 0

    @property
    def mask(self) -> int:
        """The bits of an address."""
        return (1 << 8 * self.word) - 1


# perf's: AX BX CX DX SI DI BP SP IP FLAGS CS SS DS ES FS GS R8 ... R15
_X86_64: Final = Architecture(
    word=8,
    registers=(0, 3, 2, 1, 4, 5, 6, 7, *range(16, 24), 8),
    pc=8,
    stack_pointer=7,
    return_column=16,
    frame=FrameRecord(register=6, saved=0, returns=8, size=16),
    stub=8,
)
_I386: Final = Architecture(
    word=4,
    registers=(0, 2, 3, 1, 7, 6, 4, 5, 8),
    pc=8,
    stack_pointer=4,
    return_column=8,
    frame=FrameRecord(register=5, saved=0, returns=4, size=8),
    stub=4,
)

#: first letters of the machine's name -> architecture of 64-bit and of 32-bit tasks
_FAMILIES: Final[tuple[tuple[str, Architecture | None, Architecture | None], ...]] = (
    ("x86", _X86_64, _I386),
    ("amd64", _X86_64, _I386),
    ("i", None, _I386),
)


def architecture(machine: str, abi: int) -> Architecture | None:
    """What runs a task; None where it is not known how to unwind it.

    machine: as uname names it; abi: PERF_SAMPLE_REGS_ABI_32 (1) or _64 (2), of the sample.

    >>> architecture("x86_64", 2).word, architecture("x86_64", 1).word
    (8, 4)
    """
    for prefix, wide, narrow in _FAMILIES:
        if machine.startswith(prefix):
            return narrow if abi == _ABI_32 else wide
    return None
