"""Has a row's share changed from one group of hosts to another, or is that how hosts differ anyway?

What enters: what each row has in each unit (a host before or after; a recording, where there are no hosts to tell apart). What
leaves: for each row both groups' shares, their difference with its interval, and the probability of such a difference if nothing
had changed.

What is random is not only where samples fall, but which hosts were looked at: their loads differ by far more than samples
explain, and a test of all samples as one would mark most rows of two groups in which nothing changed. So a host is one
observation, however many samples it has. The statistic is the difference of the shares by its standard error: the sum of
squares of what each host adds to the difference (the estimate that is robust to clusters; Liang and Zeger 1986), a host that is in both
groups adding once. It is never less than what the number of samples leaves open. The probability is that of the greatest
statistic of all rows as labels are dealt anew (Westfall and Young 1993, step-down maxT): before and after are swapped within a host that
is in both groups, and dealt among the others. That assumes nothing of how hosts differ, and holds for a table as a whole: one in
which nothing changed has a mark in at most 5 of 100 cases. Where there are so few hosts that no deal could be that rare, Student's
distribution takes its place, with Holm's correction for the number of rows.
"""

from __future__ import annotations

import math
from functools import cached_property, lru_cache
from itertools import combinations
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.analysis.report.proportions import LEVEL
from perfpy.counts.significance import student_cdf, student_quantile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

#: deals that are tried where there are more, of large tables fewer; the same ones each time
_DEALS: Final = 1999
_LEAST_DEALS: Final = 399
#: rows times units times deals that take some seconds
_MOST_STEPS: Final = 10_000_000_000
_SEED: Final = 6
#: rows that are dealt at once
_ROWS_AT_ONCE: Final = 512
# statistics that differ by less are equal but for rounding
_SAME: Final = 1 - 1e-9


class Units(NamedTuple):
    """What is observed. weight: how much each counts; samples: how many each has; host: equal for two units of one host, one of
    them after; after: which are of the second group.
    """

    weight: Floats
    samples: Floats
    host: NDArray[np.int64]
    after: NDArray[np.bool_]


class ShareChanges(NamedTuple):
    """A row each. before, after: shares, of 1; low, high: the interval of their difference that holds for 95 of 100 such rows;
    chance: the probability that hosts alone show as much in any row. nan where there are too few hosts, chance also of rows not tested.
    test: "permutation", "student", or "" where there are too few hosts.
    """

    before: Floats
    after: Floats
    low: Floats
    high: Floats
    chance: Floats
    test: str


def share_changes(shares: Floats, units: Units, tested: NDArray[np.bool_]) -> ShareChanges:
    """How each row changed. shares: of rows (first axis) in units; tested: rows that are looked at for a change."""
    design = Design(units)
    observed = _Deal(design, units.after.astype(np.float64)[:, None])
    before, after, error, statistic = (np.zeros(len(shares)) for _ in range(4))
    chance, freedom = np.full(len(shares), np.nan), np.ones(len(shares), np.int64)
    for rows in _blocks(len(shares)):
        found = observed.of(shares[rows])
        before[rows], after[rows], error[rows] = (column[:, 0] for column in (found.before, found.after, found.error))
        statistic[rows], freedom[rows] = found.statistic[:, 0], design.freedom(found.parts[:, :, 0])
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
    """Whether there is a spread to be seen in both groups."""
    return min(int(units.after.sum()), int((~units.after).sum())) > 1


def _blocks(size: int) -> Iterator[slice]:
    return (slice(begin, begin + _ROWS_AT_ONCE) for begin in range(0, size, _ROWS_AT_ONCE))


class Design:
    """Which labels can be dealt anew: those of hosts that are in both groups within each, the others among themselves."""

    def __init__(self, units: Units) -> None:
        self.units = units
        order = np.argsort(units.host, kind="stable")
        twice = np.flatnonzero(units.host[order][1:] == units.host[order][:-1])
        self.pairs = np.stack([order[twice], order[twice + 1]])  # units of one host
        self.alone = np.setdiff1d(np.arange(len(units.host)), self.pairs)

    @cached_property
    def size(self) -> int:
        """How many deals there are."""
        return int(2 ** self.pairs.shape[1] * math.comb(len(self.alone), int(self.units.after[self.alone].sum())))

    @property
    def can_tell(self) -> bool:
        """Whether the rarest deal is rare enough; swapping all labels gives the same statistic where that is a deal, too."""
        mirrored = 2 * int(self.units.after[self.alone].sum()) == len(self.alone)
        return (1 + mirrored) / self.size <= LEVEL

    def freedom(self, parts: Floats) -> NDArray[np.int64]:
        """Degrees of freedom of errors by their parts (Satterthwaite 1946)."""
        after = int(self.units.after[self.alone].sum())
        counts = self.pairs.shape[1], len(self.alone) - after, after
        total = parts.sum(axis=0)
        spent = sum(part**2 / max(count - 1, 1) for part, count in zip(parts, counts, strict=True))
        with np.errstate(divide="ignore", invalid="ignore"):
            found = np.where(total > 0, total**2 / spent, max(sum(max(count - 1, 0) for count in counts), 1))
        return np.maximum(np.floor(found + 1e-9), 1).astype(np.int64)

    def deals(self, rows: int) -> Floats:
        """Labels (1: after), a column a deal: all there are, or so many at random; the first is what was observed."""
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
    """Of rows by deals. parts: the squares of the error as made up of hosts in both groups, only before, only after."""

    before: Floats
    after: Floats
    error: Floats
    statistic: Floats
    parts: Floats


