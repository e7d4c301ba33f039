"""Intervals become equivalent samples."""

from __future__ import annotations

import numpy as np
import pytest

from perfpy.abi.columns import Ragged
from perfpy.abi.flags import CONTEXT_KERNEL, CONTEXT_USER, MISC_KERNEL, MISC_USER, NATIVE_ENDIAN
from perfpy.abi.recorded_marks import IS_WAIT, WOKEN_BY_THREAD
from perfpy.abi.sample_decoding import SampleLayout
from perfpy.capture.off_cpu import TIME_ATTR
from perfpy.capture.unwinding.serving import chunk_of
from perfpy.capture.unwinding.waits import records, sum_short_waits
from perfpy.scheduling.intervals import INTERVAL, Intervals

BOTH = [CONTEXT_KERNEL, 0xFFFFFFFF81000010, CONTEXT_USER, 0x401000, 0x402000]
KERNEL = [CONTEXT_KERNEL, 0xFFFFFFFF81000010]


def waits(*given: tuple[int, int, int], stacks: list[list[int]] | None = None) -> Intervals:
    """(end, duration, index of the stack) of thread 8 of process 7."""
    rows = np.zeros(len(given), INTERVAL)
    for number, (end, duration, stack) in enumerate(given):
        rows[number] = (7, 8, 1, end, duration, ord("S"), 99, WOKEN_BY_THREAD, stack)
    chains = [BOTH, KERNEL] if stacks is None else stacks
    offsets = np.concatenate([[0], np.cumsum([len(chain) for chain in chains])]).astype(np.int64)
    return Intervals(rows, Ragged(np.array([value for chain in chains for value in chain], np.uint64), offsets))


def decoded(data: bytes):
    chunk = chunk_of(np.frombuffer(data, np.uint8))
    return SampleLayout(TIME_ATTR, NATIVE_ENDIAN).decode(chunk.data, chunk.starts)


def test_a_sample_has_all_that_is_known_of_the_wait():
    columns = decoded(records(waits((5000, 300, 0)), 42))
    results = {name: columns[name].tolist() for name in ("identifier", "ip", "pid", "tid", "time", "cpu", "period", "cpumode")}
    assert results == {
        "identifier": [42], "ip": [0x401000], "pid": [7], "tid": [8], "time": [5000], "cpu": [1], "period": [300], "cpumode": [MISC_USER],
    }  # fmt: skip
    assert columns["callchain"][0].tolist() == BOTH
    assert (columns["weight"][0], columns["ins_lat"][0], columns["retire_lat"][0]) == (99, ord("S"), IS_WAIT | WOKEN_BY_THREAD)


@pytest.mark.parametrize(("stack", "ip"), [(1, KERNEL[1]), (-1, 0)])
def test_without_a_user_part_it_lies_in_the_kernel(stack, ip):
    columns = decoded(records(waits((5000, 300, stack)), 42))
    assert (columns["ip"][0], columns["cpumode"][0]) == (ip, MISC_KERNEL)


def test_samples_are_in_order_of_time_each_with_its_own_chain():
    columns = decoded(records(waits((30, 1, 0), (10, 2, -1), (20, 3, 1)), 42))
    assert columns["time"].tolist() == [10, 20, 30]
    assert [chain.tolist() for chain in columns["callchain"]] == [[], KERNEL, BOTH]


def test_a_chain_longer_than_a_record_is_truncated():
    long = [CONTEXT_USER, *range(1, 9000)]
    columns = decoded(records(waits((10, 1, 0), (20, 1, 1), stacks=[long, BOTH]), 42))
    assert columns["callchain"][0].tolist() == long[: len(columns["callchain"][0])]
    assert len(columns["callchain"][0]) > 8000
    assert columns["callchain"][1].tolist() == BOTH


def test_short_waits_that_are_alike_are_one_and_long_ones_stay():
    result = sum_short_waits(waits((10, 100, 0), (20, 200, 0), (30, 300, 1), (40, 1000, 0), (50, 50, 0)), 1000)
    assert sorted((int(r["end"]), int(r["duration"]), int(r["stack"])) for r in result.rows) == [(30, 300, 1), (40, 1000, 0), (50, 350, 0)]


def test_equal_chains_are_alike_wherever_they_stand():
    result = sum_short_waits(waits((10, 100, 0), (20, 200, 1), stacks=[BOTH, list(BOTH)]), 1000)
    assert [int(r["duration"]) for r in result.rows] == [300]


def test_chains_that_differ_in_order_alone_are_two():
    assert len(sum_short_waits(waits((10, 100, 0), (20, 200, 1), stacks=[[CONTEXT_USER, 1, 2], [CONTEXT_USER, 2, 1]]), 1000).rows) == 2


def test_other_wakers_and_states_are_kept_separate():
    three = waits((10, 100, 0), (20, 200, 0), (30, 300, 0))
    three.rows["waker"][1], three.rows["state"][2] = 5, ord("D")
    assert len(sum_short_waits(three, 1000).rows) == 3


def test_no_waits_are_no_records():
    assert records(sum_short_waits(waits(), 1000), 42) == b""
