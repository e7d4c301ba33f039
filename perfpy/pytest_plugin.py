"""perfpy's plugin for pytest: tests that state what they may cost.

    @pytest.mark.perf_budget("instructions:u", at_most=2_000_000)
    def test_it_stays_cheap(): ...

    @pytest.mark.perf_budget("instructions:u")  # as the baseline: pytest --perf-update writes it
    def test_it_stays_as_cheap(): ...

    def test_a_part_of_it(perf_counters):
        with perf_counters("task-clock") as counts:
            work()
        assert counts["task-clock"].amount < 5

A test that costs too much fails. Without the counter on this machine it is skipped with the reason. A table follows at the end of the
session.

    pytest --perfpy

records the session and ends with the slowest tests, fixtures and imports: how long each took, and in which line its time went.

pytest loads the plugin in every session if perfpy is installed, so the first test that counts imports the counters.
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import re
import sys
import threading
import time
from collections import Counter
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import pytest

from perfpy.capture.region import Region
from perfpy.counts.aggregation import median
from perfpy.counts.comparison import HIGHER, LOWER, compare_amounts
from perfpy.errors import KernelRefusedError, PerfError, UnknownEventError, UsageError, plural
from perfpy.kernel.cpus import cpu_identity
from perfpy.untrusted.destinations import write_whole
from perfpy.untrusted.files import read_named
from perfpy.untrusted.text import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from perfpy.analysis.report.tables import Histogram
    from perfpy.counts.named_counts import Count
    from perfpy.profiling import Profiler
    from perfpy.recording import Recording


MARKER: Final = "perf_budget"
_ROW: Final = "perfpy"
_DEFAULT_FILE: Final = "perf-baselines.json"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the command line options and the setting."""
    group = parser.getgroup("perfpy", "tests that state what they may cost")
    group.addoption("--perf-update", action="store_true", help="make what tests with perf_budget cost now their baseline")
    group.addoption("--perf-baselines", metavar="FILE", help=f"the file of baselines (setting perf_baselines, or {_DEFAULT_FILE})")
    group.addoption("--perfpy", action="store_true", help="record the session; name slow tests, fixtures and imports with their hot lines")
    group.addoption("--perfpy-slowest", metavar="N", type=int, default=10, help="with --perfpy: how many (default: 10)")
    group.addoption("--perfpy-page", metavar="FILE", help="with --perfpy: also write the session's page (HTML)")
    parser.addini("perf_baselines", "the file of baselines, relative to the root folder", default=_DEFAULT_FILE)


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker and the session's table."""
    words = "what the test may cost at most, or as its baseline; counted over `repeat` runs, `tolerance` is a part of the baseline"
    config.addinivalue_line("markers", f"{MARKER}(event, at_most=None, repeat=1 or 5, tolerance=0.05): {words}")
    config.pluginmanager.register(BudgetSession(config), "perfpy budgets")
    if config.getoption("--perfpy"):
        config.pluginmanager.register(SlowParts(config), "perfpy slow parts")


@pytest.fixture
def perf_counters(request: pytest.FixtureRequest) -> Callable[..., AbstractContextManager[Region]]:
    """Return a context manager that counts a part of a test, with the arguments of perfpy.count.

        with perf_counters("page-faults:u") as counts: ...

    The test is skipped with the reason if the machine does not count an event. The counts appear in the final table.
    """

    @contextmanager
    def counted(*events: str, **how: Any) -> Iterator[Region]:
        with ExitStack() as stack:
            try:
                region = stack.enter_context(Region(*events, **how))
            except (UnknownEventError, KernelRefusedError) as reason:
                pytest.skip(str(reason))
            if region.why_not:
                pytest.skip(", ".join(region.why_not.values()))
            yield region
        for count in region.values():
            request.node.user_properties.append((_ROW, [count.event, count.unit, [count.amount or 0.0], "", count.why_not]))

    return counted


