"""Dumps of recordings and of hardware traces."""

from __future__ import annotations

import io
import random
import struct
from typing import TYPE_CHECKING

import pytest

import perfpy
from perfpy.abi import perf_records, records
from perfpy.abi.flags import ReadFormat
from perfpy.abi.perf_records import BpfMetadata, SchedstatCpu, SchedstatDomain
from perfpy.abi.records import SampleId
from perfpy.perfdata.header import Feature
from perfpy.recording import Recording
from perfpy.views.dump.aux_data import ARM_SPE, HISI_PTT, INTEL_BTS, INTEL_PT, aux_texts, info_text, piece_texts
from perfpy.views.dump.coresight import frame_parts, trace_lines, trace_units, unit_lines
from perfpy.views.dump.recording import is_read_to_the_end, write_dump
from tests.builders import pmcu, traces
from tests.builders.perfdata import header_of, simple_recording, usual_attr

if TYPE_CHECKING:
    from pathlib import Path


# Tests of AUX data of hardware tracers in dumps: a line for each packet.


def dumped(kind: int, data: str, in_file: int = 0) -> list[str]:
    """Return offset, bytes and text of each packet, separated by single blanks."""
    title, *lines = "".join(aux_texts(kind, bytes.fromhex(data), in_file)).splitlines()[1:]
    assert "data: size" in title
    return [" ".join(line.split()[1:]) for line in lines]


def test_the_lines_are_as_wide_as_perfs() -> None:
    (spe,) = "".join(aux_texts(ARM_SPE, b"\x01", 0)).splitlines()[2:]
    assert spe == ".  00000000:  01" + " " * 46 + "END"
    (bts,) = "".join(aux_texts(INTEL_BTS, bytes(24), 0)).splitlines()[2:]
    assert bts == ".  00000000:  " + "00 " * 24 + "0 -> 0 miss"
    ptt = "".join(aux_texts(HISI_PTT, bytes(16), 0)).splitlines()[3]
    assert ptt == ".  00000004: 00 00 00 00" + " " * 33 + "Header DW1"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("0282" * 8, "PSB"),
        ("0223", "PSBEND"),
        ("8d a5c37e9188f0", "TIP 0xf088917ec3a5"),
        ("11", "TIP.PGE no ip"),
        ("dd a5c37e9188f0b6d2", "FUP 0xd2b6f088917ec3a5"),
        ("9906", "MODE.Exec IF:1 32"),
        ("9922", "MODE.TSX TXAbort:1 InTX:0"),
        ("19 a5c37e9188f0b6", "TSC 0xb6f088917ec3a5"),
        ("0273 a5c37e9188", "TMA CTC 0xc3a5 FC 0x91"),
        ("0243 a5c37e9188f0", "PIP 0x784448bf61d2 (NR=1)"),
        ("02c388 a5c37e9188f0b6d2", "MNT 0xd2b6f088917ec3a5"),
        ("0f0a", "CYC 0xa1"),
        ("9a", "TNT NNTTNT (6)"),
        ("ed", "Bad packet!"),
    ],
)
def test_packets_of_intel_pt(data: str, text: str) -> None:
    raw = bytes.fromhex(data).hex(" ")
    assert dumped(INTEL_PT, data) == [f"00000000: {raw} {text}"]


