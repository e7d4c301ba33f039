"""Tests of the parts of script's lines: pieces, times, fields, ranges, records, memory accesses."""

from __future__ import annotations

import numpy as np
import pytest

from perfpy.abi import records
from perfpy.abi.flags import MISC_COMM_EXEC, MISC_MMAP_BUILD_ID, MISC_SWITCH_OUT, MISC_SWITCH_OUT_PREEMPT
from perfpy.errors import PerfError, UsageError
from perfpy.perfdata.events import FileEvent
from perfpy.views.record_text import record_name, record_text
from perfpy.views.script.field_text import RelativeTimes, memory_text, outermost_first, time_piece, time_text
from perfpy.views.script.fields import OutputFields
from perfpy.views.script.pieces import Coded, Joiner, ValueTexts
from tests.builders.perfdata import usual_attr

SECOND = 1_000_000_000


def joined(pieces: list[object], count: int) -> list[bytes]:
    return Joiner().join(pieces, count).lines()  # type: ignore[arg-type]  # a list of pieces


def test_pieces_are_joined_in_order() -> None:
    codes = Coded(np.array([1, 0]), [b"zero", b"one"])
    assert joined([b"<", codes, [b" a", b" b"], b">"], 2) == [b"<one a>", b"<zero b>"]


def test_fixed_columns_are_joined_with_their_neighbours() -> None:
    wide = np.array([b"1.0", b"2.0"])
    flat = Joiner().join([Coded(np.array([0, 1]), [b"ab ", b"cd "]), wide, b": "], 2)
    assert (flat.stride, flat.parts) == (1, [b"ab 1.0: ", b"cd 2.0: "])


def test_coded_neighbours_become_one_and_stay_right_in_the_next_batch() -> None:
    joiner, texts = Joiner(), [b"a", b"bb"]
    for codes in ([0, 1], [1, 1], [0, 0]):
        first, second, third = (Coded(np.array(order), texts) for order in (codes, codes[::-1], codes))
        flat = joiner.join([first, second, b"-", third], 2)
        expected = [texts[a] + texts[b] + b"-" + texts[a] for a, b in zip(codes, codes[::-1], strict=True)]
        assert (flat.stride, flat.lines()) == (1, expected)


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
        ("sw:", "has no software events"),
        ("+tod", "does not name its clock"),
    ],
)
def test_requests_that_a_recording_cannot_meet(text: str, reason: str) -> None:
    with pytest.raises(PerfError, match=reason):
        settled([text], [HARDWARE])


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
