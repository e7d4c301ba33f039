"""Who has the GIL, by the addresses of Python frames."""

from __future__ import annotations

import numpy as np

from perfpy.abi.columns import Ragged
from perfpy.abi.python_code import FIRST_ADDRESS, MAPPED_SIZE, GilState, mapping_of
from perfpy.analysis.samples.dimensions import gil_states

NATIVE = 0x7F00_0000_0000


def states(*chains: list[int]) -> list[int]:
    offsets = np.cumsum([0, *map(len, chains)])
    values = [value for chain in chains for value in chain]
    result: list[int] = gil_states(Ragged(np.array(values, np.uint64), offsets.astype(np.int64))).tolist()
    return result


def test_the_innermost_python_frame_has_the_state():
    assert [states([NATIVE, mapping_of(state) + 0x20, NATIVE, FIRST_ADDRESS + 0x40])[0] for state in GilState] == [0, 1, 2, 3]


def test_chains_without_python_have_none():
    assert states([], [NATIVE], [FIRST_ADDRESS - 1, (1 << 64) - 512], [mapping_of(GilState.WAITS) + 5], []) == [0, 0, 0, 3, 0]
    assert states([FIRST_ADDRESS + len(GilState) * MAPPED_SIZE]) == [0]
    assert states() == []


def test_every_state_has_its_own_mapping():
    ends = [mapping_of(state) + MAPPED_SIZE for state in GilState]
    assert [mapping_of(state) for state in GilState] == [FIRST_ADDRESS, *ends[:-1]]