def test_the_block_determines_the_size_of_its_items() -> None:
    """A byte that means a branch elsewhere begins an item there, until something else ends the block."""
    assert [line.split(" ", 1)[1] for line in dumped(INTEL_PT, "026385 0c01020304 0233 0c")] == [
        "02 63 85 BBP SZ 4-byte Type 0x5",
        "0c 01 02 03 04 BIP ID 0x01 Value 0x4030201",
        "02 33 BEP IP:0",
        "0c TNT TN (2)",
    ]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("b0 a5c37e1988f0b6d2", "PC 0xb6f088197ec3a5 el2 ns=1"),
        ("b3 a5c37e1988f0b6d2", "PA 0xb6f088197ec3a5 ns=1 ch=1 pat=2"),
        ("21b1 a5c37e1988f0b6d2", "ADDR 0xd2b6f088197ec3a5 (9)"),
        ("52 0203", "EV RETIRED LLC-ACCESS LLC-REFILL"),
        ("62 0210F903", "EV RETIRED LATE-PREFETCH TXN L2D-ACCESS L2D-MISS HITM LFB SNOOPED STREAMING-SVE SMCU"),
        ("49 1e", "LD AT EXCL AR"),
        ("49 25", "ST MEMSET"),
        ("48 3e", "SVE-OTHER EVLEN 256 FP PRED"),
        ("4a 13", "B COND IND CR-RET"),
        ("99 0a00", "LAT 10 ISSUE"),
        ("65 07000000", "CONTEXT 0x7 el2"),
        ("71 ffffffffffffffff", "TS -1"),
    ],
)
def test_packets_of_arm_spe(data: str, text: str) -> None:
    raw = bytes.fromhex(data).hex(" ")
    assert dumped(ARM_SPE, data) == [f"00000000: {raw} {text}"]


def test_padding_goes_up_to_an_aligned_address_of_the_file() -> None:
    assert dumped(ARM_SPE, "2200ffffffffffff01", in_file=0x1000)[0] == "00000000: 22 00 ff ff ff ff ff ff PAD"
    assert dumped(ARM_SPE, "2200ffff01ffffff01", in_file=0x1004)[1] == "00000004: 01 END"


def test_branches_of_intel_bts() -> None:
    data = (0x1000).to_bytes(8, "little") + (0x2000).to_bytes(8, "little") + (0x10).to_bytes(8, "little") + b"\x01"
    first, second = dumped(INTEL_BTS, data.hex())
    assert first.endswith("1000 -> 2000 pred")
    assert second == "00000018: 01 Bad record!"


@pytest.mark.parametrize("kind", [INTEL_PT, ARM_SPE, HISI_PTT, INTEL_BTS])
def test_truncated_data_end_the_text(kind: int) -> None:
    data = traces.trace(kind, 1, 200)
    for size in range(len(data)):
        text = "".join(aux_texts(kind, data[:size], 0x240))
        if kind in (INTEL_PT, ARM_SPE):
            offsets = [int(line[3:11], 16) for line in text.splitlines()[2:]]
            assert offsets == sorted(set(offsets))
            assert not size or offsets[0] == 0


def test_tracers_without_a_decoder_have_no_text() -> None:
    assert "".join(aux_texts(5, bytes(64), 0)) == ""
    assert info_text(5, (1, 2)) == ""


def test_data_of_older_recorders_have_fewer_fields() -> None:
    words = traces.WORDS[INTEL_PT]
    assert info_text(INTEL_PT, words[:9]) == ""
    assert info_text(INTEL_PT, words[:12]).splitlines()[-1] == "  Per-cpu maps        1"
    assert info_text(INTEL_PT, words[:15]).splitlines()[-1] == "  CYC bit             0x10"
    assert info_text(INTEL_PT, (*words[:16], 20)).splitlines()[-1] == "  Filter string len.  20"
    value = int.from_bytes(b"filter x", "little")
    assert info_text(INTEL_PT, (*words[:16], 8, value, 1)).splitlines()[-2:] == [
        "  Filter string       filter x",
        "  Cap Event Trace     1",
    ]


# Tests of `report -D` with a PMCU's AUX data.


def dumped_recording(path: Path, data: bytes, cuts: tuple[int, ...] = ()) -> list[str]:
    path.write_bytes(pmcu.recording(data, cuts=cuts))
    with perfpy.open(path) as recording:
        trace = recording.pmcu
        assert trace is not None
        return ["".join(piece_texts(trace, piece)) for piece in trace.pieces]


