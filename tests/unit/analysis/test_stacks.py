"""The prefix tree of stacks: shape, order, weights, and two merged profiles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfpy.abi.flags import CONTEXT_USER, MISC_USER, SampleType
from perfpy.abi.records import Comm, SampleId, Switch
from perfpy.analysis.differences import match_names
from perfpy.analysis.filters import SampleFilter
from perfpy.analysis.stacks import Function, SampleColumns, StackOptions, Stacks, StackTree
from perfpy.perfdata.records.stream import RecordStream
from perfpy.recording import Recording
from perfpy.symbols.demangling.short_names import without_instance
from perfpy.views.page.profile_data import profile_data
from perfpy.views.stacks.exports import folded_lines
from tests.builders.elf import Elf
from tests.builders.perfdata import USUAL, PerfDataBuilder, usual_attr
from tests.builders.stacks import stacks
from tests.builders.timeline import mmap

if TYPE_CHECKING:
    from pathlib import Path


def drawn(tree: StackTree) -> list[str]:
    """Return the tree as indented lines with the weights of stacks that end there."""
    own = zip(*(column.tolist() for column in tree.own), strict=True)
    rows = zip(tree.depth.tolist(), tree.name.tolist(), own, strict=True)
    return ["  " * depth + tree.names[name].name + "".join(f" {w:g}" for w in weights) for depth, name, weights in rows]


def test_stacks_share_their_outer_functions() -> None:
    tree = StackTree.build(stacks("sh;main;b 2\nsh;main;a;c 3\nsh;main 1\nls;main;a 4"))
    assert drawn(tree) == ["ls 0", "  main 0", "    a 4", "sh 0", "  main 1", "    a 0", "      c 3", "    b 2"]
    assert tree.totals == (10,)


def test_two_profiles_are_laid_over_one_another() -> None:
    tree = StackTree.build(stacks("sh;main;a 2"), stacks("sh;main;b 5\nsh;main;a 1"))
    assert drawn(tree) == ["sh 0 0", "  main 0 0", "    a 2 1", "    b 0 5"]
    assert tree.totals == (2, 6)


def test_a_stack_of_nothing_but_its_command_counts() -> None:
    assert drawn(StackTree.build(stacks("sh 7"))) == ["sh 7"]


def test_a_tree_of_few_nodes_keeps_heavy_stacks_and_the_innermost_functions_of_all() -> None:
    lines = ["sh;main;hot;leaf 1000", *(f"sh;main;f{number};g{number % 7};h;leaf{number % 3} 1" for number in range(400))]
    whole, small = (StackTree.build(stacks("\n".join(lines)), most=most) for most in (0, 100))
    assert not whole.rare.any()
    assert len(whole.name) > 1200
    assert len(small.name) < 200
    assert [small.totals[0], whole.totals[0]] == [1400, 1400]
    assert 0 < int(small.rare.sum()) <= 400
    assert int(small.rare[0]) == 0
    main = next(i for i, name in enumerate(small.name.tolist()) if small.names[name].name == "main")
    assert sum(small.own[0][main:].tolist()) == 1400  # outer functions keep the samples
    assert "      leaf 1000" in drawn(small)
    assert sums_of_leaves(small) == sums_of_leaves(whole)


def sums_of_leaves(tree: StackTree) -> dict[str, float]:
    """The weight of each function itself."""
    sums: dict[str, float] = {}
    for name, own in zip(tree.name.tolist(), tree.own[0].tolist(), strict=True):
        if own:
            sums[tree.names[name].name] = sums.get(tree.names[name].name, 0.0) + own
    return sums


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.lists(st.sampled_from("abc"), max_size=5), st.integers(1, 9)), min_size=1, max_size=12))
def test_paths_back_from_the_tree_are_the_rows_merged(rows: list[tuple[list[str], int]]) -> None:
    tree = StackTree.build(stacks("\n".join(f"{';'.join(['x', *path])} {weight}" for path, weight in rows)))
    want: dict[tuple[str, ...], int] = {}
    for path, weight in rows:
        want[("x", *path)] = want.get(("x", *path), 0) + weight
    got, path = {}, []
    for depth, name, weight in zip(tree.depth.tolist(), tree.name.tolist(), tree.own[0].tolist(), strict=True):
        path[depth:] = [tree.names[name].name]
        if weight:
            got[tuple(path)] = weight
    assert got == want


# Whole stacks of a recording: with filters, by CPU time or by the wall clock.


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    """Record one thread for two samples; then a second one runs beside it."""
    built = PerfDataBuilder()
    for tid, name in ((7, "first"), (8, "second")):
        built.record(Comm(0, 7, tid, name, SampleId(pid=7, tid=tid, time=1)))
    steps: list[Any] = [(10, 7), (20, 7), Switch(0, SampleId(pid=7, tid=8, time=30)), (40, 7), (50, 8)]
    for step in steps:
        if type(step) is tuple:
            built.sample(pid=7, tid=step[1], time=step[0], ip=0x1000, period=100, misc=2)
        else:
            built.record(step)
    path = tmp_path / "perf.data"
    path.write_bytes(built.file())
    return Recording(path)


def lines(recording: Recording, options: StackOptions | None = None) -> list[str]:
    return [line for part in recording.stacks(options=options) for line in folded_lines(part)]


def test_every_sample_is_in_a_stack(recording: Recording) -> None:
    assert lines(recording) == ["first;[unknown] 300", "second;[unknown] 100"]


@pytest.mark.parametrize("timed", [False, True])
def test_filters_omit_samples(recording: Recording, timed: bool) -> None:
    assert lines(recording, StackOptions(SampleFilter(comms=("second",)), timed=timed)) == ["second;[unknown] 100"]
    assert lines(recording, StackOptions(SampleFilter(tids=(7,)), timed=timed)) == ["first;[unknown] 300"]
    assert lines(recording, StackOptions(SampleFilter(symbols=("main",)), timed=timed)) == []
    assert lines(recording, StackOptions(SampleFilter(symbol_part="mai"), timed=timed)) == []
    assert lines(recording, StackOptions(SampleFilter(parallelism=(2,)), timed=timed)) == ["first;[unknown] 100", "second;[unknown] 100"]


def test_single_samples_pass_the_filters(recording: Recording) -> None:
    (part,) = recording.stacks(options=StackOptions(sample_filter=SampleFilter(comms=("second",)), timed=True))
    assert part.timed is not None
    assert part.timed.time.tolist() == [50]


def test_shares_of_the_wall_clock_are_less_where_two_threads_ran(recording: Recording) -> None:
    assert lines(recording, StackOptions(latency=True)) == ["first;[unknown] 250", "second;[unknown] 50"]
    assert recording.stacks(options=StackOptions(latency=True))[0].event.endswith("(wall clock)")


def test_single_samples_have_their_shares_of_the_wall_clock(recording: Recording) -> None:
    assert lines(recording, StackOptions(timed=True, latency=True)) == lines(recording, StackOptions(latency=True))
    (part,) = recording.stacks(options=StackOptions(timed=True, latency=True))
    assert part.timed is not None
    assert list(zip(part.timed.time.tolist(), part.timed.weight.tolist(), strict=True)) == [(10, 100), (20, 100), (40, 50), (50, 50)]


# Single samples as columns: all of them, or merged if they differ only in time.


def alike(times: list[int], rows: list[int], weights: list[int]) -> SampleColumns:
    """Return samples of one thread."""
    return SampleColumns(np.array(rows, np.int32), np.array(times), np.zeros(len(times), np.int32), np.array(weights))


def test_samples_of_one_row_within_a_tick_are_one() -> None:
    flags = alike([1005, 1010, 1100, 1105, 1999], [0, 1, 0, 0, 0], [1, 2, 3, 4, 5]).within(100, 1005)
    assert flags.time.tolist() == [1005, 1005, 1105, 1905]
    assert flags.row.tolist() == [0, 1, 0, 0]
    assert flags.weight.tolist() == [4, 2, 4, 5]
    assert flags.samples is not None
    assert flags.samples.tolist() == [2, 1, 1, 1]


@pytest.fixture
def single_sample_recording(tmp_path: Path) -> Path:
    """Three functions in turns, on two CPUs, 3,000 samples in three seconds."""
    built = PerfDataBuilder([usual_attr(USUAL | SampleType.CALLCHAIN | SampleType.CPU, sample_id_all=1)])
    for number in range(3000):
        ip = 0x400000 + 0x1000 * (number % 3)
        where = {"pid": 7, "tid": 7, "cpu": number % 2, "time": 1_000_000 * (number + 1)}
        built.sample(misc=MISC_USER, ip=ip, period=1 + number % 5, callchain=[CONTEXT_USER, ip], **where)
    path = tmp_path / "perf.data"
    path.write_bytes(built.file())
    return path


def test_few_samples_stay_unchanged(single_sample_recording: Path) -> None:
    with Recording(single_sample_recording) as opened:
        (part,) = opened.stacks(options=StackOptions(timed=True, most_samples=3000))
    assert part.timed is not None
    assert part.timed.count is None
    assert len(part.timed.time) == 3000


def test_above_the_limit_equal_samples_are_merged(single_sample_recording: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RecordStream.__init__, "__kwdefaults__", {"chunk_size": 8192})
    with Recording(single_sample_recording) as opened:
        (whole,) = opened.stacks(options=StackOptions(timed=True))
        (part,) = opened.stacks(options=StackOptions(timed=True, most_samples=200))
    assert whole.timed is not None
    assert part.timed is not None
    assert part.timed.count is not None
    assert len(part.timed.time) <= 2 * 200
    assert int(part.timed.count.sum()) == 3000
    assert (part.timed.time[1:] >= part.timed.time[:-1]).all()
    for cpu in (0, 1):
        here, all_here = part.timed.cpu == cpu, whole.timed.cpu == cpu
        assert int(part.timed.weight[here].sum()) == int(whole.timed.weight[all_here].sum())
        for chain in set(whole.timed.chain.tolist()):
            is_kept, there = here & (part.timed.chain == chain), all_here & (whole.timed.chain == chain)
            assert int(part.timed.weight[is_kept].sum()) == int(whole.timed.weight[there].sum())
    assert profile_data([[part]])["together"] == 1
    assert profile_data([[whole]])["together"] == 0


def shares(part: Stacks) -> tuple[dict[Function, int], dict[Function, int]]:
    """Return the weight of each function itself and with what it calls, by single samples."""
    assert part.timed is not None
    own: dict[Function, int] = {}
    whole: dict[Function, int] = {}
    for chain, weight in zip(part.timed.chain.tolist(), part.timed.weight.tolist(), strict=True):
        stack = [part.functions[number] for number in part.frames[part.offsets[chain] : part.offsets[chain + 1]].tolist()]
        own[stack[0]] = own.get(stack[0], 0) + weight
        for function in set(stack):
            whole[function] = whole.get(function, 0) + weight
    return own, whole


def test_many_stacks_of_a_recursion_become_few_with_the_same_shares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two functions call each other in 3,000 ways, and one stack is frequent: it stays whole."""
    monkeypatch.setattr(RecordStream.__init__, "__kwdefaults__", {"chunk_size": 1 << 16})
    text = Elf().segment(0x1000, 0x1000, 0x1000).text(0x1000, offset=0x1000, size=0x1000)
    binary = tmp_path / "program"
    binary.write_bytes(text.symbol("main", 0x1000, 0x100).symbol("even", 0x1100, 0x100).symbol("odd", 0x1200, 0x100).build())
    built = PerfDataBuilder([usual_attr(USUAL | SampleType.CALLCHAIN | SampleType.CPU, mmap=1)])
    built.record(mmap(7, 0x1000, 0x1000, str(binary), pgoff=0x1000))
    main, even, odd = 0x1010, 0x1110, 0x1210
    for number in range(3000):
        stack = [even, odd, even, main] if number % 4 == 0 else [*((odd if number >> bit & 1 else even) for bit in range(12)), main]
        chain = [CONTEXT_USER, *stack]
        built.sample(misc=MISC_USER, ip=stack[0], period=1 + number % 5, callchain=chain, pid=7, tid=7, cpu=0, time=1000 * (number + 1))
    path = tmp_path / "perf.data"
    path.write_bytes(built.file())
    with Recording(path) as opened:
        (whole,) = opened.stacks(options=StackOptions(timed=True))
        (part,) = opened.stacks(options=StackOptions(timed=True, most_chains=100))
    assert len(whole.offsets) > 2000
    assert len(part.offsets) < 100
    assert shares(part) == shares(whole)
    assert {function.name for function in shares(part)[1]} == {"main", "even", "odd"}
    bounds = zip(part.offsets.tolist(), part.offsets[1:].tolist(), strict=False)
    names = [[part.functions[number].name for number in part.frames[begin:end].tolist()] for begin, end in bounds]
    assert ["even", "odd", "even", "main"] in names, "the frequent stack has all its calls"


