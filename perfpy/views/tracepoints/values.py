"""The text of single values of tracepoints: strings, masks, flags, addresses, functions.

Texts are those of perf's library, as latin-1 strings: each character is a byte of the data.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import numpy as np

from perfpy.perfdata.print_format import PrintFormatLimitError, number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import TypeAlias

    from perfpy.perfdata.print_format import Flags, Symbolic

    FunctionResolver: TypeAlias = Callable[[int], tuple[str, int] | None]

_Key = TypeVar("_Key")

_CODES: Final = {1: "B", 2: "H", 4: "I", 8: "Q"}
_CACHE_LIMIT: Final = 1 << 14
_CACHED_SIZE: Final = 512  # bytes; longer values rarely repeat
_MOST_FLAGS: Final = 1024
_ALL: Final = (1 << 64) - 1
#: names that some formats contain instead of their numbers
_KNOWN_NAMES: Final = {
    "HI_SOFTIRQ": 0, "TIMER_SOFTIRQ": 1, "NET_TX_SOFTIRQ": 2, "NET_RX_SOFTIRQ": 3, "BLOCK_SOFTIRQ": 4, "IRQ_POLL_SOFTIRQ": 5,
    "TASKLET_SOFTIRQ": 6, "SCHED_SOFTIRQ": 7, "HRTIMER_SOFTIRQ": 8, "RCU_SOFTIRQ": 9, "HRTIMER_NORESTART": 0, "HRTIMER_RESTART": 1,
}  # fmt: skip


class Words(dict[_Key, str], Generic[_Key]):
    """A bounded cache of the texts of values."""

    def __init__(self, make: Callable[[_Key], str]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, value: _Key) -> str:
        text = self._make(value)
        if len(text) <= _CACHED_SIZE and not (isinstance(value, bytes) and len(value) > _CACHED_SIZE):
            if len(self) > _CACHE_LIMIT:
                self.clear()
            self[value] = text
        return text


class Runtime:
    """The state that the tracepoints of a file share: byte order, kernel symbols and strings, cached texts.

    Args:
        warn: gets one line about omitted text and the reason
    """

    def __init__(
        self,
        endian: str = "<",
        long_size: int = 8,
        resolve: FunctionResolver | None = None,
        strings: Mapping[int, str] | None = None,
        warn: Callable[[str], None] = lambda _line: None,
    ) -> None:
        """Set the state; `strings`: the kernel's format strings by address (printk_formats), with surrogate escapes."""
        self.endian = endian
        self.long_size = long_size
        self.warn = warn
        self._resolve = resolve
        self._strings = strings or {}
        self.strings: Words[bytes] = Words(c_string)
        self.functions: Words[int] = Words(self._function)
        self.symbol_offsets: Words[int] = Words(self._symbol_offset)
        self.bitmasks: Words[bytes] = Words(lambda data: _bitmask(self._highest_first(data)))
        self.cpumasks: Words[bytes] = Words(lambda data: _cpumask(self._highest_first(data)[::-1]))

    def _highest_first(self, mask: bytes) -> bytes:
        return mask if self.endian == ">" else mask[::-1]

    def kernel_string(self, address: int) -> str:
        """Return the string at a kernel address."""
        string = self._strings.get(address)
        return f"{address:x}" if string is None else latin(string)

    def _function(self, address: int) -> str:
        """Return the kernel function at an address, or the address."""
        function = self._resolve(address) if self._resolve else None
        return function[0] if function else f"0x{address:x}"

    def _symbol_offset(self, address: int) -> str:
        """Return the kernel function at an address with the offset, or the address."""
        function = self._resolve(address) if self._resolve else None
        return f"{function[0]}+0x{address - function[1]:x}" if function else f"0x{address:x}"

    def read(self, raw: bytes, offset: int, size: int) -> int:
        """Return the unsigned number at an offset; 0 if it exceeds the data or its size is invalid."""
        code = _CODES.get(size)
        if code is None or offset + size > len(raw):
            return 0
        value: int = struct.unpack_from(self.endian + code, raw, offset)[0]
        return value

    def address(self, data: bytes, suffix: str) -> str:
        """Return the text of %pI4, %pi4, %pI6, %pi6, %pI6c, %pIS and their further letters."""
        return internet_address(data, suffix, self.endian)


