"""Tests of the trace field: the text of each conversion of a print format."""

from __future__ import annotations

import struct
from types import SimpleNamespace

import numpy as np
import pytest

from perfpy.perfdata.event_format import parse_format
from perfpy.views.tracepoints import event_text as module
from perfpy.views.tracepoints.event_text import PayloadTexts, TraceSource, TraceText
from perfpy.views.tracepoints.values import Runtime

FORMAT = """name: example
ID: 9
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;

\tfield:char comm[8];\toffset:8;\tsize:8;\tsigned:0;
\tfield:int number;\toffset:16;\tsize:4;\tsigned:1;
\tfield:unsigned int flags;\toffset:20;\tsize:4;\tsigned:0;
\tfield:unsigned long addr;\toffset:24;\tsize:8;\tsigned:0;
\tfield:__data_loc char[] name;\toffset:32;\tsize:4;\tsigned:0;
\tfield:u8 mac[6];\toffset:36;\tsize:6;\tsigned:0;
\tfield:u8 ip[4];\toffset:44;\tsize:4;\tsigned:0;
\tfield:u8 id[16];\toffset:48;\tsize:16;\tsigned:0;

print fmt: """
FIXED = 64


def raw(endian: str = "<", *, number: int = -5, flags: int = 6, addr: int = 0xABC, name: bytes = b"file\0", mask: bool = False) -> bytes:
    location = FIXED | len(name) << 16
    body = struct.pack(endian + "H6x8siIQI", 9, b"comm\0xx", number, flags, addr, location)
    return body + bytes(range(1, 7)) + b"\0\0" + bytes((10, 0, 0, 1)) + bytes(range(16)) + name


def printed(print_fmt: str, data: bytes | None = None, runtime: Runtime | None = None, long_size: int = 8) -> str:
    text = TraceText(parse_format(FORMAT + print_fmt, "sys", long_size), runtime or Runtime())
    data = raw() if data is None else data
    values = np.frombuffer(b"??" + data, np.uint8)
    (line,) = text.texts(values, np.array([2]), np.array([len(data)]))
    return line


@pytest.mark.parametrize(
    ("print_fmt", "expected"),
    [
        ('"n=%d u=%u x=%x", REC->number, REC->number, REC->number', "n=-5 u=4294967291 x=fffffffb"),
        ('"%s|%-6s|%.2s", REC->comm, REC->comm, REC->comm', "comm|comm  |co"),
        ('"%#x %#x", REC->flags, 0', "0x6 0"),
        ('"%08lx %lld", REC->addr, REC->addr', "00000abc 2748"),
        ('"%p %p", (void *)REC->addr, 0', "0xabc (nil)"),
        ('"%s", __get_str(name)', "file"),
        ('"100%% %c", 65', "100% A"),
        ('"%s", __print_flags(REC->flags, "|", { 2, "TWO" }, { 4, "FOUR" })', "TWO|FOUR"),
        ('"%s", __print_flags(REC->flags, "|", { 2, "TWO" })', "TWO|0x4"),
        ('"%s", __print_symbolic(REC->flags, { 6, "six" }, { 7, "seven" })', "six"),
        ('"%s", __print_symbolic(REC->flags, { 7, "seven" })', "0x6"),
        ('"%s", REC->flags & 2 ? "odd" : "even"', "odd"),
        ('"%pM", REC->mac', "01:02:03:04:05:06"),
        ('"%pI4 %pi4", REC->ip, REC->ip', "10.0.0.1 010.000.000.001"),
        ('"%pU", REC->id', "00010203-0405-0607-0809-0a0b0c0d0e0f"),
        ('"%s", __print_hex(REC->mac, 3)', "01 02 03"),
        ('"%s", __print_hex_str(REC->mac, 3)', "010203"),
        ('"%s", __print_array(REC->mac, 2, 2)', "{0x201,0x403}"),
        ('"%d", __get_dynamic_array_len(name)', "5"),
        ('"%d %d", REC->mac[1], ((u8 *)__get_dynamic_array(name))[0]', "2 102"),
        ('"%*d", 4, REC->flags', "   6"),
        ('"%hhd %hd", REC->number, REC->number', "-5 -5"),
        ('"%d", REC->number < 0', "0"),
        ('"% d", REC->flags', "> <d"),
        ('"%s", __get_bitmask(name)', "00,656c6966"),
        ('"plain"', "plain"),
    ],
)
def test_conversions(print_fmt: str, expected: str) -> None:
    assert printed(print_fmt) == expected


