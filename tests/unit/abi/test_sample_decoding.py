"""SampleLayout decodes what encode_sample writes, of every field, in both byte orders, and never reads beyond a record."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from perfpy.abi.attr import EventAttr, Reading
from perfpy.abi.columns import Ragged
from perfpy.abi.flags import BranchSample, ReadFormat, SampleType
from perfpy.abi.sample_decoding import SampleLayout
from perfpy.abi.sample_encoding import encode_sample
from perfpy.abi.sample_layout import FIXED_FIELDS, page_size_text, words_before

ALL_FIXED = (
    SampleType.IDENTIFIER | SampleType.IP | SampleType.TID | SampleType.TIME | SampleType.ADDR | SampleType.ID
    | SampleType.STREAM_ID | SampleType.CPU | SampleType.PERIOD
)  # fmt: skip
READ = ReadFormat.TOTAL_TIME_ENABLED | ReadFormat.TOTAL_TIME_RUNNING | ReadFormat.ID | ReadFormat.LOST

# attr, values of one sample, and what its columns hold
CASES: dict[str, tuple[EventAttr, dict[str, Any]]] = {
    "fixed": (
        EventAttr(sample_type=ALL_FIXED),
        {
            "identifier": 5,
            "ip": 2**64 - 3,
            "pid": -1,
            "tid": 7,
            "time": 10**18,
            "addr": 8,
            "id": 5,
            "stream_id": 6,
            "cpu": 300,
            "period": 2**63,
        },
    ),
    "callchain": (EventAttr(sample_type=SampleType.CALLCHAIN), {"callchain": [2**64 - 512, 0x1000, 0x2000]}),
    "empty callchain": (EventAttr(sample_type=SampleType.CALLCHAIN | SampleType.WEIGHT), {"callchain": [], "weight": 3}),
    "raw": (EventAttr(sample_type=SampleType.RAW | SampleType.DATA_SRC), {"raw": bytes(range(20)), "data_src": 9}),
    "registers": (
        EventAttr(sample_type=SampleType.REGS_USER | SampleType.REGS_INTR, sample_regs_user=0b1011, sample_regs_intr=0b1),
        {"user_regs": [1, 2, 3], "user_regs_abi": 2, "intr_regs": [4], "intr_regs_abi": 1},
    ),
    "no registers": (
        EventAttr(sample_type=SampleType.REGS_USER | SampleType.CGROUP, sample_regs_user=0b1011),
        {"user_regs": [], "user_regs_abi": 0, "cgroup": 77},
    ),
    "stack": (EventAttr(sample_type=SampleType.STACK_USER | SampleType.PHYS_ADDR), {"user_stack": bytes(range(64)) * 20, "phys_addr": 1}),
    "no stack": (EventAttr(sample_type=SampleType.STACK_USER | SampleType.PHYS_ADDR), {"user_stack": b"", "phys_addr": 1}),
    "weights": (EventAttr(sample_type=SampleType.WEIGHT_STRUCT), {"weight": 70000, "ins_lat": 3, "retire_lat": 65535}),
    "words": (
        EventAttr(
            sample_type=SampleType.WEIGHT
            | SampleType.DATA_SRC
            | SampleType.TRANSACTION
            | SampleType.PHYS_ADDR
            | SampleType.CGROUP
            | SampleType.DATA_PAGE_SIZE
            | SampleType.CODE_PAGE_SIZE
        ),
        {"weight": 1, "data_src": 2, "transaction": 3, "phys_addr": 4, "cgroup": 5, "data_page_size": 6, "code_page_size": 7},
    ),
    "aux": (EventAttr(sample_type=SampleType.IP | SampleType.AUX), {"ip": 1, "aux": b"12345678"}),
    "branches": (
        EventAttr(
            sample_type=SampleType.BRANCH_STACK | SampleType.WEIGHT, branch_sample_type=BranchSample.HW_INDEX | BranchSample.COUNTERS
        ),
        {"branch_stack": [(1, 2, 0b1), (3, 4, 0x1230)], "branch_hw_index": 12, "branch_counters": [8, 9], "weight": 4},
    ),
    "one reading": (
        EventAttr(sample_type=SampleType.READ | SampleType.CALLCHAIN, read_format=READ),
        {"read": [Reading(10, 20, 15, 3, 1)], "callchain": [5]},
    ),
    "group": (
        EventAttr(sample_type=SampleType.READ | SampleType.CALLCHAIN, read_format=READ | ReadFormat.GROUP),
        {"read": [Reading(10, 20, 15, 3, 1), Reading(11, 20, 15, 4, 2)], "callchain": [5]},
    ),
}


def decode(attr: EventAttr, data: bytes, endian: str, starts: list[int] | None = None, fields: Any = None) -> Any:
    return SampleLayout(attr, endian).decode(np.frombuffer(data, np.uint8), np.array(starts or [0]), fields)


def plain(value: Any) -> Any:
    """A column's element in the form in which it was given."""
    if isinstance(value, np.ndarray):
        if value.dtype == np.uint8:
            return value.tobytes()
        return [tuple(row) if isinstance(row, tuple) else row for row in value.tolist()]
    return int(value)