# Stacks of two recordings match if only names, or depths of recursion, differ.


def matching_stacks(comm: str, dso: str, *chains: tuple[str, ...]) -> Stacks:
    """Return stacks with one sample a chain, the innermost function first."""
    names = sorted({name for chain in chains for name in chain})
    frames = [names.index(name) for chain in chains for name in chain]
    offsets = np.concatenate([[0], np.cumsum([len(chain) for chain in chains])]).astype(np.int64)
    rows = np.arange(len(chains), dtype=np.int32)
    functions = [Function(name, dso) for name in names]
    weight = np.full(len(chains), 10, np.uint64)
    zeros, ones = np.zeros(len(chains), np.int32), np.ones(len(chains), np.int64)
    return Stacks("cycles", functions, np.array(frames, np.int32), offsets, [comm], rows, zeros, weight, ones)


def paths(before: Stacks, after: Stacks, **options: object) -> list[tuple[str, list[float]]]:
    """Return each node of the merged tree: its name, and its own weight before and after."""
    first, second = match_names([before], [after], **options)  # type: ignore[arg-type]
    tree = StackTree.build(first[0], second[0])
    return [(tree.names[name].name, [own[node] for own in tree.own]) for node, name in enumerate(tree.name)]


def test_frames_match_where_only_the_program_is_called_differently() -> None:
    actual_paths = paths(matching_stacks("old", "old", ("work", "main")), matching_stacks("new", "new", ("work", "main")))
    assert actual_paths == [("old → new", [0, 0]), ("main", [0, 0]), ("work", [10, 10])]