class BudgetSession:
    """The budgets of one session: its baselines, and the rows of its table."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._baselines: Baselines | None = None
        self._rows: list[tuple[str, list[Any]]] = []
        self._written = 0
        self._failure = ""

    @property
    def baselines(self) -> Baselines:
        """The baselines of the file, read on first use."""
        if self._baselines is None:
            file_name = self._config.getoption("--perf-baselines") or self._config.getini("perf_baselines")
            self._baselines = Baselines(str(self._config.rootpath / file_name))
        return self._baselines

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Count a test with budgets while it runs, and judge it."""
        markers = list(item.iter_markers(MARKER))[::-1]  # in source order
        if not markers or not isinstance(item, pytest.Function):
            return (yield)
        measured, budgets = self._prepare(item, markers)
        if measured.why_not:
            pytest.skip(measured.why_not)
        function, item.obj = item.obj, measured.as_function()
        try:
            result = yield
        finally:
            item.obj = function
        self._judge(item, budgets, measured.costs())
        return result

    def _prepare(self, item: pytest.Function, markers: list[pytest.Mark]) -> tuple[MeasuredTest, list[Budget]]:
        try:
            if inspect.iscoroutinefunction(item.obj):
                raise UsageError("only functions are counted, not coroutines; use the fixture perf_counters")
            budgets = [budget(*marker.args, **marker.kwargs) for marker in markers]
            return MeasuredTest(item.obj, budgets), budgets
        except (UnknownEventError, KernelRefusedError) as reason:
            reason_to_skip, failure = str(reason), ""
        except (TypeError, PerfError) as error:
            text = str(error).replace("budget()", MARKER)
            reason_to_skip, failure = "", text if text.startswith(MARKER) else f"{MARKER}: {text}"
        if failure:  # outside of the handler, whose error pytest would print, too
            pytest.fail(failure, pytrace=False)
        pytest.skip(reason_to_skip)

    def _judge(self, item: pytest.Item, budgets: list[Budget], costs: list[Cost]) -> None:
        try:
            baselines = self.baselines  # also before new ones replace them at the end of the session
        except PerfError as error:
            failure = str(error)
        else:
            failure = ""
        if failure:  # outside of the handler, whose error pytest would print, too
            pytest.fail(failure, pytrace=False)
        cost_of = {cost.event: cost for cost in costs}
        complaints = []
        for budget in budgets:
            cost = cost_of[budget.event]
            if cost.why_not:
                continue
            baseline = None if self._config.getoption("--perf-update") else baselines.of(item.nodeid, budget.event)
            verdict = judge(budget, cost.amounts, cost.unit, baseline)
            item.user_properties.append((_ROW, [budget.event, cost.unit, cost.amounts, verdict.allowed, verdict.complaint]))
            complaints += [verdict.complaint] if verdict.complaint else []
        if complaints:
            pytest.fail("\n".join(complaints), pytrace=False)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect a test's costs. With several processes, the printing one receives the report."""
        if report.when == "call":
            self._rows += [(report.nodeid, list(row)) for name, row in report.user_properties if name == _ROW and isinstance(row, list)]

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the new baselines, except in worker processes. A failure is one line, and the exit status of a wrong usage."""
        if not self._config.getoption("--perf-update") or hasattr(self._config, "workerinput"):
            return

        new = [(test, event, amounts) for test, (event, _, amounts, allowed, _complaint) in self._rows if allowed == NEW_BASELINE]
        try:
            for row in new:
                self.baselines.take(*row)
            self._written = self.baselines.write() if new else 0
        except (PerfError, OSError) as error:
            self._failure = f"perfpy: no baselines written: {one_line(str(error))}"
            session.exitstatus = pytest.ExitCode.USAGE_ERROR

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the table of costs."""
        if self._failure:
            terminalreporter.write_line(self._failure, red=True)
        if not self._rows:
            return
        terminalreporter.section("what tests cost")
        for line in table(self._rows):
            terminalreporter.write_line(line)
        if self._written:
            terminalreporter.write_line(f"baselines of {self._written} {plural(self._written, 'test')} written")


