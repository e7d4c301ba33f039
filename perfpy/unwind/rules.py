"""The rules that locate a caller's registers, and all distinct rules as columns.

Each distinct FrameRules has a number, which indexes the arrays of RuleTable, so that the stepper handles all samples together. Meaning of
the rules: DWARF 5, section 6.4.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from perfpy.abi.columns import Growing
from perfpy.abi.light_types import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray


SAME: Final = 0
UNDEFINED: Final = 1
OFFSET: Final = 2  # saved at CFA + value
VAL_OFFSET: Final = 3  # is CFA + value
REGISTER: Final = 4  # is in register number value
EXPRESSION: Final = 5  # saved at the address that the expression computes
VAL_EXPRESSION: Final = 6  # is the expression's value

#: Properties of unusual rules (RuleTable.flags).
ENDS: Final = 1
SIGNAL: Final = 2
NEAR_GUESS: Final = 4  # a guessed frame pointer, accepted if it is near the stack pointer
FAR_GUESS: Final = 8  # a guessed frame pointer, accepted if its callers are code
CFA_EXPRESSION: Final = 16
MOVES_STACK_POINTER: Final = 32  # it is not the CFA
RETURNS_ELSEWHERE: Final = 64  # the return address is in another column than the architecture's

#: (kind, an offset, a register's number, or an expression)
Rule: TypeAlias = "tuple[int, int | bytes]"
#: (register, offset) or an expression
CfaRule: TypeAlias = "tuple[int, int] | bytes"

#: The code is unknown: the chain ends.
END: Final = 0

# operations of DWARF expressions
_BREG0: Final = 0x70
_DEREF: Final = 0x06
_PLUS_CONSTANT: Final = 0x23
_CONSTANT, _MINUS, _TIMES, _EQUAL = 0x08, 0x1C, 0x1E, 0x29


class FrameRules(NamedTuple):
    """One row: how to compute the CFA (in nearly all code the caller's stack pointer) and the caller's registers.

    Attributes:
        registers: (DWARF number, Rule), ascending, without unchanged registers.
        return_column: the register that has the caller's pc.
        is_signal: whether the kernel made the frame.
        reach: for code without information, how far above the stack pointer an accepted frame pointer may be (0: anywhere, but its callers
            must
            be code); None for other code.
        copies: for a CFA that comes from a word below the stack pointer, which samples lack: the distance from the stack pointer to the
            first older copy of that word, and between copies; (0, 0) if there is none.
    """

    cfa: CfaRule
    registers: tuple[tuple[int, Rule], ...]
    return_column: int
    is_signal: bool = False
    reach: int | None = None
    copies: tuple[int, int] = (0, 0)


def by_frame_pointer(architecture: Architecture, reach: int) -> FrameRules | None:
    """Return the rules of code without call frame information, or None for architectures without frame pointers."""
    frame, column = architecture.frame, architecture.return_column
    if frame is None:
        return None
    if frame.chained:
        return FrameRules(bytes((_BREG0 + frame.register, 0, _DEREF)), ((column, (OFFSET, frame.returns)),), column, reach=reach)
    saved = ((frame.register, (OFFSET, frame.saved - frame.size)), (column, (OFFSET, frame.returns - frame.size)))
    return FrameRules((frame.register, frame.size), tuple(sorted(saved)), column, reach=reach)


def of_stub(architecture: Architecture) -> FrameRules:
    """Return the rules of a linkage stub, which has pushed at most its return address."""
    column = architecture.return_column
    pushed = ((column, (OFFSET, -architecture.stub)),) if architecture.stub else ()
    return FrameRules((architecture.stack_pointer, architecture.stub), pushed, column)


def of_leaf(architecture: Architecture) -> FrameRules:
    """Return the rules of code without information that has pushed nothing and called nothing; its caller must be code."""
    return FrameRules((architecture.stack_pointer, architecture.entry), (), architecture.return_column, reach=0)


def by_record(rules: FrameRules, architecture: Architecture) -> FrameRules | None:
    """Return the rules with an unknown stack pointer and a known frame pointer, or None if they do not suffice.

    The frame pointer points to the saved one of the caller, whose place the rules contain.
    """
    frame = architecture.frame
    if frame is None or isinstance(rules.cfa, bytes) or rules.cfa[0] != architecture.stack_pointer:
        return rules
    kind, value = dict(rules.registers).get(frame.register, (SAME, 0))
    if kind != OFFSET or isinstance(value, bytes):
        return None
    return rules._replace(cfa=(frame.register, frame.saved - value))


def of_signal(architecture: Architecture) -> FrameRules | None:
    """Return the rules of a signal frame in the kernel's layout."""
    frame = architecture.signal
    if frame is None:
        return None
    lower = _lower(architecture, *frame.small) if frame.small else b""
    slots = (*frame.slots, (frame.column, frame.pc))
    saved = {register: _above(architecture, frame.first + slot * architecture.word) + lower for register, slot in slots}
    cfa = saved[architecture.stack_pointer] + bytes((_DEREF, _PLUS_CONSTANT)) + _uleb(architecture.entry)
    rules: list[tuple[int, Rule]] = [(register, (EXPRESSION, address)) for register, address in sorted(saved.items())]
    return FrameRules(cfa, tuple(rules), frame.column, is_signal=True)


def _above(architecture: Architecture, offset: int) -> bytes:
    """Return the address at an offset above the stack pointer, as an expression."""
    return bytes((_BREG0 + architecture.stack_pointer, 0, _PLUS_CONSTANT)) + _uleb(offset)


def _lower(architecture: Architecture, pointer: int, target: int, size: int) -> bytes:
    """Return an expression that subtracts `size` if there is a pointer to an address, both relative to the stack pointer."""
    is_pointed = _above(architecture, pointer) + bytes((_DEREF,)) + _above(architecture, target) + bytes((_EQUAL,))
    return is_pointed + bytes((_CONSTANT, size, _TIMES, _MINUS))


def _uleb(value: int) -> bytes:
    return bytes((value & 0x7F | 0x80, value >> 7))


class RuleColumns:
    """The rules of one register, one row for each FrameRules.

    Attributes:
        kind: OFFSET and so on.
        value: the offset, or the row of the register; otherwise -1.
        is_rare: neither unchanged nor saved at an offset.
        has_rare: whether any rule is rare.
    """

    def __init__(self) -> None:
        self._kind, self._value, self._is_rare = Growing(np.int8), Growing(np.int64), Growing(bool)
        self.has_rare = False

    def extend(self, rules: Iterable[Rule], row: dict[int, int]) -> None:
        """Append rules. row: DWARF number of a tracked register -> its row."""
        kinds, values = zip(*rules, strict=True)
        kind = np.array(kinds, np.int8)
        numbers = [
            -1 if isinstance(value, bytes) else row.get(value, -1) if kind == REGISTER else value
            for kind, value in zip(kinds, values, strict=True)
        ]
        is_rare = (kind != SAME) & (kind != OFFSET)
        for column, added in ((self._kind, kind), (self._value, np.array(numbers, np.int64)), (self._is_rare, is_rare)):
            column.append(added)
        self.has_rare |= bool(is_rare.any())
        self.kind, self.value, self.is_rare = self._kind.values, self._value.values, self._is_rare.values


class RuleTable:
    """All rules of one architecture, by number; number END ends a chain.

    Attributes:
        tracked: the DWARF numbers of tracked registers: those from which any CFA, or a rule of a tracked register, is computed. It grows
            when a
            rule needs more.
        has_signals: whether any rules are of a signal trampoline.
    """

    def __init__(self, architecture: Architecture) -> None:
        self._architecture = architecture
        self._numbers: dict[FrameRules, int] = {}
        self.rules: list[FrameRules] = [FrameRules((architecture.stack_pointer, 0), (), architecture.return_column)]
        frame = [architecture.frame.register] if architecture.frame and not architecture.frame.chained else []
        self.tracked: list[int] = [architecture.stack_pointer, architecture.return_column, *frame, *architecture.often]
        self._encoded = 0
        self._made_tracked = 0
        self._moves: set[tuple[int, int]] = set()  # registers that are saved in another one
        self.has_signals = False

    def __len__(self) -> int:
        return len(self.rules)

    def number(self, rules: FrameRules) -> int:
        """Return the number of rules."""
        number = self._numbers.get(rules)
        if number is None:
            number = self._numbers[rules] = len(self.rules)
            self.rules.append(rules)
            self.has_signals |= rules.is_signal
        return number

    def track(self, register: int) -> None:
        """Track another register."""
        if register not in self.tracked and 0 <= register < len(self._architecture.registers):
            self.tracked.append(register)

    def update(self) -> None:
        """Extend the arrays by the rules added since the last call."""
        for rules in self.rules[self._encoded :]:
            if not isinstance(rules.cfa, bytes):
                self.track(rules.cfa[0])
            self.track(rules.return_column)
            self._moves.update((register, int(value)) for register, (kind, value) in rules.registers if kind == REGISTER)
        self._track_moved()
        if self._made_tracked != len(self.tracked):
            self._encoded, self._made_tracked = 0, len(self.tracked)
            self._columns = [Growing(kind) for kind in (np.uint8, np.int64, np.uint64, np.int64, bool, bool, np.uint64)]
            self.registers = [RuleColumns() for _ in self.tracked]
        if self._encoded < len(self.rules):
            self._extend(self.rules[self._encoded :])
            self._encoded = len(self.rules)

    def _extend(self, new: list[FrameRules]) -> None:
        row = {register: number for number, register in enumerate(self.tracked)}
        cfa = [(0, 0) if isinstance(rules.cfa, bytes) else (row.get(rules.cfa[0], -1), rules.cfa[1]) for rules in new]
        added: tuple[NDArray[Any], ...] = (
            np.array([self._flags_of(self._encoded + number, rules) for number, rules in enumerate(new)], np.uint8),
            np.array([one for one, _ in cfa], np.int64),
            np.array([offset & 0xFFFFFFFFFFFFFFFF for _, offset in cfa], np.uint64),
            np.array([row.get(rules.return_column, -1) for rules in new], np.int64),
            np.array([rules.reach is not None for rules in new], bool),
            np.array([self._is_pointed(rules) for rules in new], bool),
            np.array([rules.reach or 0 for rules in new], np.uint64),
        )
        for column, values in zip(self._columns, added, strict=True):
            column.append(values)
        arrays = (one.values for one in self._columns)
        self.flags, self.cfa_row, self.cfa_offset, self.return_row, self.is_guess, self.is_pointed, self.reach = arrays
        by_register = [dict(rules.registers) for rules in new]
        for register, columns in zip(self.tracked, self.registers, strict=True):
            # A stack pointer without a rule is the CFA, or unchanged.
            is_cfa = register == self._architecture.stack_pointer and not self._architecture.entry
            default: Rule = (VAL_OFFSET, 0) if is_cfa else (SAME, 0)
            columns.extend([rules.get(register, default) for rules in by_register], row)

    def _is_pointed(self, rules: FrameRules) -> bool:
        """Whether the CFA is guessed from a register that may point anywhere."""
        return rules.reach is not None and (isinstance(rules.cfa, bytes) or rules.cfa[0] != self._architecture.stack_pointer)

    def _track_moved(self) -> None:
        """Track the registers that can contain tracked ones."""
        tracked = 0
        while tracked < len(self.tracked):
            tracked = len(self.tracked)
            for register, source in self._moves:
                if register in self.tracked:
                    self.track(source)

    def _flags_of(self, number: int, rules: FrameRules) -> int:
        flags = ENDS if number == END else SIGNAL if rules.is_signal else 0
        if rules.reach is not None:
            flags |= NEAR_GUESS if rules.reach else FAR_GUESS
        if isinstance(rules.cfa, bytes):
            flags |= CFA_EXPRESSION
        if self._architecture.entry or any(register == self._architecture.stack_pointer for register, _ in rules.registers):
            flags |= MOVES_STACK_POINTER
        return flags | (RETURNS_ELSEWHERE if rules.return_column != self._architecture.return_column else 0)

    def expression(self, number: int, register: int | None) -> bytes:
        """Return the expression of the CFA (None) or of a register."""
        rules = self.rules[number]
        rule = rules.cfa if register is None else dict(rules.registers)[register][1]
        return rule if isinstance(rule, bytes) else b""


# The properties of each architecture that the stepper needs, as data.
#
# DWARF numbers of registers: the psABI supplements of each architecture; perf's numbers: arch/*/include/uapi/asm/perf_regs.h.


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
