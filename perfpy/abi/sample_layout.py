"""The fields at the beginning of samples, one 8-byte word each. Layout: PERF_RECORD_SAMPLE in include/uapi/linux/perf_event.h."""

from __future__ import annotations

from perfpy.abi.flags import SampleType
from perfpy.abi.light_types import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Final

#: in layout order: the bit, and the column of the word, or those of its two halves ("" for an unused half)
FIXED_FIELDS: Final[tuple[tuple[int, tuple[str, ...]], ...]] = (
    (SampleType.IDENTIFIER, ("identifier",)),
    (SampleType.IP, ("ip",)),
    (SampleType.TID, ("pid", "tid")),
    (SampleType.TIME, ("time",)),
    (SampleType.ADDR, ("addr",)),
    (SampleType.ID, ("id",)),
    (SampleType.STREAM_ID, ("stream_id",)),
    (SampleType.CPU, ("cpu", "")),
    (SampleType.PERIOD, ("period",)),
)


def words_before(sample_type: int, field: int = 0) -> int:
    """Return the number of 8-byte words before one of these fields, header included; 0 means before the variable fields."""
    words = 1
    for bit, _ in FIXED_FIELDS:
        if bit == field:
            break
        words += bool(sample_type & bit)
    return words


# Names of sampled registers by architecture, in the order of their bits. Bit n of attr.sample_regs_user or sample_regs_intr selects the
# n-th register. Names are perf's. Layout: enum perf_event_*_regs in arch/*/include/uapi/asm/perf_regs.h.

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

# DS ES FS GS, which 64-bit x86 kernels do not sample
_X86_NOT_SAMPLED: Final = 0xF << 12
# the unwinder does not use pstate
_USER_REGISTERS: Final = {"x86_64": ((1 << 24) - 1) & ~_X86_NOT_SAMPLED, "i686": (1 << 16) - 1, "aarch64": (1 << 33) - 1}

_UNWOUND_BY: Final = {
    "x86_64": ("SP", "IP"),
    "i686": ("SP", "IP"),
    "ppc64le": ("r1", "nip"),
    "ppc64": ("r1", "nip"),
    "s390x": ("R15", "PC"),
}


def user_registers(machine: str) -> int:
    """Return the mask of all general registers of an architecture, needed to unwind a user stack; 0 for an unknown one."""
    names = REGISTERS.get(machine, ())
    return _USER_REGISTERS.get(machine, (1 << len(names)) - 1)


def sampled_registers(machine: str) -> dict[str, int]:
    """Return name -> bit of the registers that can be sampled, in order."""
    mask = user_registers(machine)
    return {name: bit for bit, name in enumerate(REGISTERS.get(machine, ())) if mask >> bit & 1}


def minimal_registers(machine: str) -> int:
    """Return the mask of stack pointer and program counter, the minimum for unwinding a user stack."""
    names = REGISTERS.get(machine, ())
    return sum(1 << names.index(name) for name in _UNWOUND_BY.get(machine, ("sp", "pc")) if name in names)


def register_name(machine: str, number: int) -> str:
    """Return perf's name of a sampled register; "unknown" for unknown numbers and architectures.

    `machine` is uname's on the recorded machine ("x86_64", "i586", "armv8l" ...).
    """
    names = REGISTERS.get(machine) or next((family for prefix, family in _FAMILIES if machine.startswith(prefix)), ())
    if names is REGISTERS["i686"]:
        names = REGISTERS["x86_64"]  # perf has one table for both
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


def page_size_text(size: int) -> str:
    """Return 4K, 2M or 1024M, in perf's units: 1024 of one are not 1 of the next; N/A for 0."""
    if not size:
        return "N/A"
    for unit in "BKMG":
        if size < 2048 or unit == "G":
            break
        size >>= 10
    return f"{size}{unit}"
