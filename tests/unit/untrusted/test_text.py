"""Names as text that does nothing."""

from __future__ import annotations

import sys
import unicodedata

import pytest

from perfpy.untrusted.text import lines, one_line, one_line_bytes, visible


@pytest.mark.parametrize(
    ("name", "output"),
    [
        ("main", "main"),
        ("größe 漢字 ✓", "größe 漢字 ✓"),
        ("\x1b[31m", "^[[31m"),
        ("\x00\x07\x7f", "^@^G^?"),
        ("a\tb\nc\r", "a^Ib^Jc^M"),
        ("\u0085\u009b5n", "\\x85\\x9b5n"),
        ("\udc9b\udcff", "\\x9b\\xff"),
        ("a\u202eb\u2066\u200b\ufeff\u2028", "a\\u202eb\\u2066\\u200b\\ufeff\\u2028"),
        ("\U000e0041", "\\U000e0041"),
    ],
)
def test_invisible_characters_are_escaped(name: str, output: str) -> None:
    assert visible(name) == output


def test_no_format_characters_remain() -> None:
    """Of all characters: what Unicode calls a control, or an embedding, an override, an isolate or a mark of direction."""
    directions = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI", "BN"}
    remaining = [
        f"U+{code:04X}"
        for code in range(sys.maxunicode + 1)
        if (unicodedata.category(chr(code)) in ("Cc", "Zl", "Zp") or unicodedata.bidirectional(chr(code)) in directions)
        and visible(chr(code)) == chr(code)
        and unicodedata.category(chr(code)) != "Cn"
    ]
    assert remaining == []
    assert not any(chr(code).isprintable() for code in (*range(0x20), *range(0x7F, 0xA0), 0x202E, 0x2066, 0xFEFF))


def test_one_line_escapes_only_line_breaks() -> None:
    assert one_line("a\nb\rc\x1b\t") == "a^Jb^Mc\x1b\t"
    assert one_line_bytes(b"a\nb\rc\x1b\xff") == b"a^Jb^Mc\x1b\xff"
    assert list(lines(["a", "b\nc", ""])) == ["a\n", "b^Jc\n", "\n"]
