"""The statistics that perf c2c report begins with: all accesses, those of shared lines, and the settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.analysis.memory.access_kinds import KindCounts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from perfpy.analysis.memory.accesses import Accesses
    from perfpy.analysis.memory.cache_lines import CacheLines

_RULE: Final = "=" * 49
_WIDTH: Final = 10
_ALL: Final = (
    ("Locked Load/Store Operations", ("locks",)),
    ("Load Operations", ("load",)),
    ("Loads - uncacheable", ("load_uncached",)),
    ("Loads - IO", ("load_io",)),
    ("Loads - Miss", ("load_miss",)),
    ("Loads - no mapping", ("load_no_address",)),
    ("Load Fill Buffer Hit", ("load_fill_buffer",)),
    ("Load L1D hit", ("load_l1",)),
    ("Load L2D hit", ("load_l2",)),
    ("Load LLC hit", ("load_llc", "local_hitm")),
    ("Load Local HITM", ("local_hitm",)),
    ("Load Remote HITM", ("remote_hitm",)),
    ("Load Remote HIT", ("remote_hit",)),
    ("Load Local DRAM", ("local_dram",)),
    ("Load Remote DRAM", ("remote_dram",)),
    ("Load MESI State Exclusive", ("exclusive",)),
    ("Load MESI State Shared", ("shared",)),
    ("Load LLC Misses", ("local_dram", "remote_dram", "remote_hit", "remote_hitm")),
    ("Load access blocked by data", ("blocked_data",)),
    ("Load access blocked by address", ("blocked_address",)),
    ("Load HIT Local Peer", ("local_peer",)),
    ("Load HIT Remote Peer", ("remote_peer",)),
)
_MISSES: Final = (
    ("LLC Misses to Local DRAM", "local_dram"),
    ("LLC Misses to Remote DRAM", "remote_dram"),
    ("LLC Misses to Remote cache (HIT)", "remote_hit"),
    ("LLC Misses to Remote cache (HITM)", "remote_hitm"),
)
_STORES: Final = (
    ("Store Operations", ("store",)),
    ("Store - uncacheable", ("store_uncached",)),
    ("Store - no mapping", ("store_no_address",)),
    ("Store L1D Hit", ("store_l1",)),
    ("Store L1D Miss", ("store_l1_miss",)),
    ("Store No available memory level", ("store_unknown",)),
    ("No Page Map Rejects", ("unmapped",)),
    ("Unable to parse data source", ("unparsed",)),
)
_OF_LINES: Final = (
    ("Fill Buffer Hits on shared lines", ("load_fill_buffer",)),
    ("L1D hits on shared lines", ("load_l1",)),
    ("L2D hits on shared lines", ("load_l2",)),
    ("LLC hits on shared lines", ("load_llc", "local_hitm")),
    ("Load hits on peer cache or nodes", ("local_peer", "remote_peer")),
    ("Locked Access on shared lines", ("locks",)),
    ("Blocked Access on shared lines", ("blocked_data", "blocked_address")),
    ("Store HITs on shared lines", ("store",)),
    ("Store L1D hits on shared lines", ("store_l1",)),
    ("Store No available memory level", ("store_unknown",)),
)
DISPLAYS: Final = {"lcl": "Local HITMs", "rmt": "Remote HITMs", "tot": "Total HITMs", "peer": "Peer Snoop"}


def statistics_lines(accesses: Accesses, lines: CacheLines) -> Iterator[str]:
    """Yield the statistics of all accesses and of shared lines."""
    total = KindCounts(accesses.kinds, np.zeros(len(accesses.kinds), np.int64), 1)
    yield from title("            Trace Event Information              ")
    yield _number("Total records", len(accesses.kinds))
    yield from (_number(label, int(total.sum_of(*names)[0])) for label, names in _ALL)
    misses = int(total.sum_of("local_dram", "remote_dram", "remote_hit", "remote_hitm")[0])
    yield from (_line(label, f" {_percent(int(total[name][0]), misses):>{_WIDTH}}%") for label, name in _MISSES)
    yield from (_number(label, int(total.sum_of(*names)[0])) for label, names in _STORES)
    yield ""
    yield from _shared_lines(lines)


def _shared_lines(lines: CacheLines) -> Iterator[str]:
    shared, counts = lines.shared(), lines.counts

    def total(values: NDArray[np.int64]) -> int:
        return int(values[shared].sum())

    yield from title("    Global Shared Cache Line Event Information   ")
    yield _number("Total Shared Cache Lines", int(shared.sum()))
    yield _number("Load HITs on shared lines", total(counts["load"]))
    yield from (_number(label, total(counts.sum_of(*names))) for label, names in _OF_LINES)
    yield _number("Total Merged records", total(counts.hitm + counts["store"]))


def settings_lines(events: Sequence[str], display: str, fields: Sequence[str]) -> Iterator[str]:
    """Yield the events and the settings of the tables below."""
    yield ""
    yield from title("                 c2c details                     ")
    for number, event in enumerate(events):
        yield _line("" if number else "Events", f" {event}")
    yield _line("Cachelines sort on", f" {DISPLAYS[display]}")
    yield _line("Cacheline data grouping", f" {','.join(('offset', *fields))}")


def title(text: str) -> Iterator[str]:
    """Yield a heading between two rules."""
    yield from (_RULE, text, _RULE)


def _number(label: str, value: int) -> str:
    return _line(label, f" {value:>{_WIDTH}}")


def _line(label: str, value: str) -> str:
    return f"  {label:<34}:{value}"


def _percent(part: int, whole: int) -> str:
    return f"{100.0 * part / whole:.1f}" if whole else "-nan"
