"""`perfpy sched stats`: the scheduler's counters in /proc/schedstat."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import ExitStack
from errno import ENOENT
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.abi.attr import EventAttr
from perfpy.abi.cpu_list import cpu_list_text
from perfpy.abi.flags import NATIVE_ENDIAN, PerfType, RecordType, SoftwareId
from perfpy.abi.perf_records import SCHEDSTAT_DOMAIN_COUNTS, SCHEDSTAT_LONG_COUNTS, SchedstatCpu, SchedstatDomain, encode
from perfpy.capture.session.output import find_destination, new_recording
from perfpy.capture.synthesis import Environment
from perfpy.capture.targets import Workload
from perfpy.cli.line.input_recording import open_recording
from perfpy.cli.line.option_parsing import fail
from perfpy.cli.output.terminal import print_lines
from perfpy.errors import PerfError, UsageError
from perfpy.perfdata.header import CpuDomains, DomainInfo, Feature, SchedDomain, encode_feature, key_of
from perfpy.perfdata.writer import FileWriter, WrittenEvent
from perfpy.tools.sched.options import chosen_cpus, open_sched
from perfpy.untrusted.text import one_line
from perfpy.version import __version__

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from perfpy.perfdata.sample_source import SampleSource
    from perfpy.tools.sched.options import StatsDiffOptions, StatsOptions, StatsRecordOptions


_DEFAULT_FILES = ("perf.data.old", "perf.data")


def show_live(options: StatsRecordOptions) -> int:
    """Run a command, or wait for Ctrl-C, and show the counters."""
    cpus = chosen_cpus(options.cpu)
    snapshots, status = take_snapshots(options.workload)
    records = (record for snapshot in snapshots for record in records_of(snapshot))
    statistics = statistics_of(records, domain_info(snapshots[0]), cpus)
    if not statistics.cpus:
        fail(f"-C {options.cpu}: no statistics of these CPUs")
    _print([statistics], options)
    return status


def record(options: StatsRecordOptions) -> int:
    """Write the counters before and after a command to a file."""
    cpus = chosen_cpus(options.cpu)
    snapshots, status = take_snapshots(options.workload)
    write_snapshots(options.output, snapshots, ["perfpy", *sys.argv[1:]], cpus)
    print(f"[ perf sched stats: Wrote samples to {one_line(options.output)} ]", file=sys.stderr)
    return status


def report(options: StatsOptions) -> int:
    """Show the counters of a file."""
    with open_sched(options) as recording:
        options.dump(recording)
        _print([read_statistics(recording.data, chosen_cpus(options.cpu))], options)
    return 0


def diff(options: StatsDiffOptions) -> int:
    """Show the counters of two files side by side."""
    if len(options.files) > len(_DEFAULT_FILES):
        fail(f"sched stats diff compares two files, not {len(options.files)}")
    files = {0: _DEFAULT_FILES, 1: (_DEFAULT_FILES[0], *options.files), 2: options.files}[len(options.files)]
    with ExitStack() as stack:
        recordings = [stack.enter_context(open_recording(path, force=options.force)) for path in files]
        parts = [read_statistics(recording.data, chosen_cpus(options.cpu)) for recording in recordings]
        if len({part.version for part in parts}) > 1:
            fail(f"{files[0]} and {files[1]} have different versions of the counters; compare recordings of one kernel")
        _print(parts, options)
    return 0


def _print(parts: Sequence[Statistics], options: StatsOptions) -> None:
    print_lines(StatisticsText(parts, with_meanings=bool(options.verbose)).lines())


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

    Meaning of the counters: Documentation/scheduler/sched-stats.rst. perf's rules for averages and the summary were learnt from its
    output.

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
    differences: dict[int, CpuStatistics] = {}
    version = jiffies = 0
    for (cpu, domain), begin in first.items():
        end = last[cpu, domain]
        is_cpu = domain == _CPU
        version, jiffies = begin.version, max(jiffies, end.timestamp - begin.timestamp)
        pairs = enumerate(zip(begin.counts, end.counts, strict=False))
        counts = tuple((new - old) & (_LONG if is_cpu and number >= SCHEDSTAT_LONG_COUNTS else _WORD) for number, (old, new) in pairs)
        if is_cpu:
            differences[cpu] = CpuStatistics(counts, differences[cpu].domains if cpu in differences else {})
        else:
            differences.setdefault(cpu, CpuStatistics((), {})).domains[domain] = counts
    names = {
        (cpu.cpu, domain.domain): DomainName(domain.name or str(domain.domain), domain.cpus)
        for cpu in (info.cpus if info else ())
        for domain in cpu.domains
    }
    differences = {cpu: statistics for cpu, statistics in sorted(differences.items()) if statistics.counts}
    return Statistics(version, jiffies, differences, names)


def _averages(rows: Iterable[Sequence[int]], cpus: int) -> tuple[int, ...]:
    return tuple(sum(column) // cpus for column in zip(*rows, strict=False))


PATH: Final = "/proc/schedstat"
SWITCH: Final = "/proc/sys/kernel/sched_schedstats"
_LARGEST: Final = 256 << 20  # bytes
_CPU_COUNTS: Final = 9
_FIRST_NAMED: Final = 17  # the first version with names of domains
_SCHEDSTAT_WORD: Final = (1 << 32) - 1


class DomainLine(NamedTuple):
    """A line "domainN"; name: "" before version 17; cpus: the numbers in the mask."""

    number: int
    name: str
    mask: str
    cpus: tuple[int, ...]
    counts: tuple[int, ...]


class CpuLine(NamedTuple):
    """A line "cpuN", with the domains below it."""

    cpu: int
    counts: tuple[int, ...]
    domains: tuple[DomainLine, ...]


class Snapshot(NamedTuple):
    """The content of the file; timestamp in jiffies."""

    version: int
    timestamp: int
    cpus: tuple[CpuLine, ...]


def read_schedstat(path: str = PATH) -> Snapshot:
    """Read the counters. Raises PerfError if the kernel has none, or has them in another format."""
    try:
        with open(path, encoding="ascii", errors="surrogateescape") as file:
            text = file.read(_LARGEST)
    except OSError as error:
        reason = "this kernel has no statistics of the scheduler" if error.errno == ENOENT else error.strerror or str(error)
        raise PerfError(f"{path}: {reason}; use a kernel with CONFIG_SCHEDSTATS, or record events (perfpy sched record)") from None
    try:
        return parse_schedstat(text)
    except ValueError as error:
        raise PerfError(f"{path}: {error}; record events instead (perfpy sched record)") from None


def parse_schedstat(text: str) -> Snapshot:
    """Parse the content of the file. Raises ValueError.

    Layout, versions 15 to 17: Documentation/scheduler/sched-stats.rst. Domains follow their CPU; version 17 has their names.

        version 17
        timestamp 4295176789                       jiffies
        cpu0 <9 counters>
        domain0 [NAME] <CPU mask> <36 counters, 45 in version 17>
    """
    lines = [line.split() for line in text.splitlines()]
    heads = {words[0]: words[1] for words in lines[:2] if len(words) == 2}
    if "version" not in heads or "timestamp" not in heads:
        raise ValueError("no version or time in its first lines")
    version, timestamp = int(heads["version"]), int(heads["timestamp"])
    if version not in SCHEDSTAT_DOMAIN_COUNTS:
        first, last = min(SCHEDSTAT_DOMAIN_COUNTS), max(SCHEDSTAT_DOMAIN_COUNTS)
        raise ValueError(f"version {version} of its format is unknown; perfpy reads {first} to {last}")
    cpus: list[CpuLine] = []
    for words in lines[2:]:
        if not words:
            continue
        if words[0].startswith("cpu"):
            counts = tuple(
                int(word) & (_LONG if number >= SCHEDSTAT_LONG_COUNTS else _SCHEDSTAT_WORD) for number, word in enumerate(words[1:])
            )
            cpus.append(CpuLine(int(words[0].removeprefix("cpu")), _exactly(counts, _CPU_COUNTS, words[0]), ()))
        elif words[0].startswith("domain") and cpus:
            cpus[-1] = cpus[-1]._replace(domains=(*cpus[-1].domains, _domain(words, version)))
        else:
            raise ValueError(f"unexpected line {words[0]!r}")
    return Snapshot(version, timestamp, tuple(cpus))


def _domain(words: list[str], version: int) -> DomainLine:
    named = version >= _FIRST_NAMED
    name, rest = (words[1], words[2:]) if named and len(words) > 1 else ("", words[1:])
    if not rest:
        raise ValueError(f"line {words[0]!r} has no CPUs")
    mask = int(rest[0].replace(",", ""), 16)
    cpus = tuple(cpu for cpu in range(mask.bit_length()) if mask >> cpu & 1)
    counts = tuple(int(word) & _SCHEDSTAT_WORD for word in rest[1:])
    counts = _exactly(counts, SCHEDSTAT_DOMAIN_COUNTS[version], words[0])
    return DomainLine(int(words[0].removeprefix("domain")), name, rest[0], cpus, counts)


def _exactly(counts: tuple[int, ...], number: int, line: str) -> tuple[int, ...]:
    if len(counts) != number:
        raise ValueError(f"line {line!r} has {len(counts)} counters, not {number}")
    return counts


class EnabledStatistics:
    """Switches the kernel's statistics on while it is entered, if they are off and may be switched."""

    def __init__(self, path: str = SWITCH) -> None:
        self._path = path
        self._was_off = False

    def __enter__(self) -> EnabledStatistics:
        try:
            with open(self._path) as file:
                self._was_off = file.read(2).strip() == "0"
            if self._was_off:
                self._write("1")
        except OSError:  # not root: the counters of an earlier setting count
            self._was_off = False
        return self

    def __exit__(self, *_: object) -> None:
        if self._was_off:
            self._write("0")

    def _write(self, value: str) -> None:
        fd = os.open(self._path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, value.encode())
        finally:
            os.close(fd)


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


