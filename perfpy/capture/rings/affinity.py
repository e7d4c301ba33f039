"""--affinity: the CPUs on which the recorder reads a ring buffer, so that a CPU's records are read near it."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from perfpy.abi.cpu_list import parse_cpu_list
from perfpy.capture.targets import ANY

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfpy.capture.rings.sample_counters import SampleCounters

_NODES = "/sys/devices/system/node"


def mover(word: str, counters: SampleCounters) -> Callable[[int], None]:
    """Return a function that moves to the CPUs of a ring buffer, given by index. word is cpu or node."""
    alone = [frozenset({cpu}) for cpu in counters.cpus if cpu != ANY]
    groups = alone if word == "cpu" else list(_nodes())
    home = {one.ring: next((group for group in groups if one.target.cpu in group), frozenset[int]()) for one in counters.opened}
    return _Mover(home).move


class _Mover:
    """Calls the kernel only if the next ring buffer has other CPUs."""

    def __init__(self, home: dict[int, frozenset[int]]) -> None:
        self._home = home
        self._here: frozenset[int] = frozenset()

    def move(self, ring: int) -> None:
        cpus = self._home.get(ring)
        if not cpus or cpus == self._here:
            return
        self._here = cpus
        with contextlib.suppress(OSError):  # the CPU is offline or not permitted; the recorder stays where it is
            os.sched_setaffinity(0, cpus)


def _nodes() -> list[frozenset[int]]:
    nodes = []
    with contextlib.suppress(OSError):
        for name in sorted(os.listdir(_NODES)):
            if name.startswith("node") and name[4:].isdecimal():
                with open(f"{_NODES}/{name}/cpulist") as file:
                    nodes.append(frozenset(parse_cpu_list(file.read().strip())))
    return nodes
