"""Recordings of samples that hardware takes: PEBS, branch stacks, AMD's IBS, Arm's SPE, and the two PMUs of a hybrid machine.

Input: a program whose code lies where its symbols say (-no-pie), the address where its walk starts, a seed. Output: the bytes of a
perf.data file whose samples lie on that walk. Raw data of IBS: struct perf_ibs_data in arch/x86/events/amd/ibs.c.
"""

from __future__ import annotations

import random
import struct
from typing import TYPE_CHECKING, Any, Final

from perfpy.abi import records
from perfpy.abi.attr import EventAttr
from perfpy.abi.flags import BranchSample, SampleType
from perfpy.abi.records import SampleId
from perfpy.perfdata.header import CpuCount, EventDesc, EventGroup, Feature, HybridPmu, PmuCaps, PmuMapping
from tests.builders import branch_walk, memory_accesses
from tests.builders.perfdata import PerfDataBuilder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_USUAL: Final = SampleType.IP | SampleType.TID | SampleType.TIME | SampleType.CPU | SampleType.PERIOD | SampleType.IDENTIFIER
_ACCESS: Final = SampleType.ADDR | SampleType.DATA_SRC | SampleType.PHYS_ADDR
_PAGES: Final = SampleType.DATA_PAGE_SIZE | SampleType.CODE_PAGE_SIZE
_CORE, _ATOM, _IBS_FETCH, _IBS_OP, _SPE = 4, 10, 10, 11, 8
_CPUS: Final = 8
_PAGE: Final = 0x1000


def _started(attrs: Sequence[EventAttr], names: Sequence[str], program: Path, arch: str, cpuid: str) -> PerfDataBuilder:
    """Return a recording of a process with two threads, without samples."""
    built = PerfDataBuilder(list(attrs), [(10 * number, 10 * number + 1) for number in range(1, len(attrs) + 1)])
    code = branch_walk.instructions(program)
    first = min(code) & -_PAGE
    size = (max(code) + _PAGE & -_PAGE) - first
    ids = SampleId(pid=40, tid=40, time=1_000, cpu=0, identifier=10, id=10)
    built.record(records.Comm(0x2000, 40, 40, "walked", ids))
    built.record(records.Mmap2(2, 40, 40, first, size, first - 0x400000, 8, 1, 99, 0, 5, 2, str(program), b"", ids))
    built.record(records.Mmap2(2, 40, 40, 0x7F0000000000, 0x100000, 0, 0, 0, 0, 0, 3, 2, "[heap]", b"", ids))
    built.record(records.Comm(0, 40, 41, "helper", ids))
    built.feature(Feature.HOSTNAME, "host").feature(Feature.ARCH, arch).feature(Feature.CPUID, cpuid)
    built.feature(Feature.NRCPUS, CpuCount(_CPUS, _CPUS))
    memory_accesses.add_nodes(built)
    descriptions = [EventDesc(attr, name, ids) for attr, name, ids in zip(attrs, names, built.ids, strict=True)]
    return built.feature(Feature.EVENT_DESC, descriptions)


def _walked(program: Path, start: int, count: int, draw: random.Random) -> Iterator[dict[str, Any]]:
    """Yield what every sample has: a place on the walk, a thread, a CPU, a time."""
    code = branch_walk.instructions(program)
    for number, (ip, branches) in enumerate(branch_walk.walk(code, start, count)):
        yield {
            "misc": 2, "ip": ip, "pid": 40, "tid": draw.choice((40, 40, 41)), "time": 2_000_000 + 1_000 * number,
            "cpu": draw.randrange(_CPUS), "period": draw.randrange(900, 1100), "branch_stack": branches,
        }  # fmt: skip


def _access(draw: random.Random) -> dict[str, int]:
    address = draw.choice((0x7F0000000000 + 64 * draw.randrange(40), draw.getrandbits(47), 0))
    word = memory_accesses._plausible(draw) if draw.random() < 0.8 else memory_accesses._wild(draw)
    return {
        "addr": address, "data_src": word, "phys_addr": 0x100000000 | address & 0xFFFFF, "weight": draw.randrange(1, 900),
        "ins_lat": draw.randrange(100), "retire_lat": draw.randrange(10), "data_page_size": draw.choice((0x1000, 0x200000, 0)),
        "code_page_size": draw.choice((0x1000, 0x200000)), "transaction": draw.choice((0, 0, 0x35, 0x100000003)),
    }  # fmt: skip