class SlowParts:
    """The recording of a session, and the times of its tests and fixtures (--perfpy).

    With several processes (pytest-xdist), the printing one records all, and receives the times with the reports.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._parts: list[SlowPart] = []
        self._begin = time.monotonic()
        self._imports: list[list[Any]] = []
        self._profiler: Profiler | None = None
        self._lines: list[str] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Start the recording."""
        if hasattr(self._config, "workerinput"):
            return
        from perfpy.profiling import Profiler  # only with --perfpy

        self._begin = time.monotonic()
        options = ["--python", "--off-cpu", "-F", _SESSION_FREQUENCY]
        self._profiler = Profiler(None, options, None, python=True)
        try:
            self._profiler.start()
        except PerfError as error:
            self._profiler = None
            self._lines = [f"no recording: {one_line(str(error))}"]

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any], request: Any) -> Generator[None, object, object]:
        """Time a fixture; fixtures that it uses have been set up before."""
        setup = _SETUP.fullmatch(fixturedef.argname)  # pytest's own fixture for a function such as setup_method
        kind = setup[1] if setup else f"fixture {fixturedef.argname}"
        with self._timed(request._pyfuncitem, kind, fixturedef.baseid):  # noqa: SLF001  # request.node is that of the scope
            return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Time a test without its fixtures."""
        with self._timed(item, "test"):
            return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, object, object]:
        """Time the ends of a test's fixtures."""
        with self._timed(item, "teardown"):
            return (yield)

    @contextmanager
    def _timed(self, item: pytest.Item, kind: str, scope: str = "") -> Iterator[None]:
        begin = time.monotonic()
        try:
            yield
        finally:
            item.user_properties.append((_PART, [item.nodeid, kind, begin, time.monotonic(), threading.get_native_id(), scope]))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Generator[None, object, object]:
        """Time the import of a module of tests."""
        begin = time.monotonic()
        try:
            return (yield)
        finally:
            if isinstance(collector, pytest.Module):
                self._imports.append([collector.nodeid, "import", begin, time.monotonic(), threading.get_native_id()])

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Let the first test report the imports, also from a worker process."""
        if session.items:
            session.items[0].user_properties += [(_PART, row) for row in self._imports]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect the times of a test."""
        if report.when == "teardown":  # its report has the properties of all phases
            rows = [row for name, row in report.user_properties if name == _PART and isinstance(row, list)]
            self._parts += [SlowPart(*row) for row in rows]

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """End the recording, and find the lines."""
        profiler, self._profiler = self._profiler, None
        if profiler is None:
            return
        end = time.monotonic()
        try:
            profiler.stop()
            with profiler.open() as recording:
                shown = slowest_parts(self._parts)[: self._config.getoption("--perfpy-slowest")]
                self._lines = [*lines_of_parts(shown, recording), *line_of_rest(self._parts, shown, self._begin, end)]
                if page := self._config.getoption("--perfpy-page"):
                    recording.flamegraph(page)
                    self._lines.append(f"page of the session: {page}")
        except (PerfError, OSError) as error:
            self._lines.append(f"recording failed: {one_line(str(error))}")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the slowest parts."""
        if self._lines:
            terminalreporter.section("slowest tests and fixtures")
            for line in self._lines:
                terminalreporter.write_line(line)


_PART: Final = "perfpy part"
_SESSION_FREQUENCY: Final = "199"  # Hz: sessions take long
_SETUP: Final = re.compile(r"_(?:xunit|unittest)_(set[uU]p_?[A-Za-z]+)_fixture_.*")
_SHORTEST: Final = 0.01  # seconds; shorter parts would be shown as 0.00 s
_WORTH_A_LINE: Final = 0.02  # seconds; a shorter part has few samples
_ENOUGH: Final = 5  # samples of CPU time for a share of them
_MOST_RANGES: Final = 256  # of times that samples are selected by
_MOST_OF_TIME: Final = 0.5  # of a part's, for its waits
_OF_FEW_SAMPLES: Final = "Only "  # the sentence about them


class SlowPart(NamedTuple):
    """A test, a fixture's beginning, the end of a test's fixtures, or the import of a module of tests.

    Attributes:
        test: the id of the test or module.
        kind: "test", "import", "fixture NAME", "setup_method" or one of its kind, or "teardown".
        begin, end: CLOCK_MONOTONIC, seconds.
        tid: of its thread.
        scope: where a fixture is defined.
    """

    test: str
    kind: str
    begin: float
    end: float
    tid: int
    scope: str = ""

    @property
    def seconds(self) -> float:
        """Its duration."""
        return self.end - self.begin


class EqualParts(NamedTuple):
    """One part, or all beginnings of a fixture, the longest first."""

    parts: tuple[SlowPart, ...]

    @property
    def seconds(self) -> float:
        """Their duration."""
        return sum(part.seconds for part in self.parts)

    def line(self) -> str:
        """Return the duration and the name."""
        first, *others = self.parts
        longest = f"{len(self.parts)} times, longest for {first.test} ({first.seconds:.2f} s)" if others else first.test
        return f"{self.seconds:8.2f} s  {first.kind:20}  {longest}"

    def samples(self, recording: Recording) -> Recording:
        """Return the recording, restricted to the samples of these parts; of several worker processes to those of the busiest."""
        times: Counter[int] = Counter()
        for part in self.parts:
            times[part.tid] += round(part.seconds * 1e9)
        tid = times.most_common(1)[0][0]
        chosen = [(part.begin, part.end) for part in self.parts if part.tid == tid][:_MOST_RANGES]
        return recording.where(time=" ".join(f"{begin:.6f},{end:.6f}" for begin, end in sorted(chosen)), tid=tid)


def slowest_parts(parts: Iterable[SlowPart]) -> list[EqualParts]:
    """Return the parts that take long, slowest first. All beginnings of a fixture, or of setup_method() and its kind, are one."""
    groups: dict[object, list[SlowPart]] = {}
    for part in parts:
        is_alone = part.kind in ("test", "import", "teardown")
        groups.setdefault(part if is_alone else (part.kind, part.scope), []).append(part)
    joined = [EqualParts(tuple(sorted(group, key=lambda part: -part.seconds))) for group in groups.values()]
    return sorted((one for one in joined if one.seconds >= _SHORTEST), key=lambda one: -one.seconds)


def lines_of_parts(parts: Sequence[EqualParts], recording: Recording) -> Iterator[str]:
    """Yield the duration and name of each part, and where its time went by the session's recording."""
    from perfpy.analysis.filters import SampleFilter  # only with --perfpy
    from perfpy.views.verdict.profile import verdicts_of_parts

    worth = [part for part in parts if part.seconds >= _WORTH_A_LINE]
    filters = [part.samples(recording).sample_filter or SampleFilter() for part in worth]
    verdicts = dict(zip(worth, verdicts_of_parts(recording, filters), strict=True))
    for part in parts:
        yield part.line()
        sentences = [one.text for one in verdicts.get(part, ()) if not one.text.startswith(_OF_FEW_SAMPLES)]
        if part in verdicts and not sentences:  # a short wait
            report = part.samples(recording).report(by=["pyline"])
            first = next((one for one in report.histograms if one.leader.samples), None)
            rows = report.top(1) if first is not None and _tells_enough(first, part.seconds) else ()
            sentences = [f"{row.percent:.0f} % of its samples are in {row.texts['pyline']}" for row in rows]
        yield from (f"{'':12}{one_line(sentence)}" for sentence in sentences[:2])


