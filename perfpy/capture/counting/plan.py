"""Plan: what a measurement does, as one immutable value. perfpy.capture.counting.measurement runs it."""

from __future__ import annotations

from perfpy.abi.startup import NamedTuple
from perfpy.capture.counting.counters import ANY, CountingOptions
from perfpy.counts.aggregation import Grouping

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Final

    from perfpy.capture.targets import Target
    from perfpy.counts.metrics import Metric
    from perfpy.events.event import Event


def one_package(_cpu: int) -> int:
    """Map every CPU to one package."""
    return 0


_NO_FDS: Final[Mapping[str, int]] = {}
_NO_METRICS: Final[Mapping[Event, Sequence[Metric]]] = {}


class Plan(NamedTuple):
    """The plan of a measurement; times are in ms, 0 for none.

    Attributes:
        command: the program; () for none.
        target: the tasks and CPUs.
        grouping: how counts are added.
        package_of: CPU -> package, for events that count once for each package.
        metrics: the metrics to compute, by the event that they are shown with.
        delay: before counting starts (-1: wait for --control).
        repeat: the number of runs; 0 until interrupted.
        interval, interval_count, timeout: as in perf-stat(1).
        summary: print a result after the intervals.
        scale: estimate what multiplexed counters missed.
        before, after: shell commands around each run.
        sync: call sync(2) before each run.
    """

    events: Sequence[Event]
    target: Target
    command: Sequence[str] = ()
    options: CountingOptions = CountingOptions()
    grouping: Grouping = Grouping.everything()
    package_of: Callable[[int], int] = one_package
    cgroup_fds: Mapping[str, int] = _NO_FDS
    metrics: Mapping[Event, Sequence[Metric]] = _NO_METRICS
    default_set: bool = False
    hides_zeros: bool = False
    delay: int = 0
    repeat: int = 1
    interval: int = 0
    interval_count: int = 0
    timeout: int = 0
    summary: bool = False
    scale: bool = True
    before: str = ""
    after: str = ""
    sync: bool = False

    @property
    def tids(self) -> Sequence[int]:
        """The tasks to open counters on; a command's is not known yet."""
        return self.target.tids or (ANY,)

    @property
    def cpus(self) -> Sequence[int]:
        """The CPUs to open counters on."""
        return (ANY,) if self.target.has_tasks else self.target.cpus

    @property
    def counting_options(self) -> CountingOptions:
        """The options for counting. A command without a delay counts from its exec on. Threads that options do not name may end early."""
        kind = self.target.kind
        return self.options._replace(on_exec=kind == "command" and not self.delay, skip_missing=kind in ("pid", "user", "threads"))