def test_the_header_is_shown_as_bytes_and_as_text(tmp_path: Path) -> None:
    (text,) = dumped_recording(tmp_path / "a", pmcu.aux_data([0x10, 0x11, 0x12], 1))
    assert text.splitlines()[:16] == [
        ".",
        ". ... HISI PMCU data: size 0x170 bytes",
        ".  00000000: 00 10 00 00 03 00 00 00 08 00 00 00 00 00 00 00",
        ".  00000010: 40 01 00 00 01 00 00 00 03 00 00 00 10 00 00 00",
        ".  00000020: 11 00 00 00 12 00 00 00 00 00 00 00 00 00 00 00",
        ". AUX buffer size: 4096",
        ". Counters in parallel: 3",
        ". Monitored CPUs: 8",
        ". Compatible mode: no",
        ". Subsample size: 320",
        ". Subsamples a sample: 1",
        ". Events: 3",
        ". Event 0: 0x0010",
        ". Event 1: 0x0011",
        ". Event 2: 0x0012",
        ". Sample 0",
    ]


def test_every_number_has_its_offset_width_and_cpu(tmp_path: Path) -> None:
    (text,) = dumped_recording(tmp_path / "a", pmcu.aux_data([0x10, 0x11, 0x12], 1))
    lines = text.splitlines()[16:]
    assert lines[:2] == [". Subsample 0", ".  00000030: 000003e8 PMCID0SR CPU 0"]
    assert lines[9] == ".  00000050: 000007d0 PMCID1SR CPU 0"
    assert lines[17] == f".  00000070: {pmcu.value_of(0, 0, 0x10):016x} Event 0010 CPU 0"
    assert lines[-1] == f".  00000168: {pmcu.cycles_of(0, 7, 0):016x} Cycle count CPU 7"
    assert len(lines) == 1 + 8 * 6


def test_a_sample_is_shown_with_the_record_that_completes_it(tmp_path: Path) -> None:
    first, second = dumped_recording(tmp_path / "a", pmcu.aux_data([1, 2, 3], 4), cuts=(48 + 2 * 320 + 8,))
    assert [line for line in first.splitlines() if line.startswith(". Sample")] == [". Sample 0", ". Sample 1"]
    assert [line for line in second.splitlines() if line.startswith(". Sample")] == [". Sample 2", ". Sample 3"]
    assert ". AUX buffer size" not in second


# Tests of how a dump handles truncated recordings, with and without perf's statistics, and the ends of threads.


def reaches_the_end(path: Path, data: bytes) -> bool:
    path.write_bytes(data)
    with Recording(str(path)) as recording:
        write_dump(recording, io.BytesIO())
        return is_read_to_the_end(recording)


def test_a_reading_is_shown_with_all_fields(tmp_path: Path) -> None:
    attr = usual_attr(read_format=ReadFormat.TOTAL_TIME_ENABLED | ReadFormat.ID | ReadFormat.LOST)
    built = simple_recording(0, attrs=[attr], ids=[(7,)]).record(records.Read(0, 3, 4, struct.pack("<4Q", 50, 60, 7, 2), SampleId()))
    (tmp_path / "perf.data").write_bytes(built.file())
    out = io.BytesIO()
    with Recording(str(tmp_path / "perf.data")) as recording:
        write_dump(recording, out)
    assert b": 3 4 cpu-clock:u 50\n... time enabled : 60\n... id           : 7\n... lost         : 2\n" in out.getvalue()


def test_records_of_newer_perf_versions_are_shown_like_there(tmp_path: Path) -> None:
    built = simple_recording(0)
    built.record(BpfMetadata(0, "bpf_prog_abc", (("version", "7"), ("commit", "dead\x1bbeef"))))
    built.record(SchedstatCpu(0, 99, 1, 17, tuple(range(1, 10)))).record(SchedstatCpu(0, 99, 1, 18, ()))
    built.record(SchedstatDomain(0, 99, 1, 15, 3, tuple(range(36))))
    (tmp_path / "perf.data").write_bytes(built.file())
    out = io.BytesIO()
    with Recording(str(tmp_path / "perf.data")) as recording:
        write_dump(recording, out)
    metadata = "PERF_RECORD_BPF_METADATA prog bpf_prog_abc\n  entry 0:              version = 7\n  entry 1:               commit = dead"
    counts = " ".join(map(str, range(36)))
    for text in (
        metadata,
        "beef\n: unhandled!\n",
        "PERF_RECORD_SCHEDSTAT_CPU\ncpu1 1 2 3 4 5 6 7 8 9 : unhandled!\n",
        "PERF_RECORD_SCHEDSTAT_CPU\ncpu1 Unsupported /proc/schedstat version 18.\n: unhandled!\n",
        f"PERF_RECORD_SCHEDSTAT_DOMAIN\ndomain3 {counts} : unhandled!\n",
    ):
        assert text in out.getvalue().decode()


