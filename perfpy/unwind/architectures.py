"""What the stepper must know of an architecture, as data.

What enters: the machine that uname names, and the ABI of a sample's registers. What leaves: an Architecture. DWARF
numbers of registers: the psABI supplements of each architecture; perf's: arch/*/include/uapi/asm/perf_regs.h.
"""

from __future__ import annotations

from typing import Final

from perfpy.abi.startup import NamedTuple

_ABI_32: Final = 1
NO_REGISTER: Final = -1


class FrameRecord(NamedTuple):
    """Where code that keeps a frame pointer has its caller's: from the frame pointer on.

    register: DWARF number; saved, returns: where the caller's frame pointer and the return address are; size: from
    the frame pointer to the caller's stack pointer. chained: the register is the stack pointer, which points to the
    caller's; returns is from that on. is_near: whether code that says nothing is believed to have a frame pointer if that is
    near the stack pointer, as libunwind believes it of x86; otherwise its callers must be code. is_exact: whether size is
    always that; otherwise it is the least, and the caller's stack pointer comes of its own frame record.
    """

    register: int
    saved: int
    returns: int
    size: int
    chained: bool = False
    is_near: bool = True
    is_exact: bool = True


class SignalFrame(NamedTuple):
    """Where the kernel keeps the registers of what a signal interrupts: slots of a word each, from the stack pointer on.

    first: where slot 0 is; slots: registers with a slot, DWARF number -> slot; pc: its slot; column: a DWARF number
    that no register has, for the interrupted pc, as the return address of the interrupted code is a register of its own.
    small: of machines with two kinds of frames: (where a pointer is, what it points to, how much lower the slots then are).
    """

    first: int
    slots: tuple[tuple[int, int], ...]
    pc: int
    column: int
    small: tuple[int, int, int] | None = None


class Architecture(NamedTuple):
    """An architecture as unwinding sees it.

    word: bytes of an address. registers: DWARF number -> perf's number, NO_REGISTER where samples lack it. pc: perf's
    number of the program counter. stack_pointer, return_column: DWARF numbers; the latter is where rules keep the
    caller's pc. frame: how functions without call frame information are left. stub: what a linkage stub has pushed (bytes),
    0 where the return address is still in its register. code: the bits of a return address that are an address; the
    others say how to return (a signature of arm64, Arm's Thumb). links: whether calls leave the return address in a
    register. entry: from a caller's stack pointer to the CFA. often: DWARF numbers of registers that frames are found by in most
    programs, beside the stack and the frame pointer. signal: the frames under signal handlers, where the kernel's own
    description of them (in its vdso) says less, or the vdso is not at hand.
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
        """The bits of the address of code."""
        return self.mask & self.code

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
    often=(3,),  # ld.so finds functions with it
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
# perf's: X0 ... X29 LR SP PC. Addresses of programs have 48 bits, unless they ask for more; signatures are above
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
# perf's: R0 ... R10 FP IP SP LR PC, also of 32-bit tasks of an arm64 kernel
_ARM: Final = Architecture(
    word=4,
    registers=tuple(range(16)),
    pc=15,
    stack_pointer=13,
    return_column=14,
    code=~1,
    links=True,
)
# perf's: R0 ... R31 NIP MSR ORIG_R3 CTR LINK; of DWARF's, floating point and vectors are not recorded
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
# perf's: R0 ... R15 FP0 ... FP15 MASK PC; leaf functions save registers in floating point's
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
# perf's: PC RA SP GP TP T0 ... in the order of x1, x2 ...
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

#: first letters of the machine's name -> architecture of 64-bit and of 32-bit tasks
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
    """What runs a task; None where it is not known how to unwind it.

    machine: as uname names it; abi: PERF_SAMPLE_REGS_ABI_32 (1) or _64 (2), of the sample.

    >>> architecture("x86_64", 2).word, architecture("x86_64", 1).word
    (8, 4)
    """
    for prefix, wide, narrow in _FAMILIES:
        if machine.startswith(prefix):
            return narrow if abi == _ABI_32 else wide
    return None