def test_fields_of_a_big_endian_machine() -> None:
    assert printed('"%d %s %lx", REC->number, __get_str(name), REC->addr', raw(">"), Runtime(">")) == "-5 file abc"


def test_functions_are_named_where_the_kernel_is_known() -> None:
    runtime = Runtime(resolve=lambda address: ("schedule", 0xA00) if address == 0xABC else None)
    assert printed('"%ps %pS", (void *)REC->addr, (void *)REC->addr', runtime=runtime) == "schedule schedule+0xbc"
    assert printed('"%pS", (void *)REC->flags', runtime=runtime) == "0x6"


def test_pointers_to_the_kernels_strings_are_looked_up() -> None:
    assert printed('"%s", REC->addr', runtime=Runtime(strings={0xABC: "Start"})) == "Start"
    assert printed('"%s", REC->addr') == "abc"


def test_unparsed_formats_show_the_fields() -> None:
    line = printed('"%s", strange(REC->flags)')
    assert line.startswith("[FAILED TO PARSE] comm=comm number=-5 flags=6 addr=0xabc name=file mac=ARRAY[01, 02, 03, 04, 05, 06]")


def test_fields_can_be_shown_unformatted() -> None:
    text = TraceText(parse_format(FORMAT + '"%s", REC->comm', "sys", 8), Runtime()).raw_text(raw())
    assert text.startswith(" comm=comm number=-5 flags=6 addr=0xabc name=file mac=ARRAY[01, 02, 03, 04, 05, 06] ip=")


def test_unformatted_numbers_keep_the_digits_of_the_event() -> None:
    print_fmt = '"0x%08lx %+d %u %03x", (unsigned long)REC->addr, REC->number + 1, REC->number, REC->flags'
    text = TraceText(parse_format(FORMAT + print_fmt, "sys", 8), Runtime())
    assert text.raw_text(raw(number=7)).startswith(" comm=comm number=7 flags=006 addr=0x00000abc name=file ")
    assert [text.field_text(raw(), name) for name in ("addr", "flags")] == ["0x00000abc", "006"]