_RULE: Final = "-" * 100
_DESCRIPTION: Final = (
    "Description",
    _RULE,
    "DESC                          -> Description of the field",
    "COUNT                         -> Value of the field",
    "PCT_CHANGE                    -> Percent change with corresponding base value",
    "AVG_JIFFIES                   -> Avg time in jiffies between two consecutive occurrence of event",
    _RULE,
    "",
)
_VERSION_WITH_PARTS: Final = 17  # of /proc/schedstat, which counts imbalances of four kinds
_VERSION_WITH_OTHER_NAME: Final = 16
_OUTCOMES: Final = ("count", "balanced", "pushed")
_SUMMARY: Final = "<ALL CPUS SUMMARY>"


class CounterField(NamedTuple):
    """One counter of a line of /proc/schedstat.

    Attributes:
        name, meaning: its short and its long name.
        base: the number of the counter that it is a share of; -1: none.
        has_interval: whether the time between two events is shown.
    """

    name: str
    meaning: str
    base: int = -1
    has_interval: bool = False


class Category(NamedTuple):
    """The counters of a domain under one title. kind: of load balancing ("busy"), which has two derived rows; "" for others."""

    title: str
    fields: tuple[CounterField, ...]
    kind: str = ""


_CPU_FIELDS: Final = (
    CounterField("yld_count", "sched_yield() count"),
    CounterField("array_exp", "Legacy counter can be ignored"),
    CounterField("sched_count", "schedule() called"),
    CounterField("sched_goidle", "schedule() left the processor idle", base=2),
    CounterField("ttwu_count", "try_to_wake_up() was called"),
    CounterField("ttwu_local", "try_to_wake_up() was called to wake up the local cpu", base=4),
    CounterField("rq_cpu_time", "total runtime by tasks on this processor (in jiffies)"),
    CounterField("run_delay", "total waittime by tasks on this processor (in jiffies)", base=6),
    CounterField("pcount", "total timeslices run on this cpu"),
)
_KINDS: Final = {"busy": "cpu busy", "idle": "cpu idle", "newidle": "cpu newly idle"}
_ORDERS: Final = {15: ("idle", "busy", "newidle"), 16: ("busy", "idle", "newidle"), 17: ("busy", "idle", "newidle")}
_IMBALANCES: Final = (
    ("load", "imbalance in load"),
    ("util", "imbalance in utilization"),
    ("task", "imbalance in number of tasks"),
    ("misfit", "imbalance in misfit tasks"),
)


