"""Test whether a row's share differs between two groups of hosts by more than hosts differ anyway.

Random is not only where samples fall, but which hosts were observed: their loads differ by far more than samples
explain, and a test of all samples together would mark most rows of two groups without any change. So a host is one
observation, however many samples it has. The statistic is the difference of the shares by its standard error: the sum of
squares of each host's contribution to the difference (the cluster-robust estimate; Liang and Zeger 1986), with one term for a
host in both groups. It is at least the uncertainty due to the number of samples. The probability is that of the greatest
statistic of all rows under permutation of the labels (Westfall and Young 1993, step-down maxT): before and after are swapped within a
host in both groups, and permuted among the others. That assumes nothing about how hosts differ, and holds for a table as a whole: without
any change, at most 5 of 100 tables have a mark. With too few hosts for a permutation of that rarity, Student's
distribution is used, with Holm's correction for the number of rows.
"""

from __future__ import annotations

import math
from functools import cached_property, lru_cache
from itertools import combinations
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.analysis.differences.proportions import LEVEL
from perfpy.counts.significance import student_cdf, student_quantile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

#: the number of random permutations, fewer for large tables; the same ones each time
_DEALS: Final = 1999
_LEAST_DEALS: Final = 399
#: rows times units times permutations that take some seconds
_MOST_STEPS: Final = 10_000_000_000
_SEED: Final = 6
#: rows tested together
_ROWS_AT_ONCE: Final = 512
# statistics that differ by less are equal except for rounding
_SAME: Final = 1 - 1e-9


class Units(NamedTuple):
    """The units of observation: a host before or after, or a recording.

    Attributes:
        weight: of each.
        samples: of each.
        host: equal for the two units of one host.
        after: marks units of the second group.
    """

    weight: Floats
    samples: Floats
    host: NDArray[np.int64]
    after: NDArray[np.bool_]


class ShareChanges(NamedTuple):
    """The changes, with an entry for each row.

    Attributes:
        before, after: shares, of 1.
        low, high: the 95 % confidence interval of their difference; nan with too few hosts.
        chance: the probability that hosts alone show as much in any row; nan also for rows that are not tested.
        test: "permutation", "student", or "" with too few hosts.
    """

    before: Floats
    after: Floats
    low: Floats
    high: Floats
    chance: Floats
    test: str


def share_changes(shares: Floats, units: Units, tested: NDArray[np.bool_]) -> ShareChanges:
    """Return the change of each row. shares: of rows (first axis) in units; tested: marks the rows to test."""
    design = Design(units)
    observed = _Deal(design, units.after.astype(np.float64)[:, None])
    before, after, error, statistic = (np.zeros(len(shares)) for _ in range(4))
    chance, freedom = np.full(len(shares), np.nan), np.ones(len(shares), np.int64)
    for rows in _blocks(len(shares)):
        compared = observed.of(shares[rows])
        before[rows], after[rows], error[rows] = (column[:, 0] for column in (compared.before, compared.after, compared.error))
        statistic[rows], freedom[rows] = compared.statistic[:, 0], design.freedom(compared.parts[:, :, 0])
    reach = error * np.array([_reach(number) for number in freedom.tolist()])
    difference = after - before
    chosen = np.flatnonzero(tested)
    test = ("permutation" if design.can_tell else "student") if _is_enough(units) else ""
    if test == "permutation" and len(chosen):
        chance[chosen] = _by_deals(shares, chosen, statistic[chosen], design)
    elif test and len(chosen):
        chance[chosen] = _by_student(statistic[chosen], freedom[chosen])
    elif not test:
        reach[:] = np.nan
    return ShareChanges(before, after, difference - reach, difference + reach, chance, test)


def _is_enough(units: Units) -> bool:
    """Whether both groups have a spread."""
    return min(int(units.after.sum()), int((~units.after).sum())) > 1


def _blocks(size: int) -> Iterator[slice]:
    return (slice(begin, begin + _ROWS_AT_ONCE) for begin in range(0, size, _ROWS_AT_ONCE))


