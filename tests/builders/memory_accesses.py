"""Recordings of memory accesses: loads and stores with data_src, latencies and addresses, drawn by a seed.

Input: a seed and a number. Output: the bytes of a file as `perf mem record` writes it on Intel (PEBS), AMD (IBS) or
Arm: the machine has two nodes of four CPUs. data_src: union perf_mem_data_src in include/uapi/linux/perf_event.h.
"""

from __future__ import annotations

import random
from typing import Any, Final

from perfpy.abi import records
from perfpy.abi.attr import EventAttr
from perfpy.abi.flags import SampleType
from perfpy.abi.records import SampleId
from perfpy.perfdata.header import CpuCount, EventDesc, Feature, MemNode, MemTopology, NumaNode
from tests.builders.perfdata import PerfDataBuilder

LOAD, STORE = 0x2, 0x4
HIT, MISS, L1, LFB, L2, L3, LOCAL_RAM, REMOTE_RAM, REMOTE_RAM_2, REMOTE_CACHE, REMOTE_CACHE_2, IO, UNCACHED = (
    1 << bit for bit in range(1, 14)
)
SNOOP_NONE, SNOOP_HIT, SNOOP_MISS, SNOOP_HITM = 0x2, 0x4, 0x8, 0x10
PEER: Final = 0x2
_FIELDS: Final = (
    SampleType.IP | SampleType.TID | SampleType.TIME | SampleType.ADDR | SampleType.CPU | SampleType.PERIOD | SampleType.IDENTIFIER
    | SampleType.DATA_SRC | SampleType.PHYS_ADDR | SampleType.WEIGHT_STRUCT
)  # fmt: skip
_NODES: Final = (NumaNode(0, 1000, 100, "0-3"), NumaNode(1, 1000, 100, "4-7"))
_BLOCK: Final = 1 << 27


def data_src(op: int = LOAD, level: int = HIT | L1, snoop: int = SNOOP_NONE, **parts: int) -> int:
    """The word of an access; parts: lock, tlb, number, remote, peer, blocked, hops."""
    shifts = {"lock": 24, "tlb": 26, "number": 33, "remote": 37, "peer": 38, "blocked": 40, "hops": 43}
    word = op | level << 5 | snoop << 19
    for name, value in parts.items():
        word |= value << shifts[name]
    return word


def access_recording(*, arch: str = "x86_64", fields: int = _FIELDS, nodes: tuple[NumaNode, ...] = _NODES) -> PerfDataBuilder:
    """A recording of two events and three processes, without samples."""
    common = {"sample_type": fields, "sample_period": 1000, "freq": 0, "sample_id_all": 1, "precise_ip": 2, "mmap": 1, "comm": 1}
    attrs = [EventAttr(type=4, config=0x1CD, config1=30, **common), EventAttr(type=4, config=0x82D0, **common)]
    built = PerfDataBuilder(attrs, [(1,), (2,)])
    for pid, name in ((10, "alpha"), (20, "beta"), (30, "gamma")):
        ids = SampleId(pid=pid, tid=pid, time=1, cpu=0, identifier=1, id=1)
        built.record(records.Comm(0, pid, pid, name, ids))
        built.record(records.Mmap2(2, pid, pid, 0x400000, 0x100000, 0, 8, 1, 98, 0, 5, 2, f"/bin/prog-{name}", b"", ids))
        shared = pid == 30
        file, place = ("/dev/shm/data", (8, 1, 97)) if shared else ("//anon", (0, 0, 0))
        built.record(records.Mmap2(2, pid, pid, 0x600000, 0x100000, 0, *place, 0, 3, 2, file, b"", ids))
    built.feature(Feature.ARCH, arch).feature(Feature.NRCPUS, CpuCount(8, 8))
    if nodes:
        add_nodes(built, nodes)
    names = ("cpu/mem-loads,ldlat=30/P", "cpu/mem-stores/P")
    return built.feature(Feature.EVENT_DESC, [EventDesc(attr, name, ids) for attr, name, ids in zip(attrs, names, built.ids, strict=True)])


def add_nodes(built: PerfDataBuilder, nodes: tuple[NumaNode, ...] = _NODES) -> None:
    """Add the nodes of the machine and their memory, without which perf's c2c refuses a recording."""
    built.feature(Feature.NUMA_TOPOLOGY, nodes)
    memory = (MemNode(0, 64, ((1 << 33) - 1,)), MemNode(1, 128, (0, 1)))
    built.feature(Feature.MEM_TOPOLOGY, MemTopology(1, _BLOCK, memory))


