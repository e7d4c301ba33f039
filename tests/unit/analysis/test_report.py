"""Reports: their options, tables, call trees and blocks between branches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import perfpy
from perfpy.abi import records
from perfpy.abi.flags import CONTEXT_KERNEL, CONTEXT_USER, MISC_USER, BranchSample, PerfType, SampleType, SoftwareId
from perfpy.abi.perfpy_encodings import OFF_CPU_EVENT
from perfpy.abi.records import Comm, Lost, SampleId
from perfpy.analysis.filters import SampleFilter
from perfpy.analysis.report.call_trees import ClassedFrames, Pruning, grow, minimum_period
from perfpy.analysis.report.entries import Walkers
from perfpy.analysis.report.options import ColumnOptions, ReportOptions, RowOptions, _folding_plan, make_layout
from perfpy.analysis.report.report import filtered_rows_notes, quality_notes
from perfpy.analysis.report.tables import tree_order
from perfpy.analysis.sort_key import Mode
from perfpy.cli import run
from perfpy.errors import UsageError
from perfpy.perfdata.header import EventDesc, Feature
from perfpy.recording import Recording
from perfpy.symbols.quality_notes import ChainEnds
from tests.builders import own_corpus
from tests.builders.perfdata import USUAL, PerfDataBuilder, usual_attr

if TYPE_CHECKING:
    from pathlib import Path

    from perfpy.abi.attr import EventAttr
    from perfpy.analysis.report.report import Report


# The lines on how far a profile can be trusted.


FREQUENCY = usual_attr(USUAL | SampleType.CALLCHAIN)
COUNT = FREQUENCY.copy(freq=0)
FAULTS = FREQUENCY.copy(type=PerfType.SOFTWARE, config=SoftwareId.PAGE_FAULTS, sample_period=1, freq=0)
TRACEPOINT = FREQUENCY.copy(type=PerfType.TRACEPOINT, sample_period=1, freq=0)
WAITS = FREQUENCY.copy(type=PerfType.SOFTWARE, config=SoftwareId.BPF_OUTPUT, sample_period=1, freq=0)


def notes(folder: Path, *attrs: EventAttr, samples: int = 13, lost: int = 0, merged: bool = False, ip: int = 1) -> str:
    """The lines on a recording of these events, each with so many samples."""
    built = PerfDataBuilder(attrs=[attr.copy(sample_type=attr.sample_type | SampleType.IDENTIFIER) for attr in attrs])
    built.ids = [(number + 1,) for number in range(len(attrs))]
    for number in range(len(attrs)):
        for moment in range(samples):
            built.sample(number, ip=ip, pid=7, tid=7, time=5 + moment, period=1, callchain=[ip] * bool(ip))
    if lost:
        built.record(Lost(0, 1, lost, SampleId(pid=7, tid=7, time=99, id=1)))
    path = folder / "perf.data"
    path.write_bytes(built.file())
    with Recording(str(path)) as recording:
        for event, attr in zip(recording.events, attrs, strict=True):
            event.name = OFF_CPU_EVENT if attr is WAITS else event.name
        if merged:
            recording.merge_off_cpu()
        return "\n".join(quality_notes(recording.report(by="symbol")))


@pytest.mark.parametrize("attr", [FAULTS, TRACEPOINT, WAITS])
def test_an_event_that_is_sampled_each_time_has_no_margin(attr: EventAttr, tmp_path: Path) -> None:
    assert "accurate to" not in notes(tmp_path, attr)


@pytest.mark.parametrize(("attr", "remedy"), [(FREQUENCY, "raise -F"), (COUNT, "lower -c")])
def test_few_samples_of_many_events_have_a_margin_and_a_remedy(attr: EventAttr, remedy: str, tmp_path: Path) -> None:
    assert f"only 13 samples; shares are accurate to ±27 points; record longer or {remedy}" in notes(tmp_path, attr)
    assert "only 1 sample; " in notes(tmp_path, attr, samples=1)


def test_waits_beside_a_clock_are_measured(tmp_path: Path) -> None:
    assert "accurate to" in notes(tmp_path, FREQUENCY, WAITS)
    assert "accurate to" not in notes(tmp_path, FREQUENCY, WAITS, merged=True)


@pytest.mark.parametrize(
    ("attr", "remedy"),
    [
        (FREQUENCY, "a larger buffer (-m) or a lower frequency (-F)"),
        (
            FAULTS.copy(sample_type=int(SampleType.IP | SampleType.TID | SampleType.TIME | SampleType.CALLCHAIN)),
            "a larger buffer (-m) or a higher count (-c)",
        ),
        (TRACEPOINT, "a larger buffer (-m) or a filter (--filter)"),
    ],
)
def test_losses_have_the_remedy_that_lowers_the_number_of_samples(attr: EventAttr, remedy: str, tmp_path: Path) -> None:
    assert f"2 records were lost, the buffer was full; record with {remedy}" in notes(tmp_path, attr, lost=2)


def test_waits_without_stacks_have_one_note_with_a_remedy(tmp_path: Path) -> None:
    """The kernel hides its code from ordinary users, and with it the place of each wait: no symbols are missing."""
    text = notes(tmp_path, FREQUENCY, WAITS, ip=0)
    assert "offcpu-time: no stacks; record as root" in text
    assert "offcpu-time: 100 % is in code without symbols" not in text
    assert "offcpu-time: 100 % is in code without symbols" in notes(tmp_path, FREQUENCY, WAITS)


# A note tells when callchains end after one frame, and why.


APP, OTHER, KERNEL = 0x400000, 0x600000, 0xFFFFFFFF81000000
STACKS = SampleType.CALLCHAIN | SampleType.REGS_USER | SampleType.STACK_USER


def callchain_notes(
    folder: Path, chains: list[list[int]], *, machine: str = "x86_64", kind: int = SampleType.CALLCHAIN, without_chain: bool = False
) -> list[str]:
    builder = PerfDataBuilder([usual_attr(USUAL | kind, sample_regs_user=0xFF0FFF, sample_stack_user=64)])
    builder.feature(Feature.ARCH, machine)
    for name, start in (("/none/app", APP), ("/none/other", OTHER)):
        builder.record(records.Mmap2(MISC_USER, 1, 1, start, 0x1000, 0, 0, 0, 0, 0, 5, 2, name, b""))
    for number, chain in enumerate(chains):
        builder.sample(ip=chain[-1], pid=1, tid=1, time=number + 1, period=1, callchain=[] if without_chain else chain, misc=MISC_USER)
    path = folder / "perf.data"
    path.write_bytes(builder.file())
    with perfpy.open(path) as recording:
        return recording.report(callers=True).notes


def test_chains_without_callers_have_a_note(tmp_path):
    ended = [[CONTEXT_USER, APP + 1], [CONTEXT_KERNEL, KERNEL, CONTEXT_USER, OTHER + 1, 0x99]] * 20
    assert callchain_notes(tmp_path, ended) == [
        ("100% of the user call chains end after one frame: no frame pointers in app, other; record --unwind has their callers")
    ]


def test_chains_with_callers_have_no_note(tmp_path):
    assert callchain_notes(tmp_path, [[CONTEXT_USER, APP + 1, OTHER + 1], [CONTEXT_USER, APP + 1]] * 20) == []


def test_kernel_chains_do_not_count(tmp_path):
    assert callchain_notes(tmp_path, [[CONTEXT_KERNEL, KERNEL]] * 40) == []


def test_missing_files_are_named(tmp_path):
    assert callchain_notes(tmp_path, [[CONTEXT_USER, APP + 1]] * 30, kind=STACKS) == [
        "100% of the user call chains end after one frame: not found, or of another build: /none/app; give --symfs, or install them"
    ]


def test_samples_without_any_unwound_frame_count_too(tmp_path):
    lines = callchain_notes(tmp_path, [[CONTEXT_USER, APP + 1]] * 20 + [[OTHER + 1]] * 20, kind=STACKS, without_chain=True)
    assert lines == [
        (
            "100% of the user call chains end after one frame: not found, or of another build: /none/app, /none/other;"
            " give --symfs, or install them"
        )
    ]


def test_an_architecture_that_is_not_unwound_is_named(tmp_path):
    assert callchain_notes(tmp_path, [[CONTEXT_USER, APP + 1]] * 30, kind=STACKS, machine="pdp11") == [
        "100% of the user call chains end after one frame: stacks of pdp11 are not unwound here"
    ]


@pytest.mark.parametrize(("chains", "early"), [(0, {}), (10, {"/a": 10}), (100, {"/a": 50})])
def test_few_chains_and_few_ends_have_no_note(chains, early):
    ends = ChainEnds(chains, early)
    assert not ends.matter
    assert ends.of_frame_pointers() == ends.of_stacks([], "x86_64", can_unwind=True) == ""


def test_only_the_worst_files_are_named():
    ends = ChainEnds(1000, {"/bin/a": 500, "/bin/b": 10, "//anon": 300, "/bin/c": 100, "": 50})
    assert ends.files == ["/bin/a", "/bin/c"]


# Columns from -s and -F.


def names(entries):
    return [entry.name for entry in entries]


def test_the_default_is_overhead_by_command_file_and_function():
    layout = make_layout(ColumnOptions())
    assert names(layout.fields) == ["overhead", "comm", "dso", "symbol"]
    assert names(layout.sorts) == ["overhead", "comm", "dso", "symbol"]


def test_callers_stand_before_the_overhead():
    assert names(make_layout(ColumnOptions(children=True)).fields)[:2] == ["overhead_children", "overhead"]


def test_the_first_key_that_begins_with_a_word_is_meant():
    assert names(make_layout(ColumnOptions(sort="s,d,c")).keys) == ["symbol", "dso", "comm"]


def test_a_plus_adds_to_the_default():
    assert names(make_layout(ColumnOptions(sort="+cpu")).keys) == ["comm", "dso", "symbol", "cpu"]


def test_fields_alone_are_shown_and_sorted_by_in_their_order():
    layout = make_layout(ColumnOptions(fields="comm,overhead,sym"))
    assert names(layout.fields) == ["comm", "overhead", "symbol"] == names(layout.sorts)


def test_a_field_with_plus_is_added_to_the_usual_columns():
    assert names(make_layout(ColumnOptions(sort="comm", fields="+period")).fields) == ["overhead", "period", "comm"]


def test_two_names_of_one_key_are_one_column():
    layout = make_layout(ColumnOptions(sort="retire_lat,p_stage_cyc,local_retire_lat,local_p_stage_cyc"))
    assert names(layout.keys) == ["retire_lat", "local_retire_lat"]


@pytest.mark.parametrize(("sort", "field"), [("local_p_stage_cyc", "local_retire_lat"), ("local_retire_lat", "local_p_stage_cyc")])
def test_a_key_with_another_name_among_the_fields_is_one_column(sort, field):
    layout = make_layout(ColumnOptions(sort=f"comm,{sort}", fields=f"+{field}"))
    assert names(layout.keys) == ["comm", "local_p_stage_cyc"]
    assert names(layout.fields) == ["overhead", "local_p_stage_cyc", "comm"]


def test_fields_with_two_names_of_one_key_are_two_columns():
    layout = make_layout(ColumnOptions(fields="comm,local_retire_lat,local_p_stage_cyc,comm"))
    assert [entry.header for entry in layout.fields] == ["Command", "Local Pipeline Stage Cycle", "Local Pipeline Stage Cycle"]
    assert {*names(layout.keys)} == {"comm", "local_p_stage_cyc"}


def test_no_keys_at_all_are_one_row_for_everything():
    layout = make_layout(ColumnOptions(sort=""))
    assert names(layout.fields) == ["overhead"] == names(layout.sorts)


def test_braces_hold_a_level_together():
    layout = make_layout(ColumnOptions(sort="comm,{dso,sym},cpu"))
    assert [names(level) for level in layout.levels] == [["comm"], ["dso", "symbol"], ["cpu"]]


@pytest.mark.parametrize("sort", ["nonsense", "+", "comm,overheadx"])
def test_unknown_keys_are_named(sort):
    with pytest.raises(UsageError, match="--sort key"):
        make_layout(ColumnOptions(sort=sort))


def test_keys_of_branches_need_branches():
    with pytest.raises(UsageError, match="Invalid --sort key: `dso_from'"):
        make_layout(ColumnOptions(sort="dso_from"))
    assert make_layout(ColumnOptions(sort="dso_from", mode=Mode.BRANCH)).has("dso_from")


def test_addresses_of_accessing_code_are_kept_apart():
    """Its rows are addresses, although they show functions."""
    for sort, by_function in (("symbol", True), ("symbol_iaddr", False), ("dso,symbol_iaddr", False), ("cpu,symbol_size", True)):
        columns = ColumnOptions(sort=sort, mode=Mode.MEMORY)
        assert _folding_plan(ReportOptions(columns), make_layout(columns), []).by_function is by_function


def test_a_pattern_of_parents_adds_a_level():
    for sort, levels in (("dso,comm", 3), ("parent,comm", 2), ("{dso,comm}", 2)):
        layout = make_layout(ColumnOptions(sort=sort, parent=True))
        assert [key.name for level in layout.levels for key in level].count("parent") == 1
        assert len(layout.levels) == levels


def test_tracepoints_alone_are_sorted_by_their_text():
    assert names(make_layout(ColumnOptions(tracepoints=True)).keys) == ["trace"]


def test_keys_newer_than_perf_612_take_no_abbreviation_away():
    assert names(make_layout(ColumnOptions(sort="t,comm,tgid,comm_nodigit")).keys) == ["transaction", "comm", "tgid", "comm_nodigit"]


@pytest.mark.parametrize(
    ("sort", "message"),
    [
        ("symblo", "Unknown --sort key: `symblo'; similar keys: symbol"),
        ("qqqq", "Unknown --sort key: `qqqq'; keys: overhead, "),
        ("comm,typeoff", "Unknown --sort key: `typeoff'; perfpy does not read data types"),
        ("dso_from", "Invalid --sort key: `dso_from' needs branch records; record with -b"),
        ("mem", "Invalid --sort key: `mem' needs --mem-mode"),
    ],
)
def test_errors_name_alternatives(sort, message):
    with pytest.raises(UsageError) as caught:
        make_layout(ColumnOptions(sort=sort))
    assert str(caught.value).startswith(message)


def test_fields_are_refused_alike():
    with pytest.raises(UsageError, match="Unknown --fields key: `overhed'; similar keys: overhead"):
        make_layout(ColumnOptions(fields="overhed"))


# Filters select samples; in perf's plain text they select rows, by the first sample of each, with a note.


FIRST, SECOND = 7, 8


def report(tmp_path: Path, sample_filter: SampleFilter, *, rows_filtered: bool = False) -> Report:
    """Report two processes on one CPU: first three samples of one, then two of the other."""
    built = PerfDataBuilder().record(Comm(0, FIRST, FIRST, "first")).record(Comm(0, SECOND, SECOND, "second"))
    for time, pid in enumerate((FIRST, SECOND, FIRST, SECOND, FIRST)):
        built.sample(pid=pid, tid=pid, time=time + 1, ip=0x1000, period=10, cpu=0)
    path = tmp_path / "perf.data"
    path.write_bytes(built.file())
    options = ReportOptions(rows=RowOptions(rows_filtered=rows_filtered), columns=ColumnOptions(sort="cpu"), sample_filter=sample_filter)
    with Recording(str(path)) as recording:
        return recording.report(options=options)


def counts(found: Report) -> list[int]:
    return [row.values["samples"][0] for row in found.top(10)]


@pytest.mark.parametrize(
    ("sample_filter", "remaining"),
    [
        (SampleFilter(pids=(SECOND,)), 2),
        (SampleFilter(tids=(FIRST,)), 3),
        (SampleFilter(comms=("second",)), 2),
        (SampleFilter(comms=("first", "second")), 5),
    ],
)
def test_a_row_has_the_samples_that_filters_leave(sample_filter: SampleFilter, remaining: int, tmp_path: Path) -> None:
    result = report(tmp_path, sample_filter)
    assert counts(result) == [remaining]
    assert list(filtered_rows_notes(result)) == []


def test_a_filter_that_leaves_nothing_leaves_no_row(tmp_path: Path) -> None:
    assert counts(report(tmp_path, SampleFilter(pids=(99,)))) == []


def test_plain_text_filters_rows_by_first_samples_with_a_note(tmp_path: Path) -> None:
    hidden = report(tmp_path, SampleFilter(pids=(SECOND,)), rows_filtered=True)
    assert counts(hidden) == []
    assert "2 samples pass the filters, the rows have 0" in "".join(filtered_rows_notes(hidden))
    result = report(tmp_path, SampleFilter(pids=(FIRST,)), rows_filtered=True)
    assert counts(result) == [5]
    assert "3 samples pass the filters, the rows have 5" in "".join(filtered_rows_notes(result))
    assert list(filtered_rows_notes(report(tmp_path, SampleFilter(), rows_filtered=True))) == []


# The order of a red-black tree.


@given(st.lists(st.integers(0, 50), max_size=300))
def test_with_a_real_order_it_is_a_stable_sort(values):
    rows = tree_order(range(len(values)), lambda row, other: values[row] < values[other])
    assert rows == sorted(range(len(values)), key=lambda row: values[row])


def test_the_position_of_a_row_depends_on_comparisons():
    # rows 0 and 2 are of one kind and compared by depth; row 1 is of another, and equal to both
    depth, kind = [1, 5, 0], ["a", "b", "a"]

    def before(row, other):
        return kind[row] == kind[other] and depth[row] < depth[other]

    assert tree_order([0, 1, 2], before) == [2, 0, 1]
    assert tree_order([1, 0, 2], before) == [1, 2, 0]


# Call trees built level by level equal trees built chain by chain.


def forest(chains, *, pruning=None, by_period=True):
    """Build a forest from (root, frames, period) of each chain."""
    frames = [frame for _, chain, _ in chains for frame in chain]
    ends = np.cumsum([len(chain) for _, chain, _ in chains], dtype=np.int64)
    lengths = np.array([len(chain) for _, chain, _ in chains], np.int64)
    walkers = Walkers(
        np.array([root for root, _, _ in chains], np.int64),
        ends - lengths,
        ends,
        np.array([period for _, _, period in chains], np.int64),
        np.ones(len(chains), np.int64),
    )
    flat = np.array(frames, np.int32)
    roots = max((root for root, _, _ in chains), default=-1) + 1
    steps = ClassedFrames(flat, np.arange(int(flat.max(initial=-1)) + 1))
    return grow(steps, walkers, roots, pruning or Pruning(), by_period=by_period), flat


def shape(nodes, flat):
    return [([int(flat[at]) for at in node.frames], node.period, node.own_period, shape(node.children, flat)) for node in nodes]


def test_calls_without_a_branch_are_one_node():
    tree, flat = forest([(0, [1, 2, 3], 5), (0, [1, 2, 3], 7)])
    assert shape(tree.children_of_root(0), flat) == [([1, 2, 3], 12, 12, [])]


def test_a_chain_that_ends_on_the_way_cuts_the_node():
    tree, flat = forest([(0, [1, 2, 3], 5), (0, [1, 2], 7)])
    assert shape(tree.children_of_root(0), flat) == [([1, 2], 12, 7, [([3], 5, 5, [])])]


def test_children_come_with_the_largest_first_and_equal_ones_in_order_of_class():
    tree, flat = forest([(0, [1, 9], 5), (0, [1, 4], 5), (0, [1, 7], 6)])
    assert [child[0] for child in shape(tree.children_of_root(0), flat)[0][3]] == [[7], [4], [9]]


def test_without_periods_children_are_in_order_of_class():
    tree, flat = forest([(0, [9], 50), (0, [4], 5)], by_period=False)
    assert [node[0] for node in shape(tree.children_of_root(0), flat)] == [[4], [9]]


def test_a_dropped_branch_still_divides_the_node_and_counts_below_its_parent():
    tree, flat = forest([(0, [1, 2], 99), (0, [1, 3], 1)], pruning=Pruning(minimum=5))
    assert shape(tree.children_of_root(0), flat) == [([1], 100, 0, [([2], 99, 99, [])])]
    assert tree.child_period(0) == 100


def test_relative_pruning_measures_against_the_siblings():
    chains = [(0, [1, 2], 60), (0, [1, 3], 40), (0, [4], 900), (0, [5], 9)]
    tree, flat = forest(chains, pruning=Pruning(relative=0.1))
    assert [node[0] for node in shape(tree.children_of_root(0), flat)] == [[4]]
    tree, flat = forest(chains, pruning=Pruning(relative=0.05))
    assert [node[3] for node in shape(tree.children_of_root(0), flat)] == [[], [([2], 60, 60, []), ([3], 40, 40, [])]]


def test_roots_have_their_own_trees():
    tree, flat = forest([(0, [1], 5), (1, [1, 2], 7)])
    assert shape(tree.children_of_root(0), flat) == [([1], 5, 5, [])]
    assert shape(tree.children_of_root(1), flat) == [([1, 2], 7, 7, [])]


CHAINS = st.lists(st.tuples(st.just(0), st.lists(st.integers(0, 3), min_size=1, max_size=6), st.integers(1, 9)), min_size=1, max_size=40)


@given(CHAINS)
def test_every_path_has_the_sum_of_the_chains_that_begin_with_it(chains):
    tree, flat = forest(chains)
    sums: dict[tuple[int, ...], int] = {}
    for _, chain, period in chains:
        for length in range(1, len(chain) + 1):
            sums[tuple(chain[:length])] = sums.get(tuple(chain[:length]), 0) + period
    results = {}

    def visit(nodes, above):
        for node in nodes:
            path = above
            for at in node.frames:
                path = (*path, int(flat[at]))
                results[path] = node.period
            visit(node.children, path)

    visit(tree.children_of_root(0), ())
    assert results == sums


@pytest.mark.parametrize(
    ("percent", "least"), [(0.5, 5), (0.55, 5), (-1e20, 0), (float("nan"), 0), (float("inf"), 1 << 62), (1e300, 1 << 62)]
)
def test_the_least_period_is_one_for_any_share(percent: float, least: int):
    assert minimum_period(1000, percent) == least
    tree, _ = forest([(0, [1], 1000)], pruning=Pruning(minimum_period(1000, percent)))
    assert len(tree.children_of_root(0)) == (least <= 1000)


# Blocks of code between two branches, and their cycles.


SPIN, INNER = 0x400176, 0x4001B7  # functions of the corpus's program
LOOP = (SPIN + 0x37, SPIN + 0xC)  # its branch back
CALL = (INNER + 4, SPIN)


def recorded(folder: Path, *stacks: list[tuple[tuple[int, int], int]], kind: int = BranchSample.ANY) -> Path:
    """Record samples with these branches, newest first, and the cycles of each."""
    attr = usual_attr(USUAL | SampleType.BRANCH_STACK, type=0, branch_sample_type=kind | BranchSample.USER, mmap=1, comm=1)
    built = PerfDataBuilder(attrs=[attr])
    who = SampleId(pid=40, tid=40, time=1)
    built.record(records.Comm(0x2000, 40, 40, "work", who))
    built.record(records.Mmap2(2, 40, 40, 0x400000, 0x1000, 0, 8, 1, 99, 0, 5, 2, "/tmp/c/work", b"", who))
    for number, stack in enumerate(stacks):
        branches = [(*ends, cycles << 4) for ends, cycles in stack]
        built.sample(misc=2, ip=SPIN, pid=40, tid=40, time=10 + number, period=1, branch_stack=branches)
    built.feature(Feature.ARCH, "x86_64").feature(Feature.BRANCH_STACK, b"")
    path = folder / "perf.data"
    path.write_bytes(built.feature(Feature.EVENT_DESC, (EventDesc(attr, "cycles:u", ()),)).file())
    return path


def rows(path: Path, capfd: pytest.CaptureFixture[str]) -> list[list[str]]:
    symfs = str(own_corpus.HERE / "symfs")
    assert run(["report", "--stdio", "--total-cycles", "--symfs", symfs, "--kallsyms", "/dev/null", "-i", str(path)]) == 0
    lines = capfd.readouterr().out.splitlines()
    return [line.split(maxsplit=4) for line in lines if line and not line.startswith("#")]


def branch_rows(path: Path, capfd: pytest.CaptureFixture[str], *args: str) -> list[str]:
    """Return the rows of a report of branches, without their lines of statistics."""
    symfs = str(own_corpus.HERE / "symfs")
    assert run(["report", "--stdio", "-q", "-b", "--symfs", symfs, "--kallsyms", "/dev/null", "-i", str(path), *args]) == 0
    return [line.strip() for line in capfd.readouterr().out.partition("\n\n")[0].splitlines()]


def recorded_at(folder: Path, *samples: tuple[int, list[tuple[int, int]]]) -> Path:
    """Record samples at these addresses with these branches, of 9 cycles the newest, 3 the others, and callchains of two functions."""
    kinds = USUAL | SampleType.BRANCH_STACK | SampleType.CALLCHAIN
    attr = usual_attr(kinds, type=0, branch_sample_type=BranchSample.ANY | BranchSample.USER, mmap=1, comm=1)
    built = PerfDataBuilder(attrs=[attr])
    who = SampleId(pid=40, tid=40, time=1)
    built.record(records.Comm(0x2000, 40, 40, "work", who))
    built.record(records.Mmap2(2, 40, 40, 0x400000, 0x1000, 0, 8, 1, 99, 0, 5, 2, "/tmp/c/work", b"", who))
    for number, (ip, ends) in enumerate(samples):
        branches = [(*pair, (3 if index else 9) << 4) for index, pair in enumerate(ends)]
        chain = [ip, SPIN + INNER - ip]
        built.sample(misc=2, ip=ip, pid=40, tid=40, time=10 + number, period=1, branch_stack=branches, callchain=chain)
    built.feature(Feature.ARCH, "x86_64").feature(Feature.BRANCH_STACK, b"")
    path = folder / "perf.data"
    path.write_bytes(built.feature(Feature.EVENT_DESC, (EventDesc(attr, "cycles:u", ()),)).file())
    return path


NAMELESS = 0x500123  # outside of the mapping


def test_filters_of_branches_look_at_their_samples(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Those of a sample in another function are hidden, wherever they lead, and with them the row that it began."""
    path = recorded_at(tmp_path, (INNER, [CALL]), (SPIN, [CALL, CALL, LOOP]))
    assert [row.split() for row in branch_rows(path, capfd, "-s", "cycles", "-S", "spin,nothing")] == [["50.00%", "3"]]
    assert [row.split() for row in branch_rows(path, capfd, "-s", "cycles", "-S", "inner,nothing")] == [["50.00%", "9"]]


