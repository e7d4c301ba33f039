"""Cut and bit-flipped recordings: read as far as they go, or refused in one line; never another error, never out of bounds."""

from __future__ import annotations

import random
import resource
import time
from typing import TYPE_CHECKING

import pytest

from perfpy.abi import records, user_records
from perfpy.abi.flags import BranchSample, ReadFormat, SampleType
from perfpy.abi.sample_id import SampleId
from perfpy.errors import BadPerfData
from perfpy.perfdata.feature_values import EventDesc
from perfpy.perfdata.features import Feature
from perfpy.perfdata.reader import PerfData
from tests.builders.perfdata import USUAL, PerfDataBuilder, simple_recording, usual_attr

if TYPE_CHECKING:
    from pathlib import Path

VARIANTS = 110  # of each of 20 files
LONGEST = 2.0  # seconds for one variant
EVERYTHING = (
    USUAL | SampleType.IDENTIFIER | SampleType.CALLCHAIN | SampleType.RAW | SampleType.READ | SampleType.BRANCH_STACK
    | SampleType.REGS_USER | SampleType.STACK_USER | SampleType.AUX
)  # fmt: skip


def everything(endian: str) -> PerfDataBuilder:
    attr = usual_attr(
        EVERYTHING, read_format=ReadFormat.GROUP | ReadFormat.ID, branch_sample_type=BranchSample.HW_INDEX, sample_regs_user=7
    )  # fmt: skip
    built = PerfDataBuilder(attrs=[attr, usual_attr(USUAL | SampleType.IDENTIFIER)], ids=[(1, 2), (3,)], endian=endian)
    for number in range(12):
        built.sample(
            number % 2, time=100 + number, ip=5, callchain=[1, 2, 3], raw=b"raw data", branch_stack=[(1, 2, 3)], user_regs=[1, 2, 3],
            user_stack=b"stack" * 8, aux=b"auxiliary",
        )  # fmt: skip
        if number % 4 == 3:
            built.round()
    built.record(records.Fork(0, 8, 7, 8, 7, 105, SampleId(time=105, identifier=1)))
    built.record(user_records.Auxtrace(0, 24, 0, 0, 0, 7, 1)).raw(bytes(24))
    built.feature(Feature.HOSTNAME, "vm").feature(Feature.CMDLINE, ("perf", "record"))
    return built.feature(Feature.EVENT_DESC, (EventDesc(attr, "cycles", (1, 2)), EventDesc(built.attrs[1], "dummy", (3,))))


def recordings() -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for endian in "<>":
        found[f"plain {endian}"] = simple_recording(20, endian=endian).file()
        found[f"version 1 {endian}"] = simple_recording(20, endian=endian, version=1).file(attr_size=72)
        found[f"pipe {endian}"] = simple_recording(20, endian=endian).feature(Feature.HOSTNAME, "vm").pipe()
        found[f"killed {endian}"] = simple_recording(20, endian=endian).file(data_size=0)
        found[f"compressed {endian}"] = simple_recording(60, endian=endian).compressed(3).file()
        found[f"compressed pipe {endian}"] = simple_recording(60, endian=endian).compressed(3, second_form=True).pipe()
        found[f"everything {endian}"] = everything(endian).file()
        found[f"everything in a pipe {endian}"] = everything(endian).pipe()
        found[f"everything compressed {endian}"] = everything(endian).compressed(4).file()
        found[f"no trailer {endian}"] = simple_recording(20, endian=endian, attrs=[usual_attr(sample_id_all=0)]).file()
    return found


RECORDINGS = recordings()


def variant(data: bytes, rng: random.Random) -> bytes:
    """The recording with some bits flipped, numbers made huge, or cut."""
    damaged = bytearray(data)
    kind = rng.randrange(3)
    if kind == 0:
        return bytes(damaged[: rng.randrange(len(damaged))])
    for _ in range(rng.choice((1, 1, 2, 8))):
        at = rng.randrange(len(damaged))
        if kind == 1:
            damaged[at] ^= 1 << rng.randrange(8)
        else:
            damaged[at : at + 4] = rng.choice((b"\xff\xff\xff\xff", b"\0\0\0\0", b"\xff\xff\xff\x7f"))
    return bytes(damaged)


def read_all(path: Path) -> int:
    with PerfData(path) as data:
        samples = sum(len(batch) for batch in data.batches())
        for side in data.side_band():
            assert side.key >= 0
        return samples


def test_there_are_enough_variants() -> None:
    assert len(RECORDINGS) == 20
    assert len(RECORDINGS) * VARIANTS >= 2000
    assert all(len(data) < 20_000 for data in RECORDINGS.values())


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_damaged_recording_is_read_as_far_as_it_goes_or_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "perf.data"
    rng = random.Random(name)
    whole = RECORDINGS[name]
    path.write_bytes(whole)
    limit = read_all(path) + 1
    assert limit > 12
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(VARIANTS):
        path.write_bytes(variant(whole, rng))
        start, refusal = time.monotonic(), ""
        try:
            read_all(path)
        except BadPerfData as error:
            refusal = str(error)
        assert "\n" not in refusal
        assert time.monotonic() - start < LONGEST, number
    # kilobytes: a chunk of unpacked data is the largest thing that so small a file may ask for
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000