class _Deal:
    """Shares and their differences for some ways to label the units (columns of labels; 1: after)."""

    def __init__(self, design: Design, labels: Floats) -> None:
        units = design.units
        self._weight, self._labels = units.weight, labels
        self._first, self._second = design.pairs
        self._alone = design.alone
        self._total_weights = (units.weight @ (1 - labels), units.weight @ labels)
        open_part = units.weight**2 / np.maximum(units.samples, 1)
        self._open = (open_part @ (1 - labels)) / self._total_weights[0] ** 2 + (open_part @ labels) / self._total_weights[1] ** 2

    def of(self, shares: Floats) -> _Compared:
        """For each row (first axis) and each deal."""
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
        """The sums of squares of (x - w S) / W over units of hosts that are in one group, those before and those after."""
        if not len(self._alone):
            return np.zeros_like(before), np.zeros_like(before)
        x, w, label = amounts[:, self._alone], self._weight[self._alone], self._labels[self._alone]
        upper = [values @ label for values in (x * x, x * w, w * w)]
        lower = [values.sum(axis=-1, keepdims=True) - part for values, part in zip((x * x, x * w, w * w), upper, strict=True)]
        count = label.sum(axis=0)
        first, second = (
            np.clip(squares - 2 * share * mixed + share**2 * weights, 0, None) / total**2 * _widened(units)
            for share, total, units, (squares, mixed, weights) in (
                (before, self._total_weights[0], len(label) - count, lower),
                (after, self._total_weights[1], count, upper),
            )
        )
        return first, second

    def _of_pairs(self, amounts: Floats, before: Floats, after: Floats) -> Floats:
        """The sum of squares of (y - w S') / W' - (x - v S) / W over hosts that are in both groups; x, v before, y, w after."""
        if not len(self._first):
            return np.zeros_like(before)
        x, y = amounts[:, self._first], amounts[:, self._second]
        v, w = self._weight[self._first], self._weight[self._second]
        label = self._labels[self._second]  # 1: the second of the pair is after, as observed, or else before

        def dealt(first: Floats, second: Floats) -> tuple[Floats, Floats]:
            """The sums over pairs of one thing where they are labelled so, of another where they are swapped; and the reverse."""
            moved = (first - second) @ label
            return moved + second.sum(axis=-1, keepdims=True), first.sum(axis=-1, keepdims=True) - moved

        lower, upper = self._total_weights
        (xx, yy), (xv, yw), (vv, ww), (yv, xw) = dealt(x * x, y * y), dealt(x * v, y * w), dealt(v * v, w * w), dealt(y * v, x * w)
        in_before = xx - 2 * before * xv + before**2 * vv
        in_after = yy - 2 * after * yw + after**2 * ww
        # (y - w S')(x - v S): x y and v w do not change with the labels
        both = (x * y).sum(axis=1)[:, None] - before * yv - after * xw + before * after * (v @ w)
        squares: Floats = in_before / lower**2 + in_after / upper**2 - 2 * both / (lower * upper)
        return np.clip(squares, 0, None) * _widened(np.full(label.shape[1], len(self._first)))


def _widened(count: Floats) -> Floats:
    """n / (n - 1): the shares that units are compared with are made of them."""
    found: Floats = count / np.maximum(count - 1, 0.5)
    return found


@lru_cache(4096)
def _reach(freedom: int) -> float:
    return student_quantile((1 + (1 - LEVEL)) / 2, freedom)


def _by_deals(shares: Floats, chosen: NDArray[np.int64], statistic: Floats, design: Design) -> Floats:
    """The part of deals in which the greatest statistic of the row and of all below it is at least as great."""
    deal = _Deal(design, design.deals(len(chosen)))
    order = np.argsort(statistic, kind="stable")
    greatest: Floats = np.zeros(0)
    counted = np.empty(len(chosen))
    for rows in _blocks(len(order)):
        found = deal.of(shares[chosen[order[rows]]]).statistic
        if len(greatest):
            found[0] = np.maximum(found[0], greatest)
        found = np.maximum.accumulate(found, axis=0)
        greatest = found[-1]
        counted[rows] = (found >= statistic[order[rows], None] * _SAME).mean(axis=1)
    # a greater statistic is not less of a chance
    result = np.empty(len(chosen))
    result[order] = np.maximum.accumulate(counted[::-1])[::-1]
    return result


def _by_student(statistic: Floats, freedom: NDArray[np.int64]) -> Floats:
    """Two-sided probabilities by Student's distribution, by Holm's correction those of any row."""
    alone = np.array([2 * (1 - student_cdf(value, number)) for value, number in zip(statistic.tolist(), freedom.tolist(), strict=True)])
    order = np.argsort(alone, kind="stable")
    adjusted = np.minimum(np.maximum.accumulate(alone[order] * np.arange(len(order), 0, -1)), 1.0)
    result = np.empty(len(order))
    result[order] = adjusted
    return result