def _balancing(kind: str, version: int) -> Category:
    where = f" on {_KINDS[kind]}"
    head = f"{kind}_lb_"
    imbalances = [(f"_{name}", meaning) for name, meaning in _IMBALANCES] if version == _VERSION_WITH_PARTS else [("", "imbalance sum")]
    fields = (
        CounterField(head + "count", "load_balance() count" + where, has_interval=True),
        CounterField(head + "balanced", "load_balance() found balanced" + where, has_interval=True),
        CounterField(head + "failed", "load_balance() move task failed" + where, has_interval=True),
        *(CounterField(f"{head}imbalance{name}", meaning + where) for name, meaning in imbalances),
        CounterField(head + "gained", "pull_task() count" + where),
        CounterField(head + "hot_gained", "pull_task() when target task was cache-hot" + where),
        CounterField(head + "nobusyq", "load_balance() failed to find busier queue" + where, has_interval=True),
        CounterField(head + "nobusyg", "load_balance() failed to find busier group" + where, has_interval=True),
    )
    return Category(f"<Category {kind}>", fields, kind)


def categories_of(version: int) -> list[Category]:
    """Return the counters of a domain, in the order of the file."""
    unused = [
        Category(
            f"<Category sched_balance_{call}()>", tuple(CounterField(f"{name}_{one}", f"{name}_{one} is not used") for one in _OUTCOMES)
        )
        for call, name in (("exec", "sbe"), ("fork", "sbf"))
    ]
    return [
        *(_balancing(kind, version) for kind in _ORDERS[version]),
        Category(
            "<Category active_load_balance()>",
            (
                CounterField("alb_count", "active_load_balance() count"),
                CounterField("alb_failed", "active_load_balance() move task failed"),
                CounterField("alb_pushed", "active_load_balance() successfully moved a task"),
            ),
        ),
        *unused,
        Category(
            "<Wakeup Info>",
            (
                CounterField("ttwu_wake_remote", "try_to_wake_up() awoke a task that last ran on a diff cpu"),
                CounterField("ttwu_move_affine", "try_to_wake_up() moved task because cache-cold on own cpu"),
                CounterField("ttwu_move_balance", "try_to_wake_up() started passive balancing"),
            ),
        ),
    ]