def test_matching_can_be_disabled() -> None:
    actual_paths = paths(matching_stacks("old", "old", ("work",)), matching_stacks("new", "new", ("work",)), ignore_comm=False)
    assert actual_paths == [("new", [0, 0]), ("work", [0, 10]), ("old", [0, 0]), ("work", [10, 0])]


@pytest.mark.parametrize("depth", [1, 2, 7])
def test_recursion_depth_does_not_separate_callers(depth: int) -> None:
    once = matching_stacks("a", "a", ("leaf", "walk", "main"))
    deep = matching_stacks("a", "a", ("leaf", *["walk"] * depth, "main"), ("walk",) * depth)
    assert paths(once, deep) == [("a", [0, 0]), ("main", [0, 0]), ("walk", [0, 0]), ("leaf", [10, 10]), ("walk", [0, 10])]


def test_instances_of_a_template_are_one_function() -> None:
    names = [f"void fill<{kind}>(std::vector<{kind}, std::allocator<{kind} > >&)" for kind in ("int", "double")]
    before, after = matching_stacks("a", "a", (names[0], "main")), matching_stacks("a", "a", (names[1], "main"))
    assert paths(before, after, name=without_instance) == [("a", [0, 0]), ("main", [0, 0]), ("fill<…>(…)", [10, 10])]
    assert len(paths(before, after)) == 4


def test_chains_without_frames_stay() -> None:
    empty = matching_stacks("a", "a", (), ("main", "main"), ())
    assert paths(empty, empty) == [("a", [20, 20]), ("main", [10, 10])]
