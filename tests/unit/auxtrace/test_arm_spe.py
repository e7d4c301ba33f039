"""Arm SPE traces: packets to records, records to samples, for whole, cut, damaged and hostile traces."""

from __future__ import annotations

import random
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import pytest

import perfpy
from perfpy.abi.flags import MISC_SWITCH_OUT
from perfpy.abi.perf_records import Auxtrace, AuxtraceInfo
from perfpy.abi.records import SampleId, SwitchCpuWide
from perfpy.auxtrace import arm_spe
from perfpy.auxtrace import decoded as decoded_recordings
from perfpy.auxtrace.arm_spe import LOAD, STORE, SpeRecords, data_sources, decode_records, sources_of_core
from perfpy.auxtrace.itrace import parse_itrace
from perfpy.errors import PerfError, UsageError
from tests.builders import arm_spe as spe
from tests.builders.perfdata import traced

if TYPE_CHECKING:
    from collections.abc import Iterator

KERNEL = 0xFF << 56


def decoded(data: bytes, begin: int = 0) -> tuple[SpeRecords, int]:
    """The records of a trace, and the number of damaged bytes."""
    whole = bytes(begin) + data
    parts = list(decode_records(lambda offset, size: whole[offset : offset + size], begin, len(data)))
    return SpeRecords.concat([records for records, _ in parts]), sum(bad for _, bad in parts)


def rows(records: SpeRecords) -> list[tuple[int, ...]]:
    """Records as tuples."""
    return list(zip(*(column.tolist() for column in records), strict=True))


# From packets to records.


def test_a_record_has_the_values_of_its_packets() -> None:
    trace = b"".join(
        (
            spe.address(spe.PC, 0x400010 | spe.NON_SECURE),
            spe.context(77),
            spe.operation(spe.LOAD_STORE, 1),
            spe.events(spe.L1_MISS | spe.TLB_ACCESS),
            spe.latency(spe.ISSUE, 3),
            spe.latency(spe.TOTAL, 450),
            spe.address(spe.DATA, 0xA5 << 56 | 0x600008),
            spe.address(spe.PHYSICAL, 0x1234000 | spe.NON_SECURE),
            spe.data_source(0xD),
            spe.timestamp(99),
        )
    )
    assert rows(decoded(trace)[0]) == [(99, 0x400010, 0, 0x600008, 0x1234000, 450, 77, STORE, spe.L1_MISS | spe.TLB_ACCESS, 0xD)]


def test_addresses_of_the_kernel_get_their_top_byte() -> None:
    trace = (
        spe.address(spe.PC, 0xFF800000100000 | spe.NON_SECURE | spe.KERNEL_LEVEL)
        + spe.address(spe.TARGET, 0x1000 | spe.KERNEL_LEVEL)  # secure
        + spe.address(spe.DATA, 0xFFFF8000 << 24)
        + spe.END
    )
    records, _ = decoded(trace)
    assert records.ip[0] == KERNEL | 0xFF800000100000
    assert records.target[0] == 0x1000
    assert records.address[0] == KERNEL | 0xFFFF8000 << 24


def test_the_last_packet_of_a_kind_wins_and_events_add_up() -> None:
    trace = spe.address(spe.PC, 1) + spe.events(spe.L1_MISS) + spe.events(spe.TLB_MISS) + spe.address(spe.PC, 2) + spe.END
    records, _ = decoded(trace)
    assert (records.ip[0], records.events[0], records.context[0]) == (2, spe.L1_MISS | spe.TLB_MISS, -1)


@pytest.mark.parametrize("begin", range(0, 24, 5))
def test_alignment_packets_lead_to_aligned_offsets_in_the_file(begin: int) -> None:
    trace = bytearray(spe.END)
    for power in range(4):
        trace += bytes([0x20 | power, 0])
        trace += b"\xff" * (-(begin + len(trace)) % (2 << power) if len(trace) else 0)
        trace += spe.address(spe.PC, power + 1) + spe.END
    records, damaged = decoded(bytes(trace), begin)
    if not damaged:
        assert records.ip.tolist()[1:] == [1, 2, 3, 4]