def test_unresolved_samples_and_branches_are_hidden(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = recorded_at(tmp_path, (NAMELESS, [CALL]), (SPIN, [LOOP, (NAMELESS, SPIN), (SPIN, NAMELESS)]))
    assert [row.split()[0] for row in branch_rows(path, capfd, "-s", "comm", "-U")] == ["100.00%"]
    assert [row.split()[:3] for row in branch_rows(path, capfd, "-s", "cpu", "-n", "-U")] == [["100.00%", "1", "-001"]]


def test_the_weight_of_branches_is_the_cycles_of_the_newest(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = recorded_at(tmp_path, (SPIN, [CALL, CALL, LOOP]))
    assert [row.split() for row in branch_rows(path, capfd, "-s", "local_weight,cycles")] == [["66.67%", "9", "3"], ["33.33%", "9", "9"]]


def test_addresses_of_branches_are_those_in_memory(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = recorded_at(tmp_path, (SPIN, [(SPIN, 0x400010)]))
    assert branch_rows(path, capfd, "-s", "sym") == ["100.00%  [.] 0x0000000000400010"]
    assert branch_rows(path, capfd, "-s", "symbol_to")[0].split()[:3] == ["100.00%", "[.]", "0x0000000000000010"]


def test_branches_have_the_parents_of_their_samples(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = recorded_at(tmp_path, (SPIN, [CALL, CALL, CALL]), (INNER, [LOOP]))
    for order, first in (("callee", "spin"), ("caller", "inner")):
        rows_of = branch_rows(path, capfd, "-s", "parent", "-p", "spin|inner", "-g", order)
        assert rows_of[0].split() == ["75.00%", first]
    assert [row.split()[0] for row in branch_rows(path, capfd, "-s", "cpu", "--ignore-callees", "inner")] == ["100.00%"]


def test_a_block_is_the_longest_with_the_cycles_of_all(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    actual_rows = rows(recorded(tmp_path, [(LOOP, 8), (CALL, 5)], [(LOOP, 6), (LOOP, 8)]), capfd)
    # 8 + 6 + 8 of 27 cycles; 7 at a time; perf's 100 % of these counts a block for each way into its function: 8, 6 and 5 cycles
    assert [row[:4] for row in actual_rows] == [["81.48%", "22", "33.33%", "7"]]
    assert actual_rows[0][4].split() == ["[spin+0", "->", "spin+55]", "work"]


def test_samples_whose_last_branch_has_no_cycles_are_not_counted(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    actual_rows = rows(recorded(tmp_path, [(LOOP, 8), (CALL, 2)], [(LOOP, 0), (LOOP, 500)]), capfd)
    assert [row[:2] for row in actual_rows] == [["80.00%", "8"]]


def test_beginnings_are_unknown_if_some_branches_were_not_recorded(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The block then begins at the function's first instruction."""
    branches = [(LOOP, 8), (LOOP, 8)]
    for kind, first in ((BranchSample.ANY, "[spin+12"), (BranchSample.COND, "[spin+0")):
        assert rows(recorded(tmp_path, branches, kind=kind), capfd)[0][4].split()[0] == first


def test_thousands_and_millions(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    long = [(LOOP, 65535)] * 20
    assert rows(recorded(tmp_path, long), capfd)[0][1:4] == ["1.3M", "100.00%", "65.5K"]
