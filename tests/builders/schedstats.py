"""Recordings of the scheduler's statistics, as `perf sched stats record` writes them.

Input: a version of /proc/schedstat and functions that give the counts. Output: the bytes of a file with two snapshots of two CPUs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.abi.perf_records import SchedstatCpu, SchedstatDomain
from perfpy.perfdata.header import CpuCount, CpuDomains, DomainInfo, Feature, SchedDomain
from tests.builders.perfdata import USUAL, PerfDataBuilder, usual_attr

if TYPE_CHECKING:
    from collections.abc import Callable

#: version -> the number of counts of a domain
DOMAIN_COUNTS: Final = {15: 36, 16: 36, 17: 45}
_CPU_COUNTS: Final = 9
_NAMES: Final = ("SMT", "MC")
_FIRST_NAMED: Final = 17  # the first version with names of domains


def counts_of(snapshot: int, cpu: int, domain: int, number: int) -> int:
    """Return a count that differs for each argument, and grows from the first snapshot to the second."""
    return (snapshot + 1) * (1000 + 100 * cpu + 10 * domain + number * 7) if (number + cpu) % 5 else 3


def recording_of_stats(
    version: int = 17, *, cpus: int = 2, domains: int = 2, count_of: Callable[[int, int, int, int], int] = counts_of, jiffies: int = 1234
) -> bytes:
    """Return the file.

    Args:
        version: of /proc/schedstat.
        cpus, domains: their numbers.
        count_of: returns a count by snapshot, CPU, domain (0: of the CPU itself) and number.
        jiffies: the time between the snapshots.
    """
    built = PerfDataBuilder(attrs=[usual_attr(USUAL, type=1, config=9, sample_period=1)], ids=[()])
    built.feature(Feature.NRCPUS, CpuCount(cpus, cpus))
    sets = [SchedDomain(number, _NAMES[number % 2] if version >= _FIRST_NAMED else "", "3", "0-1") for number in range(domains)]
    built.feature(Feature.CPU_DOMAIN_INFO, DomainInfo(version, domains, tuple(CpuDomains(cpu, tuple(sets)) for cpu in range(cpus))))
    for snapshot in range(2):
        time = 4_294_000_000 + snapshot * jiffies
        for cpu in range(cpus):
            counts = tuple(count_of(snapshot, cpu, 0, number) for number in range(_CPU_COUNTS))
            built.record(SchedstatCpu(0, time, cpu, version, counts))
            for domain in range(domains):
                counts = tuple(count_of(snapshot, cpu, domain + 1, number) for number in range(DOMAIN_COUNTS[version]))
                built.record(SchedstatDomain(0, time, cpu, version, domain, counts))
    return built.file()


def schedstat_text(version: int, *, time: int, factor: int) -> str:
    """Return the content of /proc/schedstat: two CPUs with two domains each. factor: multiplies all counts."""
    lines = [f"version {version}", f"timestamp {time}"]
    for cpu in range(2):
        lines.append(f"cpu{cpu} " + " ".join(str((number + cpu + 1) * factor) for number in range(_CPU_COUNTS)))
        for domain, name in enumerate(_NAMES):
            counts = " ".join(str((number + domain + 1) * factor) for number in range(DOMAIN_COUNTS[version]))
            lines.append(f"domain{domain} {name + ' ' if version >= _FIRST_NAMED else ''}00000003 {counts}")
    return "\n".join(lines) + "\n"
