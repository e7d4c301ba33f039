"""Identify this machine's CPU, or that of PERF_CPUID, in the form that perf's event tables use.

x86: vendor, family, model and stepping, as GenuineIntel-6-8F-4; arm64: the MIDR without variant and revision; powerpc: the processor
version; riscv: vendor, architecture and implementation; s390x: manufacturer, type, model and counter facility.
"""

from __future__ import annotations

import os

from perfpy.abi.cpu_list import parse_cpu_list
from perfpy.kernel.sysfs import read_text

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Final


_MIDR: Final = "devices/system/cpu/cpu{}/regs/identification/midr_el1"
_MIDR_REVISIONS: Final = 0xF0000F
_PAGE: Final = 4096
_LONGEST: Final = 1 << 16


def event_tables_identity(cpus: Iterable[int] = (0,)) -> str:
    """Return the CPU whose event tables are used: PERF_CPUID if set, as in perf, else the first of these that is online.

    On arm64, a PERF_CPUID that is no MIDR is ignored.
    """
    identity = os.environ.get("PERF_CPUID", "")
    is_foreign = os.uname().machine == "aarch64" and not identity.startswith("0x")
    return identity if identity and not is_foreign else cpu_identity(cpus=cpus)


def cpu_identity(machine: str = "", proc: str = "/proc", sys: str = "/sys", cpus: Iterable[int] = (0,)) -> str:
    """Return the identity of a CPU, "" if the machine does not publish it. `machine` is uname's, by default this machine's.

    Arm's kinds of cores have their own: that of the first CPU of `cpus` that is online. Elsewhere all CPUs have one.
    """
    machine = machine or os.uname().machine
    if machine == "aarch64":
        text = next(filter(None, (_read(f"{sys}/{_MIDR.format(cpu)}").strip() for cpu in cpus)), "")
        return f"0x{int(text, 16) & ~_MIDR_REVISIONS:016x}" if text else ""
    if machine == "s390x":
        return _s390(_fields(_read(f"{proc}/sysinfo")), _read(f"{proc}/service_levels"))
    identify = _BY_MACHINE.get(machine)
    return identify(_first_processor(proc)) if identify else ""


def nominal_frequency(proc: str = "/proc") -> float:
    """Return the frequency in Hz in an x86 CPU's name, which is that of its time stamp counter; NaN if the name has none."""
    import re  # only formulas with this frequency need it

    match = re.search(r"@ ([0-9.]+)GHz", _first_processor(proc).get("model name", ""))
    return float(match[1]) * 1e9 if match else float("nan")


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
    import re

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


def _first_processor(proc: str) -> dict[str, str]:
    """Return the fields of the first processor in /proc/cpuinfo. The kernel writes the others only if they are read."""
    text = ""
    try:
        fd = os.open(f"{proc}/cpuinfo", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return {}
    try:
        while "\n\n" not in text and len(text) < _LONGEST and (chunk := os.read(fd, _PAGE)):
            text += chunk.decode("utf-8", "replace")
    except OSError:
        return {}
    finally:
        os.close(fd)
    return _fields(text.partition("\n\n")[0])


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
            return file.read(_LONGEST)
    except OSError:
        return ""


def core_siblings(cpu: int, root: str = "/sys") -> set[int]:
    """Return the CPUs that are threads of one core with this CPU, itself included."""
    folder = f"{root}/devices/system/cpu/cpu{cpu}/topology"
    text = read_text(f"{folder}/core_cpus_list") or read_text(f"{folder}/thread_siblings_list") or ""
    return {cpu, *parse_cpu_list(text)} if text else {cpu}


# The position of a CPU: socket, die, cluster, core, NUMA node, caches. A number that the machine does not publish is 0. Layout:
# Documentation/admin-guide/cputopology.rst, /sys/devices/system/node.


class Topology:
    """The CPUs of one machine. Each file is read once."""

    def __init__(self, root: str = "/sys") -> None:
        self.root = root
        self._numbers: dict[tuple[int, str], int] = {}
        self._nodes: dict[int, int] | None = None

    def _number(self, cpu: int, name: str) -> int:
        number = self._numbers.get((cpu, name))
        if number is None:
            try:
                number = max(int(read_text(f"{self.root}/devices/system/cpu/cpu{cpu}/topology/{name}") or 0), 0)
            except ValueError:
                number = 0
            self._numbers[cpu, name] = number
        return number

    def socket(self, cpu: int) -> int:
        """Return the CPU's package."""
        return self._number(cpu, "physical_package_id")

    def die(self, cpu: int) -> int:
        """Return the die within the package."""
        return self._number(cpu, "die_id")

    def cluster(self, cpu: int) -> int:
        """Return the cluster within the die; machines without clusters have 65535."""
        return self._number(cpu, "cluster_id")

    def core(self, cpu: int) -> int:
        """Return the core within the die."""
        return self._number(cpu, "core_id")

    def node(self, cpu: int) -> int:
        """Return the NUMA node; 0 on machines without NUMA."""
        if self._nodes is None:
            self._nodes = self._read_nodes()
        return self._nodes.get(cpu, 0)

    def _read_nodes(self) -> dict[int, int]:
        folder = f"{self.root}/devices/system/node"
        nodes: dict[int, int] = {}
        if not os.path.isdir(folder):
            return nodes
        for name in os.listdir(folder):
            if name.startswith("node") and name[4:].isdigit():
                cpus = parse_cpu_list(read_text(f"{folder}/{name}/cpulist") or "")
                nodes.update(dict.fromkeys(cpus, int(name[4:])))
        return nodes

    def cache(self, cpu: int, level: int | None = None) -> tuple[int, int]:
        """Return (level, id) of the CPU's cache at a level (None: the last); the id is the first CPU that shares it.

        Return (level or 0, -1) if there is no such cache.
        """
        best = (level or 0, -1)
        folder = f"{self.root}/devices/system/cpu/cpu{cpu}/cache"
        for index in range(16):
            text = read_text(f"{folder}/index{index}/level")
            if text is None:
                break
            cache_level = int(text)
            if cache_level == level or (level is None and cache_level > best[0]):
                shared = parse_cpu_list(read_text(f"{folder}/index{index}/shared_cpu_list") or "")
                best = (cache_level, min(shared, default=cpu))
        return best
