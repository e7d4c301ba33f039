"""The lines of `perfpy script`."""

from __future__ import annotations

import io
import json
import lzma
import os
import random
import signal
import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from perfpy.abi import perf_records, records
from perfpy.abi.attr import Reading
from perfpy.abi.columns import Ragged
from perfpy.abi.flags import (
    CONTEXT_USER,
    MISC_COMM_EXEC,
    MISC_MMAP_BUILD_ID,
    MISC_SWITCH_OUT,
    MISC_SWITCH_OUT_PREEMPT,
    BranchSample,
    ReadFormat,
    SampleType,
)
from perfpy.abi.records import SampleId
from perfpy.analysis.filters import AddressRanges, SampleFilter
from perfpy.cli import run
from perfpy.errors import PerfError, UsageError
from perfpy.perfdata.events import FileEvent
from perfpy.perfdata.header import EventGroup, Feature
from perfpy.perfdata.records.batches import split_readings
from perfpy.perfdata.records.delivery import Span, spans_of
from perfpy.recording import Recording
from perfpy.symbols.files.debug_files import Inline, SymbolOptions
from perfpy.symbols.interning import IdTable
from perfpy.views.dump.recording import hex_lines, write_dump
from perfpy.views.pieces import Coded, Flat, Joiner, TextBlock, ValueTexts
from perfpy.views.record_text import record_name, record_text
from perfpy.views.script import event_lines
from perfpy.views.script import lines as script_lines
from perfpy.views.script import run as divided
from perfpy.views.script.code import ipc_text
from perfpy.views.script.event_lines import KnownChains
from perfpy.views.script.field_text import RelativeTimes, memory_text, outermost_first, time_piece, time_text
from perfpy.views.script.fields import OutputFields
from perfpy.views.script.run import ScriptOptions, ScriptRun
from tests.builders.own_corpus import RECORDINGS
from tests.builders.perfdata import USUAL, PerfDataBuilder, out_of_order, usual_attr
from tests.builders.tracepoint_events import EventRecording

if TYPE_CHECKING:
    from pathlib import Path


# Tests of whole runs of script over recordings built in memory.


SECOND = 1_000_000_000
NOWHERE = SymbolOptions(symfs="/nonexistent", kallsyms="/dev/null")


def dump(recording: Recording, options: ScriptOptions, out: io.BytesIO) -> None:
    lines, round_text = ScriptRun(recording, options).dump_lines()
    write_dump(recording, out, lines=lines, round_text=round_text)


def sample_id(pid: int, time: int) -> SampleId:
    return SampleId(pid=pid, tid=pid, time=time)


def one_process() -> PerfDataBuilder:
    """Return a process with a name, a mapped file, and two samples."""
    built = PerfDataBuilder()
    built.record(records.Comm(0, 7, 7, "work", sample_id(7, SECOND)))
    built.record(records.Mmap2(2, 7, 7, 0x1000, 0x1000, 0, 8, 1, 5, 0, 5, 2, "/bin/work", b"", sample_id(7, SECOND + 1000)))
    for number in (1, 2):
        built.sample(ip=0x1000 + number, pid=7, tid=7, time=(1 + number) * SECOND, period=100 * number, misc=2)
    return built


def script(folder: Path, built: PerfDataBuilder, *texts: str, **options: Any) -> list[str]:
    path = folder / "perf.data"
    path.write_bytes(built.file())
    fields = OutputFields()
    for text in texts:
        fields.apply(text)
    out = io.BytesIO()
    with Recording(str(path)) as recording:
        ScriptRun(recording, ScriptOptions(fields=fields, symbols=NOWHERE, **options)).write(out)
    return out.getvalue().decode().splitlines()


def test_latency_format_has_short_commands_and_cpus(tmp_path: Path) -> None:
    attr = usual_attr(USUAL | SampleType.CPU)
    built = PerfDataBuilder(attrs=[attr]).record(records.Comm(0, 7, 7, "long-command", SampleId(pid=7, tid=7, time=1, cpu=3)))
    built.sample(ip=1, pid=7, tid=7, time=SECOND, period=1, misc=2, cpu=3)
    assert script(tmp_path, built, "comm,tid,cpu", side_band_types=frozenset(("task",)), latency=True) == [
        "long-com       7   3 PERF_RECORD_COMM: long-command:7/7",
        "long-com       7   3 ",
    ]


def counted_group() -> PerfDataBuilder:
    """Return samples of a group, with the counts of both members; in the end only the leader's count changes."""
    attr = usual_attr(USUAL | SampleType.READ | SampleType.ID, type=0, read_format=ReadFormat.GROUP | ReadFormat.ID)
    built = PerfDataBuilder(attrs=[attr, attr.copy(config=1)], ids=[(1,), (2,)])
    built.feature(Feature.GROUP_DESC, (EventGroup("{anon_group}", 0, 2),))
    for time, cycles, instructions in ((1, 200, 300), (2, 400, 900), (3, 500, 900)):
        readings = [Reading(cycles, id=1), Reading(instructions, id=2)]
        built.sample(ip=1, pid=7, tid=7, time=time * SECOND, period=1, misc=2, read=readings)
    return built


def test_metrics_of_a_group_are_below_its_last_member(tmp_path: Path) -> None:
    assert script(tmp_path, counted_group(), "time,event,period,metric") == [
        "    1.000000:        200       cycles:u: ",
        "    1.000000:        300 instructions:u: ",
        "    1.000000: \tmetric:    1.50  insn per cycle",
        "    2.000000:        200       cycles:u: ",
        "    2.000000:        600 instructions:u: ",
        "    2.000000: \tmetric:    3.00  insn per cycle",
        "    3.000000:        100       cycles:u: ",
    ]


