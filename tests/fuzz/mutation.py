"""Damage that knows nothing of formats, or only that something is text or has numbers in it.

Input: bytes and a generator of random numbers. Output: other bytes,
the same ones for the same numbers.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

_Order: TypeAlias = Literal["little", "big"]
_ORDERS: tuple[_Order, ...] = ("little", "little", "big")
BOUNDARIES = (
    *range(10), 15, 16, 17, 24, 31, 32, 63, 64, 65, 0x7F, 0x80, 0xFF, 0x100, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0xFFFFF, 1 << 24,
    *((1 << bits) + off for bits in (31, 32, 40, 47, 48, 62, 63, 64) for off in (-8, -1, 0, 1)),
)  # fmt: skip


def _doubling_cxx(levels: int) -> bytes:
    """A pair of pairs of pairs ... : each level names the one before twice."""
    name, digits = b"_Z1fSt4pairIiiE", b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    for level in range(levels):
        name += b"S_IS%c_S%c_E" % (digits[level], digits[level])
    return name


def _doubling_rust(levels: int) -> bytes:
    """The same of tuples; places in the name are counted in base 62, behind _R, less one."""
    name, digits = b"_RINvC1a1fTmmE", b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    before = len(b"_RINvC1a1f") - 2
    for _ in range(levels):
        here = len(name) - 2
        number = before - 1
        place = (bytes((digits[number // 62],)) if number > 61 else b"") + bytes((digits[number % 62],))
        name += b"TB%s_B%s_E" % (place, place)
        before = here
    return name + b"E"


#: what has gone wrong elsewhere: paths, escapes, formats, names that grow when they are demangled, nests
EVIL = (
    b"", b"\0", b"\n", b"/", b"..", b"../../../../evil", b"/proc/self/cwd/fifo", b"/dev/zero", b"/proc/self/mem",
    b"\x1b]0;title\x07\x1b[2J", b"\xff\xfe\x80", "\u202e\u2028".encode(), b"%s%n%*d%99999999d", b"A" * 300, b"B" * 5000, b"//anon",
    b"[vdso]", b"[kernel.kallsyms]_text", b"(deleted)", b"-1", b"1e999", b"nan", b"0x", b"18446744073709551616", b"9" * 40, b"9" * 5000,
    b"/tmp/perf-" + b"9" * 5000 + b".map", b"/proc/" + b"9" * 5000 + b"/root/x", b"\xc2\xb2",
    b"_ZN3fooIiE3barEv", b"_Z" + b"1aIN" * 40, _doubling_cxx(30), _doubling_cxx(12), _doubling_rust(40), _doubling_rust(12),
    b"_Z" + b"P" * 20000 + b"i", b"_Z1fIJ" + b"RS_" * 30, b"_RNvC" + b"1a" * 60, b"_ZN" + b"1a" * 200 + b"E",
    b"_RNvMNtCs" + b"INtB2_" * 40, b"java_lang_String_x__", b"caml" * 20, b";", b"{", b"}", b'"', b"'", b"\\", b"=", b",", b"#",
)  # fmt: skip
#: pieces of print formats and configuration files
WORDS = (
    b"REC->x", b"__print_flags(REC->x, \"|\", {1, \"a\"})", b"__print_symbolic(REC->x, {0, \"a\"})", b"__get_str(x)",
    b"__get_dynamic_array(x)", b"__print_hex(REC->x, 99999999)", b"__print_array(REC->x, 9, 0)", b"sizeof(", b"(unsigned long)", b"?",
    b":", b"<<", b">>", b"/ 0", b"% 0", b"1 << 99999999", b"%p", b"%pS", b"%*s", b"%.*s", b"%-999999s", b"%llx", b"__data_loc char[] x",
    b"__rel_loc char[] x", b"offset:-1;", b"offset:4294967295;", b"size:4294967295;", b"size:0;", b"[99999999]", b"[1 << 30]", b"[core]",
    b"[report \"x\"]", b"sort-order = ", b"[include]", b"percent-limit = 1e999", b"children = maybe", b"dir = /", b"((((", b"))))", b"&&",
    b"||", b"!~-", b"\"\"", b"REC->x[REC->x]", b"%",
)  # fmt: skip
NESTS = (
    (b"(", b")"), (b"[", b"]"), (b"{", b"}"), (b"!", b""), (b"1 ? 1 : ", b""), (b"1 + ", b""), (b"~", b""), (b"REC->x[", b"]"),
    (b"(int)", b""),
)  # fmt: skip
_LARGEST = 400_000  # bytes: what is larger costs time and shows nothing new


def boundary(value: int, width: int, size: int, rng: random.Random) -> int:
    """A number that is likely to be trouble in place of another, of so many bytes, in a file of so many."""
    near = (value - 1, value + 1, value * 2, value ^ 1 << rng.randrange(8 * width), -value, size, size - 1, size + 1, size - value)
    return (rng.choice(near) if rng.random() < 0.4 else rng.choice(BOUNDARIES)) & ((1 << 8 * width) - 1)


def _flip(data: bytearray, rng: random.Random) -> None:
    for _ in range(rng.choice((1, 1, 2, 8))):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _number(data: bytearray, rng: random.Random) -> None:
    width = rng.choice((1, 2, 4, 8))
    at = rng.randrange(len(data)) // width * width
    old = data[at : at + width]
    order = rng.choice(_ORDERS)
    data[at : at + len(old)] = boundary(int.from_bytes(old, order), len(old), len(data), rng).to_bytes(len(old), order)


def _cut(data: bytearray, rng: random.Random) -> None:
    del data[rng.randrange(len(data)) :]


def _remove(data: bytearray, rng: random.Random) -> None:
    start, end = _slice(data, rng)
    del data[start:end]


def _repeat(data: bytearray, rng: random.Random) -> None:
    start, end = _slice(data, rng)
    data[start:start] = bytes(data[start:end]) * rng.choice((1, 1, 2, 16))


def _move(data: bytearray, rng: random.Random) -> None:
    start, end = _slice(data, rng)
    piece = bytes(data[start:end])
    at = rng.randrange(len(data))
    data[at : at + len(piece)] = piece


def _insert(data: bytearray, rng: random.Random) -> None:
    at = rng.randrange(len(data) + 1)
    data[at:at] = rng.choice((rng.choice(EVIL), rng.randbytes(rng.choice((1, 7, 8, 64))), bytes(rng.choice((1, 8, 4096)))))


def _write(data: bytearray, rng: random.Random) -> None:
    at = rng.randrange(len(data))
    word = rng.choice(EVIL)[: len(data) - at]
    data[at : at + len(word)] = word


def _slice(data: bytearray, rng: random.Random) -> tuple[int, int]:
    start = rng.randrange(len(data))
    return start, min(start + rng.choice((1, 4, 8, 16, 40, 104, 1024)), len(data))


_OF_BYTES: tuple[Callable[[bytearray, random.Random], None], ...] = (
    _flip, _flip, _number, _number, _number, _cut, _remove, _repeat, _move, _insert, _write,
)  # fmt: skip


def damaged(data: bytes, rng: random.Random) -> bytes:
    """Bytes damaged once or a few times, whatever they mean."""
    copy = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        if copy:
            rng.choice(_OF_BYTES)(copy, rng)
    return bytes(copy[:_LARGEST])


def with_fields(data: bytes, fields: Sequence[tuple[int, int]], endian: str, rng: random.Random) -> bytes:
    """Some of the numbers at (offset, width) changed, if there are any."""
    if not fields:
        return data
    copy = bytearray(data)
    order: _Order = "little" if endian == "<" else "big"
    for _ in range(rng.choice((1, 1, 2, 3))):
        at, width = rng.choice(fields)
        old = int.from_bytes(copy[at : at + width], order)
        if at + width <= len(copy):
            copy[at : at + width] = boundary(old, width, len(copy), rng).to_bytes(width, order)
    return bytes(copy)


_NUMBERS = re.compile(rb"(?:0x)?[0-9a-fA-F]*[0-9][0-9a-fA-F]*")
_WORD = re.compile(rb"[A-Za-z_]\w*")


def damaged_text(text: bytes, rng: random.Random) -> bytes:
    """A text whose numbers, words and lines were changed."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        text = rng.choice(_OF_TEXT)(text, rng)[:_LARGEST]
    return text if rng.random() < 0.9 else damaged(text, rng)