def access(built: PerfDataBuilder, word: int, *, event: int = 0, **values: Any) -> PerfDataBuilder:
    """Add an access."""
    usual = {
        "misc": 2,
        "ip": 0x400010,
        "pid": 10,
        "tid": 10,
        "time": 100,
        "cpu": 0,
        "addr": 0x600008,
        "weight": 50,
        "phys_addr": 0x100000008,
    }
    return built.sample(event, **{**usual, "period": 1000, "data_src": word, **values})


def random_accesses(seed: int, count: int, **recording: Any) -> bytes:
    """A file of accesses of every kind: plausible ones and wild ones."""
    draw = random.Random(seed)
    built = access_recording(**recording)
    lines = [0x600000 + 64 * draw.randrange(1000) for _ in range(8)]
    code = [0x400000 + draw.randrange(0x1000) for _ in range(12)]
    for number in range(count):
        word = _plausible(draw) if draw.random() < 0.7 else _wild(draw)
        address = draw.choice(lines) + draw.choice((0, 0, 8, 24, 63))
        if draw.random() < 0.15:
            address = draw.choice((0, 0xFFFF888000000008, 0xFFFF888000000048, 0x700000000000 + draw.randrange(4096)))
        physical = 0x100000000 | address & 0xFFFFF if draw.random() < 0.9 else draw.choice((0, 0x200000000 | address & 0xFFF))
        pid = draw.choice((10, 20, 30))
        kernel = draw.random() < 0.1
        access(
            built, word, event=draw.randrange(2), misc=1 if kernel else 2, ip=0xFFFFFFFF81000345 if kernel else draw.choice(code),
            pid=pid, tid=pid + draw.randrange(3), time=100 + 10 * number, cpu=draw.randrange(8), addr=address, phys_addr=physical,
            weight=draw.randrange(1, 900), ins_lat=draw.randrange(100), retire_lat=draw.randrange(10),
        )  # fmt: skip
    return built.file()


def _plausible(draw: random.Random) -> int:
    rest = {"lock": draw.choice((0, 1, 2)), "tlb": draw.choice((0x1, 0xA, 0x12, 0x24)), "blocked": draw.choice((0, 0, 1, 2, 4))}
    kinds = (
        (LOAD, HIT | L1, SNOOP_NONE), (LOAD, HIT | LFB, SNOOP_NONE), (LOAD, HIT | L2, SNOOP_NONE), (LOAD, HIT | L3, SNOOP_HIT),
        (LOAD, HIT | L3, SNOOP_HITM), (LOAD, HIT | LOCAL_RAM, SNOOP_MISS), (LOAD, HIT | REMOTE_RAM, SNOOP_HIT),
        (LOAD, HIT | REMOTE_CACHE, SNOOP_HIT), (LOAD, HIT | REMOTE_CACHE, SNOOP_HITM), (LOAD, HIT | REMOTE_CACHE_2, SNOOP_HITM),
        (LOAD, HIT | IO, SNOOP_NONE), (LOAD, HIT | UNCACHED, SNOOP_NONE), (STORE, HIT | L1, 1), (STORE, MISS | L1, 1), (STORE, 1, 1),
    )  # fmt: skip
    if draw.random() < 0.2:  # as AMD's and Arm's drivers have it: a number of the level
        number = draw.choice((1, 2, 3, 4, 9, 0xB, 0xC, 0xD))
        snoop = draw.choice((SNOOP_HIT, SNOOP_HITM, SNOOP_NONE, SNOOP_MISS))
        more = {"number": number, "remote": draw.randrange(2), "hops": draw.choice((0, 0, 1, 2, 3)), "peer": draw.choice((0, 0, PEER))}
        return data_src(LOAD, HIT, snoop, **more, **rest)
    if draw.random() < 0.1:
        return data_src(LOAD, HIT | draw.choice((L2, L3, REMOTE_CACHE)), draw.choice((0, SNOOP_NONE)), peer=PEER, **rest)
    return data_src(*draw.choice(kinds), **rest)


def _wild(draw: random.Random) -> int:
    return draw.getrandbits(46) & (draw.getrandbits(46) | 0x1F)