@pytest.mark.parametrize("missing", [0, 1, 30, 35])
def test_a_pipe_may_end_inside_a_record(tmp_path: Path, missing: int) -> None:
    data = simple_recording(3).pipe()
    assert reaches_the_end(tmp_path / "cut", data[: len(data) - missing])


@pytest.mark.parametrize("missing", [1, 30])
def test_a_file_must_not_end_inside_a_record(tmp_path: Path, missing: int) -> None:
    data = simple_recording(3).file(data_size=10_000)
    assert not reaches_the_end(tmp_path / "cut", data[: len(data) - missing])


@pytest.mark.parametrize("record", [header_of(0, 16) + bytes(8), header_of(80, 16) + bytes(6) + b"\x77\x00", header_of(80, 12) + bytes(4)])
def test_a_pipe_must_not_end_after_records_that_perf_rejects(tmp_path: Path, record: bytes) -> None:
    data = simple_recording(3).raw(record).sample().pipe()
    assert reaches_the_end(tmp_path / "whole", data)
    assert not reaches_the_end(tmp_path / "cut", data[:-1])


def test_a_pipe_with_features_may_end_inside_a_record(tmp_path: Path) -> None:
    feature = perf_records.HeaderFeature(0, Feature.HOSTNAME, b"\x08\0\0\0machine\0")
    end_of_features = perf_records.HeaderFeature(0, 32, b"")
    data = simple_recording(3).record(feature).record(end_of_features).sample().pipe()
    assert reaches_the_end(tmp_path / "cut", data[:-1])


def test_a_record_without_a_size_ends_the_dump(tmp_path: Path) -> None:
    assert not reaches_the_end(tmp_path / "bad", simple_recording(3).raw(header_of(9, 3)).pipe())


def test_a_thread_keeps_its_name_after_its_end(tmp_path: Path) -> None:
    built = simple_recording(1).record(records.Exit(0, 7, 1, 7, 1, 300, SampleId(pid=7, tid=7, time=300)))
    (tmp_path / "data").write_bytes(built.sample(misc=1, ip=1, pid=7, tid=7, time=400).file())
    out = io.BytesIO()
    with Recording(str(tmp_path / "data")) as recording:
        write_dump(recording, out)
    assert out.getvalue().count(b" ... thread: busy:7\n") == 2


# Tests of the CoreSight trace units in dumps.


ETMV4, ETE = 0x4040404040404040, 0x5050505050505050


UNITS = trace_units(traces.coresight_words(traces.ETMV4, 1))


def test_packets_of_coresight_traces_are_lines_with_their_index() -> None:
    """An A-sync packet after two other bytes, then one unit's packets in frames with those of a unit that is not known."""
    packets = b"\x04\x05" + traces.CORESIGHT_BEGIN + b"\x9d\x0d\x12" + bytes.fromhex("0800108000ff") + b"\xf7\x05\x95\x02\x02\x81\x01"
    data = traces.frames([(0x10, packets[:20]), (0x11, b"\x04" * 5), (0x10, packets[20:])])
    assert [line.split("\t", 1)[1] for line in "".join(trace_lines(data, 0x100, UNITS)).splitlines() if "Idx:" in line] == [
        "Idx:256; ID:10;\tI_NOT_SYNC : I Stream not synchronised",
        "Idx:258; ID:10;\tI_ASYNC : Alignment Synchronisation.",
        "Idx:272; ID:10;\tI_TRACE_INFO : Trace Info.; INFO=0x0 { CC.0 }",
        "Idx:275; ID:10;\tI_ADDR_L_64IS0 : Address, Long, 64 bit, IS0.; Addr=0xFF00801000082434; ",
        "Idx:292; ID:10;\tI_ATOM_F1 : Atom format 1.; E",
        "Idx:293; ID:10;\tI_RESERVED : Reserved Packet Header",
        "Idx:294; ID:10;\tI_ADDR_S_IS0 : Address, Short, IS0.; Addr=0xFF00801000082408 ~[0x8]",
        "Idx:296; ID:10;\tI_TIMESTAMP : Timestamp.; Updated val = 0x81",
    ]


