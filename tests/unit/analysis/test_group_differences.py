"""Changes of shares between groups of hosts: false positives are as rare as promised, and real changes are found."""

from __future__ import annotations

import numpy as np
import pytest

from perfpy.analysis.differences import LEVEL, chance, correct_for_many_tests
from perfpy.analysis.group_differences import Design, Units, share_changes

ROWS, SAMPLES = 40, 3000


def hosts(random, count, spread, change=0.0, own=None):
    """Return samples of each row (first axis) on some hosts, whose shares spread by `spread`; row 2 costs `change` more."""
    shares = 1 / np.arange(1, ROWS + 1)
    shares = np.tile(shares / shares.sum(), (count, 1)) * (1 if own is None else own)
    shares *= random.gamma(1 / spread**2, spread**2, shares.shape)
    shares[:, 2] *= 1 + change
    sizes = (SAMPLES * random.lognormal(0, 0.5, count)).astype(int)
    return np.array([random.multinomial(size, one / one.sum()) for size, one in zip(sizes, shares, strict=True)]).T


def compared(before, after, *, same=False, equal=False):
    counts = np.concatenate([before, after], axis=1)
    samples = counts.sum(axis=0).astype(float)
    first, second = before.shape[1], after.shape[1]
    weight = np.ones(first + second) if equal else samples
    host = np.concatenate([np.arange(first), np.arange(second) + (0 if same else first)])
    units = Units(weight, samples, host, np.repeat([False, True], [first, second]))
    return share_changes(counts / samples, units, counts.sum(axis=1) >= 10)


def marked_as_one_sample(before, after):
    """Whether a test of all hosts' samples together marks a row."""
    old, new = (side.sum(axis=1).tolist() for side in (before, after))
    return min(correct_for_many_tests([chance(a, sum(old), b, sum(new)) for a, b in zip(old, new, strict=True)])) < LEVEL


@pytest.mark.parametrize(("before", "after", "same"), [(3, 3, False), (5, 5, False), (4, 8, False), (8, 8, True)])
def test_tables_without_a_change_are_marked_as_rarely_as_promised(before, after, same):
    random = np.random.default_rng(1)
    tables, pooled, marked, marked_pooled = 80, 5, 0, 0
    for number in range(tables):
        own = random.gamma(4, 0.25, (before, ROWS)) if same else None
        sides = hosts(random, before, 0.3, own=own), hosts(random, after, 0.3, own=own)
        marked += np.nanmin(compared(*sides, same=same).chance) < LEVEL
        marked_pooled += number < pooled and marked_as_one_sample(*sides)
    assert marked <= 8  # of 80, 4 expected
    assert marked_pooled == pooled


def test_intervals_hold_the_true_change_of_95_in_100_rows():
    random = np.random.default_rng(2)
    results = [compared(hosts(random, 12, 0.2), hosts(random, 12, 0.2), equal=True) for _ in range(20)]
    held = np.mean([(one.low <= 0) & (one.high >= 0) for one in results])
    assert 0.93 < held < 0.98


def test_a_change_is_found_by_more_hosts():
    random = np.random.default_rng(3)
    results = [
        np.mean([compared(hosts(random, n, 0.05), hosts(random, n, 0.05, 0.15)).chance[2] < LEVEL for _ in range(20)]) for n in (4, 30)
    ]
    assert results[0] < 0.5
    assert results[1] > 0.9


def test_hosts_that_are_in_both_groups_are_compared_with_themselves():
    random = np.random.default_rng(4)
    own = random.gamma(4, 0.25, (12, ROWS))
    before, after = hosts(random, 12, 0.03, own=own), hosts(random, 12, 0.03, 0.3, own=own)
    assert compared(before, after, same=True, equal=True).chance[2] < LEVEL
    assert compared(before, after, equal=True).chance[2] > LEVEL


def test_a_single_host_that_is_far_off_is_no_change():
    random = np.random.default_rng(5)
    before, after = hosts(random, 10, 0.05), hosts(random, 10, 0.05)
    after[30, 0] += 20_000
    assert marked_as_one_sample(before, after)
    assert np.nanmin(compared(before, after).chance) > LEVEL


def test_one_host_shows_no_spread():
    random = np.random.default_rng(6)
    result = compared(hosts(random, 1, 0.1), hosts(random, 6, 0.1))
    assert result.test == ""
    assert np.isnan(result.chance).all()
    assert np.isnan(result.low).all()


@pytest.mark.parametrize(
    ("before", "after", "same", "test"), [(3, 3, 0, "student"), (3, 4, 0, "permutation"), (5, 5, 5, "student"), (6, 6, 6, "permutation")]
)
def test_labels_are_dealt_where_a_deal_can_be_rare_enough(before, after, same, test):
    host = np.concatenate([np.arange(before), np.arange(after) + (0 if same else before)])
    units = Units(np.ones(before + after), np.full(before + after, 100.0), host, np.repeat([False, True], [before, after]))
    design = Design(units)
    assert design.can_tell == (test == "permutation")
    labels = design.deals(1)
    assert labels[:, 0].astype(bool).tolist() == units.after.tolist()
    assert len(np.unique(labels, axis=1).T) == labels.shape[1] == design.size


def test_chances_equal_the_definition():
    """The sum of squares of each host's contribution to the difference, for any labels."""
    from perfpy.analysis.group_differences import _Deal

    random = np.random.default_rng(7)
    for host in (np.arange(9), np.array([0, 1, 2, 3, 0, 1, 2, 3]), np.array([0, 1, 2, 3, 4, 0, 1, 5, 6, 7])):
        size = len(host)
        after = np.arange(size) >= size // 2
        units = Units(random.random(size) + 0.5, np.full(size, 1e12), host, after)
        shares, design = random.random((3, size)), Design(units)
        labels = design.deals(3)
        result = _Deal(design, labels).of(shares)
        for column in (0, 1, labels.shape[1] - 1):
            error, difference = defined(shares, units, labels[:, column])
            assert result.error[:, column] == pytest.approx(error)
            assert (result.after - result.before)[:, column] == pytest.approx(difference)


def defined(shares, units, label):
    sums = [(units.weight * side).sum() for side in (1 - label, label)]
    both = [(shares * units.weight * side).sum(axis=1) / total for side, total in zip((1 - label, label), sums, strict=True)]
    added: dict[object, list[np.ndarray]] = {}
    for host in np.unique(units.host):
        own = np.flatnonzero(units.host == host)
        parts = [
            (1 if label[unit] else -1) * units.weight[unit] * (shares[:, unit] - both[int(label[unit])]) / sums[int(label[unit])]
            for unit in own
        ]
        added.setdefault("both" if len(own) == 2 else label[own[0]], []).append(sum(parts))
    squares = sum(sum(one**2 for one in same) * len(same) / max(len(same) - 1, 0.5) for same in added.values())
    return np.sqrt(squares), both[1] - both[0]
