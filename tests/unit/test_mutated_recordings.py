"""Cut and bit-flipped recordings: read as far as they go, or refused in one line; never another error, never out of bounds."""

from __future__ import annotations

import random
import resource
import time
from typing import TYPE_CHECKING

import pytest

from perfpy.errors import BadPerfDataError
from perfpy.perfdata.reader import PerfData
from tests.builders.damage import damaged, recordings

if TYPE_CHECKING:
    from pathlib import Path

VARIANTS = 110  # of each recording
LONGEST = 2.0  # seconds of CPU time for one variant
RECORDINGS = recordings()


def read_all(path: Path) -> int:
    with PerfData(path) as data:
        samples = sum(len(batch) for batch in data.batches())
        for side in data.side_band():
            assert side.key >= 0
        return samples


def test_there_are_enough_variants() -> None:
    assert len(RECORDINGS) >= 20
    assert len(RECORDINGS) * VARIANTS >= 2000
    assert all(len(data) < 20_000 for data in RECORDINGS.values())


@pytest.mark.parametrize("name", RECORDINGS)
@pytest.mark.slow
def test_a_damaged_recording_is_read_as_far_as_it_goes_or_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "perf.data"
    rng = random.Random(name)
    whole = RECORDINGS[name]
    path.write_bytes(whole)
    limit = read_all(path) + 1
    assert limit > 12
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(VARIANTS):
        path.write_bytes(damaged(whole, rng))
        start, refusal = time.process_time(), ""
        try:
            read_all(path)
        except BadPerfDataError as error:
            refusal = str(error)
        assert "\n" not in refusal
        assert time.process_time() - start < LONGEST, number
    # kilobytes: a chunk of unpacked data is the largest thing that so small a file may ask for
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000
