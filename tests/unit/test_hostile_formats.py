"""Formats and print formats that a file could have and no kernel has: bounded in time and memory, told in a line, the rest is printed."""

from __future__ import annotations

import ast
import re
import time
from pathlib import Path

import numpy as np
import pytest

import perfpy
from perfpy.perfdata.event_format import parse_format
from perfpy.perfdata.print_format import PrintFormatLimitError, parse_print_fmt
from perfpy.views.tracepoints.event_text import TraceText
from perfpy.views.tracepoints.values import Runtime
from tests.builders.syntax import nodes_of

SYSTEM = "sys"
FIELDS = """name: evil
ID: 9
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;

\tfield:u64 a;\toffset:8;\tsize:8;\tsigned:0;
\tfield:char s[8];\toffset:16;\tsize:8;\tsigned:0;
\tfield:__data_loc char[] d;\toffset:24;\tsize:4;\tsigned:0;
\tfield:{extra};

print fmt: """
PLAIN = "u32 z;\toffset:28;\tsize:4;\tsigned:0"
RAW = b"\x09\0" + bytes(6) + (7).to_bytes(8, "little") + b"text\0\0\0\0" + (32 | 8 << 16).to_bytes(4, "little") + bytes(4)
LONGEST = 2.0  # seconds of CPU time


def printed(print_fmt: str, *, extra: str = PLAIN, rows: int = 3, data: bytes = b"\x55" * 8) -> tuple[list[str], list[str]]:
    """(texts of some samples, what was warned of)."""
    warnings: list[str] = []
    text = TraceText(
        parse_format(FIELDS.replace("{extra}", extra) + print_fmt, SYSTEM, warn=warnings.append), Runtime(warn=warnings.append)
    )
    raw = RAW + data
    sizes = np.full(rows, len(raw))
    start = time.process_time()
    texts = text.texts(np.frombuffer(raw * rows, np.uint8), np.arange(rows) * len(raw), sizes)
    assert time.process_time() - start < LONGEST
    return texts, warnings


def test_nothing_of_a_file_is_run_as_code() -> None:
    runs = {"eval", "exec", "compile"}
    paths = [
        path for path in sorted(Path(perfpy.__file__).parent.rglob("*.py")) if re.search(r"\b(eval|exec|compile)\s*\(", path.read_text())
    ]
    results = [
        path.name
        for path in paths
        for node in nodes_of(path)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in runs
    ]
    assert results == ["program.py"]  # views/scripting: a program that the user named (script -s)


@pytest.mark.parametrize(
    "extra",
    [
        "char huge[16];\toffset:16;\tsize:4000000000;\tsigned:0",
        "u64 far;\toffset:2000000000;\tsize:8;\tsigned:0",
        "u32 z;\toffset:28;\tsize\x0e4;\tsigned:0",
        "u32 " + "z" * 1000 + ";\toffset:28;\tsize:4;\tsigned:0",
        "u32 z;\toffset:" + "9" * 400 + ";\tsize:4;\tsigned:0",
    ],
)
def test_a_field_that_cannot_be_costs_itself_only(extra: str) -> None:
    texts, warnings = printed('"%d %s %s", REC->a, REC->s, REC->huge', extra=extra)
    assert texts == ["7 text "] * 3
    assert len(warnings) == 1
    assert re.match(r"tracepoint sys:evil: (malformed field|field )", warnings[0])
    assert warnings[0].endswith("; skipped")


def test_a_long_sum_is_computed() -> None:
    assert printed('"%d", ' + "+".join(["REC->a"] * 150))[0] == ["1050"] * 3


@pytest.mark.parametrize(
    "print_fmt",
    [
        '"%s", ' + "".join(f'REC->a == {i} ? "x{i}" : ' for i in range(600)) + '"y"',
        '"%d", ' + "(" * 5000 + "1" + ")" * 5000,
        '"%d", ' + "!" * 5000 + "1",
        '"%d", ' + "+".join(["REC->a"] * 5000),
        '"' + "x" * 70000 + '"',
        '"' + "%s" * 300 + '", ' + ", ".join(["__get_str(d)"] * 300),
        '"' + "%9999d" * 100 + '", ' + ", ".join(["REC->a"] * 100),
        '"%s", __print_flags(REC->a, "|", ' + ", ".join(f'{{ {i}, "n" }}' for i in range(1, 3000)) + ")",
    ],
)
def test_a_print_format_without_bounds_costs_its_own_text_only(print_fmt: str) -> None:
    texts, warnings = printed(print_fmt)
    assert texts == [texts[0]] * 3
    assert texts[0].startswith("[FAILED TO PARSE] a=7 s=text d=UUUUUUUU")
    (warning,) = warnings
    assert warning.startswith("tracepoint sys:evil: ")
    assert warning.endswith("; its samples' fields are shown as they are")


@pytest.mark.parametrize("conversion", ["%99999999999d", "%.99999999d", "%5-3d", "%..3d", "%--*.*d"])
def test_conversions_that_are_none_are_not_tried(conversion: str) -> None:
    assert printed(f'"{conversion}", REC->a')[0][0].startswith("[FAILED TO PARSE]")


def test_widths_from_the_data_have_a_limit() -> None:
    (text,) = printed('"%*d", 2147483647, REC->a', rows=1)[0]
    assert text.strip() == "7"
    assert len(text) < 5000


@pytest.mark.parametrize("number", ["9" * 5000, "0x" + "f" * 5000])
def test_numbers_beyond_64_bits_are_the_largest(number: str) -> None:
    assert printed(f'"%llu", {number}')[0] == ["18446744073709551615"] * 3


def test_places_beyond_the_data_are_nothing() -> None:
    print_fmt = '"%d %d %s", REC->s[4000000000], ((u8 *)__get_dynamic_array(d))[REC->s], __print_array(REC->s, 18446744073709551615, 8)'
    assert printed(print_fmt, data=b"")[0][0].startswith("0 0 {0x74786574")


def test_very_many_cpus_are_listed_quickly() -> None:
    texts, _ = printed('"%s", __get_cpumask(d)', data=b"\x55" * 8)
    assert texts[0] == ",".join(str(bit) for bit in range(0, 64, 2))
    raw = RAW[:24] + (28 | 65000 << 16).to_bytes(4, "little") + b"\x55" * 65000
    text = TraceText(parse_format(FIELDS.replace("{extra}", PLAIN) + '"%s", __get_cpumask(d)', SYSTEM), Runtime())
    start = time.process_time()
    (line,) = text.texts(np.frombuffer(raw, np.uint8), np.zeros(1, np.int64), np.array([len(raw)]))
    assert time.process_time() - start < LONGEST
    assert line.endswith(",519998")


def test_texts_that_are_long_together_are_omitted_at_last() -> None:
    texts, warnings = printed('"' + "x" * 40000 + '%d", REC->a', rows=2000)
    assert texts[0].endswith("x7")
    assert texts[-1] == "[TOO LONG]"
    assert warnings == ["tracepoint sys:evil: very long texts; some are skipped"]


def test_too_deep_expressions_are_distinguished_from_invalid_ones() -> None:
    with pytest.raises(PrintFormatLimitError, match="nested"):
        parse_print_fmt(parse_format(FIELDS.replace("{extra}", PLAIN) + '"%d", ' + "(" * 300, SYSTEM))
