"""The scheduler's counters between two snapshots of /proc/schedstat: what `sched stats` shows.

Meaning of the counters: Documentation/scheduler/sched-stats.rst. perf's rules for averages and the summary were learnt from its output.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.abi.flags import RecordType
from perfpy.abi.perf_records.newer_records import SCHEDSTAT_DOMAIN_COUNTS, SCHEDSTAT_LONG_COUNTS, SchedstatCpu, SchedstatDomain
from perfpy.errors import UsageError
from perfpy.perfdata.container.features import Feature, key_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from perfpy.perfdata.container.feature_values import DomainInfo
    from perfpy.perfdata.sample_source import SampleSource

_CPU: Final = -1  # stands for the domain of a CPU's own counters
_WORD: Final = 0xFFFFFFFF
_LONG: Final = (1 << 64) - 1
_NO_STATISTICS: Final = "{path}: no statistics of the scheduler; record some: perfpy sched stats record -- COMMAND"


class DomainName(NamedTuple):
    """The name of a domain, or its number; and its CPUs as a list."""

    name: str
    cpus: str


class CpuStatistics(NamedTuple):
    """The differences of one CPU's counters, and of those of its domains by number."""

    counts: tuple[int, ...]
    domains: dict[int, tuple[int, ...]]


class Statistics(NamedTuple):
    """The differences between two snapshots.

    Attributes:
        version: of /proc/schedstat.
        jiffies: the time between them.
        cpus: by number.
        names: of the domains, by CPU and number.
    """

    version: int
    jiffies: int
    cpus: dict[int, CpuStatistics]
    names: dict[tuple[int, int], DomainName]

    def summary(self) -> CpuStatistics:
        """Return the averages over all CPUs, rounded down."""
        cpus = list(self.cpus.values())
        domains = sorted({number for cpu in cpus for number in cpu.domains})
        averages = {number: _averages([cpu.domains[number] for cpu in cpus if number in cpu.domains], len(cpus)) for number in domains}
        return CpuStatistics(_averages([cpu.counts for cpu in cpus], len(cpus)), averages)

    def summary_name(self, number: int) -> str:
        """Return the name of a domain of any CPU."""
        return next((name.name for (_, domain), name in self.names.items() if domain == number), str(number))


def read_statistics(source: SampleSource, cpus: Collection[int] | None = None) -> Statistics:
    """Return the differences between the first and the last snapshot in a recording.

    Args:
        source: the recording.
        cpus: the CPUs to keep; None: all.

    Raises UsageError if it has no statistics.
    """
    records = (side.record for side in source.side_band({RecordType.SCHEDSTAT_CPU, RecordType.SCHEDSTAT_DOMAIN}))
    statistics = statistics_of(records, source.features.get(key_of(Feature.CPU_DOMAIN_INFO)), cpus)
    if not statistics.cpus:
        raise UsageError(_NO_STATISTICS.format(path=source.path))
    return statistics


def statistics_of(
    records: Iterable[SchedstatCpu | SchedstatDomain], info: DomainInfo | None, cpus: Collection[int] | None = None
) -> Statistics:
    """Return the differences between the first and the last record of each CPU and domain.

    Args:
        records: of snapshots.
        info: the names of the domains.
        cpus: the CPUs to keep; None: all.
    """
    first: dict[tuple[int, int], SchedstatCpu | SchedstatDomain] = {}
    last: dict[tuple[int, int], SchedstatCpu | SchedstatDomain] = {}
    for record in records:
        if record.version in SCHEDSTAT_DOMAIN_COUNTS and (cpus is None or record.cpu in cpus):
            line = record.cpu, record.domain if isinstance(record, SchedstatDomain) else _CPU
            first.setdefault(line, record)
            last[line] = record
    return _differences(first, last, _domain_names(info))


def _differences(
    first: Mapping[tuple[int, int], SchedstatCpu | SchedstatDomain],
    last: Mapping[tuple[int, int], SchedstatCpu | SchedstatDomain],
    names: dict[tuple[int, int], DomainName],
) -> Statistics:
    cpus: dict[int, CpuStatistics] = {}
    version = jiffies = 0
    for (cpu, domain), begin in first.items():
        end = last[cpu, domain]
        is_cpu = domain == _CPU
        version, jiffies = begin.version, max(jiffies, end.timestamp - begin.timestamp)
        pairs = enumerate(zip(begin.counts, end.counts, strict=False))
        counts = tuple((new - old) & (_LONG if is_cpu and number >= SCHEDSTAT_LONG_COUNTS else _WORD) for number, (old, new) in pairs)
        if is_cpu:
            cpus[cpu] = CpuStatistics(counts, cpus[cpu].domains if cpu in cpus else {})
        else:
            cpus.setdefault(cpu, CpuStatistics((), {})).domains[domain] = counts
    cpus = {cpu: statistics for cpu, statistics in sorted(cpus.items()) if statistics.counts}
    return Statistics(version, jiffies, cpus, names)


def _domain_names(info: DomainInfo | None) -> dict[tuple[int, int], DomainName]:
    cpus = info.cpus if info else ()
    return {(cpu.cpu, domain.domain): DomainName(domain.name or str(domain.domain), domain.cpus) for cpu in cpus for domain in cpu.domains}


def _averages(rows: Iterable[Sequence[int]], cpus: int) -> tuple[int, ...]:
    return tuple(sum(column) // cpus for column in zip(*rows, strict=False))