def pebs(program: Path, start: int, *, count: int = 80, seed: int = 1) -> bytes:
    """Return loads, stores and an ordinary event of Intel's PEBS, with latencies, addresses and transactions."""
    draw = random.Random(seed)
    kinds = _USUAL | _ACCESS | _PAGES | SampleType.WEIGHT_STRUCT | SampleType.TRANSACTION
    attrs = [
        EventAttr(type=_CORE, config=config, config1=latency, sample_type=kinds, sample_period=1000, sample_id_all=1, precise_ip=3)
        for config, latency in ((0x1CD, 30), (0x82D0, 0), (0xC4, 0))
    ]
    names = ("cpu/mem-loads,ldlat=30/P", "cpu/mem-stores/P", "br_inst_retired.all_branches:pp")
    built = _started(attrs, names, program, "x86_64", "GenuineIntel,6,143,8")
    for sample in _walked(program, start, count, draw):
        built.sample(draw.randrange(3), **sample | _access(draw))
    return built.file()


def branch_records(program: Path, start: int, *, count: int = 80, seed: int = 2, typed_by_place: bool = False) -> bytes:
    """Return branch stacks with every flag and with counters of three events (`record -j any,u,save_type,counter`).

    typed_by_place: all branches from one place to another have one type
    """
    draw = random.Random(seed)
    chosen = BranchSample.USER | BranchSample.ANY | BranchSample.HW_INDEX | BranchSample.TYPE_SAVE | BranchSample.COUNTERS
    kinds = _USUAL | SampleType.BRANCH_STACK
    common = {"sample_type": kinds, "sample_period": 1000, "sample_id_all": 1, "exclude_kernel": 1}
    attrs = [EventAttr(type=_CORE, config=config, branch_sample_type=chosen, **common) for config in (0x3C, 0x1D1, 0xC5)]
    names = ("cycles:u", "mem_load_retired.l1_hit:u", "branch-misses:u")
    built = _started(attrs, names, program, "x86_64", "GenuineIntel,6,173,1")

    def kind(at: int, to: int) -> int:
        return (at * 7 + to * 3) % 15 if typed_by_place else draw.randrange(16)

    for sample in _walked(program, start, count, draw):
        # type, spec, new type and privilege stand above the cycles, at bits 20, 24, 26 and 30
        branches = [
            (at, to, flags | draw.choice((0, 0, 4, 8)) | kind(at, to) << 20 | draw.randrange(4) << 24 | draw.randrange(4) << 30)
            for at, to, flags in sample["branch_stack"]
        ]
        counters = [draw.randrange(64) for _ in branches]
        index = draw.choice((0, 3, -1))
        built.sample(draw.randrange(3), **sample | {"branch_stack": branches, "branch_hw_index": index, "branch_counters": counters})
    built.feature(Feature.CPU_PMU_CAPS, (("branches", "32"), ("branch_counter_nr", "4"), ("branch_counter_width", "2")))
    built.feature(Feature.GROUP_DESC, [EventGroup("{anon_group}", 0, 3)])
    return built.feature(Feature.BRANCH_STACK, b"").file()


def branches_and_chains(program: Path, start: int, *, count: int = 150, seed: int = 6) -> bytes:
    """Return branch stacks with repeated loops and cycles, beside callchains that begin with the calls of some branches."""
    draw = random.Random(seed)
    kinds = _USUAL | SampleType.BRANCH_STACK | SampleType.CALLCHAIN
    attr = EventAttr(type=_CORE, config=0x3C, branch_sample_type=BranchSample.ANY, sample_type=kinds, sample_period=1000, sample_id_all=1)
    built = _started([attr], ["cycles"], program, "x86_64", "GenuineIntel,6,173,1")
    code = sorted(branch_walk.instructions(program))
    for sample in _walked(program, start, count, draw):
        branches = sample["branch_stack"]
        at, size, times = draw.randrange(6), draw.randrange(1, 6), draw.randrange(4)
        branches = (branches[:at] + branches[at : at + size] * times + branches[at:])[:32]
        branches = [(source, to, flags & ~0xFFFF0 | draw.choice((0, 1, 70, 200)) << 4) for source, to, flags in branches]
        kernel = [0xFFFFFFFFFFFFFF80, 0xFFFFFFFF81000010, 0xFFFFFFFF81000020] if draw.random() < 0.3 else []
        user = [0xFFFFFFFFFFFFFE00, sample["ip"], *(draw.choice(code) for _ in range(draw.randrange(40)))]
        if branches and len(user) > 2 and draw.random() < 0.6:
            user[draw.randrange(1, 3)] = branches[0][0] + draw.randrange(1, 10)
        built.sample(0, **sample | {"branch_stack": branches, "callchain": kernel + user})
    return built.feature(Feature.BRANCH_STACK, b"").file()


