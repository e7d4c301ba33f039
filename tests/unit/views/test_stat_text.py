"""Counts as text and on a terminal."""

from __future__ import annotations

import errno
import json
import re

import pytest

from perfpy.abi.attr import COUNTED, CountedEvent, CountState
from perfpy.abi.flags import HardwareId
from perfpy.counts.aggregation import Aggregation, CounterCell, Grouping, aggregate, one_cell_a_package
from perfpy.counts.comparison import Runs, compare_runs
from perfpy.counts.tally import Tally
from perfpy.errors import GroupIsFullError, KernelRefusedError
from perfpy.views import stat_screen as stat_compare
from perfpy.views.stat_fields import CsvView, JsonView
from perfpy.views.stat_screen import ScreenView
from perfpy.views.stat_text import TextView
from tests.builders.tallies import clock, hardware, pmu_counts, tally

# Tests of tallies as text, CSV and JSON, with counts that this machine cannot make.


def test_text_with_hardware_ratios_and_multiplexing() -> None:
    """GHz, insn per cycle, stalled cycles, misses, and the share of the time on the PMU."""
    lines = "".join(TextView("'cmd'").render(tally(pmu_counts()))).splitlines()
    assert lines[3] == "           1000.00 msec task-clock                       #    0.500 CPUs utilized             "
    assert lines[4] == "        3000000000      cycles                           #    3.000 GHz                       "
    assert lines[5] == "       12000000000      instructions                     #    4.00  insn per cycle            "
    assert lines[6] == "                                                  #    0.05  stalled cycles per insn     (50.00%)"
    assert lines[8] == "                25      branch-misses                    #    2.50% of all branches           "
    assert lines[9] == "         600000000      stalled-cycles-frontend          #   20.00% frontend cycles idle      "


def test_text_has_a_hint_if_the_watchdog_or_a_group_kept_events_from_counting() -> None:
    """perf's hint on the watchdog only for events that a free counter would help."""

    def text(event: CountedEvent, state: CountState, *, has_watchdog: bool) -> str:
        counts = tally({event: (0, 9, 0)}, {event: state})
        return "".join(TextView("'cmd'", has_watchdog=lambda: has_watchdog).render(counts))

    cycles, on_some_cpus = hardware("cycles", HardwareId.CPU_CYCLES), hardware("cpu_atom/cycles/", HardwareId.CPU_CYCLES)
    on_some_cpus.cpus = (4, 5)
    assert "Try disabling the NMI watchdog:\n\techo 0 >" in text(cycles, COUNTED, has_watchdog=True)
    assert "watchdog" not in text(cycles, COUNTED, has_watchdog=False)
    assert "watchdog" not in text(on_some_cpus, COUNTED, has_watchdog=True)
    assert "watchdog" not in text(clock(), COUNTED, has_watchdog=True)
    full = CountState(supported=False, why_not=GroupIsFullError(KernelRefusedError("perf_event_open", errno.EINVAL), "split it"))
    assert "cycles is not counted: the PMU cannot count it at the same time as the events before it in its group; split it\n" in text(
        cycles, full, has_watchdog=True
    )


def test_thousands_are_grouped_where_the_locale_does() -> None:
    """-B only sets the separator."""
    text = "".join(TextView("'cmd'", separators=",").render(tally(pmu_counts())))
    assert "     3,000,000,000      cycles" in text
    assert "          1,000.00 msec task-clock" in text


def test_csv_fields() -> None:
    """Count, unit, event, running, share, ratio, its unit; further ratios on lines of their own."""
    lines = "".join(CsvView(",").render(tally(pmu_counts()))).splitlines()
    assert lines[0] == "1000.00,msec,task-clock,1000000000,100.00,0.500,CPUs utilized"
    assert lines[2] == "12000000000,,instructions,50,50.00,4.00,insn per cycle"
    assert lines[3] == ",,,,,0.05,stalled cycles per insn"


def test_names_with_line_breaks_do_not_forge_counts() -> None:
    """Names of events, cgroups and, with --per-thread, commands, which every process can set."""
    event = hardware("cycles\n1,,forged", HardwareId.CPU_CYCLES)
    event.cgroup = "a\rb"
    grouping = Grouping.by_thread([("sh\n9,,forged", 1)])
    by_thread = Tally([event], {event: aggregate(event, [CounterCell(-1, 0, 1, 1, 1)], grouping)}, grouping, wall_ns=2e9)
    for view in (CsvView(","), TextView("'cmd'"), ScreenView("'cmd'", width=200, colour="")):
        lines = "".join([*view.render(tally({event: (1, 1, 1)})), *view.render(by_thread)]).splitlines()
        assert not [line for line in lines if line.lstrip().startswith(("1,,forged", "9,,forged", "b"))]
        assert any("cycles^J1,,forged" in line and "a^Mb" in line for line in lines)
        assert any("sh^J9,,forged-1" in line for line in lines)