def test_metrics_of_another_kind_of_event_are_not_printed(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(counted_group().file())
    arguments = ["script", "-i", str(path), "--symfs", "/nonexistent", "-F", "hw:time,event"]
    printed = []
    for more in ([], ["-F", "sw:time,metric"], ["-F", "hw:time,event,metric"]):
        assert run([*arguments, *more]) == 0
        printed.append(capfdbinary.readouterr().out)
    assert printed[0] == printed[1]
    assert b"metric:" in printed[2]


def test_a_dump_has_a_line_for_each_count_of_a_sample(tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(counted_group().file())
    fields = OutputFields()
    fields.apply("event,period")
    out = io.BytesIO()
    with Recording(str(path)) as recording:
        dump(recording, ScriptOptions(fields=fields, symbols=NOWHERE), out)
    output = [line.split() for line in out.getvalue().decode().splitlines() if line.startswith(("       ", " ... thread"))]
    thread = ["...", "thread:", ":7:7"]
    counts = ([number, name] for number, name in (("200", "cycles:u:"), ("300", "instructions:u:"), ("200", "cycles:u:")))
    assert output[:6] == [line for count in counts for line in (thread, count)]
    assert len(output) == 10


def test_each_sample_has_a_line(tmp_path: Path) -> None:
    assert script(tmp_path, one_process()) == [
        "            work       7     2.000000:        100 cpu-clock:u:              1001 [unknown] (/bin/work)",
        "            work       7     3.000000:        200 cpu-clock:u:              1002 [unknown] (/bin/work)",
    ]


def test_fields_are_chosen(tmp_path: Path) -> None:
    assert script(tmp_path, one_process(), "comm,pid,tid,ip") == [
        "            work       7/7                    1001",
        "            work       7/7                    1002",
    ]


def test_side_band_is_in_order_of_time(tmp_path: Path) -> None:
    lines = script(tmp_path, one_process(), "comm,tid,time", side_band_types=frozenset(("task", "mmap")))
    assert lines == [
        "            work       7     1.000000: PERF_RECORD_COMM: work:7/7",
        "            work       7     1.000001: PERF_RECORD_MMAP2 7/7: [0x1000(0x1000) @ 0 08:01 5 0]: r-xp /bin/work",
        "            work       7     2.000000: ",
        "            work       7     3.000000: ",
    ]


def test_relative_times_count_the_records_between(tmp_path: Path) -> None:
    lines = script(tmp_path, one_process(), "time", side_band_types=frozenset(("task",)), deltatime=True)
    assert [line[:14] for line in lines] == ["    0.000000: ", "    1.000000: ", "    1.000000: "]


@pytest.mark.parametrize(
    ("keep", "times"),
    [
        (SampleFilter(pids=frozenset((8,))), []),
        (SampleFilter(tids=frozenset((7,))), ["2.000000:", "3.000000:"]),
        (SampleFilter(comms=frozenset(("idle",))), []),
        (SampleFilter(dsos=frozenset(("work",))), ["2.000000:", "3.000000:"]),
        (SampleFilter(dsos=frozenset(("libc.so",))), []),
        (SampleFilter(symbols=frozenset(("main",))), []),
        (SampleFilter(addresses=AddressRanges(((0x1002, 0x1002),))), ["3.000000:"]),
        (SampleFilter(symbols=("main",), addresses=AddressRanges(((0x1001, 0x1002),))), ["2.000000:", "3.000000:"]),
    ],
)
def test_samples_are_filtered(tmp_path: Path, keep: SampleFilter, times: list[str]) -> None:
    assert [line.strip() for line in script(tmp_path, one_process(), "time", sample_filter=keep)] == times


def test_a_time_range_is_applied(tmp_path: Path) -> None:
    assert len(script(tmp_path, one_process(), time="2.5,")) == 1


def test_callchains_are_below_their_sample(tmp_path: Path) -> None:
    built = PerfDataBuilder(attrs=[usual_attr(USUAL | SampleType.CALLCHAIN)])
    built.sample(ip=0x10, pid=7, tid=7, time=SECOND, period=1, misc=2, callchain=[CONTEXT_USER, 0x10, 0x20, 0x30])
    head = ":7       7     1.000000:          1 cpu-clock:u: "
    frames = [f"\t{address:16x} [unknown] ([unknown])" for address in (0x10, 0x20, 0x30)]
    assert script(tmp_path, built) == [head, *frames, ""]
    assert script(tmp_path, built, max_stack=2) == [head, *frames[:2], ""]
    (flat,) = script(tmp_path, built, callchains=False)
    assert flat.endswith("cpu-clock:u:                10 [unknown] ([unknown])")


def test_events_with_different_fields_keep_their_order(tmp_path: Path) -> None:
    attrs = [usual_attr(USUAL | SampleType.IDENTIFIER), usual_attr((USUAL | SampleType.IDENTIFIER) & ~SampleType.TIME, type=0)]
    built = PerfDataBuilder(attrs=attrs, ids=[(1,), (2,)])
    for number in range(4):
        built.sample(number % 2, ip=number, pid=7, tid=7, time=SECOND * (number + 1), period=1, misc=2)
    lines = script(tmp_path, built, "hw:ip", "sw:time,ip")
    assert sorted(line.split()[-1] for line in lines) == ["0", "1", "2", "3"]
    assert [line.split()[0] for line in lines if ":" in line] == ["1.000000:", "3.000000:"]


def test_events_that_differ_by_their_names_are_formatted_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In any mixture: all events, one alone and then another, events without a period of their own."""
    attr = usual_attr(USUAL | SampleType.IDENTIFIER, type=0)
    software = attr.copy(type=1, config=1)
    built = PerfDataBuilder([attr, attr.copy(config=1), software, attr.copy(config=3)], ids=[(1,), (2,), (3,), (4,)])
    for number in range(90):
        event = (0, 1, 2, 3)[number % 4] if number < 50 else number // 10 % 2
        built.sample(event=event, ip=number % 3, pid=7, tid=7, time=number * SECOND, period=event + number % 2, misc=2)
    monkeypatch.setattr(script_lines, "_ROWS", 7)
    together = script(tmp_path, built, "time,event,ip,period")
    assert len({line.split()[2] for line in together}) == 4
    monkeypatch.setattr(script_lines, "line_shape", lambda event: None)
    assert together == script(tmp_path, built, "time,event,ip,period")


def test_lines_of_one_record_of_a_trace_are_formatted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of samples that differ by their events only, between others, and with a new name of the thread among them."""
    attr = usual_attr(USUAL | SampleType.IDENTIFIER, type=0)
    built = PerfDataBuilder([attr.copy(config=number) for number in range(4)], ids=[(1,), (2,), (3,), (4,)])
    draw = random.Random(5)
    for number in range(200):
        if number % 40 == 7:
            built.record(records.Comm(0, 7, 7, f"name-{number}", SampleId(7, 7, number * SECOND)))
        values = {"ip": draw.randrange(3), "pid": 7, "tid": 7, "time": number * SECOND, "period": draw.randrange(2), "misc": 2}
        for event in draw.sample(range(4), draw.randrange(1, 5)):
            built.sample(event=event, **values)
            if draw.random() < 0.1:  # within a run
                built.record(records.Comm(0, 7, 7, f"within-{number}", SampleId(7, 7, number * SECOND)))
    for fields in ("comm,tid,time,event,ip,sym,period", "event,ip", "comm,event", "event,time,brstack"):
        with monkeypatch.context() as patch:
            lines = script(tmp_path, built, fields)
            patch.setattr(event_lines.EventLines, "_runs", lambda self, batch, times: None)
            assert lines == script(tmp_path, built, fields)
            assert len(set(lines)) > 3


def test_lines_end_alike_whatever_their_last_piece_is() -> None:
    joiner, texts, others = Joiner(), [b"a", b"bb"], [b"x"]
    first, codes = [b"1", b"2", b"3"], np.array([0, 1, 0])
    assert b"".join(joiner.join([first, Coded(codes, texts), b"\n"], 3).parts) == b"1a\n2bb\n3a\n"
    assert b"".join(joiner.join([first, Coded(codes * 0, others), b"\n"], 3).parts) == b"1x\n2x\n3x\n"
    assert b"".join(joiner.join([first, Coded(codes, texts), b";\n"], 3).parts) == b"1a;\n2bb;\n3a;\n"
    texts.append(b"ccc")
    assert b"".join(joiner.join([first, Coded(codes * 2, texts), b"\n"], 3).parts) == b"1a\n2ccc\n3a\n"


def test_fields_that_a_recording_lacks_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no event 'nothing'"):
        script(tmp_path, one_process(), switch_on="nothing")


def test_readings_are_delivered_as_samples_of_their_counters(tmp_path: Path) -> None:
    sample_type = USUAL | SampleType.READ | SampleType.ID
    attrs = [usual_attr(sample_type, read_format=0xC), usual_attr(sample_type, type=1, config=2, read_format=0xC)]
    built = PerfDataBuilder(attrs=attrs, ids=[(10,), (11,)])
    for first, second in ((5, 3), (9, 3)):
        read = [Reading(first, None, None, 10, None), Reading(second, None, None, 11, None)]
        built.sample(0, ip=1, pid=7, tid=7, time=SECOND * first, period=99, misc=2, read=read)
    path = tmp_path / "perf.data"
    path.write_bytes(built.file())
    with Recording(str(path)) as recording:
        batches = list(split_readings(recording.batches(), recording.events))
    rows = [
        (event, period) for batch in batches for event, period in zip(batch.event.tolist(), batch.columns["period"].tolist(), strict=True)
    ]
    assert rows == [(0, 5), (1, 3), (0, 4)]


def test_counts_of_stat_record_are_printed_after_each_round(tmp_path: Path) -> None:
    built = PerfDataBuilder(attrs=[usual_attr(SampleType.IDENTIFIER, sample_id_all=0)], ids=[(4,)], features={Feature.STAT: b""})
    built.record(perf_records.ThreadMap(0, ((77, "work"),))).record(perf_records.CpuMap(0, (-1,)))
    built.record(perf_records.Stat(0, 4, 0xFFFFFFFF, 0, 1000, 20, 20)).record(perf_records.StatRound(0, 1, 555))
    assert script(tmp_path, built) == [
        "CPU   THREAD             VAL             ENA             RUN            TIME EVENT",
        " -1       77            1000              20              20             555 cpu-clock:u",
    ]


def test_counts_of_an_interval_begin_at_the_round_before(tmp_path: Path) -> None:
    built = PerfDataBuilder(attrs=[usual_attr(SampleType.IDENTIFIER, sample_id_all=0)], ids=[(4,)], features={Feature.STAT: b""})
    built.record(perf_records.ThreadMap(0, ((77, "work"),))).record(perf_records.CpuMap(0, (-1,)))
    built.record(perf_records.Stat(0, 4, 0xFFFFFFFF, 0, 1000, 20, 19)).record(perf_records.StatRound(0, 0, 555))
    built.record(perf_records.Stat(0, 4, 0xFFFFFFFF, 0, 1700, 50, 40)).record(perf_records.StatRound(0, 0, 999))
    assert [line.split()[2:5] for line in script(tmp_path, built)[1:]] == [["1000", "20", "19"], ["700", "30", "21"]]


def test_a_dump_has_bytes_and_text_of_every_record(tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(one_process().file())
    out = io.BytesIO()
    with Recording(str(path)) as recording:
        entries = write_dump(recording, out)
    text = out.getvalue().decode()
    assert text.count(". ... raw event: size") == 4
    assert f"{SECOND} " in text
    assert ": PERF_RECORD_COMM: work:7/7\n" in text
    assert "PERF_RECORD_SAMPLE(IP, 0x2): 7/7: 0x1001 period: 100 addr: 0\n ... thread: work:7\n ...... dso: /bin/work\n" in text
    assert entries == {0: 2}


def test_bytes_are_shown_as_numbers_and_characters() -> None:
    assert hex_lines(b"perf\0\xff") == ".  0000:  70 65 72 66 00 ff" + " " * 30 + "  perf..          \n"
    assert hex_lines(b"") == ""
    assert hex_lines(bytes(range(48, 66))) == (
        ".  0000:  30 31 32 33 34 35 36 37 38 39 3a 3b 3c 3d 3e 3f  0123456789:;<=>?\n.  0010:  40 41" + " " * 42 + "  @A              \n"
    )


def test_a_dump_of_a_big_endian_machine_shows_perfs_memory(tmp_path: Path) -> None:
    built = PerfDataBuilder(endian=">")
    built.record(records.Mmap2(2, 7, 7, 0x1000, 0x1000, 0, 8, 1, 5, 0, 5, 2, "/bin/work", b"", sample_id(7, SECOND)))
    path = tmp_path / "perf.data"
    path.write_bytes(built.file())
    out = io.BytesIO()
    with Recording(str(path)) as recording:
        write_dump(recording, out)
    text = out.getvalue().decode()
    assert ".  0000:  0a 00 00 00 02 00" in text
    assert ".  0010:  00 10 00 00 00 00 00 00" in text
    assert "]: ---p /bin/work\n" in text


def test_rounds_are_shown_in_stored_order_like_all_records(tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(out_of_order().file())
    output: dict[bool, list[str]] = {}
    for as_stored in (False, True):
        out = io.BytesIO()
        with Recording(str(path), as_stored=as_stored) as recording:
            ScriptRun(recording, ScriptOptions(side_band_types=frozenset(("round",)) if as_stored else frozenset(), symbols=NOWHERE)).write(
                out
            )
        output[as_stored] = out.getvalue().decode().splitlines()
    rounds = [row for row, line in enumerate(output[True]) if line == "PERF_RECORD_FINISHED_ROUND"]
    assert rounds == [20, 41, 62]
    times = [line.split()[2] for line in output[True] if line.startswith(" ")]
    assert times[:11] == [f"1.0000{number}:" for number in ("00", "10", "20", "30", "40", "50", "60", "70", "80", "90", "50")]
    assert [line.split()[2] for line in output[False]] == sorted(times)


@pytest.mark.parametrize(
    ("output", "as_stored", "behind"),
    [((), False, "\n"), ((), True, ": unhandled!\n"), (("round",), True, "PERF_RECORD_FINISHED_ROUND\n")],
)
def test_a_dump_shows_rounds_in_the_order_of_reading(tmp_path: Path, output: tuple[str, ...], as_stored: bool, behind: str) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(out_of_order().file())
    out = io.BytesIO()
    with Recording(str(path), as_stored=as_stored) as recording:
        dump(recording, ScriptOptions(side_band_types=frozenset(output), symbols=NOWHERE), out)
    text = out.getvalue().decode()
    assert text.count("PERF_RECORD_FINISHED_ROUND" + behind) == 3
    ahead = text[: text.index("PERF_RECORD_FINISHED_ROUND")].count("PERF_RECORD_SAMPLE")
    assert ahead == (20 if as_stored else 0)


def dumped(folder: Path, built: PerfDataBuilder, *output: str, **options: Any) -> str:
    path = folder / "perf.data"
    path.write_bytes(built.file())
    out = io.BytesIO()
    with Recording(str(path)) as recording:
        dump(recording, ScriptOptions(side_band_types=frozenset(output), symbols=NOWHERE, **options), out)
    return out.getvalue().decode()


def test_a_dump_shows_the_selected_records(tmp_path: Path) -> None:
    built = one_process().record(records.Exit(0, 7, 1, 7, 1, 4 * SECOND, sample_id(7, 4 * SECOND)))
    text = dumped(tmp_path, built, "task")
    assert "PERF_RECORD_COMM: work:7/7\n            work       7     1.000000: PERF_RECORD_COMM: work:7/7\n" in text
    assert "PERF_RECORD_EXIT            work       7     4.000000: PERF_RECORD_EXIT(7:7):(1:1)\n(7:7):(1:1)\n" in text
    assert text.count("PERF_RECORD_MMAP2") == 1
    assert dumped(tmp_path, built, "mmap").count("PERF_RECORD_MMAP2") == 2


def test_a_dump_shows_counts_at_the_end_of_a_round(tmp_path: Path) -> None:
    built = PerfDataBuilder(ids=[(5,)])
    built.record(perf_records.ThreadMap(0, ((7, ""),))).record(perf_records.CpuMap(0, (-1,)))
    built.record(perf_records.Stat(0, 5, 0, 0, 100, 10, 10)).record(perf_records.StatRound(0, 1, 9))
    built.feature(Feature.STAT, None)
    text = dumped(tmp_path, built)
    assert "PERF_RECORD_STAT_ROUNDCPU   THREAD " in text
    assert text.count("             100              10              10               9 cpu-clock:u\n") == 1
    assert "... value" not in text


def test_errors_of_decoders_are_shown_among_the_samples(tmp_path: Path) -> None:
    error = perf_records.AuxtraceError(0, 1, 2, 3, 4, 5, 1, 6, SECOND + 7, "overflow")
    lines = [
        " instruction trace error type 1 time 1.000000007 cpu 3 pid 4 tid 5 ip 0x6 code 2: overflow",
        " unknown AUX error type 2 time 0 machine_pid 8 vcpu 9 cpu -1 pid 4 tid 5 ip 0 code 2: lost",
    ]
    built = one_process().record(error)
    built.record(error._replace(type=2, fmt=2, time=0, cpu=0xFFFFFFFF, ip=0, msg="lost", machine_pid=8, vcpu=9))
    assert [line for line in script(tmp_path, built) if "error" in line] == lines
    assert f"PERF_RECORD_AUXTRACE_ERROR{lines[0]}\n" in dumped(tmp_path, built)


def test_script_skips_readings(tmp_path: Path) -> None:
    attr = usual_attr(read_format=ReadFormat.TOTAL_TIME_ENABLED, sample_id_all=0)
    built = PerfDataBuilder(attrs=[attr]).record(records.Read(0, 7, 8, (99).to_bytes(8, "little") + (50).to_bytes(8, "little")))
    assert "PERF_RECORD_READ: 7 8 cpu-clock:u 99\n... time enabled : 50\n: unhandled!\n" in dumped(tmp_path, built)


@pytest.mark.parametrize(("arch", "place"), [("s390x", "[unknown]"), ("aarch64", "/bin/work")])
def test_kernel_accesses_to_a_process_are_resolved_with_shared_addresses(tmp_path: Path, arch: str, place: str) -> None:
    attr = usual_attr(USUAL | SampleType.ADDR, config=2)
    built = PerfDataBuilder(attrs=[attr]).feature(Feature.ARCH, arch)
    built.record(records.Mmap(1, (1 << 32) - 1, 0, 0x9000, 0x100, 0x9000, "[kernel.kallsyms]_text", sample_id(0, 0)))
    built.record(records.Mmap2(2, 7, 7, 0x1000, 0x1000, 0, 8, 1, 5, 0, 5, 2, "/bin/work", b"", sample_id(7, 1)))
    built.sample(ip=0x9001, addr=0x1002, pid=7, tid=7, time=2, period=1, misc=1)
    assert script(tmp_path, built, "addr,sym,dso") == [f"{'1002':>16} [unknown] ({place})"]
    with_line = script(tmp_path, built, "ip,addr,sym,dso,srcline")
    assert with_line[0].startswith(f"{'1002':>16} [unknown] ({place}) "), "no source line after the data's address, as in perf"


_EXITED = -1


def test_in_json_exited_threads_belong_to_the_process_of_the_first(tmp_path: Path) -> None:
    """As in perf, to which all samples of tid -1 are one thread."""
    built = PerfDataBuilder(attrs=[usual_attr()])
    for time, (pid, tid) in enumerate(((7, 7), (_EXITED, _EXITED), (7, _EXITED), (9, _EXITED), (_EXITED, _EXITED), (9, 9)), 1):
        built.sample(ip=0x1000, pid=pid, tid=tid, time=time, period=1, misc=2)
    path = tmp_path / "perf.data"
    path.write_bytes(built.file())
    assert run(["data", "convert", "--to-json", str(tmp_path / "out.json"), "-i", str(path), "--force"]) == 0
    samples = json.loads((tmp_path / "out.json").read_text())["samples"]
    assert [(sample["pid"], sample["tid"]) for sample in samples] == [(7, 7), (-1, -1), (7, -1), (7, -1), (7, -1), (9, 9)]


def test_in_json_chains_lack_only_the_words_that_are_no_addresses(tmp_path: Path) -> None:
    """Text output has no frames for such a chain. perf's JSON skips the word; later addresses have the mode of the last marker."""
    unknown, kernel, user = (1 << 64) - 1, (1 << 64) - 128, (1 << 64) - 512
    built = PerfDataBuilder(attrs=[usual_attr(USUAL | SampleType.CALLCHAIN)])
    for chain in ([user, 0x1000, unknown], [kernel, 0x2000, unknown, 0x3000], [user, 0x4000], [unknown]):
        built.sample(ip=0x1000, pid=7, tid=7, time=5, period=1, misc=2, callchain=chain)
    path = tmp_path / "perf.data"
    path.write_bytes(built.file())
    assert run(["data", "convert", "--to-json", str(tmp_path / "out.json"), "-i", str(path), "--force"]) == 0
    samples = json.loads((tmp_path / "out.json").read_text())["samples"]
    chains = [[frame["ip"] for frame in sample["callchain"]] for sample in samples]
    assert chains == [["0x1000"], ["0x2000", "0x3000"], ["0x4000"], []]


def test_branches_of_the_kernel_are_looked_up_in_its_mappings_first(tmp_path: Path) -> None:
    attr = usual_attr(USUAL | SampleType.BRANCH_STACK, branch_sample_type=int(BranchSample.ANY))
    for kernel_end, place in ((0x900, "/bin/work"), (0x8000, "[kernel.kallsyms]")):
        built = PerfDataBuilder(attrs=[attr])
        built.record(records.Mmap(1, (1 << 32) - 1, 0, 0x100, kernel_end - 0x100, 0x100, "[kernel.kallsyms]_text", sample_id(0, 0)))
        built.record(records.Mmap2(2, 7, 7, 0x1000, 0x1000, 0, 8, 1, 5, 0, 5, 2, "/bin/work", b"", sample_id(7, 1)))
        built.sample(ip=0x200, pid=7, tid=7, time=2, period=1, misc=1, branch_stack=[(0x200, 0x1002, 0)])
        (line,) = script(tmp_path, built, "brstacksym,dso")
        assert line.startswith(f"[unknown] ([kernel.kallsyms])/[unknown] ({place})/")


def test_script_shows_throttles(tmp_path: Path) -> None:
    built = one_process().record(records.Throttle(0, 5 * SECOND, 0, 0, sample_id(7, 5 * SECOND)))
    assert dumped(tmp_path, built).endswith("PERF_RECORD_THROTTLE")


def test_a_dump_omits_tasks_of_samples_filtered_by_time_or_cpu(tmp_path: Path) -> None:
    assert dumped(tmp_path, one_process(), time="2,2.5").count(" ... thread: work:7") == 1
    assert dumped(tmp_path, one_process(), sample_filter=SampleFilter(pids=frozenset((8,)))).count(" ... thread: work:7") == 2


def test_samples_of_a_tracepoint_without_raw_data_are_printed(tmp_path: Path) -> None:
    """Damaged attributes may leave an instruction's address alone."""
    whole = EventRecording(["irq:softirq_raise", "power:cpu_idle"]).event("irq:softirq_raise", 10, 1).file()
    kind = USUAL | SampleType.IDENTIFIER | SampleType.CPU | SampleType.RAW
    damaged = whole.replace(struct.pack("<QQ", 1, kind), struct.pack("<QQ", 1, SampleType.IP), 1)  # after the sample period
    (tmp_path / "perf.data").write_bytes(damaged)
    out = io.BytesIO()
    with Recording(str(tmp_path / "perf.data")) as recording:
        ScriptRun(recording, ScriptOptions(symbols=NOWHERE)).write(out)
    assert out.getvalue().decode().split() == [":-1", "irq:softirq_raise:"]


# Tests of callchain lines: equal callchains are formatted once.


class Timeline:
    """A timeline on which every process maps something at 100 ns."""

    def __init__(self) -> None:
        self.tasks = IdTable()

    def ranks(self, key: Any) -> Any:
        return (key >= 100).astype(np.int32)

    def first_and_last_rank(self, key: Any) -> tuple[int, int]:
        return int(key.min() >= 100), int(key.max() >= 100)

    def space_states(self, pid: Any, rank: Any) -> Any:
        return (pid.astype(np.int64) * 2 + rank).astype(np.int32)

    def kernel_states(self, rank: Any) -> Any:
        return np.zeros(len(rank), np.int32)


def lines(known: KnownChains, samples: list[tuple[int, int, list[int]]], made: list[bytes]) -> list[bytes]:
    """Return the lines of samples of (pid, key, chain), which are their text; appends new lines to made."""

    def make(rows: Any) -> list[bytes]:
        texts = [b"%d %d %s" % (samples[row][0], samples[row][1] >= 100, str(samples[row][2]).encode()) for row in rows.tolist()]
        made.extend(texts)
        return texts

    pid, key = (np.array(values, dtype) for values, dtype in zip(list(zip(*samples, strict=True))[:2], (np.int32, np.uint64), strict=True))
    chains = [chain for _, _, chain in samples]
    words = np.array([word for chain in chains for word in chain], np.uint64)
    return known.lines(Ragged(words, np.cumsum([0, *map(len, chains)])), pid, key, make)


@pytest.mark.parametrize("most", [1 << 25, 12])
def test_lines_are_formatted_once_and_again_after_eviction(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_lines, "_MOST_BYTES", most)
    chains, result = KnownChains(Timeline()), list[bytes]()  # type: ignore[arg-type]
    samples = [(1, 5, [7, 8]), (1, 5, [8, 7]), (2, 5, [7, 8]), (1, 6, [7, 8]), (1, 100, [7, 8]), (1, 5, []), (2, 99, [7, 8])]
    expected = [b"%d %d %s" % (pid, key >= 100, str(chain).encode()) for pid, key, chain in samples]
    assert lines(chains, samples, result) == expected
    assert len(result) == len(set(expected)) == 5
    assert lines(chains, samples, result) == expected
    assert len(result) == (5 if most > 100 else 10)


# Tests of the parts of script's lines: pieces, times, fields, ranges, records, memory accesses.


def joined(pieces: list[object], count: int) -> list[bytes]:
    return Joiner().join(pieces, count).lines()  # type: ignore[arg-type]  # a list of pieces


def test_pieces_are_joined_in_order() -> None:
    codes = Coded(np.array([1, 0]), [b"zero", b"one"])
    assert joined([b"<", codes, [b" a", b" b"], b">"], 2) == [b"<one a>", b"<zero b>"]


def test_fixed_columns_are_joined_with_their_neighbours() -> None:
    wide = np.array([b"1.0", b"2.0"])
    flat = Joiner().join([Coded(np.array([0, 1]), [b"ab ", b"cd "]), wide, b": "], 2)
    assert isinstance(flat, Flat)
    assert (flat.stride, flat.parts) == (1, [b"ab 1.0: ", b"cd 2.0: "])


def test_coded_neighbours_become_one_and_stay_right_in_the_next_batch() -> None:
    joiner, texts = Joiner(), [b"a", b"bb"]
    for codes in ([0, 1], [1, 1], [0, 0]):
        first, second, third = (Coded(np.array(order), texts) for order in (codes, codes[::-1], codes))
        flat = joiner.join([first, second, b"-", third], 2)
        expected = [texts[a] + texts[b] + b"-" + texts[a] for a, b in zip(codes, codes[::-1], strict=True)]
        assert isinstance(flat, Flat)
        assert (flat.stride, flat.lines()) == (1, expected)


@pytest.mark.parametrize("widths", [(5,), (0, 3), (9, 10), (90, *range(92, 96)), (1, 2, 3, 4, 9), (0, *range(1, 300, 7), 4000)], ids=str)
def test_many_lines_are_one_block(widths: tuple[int, ...]) -> None:
    """Texts of one width, of few and of many, empty ones, columns of fixed width, negative codes, and texts that come later."""
    draw = random.Random(str(widths))
    texts = [bytes(draw.choices(b"abc", k=draw.choice(widths))) for _ in range(40)]
    joiner = Joiner()
    for count in (300, 257, 1000):
        codes = np.array([draw.randrange(-len(texts), len(texts)) for _ in range(count)])
        wide = np.array([b"%04d" % draw.randrange(10_000) for _ in range(count)])
        block = joiner.join([b"<", Coded(codes, texts), wide, b"", Coded(np.abs(codes) % 2, [b"x", b"yy"]), b">"], count)
        pairs = zip(codes.tolist(), wide.tolist(), strict=True)
        expected = [b"<" + texts[code] + number + (b"yy>" if code % 2 else b"x>") for code, number in pairs]
        assert isinstance(block, TextBlock)
        assert block.lines() == expected
        assert b"".join(block.parts) == b"".join(expected)
        assert (b"".join(block.slice(7, 99)), block.slice(5, 5)) == (b"".join(expected[7:99]), [])
        pairs = zip(codes.tolist(), wide.tolist(), strict=True)
        block = joiner.join([Coded(codes, texts), wide, b" ", Coded(codes, texts)], count)
        assert block.lines() == [texts[code] + number + b" " + texts[code] for code, number in pairs]
        block = joiner.join([b"", Coded(codes, texts), b"1", b"", b"2", b"\n"], count)
        assert block.lines() == [texts[code] + b"12\n" for code in codes.tolist()]
        texts += [bytes([65 + number]) * draw.choice(widths) for number in range(20)]


def test_a_very_long_text_is_no_block() -> None:
    codes, texts = np.arange(1000) % 2, [b"x" * 60_000, b"y" * 50_000]
    flat = Joiner().join([b"<", Coded(codes, texts), b">"], 1000)
    assert isinstance(flat, Flat)
    assert flat.slice(1, 2) == [b"<", texts[1] + b">"]


def test_a_flat_gives_the_entries_of_some_samples() -> None:
    flat = Joiner().join([[b"a", b"b", b"c"], Coded(np.array([0, 1, 0]), [b"x", b"yy"])], 3)
    assert b"".join(flat.slice(1, 3)) == b"byycx"


def test_texts_of_numbers_are_made_once() -> None:
    results: list[int] = []

    def text(value: int) -> bytes:
        results.append(value)
        return b"%d" % value

    texts = ValueTexts(text)
    for _ in range(2):
        assert joined([texts.piece(np.array([-1, 5, -1], np.int32))], 3) == [b"-1", b"5", b"-1"]
    assert results == [-1, 5]


@pytest.mark.parametrize(
    "times", [[0, 1_234_567_891], [5 * SECOND, 123_456 * SECOND + 1], [(1 << 64) - 1], [99_999 * SECOND, 100_000 * SECOND]]
)
@pytest.mark.parametrize("ns", [False, True])
def test_columns_of_times_equal_single_times(times: list[int], ns: bool) -> None:
    column = np.array(times, np.uint64)
    assert joined([time_piece(column, ns=ns)], len(times)) == [time_text(time, ns=ns) for time in times]


def test_times_have_six_or_nine_decimals() -> None:
    assert time_text(4314_819909123, ns=False) == b" 4314.819909: "
    assert time_text(4314_819909123, ns=True) == b" 4314.819909123: "


def test_relative_times_count_from_the_first_that_is_not_zero() -> None:
    relative = RelativeTimes(delta=False)
    assert relative.printed_times(np.array([0, 100, 150], np.uint64)).tolist() == [0, 0, 50]
    assert relative.printed_times(np.array([400], np.uint64)).tolist() == [300]


def test_chains_turned_round_stay_in_their_samples() -> None:
    assert outermost_first(np.array([1, 2, 3, 4, 5, 6], np.int32), np.array([3, 0, 1, 2])).tolist() == [3, 2, 1, 4, 6, 5]


def test_differences_of_times_go_on_from_batch_to_batch() -> None:
    delta = RelativeTimes(delta=True)
    assert delta.printed_times(np.array([100, 150], np.uint64)).tolist() == [0, 50]
    assert delta.printed_times(np.array([175], np.uint64)).tolist() == [25]


def event(name: str, kind: int, sample_type: int) -> FileEvent:
    return FileEvent(usual_attr(sample_type, type=kind), (1,), name, 0)


def settled(texts: list[str], events: list[FileEvent], **changes: bool) -> OutputFields:
    fields = OutputFields()
    for text in texts:
        fields.apply(text)
    flags = {"is_pipe": False, "has_stat": False, "has_aux": False, "use_callchain": True, "has_clock": False, **changes}
    fields.settle(events, **flags)
    return fields


HARDWARE = event("cycles", 0, 0x107)  # IP TID TIME PERIOD
TRACE = event("sched:x", 2, 0x587)  # and CPU, RAW


def test_fields_that_samples_lack_leave_the_usual_set() -> None:
    assert settled([], [HARDWARE]).sets[0].fields == {"comm", "tid", "time", "event", "ip", "sym", "symoff", "dso", "period"}


def test_a_list_replaces_and_signs_change() -> None:
    assert settled(["comm,ip"], [HARDWARE]).sets[0].fields == {"comm", "ip"}
    assert settled(["-comm,+pid"], [HARDWARE]).sets[0].fields >= {"pid", "tid"}
    assert "comm" not in settled(["-comm"], [HARDWARE]).sets[0].fields


def test_fields_of_one_kind() -> None:
    fields = settled(["hw:comm,ip", "trace:trace"], [HARDWARE, TRACE])
    assert (fields.sets[0].fields, fields.sets[2].fields) == ({"comm", "ip"}, {"trace"})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("nonsense", "unknown field .nonsense."),
        ("xx:comm", "unknown kind of event .xx."),
        ("", "no field"),
        ("comm,+ip", "use one form"),
        ("hw:trace", "hardware events have no field .trace."),
    ],
)
def test_requests_that_make_no_sense(text: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        OutputFields().apply(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("+addr", "have no ADDR"),
        ("brstackinsn", "record with -b"),
        ("brcntr", "have no counters"),
        ("hw:brcntr", "have no counters"),
        ("hw:brstackinsnlen", "record with -b"),
        ("sw:", "has no software events"),
        ("+tod", "does not name its clock"),
    ],
)
def test_requests_that_a_recording_cannot_meet(text: str, reason: str) -> None:
    with pytest.raises(PerfError, match=reason):
        settled([text], [HARDWARE])


@pytest.mark.parametrize("text", ["brcntr", "hw:brstackinsn", "+addr"])
def test_counts_of_stat_need_no_samples(text: str) -> None:
    settled([text], [HARDWARE], has_stat=True)


def test_instructions_per_cycle_are_rounded_as_perf_rounds_them() -> None:
    assert (ipc_text(1, 200), ipc_text(3, 2), ipc_text(1, 3)) == (b" 0.00 IPC", b" 1.50 IPC", b" 0.33 IPC")


def test_a_field_that_some_kinds_cannot_have_is_ignored_there() -> None:
    fields = settled(["comm,trace"], [HARDWARE, TRACE])
    assert any("hardware events have no field 'trace'; it is skipped there" in warning for warning in fields.warnings)
    assert fields.sets[2].fields == {"comm", "trace"}


@pytest.mark.parametrize(
    ("record", "text"),
    [
        (records.Comm(MISC_COMM_EXEC, 5, 6, "ls"), "PERF_RECORD_COMM exec: ls:5/6\n"),
        (records.Fork(0, 1, 2, 3, 4, 9), "PERF_RECORD_FORK(1:3):(2:4)\n"),
        (records.Mmap(0, 0xFFFFFFFF, 0, 0x1000, 0x20, 0, "[kernel]"), "PERF_RECORD_MMAP -1/0: [0x1000(0x20) @ 0]: x [kernel]\n"),
        (records.Mmap2(0, 1, 1, 16, 16, 0, 8, 1, 77, 3, 5, 2, "/x"), "PERF_RECORD_MMAP2 1/1: [0x10(0x10) @ 0 08:01 77 3]: r-xp /x\n"),
        (
            records.Mmap2(MISC_MMAP_BUILD_ID, 1, 1, 16, 16, 0, 0, 0, 0, 0, 7, 1, "/x", b"\xab\xcd"),
            "PERF_RECORD_MMAP2 1/1: [0x10(0x10) @ 0 <abcd>]: rwxs /x\n",
        ),
        (records.Switch(MISC_SWITCH_OUT | MISC_SWITCH_OUT_PREEMPT), "PERF_RECORD_SWITCH OUT preempt\n"),
        (records.SwitchCpuWide(0, 3, 4), "PERF_RECORD_SWITCH_CPU_WIDE IN           prev pid/tid:     3/4    \n"),
        (records.Lost(0, 1, 76), "PERF_RECORD_LOST lost 76\n"),
        (records.Cgroup(0, 2, "/a"), "PERF_RECORD_CGROUP cgroup: 2 /a\n"),
        (records.Aux(0, 0, 16, 1), "PERF_RECORD_AUX offset: 0 size: 0x10 flags: 0x1 [T]\n"),
        (
            records.Namespaces(0, 1, 1, ((3, 4), (5, 6))),
            "PERF_RECORD_NAMESPACES 1/1 - nr_namespaces: 2\n\t\t[0/net: 3/0x4, 1/uts: 5/0x6]\n",
        ),
    ],
)
def test_records_as_text(record: records.KernelRecord, text: str) -> None:
    assert record_text(record) == text


def test_a_text_poke_names_its_place_and_shows_both_codes() -> None:
    poke = records.TextPoke(0, 0xF00, b"\x01", b"\x02\x03")
    assert record_text(poke, lambda _: ("work", 4)) == (
        "PERF_RECORD_TEXT_POKE f00 work+0x4 old len 1 new len 2\n            Old bytes: 01\n            New bytes: 02 03\n"
    )


def test_types_unknown_to_perf() -> None:
    assert (record_name(0), record_name(40), record_name(2000)) == ("TOTAL", "UNKNOWN", "INVALID")


@pytest.mark.parametrize(
    ("word", "text"),
    [
        (0x11868100242, "|OP LOAD|LVL LFB/MAB hit|SNP None|TLB L1 or L2 hit|LCK No|BLK  N/A"),
        (0x10650100842, "|OP LOAD|LVL L3 hit|SNP None|TLB L2 miss|LCK No|BLK  N/A"),
        (0x5080021, "|OP N/A|LVL N/A|SNP N/A|TLB N/A|LCK N/A|BLK  N/A"),
    ],
)
def test_memory_accesses(word: int, text: str) -> None:
    assert memory_text(word) == text


# Tests of listings divided among processes: they equal those of a single process, including notes.


NAMES = ["chains", "chains-dwarf", "sched", "made-branches", "fork-exec", "several", "lost", "arm64-chains", "damaged-bits"]
END = 1 << 64


@pytest.fixture
def forked(monkeypatch):
    """Divide small files, too; return a list of the number of processes of each listing."""
    counts = []
    jobs = divided.DividedListing.jobs

    def counted(self, requested):
        counts.append(jobs(self, requested))
        return counts[-1]

    monkeypatch.setattr(divided.DividedListing, "jobs", counted)
    monkeypatch.setattr(divided, "_LINES_EACH", 1)
    monkeypatch.setattr(divided, "_STACKS_EACH", 1)
    monkeypatch.setattr("perfpy.workers.can_fork", lambda: True)
    return counts


@pytest.fixture(params=NAMES)
def path(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Record into a file that is read in small, and therefore several, chunks."""
    unpacked = tmp_path / "perf.data"
    size = unpacked.write_bytes(lzma.decompress((RECORDINGS / f"{request.param}.data.xz").read_bytes()))
    chunk = 1 << 16 if "dwarf" in request.param else max(512, size // 8 & ~7)
    monkeypatch.setattr("perfpy.perfdata.records.stream.chunk_size", lambda *_, **__: chunk)
    return unpacked


def listed(path: Path, jobs: int, *fields: str, **more):
    output_fields = OutputFields()
    for field in fields:
        output_fields.apply(field)
    symbols = SymbolOptions(inline=more.pop("inline", Inline.NONE))
    with Recording(path) as recording:
        run = ScriptRun(recording, ScriptOptions(fields=output_fields, jobs=jobs, symbols=symbols, **more))
        out = io.BytesIO()
        return run.write(out), out.getvalue(), run.truncated_stacks, recording.warnings


def test_listings_are_the_same(path, forked):
    assert listed(path, 3) == listed(path, 1)
    assert 1 < forked[0] <= 3
    assert forked[1] == 1


@pytest.mark.parametrize("path", ["chains-dwarf"], indirect=True)
@pytest.mark.parametrize("inline", [Inline.UNWOUND_AS_PERF, Inline.ALL])
def test_listings_with_inlined_calls_are_the_same(path, forked, inline):
    assert listed(path, 3, inline=inline) == listed(path, 1, inline=inline)
    assert forked[0] > 1


@pytest.mark.parametrize("path", ["several"], indirect=True)
@pytest.mark.parametrize("more", [{"reltime": True}, {"deltatime": True}, {"side_band_types": frozenset(["task"])}])
def test_lines_that_depend_on_earlier_lines_use_one_process(path, forked, more):
    assert listed(path, 3, **more) == listed(path, 1, **more)
    assert forked == []


@pytest.mark.parametrize("path", ["made-memory"], indirect=True)
def test_columns_as_wide_as_earlier_ones_use_one_process(path, forked):
    assert listed(path, 3) == listed(path, 1)
    assert forked == []


@pytest.mark.parametrize("path", ["chains"], indirect=True)
def test_small_recordings_use_one_process(path, forked, monkeypatch):
    monkeypatch.setattr(divided, "_LINES_EACH", 1_000_000)
    listed(path, 0)
    assert forked == [1]


@pytest.mark.parametrize("path", ["chains"], indirect=True)
def test_parts_of_killed_processes_are_listed_by_the_parent(path, forked, monkeypatch):
    here, batch_of = os.getpid(), Recording.batch_of
    alone = listed(path, 1)

    def killed(self, *args):
        if os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return batch_of(self, *args)

    monkeypatch.setattr(Recording, "batch_of", killed)
    assert listed(path, 3) == alone


@pytest.mark.parametrize("path", ["chains", "several", "lost"], indirect=True)
def test_the_spans_are_all_samples_in_order(path):
    with Recording(path) as recording:
        whole = [row for batch in recording.batches(["time", "tid"]) for row in zip(batch.key.tolist(), batch.offset.tolist(), strict=True)]
        spans = recording.data.records.delivery_spans
        parts = [recording.batch_of(span, ["time", "tid"]) for span in spans]
    assert len(spans) > 1
    assert [row for part in parts if part for row in zip(part.key.tolist(), part.offset.tolist(), strict=True)] == whole


def test_a_span_begins_with_the_first_chunk_with_one_of_its_samples():
    assert spans_of([5, 9, END], [6, 8, 12]) == [Span(0, 1, 0, 5), Span(0, 2, 5, 9), Span(2, 3, 9, END)]
    assert spans_of([3, 3, END], [2, -1, 7]) == [Span(0, 1, 0, 3), Span(2, 3, 3, END)]
    assert spans_of([], []) == []


def test_texts_of_pairs_are_kept_apart_when_there_are_many() -> None:
    """Where one batch has more pairs than are kept, later batches fuse other neighbours: their texts must not be mixed up."""
    many = (1 << 18) + 2
    letters, numbers = [b"a", b"b"], [b"%d," % number for number in range(many)]
    joiner = Joiner()
    for codes in (np.arange(many), np.arange(4)):
        count = len(codes)
        pieces = [
            Coded(np.zeros(count, np.int32), letters),
            Coded(codes.astype(np.int32), numbers),
            Coded(codes.astype(np.int32) % 2, letters),
        ]
        for _ in range(2):
            text = b"".join(joiner.join(list(pieces), count).parts)
            assert text == b"".join(b"a%d,%s" % (code, letters[code % 2]) for code in codes.tolist())
