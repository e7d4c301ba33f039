"""The queries of perfpy/views/parquet/queries.md, by DuckDB and Polars: their answers are those of perfpy's reports."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import perfpy
from perfpy.analysis.filters import SampleFilter
from perfpy.analysis.report.options import CallGraph, ChainOptions, ColumnOptions, ReportOptions
from perfpy.symbols.files.debug_files import SymbolOptions
from tests.builders import own_corpus
from tests.builders.options import report_options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Ask = Callable[..., list[tuple[Any, ...]]]

duckdb = pytest.importorskip("duckdb")
PAGE = Path(perfpy.__file__).parent / "views" / "parquet" / "queries.md"
VIEWS = re.findall(r"```sql\n(CREATE.*?)```", PAGE.read_text(), re.DOTALL)[0]
QUERIES = dict(re.findall(r"```sql\n-- (\w+)\n(.*?)```", PAGE.read_text(), re.DOTALL))
POLARS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[0]
RECORDING = "chains"
OTHERS = ("fork-exec", "group")
UNKNOWN = "[unknown]"


def opened(own: Path, name: str) -> perfpy.Recording:
    machine = next(row.machine for row in own_corpus.rows() if row.name == name)
    symbols = SymbolOptions(symfs=str(own / "symfs"), kallsyms=str(own / f"kallsyms.{machine}"), cache=False)
    return perfpy.open(own / f"{name}.data", symbols=symbols)


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own")
    own_corpus.unpack(folder)
    return folder


@pytest.fixture(scope="module")
def recording(own: Path) -> Iterator[perfpy.Recording]:
    with opened(own, RECORDING) as one:
        yield one


def asking(folder: Path) -> Ask:
    """Asks by the name of a query on the page."""
    connection = duckdb.connect()
    connection.execute(VIEWS.replace("'tables/", f"'{folder}/"))
    return lambda name, **values: connection.execute(QUERIES[name], values or None).fetchall()


@pytest.fixture(scope="module")
def ask(own: Path, recording: perfpy.Recording, tmp_path_factory: pytest.TempPathFactory) -> Ask:
    folder = tmp_path_factory.mktemp("tables")
    recording.to_parquet(folder)
    return asking(folder)


@pytest.fixture(scope="module")
def ask_several(own: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Ask, list[str]]:
    """Of three recordings, and their keys."""
    folder = tmp_path_factory.mktemp("several")
    keys = []
    for name in (RECORDING, *OTHERS):
        with opened(own, name) as one:
            keys.append(one.to_parquet(folder).recording)
    return asking(folder), keys


def costs(recording: perfpy.Recording, by: str, **options: Any) -> dict[str, tuple[int, int]]:
    """The report's rows, those of the same name together: period and samples."""
    report = recording.report(options=report_options(columns=ColumnOptions(sort=by), **options)) if options else recording.report(by=by)
    results: dict[str, tuple[int, int]] = {}
    for row in report:
        name = row.texts[by]
        period, samples = results.get(name, (0, 0))
        results[name] = (period + row.period, samples + row.samples)
    return results


def function(text: str) -> str:
    """The name in a report's symbol column, which has a letter before it, and an address where there is no name."""
    name = text[4:] if text.startswith("[") and text[2:4] == "] " else text
    return UNKNOWN if name.startswith("0x") else name


