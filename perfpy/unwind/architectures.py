"""The properties of each architecture that the stepper needs, as data.

DWARF numbers of registers: the psABI supplements of each architecture; perf's numbers: arch/*/include/uapi/asm/perf_regs.h.
"""

from __future__ import annotations

from typing import Final, NamedTuple

_ABI_32: Final = 1
NO_REGISTER: Final = -1


class FrameRecord(NamedTuple):
    """The layout of frame records, relative to the frame pointer.

    Attributes:
        register: DWARF number of the frame pointer.
        saved: offset of the caller's frame pointer.
        returns: offset of the return address.
        size: bytes from the frame pointer to the caller's stack pointer.
        chained: the register is the stack pointer and points to the caller's; `returns` counts from the latter.
        is_near: whether code without call frame information has a frame pointer if that is near the stack pointer (as libunwind assumes for
            x86); otherwise its callers must be code.
        is_exact: whether `size` is constant; otherwise it is the least, and the caller's frame record gives the caller's stack pointer.
    """

    register: int
    saved: int
    returns: int
    size: int
    chained: bool = False
    is_near: bool = True
    is_exact: bool = True


class SignalFrame(NamedTuple):
    """The slots, one word each from the stack pointer on, in which the kernel saves registers before a signal handler runs.

    Attributes:
        first: offset of slot 0.
        slots: DWARF number -> slot.
        pc: slot of the program counter.
        column: an unused DWARF number for the interrupted pc, because the return address has a register of its own.
        small: for machines with two kinds of frames: (offset of a pointer, its target, by how much the slots are lower then).
    """

    first: int
    slots: tuple[tuple[int, int], ...]
    pc: int
    column: int
    small: tuple[int, int, int] | None = None


class Architecture(NamedTuple):
    """An architecture, as far as unwinding needs it.

    Attributes:
        word: bytes of an address.
        registers: DWARF number -> perf's number; NO_REGISTER if samples lack it.
        pc: perf's number of the program counter.
        stack_pointer: DWARF number.
        return_column: DWARF number whose rule gives the caller's pc.
        frame: how to leave functions without call frame information.
        stub: bytes that a linkage stub has pushed; 0 while the return address is in its register.
        code: the address bits of a return address; the others say how to return (arm64 signatures, Arm's Thumb).
        links: whether calls leave the return address in a register.
        entry: offset from a caller's stack pointer to the CFA.
        often: DWARF numbers of further registers that locate frames in most programs.
        signal: the frames under signal handlers, for kernels whose vdso describes less, or without the vdso.
    """

    word: int
    registers: tuple[int, ...]
    pc: int
    stack_pointer: int
    return_column: int
    frame: FrameRecord | None = None
    stub: int = 0
    code: int = 0xFFFFFFFFFFFFFFFF
    links: bool = False
    entry: int = 0
    often: tuple[int, ...] = ()
    signal: SignalFrame | None = None

    @property
    def pushes(self) -> bool:
        """Whether return addresses are on the stack, and the caller's stack pointer is the CFA."""
        return not self.links and not self.entry

    @property
    def code_mask(self) -> int:
        """The mask of the bits of a code address."""
        return self.mask & self.code

    @property
    def mask(self) -> int:
        """The mask of the bits of an address."""
        return (1 << 8 * self.word) - 1


# perf's register order: AX BX CX DX SI DI BP SP IP FLAGS CS SS DS ES FS GS R8 ... R15
_X86_64: Final = Architecture(
    word=8,
    registers=(0, 3, 2, 1, 4, 5, 6, 7, *range(16, 24), 8),
    pc=8,
    stack_pointer=7,
    return_column=16,
    frame=FrameRecord(register=6, saved=0, returns=8, size=16),
    stub=8,
    often=(3,),  # ld.so locates frames with it
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
# perf's register order: X0 ... X29 LR SP PC. Program addresses have 48 bits by default; signatures are above.
_ARM64: Final = Architecture(
    word=8,
    registers=tuple(range(33)),
    pc=32,
    stack_pointer=31,
    return_column=30,
    frame=FrameRecord(register=29, saved=0, returns=8, size=16, is_near=False, is_exact=False),
    code=(1 << 48) - 1,
    links=True,
    signal=SignalFrame(312, tuple((number, number) for number in range(32)), pc=32, column=32),
)
# perf's register order: R0 ... R10 FP IP SP LR PC, also for 32-bit tasks of an arm64 kernel.
_ARM: Final = Architecture(
    word=4,
    registers=tuple(range(16)),
    pc=15,
    stack_pointer=13,
    return_column=14,
    code=~1,
    links=True,
)
# perf's register order: R0 ... R31 NIP MSR ORIG_R3 CTR LINK; floating point and vectors are not recorded.
_PPC64: Final = Architecture(
    word=8,
    registers=(*range(32), *[NO_REGISTER] * 33, 36, 35),
    pc=32,
    stack_pointer=1,
    return_column=65,
    frame=FrameRecord(register=1, saved=0, returns=16, size=0, chained=True, is_near=False),
    links=True,
    signal=SignalFrame(360, (*((number, number) for number in range(32)), (65, 36)), pc=32, column=64),
)
# perf's register order: R0 ... R15 FP0 ... FP15 MASK PC; leaf functions save registers in floating point registers.
_S390X: Final = Architecture(
    word=8,
    registers=(*range(16), *(16 + number for number in (0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15)), NO_REGISTER),
    pc=33,
    stack_pointer=15,
    return_column=14,
    links=True,
    entry=160,
    signal=SignalFrame(344, tuple((number, number + 1) for number in range(16)), pc=0, column=32, small=(168, 176, 160)),
)
# perf's register order: PC RA SP GP TP T0 ... in the order of x1, x2 ...
_RISCV64: Final = Architecture(
    word=8,
    registers=(NO_REGISTER, *range(1, 32)),
    pc=0,
    stack_pointer=2,
    return_column=1,
    frame=FrameRecord(register=8, saved=-16, returns=-8, size=0, is_near=False),
    links=True,
    signal=SignalFrame(304, tuple((number, number) for number in range(1, 32)), pc=0, column=0),
)

#: prefix of the machine's name -> architecture of 64-bit and of 32-bit tasks
_FAMILIES: Final[tuple[tuple[str, Architecture | None, Architecture | None], ...]] = (
    ("x86", _X86_64, _I386),
    ("amd64", _X86_64, _I386),
    ("i", None, _I386),
    ("aarch64", _ARM64, _ARM),
    ("arm64", _ARM64, _ARM),
    ("arm", None, _ARM),
    ("ppc64", _PPC64, None),
    ("s390x", _S390X, None),
    ("riscv64", _RISCV64, None),
)


def architecture(machine: str, abi: int) -> Architecture | None:
    """Return the architecture of a task, or None if it is unsupported.

    Args:
        machine: as in uname.
        abi: PERF_SAMPLE_REGS_ABI_32 (1) or _64 (2), from the sample.

    >>> architecture("x86_64", 2).word, architecture("x86_64", 1).word
    (8, 4)
    """
    for prefix, wide, narrow in _FAMILIES:
        if machine.startswith(prefix):
            return narrow if abi == _ABI_32 else wide
    return None
