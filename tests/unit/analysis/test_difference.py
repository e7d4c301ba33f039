"""What changed, and what is noise."""

import numpy as np

from perfpy.analysis.difference import Change, Difference, Share


def share(samples, total):
    return Share(samples * 1000, samples, total * 1000, total)


def deviations(rows):
    changes = [Change((str(n),), (share(1, 2), share(1, 2))) for n in range(rows)]
    return Difference("cycles", ("symbol",), (), changes).deviations


def test_the_numbers_are_perfs():
    change = Change(("main",), (share(10, 100), share(30, 200)))
    assert round(change.delta(1), 9) == 5.0
    assert change.ratio(1) == 3.0
    assert change.weighted(1, (1, 2)) == 50_000


def test_a_row_that_one_recording_lacks_has_no_difference():
    change = Change(("main",), (None, share(30, 200)))
    assert change.delta(1) is change.ratio(1) is change.weighted(1, (1, 1)) is None


def test_a_large_change_is_sure_and_a_small_one_is_not():
    assert Change(("a",), (share(100, 1000), share(300, 1000))).is_sure(1, deviations(500))
    assert not Change(("a",), (share(100, 1000), share(110, 1000))).is_sure(1, deviations(500))
    assert Change(("new",), (None, share(300, 1000))).is_sure(1, deviations(500))


def test_two_recordings_of_the_same_thing_seldom_have_a_mark():
    rng = np.random.default_rng(1)
    odds = rng.dirichlet(np.ones(300) * 0.3)
    bound, marked = deviations(300), 0
    for _ in range(40):
        before, after = rng.multinomial(2000, odds), rng.multinomial(2000, odds)
        rows = zip(before.tolist(), after.tolist(), strict=True)
        marked += any(Change(("x",), (share(a, 2000), share(b, 2000))).is_sure(1, bound) for a, b in rows)
    assert marked <= 6
