"""The numbers of an interval, and perf top's header line."""

from __future__ import annotations

from typing import Final, NamedTuple

from perfpy.plurals import plural

#: the measure of a row's period in the last interval (perfpy.analysis.aggregate.profile.Folded)
WINDOW: Final = "window"
_RULE: Final = 79  # columns


class Rates(NamedTuple):
    """The numbers of an interval.

    Attributes:
        seconds: its length.
        samples: in it.
        kernel, exact: samples in the kernel; samples with the exact address.
        lost, total_lost: samples and records that did not fit in the ring buffers, in the interval and since the start.
        dropped, total_dropped: samples that had to wait for an update and did not fit in memory.
    """

    seconds: float
    samples: int
    kernel: int
    exact: int
    lost: int
    total_lost: int
    dropped: int = 0
    total_dropped: int = 0

    def share(self, part: int) -> float:
        """Return the percentage of the samples."""
        return 100.0 * part / self.samples if self.samples else 0.0

    @property
    def warning(self) -> str:
        """A sentence on the samples of the interval that were skipped; "" without any."""
        count = self.dropped
        return f"{count} {plural(count, 'sample was', 'samples were')} skipped: this machine is too busy" if count else ""


class Subject(NamedTuple):
    """The event that a live view measures.

    Attributes:
        event: the name of the first event.
        pace: the frequency in Hz or the period of its attr.
        is_frequency: whether perf writes Hz: without -c, whatever the event's own terms are.
        is_alone: whether there is one event.
        pid, tid, user: as given.
        cpus: the text of the CPU list, "" for all.
        cpu_count: the number of CPUs.
    """

    event: str
    pace: int
    is_frequency: bool
    is_alone: bool
    pid: str
    tid: str
    user: str
    cpus: str
    cpu_count: int


def header_lines(rates: Rates, subject: Subject) -> list[str]:
    """Return perf top's lines above the table."""
    numbers = (
        f"   PerfTop:{rates.samples / rates.seconds:8.0f} irqs/sec  kernel:{rates.share(rates.kernel):4.1f}%"
        f"  exact: {rates.share(rates.exact):4.1f}% lost: {rates.lost}/{rates.total_lost} drop: {rates.dropped}/{rates.total_dropped} "
    )
    return [numbers + _sampling(subject) + _target(subject), "-" * _RULE, ""]


def _sampling(subject: Subject) -> str:
    pace = f"{subject.pace}{'Hz' if subject.is_frequency else ''} " if subject.is_alone else ""
    return f"[{pace}{subject.event}], "


def _target(subject: Subject) -> str:
    if subject.pid or subject.tid:
        return f" (target_pid: {subject.pid})" if subject.pid else f" (target_tid: {subject.tid})"
    tasks = f" (uid: {subject.user}" if subject.user else " (all"
    if subject.cpus:
        return f"{tasks}, CPU{'s' if ',' in subject.cpus or '-' in subject.cpus else ''}: {subject.cpus})"
    return f"{tasks}, {subject.cpu_count} {plural(subject.cpu_count, 'CPU')})"
