"""Recordings of every shape, small ones, and what bad luck makes of them.

Input: a generator of random numbers. Output: the bytes of damaged
files: cut, with bits flipped, with numbers that cannot be, with records that
say they are something else.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from perfpy.abi import perf_records, records
from perfpy.abi.flags import BranchSample, ReadFormat, SampleType
from perfpy.abi.records import SampleId
from perfpy.perfdata.header import EventDesc, Feature
from tests.builders.perfdata import USUAL, PerfDataBuilder, simple_recording, usual_attr
from tests.builders.specimens import every_kind

if TYPE_CHECKING:
    import random

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
    built.record(perf_records.Auxtrace(0, 24, 0, 0, 0, 7, 1)).raw(bytes(24))
    built.feature(Feature.HOSTNAME, "vm").feature(Feature.CMDLINE, ("perf", "record"))
    return built.feature(Feature.EVENT_DESC, (EventDesc(attr, "cycles", (1, 2)), EventDesc(built.attrs[1], "dummy", (3,))))


def recordings() -> dict[str, bytes]:
    """Whole recordings by name, of both byte orders."""
    results: dict[str, bytes] = {}
    for endian in "<>":
        results[f"plain {endian}"] = simple_recording(20, endian=endian).file()
        results[f"version 1 {endian}"] = simple_recording(20, endian=endian, version=1).file(attr_size=72)
        results[f"pipe {endian}"] = simple_recording(20, endian=endian).feature(Feature.HOSTNAME, "vm").pipe()
        results[f"killed {endian}"] = simple_recording(20, endian=endian).file(data_size=0)
        results[f"compressed {endian}"] = simple_recording(60, endian=endian).compressed(3).file()
        results[f"compressed pipe {endian}"] = simple_recording(60, endian=endian).compressed(3, second_form=True).pipe()
        results[f"everything {endian}"] = everything(endian).file()
        results[f"everything in a pipe {endian}"] = everything(endian).pipe()
        results[f"everything compressed {endian}"] = everything(endian).compressed(4).file()
        results[f"no trailer {endian}"] = simple_recording(20, endian=endian, attrs=[usual_attr(sample_id_all=0)]).file()
        results[f"every kind of record {endian}"] = every_kind(endian).file()
        results[f"every kind of record in a pipe {endian}"] = every_kind(endian).pipe()
    return results


def damaged(data: bytes, rng: random.Random) -> bytes:
    """A recording that is cut, or has some bits flipped, numbers made huge, or records made others."""
    kind = rng.randrange(4)
    if kind == 0:
        return data[: rng.randrange(len(data))]
    copy = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        at = rng.randrange(len(copy))
        if kind == 1:
            copy[at] ^= 1 << rng.randrange(8)
        elif kind == 2:
            copy[at : at + 4] = rng.choice((b"\xff\xff\xff\xff", b"\0\0\0\0", b"\xff\xff\xff\x7f"))
        else:
            _become_another(copy, at & ~7, "<>"[data[:1] == b"2"], rng)
    return bytes(copy)


def _become_another(data: bytearray, at: int, endian: str, rng: random.Random) -> None:
    """Change type or size of the first record behind an offset."""
    for place in range(at, len(data) - 8, 8):
        kind, misc, size = struct.unpack_from(f"{endian}IHH", data, place)
        if (0 < kind < 23 or 64 <= kind < 84) and 8 <= size < 1024:
            if rng.randrange(2):
                kind = rng.choice((*range(23), *range(64, 86), 0x8001))
            else:
                size = rng.choice((8, 16, size - 8, size + 8, size + 1))
            struct.pack_into(f"{endian}IHH", data, place, kind, misc, size)
            return