def line_of_rest(parts: Iterable[SlowPart], shown: Iterable[EqualParts], begin: float, end: float) -> Iterator[str]:
    """Yield a line on the time of a session that none of the shown parts covers, if there is any; begin, end: of the session."""
    rest = end - begin - _covered((part for row in shown for part in row.parts), begin, end)
    outside = end - begin - _covered(parts, begin, end)
    if rest >= _SHORTEST:
        where = f"{rest - outside:.2f} s in further tests, fixtures and imports, {outside:.2f} s outside of them"
        if rest - outside < _SHORTEST:
            where = "outside of tests, fixtures and imports"
        yield f"{rest:8.2f} s  {'in no row above':20}  of the session's {end - begin:.2f} s: {where}"


def _covered(parts: Iterable[SlowPart], begin: float, end: float) -> float:
    """Return for how long at least one of these parts ran, within a time: a fixture may start others, and workers run at once."""
    total, reached = 0.0, begin
    for part in sorted(parts, key=lambda one: one.begin):
        total += max(min(part.end, end) - max(part.begin, reached), 0.0)
        reached = max(reached, min(part.end, end))
    return total


def _tells_enough(histogram: Histogram, seconds: float) -> bool:
    """Whether a share of these samples tells about a part: there are several, or they are waits for most of its time."""
    from perfpy.analysis.sample_view import is_off_cpu

    if is_off_cpu(histogram.leader.event):
        return histogram.total() / 1e9 >= _MOST_OF_TIME * seconds
    return histogram.leader.samples >= _ENOUGH


def table(rows: list[tuple[str, list[Any]]]) -> list[str]:
    """Return the lines of the table, one per test and event."""
    cells = [("test", "event", "cost", "runs", "allowed")]
    for test, (event, unit, amounts, allowed, complaint) in rows:
        cells.append(
            (test, event, format_amount(median(amounts), unit), str(len(amounts)), f"{allowed}{': too much' if complaint else ''}")
        )
    wide = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        f"{test:<{wide[0]}}  {event:<{wide[1]}}  {cost:>{wide[2]}}  {runs:>{wide[3]}}  {allowed}".rstrip()
        for test, event, cost, runs, allowed in cells
    ]


