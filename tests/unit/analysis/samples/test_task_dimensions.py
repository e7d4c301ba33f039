"""The states of tasks at the moments of samples."""

from typing import Any

import numpy as np
import pytest

from perfpy.abi.flags import MISC_KERNEL, MISC_USER
from perfpy.analysis.samples.task_dimensions import TaskStates
from perfpy.symbols.interning import IdTable


class Timeline:
    """A record that matters every 100 ns; comms are those of the thread from the third on, spaces change with each."""

    def __init__(self) -> None:
        self.tasks = IdTable()

    def ranks(self, key: Any) -> Any:
        return (key // np.uint64(100)).astype(np.int32)

    def first_and_last_rank(self, key: Any) -> tuple[int, int]:
        ranks = self.ranks(key)
        return int(ranks.min()), int(ranks.max())

    def comm_states(self, tid: Any, rank: Any) -> Any:
        return tid.astype(np.int64) * (rank > 2)

    def space_states(self, pid: Any, rank: Any) -> Any:
        return (pid.astype(np.int64) * 10 + rank).astype(np.int32)

    def kernel_states(self, rank: Any) -> Any:
        return (rank > 3).astype(np.int32)


def states(timeline: Timeline, pid: list[int], tid: list[int], key: list[int]) -> TaskStates:
    return TaskStates(timeline, np.array(pid, np.int32), np.array(tid, np.int32), np.array(key, np.uint64))  # type: ignore[arg-type]


@pytest.mark.parametrize("keys", [lambda i: 10, lambda i: 350, lambda i: 7 * i, lambda i: 700 - 7 * i])
@pytest.mark.parametrize("length", [1, 5, 40], ids=["each another task", "short runs", "long runs"])
def test_each_sample_has_the_state_of_its_task_at_its_moment(keys: Any, length: int) -> None:
    timeline = Timeline()
    for _ in range(2):  # the second batch finds its tasks known
        pid, tid, key = [i // length % 3 - 1 for i in range(100)], [i // length % 6 for i in range(100)], [keys(i) for i in range(100)]
        actual_states = states(timeline, pid, tid, key)
        rank = [one // 100 for one in key]
        assert actual_states.comm().tolist() == [one * (at > 2) for one, at in zip(tid, rank, strict=True)]
        mode = np.array([MISC_KERNEL if i % 2 else MISC_USER for i in range(100)], np.uint8)
        user = [(one % (1 << 32) * 10 + at) % (1 << 32) for one, at in zip(pid, rank, strict=True)]
        expected = [int(rank[i] > 3) if i % 2 else user[i] for i in range(100)]
        assert (actual_states.mode_space(mode) % (1 << 32)).tolist() == expected


@pytest.mark.parametrize("names", [("comm",), ("comm", "mode_space"), ("mode_space",), ("space",), ("comm", "space")])
def test_numbers_for_several_are_equal_where_all_of_these_are(names: tuple[str, ...]) -> None:
    random = np.random.default_rng(1)
    pid, tid, key = (random.integers(0, most, 300).tolist() for most in (3, 5, 700))
    mode = random.choice([MISC_KERNEL, MISC_USER], 300).astype(np.uint8)
    actual_states = states(Timeline(), pid, tid, key)
    ways = {"comm": actual_states.comm(), "mode_space": actual_states.mode_space(mode), "space": actual_states.space()}
    expected = list(zip(*(ways[name].tolist() for name in names), strict=True))
    numbers = actual_states.combine(names, mode).tolist()
    assert len(set(numbers)) == len(set(expected)) == len(set(zip(numbers, expected, strict=True)))