def test_frames_give_back_the_bytes_of_their_sources() -> None:
    draw = random.Random(1)
    for _ in range(50):
        runs = [(draw.randrange(1, 0x70), draw.randbytes(draw.randrange(1, 30))) for _ in range(10)]
        data, found, last = traces.frames(runs), list[tuple[int, bytes]](), 0
        for begin in range(0, len(data), 16):
            parts = frame_parts(data[begin : begin + 16], last)
            last = parts[-1][0]
            found += [(ident, part) for ident, _, part in parts if ident and part]
        for ident in {ident for ident, _ in runs}:
            assert b"".join(part for one, part in found if one == ident) == b"".join(part for one, part in runs if one == ident)


@pytest.mark.parametrize("seed", range(20))
def test_any_bytes_of_a_coresight_trace_are_lines(seed: int) -> None:
    draw = random.Random(seed)
    data = traces.CORESIGHT_BEGIN + b"".join(draw.choice((b"\x80", b"\x01\xff", b"\x00", draw.randbytes(9))) for _ in range(300))
    for cpu in (-1, 0, 5):
        text = "".join(trace_lines(data, 0, UNITS, cpu=cpu))
        assert all(line.isprintable() for line in text.replace("\t", "").splitlines())
    assert not list(trace_lines(data, 0, trace_units([1, 1, 0, 0x3030303030303030, 0, 4, *range(4)])))
    assert "".join(trace_lines(b"\x81" * 5000, 0, UNITS, cpu=0)).count("\n") == 3


def test_each_word_has_its_name() -> None:
    assert unit_lines([1, 0x800000001, 0, ETE, 12, 10, 0x40, 0x10, 1, 2, 3, 0, 0xCC, 0x47724A13, 11, 12]).splitlines() == [
        "\tHeader version\t\t       1",
        "\tPMU type/num cpus\t       800000001",
        "\tSnapshot\t\t       0",
        "\tMagic number\t\t       5050505050505050",
        "\tCPU\t\t\t       12",
        "\tNR_TRC_PARAMS\t\t       a",
        "\tTRCCONFIGR\t\t       40",
        "\tTRCTRACEIDR\t\t       10",
        "\tTRCIDR0\t\t\t       1",
        "\tTRCIDR1\t\t\t       2",
        "\tTRCIDR2\t\t\t       3",
        "\tTRCIDR8\t\t\t       0",
        "\tTRCAUTHSTATUS\t\t       cc",
        "\tTRCDEVARCH                     47724a13",
        "\tTS_SOURCE                      11",
        "\tUnknown parameter [12]\t       c",
    ]


def test_the_number_of_parameters_in_version_0_depends_on_the_unit() -> None:
    lines = unit_lines([0, 2, 0, ETMV4, 0, *range(7), 0x3030303030303030, 1, *range(4)]).splitlines()
    names = "TRCCONFIGR TRCTRACEIDR TRCIDR0 TRCIDR1 TRCIDR2 TRCIDR8 TRCAUTHSTATUS"
    assert [line.split()[0] for line in lines[5:12]] == names.split()
    assert [line.split() for line in lines[13:15]] == [["CPU", "1"], ["ETMCR", "0"]]
    assert len(lines) == 3 + 9 + 6


def test_truncated_or_unknown_data_end_the_text() -> None:
    assert unit_lines([]) == ""
    assert unit_lines([1, 2]).count("\n") == 2
    assert unit_lines([1, 1, 0, 0x77, 1, 1, 5]).count("\n") == 3
    assert unit_lines([1, 1, 0, ETMV4, 1, 1 << 63, 5]).count("\n") == 7
    assert unit_lines([1, 2, 0, *([ETMV4, 0, 10, *range(10)] * 2)]).count("\n") == 3 + 2 * 13
    assert unit_lines([1, 1, 0, ETMV4, 1, 8, *range(8)]).endswith("\tTS_SOURCE\t\t       7\n")