@pytest.mark.parametrize("seed", range(6))
def test_lanes_find_the_packets_that_a_walk_finds(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records of the hardware, packets in any order, random bytes, and mixtures; windows much smaller than the trace."""
    draw = random.Random(seed)
    kinds = (lambda: spe.random_trace(seed, 60), lambda: spe.random_packets(seed, 200), lambda: draw.randbytes(1500))
    trace = b"".join(draw.choice(kinds)() for _ in range(4))
    monkeypatch.setattr(arm_spe, "_WINDOW", 1 << 30)
    monkeypatch.setattr(arm_spe, "_ATTEMPTS", 0)
    monkeypatch.setattr(arm_spe, "_LANE", 1 << 30)
    expected = rows(decoded(trace, 5)[0])
    monkeypatch.undo()
    monkeypatch.setattr(arm_spe, "_LANE", draw.choice((64, 100, 512)))
    assert rows(decoded(trace, 5)[0]) == expected
    if seed < 2:
        monkeypatch.setattr(arm_spe, "_WINDOW", 4096)
        assert len(rows(decoded(trace, 5)[0])) >= len(expected) - 4


@pytest.mark.parametrize("bits", [64, 2, 0])
@pytest.mark.parametrize("seed", range(4))
def test_aligned_records_are_those_that_packets_tell(seed: int, bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In several windows, with padding between, and where records of different shapes have one signature, which costs time only."""
    draw = random.Random(seed)
    trace = spe.random_trace(seed, 300)
    records = [trace[begin : begin + 64] for begin in range(0, len(trace), 64)]
    for _ in range(40):
        records.insert(draw.randrange(len(records)), bytes(64))
    trace = b"".join(records)
    with monkeypatch.context() as patch:
        patch.setattr(arm_spe, "_aligned_records", lambda data, shapes: None)
        expected = rows(decoded(trace)[0])
    if bits < 64:  # of headers in signatures
        monkeypatch.setattr(arm_spe, "_WALKED", arm_spe._WALKED & np.uint64((1 << bits) - 1))
    monkeypatch.setattr(arm_spe, "_ALIGNED_WINDOW", draw.choice((640, 6400, 1 << 20)))
    shapes: dict[int, arm_spe.RecordShape] = {}
    parts = list(decode_records(lambda offset, size: trace[offset : offset + size], 0, len(trace), shapes))
    assert rows(SpeRecords.concat([records for records, _ in parts])) == expected
    assert bits < 64 or 10 < len(shapes) < 256


def test_a_cut_trace_has_the_whole_records_before_the_cut() -> None:
    trace = spe.random_trace(3, 12)
    whole = rows(decoded(trace)[0])
    assert len(whole) == 12
    for size in range(len(trace)):
        part = rows(decoded(trace[:size])[0])
        assert part == whole[: len(part)]
        assert len(part) >= size // 64


@pytest.mark.parametrize("seed", range(20))
def test_damage_costs_only_records_near_it(seed: int) -> None:
    draw = random.Random(seed)
    trace = bytearray(spe.random_trace(seed, 40))
    whole = rows(decoded(bytes(trace))[0])
    at = draw.randrange(len(trace))
    trace[at] = draw.randrange(256)
    damaged = rows(decoded(bytes(trace))[0])
    assert whole[: at // 64] == damaged[: at // 64]
    after = whole[at // 64 + 3 :]
    assert damaged[len(damaged) - len(after) :] == after


def test_a_record_with_a_byte_that_begins_no_packet_is_left_out() -> None:
    trace = spe.address(spe.PC, 1) + spe.END + spe.address(spe.PC, 2) + b"\xff" + spe.END + spe.address(spe.PC, 3) + spe.END
    records, damaged = decoded(trace)
    assert (records.ip.tolist(), damaged) == ([1, 3], 1)


def test_damage_without_any_record_is_counted() -> None:
    records, damaged = decoded(b"\xff" * 100)
    assert (len(records.ip), damaged) == (0, 100)


def test_data_sources_are_those_of_the_cores() -> None:
    trace = b"".join(
        spe.operation(spe.LOAD_STORE, kind) + spe.events(bits) + spe.data_source(source) + spe.END
        for kind, bits, source in ((0, spe.L1_ACCESS, 8), (0, spe.LLC_MISS | spe.TLB_MISS, 0xD), (1, spe.L1_MISS, 0))
    )
    records, _ = decoded(trace + spe.operation(spe.BRANCH, 0) + spe.END)
    assert records.operation.tolist() == [LOAD, LOAD, STORE, 0]
    generic = [hex(one) for one in data_sources(records, None).tolist()]
    assert generic == ["0x142", hex(2 | 0x44 << 5 | 0x24 << 26), hex(4 | 0xC << 5), "0x0"]
    neoverse = [hex(one) for one in data_sources(records, sources_of_core(0x413FD0C1)).tolist()]
    assert neoverse == [
        hex(2 | 0x22 << 5 | 2 << 33 | 2 << 19),
        hex(2 | 1 << 5 | 0xF << 33 | 1 << 37 | 1 << 39 | 0x24 << 26),
        hex(4 | 1 << 5 | 0xF << 33 | 1 << 19),
        "0x0",
    ]
    assert [sources_of_core(midr) is not None for midr in (0x413FD0C1, 0x410FD490, 0x410FD400, 0x410FD080, 0)] == [True] * 3 + [False] * 2


@pytest.mark.parametrize(
    ("bits", "of_load", "of_store"),
    [
        ((arm_spe.L2_ACCESS,), 0x400080442, 0x400080444),
        ((arm_spe.L2_MISS, spe.L1_MISS), 0x400080482, 0x400080484),
        ((arm_spe.L2_ACCESS, arm_spe.L2_MISS, spe.LLC_ACCESS), 0x600080842, 0x600080844),
        ((spe.L1_ACCESS, arm_spe.L2_ACCESS), 0x200080142, 0x400080444),
        ((arm_spe.RECENTLY_FETCHED, arm_spe.L2_ACCESS, spe.LLC_ACCESS), 0x1800080242, 0x600080844),
        ((arm_spe.SNOOPED, spe.REMOTE), 0x3E00200022, 0x3E00200024),
        ((arm_spe.SNOOPED, arm_spe.MODIFIED, spe.LLC_MISS), 0x600800882, 0x600800884),
        ((arm_spe.MODIFIED, spe.TLB_MISS), 0x1E00080022 | 0x24 << 26, 0x1E00080024 | 0x24 << 26),
    ],
)
def test_events_of_version_1_4_tell_levels_as_perf_7_has_them(bits: tuple[int, ...], of_load: int, of_store: int) -> None:
    parts = [spe.operation(spe.LOAD_STORE, kind) + spe.events(sum(bits), 4) + spe.END for kind in (0, 1)]
    records, _ = decoded(b"".join(parts) + spe.operation(spe.LOAD_STORE, 0) + spe.events(spe.L1_ACCESS) + spe.END)
    assert list(map(hex, data_sources(records, None).tolist())) == list(map(hex, (of_load, of_store, 0x142)))
    known = list(map(hex, data_sources(records, sources_of_core(0x413FD0C1)).tolist()))
    assert known[2] == hex(2 | 0xA << 5 | 1 << 33 | 2 << 19)  # a core whose source packets tell the level


# From records to a recording.


@contextmanager
def opened(data: bytes, itrace: str | None = None) -> Iterator[perfpy.Recording]:
    """A recording of these bytes, opened."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        with perfpy.open(file.name, itrace=itrace) as recording:
            yield recording


def samples_of(data: bytes, itrace: str = "") -> list[dict[str, int | str]]:
    """The samples of a recording, as dictionaries."""
    with opened(data, itrace=itrace) as recording:
        return [{"event": one.event.name, **one.fields} for one in recording.records() if hasattr(one, "fields")]


def named(samples: list[dict[str, int | str]], *names: str) -> Iterator[tuple[int | str, ...]]:
    return (tuple(sample[name] if name == "event" else int(sample[name]) for name in names) for sample in samples)


def test_samples_have_the_values_of_their_record() -> None:
    trace = (
        spe.address(spe.PC, 0x400010 | spe.NON_SECURE)
        + spe.context(20)
        + spe.operation(spe.LOAD_STORE, 0)
        + spe.events(spe.L1_ACCESS | spe.TLB_ACCESS)
        + spe.latency(spe.TOTAL, 70)
        + spe.address(spe.DATA, 0x600000)
        + spe.address(spe.PHYSICAL, 0x99000)
        + spe.timestamp(1000)
    )
    samples = samples_of(spe.spe_recording((trace,), conversion=(1, 3, 500)).file())
    assert [sample["event"] for sample in samples] == ["l1d-access", "tlb-access", "memory"]
    assert set(named(samples, "ip", "pid", "tid", "cpu", "time", "addr", "phys_addr", "weight", "period")) == {
        (0x400010, 20, 20, 0, 2000, 0x600000, 0x99000, 70, 1)
    }


def test_itrace_chooses_kinds_and_the_period_of_instructions() -> None:
    data = spe.spe_recording((spe.random_trace(1, 90), spe.random_trace(2, 90))).file()
    assert {sample["event"] for sample in samples_of(data, "M")} == {"memory"}
    assert {sample["event"] for sample in samples_of(data, "tb")} == {"tlb-miss", "tlb-access", "branch-miss"}
    every = samples_of(data, "i1i")
    third = samples_of(data, "i3i")
    assert (len(every), len(third)) == (180, 60)
    assert {sample["period"] for sample in third} == {3}


def test_without_context_packets_the_context_switches_name_the_threads() -> None:
    trace = b"".join(spe.address(spe.PC, 0x400000) + spe.timestamp(time) for time in (10, 20, 30, 40))
    built = spe.spe_recording((trace,))
    for time, tid in ((15, 10), (30, 20)):
        stamp = SampleId(pid=1, tid=1, time=time, cpu=0, identifier=202, id=202)
        built.record(SwitchCpuWide(MISC_SWITCH_OUT, tid, tid, stamp), event=1)
    assert list(named(samples_of(built.file(), "i1i"), "time", "tid", "pid")) == [(10, -1, -1), (20, 10, 10), (30, 20, 20), (40, 20, 20)]


@pytest.mark.parametrize("letters", ["", "i3iM"])
@pytest.mark.parametrize("few", [1, 40])
def test_records_are_delivered_alike_however_many_are_decoded_at_once(letters: str, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three CPUs with many equal times, and one whose trace has no times until its end."""
    traces = tuple(spe.random_trace(seed, 150, step=2) for seed in (1, 2, 3))
    timeless = (spe.operation(spe.LOAD_STORE, 0) + spe.events(0xFFFF) + spe.END) * 90 + spe.timestamp(1100)
    data = spe.spe_recording((*traces, timeless), cut=640).file()
    whole = samples_of(data, letters)
    monkeypatch.setattr(decoded_recordings, "_FEW_RECORDS", few)
    monkeypatch.setattr(decoded_recordings, "_AT_ONCE", 7)
    monkeypatch.setattr(arm_spe, "_ALIGNED_WINDOW", 256)
    assert len(whole) > 100
    assert samples_of(data, letters) == whole


def test_each_cpus_model_decides_its_data_sources() -> None:
    """The newer AUXTRACE_INFO: version, size, PMU, CPUs, then for each CPU a magic number, its number, parameters, MIDR ..."""
    trace = spe.address(spe.PC, 1) + spe.operation(spe.LOAD_STORE, 0) + spe.data_source(8) + spe.timestamp(5)
    magic = 0x1010101010101010
    words = (2, 32, 9, 2, magic, 0, 3, spe.NEOVERSE_N1, 9, 4096, magic, 1, 3, 0x410FD080, 9, 4096)
    samples = samples_of(spe.spe_recording((trace, trace), words=words).file(), "M")
    assert {int(sample["cpu"]): int(sample["data_src"]) & 0x3FFF << 5 for sample in samples} == {0: 0x22 << 5, 1: 0}


def test_a_recording_without_times_is_read_trace_by_trace() -> None:
    data = spe.spe_recording((spe.random_trace(1, 20), spe.random_trace(2, 20)), has_time=False).file()
    assert [sample["cpu"] for sample in samples_of(data, "i1i")] == [0] * 20 + [1] * 20


def test_damage_is_a_warning_and_a_whole_trace_none() -> None:
    whole = spe.random_trace(1, 20)
    for trace, warnings in (
        (whole, []),
        (whole + b"\xff" * 8 + whole, ["Arm SPE trace: 8 damaged bytes; the records with them are left out"]),
    ):
        with opened(spe.spe_recording((trace,)).file(), itrace="") as recording:
            assert recording.warnings == warnings


def test_by_default_the_api_reads_what_was_recorded() -> None:
    data = spe.spe_recording((spe.random_trace(1, 20),)).file()
    with opened(data) as recording:
        assert len(recording.samples["ip"]) == 0
        assert "not decoded" in recording.warnings[0]


def test_a_trace_of_ends_is_refused_before_it_fills_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoded_recordings, "_MOST_EMPTY", 1000)
    trace = (spe.events(0xFF, 1) + spe.END) * 5000
    with pytest.raises(PerfError, match="damaged"):
        samples_of(spe.spe_recording((trace,)).file())


def test_samples_that_would_fill_the_disk_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoded_recordings, "_LEAST_ALLOWED", 1000)
    record = spe.operation(spe.LOAD_STORE, 0) + spe.events(0xFFFF) + spe.address(spe.PC, 1) + spe.END
    with pytest.raises(PerfError, match="choose fewer kinds"):
        samples_of(spe.spe_recording((record * 3000,)).file(), "i1ibftmaM")


@pytest.mark.parametrize("text", ["h", "i10", "i10x", "i10s", "iéb", "i²i"])
def test_what_itrace_does_not_know_is_refused(text: str) -> None:
    if text == "i10":  # as in perf: nanoseconds
        assert parse_itrace(text).unit == "ns"
        return
    with pytest.raises(UsageError, match="--itrace="):
        parse_itrace(text)


def test_a_period_of_any_length_is_a_number() -> None:
    assert parse_itrace("i" + "9" * 10000 + "i").period == (1 << 64) - 1
    assert parse_itrace("i0i").period == 0  # the tracers' decoders take their defaults for it


def test_other_traces_are_refused_if_their_samples_are_wanted() -> None:
    data = traced(2, tuple(range(17)), bytes(64)).file()
    with pytest.raises(PerfError, match="does not decode Intel BTS"):
        samples_of(data, "b")
    assert samples_of(data) == samples_of(data, "M") == []


@pytest.mark.parametrize("seed", range(10))
def test_any_numbers_in_the_records_around_a_trace_are_read(seed: int) -> None:
    """Queues, CPUs, threads, sizes and clocks that no recorder writes."""
    draw = random.Random(seed)

    def number(bits: int) -> int:
        return draw.choice((0, 1, (1 << bits) - 1, 1 << (bits - 1), draw.getrandbits(bits)))

    built = spe.spe_recording(
        (spe.random_trace(seed, 10),), conversion=(number(64), number(64), number(64)), words=(9, *[number(64)] * draw.randrange(9))
    )
    built.record(AuxtraceInfo(0, 4, ()))
    trace = spe.random_packets(seed, 30)
    trace += bytes(-len(trace) % 8)
    built.record(Auxtrace(0, len(trace), number(64), number(64), number(32), number(32), number(32))).raw(trace)
    stamp = SampleId(pid=1, tid=1, time=number(64), cpu=0, identifier=202, id=202)
    built.record(SwitchCpuWide(MISC_SWITCH_OUT, number(32), number(32), stamp), event=1)
    with np.errstate(all="raise"):
        samples_of(built.file(), "i1ibftmaM")


@pytest.mark.parametrize(
    ("midr", "has_sources"), [(0x410FD4F0, True), (0x411FD851, True), (0x4E0F0100, True), (0x410FD0B0, False), (0, False)]
)
def test_newer_cores_have_the_data_sources_of_neoverse(midr: int, has_sources: bool) -> None:
    """As perf 7.3 has it; 6.12 knows N1, N2 and V1."""
    trace = spe.random_trace(5, 200)
    own, n1, other = (
        [sample["data_src"] for sample in samples_of(spe.spe_recording((trace,), cpuid=hex(one)).file(), "M")]
        for one in (midr, 0x413FD0C1, 0x410FD0B0)
    )
    assert n1 != other
    assert own == (n1 if has_sources else other)


#: the words that perf 7.3 prints for loads that hit the TLB, by MIDR and data source
OTHER_CORES = {
    0xC00FAC40: {
        0x0: 0x8488080442, 0x3: 0x688200842, 0x5: 0xBE88080022, 0x7: 0x1A88101042, 0x8: 0x288100142, 0x9: 0x488100442
    },
    0x480FD060: {
        0x0: 0x8488080442, 0x1: 0x8488800442, 0x2: 0x688200842, 0x3: 0x688800842, 0x4: 0x8688088042, 0x5: 0x8688808042,
        0x6: 0xB688090002, 0x7: 0xB688810002, 0x8: 0x1A88101042, 0x9: 0x3A88082042, 0xD: 0x1488120042, 0x10: 0x488100442,
        0x11: 0x488800442, 0x12: 0x288100142,
    },
}  # fmt: skip


@pytest.mark.parametrize("midr", OTHER_CORES, ids=["AmpereOneX", "HIP12"])
def test_other_cores_have_data_sources_of_their_own(midr: int) -> None:
    """Loads with other sources, and AmpereOneX's stores with them, have the level of their events; other stores have none."""
    trace = b"".join(
        spe.operation(spe.LOAD_STORE, kind) + spe.events(spe.L1_ACCESS | spe.TLB_ACCESS) + spe.data_source(source, 2) + spe.END
        for kind in (0, 1)
        for source in range(0x120)
    )
    words = data_sources(decoded(trace)[0], sources_of_core(midr)).tolist()
    loads, stores = words[:0x120], words[0x120:]
    assert {source: word for source, word in enumerate(loads) if word != 0x88000142} == OTHER_CORES[midr]
    is_amperes = midr == 0xC00FAC40
    assert stores == [0x88000144 if is_amperes and source not in OTHER_CORES[midr] else 0x1E88080024 for source in range(0x120)]
