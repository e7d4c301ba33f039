"""Take snapshots of /proc/schedstat around a command, and write them to a file as `perf sched stats record` does."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from perfpy.abi.attr import EventAttr
from perfpy.abi.cpu_list import cpu_list_text
from perfpy.abi.flags import NATIVE_ENDIAN, PerfType, SoftwareId
from perfpy.abi.perf_records.newer_records import SchedstatCpu, SchedstatDomain
from perfpy.abi.perf_records.user_records import encode
from perfpy.capture.environment import Environment
from perfpy.capture.output.output import find_destination, new_recording
from perfpy.capture.workload import Workload
from perfpy.kernel.schedstat import PATH, EnabledStatistics, read_schedstat
from perfpy.perfdata.container.feature_values import CpuDomains, DomainInfo, SchedDomain
from perfpy.perfdata.container.features import Feature, encode_feature
from perfpy.perfdata.container.writer import FileWriter, WrittenEvent
from perfpy.version import __version__

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from perfpy.kernel.schedstat import Snapshot

_ENDS = frozenset((signal.SIGINT, signal.SIGTERM))


def take_snapshots(command: Sequence[str], path: str = PATH) -> tuple[list[Snapshot], int]:
    """Return the counters before and after a command, or until a signal ends the measurement; and the command's exit status.

    Args:
        command: a program and its arguments; empty: measure until SIGINT or SIGTERM.
        path: of the counters.

    Raises PerfError if the kernel has no statistics.
    """
    read_schedstat(path)  # which fails before the command runs
    with EnabledStatistics():
        if not command:
            signal.pthread_sigmask(signal.SIG_BLOCK, _ENDS)
            try:
                first = read_schedstat(path)
                signal.sigwait(_ENDS)
            finally:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDS)
            return [first, read_schedstat(path)], 0
        former = signal.signal(signal.SIGINT, lambda *_: None)  # ends the command only
        try:
            with Workload(command) as workload:
                first = read_schedstat(path)
                workload.start()
                end = workload.wait()
                return [first, read_schedstat(path)], end.exit_code
        finally:
            signal.signal(signal.SIGINT, former)


def records_of(snapshot: Snapshot, cpus: Collection[int] | None = None) -> Iterator[SchedstatCpu | SchedstatDomain]:
    """Yield the records of a snapshot. cpus: the CPUs to keep; None: all."""
    for line in snapshot.cpus:
        if cpus is not None and line.cpu not in cpus:
            continue
        yield SchedstatCpu(0, snapshot.timestamp, line.cpu, snapshot.version, line.counts)
        for domain in line.domains:
            yield SchedstatDomain(0, snapshot.timestamp, line.cpu, snapshot.version, domain.number, domain.counts)


def domain_info(snapshot: Snapshot) -> DomainInfo:
    """Return the names and CPUs of all domains."""
    cpus = [
        CpuDomains(line.cpu, tuple(SchedDomain(one.number, one.name, one.mask, cpu_list_text(one.cpus)) for one in line.domains))
        for line in snapshot.cpus
    ]
    return DomainInfo(snapshot.version, max((len(line.domains) for line in snapshot.cpus), default=0), tuple(cpus))


def write_snapshots(path: str, snapshots: Sequence[Snapshot], command_line: Sequence[str], cpus: Collection[int] | None = None) -> None:
    """Write snapshots to a perf.data file. Raises OutputFailedError."""
    features = Environment().features() | {
        Feature.VERSION: f"perfpy {__version__}",
        Feature.CMDLINE: tuple(command_line),
        Feature.CPU_DOMAIN_INFO: domain_info(snapshots[0]),
    }
    with find_destination(path) as destination:
        writer = FileWriter(path, new_recording(destination)[1])
    try:
        writer.begin([WrittenEvent(EventAttr(type=PerfType.SOFTWARE, config=SoftwareId.DUMMY, sample_id_all=1), ())], {})
        for snapshot in snapshots:
            for record in records_of(snapshot, cpus):
                writer.write(encode(record, NATIVE_ENDIAN))
        writer.finish({number: encode_feature(number, value, NATIVE_ENDIAN) for number, value in features.items()})
    finally:
        writer.close()