def latin(text: str) -> str:
    """Encode a text as UTF-8 with surrogate escapes, one character for each byte."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("latin-1")


# strings and masks


def c_string(data: bytes) -> str:
    """Return the text up to the first NUL."""
    return data.partition(b"\0")[0].decode("latin-1")


def _bitmask(data: bytes) -> str:
    """Return a bit mask as hexadecimal words of 32 bits, highest bits first."""
    return ",".join(data[max(i - 4, 0) : i].hex() for i in range(len(data) % 4 or 4, len(data) + 1, 4)) if data else ""


def _cpumask(data: bytes) -> str:
    """Return a bit mask as a list of ranges."""
    bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
    edges = np.flatnonzero(np.diff(bits, prepend=np.uint8(0), append=np.uint8(0))).tolist()
    return ",".join([str(first) if end == first + 1 else f"{first}-{end - 1}" for first, end in zip(edges[::2], edges[1::2], strict=True)])


def hexadecimal(data: bytes, delimiter: str) -> str:
    """Return two digits for each byte."""
    return data.hex(delimiter) if delimiter else data.hex()


def number_array(data: bytes, count: int, size: int) -> str:
    """Return {0x1,0x2}. perf reads the elements in the byte order of its host, so this reads them as little-endian.

    Args:
        data: from the array's start to the end of the sample
    """
    if size not in _CODES:
        return "{" + ",".join(f"BAD SIZE:{size} 0x{byte:x}" for byte in data[:count]) + "}"
    data = data[: count * size]
    return "{" + ",".join(f"0x{int.from_bytes(data[i : i + size], 'little'):x}" for i in range(0, len(data), size)) + "}"


# names of values


def flag_words(tree: Flags) -> Callable[[int, str, tuple[int, ...]], str]:
    """Return a function that names the bits of a value: (value, the names' conversion, the width if it is in the data) -> text."""
    names = _distinct_masks((_name_value(value), name) for value, name in tree.names)
    if len(names) > _MOST_FLAGS:
        raise PrintFormatLimitError(f"{len(names)} flags, of 64 bits")

    def text(value: int, python: str, width: tuple[int, ...]) -> str:
        parts: list[str] = []
        for mask, name in names:
            if not value and mask < 0:
                parts.append(python % (*width, name))
                break
            if mask > 0 and value & mask == mask:
                parts.append((tree.delimiter if parts else "") + python % (*width, name))
                value &= ~mask
        if value:
            parts.append((tree.delimiter if parts else "") + f"0x{value:x}")
        return "".join(parts)

    return text


def _distinct_masks(names: Iterable[tuple[int, str]]) -> list[tuple[int, str]]:
    """Return the first name of each mask: further names for its bits are never used."""
    first: dict[int, str] = {}
    for mask, name in names:
        first.setdefault(mask, name)
    return list(first.items())


def symbol_words(tree: Symbolic) -> Callable[[int, str, tuple[int, ...]], str]:
    """Return a function that names a value: (value, the name's conversion, the width if it is in the data) -> text."""
    names: dict[int, str] = {}
    for value, name in tree.names:
        names.setdefault(_name_value(value) & _ALL, name)

    def text(value: int, python: str, width: tuple[int, ...]) -> str:
        name = names.get(value)
        return f"0x{value:x}" if name is None else python % (*width, name)

    return text


def _name_value(text: str) -> int:
    """Return the number in the text of a flag or symbol; -1 for an unknown name."""
    return number(text) if text[:1].isdigit() else _KNOWN_NAMES.get(text, -1)


# numbers, pointers and what follows %p


def alternate(python: str, values: tuple[int, ...]) -> str:
    """Adjust a conversion with C's '#' flag: no prefix for 0, and a single 0 before octal digits."""
    if not values[-1] or python[-1] not in "xX":
        python = python.replace("#", "")
        return (python % values).replace(" 0", "00") if values[-1] and python[-1] == "o" else python % values
    return python % values


def pointer(value: int) -> str:
    """Return the text of %p in the C library."""
    return f"0x{value:x}" if value else "(nil)"


def mac(data: bytes, suffix: str) -> str:
    """Return the text of %pM, %pm, %pMF, %pMR or %pmR for six bytes."""
    if suffix[1:] == "R":
        data = data[::-1]
    return data.hex() if suffix[0] == "m" else data.hex("-" if suffix[1:] == "F" else ":")


def uuid(d: bytes, suffix: str) -> str:
    """Return the text of %pUb, %pUB, %pUl or %pUL for sixteen bytes."""
    if suffix[1:] in ("l", "L"):
        d = d[3::-1] + d[5:3:-1] + d[7:5:-1] + d[8:]
    text = "-".join(part.hex() for part in (d[:4], d[4:6], d[6:8], d[8:10], d[10:]))
    return text.upper() if suffix[1:] in ("L", "B") else text


def dump(data: bytes, suffix: str) -> str:
    """Return the text of %ph, %phC, %phD or %phN."""
    return hexadecimal(data, {"C": ":", "D": "-", "N": ""}.get(suffix[1:], " "))


_AF_INET = 2
_AF_INET6 = 10


def internet_address(data: bytes, suffix: str, endian: str) -> str:
    """Return the text of an address.

    Args:
        data: the field
        suffix: I or i, then 4, 6 or S, then further letters
        endian: the byte order of the recorded machine
    """
    kind, version, letters = suffix[0], suffix[1:2], suffix[2:]
    if version == "4":
        return _v4(data, kind, _is_reversed(letters, endian)) if len(data) == 4 else "INVALIDIPv4"
    if version == "6":
        return _v6(data, kind, letters == "c") if len(data) == 16 else "INVALIDIPv6"
    return _socket_address(data, kind, letters, endian) if version == "S" else ""


def _is_reversed(letters: str, endian: str) -> bool:
    """Whether the bytes are reversed. h: the recorded host's order; l: little-endian; n, b or none: network order."""
    return letters[:1] == "l" or (letters[:1] == "h" and endian == "<")


def _v4(data: bytes, kind: str, is_reversed: bool) -> str:
    parts = data[::-1] if is_reversed else data
    return ".".join(f"{part:03d}" if kind == "i" else str(part) for part in parts)


def _v6(data: bytes, kind: str, is_short: bool) -> str:
    if is_short and kind == "I":
        return _short_v6(data)
    return data.hex(":", 2) if kind == "I" else data.hex()


def _short_v6(data: bytes) -> str:
    """Omit the longest run of at least two zero words; the first one if several are equally long."""
    words = [int.from_bytes(data[i : i + 2], "big") for i in range(0, 16, 2)]
    is_mapped = data[:10] == bytes(10) and words[5] == 0xFFFF
    is_isatap = data[8] | 2 == 2 and data[9:12] == b"\x00\x5e\xfe"
    tail = ""
    if is_mapped or is_isatap:
        tail = _v4(data[12:], "I", False)
        words = words[:6]
    run, start = _longest_run(words)
    if run < 2:
        return ":".join([f"{word:x}" for word in words] + ([tail] if tail else []))
    head = ":".join(f"{word:x}" for word in words[:start])
    rest = ":".join([f"{word:x}" for word in words[start + run :]] + ([tail] if tail else []))
    return f"{head}::{rest}"


def _longest_run(words: list[int]) -> tuple[int, int]:
    """Return the length and start of the first of the longest runs of zeros."""
    best = (0, 0)
    for start in range(len(words)):
        length = 0
        while start + length < len(words) and not words[start + length]:
            length += 1
        if length > best[0]:
            best = (length, start)
    return best


def _socket_address(data: bytes, kind: str, letters: str, endian: str) -> str:
    """Return the text of a struct sockaddr_in or sockaddr_in6, with its port if the letters contain `p`."""
    with_port = kind == "I" and letters[:1] == "p"
    rest = letters[1:] if with_port else letters
    is_short = kind == "I" and rest[:1] == "c"
    # perf reads the family in the byte order of the reading host
    family = int.from_bytes(data[:2], "little")
    port = int.from_bytes(data[2:4], "big")
    if family == _AF_INET:
        if len(data) < 16:
            return "INVALIDIPv4"
        return _v4(data[4:8], kind, _is_reversed(rest[1:] if is_short else rest, endian)) + (f":{port}" if with_port else "")
    if family == _AF_INET6:
        if len(data) < 28:
            return "INVALIDIPv6"
        text = _v6(data[8:24], kind, is_short)
        return f"[{text}]:{port}" if with_port else text
    return ""