@pytest.mark.parametrize("most", [1, 1 << 20])
def test_fields_of_many_samples_are_those_of_each(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of cut samples, of unprintable names, and where texts may be long, so that each sample is formatted by itself."""
    monkeypatch.setattr(module, "_LONGEST", most)
    event = parse_format(FORMAT + '"%s %03x", REC->comm, REC->flags', "sys", 8)
    samples = [raw(number=number, name=bytes([65 + number]) * number + b"\0") for number in range(9)]
    samples += [raw()[:40], raw(name=b"\x01\0"), raw(name=b"x\0"), b"", raw()[:20]]
    together = [list(fields) for fields in TraceText(event, Runtime()).fields_of_rows(samples)]
    one_by_one = TraceText(event, Runtime())
    assert together == [list(one_by_one.fields(sample)) for sample in samples]
    assert dict(together[0]).get("flags") == ("006" if most > 1 else None)


def test_equal_texts_of_many_samples_change_when_one_of_them_is_no_text() -> None:
    event = parse_format(FORMAT + '"%s", __get_str(name)', "sys", 8)
    samples = [raw(name=name) for name in (b"one\0", b"\0", b"one\0", b"\x01\0", b"one\0", b"\0", b"one\0")]
    one_by_one = TraceText(event, Runtime())
    expected = [list(one_by_one.fields(sample)) for sample in samples]
    together = [list(fields) for fields in TraceText(event, Runtime()).fields_of_rows(samples)]
    assert together == expected
    assert [dict(fields)["name"] for fields in together[2:5]] == ["one", "ARRAY[01, 00]", "ARRAY[6f, 6e, 65, 00]"]


def test_missing_data_are_zeros() -> None:
    assert printed('"%d %lx", REC->number, REC->addr', raw()[:20]) == "-5 0"


def test_many_samples_of_different_length_at_once() -> None:
    text = TraceText(parse_format(FORMAT + '"%s %u", __get_str(name), REC->flags', "sys"), Runtime())
    data = [raw(name=b"a\0"), raw(name=b"longer\0", flags=7), raw(name=b"")]
    sizes = np.array([len(one) for one in data])
    starts = np.cumsum(sizes) - sizes
    assert text.texts(np.frombuffer(b"".join(data), np.uint8), starts, sizes) == ["a 6", "longer 7", " 6"]


def test_a_source_compiles_each_event_once() -> None:
    source = TraceSource({9: parse_format(FORMAT + '"x"', "sys")}, Runtime())
    assert source.printer(9) is source.printer(9)
    assert source.printer(10) is None


@pytest.mark.parametrize(
    ("data", "letters", "expected"),
    [
        (bytes(15) + b"\x01", "I6c", "::1"),
        (bytes.fromhex("20010db8000000000001000000000001"), "I6c", "2001:db8::1:0:0:1"),
        (bytes.fromhex("00000000000000000000ffff0a000001"), "I6c", "::ffff:10.0.0.1"),
        (bytes(16), "i6", "0" * 32),
        (b"\x02\x00\x00\x50\x0a\x00\x00\x01" + bytes(8), "ISpc", "10.0.0.1:80"),
        (b"\x0a\x00\x01\xbb" + bytes(4) + bytes(15) + b"\x01" + bytes(4), "ISpc", "[::1]:443"),
        (bytes(3), "I4", "INVALIDIPv4"),
        (bytes((1, 2, 3, 4)), "I4h", "4.3.2.1"),
    ],
)
def test_internet_addresses(data: bytes, letters: str, expected: str) -> None:
    from perfpy.views.tracepoints.values import internet_address

    assert internet_address(data, letters, "<") == expected


# Tests of payloads of tracepoints as text, in bulk.


PAYLOAD_FORMAT = """name: example
ID: {number}
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;

\tfield:unsigned short value;\toffset:2;\tsize:2;\tsigned:0;

print fmt: "{word}=%d", REC->value
"""


def payload(number: int, value: int) -> bytes:
    return bytes((number, 0, value, 0))


MIXED = [payload(9, 1), payload(8, 2), payload(7, 3), payload(9, 4), b"", payload(9, 5), payload(9, 6)]
TEXTS = ["nine=1", "eight=2", "", "nine=4", "", "nine=5", "nine=6"]


@pytest.fixture
def words() -> PayloadTexts:
    """Return the texts of two tracepoints, 8 and 9."""
    formats = {
        number: parse_format(PAYLOAD_FORMAT.format(number=number, word=word), "sys", 8) for number, word in ((8, "eight"), (9, "nine"))
    }
    tracing = SimpleNamespace(endian="<", long_size=8, printk_formats={}, warn=lambda _line: None, formats=formats)
    return PayloadTexts(tracing, SimpleNamespace())  # type: ignore[arg-type]


def test_each_payload_has_its_own_tracepoints_text(words: PayloadTexts) -> None:
    assert words.texts(MIXED) == TEXTS


@pytest.mark.parametrize(("limit", "value"), [("_ROWS_AT_ONCE", 1), ("_ROWS_AT_ONCE", 2), ("_BYTES_AT_ONCE", 1), ("_BYTES_AT_ONCE", 9)])
def test_formatting_in_parts_gives_the_same_texts(words: PayloadTexts, monkeypatch: pytest.MonkeyPatch, limit: str, value: int) -> None:
    monkeypatch.setattr(module, limit, value)
    assert words.texts(MIXED) == TEXTS


def test_the_payloads_of_one_tracepoint_are_printed_in_one_call(words: PayloadTexts, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    texts = TraceText.texts

    def counted(self: TraceText, values: np.ndarray, starts: np.ndarray, sizes: np.ndarray) -> list[str]:
        calls.append(len(sizes))
        return texts(self, values, starts, sizes)

    monkeypatch.setattr(TraceText, "texts", counted)
    assert words.texts(MIXED) == TEXTS
    assert sorted(calls) == [1, 4]
