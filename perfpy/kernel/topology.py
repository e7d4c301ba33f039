"""Where a CPU sits: socket, die, cluster, core, NUMA node, caches.

What enters: a CPU's number, and where sysfs is mounted. What leaves: numbers;
what the machine does not tell is 0. Layout: Documentation/admin-guide/cputopology.rst,
/sys/devices/system/node.
"""

from __future__ import annotations

import os
from functools import cache

from perfpy.abi.cpu_list import parse_cpu_list
from perfpy.kernel.sysfs import read_text


class Topology:
    """The CPUs of one machine; each file is read once."""

    def __init__(self, root: str = "/sys") -> None:
        self.root = root
        self._number = cache(self._read_number)
        self._nodes: dict[int, int] | None = None

    def _read_number(self, cpu: int, name: str) -> int:
        try:
            number = int(read_text(f"{self.root}/devices/system/cpu/cpu{cpu}/topology/{name}") or 0)
        except ValueError:
            return 0
        return max(number, 0)

    def socket(self, cpu: int) -> int:
        """The package that the CPU is in."""
        return self._number(cpu, "physical_package_id")

    def die(self, cpu: int) -> int:
        """The die within the package."""
        return self._number(cpu, "die_id")

    def cluster(self, cpu: int) -> int:
        """The cluster within the die; 65535 is what machines without clusters say."""
        return self._number(cpu, "cluster_id")

    def core(self, cpu: int) -> int:
        """The core within the die."""
        return self._number(cpu, "core_id")

    def node(self, cpu: int) -> int:
        """The NUMA node; 0 on machines without."""
        if self._nodes is None:
            self._nodes = self._read_nodes()
        return self._nodes.get(cpu, 0)

    def _read_nodes(self) -> dict[int, int]:
        folder = f"{self.root}/devices/system/node"
        found: dict[int, int] = {}
        if not os.path.isdir(folder):
            return found
        for name in os.listdir(folder):
            if name.startswith("node") and name[4:].isdigit():
                cpus = parse_cpu_list(read_text(f"{folder}/{name}/cpulist") or "")
                found.update(dict.fromkeys(cpus, int(name[4:])))
        return found

    def cache(self, cpu: int, level: int | None = None) -> tuple[int, int]:
        """(level, id) of the cache of that level (None: the last) that the CPU uses; the id is its first CPU.

        (level or 0, -1) where there is no such cache.
        """
        found = (level or 0, -1)
        folder = f"{self.root}/devices/system/cpu/cpu{cpu}/cache"
        for index in range(16):
            text = read_text(f"{folder}/index{index}/level")
            if text is None:
                break
            its_level = int(text)
            if its_level == level or (level is None and its_level > found[0]):
                shared = parse_cpu_list(read_text(f"{folder}/index{index}/shared_cpu_list") or "")
                found = (its_level, min(shared, default=cpu))
        return found

    def part(self, kind: str, cpu: int, cache_level: int | None = None) -> tuple[int, ...]:
        """The numbers that name the part of the machine that a CPU belongs to.

        kind: SOCKET (socket), DIE (socket, die), CLUSTER (+ cluster), CORE
        (+ cluster, core), CACHE (socket, die, level, id) or NODE (node).
        """
        if kind == "NODE":
            return (self.node(cpu),)
        socket, die = self.socket(cpu), self.die(cpu)
        if kind == "SOCKET":
            return (socket,)
        if kind == "DIE":
            return (socket, die)
        if kind == "CACHE":
            return (socket, die, *self.cache(cpu, cache_level))
        cluster = self.cluster(cpu)
        return (socket, die, cluster) if kind == "CLUSTER" else (socket, die, cluster, self.core(cpu))
