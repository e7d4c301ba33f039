"""Formats of tracepoints, their text and their columns."""

from __future__ import annotations

import struct
import tempfile
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import perfpy
from perfpy.abi.columns import Ragged
from perfpy.analysis.scheduler import SWITCH as SWITCH_EVENT
from perfpy.perfdata.event_format import EventFormat, Formats, Tracepoint, Tracing, TracingData, decode_tracing, parse_format
from perfpy.perfdata.print_format import (
    Atom,
    Cast,
    Conditional,
    DynamicText,
    FieldValue,
    Flags,
    Operation,
    PrintFormatError,
    number,
    parse_print_fmt,
)
from perfpy.perfdata.records.delivery import KeyedSamples, delivery_order
from perfpy.perfdata.records.stream import Chunk
from perfpy.perfdata.tracepoint_rows import OrderCollector, TracepointRows, read_tracepoints, trace_columns, tracepoint_windows
from perfpy.recording import Recording
from tests.builders.many_threads import recording_of_switches
from tests.builders.traced import TRACEPOINTS

if TYPE_CHECKING:
    from pathlib import Path


# The TRACING_DATA section: encode, decode, and parse formats by id.


SWITCH = (
    b"name: sched_switch\nID: 314\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n"
    b'\tfield:int prev;\toffset:8;\tsize:4;\tsigned:1;\n\nprint fmt: "prev=%d", REC->prev\n'
)
PAGE = b"\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\tfield: local_t commit;\toffset:8;\tsize:4;\tsigned:1;\n"


