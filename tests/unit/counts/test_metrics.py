"""Formulas of metrics: their values, and the events that they need on a machine."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfpy.abi.attr import CountedEvent, CountState, EventAttr
from perfpy.counts.aggregation import EVERYWHERE, CounterCell, CountRow, Grouping, Neighbours, aggregate
from perfpy.counts.formulas import parse_formula
from perfpy.counts.metrics import Literals, Metric, NameTable, UnknownLiteralError, needed_names, value_of
from perfpy.counts.tally import Tally
from perfpy.errors import EventSyntaxError


class Server(Literals):
    """Two threads a core, an event called `known`."""

    def literal(self, name: str) -> float:
        return {"#smt_on": 1.0, "#num_cpus": 8.0}.get(name.lower(), math.nan)

    def has_event(self, name: str) -> bool:
        return name == "known"

    def is_cpu(self, pattern: str) -> bool:
        return pattern == "this"


def value(text: str, **counts: float) -> float:
    return value_of(parse_formula(text), lambda name: counts.get(name, math.nan))


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("10 - 4 - 3", 3),
        ("7 % 4", 3),
        ("-2 * -3", 6),
        ("1.5e3 / 2", 750),
        ("min(4, 2) + max(4, 2)", 6),
        ("d_ratio(3, 0)", 0),
        ("1 if 2 > 1 else 5", 1),
        ("1 if 0 else 2 if 0 else 3", 3),
        ("6 & 3 | 8", 1),
        ("5 ^ 1", 0),
        ("!0 + !7", 1),
        ("3 < 4", 1),
        ("0 & missing", 0),
        ("1 | missing", 1),
        ("max(missing, 3)", 3),
    ],
)
def test_values(text: str, result: float) -> None:
    """Arithmetic as perf's: logic gives 0 or 1, and one operand may decide it."""
    assert value(text) == result


def test_missing_counts_make_no_number() -> None:
    assert math.isnan(value("a / b", a=1.0, b=0.0))
    assert math.isnan(value("a + 1"))
    assert math.isnan(value("missing | 0"))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("instructions / cycles", {"instructions", "cycles"}),
        (r"L1\-dcache\-loads / cycles", {"L1-dcache-loads", "cycles"}),
        (r"cpu@event\=0x3c\,umask\=1@ * 2", {"cpu@event=0x3c,umask=1@"}),
        ("cycles:u + cycles:u", {"cycles:u"}),
        ("#num_cpus * cs", {"cs"}),
        ("two / 2 if #SMT_on else one", {"two"}),
        ("one if 0 else 3", set()),
        ("a if has_event(known) else b", {"a"}),
        ("a if has_event(other) else b", {"b"}),
        ("a if strcmp_cpuid_str(this) else b", {"a"}),
        ("0 & a | b", {"b"}),
        ("1 | a", set()),
        ("a / 0 + b", {"b"}),
        ("d_ratio(a, 0)", set()),
        ("source_count(a) * 2", {"a"}),
        ("a if b > 1 else a", {"a", "b"}),
        ("hv_24x7@PM?@", {"hv_24x7@PM0@"}),
    ],
)
def test_a_formula_needs_the_events_of_the_branch_that_this_machine_takes(text: str, names: set[str]) -> None:
    assert set(needed_names(parse_formula(text), Server()) or ()) == names


def test_an_unknown_literal_is_reported() -> None:
    with pytest.raises(UnknownLiteralError, match="#moon"):
        needed_names(parse_formula("a * #moon"), Server())


def test_a_table_that_grows_keeps_perfs_order() -> None:
    """Buckets are doubled at more than three quarters; a new name precedes the others of its bucket."""
    table = NameTable()
    for name in "abcdefgh":
        table.add(name)
    assert list(table) == ["f", "c", "h", "e", "b", "g", "d", "a"]
    table.remove("d")
    assert list(table.copy()) == ["f", "c", "h", "e", "b", "g", "a"]


@given(st.lists(st.text(min_size=1, max_size=6), max_size=40))
def test_a_table_has_each_name_once(names: list[str]) -> None:
    table = NameTable()
    for name in names:
        table.add(name)
    assert sorted(table) == sorted(set(names))
    assert len(table) == len(set(names))


