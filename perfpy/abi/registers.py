"""Names of the registers in samples, per architecture, in the order of their bits.

Layout: enum perf_event_*_regs in arch/*/include/uapi/asm/perf_regs.h; a set
bit n of attr.sample_regs_user or sample_regs_intr asks for the n-th register.
Names are perf's.
"""

from __future__ import annotations

from typing import Final

_X86_FIRST: Final = "AX BX CX DX SI DI BP SP IP FLAGS CS SS DS ES FS GS".split()
_ARM64: Final = [f"x{i}" for i in range(30)] + ["lr", "sp", "pc", "pstate"]
_POWERPC: Final = [f"r{i}" for i in range(32)] + "nip msr orig_r3 ctr link xer ccr softe trap dar dsisr sier mmcra".split()
_RISCV: Final = "pc ra sp gp tp t0 t1 t2 s0 s1 a0 a1 a2 a3 a4 a5 a6 a7 s2 s3 s4 s5 s6 s7 s8 s9 s10 s11 t3 t4 t5 t6".split()
_S390: Final = [f"R{i}" for i in range(16)] + [f"FP{i}" for i in range(16)] + ["MASK", "PC"]

#: machine name of uname(2) -> register names by bit
REGISTERS: Final[dict[str, tuple[str, ...]]] = {
    "x86_64": (*_X86_FIRST, *(f"R{i}" for i in range(8, 16))),
    "i686": tuple(_X86_FIRST),
    "aarch64": tuple(_ARM64),
    "armv7l": tuple([f"r{i}" for i in range(11)] + ["fp", "ip", "sp", "lr", "pc"]),
    "ppc64le": tuple(_POWERPC),
    "ppc64": tuple(_POWERPC),
    "riscv64": tuple(_RISCV),
    "s390x": tuple(_S390),
}

# what a 64-bit x86 kernel does not sample: DS ES FS GS
_X86_NOT_SAMPLED: Final = 0xF << 12
# pstate is no register of the unwinder's
_USER_REGISTERS: Final = {"x86_64": ((1 << 24) - 1) & ~_X86_NOT_SAMPLED, "i686": (1 << 16) - 1, "aarch64": (1 << 33) - 1}

_UNWOUND_BY: Final = {
    "x86_64": ("SP", "IP"),
    "i686": ("SP", "IP"),
    "ppc64le": ("r1", "nip"),
    "ppc64": ("r1", "nip"),
    "s390x": ("R15", "PC"),
}


def user_registers(machine: str) -> int:
    """The mask of all general registers of an architecture, as a user stack needs them; 0 where it is not known."""
    known = REGISTERS.get(machine, ())
    return _USER_REGISTERS.get(machine, (1 << len(known)) - 1)


def sampled_registers(machine: str) -> dict[str, int]:
    """name -> bit of the registers that may be asked for, in order."""
    mask = user_registers(machine)
    return {name: bit for bit, name in enumerate(REGISTERS.get(machine, ())) if mask >> bit & 1}


def minimal_registers(machine: str) -> int:
    """The mask of the stack pointer and the program counter, without which no user stack can be unwound."""
    names = REGISTERS.get(machine, ())
    return sum(1 << names.index(name) for name in _UNWOUND_BY.get(machine, ("sp", "pc")) if name in names)


def register_name(machine: str, number: int) -> str:
    """perf's name of a register of samples of any machine; "unknown" for numbers and architectures without names.

    machine: what uname said where it was recorded ("x86_64", "i586", "armv8l" ...).
    """
    names = REGISTERS.get(machine) or next((known for prefix, known in _FAMILIES if machine.startswith(prefix)), ())
    if names is REGISTERS["i686"]:
        names = REGISTERS["x86_64"]  # one table for both in perf
    if names is REGISTERS["x86_64"] and number >= _FIRST_XMM:
        return f"XMM{(number - _FIRST_XMM) // 2}"
    return names[number] if number < len(names) else "unknown"


_FIRST_XMM: Final = 32
_FAMILIES: Final = (
    ("x86", REGISTERS["x86_64"]),
    ("i", REGISTERS["i686"]),
    ("arm64", REGISTERS["aarch64"]),
    ("arm", REGISTERS["armv7l"]),
    ("ppc", REGISTERS["ppc64"]),
    ("powerpc", REGISTERS["ppc64"]),
    ("riscv", REGISTERS["riscv64"]),
    ("s390", REGISTERS["s390x"]),
)
