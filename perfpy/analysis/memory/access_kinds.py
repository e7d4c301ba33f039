"""What memory accesses were: each data_src as a set of counters, those of perf c2c.

Layout of data_src: union perf_mem_data_src in include/uapi/linux/perf_event.h. Which access counts where was learnt from
`perf c2c report --stats` of single accesses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

#: the counters; the number of each is its bit in the words of count_kinds()
KINDS: Final = (
    "locks", "load", "load_uncached", "load_io", "load_miss", "load_no_address", "load_fill_buffer", "load_l1", "load_l2", "load_llc",
    "local_hitm", "remote_hitm", "remote_hit", "local_dram", "remote_dram", "exclusive", "shared", "blocked_data", "blocked_address",
    "local_peer", "remote_peer", "store", "store_uncached", "store_no_address", "store_l1", "store_l1_miss", "store_unknown", "unparsed",
    "unmapped",
)  # fmt: skip
#: the kinds that may count twice for one access
_SECOND: Final = {"exclusive": 29, "shared": 30, "local_peer": 31}
_BIT: Final = {name: np.uint32(1 << number) for number, name in enumerate(KINDS)}

_LOAD, _STORE = 0x2, 0x4
_LEVEL_NA, _HIT, _MISS, _L1, _LFB, _L2, _L3, _LOCAL_RAM = (1 << bit for bit in range(8))
_REMOTE_RAM: Final = 0x3 << 8
_REMOTE_CACHE: Final = 0x3 << 10
_IO, _UNCACHED = 1 << 12, 1 << 13
_SNOOP_HIT, _SNOOP_HITM = 0x4, 0x10
_PEER: Final = 0x2
_LOCKED: Final = 0x2
_BLOCKED_DATA, _BLOCKED_ADDRESS = 0x2, 0x4


def count_kinds(data_src: NDArray[np.uint64], address: NDArray[np.uint64], is_mapped: NDArray[np.bool_]) -> NDArray[np.uint32]:
    """Return a word for each access, with a bit for each of its KINDS.

    is_mapped: whether mappings of code and data are known.
    """
    level, snoop = _part(data_src, 5, 14), _part(data_src, 19, 5)
    operation, blocked, peer = _part(data_src, 0, 5), _part(data_src, 40, 3), _has(_part(data_src, 38, 2), _PEER)
    is_remote = _has(_part(data_src, 37, 1), 1) & (_part(data_src, 43, 3) == 0)
    is_load = _has(operation, _LOAD)
    is_store = _has(operation, _STORE) & ~is_load
    has_address = address != 0
    counts = np.zeros(len(data_src), np.uint32)

    def add(name: str, mask: NDArray[np.bool_]) -> None:
        counts[mask] |= _BIT[name]

    def add_again(name: str, mask: NDArray[np.bool_]) -> None:
        again = mask & ((counts & _BIT[name]) != 0)
        counts[mask] |= _BIT[name]
        counts[again] |= np.uint32(1 << _SECOND[name])

    add("locks", _has(_part(data_src, 24, 2), _LOCKED))
    add("blocked_data", _has(blocked, _BLOCKED_DATA))
    add("blocked_address", _has(blocked, _BLOCKED_ADDRESS))
    add("load", is_load)
    add("load_no_address", is_load & ~has_address)
    load = is_load & has_address
    hit = load & _has(level, _HIT)
    for name, bit in (("load_uncached", _UNCACHED), ("load_io", _IO), ("load_fill_buffer", _LFB), ("load_l1", _L1), ("load_l2", _L2)):
        add(name, hit & _has(level, bit))
    add("local_peer", hit & _has(level, _L2) & peer)
    last = hit & _has(level, _L3)
    add("local_hitm", last & _has(snoop, _SNOOP_HITM))
    add("load_llc", last & ~_has(snoop, _SNOOP_HITM))
    add_again("local_peer", last & peer)
    clean = _has(snoop, _SNOOP_HIT)
    near, far = hit & _has(level, _LOCAL_RAM), hit & (_has(level, _REMOTE_RAM) | is_remote)
    for name, memory in (("local_dram", near), ("remote_dram", far)):
        add(name, memory)
        add_again("shared", memory & clean)
        add_again("exclusive", memory & ~clean)
    other_cache = load & (_has(level, _REMOTE_CACHE) | is_remote)
    modified = _has(snoop, _SNOOP_HITM) & ~clean
    add("remote_hitm", other_cache & modified)
    add("remote_hit", other_cache & (clean | peer & ~modified))
    add("remote_peer", other_cache & peer & ~clean & ~modified)
    add("load_miss", load & _has(level, _MISS))
    _count_stores(add, level, is_store, has_address)
    add("unparsed", ~is_load & ~is_store)
    add("unmapped", (is_load | is_store) & has_address & ~is_mapped)
    return counts


def _count_stores(
    add: Callable[[str, NDArray[np.bool_]], None], level: NDArray[np.uint64], is_store: NDArray[np.bool_], has_address: NDArray[np.bool_]
) -> None:
    add("store", is_store)
    add("store_no_address", is_store & ~has_address)
    store = is_store & has_address
    hit = store & _has(level, _HIT)
    add("store_uncached", hit & _has(level, _UNCACHED))
    add("store_l1", hit & _has(level, _L1))
    add("store_l1_miss", store & _has(level, _MISS) & _has(level, _L1))
    add("store_unknown", store & _has(level, _LEVEL_NA))


class Counts:
    """Sums of KINDS over groups of accesses, one row for each group."""

    def __init__(self, words: NDArray[np.uint32], group: NDArray[np.int64], groups: int) -> None:
        self._words = words
        self._group = group
        self._groups = groups
        self._sums: dict[str, NDArray[np.int64]] = {}

    def __getitem__(self, name: str) -> NDArray[np.int64]:
        if name not in self._sums:
            bits = (self._words >> np.uint32(KINDS.index(name)) & np.uint32(1)).astype(np.int64)
            if name in _SECOND:
                bits += (self._words >> np.uint32(_SECOND[name]) & np.uint32(1)).astype(np.int64)
            self._sums[name] = np.bincount(self._group, bits, self._groups).astype(np.int64)
        return self._sums[name]

    def sum_of(self, *names: str) -> NDArray[np.int64]:
        """Return the sum of several kinds for each group."""
        return sum((self[name] for name in names), np.zeros(self._groups, np.int64))

    @property
    def hitm(self) -> NDArray[np.int64]:
        """Loads of lines that another core had modified."""
        return self.sum_of("local_hitm", "remote_hitm")

    @property
    def peer(self) -> NDArray[np.int64]:
        """Loads that another core's cache served."""
        return self.sum_of("local_peer", "remote_peer")

    @property
    def loads(self) -> NDArray[np.int64]:
        """Loads that a cache or memory served."""
        return self.hitm + self.sum_of("load_fill_buffer", "load_l1", "load_l2", "load_llc", "remote_hit", "local_dram", "remote_dram")

    @property
    def records(self) -> NDArray[np.int64]:
        """Loads that a cache or memory served, and stores with a level."""
        return self.loads + self.sum_of("store_l1", "store_l1_miss", "store_unknown")


def has_kind(words: NDArray[np.uint32], name: str) -> NDArray[np.bool_]:
    """Return which accesses count as a kind."""
    is_set: NDArray[np.bool_] = (words & _BIT[name]) != 0
    return is_set


def _part(data_src: NDArray[np.uint64], shift: int, bits: int) -> NDArray[np.uint64]:
    return data_src >> np.uint64(shift) & np.uint64((1 << bits) - 1)


def _has(part: NDArray[np.uint64], bits: int) -> NDArray[np.bool_]:
    is_set: NDArray[np.bool_] = (part & np.uint64(bits)) != 0
    return is_set