@pytest.mark.parametrize(
    ("text", "column"), [("1 +", 3), ("(1", 2), ("min(1)", 5), ("1 2", 2), ("foo(1, 2)", 0), ("1 $ 2", 1), ("", 0), ("has_event(1)", 10)]
)
def test_errors_point_at_the_column(text: str, column: int) -> None:
    with pytest.raises(EventSyntaxError) as error:
        parse_formula(text)
    assert error.value.column == column


@given(st.text(alphabet="0123456789.+-*/%()<>&|^!,abeif# \\@:?", max_size=40))
def test_any_text_is_a_formula_or_an_error(text: str) -> None:
    """Nothing but EventSyntaxError comes out of the parser."""
    try:
        tree = parse_formula(text)
    except EventSyntaxError:
        return
    try:
        assert isinstance(value_of(tree, lambda _name: 1.0), float)
    except (ZeroDivisionError, OverflowError):
        assert "%" in text or "*" in text


def near(**counts: tuple[int, bool]) -> tuple[Neighbours, dict[str, CountedEvent]]:
    """Rows of events: (count, whether it is supported)."""
    events = {name: CountedEvent(name, EventAttr()) for name in counts}
    rows = [CountRow(events[name], EVERYWHERE, n, 5, 5 * ok, 1, CountState(supported=ok)) for name, (n, ok) in counts.items()]
    return Neighbours(rows, 1.0), events


def test_a_metric_uses_others_and_tells_whether_it_exceeds_its_threshold() -> None:
    rows, events = near(slots=(100, True), bound=(30, True))
    parts = {"tma_bound": parse_formula("bound / slots")}
    metric = Metric(
        "tma_free", parse_formula("1 - tma_Bound"), events, parts=parts, scale=100, unit="%", threshold=parse_formula("tma_bound > 0.2")
    )
    ratio = metric.ratio(rows)
    assert (round(ratio.value or 0, 9), ratio.unit, ratio.exceeds) == (70.0, "%  tma_free", True)


def test_a_metric_of_an_unsupported_event_is_undefined() -> None:
    """One that was not counted in this time is 0, as in perf."""
    rows, events = near(a=(8, False), b=(2, True))
    ratio = Metric("share", parse_formula("a / b"), events, threshold=parse_formula("share > 1")).ratio(rows)
    assert ratio.value is not None
    assert math.isnan(ratio.value)
    assert ratio.exceeds is None
    sources = Metric("boxes", parse_formula("source_count(b) + source_count(a)"), events, sources={"a": 4, "b": 4}).ratio(rows)
    assert sources.value == 4


@pytest.mark.parametrize(("retiring", "lines"), [(30, 0), (75, 1)])
def test_shares_of_slots_that_do_not_add_up_are_told(retiring: int, lines: int) -> None:
    names = ("tma_frontend_bound", "tma_bad_speculation", "tma_backend_bound", "tma_retiring")
    counts = dict(zip(names, (20, 10, 40, retiring), strict=True))
    events = [CountedEvent(name, EventAttr(), pmu="cpu") for name in names]
    rows = {event: [CountRow(event, EVERYWHERE, counts[event.name], 5, 5, 1)] for event in events}
    metrics = {event: [Metric(event.name, event.name, {event.name: event})] for event in events}
    told = list(Tally(events, rows, Grouping.everything(), wall_ns=1, metrics=metrics).contradictions())
    assert len(told) == lines
    assert all("cpu add up to 145 %" in text for text in told)


def test_the_time_is_that_of_all_sockets() -> None:
    """duration_time is measured once; metrics of each socket divide by it."""
    grouping = Grouping.by_cpu((0, 1))
    reads, time = CountedEvent("reads", EventAttr()), CountedEvent("duration_time", EventAttr(), tool="duration_time")
    cells = {reads: [CounterCell(0, 0, 8, 1, 1), CounterCell(1, 0, 6, 1, 1)], time: [CounterCell(0, 0, 2 * 10**9, 1, 1)]}
    metric = Metric("bandwidth", ("/", "reads", "duration_time"), {"reads": reads, "duration_time": time})
    tally = Tally([reads, time], {event: aggregate(event, its, grouping) for event, its in cells.items()}, grouping, wall_ns=1)
    assert [metric.ratio(tally.near(index)).value for index in (0, 1)] == [4.0, 3.0]