def test_json_objects() -> None:
    """Every line is an object, with perf's keys."""
    objects = [json.loads(line) for line in JsonView().render(tally(pmu_counts()))]
    assert objects[1] == {
        "counter-value": "3000000000.000000",
        "unit": "",
        "event": "cycles",
        "event-runtime": 100,
        "pcnt-running": 100.0,
        "metric-value": "3.000000",
        "metric-unit": "GHz",
    }


def test_events_that_were_not_counted() -> None:
    """Events that never were on the PMU, or that the machine cannot count."""
    never, unknown = hardware("cycles", HardwareId.CPU_CYCLES), hardware("branches", HardwareId.BRANCH_INSTRUCTIONS)
    counts = tally({never: (0, 100, 0), unknown: (0, 0, 0)}, {unknown: CountState(supported=False)})
    text = "".join(TextView("'cmd'").render(counts))
    assert "     <not counted>      cycles" in text
    assert "   <not supported>      branches" in text


def test_ratios_alone_keep_the_place_of_those_without_a_value() -> None:
    """A field for each event that was not counted, "none" in JSON; the cgroup beside the aggregate."""
    cycles, instructions = hardware("cycles", HardwareId.CPU_CYCLES), hardware("instructions", HardwareId.INSTRUCTIONS)
    states = {event: CountState(supported=False) for event in (cycles, instructions)}
    counts = {cycles: (0, 0, 0), instructions: (0, 0, 0)}
    assert "".join(CsvView(",", metric_only=True).render(tally(counts, states))).splitlines()[1] == ",,"
    assert "".join(JsonView(metric_only=True).render(tally(counts, states))) == '{"metric-value" : "none"}\n'
    assert "".join(JsonView(metric_only=True).render(tally(counts, states, timestamp=10**9))).endswith(', "metric-value" : "none"}\n')
    for event in counts:
        event.cgroup = "/a"
    assert "".join(CsvView(",", metric_only=True).render(tally(counts, states))).splitlines() == ["cgroup,", "/a,,,"]
    assert "".join(JsonView(metric_only=True).render(tally(counts, states))) == '{"cgroup" : "/a", "metric-value" : "none"}\n'


def test_no_line_is_empty_before_the_time_if_only_the_time_is_measured() -> None:
    """-n, also beside events of -e."""
    assert "\n\n       2.000000000 seconds" in "".join(TextView("'cmd'").render(tally(pmu_counts())))
    assert "\n\n       2.000000000 seconds" not in "".join(TextView("'cmd'").render(tally(pmu_counts(), is_null=True)))


@pytest.mark.parametrize("view", [TextView("'cmd'"), CsvView(","), JsonView()])
def test_a_count_of_no_time_at_all_has_no_share(view: TextView | CsvView | JsonView) -> None:
    """Only damaged files have one: a counter that ran although it was never enabled."""
    text = "".join(view.render(tally({hardware("cycles", HardwareId.CPU_CYCLES): (3, 0, 7)})))
    assert "cycles" in text
    assert "%)" not in text


def test_multiplexed_counts_are_estimated_once() -> None:
    """Each counter is scaled; --no-scale turns this off."""
    event = hardware("cycles", HardwareId.CPU_CYCLES)
    cells = [CounterCell(0, 0, 100, 10, 5), CounterCell(1, 0, 100, 10, 10)]
    assert aggregate(event, cells, Grouping.everything())[0].value == 300
    assert aggregate(event, cells, Grouping.everything(), scale=False)[0].value == 200


def test_a_part_with_a_counter_that_never_ran_has_no_count() -> None:
    """A sum of the other counters would mislead."""
    event = hardware("cycles", HardwareId.CPU_CYCLES)
    grouping = Grouping.by_part(Aggregation.SOCKET, {0: (0,), 1: (0,), 2: (1,)})
    rows = aggregate(event, [CounterCell(0, 0, 5, 9, 9), CounterCell(1, 0, 0, 9, 0), CounterCell(2, 0, 7, 9, 9)], grouping)
    assert [(row.aggregate_id.label, row.was_counted, row.value, row.cells) for row in rows] == [("S0", False, 0, 2), ("S1", True, 7, 1)]


