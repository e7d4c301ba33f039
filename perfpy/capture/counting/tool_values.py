"""Values of events without a counter: times that perfpy measures, facts about the machine (perf 7.3's tool PMU), and sensors (its
hwmon PMUs).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from perfpy.abi.cpu_list import parse_cpu_list

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from perfpy.capture.workload import WorkloadEnd

_CPUS: Final = "/sys/devices/system/cpu"
_PERSISTENT_MEMORY: Final = "/sys/firmware/acpi/tables/NFIT"


def times(elapsed: int, ended: WorkloadEnd | None) -> dict[str, int]:
    """Return in ns the elapsed time, and the times of a command that has ended."""
    values = {"duration_time": elapsed}
    if ended:
        values["user_time"] = round(ended.rusage.ru_utime * 1e6) * 1000
        values["system_time"] = round(ended.rusage.ru_stime * 1e6) * 1000
    return values


def machine_values(names: Iterable[str], *, on_cpus: bool, root: str = _CPUS) -> dict[str, int]:
    """Return the values of those names that are facts about the machine or sensors; on_cpus: CPUs are counted, not tasks."""
    machine = _Machine(root)
    getters: dict[str, Callable[[], int]] = {
        "num_cpus": lambda: len(machine.cpus("possible")),
        "num_cpus_online": lambda: len(machine.cpus("online")),
        "num_cores": lambda: machine.parts("core_cpus_list"),
        "num_dies": lambda: machine.parts("die_cpus_list"),
        "num_packages": lambda: machine.parts("package_cpus_list"),
        "smt_on": machine.threads_share_cores,
        "core_wide": lambda: int(on_cpus or not machine.threads_share_cores()),
        "has_pmem": lambda: int(os.path.exists(_PERSISTENT_MEMORY)),
        "target_cpu": lambda: int(on_cpus),
    }
    return {name: getters[name]() if name in getters else _read_sensor(name) for name in names if name in getters or "/" in name}


def _read_sensor(name: str) -> int:
    from perfpy.kernel.hwmon import reading

    return reading(name)


class _Machine:
    """The CPUs, from a folder of sysfs."""

    def __init__(self, root: str) -> None:
        self._root = root

    def cpus(self, which: str) -> tuple[int, ...]:
        """Return the possible or online CPUs."""
        return parse_cpu_list(self._text(which) or "0")

    def parts(self, name: str) -> int:
        """Return the number of distinct CPU lists in this topology file."""
        return len({self._text(f"cpu{cpu}/topology/{name}") for cpu in self.cpus("online")})

    def threads_share_cores(self) -> int:
        """Return whether cores run several threads at once."""
        return int(self._text("smt/active") == "1")

    def _text(self, name: str) -> str:
        try:
            with open(f"{self._root}/{name}") as file:
                return file.read().strip()
        except OSError:
            return ""
