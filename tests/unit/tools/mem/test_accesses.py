"""Tests that accesses count where perf counts them; tests/versus_perf/test_memory_accesses.py compares thousands."""

from __future__ import annotations

import numpy as np
import pytest

from perfpy.tools.mem.accesses import KINDS, KindCounts, count_kinds
from tests.builders import memory_accesses as built
from tests.builders.memory_accesses import data_src


def counted(word: int, *, address: int = 0x600008, is_mapped: bool = True) -> dict[str, int]:
    words = count_kinds(np.array([word], np.uint64), np.array([address], np.uint64), np.array([is_mapped]))
    counts = KindCounts(words, np.zeros(1, np.int64), 1)
    return {name: int(counts[name][0]) for name in KINDS if counts[name][0]}


@pytest.mark.parametrize(
    ("word", "kinds"),
    [
        (data_src(level=built.HIT | built.L1), {"load": 1, "load_l1": 1}),
        (data_src(level=built.HIT | built.L3, snoop=built.SNOOP_HITM), {"load": 1, "local_hitm": 1}),
        (data_src(level=built.HIT | built.L3), {"load": 1, "load_llc": 1}),
        (data_src(level=built.HIT | built.REMOTE_CACHE, snoop=built.SNOOP_HITM), {"load": 1, "remote_hitm": 1}),
        (data_src(level=built.HIT | built.REMOTE_CACHE, snoop=0, peer=built.PEER), {"load": 1, "remote_hit": 1, "remote_peer": 1}),
        (data_src(level=built.HIT | built.LOCAL_RAM, snoop=built.SNOOP_HIT), {"load": 1, "local_dram": 1, "shared": 1}),
        (data_src(level=built.HIT, remote=1, hops=1), {"load": 1}),
        (data_src(level=built.HIT, remote=1), {"load": 1, "remote_dram": 1, "exclusive": 1}),
        (data_src(level=built.HIT | built.LOCAL_RAM, remote=1), {"load": 1, "local_dram": 1, "remote_dram": 1, "exclusive": 2}),
        (data_src(built.STORE, built.HIT | built.L1), {"store": 1, "store_l1": 1}),
        (data_src(built.STORE, built.MISS | built.L1, lock=2), {"store": 1, "store_l1_miss": 1, "locks": 1}),
        (data_src(built.STORE, 1), {"store": 1, "store_unknown": 1}),
        (0, {"unparsed": 1}),
    ],
)
def test_kinds_of_an_access(word, kinds):
    assert counted(word) == kinds


def test_an_access_without_an_address_counts_as_that_alone():
    assert counted(data_src(), address=0) == {"load": 1, "load_no_address": 1}


def test_an_access_without_mappings_counts_twice():
    """As in perf: its level, and the lack of a mapping."""
    assert counted(data_src(), is_mapped=False) == {"load": 1, "load_l1": 1, "unmapped": 1}
