"""What memory accesses were: each data_src as a set of counters, those of perf c2c.

Layout of data_src: union perf_mem_data_src in include/uapi/linux/perf_event.h. Which access counts where was learnt from
`perf c2c report --stats` of single accesses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
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
    words = _KindWords(data_src)
    operation, has_address = _part(data_src, 0, 5), address != 0
    is_load = _has(operation, _LOAD)
    is_store = _has(operation, _STORE) & ~is_load
    blocked = _part(data_src, 40, 3)
    words.add("locks", _has(_part(data_src, 24, 2), _LOCKED))
    words.add("blocked_data", _has(blocked, _BLOCKED_DATA))
    words.add("blocked_address", _has(blocked, _BLOCKED_ADDRESS))
    words.add("load", is_load)
    words.add("load_no_address", is_load & ~has_address)
    words.add_loads(is_load & has_address)
    words.add("store", is_store)
    words.add("store_no_address", is_store & ~has_address)
    words.add_stores(is_store & has_address)
    words.add("unparsed", ~is_load & ~is_store)
    words.add("unmapped", (is_load | is_store) & has_address & ~is_mapped)
    return words.counts


class _KindWords:
    """The words of accesses while kinds are added.

    Attributes:
        counts: uint32[n].
    """

    def __init__(self, data_src: NDArray[np.uint64]) -> None:
        self.counts = np.zeros(len(data_src), np.uint32)
        self._level = _part(data_src, 5, 14)
        self._snoop = _part(data_src, 19, 5)
        self._peer = _has(_part(data_src, 38, 2), _PEER)
        self._is_remote = _has(_part(data_src, 37, 1), 1) & (_part(data_src, 43, 3) == 0)

    def add(self, name: str, mask: NDArray[np.bool_]) -> None:
        """Count a kind for some accesses."""
        self.counts[mask] |= _BIT[name]

    def _add_again(self, name: str, mask: NDArray[np.bool_]) -> None:
        """Count a kind that an access may already have."""
        again = mask & ((self.counts & _BIT[name]) != 0)
        self.add(name, mask)
        self.counts[again] |= np.uint32(1 << _SECOND[name])

    def add_loads(self, load: NDArray[np.bool_]) -> None:
        """Count what served loads."""
        level, hitm = self._level, _has(self._snoop, _SNOOP_HITM)
        hit = load & _has(level, _HIT)
        for name, bit in (("load_uncached", _UNCACHED), ("load_io", _IO), ("load_fill_buffer", _LFB), ("load_l1", _L1), ("load_l2", _L2)):
            self.add(name, hit & _has(level, bit))
        self.add("local_peer", hit & _has(level, _L2) & self._peer)
        last = hit & _has(level, _L3)
        self.add("local_hitm", last & hitm)
        self.add("load_llc", last & ~hitm)
        self._add_again("local_peer", last & self._peer)
        self._add_memory("local_dram", hit & _has(level, _LOCAL_RAM))
        self._add_memory("remote_dram", hit & (_has(level, _REMOTE_RAM) | self._is_remote))
        self._add_other_caches(load & (_has(level, _REMOTE_CACHE) | self._is_remote))
        self.add("load_miss", load & _has(level, _MISS))

    def _add_memory(self, name: str, memory: NDArray[np.bool_]) -> None:
        clean = _has(self._snoop, _SNOOP_HIT)
        self.add(name, memory)
        self._add_again("shared", memory & clean)
        self._add_again("exclusive", memory & ~clean)

    def _add_other_caches(self, other_cache: NDArray[np.bool_]) -> None:
        clean = _has(self._snoop, _SNOOP_HIT)
        modified = _has(self._snoop, _SNOOP_HITM) & ~clean
        served = self._peer & ~clean & ~modified
        self.add("remote_hitm", other_cache & modified)
        self.add("remote_hit", other_cache & (clean | served))
        self.add("remote_peer", other_cache & served)

    def add_stores(self, store: NDArray[np.bool_]) -> None:
        """Count what took stores."""
        level = self._level
        hit = store & _has(level, _HIT)
        self.add("store_uncached", hit & _has(level, _UNCACHED))
        self.add("store_l1", hit & _has(level, _L1))
        self.add("store_l1_miss", store & _has(level, _MISS) & _has(level, _L1))
        self.add("store_unknown", store & _has(level, _LEVEL_NA))


class KindCounts:
    """Sums of KINDS over groups of accesses, one row for each group."""

    def __init__(self, words: NDArray[np.uint32], group: NDArray[np.int64], groups: int) -> None:
        self._words = words
        self._group = group
        self._groups = groups
        self._totals: dict[str, NDArray[np.int64]] = {}

    def __getitem__(self, name: str) -> NDArray[np.int64]:
        if name not in self._totals:
            bits = (self._words >> np.uint32(KINDS.index(name)) & np.uint32(1)).astype(np.int64)
            if name in _SECOND:
                bits += (self._words >> np.uint32(_SECOND[name]) & np.uint32(1)).astype(np.int64)
            self._totals[name] = np.bincount(self._group, bits, self._groups).astype(np.int64)
        return self._totals[name]

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