class Design:
    """The permutations of labels: within hosts in both groups, and among the other units."""

    def __init__(self, units: Units) -> None:
        self.units = units
        order = np.argsort(units.host, kind="stable")
        twice = np.flatnonzero(units.host[order][1:] == units.host[order][:-1])
        self.pairs = np.stack([order[twice], order[twice + 1]])  # units of one host
        self.alone = np.setdiff1d(np.arange(len(units.host)), self.pairs)

    @cached_property
    def size(self) -> int:
        """The number of permutations."""
        return int(2 ** self.pairs.shape[1] * math.comb(len(self.alone), int(self.units.after[self.alone].sum())))

    @property
    def can_tell(self) -> bool:
        """Whether the rarest permutation is rare enough; swapping all labels gives the same statistic, if that is a permutation, too."""
        mirrored = 2 * int(self.units.after[self.alone].sum()) == len(self.alone)
        return (1 + mirrored) / self.size <= LEVEL

    def freedom(self, parts: Floats) -> NDArray[np.int64]:
        """Return the degrees of freedom of errors by their parts (Satterthwaite 1946)."""
        after = int(self.units.after[self.alone].sum())
        counts = self.pairs.shape[1], len(self.alone) - after, after
        total = parts.sum(axis=0)
        spent = sum(part**2 / max(count - 1, 1) for part, count in zip(parts, counts, strict=True))
        with np.errstate(divide="ignore", invalid="ignore"):
            degrees = np.where(total > 0, total**2 / spent, max(sum(max(count - 1, 0) for count in counts), 1))
        return np.maximum(np.floor(degrees + 1e-9), 1).astype(np.int64)

    def deals(self, rows: int) -> Floats:
        """Return labels (1: after), a column per permutation: all, or random ones; the first column is the observed one."""
        most = min(_DEALS, max(_LEAST_DEALS, _MOST_STEPS // (rows * len(self.units.host))))
        return self._all() if self.size <= _DEALS + 1 else self._random(most)

    def _all(self) -> Floats:
        after, pairs = self.units.after, self.pairs.shape[1]
        own = np.flatnonzero(after[self.alone])
        chosen = combinations(range(len(self.alone)), len(own))
        dealt = np.array(list(chosen), np.int64).reshape(math.comb(len(self.alone), len(own)), len(own))
        others = np.zeros((len(self.alone), len(dealt)))
        others[dealt.T, np.arange(len(dealt))] = 1.0
        others = np.roll(others, -int(np.flatnonzero((dealt == own).all(axis=1))[0]), axis=1)
        swapped = (np.arange(1 << pairs) >> np.arange(pairs)[:, None] & 1).astype(np.bool_)
        labels = np.empty((len(after), self.size))
        labels[self.alone] = np.tile(others, 1 << pairs)
        for unit in self.pairs:
            labels[unit] = np.repeat(np.where(swapped, ~after[unit][:, None], after[unit][:, None]), len(dealt), axis=1)
        return labels

    def _random(self, count: int) -> Floats:
        random = np.random.default_rng(_SEED)
        after = self.units.after.astype(np.float64)
        labels = np.repeat(after[:, None], count + 1, axis=1)
        labels[self.alone, 1:] = random.permuted(labels[self.alone, 1:], axis=0)
        swap = random.integers(0, 2, (self.pairs.shape[1], count)).astype(np.bool_)
        for unit in self.pairs:
            labels[unit, 1:] = np.where(swap, 1 - labels[unit, 1:], labels[unit, 1:])
        return labels


class _Compared(NamedTuple):
    """The comparison of rows under permutations; parts: squares of the error due to hosts in both groups, only before, only after."""

    before: Floats
    after: Floats
    error: Floats
    statistic: Floats
    parts: Floats


class _Deal:
    """Shares and their differences for columns of labels (1: after)."""

    def __init__(self, design: Design, labels: Floats) -> None:
        units = design.units
        self._weight, self._labels = units.weight, labels
        self._first, self._second = design.pairs
        self._alone = design.alone
        self._total_weights = (units.weight @ (1 - labels), units.weight @ labels)
        open_part = units.weight**2 / np.maximum(units.samples, 1)
        self._open = (open_part @ (1 - labels)) / self._total_weights[0] ** 2 + (open_part @ labels) / self._total_weights[1] ** 2

    def of(self, shares: Floats) -> _Compared:
        """Compare each row (first axis) under each permutation."""
        amounts = shares * self._weight
        after = amounts @ self._labels
        before = (amounts.sum(axis=1)[:, None] - after) / self._total_weights[0]
        after /= self._total_weights[1]
        parts = np.stack([self._of_pairs(amounts, before, after), *self._of_others(amounts, before, after)])
        share = (amounts.sum(axis=1) / self._weight.sum())[:, None]
        least = np.clip(share * (1 - share), 0, None) * self._open
        error = np.sqrt(np.maximum(parts.sum(axis=0), least))
        with np.errstate(divide="ignore", invalid="ignore"):
            statistic = np.where(error > 0, np.abs(after - before) / error, 0.0)
        return _Compared(before, after, error, statistic, parts)

    def _of_others(self, amounts: Floats, before: Floats, after: Floats) -> tuple[Floats, Floats]:
        """Return the sums of squares of (x - w S) / W over units of hosts in one group, before and after."""
        if not len(self._alone):
            return np.zeros_like(before), np.zeros_like(before)
        x, w, label = amounts[:, self._alone], self._weight[self._alone], self._labels[self._alone]
        upper = [values @ label for values in (x * x, x * w, w * w)]
        lower = [values.sum(axis=-1, keepdims=True) - part for values, part in zip((x * x, x * w, w * w), upper, strict=True)]
        count = label.sum(axis=0)
        first, second = (
            np.clip(squares - 2 * share * mixed + share**2 * weights, 0, None) / total**2 * _widen(units)
            for share, total, units, (squares, mixed, weights) in (
                (before, self._total_weights[0], len(label) - count, lower),
                (after, self._total_weights[1], count, upper),
            )
        )
        return first, second

    def _of_pairs(self, amounts: Floats, before: Floats, after: Floats) -> Floats:
        """Return the sum of squares of (y - w S') / W' - (x - v S) / W over hosts in both groups; x, v before, y, w after."""
        if not len(self._first):
            return np.zeros_like(before)
        x, y = amounts[:, self._first], amounts[:, self._second]
        v, w = self._weight[self._first], self._weight[self._second]
        label = self._labels[self._second]  # 1: the second of the pair is after, as observed; else before

        def dealt(first: Floats, second: Floats) -> tuple[Floats, Floats]:
            """Return the sums over pairs of `first` if labelled so and of `second` if swapped; and the reverse."""
            moved = (first - second) @ label
            return moved + second.sum(axis=-1, keepdims=True), first.sum(axis=-1, keepdims=True) - moved

        lower, upper = self._total_weights
        (xx, yy), (xv, yw), (vv, ww), (yv, xw) = dealt(x * x, y * y), dealt(x * v, y * w), dealt(v * v, w * w), dealt(y * v, x * w)
        in_before = xx - 2 * before * xv + before**2 * vv
        in_after = yy - 2 * after * yw + after**2 * ww
        # (y - w S')(x - v S): x y and v w do not change with the labels
        both = (x * y).sum(axis=1)[:, None] - before * yv - after * xw + before * after * (v @ w)
        squares: Floats = in_before / lower**2 + in_after / upper**2 - 2 * both / (lower * upper)
        return np.clip(squares, 0, None) * _widen(np.full(label.shape[1], len(self._first)))


def _widen(count: Floats) -> Floats:
    """Return n / (n - 1): the mean that units are compared with is made of them."""
    factors: Floats = count / np.maximum(count - 1, 0.5)
    return factors


@lru_cache(4096)
def _reach(freedom: int) -> float:
    return student_quantile((1 + (1 - LEVEL)) / 2, freedom)


def _by_deals(shares: Floats, chosen: NDArray[np.int64], statistic: Floats, design: Design) -> Floats:
    """Return the share of permutations in which the greatest statistic of the row and all below it is at least as great."""
    deal = _Deal(design, design.deals(len(chosen)))
    order = np.argsort(statistic, kind="stable")
    greatest: Floats = np.zeros(0)
    counted = np.empty(len(chosen))
    for rows in _blocks(len(order)):
        statistics = deal.of(shares[chosen[order[rows]]]).statistic
        if len(greatest):
            statistics[0] = np.maximum(statistics[0], greatest)
        statistics = np.maximum.accumulate(statistics, axis=0)
        greatest = statistics[-1]
        counted[rows] = (statistics >= statistic[order[rows], None] * _SAME).mean(axis=1)
    # a greater statistic never has a greater probability
    result = np.empty(len(chosen))
    result[order] = np.maximum.accumulate(counted[::-1])[::-1]
    return result


def _by_student(statistic: Floats, freedom: NDArray[np.int64]) -> Floats:
    """Return two-sided probabilities by Student's distribution, with Holm's correction for the number of rows."""
    alone = np.array([2 * (1 - student_cdf(value, number)) for value, number in zip(statistic.tolist(), freedom.tolist(), strict=True)])
    order = np.argsort(alone, kind="stable")
    adjusted = np.minimum(np.maximum.accumulate(alone[order] * np.arange(len(order), 0, -1)), 1.0)
    result = np.empty(len(order))
    result[order] = adjusted
    return result