_LARGEST: Final = 64 << 20
Amounts: TypeAlias = "dict[str, dict[str, list[float]]]"


def this_machine() -> str:
    """Return the name of the environment that counts depend on: the CPU and the Python version."""
    python = f"{sys.implementation.name}-{sys.version_info[0]}.{sys.version_info[1]}"
    return " ".join(filter(None, (os.uname().machine, cpu_identity(), python)))


class Baselines:
    """The baselines of this machine. New ones are stored by write().

    The baselines are costs at an earlier time, in a JSON file beside the tests: {machine: {test: {event: [amount of each run, ...]}}}.
    Only entries of similar machines count.
    """

    def __init__(self, path: str, machine: str = "") -> None:
        self._path = path
        self._machine = machine or this_machine()
        self._all = _read(path)
        self._new: Amounts = {}

    def of(self, test: str, event: str) -> list[float]:
        """Return the amounts of a test's baseline runs, empty without a baseline."""
        return self._all.get(self._machine, {}).get(test, {}).get(event, [])

    def take(self, test: str, event: str, amounts: Sequence[float]) -> None:
        """Make these runs the baseline."""
        self._new.setdefault(test, {})[event] = list(amounts)

    def write(self) -> int:
        """Write new baselines to the file; return the number of tests. Other tests and machines keep theirs."""
        if self._new:
            self._all.setdefault(self._machine, {}).update(self._new)
            write_whole(self._path, f"{json.dumps(self._all, indent=1, sort_keys=True)}\n".encode())
        return len(self._new)


def _read(path: str) -> dict[str, Amounts]:
    try:
        content = json.loads(read_named(path, limit=_LARGEST))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{path}: cannot read the baselines of tests: {error}") from None
    if not _is_well_formed(content):
        raise UsageError(f"{path}: no baselines; expected machine, test and event with a list of numbers")
    machines: dict[str, Amounts] = content
    return machines


def _is_well_formed(content: object) -> bool:
    layer = [content]
    for _ in range(3):
        if not all(isinstance(value, dict) for value in layer):
            return False
        layer = [inner for value in layer if isinstance(value, dict) for inner in value.values()]
    return all(isinstance(value, list) and all(isinstance(number, int | float) for number in value) for value in layer)


#: runs for a comparison with a baseline; fewer would show no significant change
RUNS_TO_COMPARE: Final = 5
TOLERANCE: Final = 0.05
_SMALL: Final = 0.1  # below, two decimals say little
_FAULTS: Final = re.compile(r"(?:^|[/=])(?:page-|minor-|major-)?faults\b|page_fault")
#: the limit shown for runs that become the baseline
NEW_BASELINE: Final = "the new baseline"


class Budget(NamedTuple):
    """The limit of one event in a test.

    Attributes:
        event: in the syntax of -e.
        at_most: in the printed unit (task-clock: msec); None: compare with the baseline.
        repeat: number of counted runs.
        tolerance: accepted increase over the baseline, as a fraction.
    """

    event: str
    at_most: float | None = None
    repeat: int = RUNS_TO_COMPARE
    tolerance: float = TOLERANCE


class Verdict(NamedTuple):
    """The result of a test against a budget.

    Attributes:
        amount: the median of the runs.
        allowed: a text with the limit.
        complaint: why the amount is too high, "" if it is not.
    """

    amount: float
    allowed: str
    complaint: str = ""


def budget(event: str, *, at_most: float | None = None, repeat: int | None = None, tolerance: float = TOLERANCE) -> Budget:
    """Return the budget of a marker's arguments. Raises UsageError."""
    if repeat is None:
        repeat = RUNS_TO_COMPARE if at_most is None else 1
    for name, value in (("at_most", at_most), ("repeat", repeat), ("tolerance", tolerance)):
        if value is not None and not isinstance(value, (int, float)):
            raise UsageError(f"perf_budget('{event}'): {name} is a number, in the unit in which the event is printed; not {value!r}")
    if repeat < 1 or tolerance < 0 or (at_most is not None and at_most < 0):
        raise UsageError(f"perf_budget('{event}'): at_most and tolerance are 0 or more, and repeat is at least 1")
    if at_most is None and _FAULTS.search(event):
        raise UsageError(
            f"perf_budget('{event}'): no baseline for page faults, because later runs reuse the memory of the first; set at_most"
        )
    return Budget(event, at_most, repeat, tolerance)