class StatisticsText:
    """Formats one recording, or two side by side.

    The text is perf 7.3's, byte for byte. perf computes the averages of `diff` in single precision, and may show the change of equal ones
    as -0.00 %.

    Args:
        parts: one or two.
        with_meanings: whether rows have the long names of counters (-v).
    """

    def __init__(self, parts: Sequence[Statistics], *, with_meanings: bool = False) -> None:
        self._parts = parts
        self._with_meanings = with_meanings

    def lines(self) -> Iterator[str]:
        """Yield the lines: the summary, and of one recording each CPU."""
        yield from _DESCRIPTION
        times = ",".join(f" {part.jiffies:>11}" if not number else f"{part.jiffies:>11}" for number, part in enumerate(self._parts))
        yield f"{'Time elapsed (in jiffies)':<65}:{times}"
        summaries = [part.summary() for part in self._parts]
        yield from self._cpu_lines(_SUMMARY, [summary.counts for summary in summaries])
        first = self._parts[0]
        for number in summaries[0].domains:
            title = f"CPU: {_SUMMARY} | DOMAIN: {one_line(first.summary_name(number))}"
            yield from self._domain_lines(title, [summary.domains.get(number, ()) for summary in summaries])
        yield _RULE
        for cpu, statistics in first.cpus.items() if len(self._parts) == 1 else ():
            yield from self._cpu_lines(str(cpu), [statistics.counts])
            for number, counts in statistics.domains.items():
                name = first.names.get((cpu, number))
                domain = f"{one_line(name.name)} | DOMAIN_CPUS: {one_line(name.cpus)}" if name else str(number)
                yield from self._domain_lines(f"CPU: {cpu} | DOMAIN: {domain}", [counts])
            yield _RULE

    def _head(self, title: str, column: str, width: int) -> Iterator[str]:
        yield from (_RULE, title, _RULE)
        if len(self._parts) == 1:
            yield f"{'DESC':<65} {'COUNT':>12}  {column:>{width}}"
        else:
            yield f"{'DESC':<65} {'COUNT1':>12}{'COUNT2':>12}  {'PCT_CHANGE':>11}  {column + '1':>{width + 2}} {column + '2'}"

    def _cpu_lines(self, cpu: str, counts: Sequence[Sequence[int]]) -> Iterator[str]:
        yield from self._head(f"CPU: {cpu}", "PCT_CHANGE", 11)
        yield _RULE
        for number, field in enumerate(_CPU_FIELDS):
            shares = [_share(row, number, field.base) for row in counts] if field.base >= 0 else []
            yield self._row(field, [_count_at(row, number) for row in counts], shares=shares)

    def _domain_lines(self, title: str, counts: Sequence[Sequence[int]]) -> Iterator[str]:
        yield from self._head(title, "AVG_JIFFIES", 13)
        begin = 0
        version = self._parts[0].version
        for category in categories_of(version):
            yield f"{' ' + category.title + ' ':-^100}"
            values = [[_count_at(row, begin + number) for number in range(len(category.fields))] for row in counts]
            for number, field in enumerate(category.fields):
                column = [row[number] for row in values]
                intervals = [part.jiffies / value if value else 0.0 for part, value in zip(self._parts, column, strict=True)]
                yield self._row(field, column, intervals=intervals if field.has_interval else [])
            if category.kind:
                yield from self._derived(category, values, version)
            begin += len(category.fields)

    def _derived(self, category: Category, values: Sequence[Sequence[int]], version: int) -> Iterator[str]:
        """Yield the successful attempts, and the tasks that each of them pulled."""
        kind, cpu_state = category.kind, _KINDS[category.kind]
        gained = next(number for number, field in enumerate(category.fields) if field.name.endswith("_lb_gained"))
        successes = [(row[0] - row[1] - row[2]) & _WORD for row in values]
        pulled = [row[gained] / success if success else 0.0 for row, success in zip(values, successes, strict=True)]
        # perf calls one row of this version differently.
        average = "avg_count" if version == _VERSION_WITH_OTHER_NAME and kind == "newidle" else "avg_pulled"
        yield self._row(CounterField(f"*{kind}_lb_success_count", f"*load_balance() success count on {cpu_state}"), successes)
        yield self._row(CounterField(f"*{kind}_lb_{average}", f"*avg task pulled per successful lb attempt ({cpu_state})"), pulled)

    def _row(
        self, field: CounterField, values: Sequence[int] | Sequence[float], *, shares: Sequence[float] = (), intervals: Sequence[float] = ()
    ) -> str:
        name = field.meaning if self._with_meanings else field.name
        texts = [f"{value:.2f}" if isinstance(value, float) else str(value) for value in values]
        line = f"{name:<65}: " + ",".join(f"{text:>11}" for text in texts)
        if len(values) > 1:
            line += f"  | {_change(*values):8.2f}% |"
        if shares:
            line += "  ( " + ",  ".join(f"{share:8.2f}%" for share in shares) + " )"
        if intervals:
            line += "  $ " + ", ".join(f"{interval:11.2f}" for interval in intervals) + " $"
        return line


def _count_at(row: Sequence[int], number: int) -> int:
    return row[number] if number < len(row) else 0


def _share(row: Sequence[int], number: int, base: int) -> float:
    return 100 * _count_at(row, number) / _count_at(row, base) if _count_at(row, base) else 0.0


def _change(old: float, new: float) -> float:
    return 100 * (new - old) / old if old else 0.0