@pytest.mark.parametrize("endian", "<>")
@pytest.mark.parametrize("name", CASES)
def test_decode_reverses_encode(name: str, endian: str) -> None:
    attr, values = CASES[name]
    columns = decode(attr, encode_sample(attr, {"misc": 0x4002, **values}, endian), endian)
    assert columns.damaged is None
    assert int(columns["cpumode"][0]) == 2
    for field, value in values.items():
        readings = [(v.value, v.enabled, v.running, v.id, v.lost) for v in value] if field == "read" else value
        assert plain(columns[field][0]) == readings, field


@pytest.mark.parametrize("endian", "<>")
def test_many_samples_of_different_lengths_are_decoded_at_once(endian: str) -> None:
    attr = EventAttr(sample_type=SampleType.IP | SampleType.CALLCHAIN | SampleType.RAW | SampleType.WEIGHT)
    rows = [{"ip": i, "callchain": list(range(i % 7)), "raw": bytes(range(4 + 8 * (i % 3))), "weight": i * i} for i in range(100)]
    records = [encode_sample(attr, values, endian) for values in rows]
    starts = np.cumsum([0] + [len(record) for record in records[:-1]]).tolist()
    columns = decode(attr, b"".join(records), endian, starts)
    for i, values in enumerate(rows):
        assert {field: plain(columns[field][i]) for field in values} == values


def test_fields_limits_decoding_and_ignores_absent_fields() -> None:
    attr, values = CASES["raw"]
    columns = decode(attr, encode_sample(attr, values), "<", fields={"data_src", "ip", "cpumode"})
    assert set(columns) == {"data_src", "cpumode"}
    assert int(columns["data_src"][0]) == 9


@pytest.mark.parametrize("endian", "<>")
@pytest.mark.parametrize("name", CASES)
def test_a_record_cut_at_any_byte_is_marked_and_never_read_beyond(name: str, endian: str) -> None:
    attr, values = CASES[name]
    whole = encode_sample(attr, values, endian)
    for size in range(8, len(whole)):
        cut = whole[:6] + size.to_bytes(2, "little" if endian == "<" else "big") + whole[8:size]
        columns = decode(attr, cut, endian)
        assert columns.damaged is not None, size
        assert columns.damaged[0], size


@pytest.mark.parametrize("name", CASES)
def test_any_words_in_a_record_decode_without_an_error(name: str) -> None:
    attr, values = CASES[name]
    whole = bytearray(encode_sample(attr, values))
    for at in range(8, len(whole)):
        for bit in (1, 0x80):
            damaged = bytearray(whole)
            damaged[at] ^= bit
            columns = decode(attr, bytes(damaged), "<")
            assert columns.rows == 1


def test_records_at_odd_places_are_decoded_too() -> None:
    attr, values = CASES["group"]
    record = encode_sample(attr, values)
    columns = decode(attr, b"xyz" + record + b"....." + record, "<", [3, 3 + len(record) + 5])
    assert columns["callchain"].values.tolist() == [5, 5]


def test_a_record_that_reaches_beyond_the_buffer_is_refused() -> None:
    attr, values = CASES["fixed"]
    with pytest.raises(ValueError, match="beyond"):
        decode(attr, encode_sample(attr, values)[:-8], "<")


def test_columns_take_and_concat_keep_rows_together() -> None:
    attr, values = CASES["callchain"]
    other, more = CASES["empty callchain"]
    first = decode(attr, encode_sample(attr, values), "<")
    second = decode(other, encode_sample(other, more), "<")
    both = first.concat([first, second])
    assert both.rows == 2
    assert both["weight"].tolist() == [0, 3]
    turned = both.take(np.array([1, 0]))
    assert turned["callchain"].lengths.tolist() == [0, 3]
    assert turned.take(np.array([False, True]))["callchain"].values.tolist() == values["callchain"]


@pytest.mark.parametrize("rows", [slice(None), slice(0), slice(1, 3), slice(3, 1), slice(-2, None), slice(9, 12), slice(None, None, 2)])
def test_a_slice_of_ragged_rows_is_that_of_the_list(rows: slice) -> None:
    column = Ragged(np.arange(9), np.array([0, 2, 2, 5, 9]))
    assert [row.tolist() for row in column.take(rows)] == [row.tolist() for row in list(column)[rows]]


# The words at the beginning of samples stand where the kernel puts them.


_FEW = SampleType.IP | SampleType.TID | SampleType.PERIOD | SampleType.CALLCHAIN


@pytest.mark.parametrize(
    ("sample_type", "field", "words"),
    [
        (_FEW, SampleType.IP, 1),
        (_FEW, SampleType.TID, 2),
        (_FEW, SampleType.PERIOD, 3),
        (_FEW, 0, 4),
        (_FEW | SampleType.IDENTIFIER, SampleType.TID, 3),
        (0, 0, 1),
    ],
)
def test_a_word_follows_the_present_words_before_it(sample_type, field, words):
    assert words_before(sample_type, field) == words


def test_there_are_nine_of_them():
    every = sum(bit for bit, _ in FIXED_FIELDS)
    assert words_before(every) == 10


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "N/A"),
        (1, "1B"),
        (4096, "4K"),
        (65536, "64K"),
        (1 << 20, "1024K"),
        (2 << 20, "2M"),
        (1 << 30, "1024M"),
        (16 << 30, "16G"),
    ],
)
def test_page_sizes_have_perfs_units(size: int, text: str) -> None:
    """perf takes the next unit for more than one of it."""
    assert page_size_text(size) == text