def _other_number(text: bytes, rng: random.Random) -> bytes:
    code = rng.choice((b"%d", b"%x", b"0x%x", b"-%d"))
    return _replaced(text, _NUMBERS, code % rng.choice(BOUNDARIES), rng)


def _other_word(text: bytes, rng: random.Random) -> bytes:
    return _replaced(text, _WORD, rng.choice((*EVIL, *WORDS)), rng)


def _replaced(text: bytes, pattern: re.Pattern[bytes], by: bytes, rng: random.Random) -> bytes:
    result = list(pattern.finditer(text))
    if not result:
        return text + by
    one = rng.choice(result)
    return text[: one.start()] + by + text[one.end() :]


def _inserted_word(text: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(text) + 1)
    return text[:at] + rng.choice((*EVIL, *WORDS)) + text[at:]


def _nested(text: bytes, rng: random.Random) -> bytes:
    result = list(_WORD.finditer(text)) or list(re.finditer(b"", text))
    one = rng.choice(result)
    before, after = rng.choice(NESTS)
    times = rng.choice((2, 30, 200, 3000, 20000))
    return text[: one.start()] + before * times + one[0] + after * times + text[one.end() :]


def _other_lines(text: bytes, rng: random.Random) -> bytes:
    lines = text.split(b"\n")
    at = rng.randrange(len(lines))
    kind = rng.randrange(4)
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines[at:at] = [lines[at]] * rng.choice((1, 2, 50, 2000))
    elif kind == 2:
        other = rng.randrange(len(lines))
        lines[at], lines[other] = lines[other], lines[at]
    else:
        lines[at] = lines[at].replace(b" ", b"", 1)
    return b"\n".join(lines)


_OF_TEXT: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    _other_number, _other_number, _other_word, _inserted_word, _inserted_word, _nested, _other_lines, damaged,
)  # fmt: skip
