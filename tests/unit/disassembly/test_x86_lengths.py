"""Lengths of x86's instructions."""

from __future__ import annotations

import pytest

from perfpy.disassembly.x86_lengths import always_elsewhere, length

#: bytes of one instruction each, of 64-bit code
INSTRUCTIONS = [
    "c3", "c2 08 00", "55", "41 54", "48 89 e5", "e8 a9 ff ff ff", "75 f3", "0f 84 2c 01 00 00", "eb fe", "ff 25 e2 2f 00 00",
    "48 ba 67 66 66 66 66 66 66 66", "66 b8 01 00", "48 c7 c0 01 00 00 00", "66 c7 07 01 00", "f6 07 01", "f6 d8", "f7 07 01 00 00 00",
    "66 f7 07 01 00", "48 8b 0c 25 10 00 00 00", "48 8b 84 24 10 01 00 00", "66 66 2e 0f 1f 84 00 00 00 00 00", "c8 10 00 00",
    "48 a1 01 02 03 04 05 06 07 08", "67 a1 01 02 03 04", "0f 05", "66 0f 3a 0f c1 08", "66 0f 38 00 c1", "c5 f8 77", "c5 fd 6f 07",
    "c4 e2 7d 18 07", "c4 e3 7d 19 c1 01", "62 f1 fe 48 6f 47 01", "62 f3 f5 48 25 c9 ff", "8f e9 78 81 c1", "8f 07", "f3 0f 1e fa",
    "66 0f 78 c1 02 03", "f2 0f 70 c1 1b", "0f 77", "0f c8", "6b c0 0a", "69 c0 e8 03 00 00", "d9 07", "dd d8", "e2 fe", "cd 80", "c9",
]  # fmt: skip


@pytest.mark.parametrize("text", INSTRUCTIONS)
def test_lengths(text: str) -> None:
    code = bytes.fromhex(text)
    assert length(code + b"\x90" * 20) == len(code)
    assert length(code) == len(code)
    assert length(code[:-1]) == 0


@pytest.mark.parametrize(
    ("text", "size"),
    [("40", 1), ("c5 07", 2), ("62 07", 2), ("67 8b 06 34 12", 5), ("9a 01 02 03 04 05 06", 7), ("a1 01 02 03 04", 5)],
)
def test_code_of_32_bits(text: str, size: int) -> None:
    assert length(bytes.fromhex(text) + b"\x90" * 20, bits=32) == size


def test_no_instruction_is_longer_than_fifteen_bytes() -> None:
    assert length(b"\x66" * 13 + b"\x50\x90") == 14
    assert length(b"\x66" * 15 + b"\x50") == 0
    assert length(b"") == 0


@pytest.mark.parametrize(
    ("text", "elsewhere"),
    [
        ("c3", True), ("e8 00 00 00 00", True), ("eb fe", True), ("ff e0", True), ("ff d0", True), ("ff 30", False), ("75 f3", False),
        ("0f 05", True), ("0f 84 00 00 00 00", False), ("e2 fe", False), ("90", False), ("c5 f8 77", False), ("", False), ("ff", False),
    ],
)  # fmt: skip
def test_instructions_never_followed_by_the_next(text: str, elsewhere: bool) -> None:
    assert always_elsewhere(bytes.fromhex(text)) is elsewhere
