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

pytest loads the plugin in every session if perfpy is installed, so the first test that counts imports the counters.
"""

from __future__ import annotations

import inspect
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import pytest

from perfpy.errors import KernelRefusedError, PerfError, UnknownEventError, UsageError
from perfpy.plurals import plural
from perfpy.untrusted.text import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from contextlib import AbstractContextManager

    from perfpy.capture.counting.region import Region
    from perfpy.testing.budgets import Baselines, Budget
    from perfpy.testing.measured_test import Cost, MeasuredTest

MARKER: Final = "perf_budget"
_ROW: Final = "perfpy"
_DEFAULT_FILE: Final = "perf-baselines.json"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the command line options and the setting."""
    group = parser.getgroup("perfpy", "tests that state what they may cost")
    group.addoption("--perf-update", action="store_true", help="make what tests with perf_budget cost now their baseline")
    group.addoption("--perf-baselines", metavar="FILE", help=f"the file of baselines (setting perf_baselines, or {_DEFAULT_FILE})")
    parser.addini("perf_baselines", "the file of baselines, relative to the root folder", default=_DEFAULT_FILE)


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker and the session's table."""
    words = "what the test may cost at most, or as its baseline; counted over `repeat` runs, `tolerance` is a part of the baseline"
    config.addinivalue_line("markers", f"{MARKER}(event, at_most=None, repeat=1 or 5, tolerance=0.05): {words}")
    config.pluginmanager.register(BudgetSession(config), "perfpy budgets")


@pytest.fixture
def perf_counters(request: pytest.FixtureRequest) -> Callable[..., AbstractContextManager[Region]]:
    """Return a context manager that counts a part of a test, with the arguments of perfpy.count.

        with perf_counters("page-faults:u") as counts: ...

    The test is skipped with the reason if the machine does not count an event. The counts appear in the final table.
    """

    @contextmanager
    def counted(*events: str, **how: Any) -> Iterator[Region]:
        from perfpy.capture.counting.region import Region

        try:
            region = Region(*events, **how)
            region.__enter__()
        except (UnknownEventError, KernelRefusedError) as reason:
            pytest.skip(str(reason))
        with _exit_after(region):
            if region.why_not:
                pytest.skip(", ".join(region.why_not.values()))
            yield region
        for count in region.values():
            request.node.user_properties.append((_ROW, [count.event, count.unit, [count.amount or 0.0], "", count.why_not]))

    return counted


@contextmanager
def _exit_after(region: Region) -> Iterator[None]:
    try:
        yield
    finally:
        region.__exit__()


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
            from perfpy.testing.budgets import Baselines

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
        from perfpy.testing.budgets import budget
        from perfpy.testing.measured_test import MeasuredTest

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
        from perfpy.testing.budgets import judge

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
        from perfpy.testing.budgets import NEW_BASELINE

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


def table(rows: list[tuple[str, list[Any]]]) -> list[str]:
    """Return the lines of the table, one per test and event."""
    from perfpy.counts.spread import median
    from perfpy.testing.budgets import format_amount

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