def judge(budget: Budget, amounts: Sequence[float], unit: str, baseline: Sequence[float] | None) -> Verdict:
    """Judge runs by a budget.

    `baseline`: the earlier runs, () without a baseline; None: these runs become the baseline.
    """
    amount = median(amounts)
    if budget.at_most is not None:
        allowed = f"at most {format_amount(budget.at_most, unit)}"
        if amount <= budget.at_most:
            return Verdict(amount, allowed)
        return Verdict(
            amount, allowed, f"{budget.event} is {format_amount(amount, unit)}{_describe_runs(amounts, unit)}, {allowed} is allowed"
        )
    if baseline is None:
        return Verdict(amount, NEW_BASELINE)
    if not baseline:
        return Verdict(amount, "no baseline yet")
    return _compare_with_baseline(budget, amounts, unit, baseline)


def _compare_with_baseline(budget: Budget, amounts: Sequence[float], unit: str, baseline: Sequence[float]) -> Verdict:
    comparison = compare_amounts(budget.event, unit, baseline, amounts, least_change=budget.tolerance)
    before = format_amount(comparison.a.median, unit)
    if comparison.verdict == LOWER:
        return Verdict(comparison.b.median, f"as {before}, now less")
    if comparison.verdict != HIGHER:
        return Verdict(comparison.b.median, f"as {before}")
    increase = "" if comparison.change.estimate is None else f"{comparison.change.estimate:.1%} "
    now = f"{format_amount(comparison.b.median, unit)}{_describe_runs(amounts, unit)} against {before}{_describe_runs(baseline, unit)}"
    complaint = f"{budget.event} is {increase}higher than its baseline: {now}; --perf-update makes this the baseline"
    return Verdict(comparison.b.median, f"as {before}", complaint)


def _describe_runs(amounts: Sequence[float], unit: str) -> str:
    if len(amounts) < 2:
        return ""
    return f" ({len(amounts)} runs, {format_amount(min(amounts), unit)} to {format_amount(max(amounts), unit)})"


def format_amount(amount: float, unit: str) -> str:
    """Format an amount for the table; small ones with three significant digits."""
    usual = f"{amount:,.2f}" if unit else f"{amount:,.0f}"
    number = f"{amount:.3g}" if 0 < abs(amount) < (_SMALL if unit else 1) else usual
    return f"{number} {unit}" if unit else number


class Cost(NamedTuple):
    """The amounts of a test's runs for one event. `why_not`: the reason if it was not counted."""

    event: str
    unit: str
    amounts: list[float]
    why_not: str = ""


class MeasuredTest:
    """A function whose calls are counted.

    For several counted runs, an uncounted one comes first, which excludes one-time costs (imports, caches). Raises PerfError for unknown
    events.
    """

    def __init__(self, function: Callable[..., Any], budgets: Sequence[Budget]) -> None:
        self._function = function
        self._events = list(dict.fromkeys(budget.event for budget in budgets))
        self._repeat = max(budget.repeat for budget in budgets)
        self._region = Region(*self._events, net=True)
        if len(self._region.overhead()) != len(self._events):
            raise UsageError(f"one event a marker: {', '.join(self._events)}")
        self._runs: list[list[Count]] = []

    @property
    def why_not(self) -> str:
        """The reason if the machine counts none of the events, otherwise ""."""
        counts = self._region.overhead().values()
        return next(iter(counts)).why_not if all(count.value is None for count in counts) else ""

    def as_function(self) -> Callable[..., Any]:
        """Return the function for pytest to call."""

        @functools.wraps(self._function)
        def measured(*args: Any, **kwargs: Any) -> Any:
            if self._repeat > 1:
                self._function(*args, **kwargs)
            for _ in range(self._repeat):
                with self._region:
                    result = self._function(*args, **kwargs)
                self._runs.append(list(self._region.values()))
            return result

        return measured

    def costs(self) -> list[Cost]:
        """Return the cost of each event, in the order of the budgets."""
        costs = []
        for event, counts in zip(self._events, zip(*self._runs, strict=True), strict=False):
            amounts = [count.amount for count in counts if count.amount is not None]
            why_not = next((count.why_not for count in counts if count.value is None), "")
            costs.append(Cost(event, counts[0].unit, [] if why_not else amounts, why_not))
        return costs
