"""The generic names."""

from __future__ import annotations

import pytest

from perfpy.abi.flags import CacheId, CacheOp, CacheResult, PerfType
from perfpy.events.catalog import HARDWARE, SOFTWARE, cache_configs, cache_event, cache_event_name, generic_event, generic_name


def test_every_hardware_and_software_event_has_its_own_number_and_every_alias_the_same() -> None:
    for table, kind in ((HARDWARE, PerfType.HARDWARE), (SOFTWARE, PerfType.SOFTWARE)):
        assert len({config for _, _, config in table}) == len(table)
        for name, alias, config in table:
            assert generic_event(name) == (kind, config)
            assert not alias or generic_event(alias) == (kind, config)
    assert generic_event("cyclez") is None


@pytest.mark.parametrize(
    ("name", "cache", "operation", "result"),
    [
        ("L1-dcache-load-misses", CacheId.L1D, CacheOp.READ, CacheResult.MISS),
        ("l1d-loads", CacheId.L1D, CacheOp.READ, CacheResult.ACCESS),
        ("LLC", CacheId.LL, CacheOp.READ, CacheResult.ACCESS),
        ("L1-dcache-misses-loads", CacheId.L1D, CacheOp.READ, CacheResult.MISS),
        ("dTLB-speculative-read-miss", CacheId.DTLB, CacheOp.PREFETCH, CacheResult.MISS),
        ("branches-loads", CacheId.BPU, CacheOp.READ, CacheResult.ACCESS),
        ("L1-dcache-load-load", CacheId.L1D, CacheOp.READ, CacheResult.ACCESS),
        ("node-prefetch-misses", CacheId.NODE, CacheOp.PREFETCH, CacheResult.MISS),
    ],
)
def test_cache_events_in_all_their_spellings(name: str, cache: int, operation: int, result: int) -> None:
    assert cache_event(name) == cache | operation << 8 | result << 16


@pytest.mark.parametrize("name", ["L1-icache-stores", "iTLB-stores", "branch-stores", "L1-dcache-foo", "L1-dcachex", "loads"])
def test_impossible_cache_operations_are_no_events(name: str) -> None:
    assert cache_event(name) is None


def test_every_cache_event_reads_back_from_the_name_that_is_printed() -> None:
    for config in cache_configs():
        assert cache_event(cache_event_name(config)) == config
    assert cache_event_name(0xFF) == ""
    assert generic_name(PerfType.HARDWARE, 0) == "cycles"
    assert generic_name(PerfType.TRACEPOINT, 5) == ""
