#!/usr/bin/env python3
"""made.py FOLDER: recordings that no machine at hand makes, built; and recordings of FOLDER, damaged.

What is built has what a PMU would tell: branch stacks, sources of data and weights. What is damaged is cut, has bits flipped, or
numbers that cannot be.
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from perfpy.abi import records
from perfpy.abi.flags import BranchSample, SampleType
from perfpy.abi.records import SampleId
from perfpy.perfdata.header import EventDesc, Feature
from tests.builders.perfdata import USUAL, PerfDataBuilder, usual_attr

SPIN, INNER, MIDDLE, OUTER, PAGES = 0x400176, 0x4001B7, 0x4001C6, 0x40020C, 0x401740  # in work, of x86-64
BRANCHES = usual_attr(
    USUAL | SampleType.BRANCH_STACK | SampleType.IDENTIFIER, type=0, branch_sample_type=BranchSample.ANY | BranchSample.USER, mmap=1, comm=1
)  # fmt: skip
MEMORY = usual_attr(
    USUAL | SampleType.ADDR | SampleType.DATA_SRC | SampleType.WEIGHT | SampleType.PHYS_ADDR | SampleType.DATA_PAGE_SIZE
    | SampleType.IDENTIFIER,
    type=4, config=0x1CD, mmap=1, comm=1, mmap_data=1,
)  # fmt: skip
# read of L1, of memory far away, a store, one that missed the TLB and was locked (struct perf_mem_data_src)
SOURCES = (0x2 | 0xA << 5, 0x2 | 0x82 << 5 | 1 << 24, 0x4 | 0xA << 5, 0x2 | 0x1042 << 5 | 0x22 << 26 | 2 << 24)


def program(built: PerfDataBuilder, endian: str = "<") -> PerfDataBuilder:
    """The side band of a run of work, and the features of its machine."""
    at = built.ids[0][0]
    who = {"pid": 40, "tid": 40, "time": 1_000_000, "identifier": at}
    built.record(records.Comm(0x2000, 40, 40, "work", SampleId(**who)))
    built.record(records.Mmap2(2, 40, 40, 0x400000, 0x1000, 0, 8, 1, 99, 0, 5, 2, "/tmp/c/work", b"", SampleId(**who)))
    built.feature(Feature.HOSTNAME, "host").feature(Feature.ARCH, "x86_64" if endian == "<" else "s390x")
    return built


def branches(endian: str) -> bytes:
    built = program(PerfDataBuilder(attrs=[BRANCHES], ids=[(1,)], endian=endian), endian)
    for number in range(24):
        stack = [(SPIN + 0x33, SPIN + 0x11, 1 | 3 << 4), (INNER + 4, SPIN, 2), (MIDDLE + 9, INNER, 1 | 7 << 4), (OUTER + 5, MIDDLE, 1)]
        built.sample(misc=2, ip=SPIN + 0x11, pid=40, tid=40, time=2_000_000 + number * 1000, period=1000, branch_stack=stack[: number % 5])
    built.feature(Feature.BRANCH_STACK, b"")
    return built.feature(Feature.EVENT_DESC, (EventDesc(BRANCHES, "cycles:u", (1,)),)).file()


def memory(endian: str) -> bytes:
    built = program(PerfDataBuilder(attrs=[MEMORY], ids=[(1,)], endian=endian), endian)
    for number in range(16):
        built.sample(
            misc=2, ip=SPIN + 0x11, pid=40, tid=40, time=2_000_000 + number * 1000, period=1000, addr=PAGES + number * 64,
            data_src=SOURCES[number % 4], weight=7 + number, phys_addr=0x10_0000 + number * 64, data_page_size=4096,
        )  # fmt: skip
    return built.feature(Feature.EVENT_DESC, (EventDesc(MEMORY, "mem-loads", (1,)),)).file()


def patched(data: bytes, offset: int, code: str, *values: int) -> bytes:
    changed = bytearray(data)
    struct.pack_into("<" + code, changed, offset, *values)
    return bytes(changed)


def damaged(folder: Path) -> dict[str, bytes]:
    whole = (folder / "cpu-clock.data").read_bytes()
    packed = (folder / "zstd-chains.data").read_bytes()
    piped = (folder / "pipe.data").read_bytes()
    data, size = struct.unpack_from("<QQ", whole, 40)
    samples = [at for at, kind in walk(whole, data, size) if kind == 9]
    middle = samples[len(samples) // 2]
    flipped = bytearray(whole)
    for at in samples[::7]:
        flipped[at + 30] ^= 0x10  # in an id field or an address
    compressed = bytearray(packed)
    compressed[struct.unpack_from("<Q", packed, 40)[0] + 600] ^= 0xFF
    return {
        "cut-in-data": whole[: middle + 20],
        "cut-in-features": whole[:-700],
        "cut-in-header": whole[:60],
        "cut-pipe": piped[:-100],
        "empty": b"",
        "magic": b"PERFILE9" + whole[8:],
        "attr-size": patched(whole, 16, "Q", 0x7FFF),
        "data-section": patched(whole, 40, "QQ", data, 1 << 40),
        "record-size-zero": patched(whole, middle + 6, "H", 0),
        "record-size-large": patched(whole, middle + 6, "H", 0xFFF8),
        "record-size-odd": patched(whole, middle + 6, "H", 37),
        "record-type": patched(whole, middle, "I", 0x7777),
        "features-bits": patched(whole, 72, "Q", 0xFFFFFFFF),
        "bits": bytes(flipped),
        "zstd": bytes(compressed),
    }


def walk(data: bytes, offset: int, size: int) -> list[tuple[int, int]]:
    """(offset, type) of the records."""
    result, at = [], offset
    while at < offset + size:
        result.append((at, struct.unpack_from("<I", data, at)[0]))
        at += struct.unpack_from("<H", data, at + 6)[0]
    return result


def main() -> None:
    folder = Path(sys.argv[1])
    for order, endian in (("", "<"), ("-big-endian", ">")):
        (folder / f"made-branches{order}.data").write_bytes(branches(endian))
        (folder / f"made-memory{order}.data").write_bytes(memory(endian))
    for name, content in damaged(folder).items():
        (folder / f"damaged-{name}.data").write_bytes(content)


if __name__ == "__main__":
    main()
