"""The position of a CPU: socket, die, cluster, core, NUMA node, caches.

A number that the machine does not publish is 0. Layout: Documentation/admin-guide/cputopology.rst, /sys/devices/system/node.
"""

from __future__ import annotations

import os
from functools import cache

from perfpy.abi.cpu_list import parse_cpu_list
from perfpy.kernel.sysfs import read_text


class Topology:
    """The CPUs of one machine. Each file is read once."""

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

    def part(self, kind: str, cpu: int, cache_level: int | None = None) -> tuple[int, ...]:
        """Return the numbers that identify a CPU's part of the topology.

        `kind` is SOCKET (socket), DIE (socket, die), CLUSTER (+ cluster), CORE (+ cluster, core), CACHE (socket, die, level, id) or NODE
        (node).
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