def section(endian: str = "<", **changes: object) -> TracingData:
    whole = TracingData(
        "0.6", endian, 8, 4096, PAGE, b"header event", (b"name: function\nID: 1\n",), (("sched", (SWITCH,)), ("irq", ())),
        b"", b'0xffffffff81000000 : "rcu %s\\n"\n', b"1 init\n",
    )  # fmt: skip
    return whole._replace(**changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("endian", "<>")
@pytest.mark.parametrize("version", ["0.5", "0.6"])
def test_decode_reverses_encode(endian: str, version: str) -> None:
    given = section(endian, version=version, cmdlines=None if version == "0.5" else b"1 init\n")
    assert decode_tracing(given.encode() + bytes(5)) == given


def test_a_section_cut_at_any_byte_is_refused() -> None:
    data = section().encode()
    for size in range(len(data)):
        with pytest.raises(ValueError, match=r"expected|entries|magic|without|terminating"):
            decode_tracing(data[:size])


def test_formats_are_found_by_id_and_the_kernels_long_size_wins() -> None:
    tracing = Tracing(section())
    assert tracing.long_size == 4
    assert tracing.tracepoints[314][:3] == ("sched", "sched_switch", 314)
    assert [field.name for field in tracing.formats[314].fields] == ["prev"]
    assert set(tracing.formats) == {314, 1}
    assert tracing.printk_formats == {0xFFFFFFFF81000000: "rcu %s\\n"}


def test_a_format_that_cannot_be_parsed_is_left_out_with_a_warning() -> None:
    readable = f'{HEAD}print fmt: "x"\n'.encode()
    points = {1: Tracepoint("sched", "odd", 1, b"name:\nformat:\n"), 77: Tracepoint("sys", "example", 77, readable)}
    warnings: list[str] = []
    formats = Formats(points, 8, warnings.append)
    assert 1 not in formats
    assert 77 in formats
    assert set(formats) == {77}
    assert warnings == ["sched: tracepoint format without name or ID"]


# Tracepoint formats: fields, and print formats grouped by the rules of perf's library.


HEAD = """name: example
ID: 77
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

"""
FIELDS = """\tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;
\tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;
\tfield:unsigned long addr;\toffset:32;\tsize:8;\tsigned:0;
\tfield:__data_loc char[] name;\toffset:40;\tsize:4;\tsigned:0;
\tfield:const char * reason;\toffset:48;\tsize:8;\tsigned:0;
\tfield:u32 words[TASK_LEN];\toffset:56;\tsize:8;\tsigned:0;

"""


def event(print_fmt: str = '"x"') -> EventFormat:
    return parse_format(f"{HEAD}{FIELDS}print fmt: {print_fmt}\n", "sys")


def argument(expression: str) -> object:
    (tree,) = parse_print_fmt(event(f'"%d", {expression}')).arguments
    return tree


def test_a_format_gives_common_and_own_fields() -> None:
    parsed = event()
    assert (parsed.system, parsed.name, parsed.id) == ("sys", "example", 77)
    assert [field.name for field in parsed.common_fields] == ["common_type", "common_pid"]
    assert [field.name for field in parsed.fields] == ["comm", "pid", "addr", "name", "reason", "words"]


def test_fields_have_kinds_and_sizes() -> None:
    fields = {field.name: field for field in event().fields}
    assert fields["comm"].is_array
    assert fields["comm"].is_string
    assert (fields["comm"].length, fields["comm"].element_size) == (16, 1)
    assert fields["pid"].is_signed
    assert not fields["pid"].is_array
    assert fields["addr"].is_long
    assert not fields["addr"].is_signed
    assert fields["name"].is_dynamic
    assert fields["name"].is_string
    assert not fields["name"].is_relative
    assert fields["reason"].is_pointer
    assert fields["words"].is_array
    assert fields["words"].length == 0


def test_a_format_without_id_is_an_error() -> None:
    with pytest.raises(ValueError, match="without name or ID"):
        parse_format("name: x\nformat:\n", "sys")


def test_operators_of_equal_priority_group_from_the_right() -> None:
    tree = argument("REC->pid - 1 - 2")
    assert isinstance(tree, Operation)
    assert tree.operator == "-"
    # constants are folded only if both sides are numbers
    assert tree.right == Operation("-", Atom("1"), Atom("2"), 7) or tree.right == Atom("-1")


def test_a_parenthesised_right_side_is_torn_apart() -> None:
    tree = argument("REC->pid * (REC->addr + 2)")
    assert isinstance(tree, Operation)
    assert tree.operator == "+"
    assert isinstance(tree.left, Operation)
    assert tree.left.operator == "*"


def test_comparisons_bind_tighter_than_and() -> None:
    tree = argument("REC->pid == 1 && REC->addr")
    assert isinstance(tree, Operation)
    assert tree.operator == "&&"


def test_casts_conditions_and_records_in_parentheses() -> None:
    assert isinstance(argument("(unsigned long)REC->pid"), Cast)
    assert isinstance(argument("(REC)->pid"), FieldValue)
    tree = argument('REC->pid ? "yes" : "no"')
    assert isinstance(tree, Conditional)
    assert (tree.yes, tree.no) == (Atom("yes"), Atom("no"))


def test_flags_keep_their_names_and_evaluate_their_masks() -> None:
    tree = argument('__print_flags(REC->pid, "|", { 1 << 2, "A" }, { 0x10, "B" })')
    assert isinstance(tree, Flags)
    assert tree.names == (("4", "A"), ("0x10", "B"))
    assert tree.delimiter == "|"


def test_strings_join_and_dynamic_strings_have_their_field() -> None:
    parsed = parse_print_fmt(event('"a" "b %s", __get_str(name)'))
    assert parsed.literal == "ab %s"
    (tree,) = parsed.arguments
    assert isinstance(tree, DynamicText)
    assert tree.field is not None
    assert tree.field.name == "name"


@pytest.mark.parametrize(
    "print_fmt",
    [
        '"%s", unknown_function(REC->pid)',
        '"%s", ({ int x = 1; x; })',
        '"tab\there %d", REC->pid',
        '"%s", __get_dynamic_array(nothing)',
        '"%d", __get_dynamic_array(name)[0]',
        "REC->pid",
    ],
)
def test_formats_that_perfs_library_cannot_parse_are_errors(print_fmt: str) -> None:
    with pytest.raises(PrintFormatError):
        parse_print_fmt(event(print_fmt))


@pytest.mark.parametrize(("text", "value"), [("0x10UL", 16), ("017", 15), ("-3", -3), ("12abc", 12), ("name", 0), ("0", 0)])
def test_numbers_are_read_as_c_reads_them(text: str, value: int) -> None:
    assert number(text) == value


def test_sizeof_of_types_and_fields() -> None:
    assert argument("sizeof(unsigned long)") == Atom("8")
    assert argument("sizeof(REC->pid)") == Atom("4")
    assert parse_print_fmt(event('"%d", sizeof(long)'), 4).arguments == (Atom("4"),)


# Fields of tracepoints, read in the first pass or after it, in place or from decoded columns.


SWITCH_FIELDS = ("prev_pid", "prev_state", "next_comm")


def rows_of(data: bytes, *, has_index: bool = False, chains: bool = False) -> tuple[TracepointRows, list[str]]:
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        with perfpy.open(file) as recording:
            if has_index:
                assert recording.data.sample_counts
            tables = read_tracepoints(recording.data, {SWITCH_EVENT: SWITCH_FIELDS}, with_chains=(SWITCH_EVENT,) if chains else ())
            assert sum(recording.data.sample_counts.values()) == 10
            return tables[SWITCH_EVENT], recording.data.warnings


@pytest.mark.parametrize("chains", [False, True])
@pytest.mark.parametrize("has_index", [False, True])
def test_all_ways_to_read_give_the_same(has_index, chains):
    data = recording_of_switches(3, 5, time_of=lambda turn: 10**10 - turn * 1000)
    expected, _ = rows_of(data)
    rows, warnings = rows_of(data, has_index=has_index, chains=chains)
    for name in ("order", "key", "time", "pid", "tid", "cpu"):
        assert np.array_equal(getattr(rows, name), getattr(expected, name)), name
    assert {name: column.tolist() for name, column in rows.fields.items()} == {
        name: column.tolist() for name, column in expected.fields.items()
    }
    assert not warnings


@pytest.mark.parametrize("size", [4000, 20])
def test_raw_data_longer_than_their_sample_are_skipped_and_missing_fields_are_zero(size):
    data = recording_of_switches(3, 5)
    head = struct.pack("<HBBi", TRACEPOINTS[SWITCH_EVENT][0], 0, 0, 101)  # of the second switch
    begin = data.index(head)
    changed = data[: begin - 4] + struct.pack("<I", size) + data[begin:]
    expected, _ = rows_of(data)
    rows, warnings = rows_of(changed)
    if size < 1000:
        assert rows.fields["prev_pid"].tolist() == [100, 0, 102, 100, 101]
        assert not warnings
    else:
        assert rows.order.tolist() == [1, 5, 7, 9]
        assert rows.time.tolist() == expected.time[[0, 2, 3, 4]].tolist()
        assert len(warnings) == 1
        assert "skipped 1 sample shorter" in warnings[0]


# Tracepoints' raw data as columns: numbers, arrays, strings and dynamic fields, in both byte orders.


FORMAT = """name: example
ID: 5
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:char comm[8];	offset:8;	size:8;	signed:0;
	field:s64 delta;	offset:16;	size:8;	signed:1;
	field:u32 values[2];	offset:24;	size:8;	signed:0;
	field:__data_loc char[] name;	offset:32;	size:4;	signed:0;
	field:__rel_loc char[] path;	offset:36;	size:4;	signed:0;
	field:__data_loc u8[] bytes;	offset:40;	size:4;	signed:0;

print fmt: "%s", REC->comm
"""


def row(endian: str, name: bytes, path: bytes) -> bytes:
    start = 44
    fixed = struct.pack(endian + "HxxI8sqII", 5, 77, b"shell", -3, 6, 7)
    name_at, path_at, bytes_at = start, start + len(name) - 40, start + len(name) + len(path)
    places = struct.pack(endian + "III", name_at | len(name) << 16, path_at | len(path) << 16, bytes_at | 2 << 16)
    return fixed + places + name + path + b"\1\2"


@pytest.fixture
def form() -> EventFormat:
    return parse_format(FORMAT, "test")


def ragged(rows: list[bytes]) -> Ragged:
    offsets = np.cumsum([0] + [len(data) for data in rows])
    return Ragged(np.frombuffer(b"".join(rows), np.uint8), offsets)


@pytest.mark.parametrize("endian", "<>")
def test_every_kind_of_field_becomes_a_column(form: EventFormat, endian: str) -> None:
    columns = trace_columns(form, ragged([row(endian, b"first\0", b"/a\0"), row(endian, b"2nd\0", b"/other\0")]), endian)
    assert columns["common_type"].tolist() == [5, 5]
    assert columns["common_pid"].tolist() == [77, 77]
    assert columns["comm"].tolist() == ["shell", "shell"]
    assert columns["delta"].tolist() == [-3, -3]
    assert columns["values"].tolist() == [[6, 7], [6, 7]]
    assert columns["name"].tolist() == ["first", "2nd"]
    assert columns["path"].tolist() == ["/a", "/other"]
    assert [part.tolist() for part in columns["bytes"]] == [[1, 2], [1, 2]]


def test_rows_cut_at_any_byte_give_zeros_and_empty_strings(form: EventFormat) -> None:
    whole = row("<", b"first\0", b"/a\0")
    columns = trace_columns(form, ragged([whole[:size] for size in range(len(whole))]))
    assert columns["delta"][0] == 0
    assert columns["delta"][-1] == -3
    assert columns["name"][10] == ""
    assert len(columns["bytes"]) == len(whole)


def test_no_rows_give_empty_columns(form: EventFormat) -> None:
    assert {len(column) for column in trace_columns(form, Ragged.empty(0, np.uint8)).values()} == {0}


def test_a_recordings_tracepoint_is_read_by_name(corpus: Path) -> None:
    with Recording(corpus / "recorded" / "tp-mixed-a.data") as recording:
        switches = recording.tracepoint("sched:sched_switch")
        count = recording.data.record_index.sample_counts[1]
    assert len(switches.fields["prev_comm"]) == len(switches.samples["time"]) == count > 0
    assert all(isinstance(comm, str) and comm for comm in switches.fields["next_comm"])
    assert (switches.fields["common_pid"] == switches.samples["tid"]).all()


# The order of all samples, collected chunk by chunk.


def collected(keys: list[list[int]], times: list[list[int]]) -> OrderCollector:
    collector = OrderCollector()
    for key, time in zip(keys, times, strict=True):
        chunk = Chunk(np.zeros(8, np.uint8), np.arange(len(key), dtype=np.int64) * 8, "<", 1000 * collector.count)
        collector.add(KeyedSamples(chunk, np.zeros(len(key), np.int32), np.array(key, np.uint64), np.array(time, np.uint64)))
    return collector


TIMES = st.lists(st.lists(st.integers(0, 40) | st.integers(0, (1 << 64) - 1), max_size=20), max_size=4)


@given(TIMES, st.booleans())
def test_samples_are_ordered_as_by_delivery_order(times, is_late):
    keys = [[max(time, 20) for time in part] for part in times] if is_late else times
    order = collected(keys, times).order(lambda batch: batch.key)
    key, time = (np.array([one for part in parts for one in part], np.uint64) for parts in (keys, times))
    expected = delivery_order(key, time)
    expected = np.arange(len(key)) if expected is None else expected
    arrival = np.arange(len(key)) if order.arrival is None else order.arrival
    assert arrival.tolist() == expected.tolist()
    assert order.key.tolist() == key[expected].tolist()
    assert order.time.view(np.uint64).tolist() == time[expected].tolist()


def test_settled_keys_do_not_change_the_order():
    offsets = []

    def settle(batch):
        offsets.append(batch.offset.tolist())
        return batch.key - np.uint64(1)

    order = collected([[7, 5], [6]], [[7, 5], [6]]).order(settle)
    assert order.arrival is not None
    assert order.arrival.tolist() == [1, 2, 0]
    assert order.key.tolist() == [4, 5, 6]
    assert order.time.tolist() == [5, 6, 7]
    assert offsets == [[0, 8], [2000]]


@pytest.mark.parametrize("has_index", [False, True])
@pytest.mark.parametrize("turns_late", [0, 3])
def test_windows_together_are_the_rows_of_the_whole(monkeypatch, tmp_path, has_index, turns_late):
    def time_of(turn: int) -> int:
        return 10**10 + (turn ^ int(turns_late)) * 1000  # the other order inside of four turns

    path = tmp_path / "perf.data"
    path.write_bytes(recording_of_switches(3, 4000, time_of=time_of, turns_each_round=20))
    monkeypatch.setattr("perfpy.perfdata.records.stream.chunk_size", lambda *_, **__: 1 << 16)
    fields = {SWITCH_EVENT: SWITCH_FIELDS, "sched:sched_waking": ("pid",)}
    with perfpy.open(path) as recording:
        whole = read_tracepoints(recording.data, fields)
    with perfpy.open(path) as recording:
        if has_index:
            assert recording.data.sample_counts
        windows = list(tracepoint_windows(recording.data, fields, least=lambda: 1))
        assert sum(recording.data.sample_counts.values()) == 8000
    assert len(windows) > 3
    for name, expected in whole.items():
        for column in ("time", "pid", "tid", "cpu"):
            assert np.array_equal(np.concatenate([getattr(window[name], column) for window in windows]), getattr(expected, column)), column
        for field, values in expected.fields.items():
            assert np.array_equal(np.concatenate([window[name].fields[field] for window in windows]), values), field
    first = windows[0]
    assert sorted([*first[SWITCH_EVENT].order, *first["sched:sched_waking"].order]) == list(
        range(sum(len(t.order) for t in first.values()))
    )
