"""--threads: which thread of the recorder reads the ring buffers of which CPUs, and on which CPUs it runs.

The forms are those of perf-record(1): cpu, core, package, numa, or MAPS/AFFINITY[:MAPS/AFFINITY...], both lists of CPUs.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.abi.cpu_list import parse_cpu_list
from perfpy.capture.targets import OfflineCpuError
from perfpy.counts.aggregation import Aggregation, part_numbers
from perfpy.errors import RefusedOptionsError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from perfpy.kernel.cpus import Topology

EACH_CPU: Final = "cpu"
#: The word -> the part of the machine that has a thread of its own.
_PARTS: Final = MappingProxyType({"core": Aggregation.CORE, "package": Aggregation.SOCKET, "numa": Aggregation.NODE})
_FORMS: Final = "cpu, core, package, numa, or lists of CPUs such as 0-3/0:4-7/4"


class ThreadMask(NamedTuple):
    """One thread.

    Attributes:
        rings: the CPUs whose ring buffers it reads.
        runs_on: the CPUs that it runs on.
    """

    rings: frozenset[int]
    runs_on: frozenset[int]


def thread_masks(text: str, recorded: Collection[int], online: Collection[int], topology: Topology) -> list[ThreadMask]:
    """Return the threads of a recording of these CPUs. online has all online CPUs."""
    if text == EACH_CPU:
        return [ThreadMask(frozenset({cpu}), frozenset({cpu})) for cpu in sorted(recorded)]
    if text not in _PARTS:
        return list(_parse_masks(text, recorded, online))
    parts: dict[tuple[int, ...], list[int]] = {}
    for cpu in sorted({*online, *recorded}):
        parts.setdefault(part_numbers(_PARTS[text], topology, cpu), []).append(cpu)
    masks = (ThreadMask(frozenset(cpus).intersection(recorded), frozenset(cpus)) for cpus in parts.values())
    return [mask for mask in masks if mask.rings]


def check(text: str) -> None:
    """Raise UsageError if the option's text has none of the forms."""
    if text != EACH_CPU and text not in _PARTS:
        for part in text.split(":"):
            _lists(part)


def _parse_masks(text: str, recorded: Collection[int], online: Collection[int]) -> Iterator[ThreadMask]:
    ring_cpus: set[int] = set()
    for part in text.split(":"):
        rings, runs_on = _lists(part)
        if unknown := (rings | runs_on).difference(online):
            raise OfflineCpuError(f"--threads {part}: CPU {min(unknown)} is not online")
        if again := ring_cpus & rings:
            raise RefusedOptionsError(f"--threads: two threads read the ring buffer of CPU {min(again)}")
        ring_cpus |= rings
        yield ThreadMask(rings.intersection(recorded), runs_on)


def _lists(part: str) -> tuple[frozenset[int], frozenset[int]]:
    rings, slash, runs_on = part.partition("/")
    try:
        cpus = frozenset(parse_cpu_list(rings)), frozenset(parse_cpu_list(runs_on))
    except ValueError as error:
        raise RefusedOptionsError(f"--threads {part}: {error}; expected {_FORMS}") from None
    if not (slash and all(cpus)):
        raise RefusedOptionsError(f"--threads: invalid text '{part}'; expected {_FORMS}")
    return cpus
