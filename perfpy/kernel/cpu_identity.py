"""What this machine's CPU is, in the words by which tables of events are found: perf's.

What enters: roots of /proc and /sys. What leaves: vendor, family, model and
stepping as `GenuineIntel-6-8F-4` on x86, the MIDR without variant and revision
on arm64, the processor version on powerpc, vendor, architecture and
implementation on riscv, maker, type, model and counter facility on s390x; "" where the machine does not tell.
"""

from __future__ import annotations

import math
import os
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_MIDR: Final = "devices/system/cpu/cpu0/regs/identification/midr_el1"
_MIDR_REVISIONS: Final = 0xF0000F


def cpu_identity(machine: str = "", proc: str = "/proc", sys: str = "/sys") -> str:
    """The identity of the first CPU. machine: as uname has it, default this one's."""
    machine = machine or os.uname().machine
    if machine == "aarch64":
        text = _read(f"{sys}/{_MIDR}").strip()
        return f"0x{int(text, 16) & ~_MIDR_REVISIONS:016x}" if text else ""
    if machine == "s390x":
        return _s390(_fields(_read(f"{proc}/sysinfo")), _read(f"{proc}/service_levels"))
    tell = _BY_MACHINE.get(machine)
    return tell(_fields(_read(f"{proc}/cpuinfo"))) if tell else ""


def nominal_frequency(proc: str = "/proc") -> float:
    """The frequency in Hz that an x86 CPU's name has, at which its time stamp counter runs; NaN where it has none."""
    named = re.search(r"@ ([0-9.]+)GHz", _fields(_read(f"{proc}/cpuinfo")).get("model name", ""))
    return float(named[1]) * 1e9 if named else math.nan


def _x86(fields: dict[str, str]) -> str:
    numbers = [fields.get(label, "") for label in ("cpu family", "model", "stepping")]
    if "vendor_id" not in fields or not all(number.isdecimal() for number in numbers):
        return ""
    family, model, stepping = map(int, numbers)
    return f"{fields['vendor_id']}-{family}-{model:X}-{stepping:X}"


def _power(fields: dict[str, str]) -> str:
    # revision : 2.2 (pvr 004e 1202)
    words = fields.get("revision", "").replace(")", "").split()
    return f"0x{words[-2]}{words[-1]}" if "(pvr" in words else ""


def _riscv(fields: dict[str, str]) -> str:
    numbers = [fields.get(label, "") for label in ("mvendorid", "marchid", "mimpid")]
    return "-".join(numbers) if all(numbers) else ""


def _s390(fields: dict[str, str], levels: str) -> str:
    # CPU-MF: Counter facility: version=3.6 authorization=002f
    words = [*fields.get("Manufacturer", "").split()[:1], *fields.get("Type", "").split()[:1], *fields.get("Model", "").split()[:2]]
    counters = re.search(r"Counter facility: version=(\S+) authorization=(\S+)", levels)
    return ",".join([*words, *(counters.groups() if counters else ())]) if len(words) >= 3 else ""


_BY_MACHINE: Final[dict[str, Callable[[dict[str, str]], str]]] = {
    "x86_64": _x86,
    "i686": _x86,
    "ppc64": _power,
    "ppc64le": _power,
    "riscv64": _riscv,
}


def _fields(text: str) -> dict[str, str]:
    """The first value of each label."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        label, colon, value = line.partition(":")
        if colon:
            found.setdefault(label.strip(), value.strip())
    return found


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(1 << 16)
    except OSError:
        return ""
