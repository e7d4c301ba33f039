"""Tests of callchain lines: equal callchains are formatted once."""

from typing import Any

import numpy as np
import pytest

from perfpy.abi.columns import Ragged
from perfpy.symbols.interning import IdTable
from perfpy.views.script import event_lines
from perfpy.views.script.event_lines import KnownChains


class Timeline:
    """A timeline on which every process maps something at 100 ns."""

    def __init__(self) -> None:
        self.tasks = IdTable()

    def ranks(self, key: Any) -> Any:
        return (key >= 100).astype(np.int32)

    def first_and_last_rank(self, key: Any) -> tuple[int, int]:
        return int(key.min() >= 100), int(key.max() >= 100)

    def space_states(self, pid: Any, rank: Any) -> Any:
        return (pid.astype(np.int64) * 2 + rank).astype(np.int32)

    def kernel_states(self, rank: Any) -> Any:
        return np.zeros(len(rank), np.int32)


def lines(known: KnownChains, samples: list[tuple[int, int, list[int]]], made: list[bytes]) -> list[bytes]:
    """Return the lines of samples of (pid, key, chain), which are their text; appends new lines to made."""

    def make(rows: Any) -> list[bytes]:
        texts = [b"%d %d %s" % (samples[row][0], samples[row][1] >= 100, str(samples[row][2]).encode()) for row in rows.tolist()]
        made.extend(texts)
        return texts

    pid, key = (np.array(values, dtype) for values, dtype in zip(list(zip(*samples, strict=True))[:2], (np.int32, np.uint64), strict=True))
    chains = [chain for _, _, chain in samples]
    words = np.array([word for chain in chains for word in chain], np.uint64)
    return known.lines(Ragged(words, np.cumsum([0, *map(len, chains)])), pid, key, make)


@pytest.mark.parametrize("most", [1 << 25, 12])
def test_lines_are_formatted_once_and_again_after_eviction(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_lines, "_MOST_BYTES", most)
    chains, result = KnownChains(Timeline()), list[bytes]()  # type: ignore[arg-type]
    samples = [(1, 5, [7, 8]), (1, 5, [8, 7]), (2, 5, [7, 8]), (1, 6, [7, 8]), (1, 100, [7, 8]), (1, 5, []), (2, 99, [7, 8])]
    expected = [b"%d %d %s" % (pid, key >= 100, str(chain).encode()) for pid, key, chain in samples]
    assert lines(chains, samples, result) == expected
    assert len(result) == len(set(expected)) == 5
    assert lines(chains, samples, result) == expected
    assert len(result) == (5 if most > 100 else 10)
