"""Fields of a tracepoint are decoded from one sample's bytes by the format; missing bytes are no error."""

from __future__ import annotations

import pytest

from perfpy.capture.event_stream import field_reader
from perfpy.perfdata.event_format import parse_format

FORMAT = """name: made
ID: 7
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:char comm[8];\toffset:8;\tsize:8;\tsigned:0;
\tfield:u16 numbers[2];\toffset:16;\tsize:4;\tsigned:0;
\tfield:__data_loc char[] name;\toffset:20;\tsize:4;\tsigned:0;
\tfield:__rel_loc u32[] rest;\toffset:24;\tsize:4;\tsigned:0;
\tfield:long delta;\toffset:28;\tsize:8;\tsigned:1;

print fmt: ""
"""


def made() -> bytes:
    import struct

    name, rest = b"f\xc3\xbcr\0", b"\1\2\3\4"
    begin = 36
    locations = (len(name) << 16 | begin, len(rest) << 16 | begin + len(name) - 28)
    return struct.pack("=HHi8s2HIIq", 7, 0, -3, b"task\0xyz", 5, 6, *locations, -9) + name + rest


def test_each_field_is_of_its_kind() -> None:
    read = field_reader(parse_format(FORMAT, "made"))
    assert read(made()) == {
        "common_type": 7, "common_pid": -3, "comm": "task", "numbers": [5, 6], "name": "f\u00fcr", "rest": b"\1\2\3\4", "delta": -9,
    }  # fmt: skip


@pytest.mark.parametrize("length", range(45))
def test_short_data_is_no_failure(length: int) -> None:
    read = field_reader(parse_format(FORMAT, "made"))
    assert list(read(made()[:length])) == ["common_type", "common_pid", "comm", "numbers", "name", "rest", "delta"]
