"""The text of `sched stats`, byte for byte perf 7.3's.

perf computes the averages of `diff` in single precision, and may show the change of equal ones as -0.00 %.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.untrusted.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perfpy.analysis.sched.statistics import Statistics

_RULE: Final = "-" * 100
_WORD: Final = 0xFFFFFFFF
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
