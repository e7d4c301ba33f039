"""Callchains from branch records: with_callstacks, and reports of recordings made with `--call-graph lbr`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import perfpy
from perfpy.abi import records
from perfpy.abi.columns import Ragged
from perfpy.abi.flags import CONTEXT_KERNEL, CONTEXT_USER, BranchSample, SampleType
from perfpy.abi.samples.branches import BRANCH_DTYPE
from perfpy.analysis.callchains.lbr_callchains import with_callers_beyond, with_callstacks
from tests.builders.perfdata import USUAL, PerfDataBuilder, usual_attr

if TYPE_CHECKING:
    from pathlib import Path

CODE = 0x400000


def chains_of(*rows: list[int]) -> Ragged:
    return Ragged(np.array([address for row in rows for address in row], np.uint64), np.cumsum([0, *map(len, rows)]))


def branches_of(*rows: list[tuple[int, int]]) -> Ragged:
    entries = [(source, target, 0) for row in rows for source, target in row]
    return Ragged(np.array(entries, BRANCH_DTYPE), np.cumsum([0, *map(len, rows)]))


def as_lists(chains: Ragged) -> list[list[int]]:
    return [row.tolist() for row in chains]


def test_the_user_part_is_the_newest_target_and_where_the_calls_came_from() -> None:
    chains = chains_of([CONTEXT_KERNEL, 1, CONTEXT_USER, 2, 3])
    branches = branches_of([(11, 10), (21, 20)])
    assert as_lists(with_callstacks(chains, branches)) == [[CONTEXT_KERNEL, 1, CONTEXT_USER, 10, 11, 21]]


def test_chains_without_a_user_part_and_samples_without_branches_stay() -> None:
    rows: list[list[int]] = [[CONTEXT_KERNEL, 1], [CONTEXT_USER, 2], [], [CONTEXT_USER, 3]]
    branches = branches_of([(11, 10)], [], [(11, 10)], [(31, 30)])
    assert as_lists(with_callstacks(chains_of(*rows), branches)) == [*rows[:3], [CONTEXT_USER, 30, 31]]


def test_the_first_of_two_user_markers_counts() -> None:
    chains = chains_of([CONTEXT_USER, 1, CONTEXT_USER, 2])
    assert as_lists(with_callstacks(chains, branches_of([(11, 10)]))) == [[CONTEXT_USER, 10, 11]]


def test_branches_of_rows_that_are_not_chosen_are_no_call_stacks() -> None:
    chains, branches = chains_of([CONTEXT_USER, 1], [CONTEXT_USER, 2]), branches_of([(11, 10)], [(21, 20)])
    result = with_callstacks(chains, branches, np.array([False, True]))
    assert as_lists(result) == [[CONTEXT_USER, 1], [CONTEXT_USER, 20, 21]]
    assert with_callstacks(chains, branches, np.array([False, False])) is chains


def test_beyond_the_recorded_calls_come_the_callers_of_the_stack() -> None:
    whole = chains_of([CONTEXT_KERNEL, 1, CONTEXT_USER, 0x100, 0x204, 0x304, 0x404, 0x504])
    branches = branches_of([(0x200, 0x100), (0x300, 0x200)])
    columns = with_callstacks(whole, branches)
    result = with_callers_beyond(columns, branches, whole, np.array([True]))
    assert as_lists(result) == [[CONTEXT_KERNEL, 1, CONTEXT_USER, 0x100, 0x200, 0x300, 0x404, 0x504]]


def test_calls_unknown_to_the_stack_stay_without_callers() -> None:
    whole = chains_of([CONTEXT_USER, 0x100, 0x204], [CONTEXT_USER, 0x100, 0x204, 0x304], [CONTEXT_USER, 0x100, 0x204, 0x304])
    branches = branches_of([(0x900, 0x100)], [(0x200, 0x100)], [])
    result = with_callstacks(whole, branches)
    rows = [[CONTEXT_USER, 0x100, 0x900], [CONTEXT_USER, 0x100, 0x200], [CONTEXT_USER, 0x100, 0x204, 0x304]]
    assert as_lists(with_callers_beyond(result, branches, whole, np.array([True, False, True]))) == rows


def recording(call_stack: int) -> PerfDataBuilder:
    sampled = USUAL | SampleType.CALLCHAIN | SampleType.BRANCH_STACK
    built = PerfDataBuilder(attrs=[usual_attr(sampled, branch_sample_type=BranchSample.USER | call_stack)])
    built.record(records.Comm(0, 7, 7, "prog"))
    built.record(records.Mmap(0, 7, 7, CODE, 0x10000, 0, "/bin/prog"))
    chain, stack = [CONTEXT_USER, CODE + 0x10, CODE + 0x999], [(CODE + 0x200, CODE + 0x10, 0), (CODE + 0x300, CODE + 0x180, 0)]
    return built.sample(ip=CODE + 0x10, pid=7, tid=7, time=5, period=1, misc=2, callchain=chain, branch_stack=stack)


def in_chains(path: Path) -> list[int]:
    """Return the addresses of a report's rows that come from callchains only (samples in missing files count by offset)."""
    with perfpy.open(path) as recorded:
        rows = recorded.report(by=["symbol"], callers=True).top(10)
        return sorted(int(row.texts["symbol"].split()[-1], 16) for row in rows if not row.values["samples"][0])


def test_a_report_takes_callers_from_recorded_call_stacks(tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(recording(BranchSample.CALL_STACK).file())
    assert in_chains(path) == [CODE + 0x10, CODE + 0x200, CODE + 0x300]


def test_other_branch_records_are_no_callers(tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(recording(0).file())
    assert in_chains(path) == [CODE + 0x10, CODE + 0x999]
