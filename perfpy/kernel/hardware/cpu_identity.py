"""Identify this machine's CPU, or that of PERF_CPUID, in the form that perf's event tables use.

x86: vendor, family, model and stepping, as GenuineIntel-6-8F-4; arm64: the MIDR without variant and revision; powerpc: the processor
version; riscv: vendor, architecture and implementation; s390x: manufacturer, type, model and counter facility.
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


def event_tables_identity() -> str:
    """Return the CPU whose event tables are used: PERF_CPUID if set, as in perf, else this machine's."""
    return os.environ.get("PERF_CPUID") or cpu_identity()


def cpu_identity(machine: str = "", proc: str = "/proc", sys: str = "/sys") -> str:
    """Return the identity of the first CPU, "" if the machine does not publish it. `machine` is uname's, by default this machine's."""
    machine = machine or os.uname().machine
    if machine == "aarch64":
        text = _read(f"{sys}/{_MIDR}").strip()
        return f"0x{int(text, 16) & ~_MIDR_REVISIONS:016x}" if text else ""
    if machine == "s390x":
        return _s390(_fields(_read(f"{proc}/sysinfo")), _read(f"{proc}/service_levels"))
    identify = _BY_MACHINE.get(machine)
    return identify(_fields(_read(f"{proc}/cpuinfo"))) if identify else ""


def nominal_frequency(proc: str = "/proc") -> float:
    """Return the frequency in Hz in an x86 CPU's name, which is that of its time stamp counter; NaN if the name has none."""
    match = re.search(r"@ ([0-9.]+)GHz", _fields(_read(f"{proc}/cpuinfo")).get("model name", ""))
    return float(match[1]) * 1e9 if match else math.nan


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
    """Return the first value of each label."""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        label, colon, value = line.partition(":")
        if colon:
            fields.setdefault(label.strip(), value.strip())
    return fields


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(1 << 16)
    except OSError:
        return ""
