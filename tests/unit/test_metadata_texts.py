"""Texts about a recording: header, evlist, counts, tasks, from files built for the purpose."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from perfpy.abi import perf_records, records
from perfpy.abi.attr import Reading
from perfpy.abi.flags import MISC_COMM_EXEC, MISC_FORK_EXEC, NATIVE_ENDIAN, ReadFormat, RecordType, SampleType
from perfpy.abi.records import SampleId
from perfpy.perfdata.header import (
    BpfProgram,
    BpfTypes,
    ClockData,
    Compression,
    CpuCount,
    CpuDomains,
    CpuLocation,
    CpuTopology,
    DomainInfo,
    ElfMachine,
    EventDesc,
    EventGroup,
    Feature,
    MemNode,
    MemTopology,
    NumaNode,
    PipeHeader,
    PmuCaps,
    PmuMapping,
    SampleTime,
    SchedDomain,
)
from perfpy.recording import Recording
from perfpy.views.header_text import evlist_lines, header_lines
from perfpy.views.recording_summary import record_count_lines, task_lines
from tests.builders.perfdata import USUAL, PerfDataBuilder, header_of, simple_recording, usual_attr

if TYPE_CHECKING:
    from pathlib import Path

Opener = Callable[[bytes], Recording]


@pytest.fixture
def recorded(tmp_path: Path) -> Opener:
    def open_it(data: bytes) -> Recording:
        (tmp_path / "perf.data").write_bytes(data)
        return Recording(tmp_path / "perf.data")

    return open_it


def test_the_header_shows_each_feature_and_names_the_missing_ones(recorded: Opener) -> None:
    built = simple_recording(1)
    built.feature(Feature.HOSTNAME, "vm").feature(Feature.CMDLINE, ("perf", "it's"))
    built.feature(Feature.NRCPUS, CpuCount(2, 1)).feature(Feature.TOTAL_MEM, 1000)
    built.feature(Feature.CPU_TOPOLOGY, CpuTopology(("0-1",), ("0",), (CpuLocation(0, 0, 1), CpuLocation((1 << 32) - 1, 0, 0)), ("0-1",)))
    built.feature(Feature.NUMA_TOPOLOGY, (NumaNode(0, 10, 5, "0-1"),))
    built.feature(Feature.SAMPLE_TIME, SampleTime(1_500_000_999, 2_000_000_000))
    built.feature(Feature.MEM_TOPOLOGY, MemTopology(1, 1 << 27, (MemNode(0, 70, (0b1011, 0b11)),)))
    built.feature(Feature.PMU_MAPPINGS, (PmuMapping(1, "software"),))
    built.feature(Feature.COMPRESSED, Compression(1, 1, 3, 5, 4096))
    built.feature(Feature.EVENT_DESC, (EventDesc(built.attrs[0], "cpu-clock:u", (4, 5)),))
    lines = list(header_lines(recorded(built.file()), full=True))
    for line in (
        "# hostname : vm",
        "# cmdline : perf it\\'s ",
        "# nrcpus online : 1",
        "# total memory : 1000 kB",
        "# sibling dies    : 0-1",
        "# CPU 1: Core ID -1, Die ID 0, Socket ID 0",
        "# node0 meminfo  : total = 10 kB, free = 5 kB",
        "# time of first sample : 1.500000",
        "# sample duration :    499.999 ms",
        "#    0 [640M]: 0-1,3,64-65",
        "# pmu mappings: software = 1",
        "# compressed : Zstd, level = 3, ratio = 5",
        (
            "# event : name = cpu-clock:u, , id = { 4, 5 }, type = 1 (software), size = 136, config = 0 (PERF_COUNT_SW_CPU_CLOCK), "
            "{ sample_period, sample_freq } = 4000, sample_type = IP|TID|TIME|PERIOD, exclude_kernel = 1, exclude_hv = 1, freq = 1, "
            "sample_id_all = 1"
        ),
    ):
        assert line in lines
    assert lines[-3].startswith("# missing features: TRACING_DATA BUILD_ID OSRELEASE")


def test_features_of_newer_perfs_are_shown_in_their_form(recorded: Opener) -> None:
    domains = (CpuDomains(0, (SchedDomain(0, "SMT", "3", "0-1"),)), CpuDomains(1, ()))
    built = simple_recording(1).feature(Feature.E_MACHINE, ElfMachine(62, 5)).feature(Feature.CLN_SIZE, 64)
    built.feature(Feature.CPU_DOMAIN_INFO, DomainInfo(17, 2, domains))
    lines = list(header_lines(recorded(built.file()), full=True))
    assert lines[6:-3] == [
        "# schedstat version\t: 17",
        "# Maximum sched domains\t: 2",
        "# cpu\t\t: 0",
        "# nr_domains\t: 1",
        "# Domain\t\t: 0",
        "# Domain name      : SMT",
        "# Domain cpu map   : 3",
        "# Domain cpu list  : 0-1",
        "# cpu\t\t: 1",
        "# nr_domains\t: 0",
        "# e_machine : 62",
        "#   e_flags : 5",
        "# cacheline size: 64",
    ]
    assert "# CPU_DOMAIN_INFO info available, use -I to display" in list(header_lines(recorded(built.file())))


def test_newer_features_are_listed_as_missing_if_one_is_present(recorded: Opener) -> None:
    older = list(header_lines(recorded(simple_recording(1).file())))[-3]
    newer = list(header_lines(recorded(simple_recording(1).feature(Feature.CLN_SIZE, 64).file())))[-3]
    assert older.endswith("HYBRID_TOPOLOGY PMU_CAPS ")
    assert newer == older + "CPU_DOMAIN_INFO E_MACHINE "


def test_domains_of_older_kernels_have_no_names(recorded: Opener) -> None:
    info = DomainInfo(15, 1, (CpuDomains(0, (SchedDomain(0, "", "3", "0-1"),)),))
    lines = list(header_lines(recorded(simple_recording(1).feature(Feature.CPU_DOMAIN_INFO, info).file()), full=True))
    assert lines[10:13] == ["# Domain\t\t: 0", "# Domain cpu map   : 3", "# Domain cpu list  : 0-1"]


@pytest.mark.parametrize(
    ("arch", "pmu", "precise", "is_shown"),
    [("x86_64", "ibs_op", "0", True), ("i686", "ibs_op", "0", True), ("x86_64", "ibs_op", "3", False), ("x86_64", "cpu", "0", False),
     ("aarch64", "ibs_op", "0", False)],
)  # fmt: skip
def test_precise_events_of_amd_are_explained(recorded: Opener, arch: str, pmu: str, precise: str, is_shown: bool) -> None:
    built = simple_recording(1).feature(Feature.ARCH, arch).feature(Feature.PMU_MAPPINGS, (PmuMapping(11, pmu),))
    built.feature(Feature.CPU_PMU_CAPS, (("max_precise", precise),)).feature(Feature.PMU_CAPS, (PmuCaps("ibs_op", (("zen4_ibs", "1"),)),))
    lines = list(header_lines(recorded(built.file())))
    note = "# AMD systems uses ibs_op// PMU for some precise events, e.g.: cycles:p, see the 'perf list' man page for further details."
    assert (lines[lines.index("# ibs_op pmu capabilities: zen4_ibs=1") + 1] == note) is is_shown


def test_topology_is_only_hinted_at_without_full(recorded: Opener) -> None:
    built = simple_recording(1).feature(Feature.NUMA_TOPOLOGY, (NumaNode(0, 10, 5, "0-1"),))
    assert "# NUMA_TOPOLOGY info available, use -I to display" in list(header_lines(recorded(built.file())))


def test_perf_finds_no_core_ids_behind_texts_that_another_tool_padded_less(recorded: Opener) -> None:
    def topology(width: int) -> bytes:
        text = struct.pack("<II", 1, width) + b"0-1".ljust(width, b"\0")
        return 2 * text + struct.pack("<IIII", 0, 0, 1, 0)

    def shown(width: int) -> list[str]:
        built = simple_recording(1).feature(Feature.NRCPUS, CpuCount(2, 2))
        built.features[Feature.CPU_TOPOLOGY] = topology(width)
        return list(header_lines(recorded(built.file()), full=True))

    assert "# CPU 1: Core ID 1, Socket ID 0" in shown(64)
    assert "# Core ID and Socket ID information is not available" in shown(8)


def test_the_reference_time_is_shown_in_local_time(recorded: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    built = simple_recording(1).feature(Feature.CLOCK_DATA, ClockData(1, 1, 1_700_000_000_123_456_789, 42_000_000_007))
    lines = list(header_lines(recorded(built.file())))
    assert "# clockid: monotonic (1)" in lines
    assert "# reference time: 2023-11-14 22:13:20.123456 = 1700000000.123456 (TOD) = 42.000000007 (monotonic)" in lines


def test_a_pipes_header_has_its_features_behind_the_frame(recorded: Opener) -> None:
    lines = list(header_lines(recorded(simple_recording(1).feature(Feature.HOSTNAME, "vm").pipe())))
    assert lines[5:] == ["# feat offset    : 0", "# ========", "#", "# hostname : vm"]


def test_bpf_programs_are_named_by_tag_and_name(recorded: Opener) -> None:
    info = bytearray(200)
    info[4:8] = (115).to_bytes(4, "little")
    info[64:70] = b"prog_0"
    for offset in (104, 108, 180):  # how many functions, lengths, tags
        info[offset : offset + 4] = (1).to_bytes(4, "little")
    info[120:128] = (8).to_bytes(8, "little")
    info[184:192] = (16).to_bytes(8, "little")
    data = (0xFFFFFFFFC0022118).to_bytes(8, "little") + (24).to_bytes(8, "little") + bytes.fromhex("81fbfabcc8a7ad02")
    built = simple_recording(1).feature(Feature.BPF_PROG_INFO, (BpfProgram(0, bytes(info), data), BpfProgram(0, b"cut", b"")))
    lines = list(header_lines(recorded(built.file())))
    assert "# bpf_prog_info 115: bpf_prog_81fbfabcc8a7ad02_prog_0 addr 0xffffffffc0022118 size 24" in lines
    assert sum("bpf_prog_info" in line for line in lines) == 1


@pytest.mark.parametrize(
    ("endian", "shown"), [(NATIVE_ENDIAN, ["# btf info of id 2", "# btf info of id 4"]), ("<>".strip(NATIVE_ENDIAN), [])]
)
def test_types_of_bpf_programs_are_listed_once_each(recorded: Opener, endian: str, shown: list[str]) -> None:
    built = simple_recording(1, endian=endian).feature(Feature.BPF_BTF, (BpfTypes(4, b"btf"), BpfTypes(2, b""), BpfTypes(4, b"btf")))
    assert [line for line in header_lines(recorded(built.file())) if "btf" in line] == shown


def grouped() -> PerfDataBuilder:
    attrs = [usual_attr(USUAL | SampleType.ID), usual_attr(USUAL | SampleType.ID, config=2, freq=0, sample_period=7)]
    built = simple_recording(0, attrs=attrs, ids=[(1,), (2,)])
    return built.feature(Feature.GROUP_DESC, (EventGroup("pair", 0, 2),))


def test_evlist_lists_events_groups_and_frequencies(recorded: Opener) -> None:
    recording = recorded(grouped().file())
    tip = "# Tip: use 'perf evlist -g' to show group information"
    assert list(evlist_lines(recording)) == ["cpu-clock:u", "page-faults:u", tip]
    assert list(evlist_lines(recording, groups=True)) == ["pair{cpu-clock:u,page-faults:u}"]
    assert list(evlist_lines(recording, frequency=True)) == ["cpu-clock:u: sample_freq=4000", "page-faults:u: sample_period=7", tip]
    assert next(evlist_lines(recording, trace_fields=True)) == "cpu-clock:u: (not a tracepoint)"


def test_evlist_of_a_pipe_shows_the_ids_behind_a_short_attr_as_the_fields_it_lacks(recorded: Opener) -> None:
    built = PerfDataBuilder(attrs=[usual_attr(size=112), usual_attr(size=136)], ids=[(131, 132), (133,)])
    short, whole = evlist_lines(recorded(built.pipe()), verbose=True)
    assert short.endswith("sample_id_all: 1, aux_sample_size: 131, sig_data: 132")
    assert whole.endswith("sample_id_all: 1")


def test_evlist_of_a_pipe_takes_an_attr_shorter_than_any_perf_had(recorded: Opener) -> None:
    short = usual_attr().pack(size=56)
    pipe = PipeHeader("<").encode() + header_of(RecordType.HEADER_ATTR, 64) + short
    (line,) = evlist_lines(recorded(pipe), verbose=True)
    assert line.startswith("cpu-clock:u: type: 1 (PERF_TYPE_SOFTWARE), size: 56, ")


def test_evlist_of_a_pipe_has_the_events_before_the_features(recorded: Opener) -> None:
    built = grouped()
    built.record(perf_records.EventUpdate(0, perf_records.EVENT_UPDATE_NAME, 2, "mine"))
    assert list(evlist_lines(recorded(built.pipe()))) == ["cpu-clock:u", "page-faults:u"]


def test_counts_are_by_type_and_event(recorded: Opener) -> None:
    attrs = [usual_attr(USUAL | SampleType.IDENTIFIER)] * 2
    built = PerfDataBuilder(attrs=attrs, ids=[(1,), (2,)])
    for time in (1, 2, 3):
        built.sample(0, time=time)
    built.sample(1, time=4).record(records.LostSamples(0, 5, SampleId(identifier=2))).round()
    assert list(record_count_lines(recorded(built.file()))) == [
        "",
        "Aggregated stats:",
        "               TOTAL events:          6",
        "              SAMPLE events:          4  (66.7%)",
        "        LOST_SAMPLES events:          1  (16.7%)",
        "      FINISHED_ROUND events:          1  (16.7%)",
        "cpu-clock:u stats:",
        "              SAMPLE events:          3",
        "cpu-clock:u stats:",
        "              SAMPLE events:          1",
        "        LOST_SAMPLES events:          5",
    ]


def test_counts_of_nothing_are_shown_on_request(recorded: Opener) -> None:
    lines = list(record_count_lines(recorded(PerfDataBuilder().round().file()), skip_empty=False))
    assert lines[3:5] == ["                MMAP events:          0  ( 0.0%)", "                LOST events:          0  ( 0.0%)"]
    assert "      FINISHED_ROUND events:          1  (100.0%)" in lines
    assert lines[-2:] == ["       FINISHED_INIT events:          0  ( 0.0%)", "cpu-clock:u stats:"]
    assert not any("DEFERRED" in line or "COMPRESSED2" in line for line in lines)


def test_samples_with_readings_count_once_for_each_counter_that_moved(recorded: Opener) -> None:
    attr = usual_attr(USUAL | SampleType.READ | SampleType.ID, read_format=ReadFormat.GROUP | ReadFormat.ID)
    built = PerfDataBuilder(attrs=[attr, attr], ids=[(1,), (2,)])
    built.sample(0, time=1, read=[Reading(5, id=1), Reading(3, id=2)]).sample(0, time=2, read=[Reading(9, id=1), Reading(3, id=2)])
    assert [line for line in record_count_lines(recorded(built.file())) if "SAMPLE" in line] == [
        "              SAMPLE events:          2  (100.0%)",
        "              SAMPLE events:          2",
        "              SAMPLE events:          1",
    ]


def test_a_mapping_with_a_build_id_shows_a_piece_of_it_as_its_inode(recorded: Opener) -> None:
    build_id = bytes(range(20))
    at = SampleId(pid=7, tid=7, time=1)
    built = PerfDataBuilder().record(records.Mmap2(2, 7, 7, 0x1000, 0x1000, 0, 0, 0, 0, 0, 5, 2, "/bin/sh", build_id, at))
    lines = list(task_lines(recorded(built.file()), mappings=True))
    assert lines[-1].split()[-2:] == [str(0x0B0A090807060504), "/bin/sh"]


def test_a_mapping_without_an_inode_has_that_of_another_of_its_file(recorded: Opener) -> None:
    built = PerfDataBuilder()
    for number, (ino, name) in enumerate(((0, "/bin/sh"), (99, "/bin/sh"), (0, "/bin/ls"), (5, "[vdso]"), (0, "[vdso]"))):
        at = SampleId(pid=7, tid=7, time=number + 1)
        built.record(records.Mmap2(2, 7, 7, 0x1000 * number, 0x1000, 0, 0, 0, ino, 0, 5, 2, name, b"", at))
    lines = list(task_lines(recorded(built.file()), mappings=True))
    assert [line.split()[-2] for line in lines[-5:]] == ["99", "99", "0", "0", "0"]


def test_tasks_are_a_tree_with_their_last_names_and_mappings(recorded: Opener) -> None:
    built = PerfDataBuilder()

    def at(time: int) -> SampleId:
        return SampleId(pid=1, tid=1, time=time)

    def mapped(pid: int, start: int, name: str, time: int, length: int = 0x2000) -> records.Mmap2:
        return records.Mmap2(2, pid, pid, start, length, 0x1000, 8, 1, 99, 0, 5, 2, name, b"", at(time))

    built.record(records.Comm(0, 10, 10, "shell", at(1)))
    built.record(mapped(10, 0x4000, "/bin/sh", 2))
    built.record(records.Fork(0, 12, 10, 12, 10, 3, at(3)))
    built.record(records.Fork(0, 11, 10, 11, 10, 4, at(4)))
    built.record(records.Fork(MISC_FORK_EXEC, 13, 12, 13, 12, 5, at(5)))
    built.record(records.Comm(MISC_COMM_EXEC, 12, 12, "make", at(6)))
    built.record(mapped(12, 0x5000, "/bin/make", 7, 0x1000))
    built.record(records.Exit(0, 11, 10, 11, 10, 8, at(8)))
    recording = recorded(built.file())
    tree = [
        "#      pid      tid     ppid  comm",
        "         0        0       -1 |swapper",
        "        10       10       -1 | shell",
        "        11       11       10 |  shell",
        "        12       12       10 |  make",
        "        13       13       12 |   shell",
    ]
    assert list(task_lines(recording)) == tree
    mappings = [line.split() for line in task_lines(recording, mappings=True) if "/bin" in line]
    assert mappings == [
        ["4000-6000", "r-xs", "00001000", "99", "/bin/sh"],
        ["4000-6000", "r-xs", "00001000", "99", "/bin/sh"],
        ["4000-5000", "r-xs", "00001000", "99", "/bin/sh"],
        ["5000-6000", "r-xs", "00001000", "99", "/bin/make"],
    ]
