"""How often perfpy diff of two groups of hosts marks what did not change, and finds what did: python tests/bench/group_power.py

Input: how many pairs of groups are drawn of each kind. Output: a line a kind: of 100 tables without a change how many have
a mark, by the spread between hosts and by a test of all samples as one; and how often a change by 5 % of one row's own cost is marked.

Hosts differ as gamma variates do: each row's share on each host, by --spread of itself; and in how much they record (lognormal, 0.5).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from perfpy.analysis.differences import LEVEL, chance, correct_for_many_tests
from perfpy.analysis.group_differences import ShareChanges, Units, share_changes

if TYPE_CHECKING:
    from numpy.typing import NDArray

_CHANGED = 3  # the row that costs more: 6 % of all
_OWN = 0.5  # how much the hosts of both groups differ from each other


class Kind(NamedTuple):
    """So many hosts before and after; same: they are the same ones; spread: of a row's share, between hosts, or from day to day."""

    before: int
    after: int
    same: bool
    spread: float
    rows: int = 100
    samples: int = 60_000

    def __str__(self) -> str:
        return f"{self.before:3} hosts and {'the same' if self.same else f'{self.after} others':10} spread {self.spread:4.0%}"


def drawn(random: np.random.Generator, kind: Kind, change: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Samples of rows (first axis) on hosts, of both groups."""
    own = random.gamma(_OWN**-2, _OWN**2, (kind.before, kind.rows)) if kind.same else 1.0
    return _group(random, kind, kind.before, own, 0.0), _group(random, kind, kind.after, own, change)


def _group(random: np.random.Generator, kind: Kind, count: int, own: NDArray[np.float64] | float, change: float) -> NDArray[np.int64]:
    shares = np.tile(np.arange(1, kind.rows + 1) ** -1.1, (count, 1)) * own
    shares *= random.gamma(kind.spread**-2, kind.spread**2, shares.shape)
    shares[:, _CHANGED] *= 1 + change
    sizes = (kind.samples * random.lognormal(0, 0.5, count)).astype(int)
    return np.array([random.multinomial(size, one / one.sum()) for size, one in zip(sizes, shares, strict=True)]).T


def compared(before: NDArray[np.int64], after: NDArray[np.int64], *, same: bool, only: int | None = None) -> ShareChanges:
    """As perfpy diff does; only: one row is asked for."""
    counts = np.concatenate([before, after], axis=1)
    samples = counts.sum(axis=0).astype(float)
    first = before.shape[1]
    weight = samples / np.repeat([samples[:first].mean(), samples[first:].mean()], [first, after.shape[1]])
    if same:
        weight = np.tile((weight[:first] + weight[first:]) / 2, 2)
    host = np.concatenate([np.arange(first), np.arange(after.shape[1]) + (0 if same else first)])
    units = Units(weight, samples, host, np.arange(len(host)) >= first)
    tested = np.ones(len(counts), np.bool_) if only is None else np.arange(len(counts)) == only
    return share_changes(counts / samples, units, tested)


def marked_as_one(before: NDArray[np.int64], after: NDArray[np.int64]) -> bool:
    """Whether all samples as one have a row that differs by more than the noise of sampling."""
    old, new = (side.sum(axis=1).tolist() for side in (before, after))
    return min(correct_for_many_tests([chance(a, sum(old), b, sum(new)) for a, b in zip(old, new, strict=True)])) < LEVEL


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description="false alarms and power of perfpy diff of two groups of hosts")
    parser.add_argument("--runs", type=int, default=100, help="pairs of groups of each kind")
    runs = parser.parse_args().runs
    print("of 100 tables without a change, marked: by hosts, by all samples as one")
    for before, after, same in ((3, 3, False), (5, 5, False), (4, 20, False), (20, 20, False), (8, 8, True), (20, 20, True)):
        kind, random = Kind(before, after, same, 0.3), np.random.default_rng(1)
        pairs = [drawn(random, kind, 0.0) for _ in range(runs)]
        by_host = np.mean([np.nanmin(compared(*pair, same=same).chance) < LEVEL for pair in pairs])
        as_one = np.mean([marked_as_one(*pair) for pair in pairs[:10]])
        print(f"{kind}  {100 * by_host:5.1f} {100 * as_one:5.0f}", flush=True)
    print("a change by 5 % of a row's cost, found in 100 times: among 100 rows, asked for alone")
    for spread in (0.02, 0.05, 0.1):
        for same in (False, True):
            for count in (6, 10, 20, 50, 100):
                kind, random = Kind(count, count, same, spread), np.random.default_rng(1)
                pairs = [drawn(random, kind, 0.05) for _ in range(runs)]
                results = [[compared(*pair, same=same, only=only).chance[_CHANGED] < LEVEL for pair in pairs] for only in (None, _CHANGED)]
                print(f"{kind}  {100 * np.mean(results[0]):5.0f} {100 * np.mean(results[1]):5.0f}", flush=True)


if __name__ == "__main__":
    main()