def ibs(program: Path, start: int, *, count: int = 60, seed: int = 3) -> bytes:
    """Return samples of AMD's IBS, of operations and of fetches, with the raw registers."""
    draw = random.Random(seed)
    kinds = _USUAL | _ACCESS | SampleType.RAW | SampleType.WEIGHT
    attrs = [
        EventAttr(type=pmu, config=config, sample_type=kinds, sample_period=100_000, sample_id_all=1)
        for pmu, config in ((_IBS_OP, 1 << 19), (_IBS_FETCH, 1 << 57))
    ]
    built = _started(attrs, ("ibs_op/cnt_ctl=1/", "ibs_fetch/rand_en=1/"), program, "x86_64", "AuthenticAMD,25,17,1")
    mappings = ((_CORE, "cpu"), (1, "software"), (_IBS_OP, "ibs_op"), (_IBS_FETCH, "ibs_fetch"))
    built.feature(Feature.PMU_MAPPINGS, [PmuMapping(*pair) for pair in mappings])
    for sample in _walked(program, start, count, draw):
        event = draw.randrange(2)
        access = _access(draw)
        registers: tuple[int, ...]
        if event == 0:
            data3 = draw.getrandbits(64) if draw.random() < 0.2 else 0x60003 | draw.randrange(900) << 32
            registers = (
                1 << 18 | 1 << 19 | 0x186A,
                sample["ip"],
                draw.getrandbits(40) & 0x17FFFFFFFF,
                draw.randrange(16),
                data3,
                access["addr"],
                access["phys_addr"],
                0,
            )
        else:
            registers = (1 << 57 | 1 << 49 | 1 << 50 | draw.randrange(300) << 32 | 0x186A, sample["ip"], access["phys_addr"], 0)
        raw = struct.pack(f"<I{len(registers)}Q", 0xBFF, *registers)
        built.sample(event, **sample | access | {"raw": raw})
    return built.file()


def spe(program: Path, start: int, *, count: int = 80, seed: int = 4) -> bytes:
    """Return the samples that perf makes of Arm's SPE data (`perf inject --itrace`)."""
    draw = random.Random(seed)
    kinds = _USUAL | _ACCESS | SampleType.WEIGHT
    names = ("l1d-access", "llc-miss", "remote-access", "memory", "instructions")
    attrs = [EventAttr(type=_SPE, config=1 << 16, sample_type=kinds, sample_period=1, sample_id_all=1) for _ in names]
    built = _started(attrs, names, program, "aarch64", "0x00000000413fd0c0")
    for sample in _walked(program, start, count, draw):
        built.sample(draw.randrange(len(names)), **sample | _access(draw))
    return built.file()


def hybrid(
    program: Path,
    start: int,
    *,
    names: tuple[str, str] = ("cpu_core/{}/", "cpu_atom/{}/"),
    grouped: bool = False,
    count: int = 80,
    seed: int = 5,
) -> bytes:
    """Return cycles and instructions of both kinds of cores.

    Args:
        names: the patterns of the names of each PMU's events; the same one gives two PMUs events of one name
        grouped: the events of a PMU are a group
    """
    draw = random.Random(seed)
    attrs = [
        EventAttr(type=0, config=pmu << 32 | event, sample_type=_USUAL, sample_period=1000, sample_id_all=1)
        for pmu in (_CORE, _ATOM)
        for event in (0, 1)
    ]
    called = [pattern.format(event) for pattern in names for event in ("cycles", "instructions")]
    built = _started(attrs, called, program, "x86_64", "GenuineIntel,6,154,3")
    for sample in _walked(program, start, count, draw):
        event = draw.randrange(4)
        built.sample(event, **sample | {"cpu": draw.randrange(4) + (4 if event >= 2 else 0)})
    built.feature(Feature.HYBRID_TOPOLOGY, [HybridPmu("cpu_core", "0-3"), HybridPmu("cpu_atom", "4-7")])
    built.feature(
        Feature.PMU_CAPS, [PmuCaps("cpu_core", (("branches", "32"), ("max_precise", "3"))), PmuCaps("cpu_atom", (("branches", "32"),))]
    )
    built.feature(Feature.PMU_MAPPINGS, [PmuMapping(_CORE, "cpu_core"), PmuMapping(1, "software"), PmuMapping(_ATOM, "cpu_atom")])
    if grouped:
        built.feature(Feature.GROUP_DESC, [EventGroup("{anon_group}", 0, 2), EventGroup("{anon_group}", 2, 2)])
    return built.file()