def test_events_of_a_package_are_counted_once() -> None:
    """Each package's first counter represents it."""
    cells = [CounterCell(0, 0, 5, 9, 9), CounterCell(1, 0, 5, 9, 9), CounterCell(2, 0, 7, 9, 9)]
    assert [cell.cpu for cell in one_cell_a_package(cells, lambda cpu: cpu // 2)] == [0, 2]


@pytest.mark.parametrize("form", ["text", "csv", "json"])
def test_comparisons_name_the_higher_side(form: str) -> None:
    """Every form has the verdict."""
    a, b = Runs("old"), Runs("new")
    for run in range(10):
        a.add(10**9 + run * 10**6, {})
        b.add(2 * 10**9 + run * 10**6, {})
    comparison = compare_runs(a, b)
    rendered = {
        "text": stat_compare.render_text([comparison], pictures=True),
        "csv": stat_compare.render_csv([comparison], ","),
        "json": stat_compare.render_json([comparison]),
    }[form]
    text = "".join(rendered)
    assert "old" in text
    assert "new" in text
    assert ("higher" if form == "text" else "B is higher") in text
    if form == "json":
        assert json.loads(text)["change"] == pytest.approx(0.99, abs=0.02)


def test_several_comparisons_fit_eighty_columns() -> None:
    """Each program has a letter and a table; a long event name gets its own line."""
    sides = [Runs(name) for name in ("old", "new", "newest")]
    for run in range(10):
        for number, side in enumerate(sides):
            side.add(10**9 * (1 + number) + run * 10**6, {"an-event-with-quite-a-name": ("", 12345678.0 * (1 + number))})
            side.cannot_count("cycles", "no PMU")
    text = "".join(stat_compare.render_text([compare_runs(sides[0], other) for other in sides[1:]], pictures=True))
    assert max(map(len, text.splitlines())) <= 80
    assert text.count("higher") == 4
    assert "C median" in text
    assert text.count("Not counted: cycles: no PMU.") == 1


@pytest.mark.parametrize(("quiet", "message"), [("task-clock", True), ("page-faults", False)])
def test_the_number_of_runs_is_that_of_the_steadiest_time(quiet: str, message: bool) -> None:
    """Steady counters that do not measure time are ignored."""
    sides = [Runs("a"), Runs("b")]
    for number in range(10):
        for side in sides:
            side.add(round(1e9 * (1 + number * 0.05)), {quiet: ("", 1000 + number)})
    text = " ".join("".join(stat_compare.render_text([compare_runs(sides[0], sides[1])])).split())
    assert bool(re.search(r"a change of 5 % in elapsed in four of five cases takes some \d+ runs \(-r \d+\)", text))
    assert bool(re.search(rf", in {quiet} \d+\.", text)) == message


# Tests of counts on a terminal: they fit the window, nothing is skipped silently, reasons are below.


def shown(counts: Tally, *, width: int = 100, colour: str = "", separators: str = ",") -> list[str]:
    return "".join(ScreenView("'cmd'", width=width, colour=colour, separators=separators).render(counts)).splitlines()


def without_pmu() -> Tally:
    missing = hardware("cycles", 0)
    why_not = KernelRefusedError("perf_event_open", errno.ENOENT, event="cycles", cause="no PMU here", remedy="count clocks")
    state = CountState(supported=False, why_not=why_not)
    return tally({clock(): (10**9, 10**9, 10**9), missing: (0, 0, 0)}, {missing: state})


def test_columns_are_as_wide_as_necessary() -> None:
    """Count, unit, event, ratio; the second ratio below the first; the share of what shared the PMU."""
    lines = shown(tally(pmu_counts()))
    assert lines[3:10] == [
        "          count  unit  event                       ratio                           counted",
        "       1,000.00  msec  task-clock                  0.500  CPUs utilized",
        "  3,000,000,000        cycles                      3.000  GHz",
        " 12,000,000,000        instructions                 4.00  insn per cycle               50%",
        "                                                    0.05  stalled cycles per insn",
        "          1,000        branches                 1000.000  /sec",
        "             25        branch-misses               2.50%  of all branches",
    ]


def test_estimates_are_marked() -> None:
    assert any(
        re.match(r" 1 events? shared the PMU: .*instructions was counted 50% of the time", line) for line in shown(tally(pmu_counts()))
    )


def test_missing_counts_have_a_reason_and_a_remedy() -> None:
    lines = shown(without_pmu())
    assert " not supported        cycles" in lines
    assert " cycles: no PMU here; count clocks" in lines


@pytest.mark.parametrize("width", [20, 40, 60, 79, 200])
def test_no_line_of_the_table_is_wider_than_the_screen(width: int) -> None:
    for counts in (tally(pmu_counts()), without_pmu()):
        table = shown(counts, width=width)[3:]
        table = table[: table.index("")]
        assert len(table) >= 3
        assert all(len(line) <= max(width, 40) for line in table)


def test_a_ratio_is_never_shown_without_its_unit() -> None:
    for width in range(40, 90):
        text = "\n".join(shown(tally(pmu_counts()), width=width))
        assert ("3.000" in text) == ("GHz" in text)


def test_colours_mark_missing_counts_if_enabled() -> None:
    assert "\033[31m not supported        cycles\033[0m" in shown(without_pmu(), colour="\033")
    assert not any("\033" in line for line in shown(without_pmu()))


def test_intervals_keep_perfs_columns() -> None:
    """Widths cannot change from one interval to the next."""
    lines = shown(tally({clock(): (10**9, 10**9, 10**9)}, timestamp=10**9))
    assert lines[1].startswith("     1.000000000           1,000.00 msec task-clock                       #")
