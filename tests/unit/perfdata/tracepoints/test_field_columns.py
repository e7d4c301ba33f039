"""Tracepoints' raw data as columns: numbers, arrays, strings and dynamic fields, in both byte orders."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np
import pytest

from perfpy.abi.columns import Ragged
from perfpy.perfdata.tracepoints.event_format import EventFormat, parse_format
from perfpy.perfdata.tracepoints.field_columns import trace_columns
from perfpy.recording import Recording

if TYPE_CHECKING:
    from pathlib import Path

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
