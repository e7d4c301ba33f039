"""Values of options with a syntax of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from perfpy.cli.line.filters import convert, parse_names, parse_numbers, parse_pattern, parse_quantum, parse_ranges, parse_widths
from perfpy.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (parse_names, "a,,b", ("a", "b")),
        (parse_names, "", None),
        (parse_numbers, "10,20", (10, 20)),
        (parse_ranges, "0-2,5", (0, 1, 2, 5)),
        (parse_ranges, "", None),
        (parse_pattern, "^a", "^a"),
        (parse_widths, "10,99999", (10, 10_000)),
        (parse_quantum, "3us", 3000),
    ],
)
def test_texts_become_values(parse: Callable[[str], Any], text: str, value: object):
    assert parse(text) == value


@pytest.mark.parametrize(
    ("parse", "text", "message"),
    [
        (parse_names, "file:///no/such", "expects a file with one name per line"),
        (parse_numbers, "1,x", "expects a list of numbers, for example 10,20, not '1,x'"),
        (parse_ranges, "5-2", "expects a list such as 0-2,5"),
        (parse_pattern, "(", "expects a regular expression"),
        (parse_widths, "x", "expects a list of numbers"),
        *((parse_quantum, text, "expects a number with s, ms, us or ns") for text in ("100", "ms", "100sm", "1m")),
    ],
)
def test_a_malformed_text_is_a_usage_error(parse: Callable[[str], Any], text: str, message: str):
    with pytest.raises(UsageError, match=f"option --x {message}"):
        convert("--x", text, parse)


def test_a_file_lists_one_name_per_line(tmp_path: Path):
    (tmp_path / "names").write_text("one\ntwo words\n")
    assert parse_names(f"a,file://{tmp_path}/names") == ("a", "one", "two words")