def functions(found: dict[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
    total: dict[str, tuple[int, int]] = {}
    for text, (period, samples) in found.items():
        before = total.get(function(text), (0, 0))
        total[function(text)] = (before[0] + period, before[1] + samples)
    return total


def answers(rows: list[tuple[Any, ...]]) -> dict[str, tuple[int, int]]:
    return {str(name): (int(period), int(samples)) for name, period, samples in rows}


def test_self_is_the_report_by_symbol(ask: Ask, recording: perfpy.Recording) -> None:
    assert answers(ask("self")) == functions(costs(recording, "symbol"))
    assert len(ask("self")) > 2


@pytest.mark.parametrize("key", ["comm", "dso"])
def test_others_are_the_report_by_their_key(key: str, ask: Ask, recording: perfpy.Recording) -> None:
    assert answers(ask(key)) == costs(recording, key)


def test_threads_are_the_report_by_pid(ask: Ask, recording: perfpy.Recording) -> None:
    results = {text.strip().partition(":")[0]: cost for text, cost in costs(recording, "pid").items()}
    assert answers(ask("tid")) == results


def test_a_condition_is_a_filter_of_the_report(ask: Ask, recording: perfpy.Recording) -> None:
    comm = ask("comm")[0][0]
    actual_functions = functions(costs(recording, "symbol", sample_filter=SampleFilter(comms=frozenset([comm]))))
    assert answers(ask("of_comm", comm=comm)) == actual_functions


def test_stacks_have_the_shares_of_a_report_with_children(ask: Ask, recording: perfpy.Recording) -> None:
    options = ReportOptions(chains=ChainOptions(call_graph=CallGraph(order="caller"), children=True), columns=ColumnOptions(sort="symbol"))
    total: Counter[str] = Counter()
    for row in recording.report(options=options):
        total[function(row.texts["symbol"])] += row.values["children"][0]
    results = {name: int(period) for name, period in ask("with_children")}
    del total[UNKNOWN]  # of which the report has a row for each address
    results.pop(UNKNOWN, None)
    assert results == total


def test_callers_are_the_second_in_stacks(ask: Ask, recording: perfpy.Recording) -> None:
    callers: dict[str, Counter[str]] = {}
    for stack, period in zip(recording.samples["stack"], recording.samples["period"].tolist(), strict=True):
        if len(stack) > 1:
            callers.setdefault(stack[0], Counter())[stack[1]] += period
    most = max(callers, key=lambda name: callers[name].total())
    assert {name: int(total) for name, total in ask("callers", function=most)} == callers[most]


def test_times_are_the_recordings(ask: Ask, recording: perfpy.Recording) -> None:
    times = recording.samples["time"].astype("int64")
    tenths = ((times - times.min()) // 100_000_000).tolist()
    expected = Counter(zip(tenths, recording.samples["comm"].tolist(), strict=True))
    assert {(tenth, comm): count for tenth, comm, count in ask("over_time")} == expected


def test_events_are_named_and_several_recordings_lie_side_by_side(own: Path, ask_several: tuple[Ask, list[str]]) -> None:
    ask, keys = ask_several
    expected: dict[str, tuple[int, int]] = {}
    for name in (RECORDING, *OTHERS):
        with opened(own, name) as one:
            for histogram in one.report(by="comm").histograms:
                for total in histogram.events:
                    samples, period = expected.get(total.event.name, (0, 0))
                    expected[total.event.name] = (samples + total.samples, period + total.period)
    assert {name: (samples, int(total)) for name, samples, total in ask("events")} == {
        name: cost for name, cost in expected.items() if cost[0]
    }
    assert len(set(keys)) == len(OTHERS) + 1


def test_hosts_and_days_are_partitions(ask_several: tuple[Ask, list[str]]) -> None:
    rows = ask_several[0]("by_host_and_day")
    assert {type(day).__name__ for _, day, _, _ in rows} <= {"date", "str"}
    for host, day in {(host, day) for host, day, _, _ in rows}:
        of_day = [row for row in rows if row[:2] == (host, day)]
        assert 1 <= len(of_day) <= 10
        assert of_day == sorted(of_day, key=lambda row: (-row[3], row[2]))


def test_a_change_is_the_difference_of_shares(own: Path, ask_several: tuple[Ask, list[str]]) -> None:
    ask, keys = ask_several
    shares = []
    for name in (RECORDING, OTHERS[0]):
        with opened(own, name) as one:
            actual_functions = functions(costs(one, "symbol"))
            total = sum(period for period, _ in actual_functions.values())
            shares.append({symbol: period * 100 / total for symbol, (period, _) in actual_functions.items()})
    changes: dict[str, float] = dict(ask("regressions", before=keys[0], after=keys[1]))
    assert changes == {
        symbol: pytest.approx(shares[1].get(symbol, 0) - shares[0].get(symbol, 0), abs=1e-6) for symbol in {**shares[0], **shares[1]}
    }


def test_polars_reads_the_same(recording: perfpy.Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("polars")
    recording.to_parquet(tmp_path / "tables")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(POLARS, names)
    assert {name: (period, count) for name, period, count in names["hot"].rows()} == functions(costs(recording, "symbol"))
