"""The words at the beginning of samples stand where the kernel puts them."""

from __future__ import annotations

import pytest

from perfpy.abi.flags import SampleType
from perfpy.abi.sample_layout import FIXED_FIELDS, words_before

_FEW = SampleType.IP | SampleType.TID | SampleType.PERIOD | SampleType.CALLCHAIN


@pytest.mark.parametrize(
    ("sample_type", "field", "words"),
    [
        (_FEW, SampleType.IP, 1),
        (_FEW, SampleType.TID, 2),
        (_FEW, SampleType.PERIOD, 3),
        (_FEW, 0, 4),
        (_FEW | SampleType.IDENTIFIER, SampleType.TID, 3),
        (0, 0, 1),
    ],
)
def test_a_word_follows_the_present_words_before_it(sample_type, field, words):
    assert words_before(sample_type, field) == words


def test_there_are_nine_of_them():
    every = sum(bit for bit, _ in FIXED_FIELDS)
    assert words_before(every) == 10
