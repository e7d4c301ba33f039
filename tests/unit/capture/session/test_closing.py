"""The last lines of a recording."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from perfpy.capture.record_options import RecordOptions
from perfpy.capture.session import closing

if TYPE_CHECKING:
    from perfpy.capture.output.data_file import DataFile

PEOPLE = RecordOptions(notes=True)


def lines(samples: int | None, lost: int = 0, options: RecordOptions = PEOPLE, *, hint: str = "", ring: int = 512 << 10) -> list[str]:
    file = cast("DataFile", SimpleNamespace(samples=samples, lost=lost, hint=hint))
    return [*closing.judgement(file, options, ring)]


def test_a_good_recording_is_called_so_and_how_exact_it_is():
    assert lines(10_000) == ["note: a good recording: 10000 samples, none lost; a share of 10 % is known to 0.6 points"]


def test_few_samples_come_with_a_remedy():
    (line,) = lines(100, options=PEOPLE._replace(sampling=PEOPLE.sampling._replace(freq=99)))
    assert "100 samples are few" in line
    assert "5.9 points" in line
    assert "raise -F (99 Hz)" in line


def test_no_samples_come_with_a_remedy():
    assert "-a" in lines(0)[0]


@pytest.mark.parametrize(
    ("options", "ring", "remedies"),
    [
        (PEOPLE, 512 << 10, "larger buffers (-m 2M) or a lower frequency (-F 2000)"),
        (PEOPLE._replace(sampling=PEOPLE.sampling._replace(freq=99)), 4096, "larger buffers (-m 16K) or a lower frequency (-F 49)"),
        (PEOPLE._replace(sampling=PEOPLE.sampling._replace(period=1)), 64 << 20, "larger buffers (-m 64M)"),
    ],
)
def test_losses_come_with_their_share_and_remedies_that_can_be_typed(options, ring, remedies):
    assert lines(750, 250, options, ring=ring)[0] == f"warning: 250 samples were lost (25.0 %): try {remedies}"


def test_losses_are_told_to_scripts_and_nothing_else_is():
    assert lines(10, options=RecordOptions()) == []
    assert len(lines(10, 1, RecordOptions())) == 1


def test_what_was_not_counted_is_not_judged():
    assert lines(None) == []
    assert lines(0, options=PEOPLE._replace(sampling=PEOPLE.sampling._replace(no_samples=True))) == []


def test_a_hint_on_call_chains_is_not_followed_by_praise():
    assert lines(10_000, hint="call chains end") == ["note: call chains end"]
