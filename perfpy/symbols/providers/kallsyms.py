r"""Read /proc/kallsyms: symbols of the kernel and of each module, as columns sorted by address.

Lines have the form `ADDRESS TYPE NAME[\t[MODULE]]` (kernel/kallsyms.c).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.symbols.symbol_table import STB_GLOBAL, STB_LOCAL, STB_WEAK, STT_FUNC, STT_OBJECT, Symbols, SymbolTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NEWLINE, _TAB, _BRACKET, _DOLLAR = (ord(character) for character in "\n\t]$")
_LOWER: Final = 0x20
_PAGE: Final = np.uint64(4096)
_DIGITS: Final = np.full(256, 255, np.uint8)  # character -> value of the hexadecimal digit
_DIGITS[np.frombuffer(b"0123456789abcdefABCDEF", np.uint8)] = [*range(16), *range(10, 16)]
_WORD: Final = 8  # bytes
_DIGITS_MOST: Final = 16  # digits of an address
_CODE_OR_DATA: Final = np.frombuffer(b"TWDB", np.uint8)
_CODE: Final = np.frombuffer(b"TW", np.uint8)


class Kallsyms:
    """Kernel symbols, sorted by address; each ends at the next.

    The last one before another module (or the kernel) ends at the end of the page after it.

    Attributes:
        symbols: the symbols.
        module: index into module_names, -1 for the kernel itself.
        module_names: in brackets.
    """

    def __init__(self, symbols: Symbols, module: NDArray[np.int32], module_names: list[str]) -> None:
        self.symbols = symbols
        self.module = module
        self.module_names = module_names

    @property
    def is_restricted(self) -> bool:
        """Whether the kernel hid all addresses (kptr_restrict, or no CAP_SYSLOG)."""
        return not self.symbols.start[-1:].any()

    def address_of(self, name: str) -> int | None:
        """Return the address of the first function with a name in the kernel itself, None without one."""
        text = bytes(self.symbols.sources[0])
        encoded_name = name.encode("utf-8", "surrogateescape") + b"\0"
        offsets = []
        offset = text.find(encoded_name) if name else -1
        while offset >= 0:
            # Without a separator before it, the match is the end of a longer name.
            if text[max(offset - 1, 0) : offset] in (b"", b" ", b"\0"):
                offsets.append(offset)
            offset = text.find(encoded_name, offset + 1)
        rows = np.flatnonzero(np.isin(self.symbols.name, offsets) & (self.symbols.type == STT_FUNC))
        if not len(rows):
            return None
        return int(self.symbols.start[rows[np.argmin(self.symbols.name[rows])]])  # the first in the text

    def is_at(self, name: str, address: int) -> bool:
        """Whether a function with a name starts at an address; much faster than address_of."""
        first, last = (int(np.searchsorted(self.symbols.start, np.uint64(address), side)) for side in ("left", "right"))
        table = SymbolTable(self.symbols)
        encoded_name = name.encode("utf-8", "surrogateescape")
        return any(self.symbols.type[row] == STT_FUNC and table.raw_name(row) == encoded_name for row in range(first, last))

    def of_module(self, number: int) -> Symbols:
        """Return the symbols of one module, or of the kernel itself (-1)."""
        rows = np.flatnonzero(self.module == number)
        together = len(rows) and int(rows[-1]) - int(rows[0]) == len(rows) - 1
        return self.symbols.pick(slice(int(rows[0]), int(rows[-1]) + 1) if together else rows)

    def compact(self) -> Kallsyms:
        """Return a copy without the parts of the text that are not names."""
        text = np.frombuffer(self.symbols.sources[0], np.uint8)
        ends = np.flatnonzero(text == 0)
        length = ends[np.searchsorted(ends, self.symbols.name)] + 1 - self.symbols.name
        start = np.cumsum(length) - length
        index = np.arange(int(length.sum())) + np.repeat(self.symbols.name - start, length)
        return Kallsyms(self.symbols.with_columns(name=start, sources=(text[index].tobytes(),)), self.module, self.module_names)


def parse(text: bytes) -> Kallsyms:
    """Parse the text of /proc/kallsyms. Malformed lines are skipped."""
    data = np.frombuffer(text + b"\n" if text and text[-1] != _NEWLINE else text, np.uint8)
    line_end = np.flatnonzero(data == _NEWLINE)
    line = np.append(0, line_end[:-1] + 1) if len(line_end) else line_end
    digits = max(text.find(b" ", 0, _DIGITS_MOST + 1), 0)
    regular = line_end - line > digits + 3
    line, line_end = line[regular], line_end[regular]
    letter = data[line + digits + 1]
    name = line + digits + 3
    is_wanted = np.isin(letter & ~np.uint8(_LOWER), _CODE_OR_DATA) & (data[name] != _DOLLAR)
    is_wanted &= (data[line + digits] == ord(" ")) & (data[name - 1] == ord(" "))
    line, line_end, letter, name = line[is_wanted], line_end[is_wanted], letter[is_wanted], name[is_wanted]
    start, valid = _hexadecimal(data, line, digits)
    line_end, letter, name, start = line_end[valid], letter[valid], name[valid], start[valid]
    upper = letter & ~np.uint8(_LOWER)
    binding = np.where(upper == ord("W"), STB_WEAK, np.where(letter == upper, STB_GLOBAL, STB_LOCAL)).astype(np.uint8)
    symbols = Symbols(
        start=start,
        end=start,
        binding=binding,
        type=np.where(np.isin(upper, _CODE), STT_FUNC, STT_OBJECT).astype(np.uint8),
        name=name,
        source=np.zeros(len(name), np.uint8),
        sources=(data.tobytes().replace(b"\n", b"\0").replace(b"\t", b"\0"),),
    )
    order = np.argsort(start, kind="stable")
    module, names = _number_modules(symbols.sources[0], _modules(data, name, line_end)[order])
    closed = symbols.pick(order).close()
    border = np.flatnonzero(module[1:] != module[:-1])
    closed.end[border] = (closed.start[border] + _PAGE + _PAGE - np.uint64(1)) // _PAGE * _PAGE
    return Kallsyms(closed, module, names)


def _hexadecimal(data: NDArray[np.uint8], line: NDArray[np.int64], digits: int) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """Parse the numbers at the start of lines; also return which of them are valid."""
    value, valid = np.zeros(len(line), np.uint64), np.ones(len(line), np.bool_)
    full_words = digits - digits % _WORD
    if full_words:
        words: NDArray[np.uint64] = np.ndarray(len(data) - _WORD + 1, "<u8", data, strides=(1,))  # a word at every byte
        for column in range(0, full_words, _WORD):
            number, good = _eight_digits(words[line + column].astype(np.uint64, copy=False))
            valid &= good
            value = value << np.uint64(4 * _WORD) | number
    for column in range(full_words, digits):
        digit = _DIGITS[data[line + column]]
        valid &= digit < 16
        value = value << np.uint64(4) | digit.astype(np.uint64)
    return value, valid


def _eight_digits(word: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """Parse eight hexadecimal characters per word (the first in the lowest byte) in parallel; also return which are valid."""
    high = _each(0x80)
    letter = word | _each(0x20)
    # Bytes below 0x80 do not carry over into the next byte.
    is_digit = (word + _each(0x80 - ord("0"))) & ~(word + _each(0x80 - ord("9") - 1))
    is_letter = (letter + _each(0x80 - ord("a"))) & ~(letter + _each(0x80 - ord("f") - 1))
    valid = ((is_digit | is_letter) & ~word & high) == high
    value = (word & _each(0x0F)) + (word >> np.uint64(6) & _each(1)) * np.uint64(9)
    for bits, mask in (4, 0x00FF00FF00FF00FF), (8, 0x0000FFFF0000FFFF), (16, 0xFFFFFFFF):
        value = (value << np.uint64(bits) | value >> np.uint64(2 * bits)) & np.uint64(mask)
    return value, valid


def _each(byte: int) -> np.uint64:
    """Return a word that repeats a byte eight times."""
    return np.uint64(byte * 0x0101010101010101)


def _modules(data: NDArray[np.uint8], name: NDArray[np.int64], line_end: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the offset of the module's "[" on each line that ends with "]", -1 on other lines."""
    module = np.full(len(name), -1, np.int64)
    rows = np.flatnonzero(data[line_end - 1] == _BRACKET)
    tabs = np.flatnonzero(data == _TAB) if len(rows) else rows
    if len(tabs):
        tab = tabs[np.maximum(np.searchsorted(tabs, line_end[rows]) - 1, 0)]
        inside = (tab > name[rows]) & (tab < line_end[rows])
        module[rows[inside]] = tab[inside] + 1
    return module


def _number_modules(text: bytes | memoryview, module: NDArray[np.int64]) -> tuple[NDArray[np.int32], list[str]]:
    """Convert the offsets of modules' names to indices (-1 without a module) and the list of names."""
    numbers: dict[bytes, int] = {}
    result = np.full(len(module), -1, np.int32)
    rows = np.flatnonzero(module >= 0)
    text_bytes = bytes(text)
    result[rows] = [
        numbers.setdefault(text_bytes[offset : text_bytes.find(b"\0", offset)], len(numbers)) for offset in module[rows].tolist()
    ]
    return result, [name.decode("utf-8", "surrogateescape") for name in numbers]
