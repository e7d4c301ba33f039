r"""/proc/kallsyms and copies of it -> symbols of the kernel and of each module.

What enters: the text, lines of `ADDRESS TYPE NAME[\t[MODULE]]` (kernel/kallsyms.c).
What leaves: `Kallsyms`, columns of what is code or data, in the file's order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.abi.columns import distinct
from perfpy.symbols.symbol_table import STB_GLOBAL, STB_LOCAL, STB_WEAK, STT_FUNC, Symbols

if TYPE_CHECKING:
    from numpy.typing import NDArray

_STT_OBJECT: Final = 1
_NEWLINE, _TAB, _BRACKET, _DOLLAR = (ord(character) for character in "\n\t]$")
_LOWER: Final = 0x20
_PAGE: Final = np.uint64(4096)
_DIGITS: Final = np.full(256, 255, np.uint8)  # character -> the value of a hexadecimal digit
_DIGITS[np.frombuffer(b"0123456789abcdefABCDEF", np.uint8)] = [*range(16), *range(10, 16)]
_CODE_OR_DATA: Final = np.frombuffer(b"TWDB", np.uint8)
_CODE: Final = np.frombuffer(b"TW", np.uint8)


@dataclass(frozen=True)
class Kallsyms:
    """The symbols in the file's order; `module` is the offset of "[name]" in the text, -1 in the kernel itself."""

    symbols: Symbols
    module: NDArray[np.int64]

    @property
    def restricted(self) -> bool:
        """Whether the kernel hid all addresses (kptr_restrict, or no CAP_SYSLOG)."""
        return not self.symbols.start.any()

    def address_of(self, name: str) -> int | None:
        """The address of the first function of that name in the kernel itself."""
        text = bytes(self.symbols.sources[0])
        wanted = name.encode("utf-8", "surrogateescape") + b"\0"
        code = self.symbols.type == STT_FUNC
        at = text.find(wanted)
        while at >= 0:
            # the end of a longer name, if nothing separates it from what is before
            if text[max(at - 1, 0) : at] in (b"", b" ", b"\0"):
                row = np.flatnonzero((self.symbols.name == at) & code)
                if len(row):
                    return int(self.symbols.start[row[0]])
            at = text.find(wanted, at + 1)
        return None

    def compact(self) -> Kallsyms:
        """The same without the parts of the text that are no names."""
        text = np.frombuffer(self.symbols.sources[0], np.uint8)
        ends = np.flatnonzero(text == 0)
        last = np.where(self.module >= 0, self.module, self.symbols.name)
        length = ends[np.searchsorted(ends, last)] + 1 - self.symbols.name
        start = np.cumsum(length) - length
        index = np.arange(int(length.sum())) + np.repeat(self.symbols.name - start, length)
        module = np.where(self.module >= 0, self.module - self.symbols.name + start, -1)
        return Kallsyms(replace(self.symbols, name=start, sources=(text[index].tobytes(),)), module)

    def closed(self) -> tuple[Symbols, NDArray[np.int64]]:
        """Sorted, each symbol up to the next; the last before another module (or the kernel) to the page behind it."""
        order = np.argsort(self.symbols.start, kind="stable")
        module = self.module_numbers()[order]
        closed = self.symbols.closed()
        border = np.flatnonzero(module[1:] != module[:-1])
        closed.end[border] = (closed.start[border] + _PAGE + _PAGE - np.uint64(1)) // _PAGE * _PAGE
        return closed, module

    def module_numbers(self) -> NDArray[np.int64]:
        """Which of `module_names` each symbol belongs to, -1: the kernel."""
        names = {name: number for number, name in enumerate(self.module_names())}
        offsets = distinct(self.module)
        text = self.symbols.sources[0]
        number = np.array([names.get(_module_at(text, offset), -1) for offset in offsets.tolist()], np.int64)
        return number[np.searchsorted(offsets, self.module)] if len(offsets) else self.module

    def module_names(self) -> list[str]:
        """The modules' names in brackets, in the order of the file."""
        text = self.symbols.sources[0]
        return list(dict.fromkeys(_module_at(text, offset) for offset in self.module[self.module >= 0].tolist()))


def parse(text: bytes) -> Kallsyms:
    """Parse the whole text. Lines that are not as described are skipped."""
    data = np.frombuffer(text + b"\n" if text and text[-1] != _NEWLINE else text, np.uint8)
    line_end = np.flatnonzero(data == _NEWLINE)
    line = np.append(0, line_end[:-1] + 1) if len(line_end) else line_end
    digits = max(text.find(b" "), 0)
    regular = line_end - line > digits + 3
    line, line_end = line[regular], line_end[regular]
    letter = data[line + digits + 1]
    name = line + digits + 3
    wanted = np.isin(letter & ~np.uint8(_LOWER), _CODE_OR_DATA) & (data[name] != _DOLLAR)
    wanted &= (data[line + digits] == ord(" ")) & (data[name - 1] == ord(" "))
    line, line_end, letter, name = line[wanted], line_end[wanted], letter[wanted], name[wanted]
    start, valid = _hexadecimal(data, line, digits)
    line_end, letter, name, start = line_end[valid], letter[valid], name[valid], start[valid]
    upper = letter & ~np.uint8(_LOWER)
    binding = np.where(upper == ord("W"), STB_WEAK, np.where(letter == upper, STB_GLOBAL, STB_LOCAL)).astype(np.uint8)
    symbols = Symbols(
        start=start,
        end=start,
        binding=binding,
        type=np.where(np.isin(upper, _CODE), STT_FUNC, _STT_OBJECT).astype(np.uint8),
        name=name,
        source=np.zeros(len(name), np.uint8),
        sources=(data.tobytes().replace(b"\n", b"\0").replace(b"\t", b"\0"),),
    )
    return Kallsyms(symbols, _modules(data, name, line_end))


def _hexadecimal(data: NDArray[np.uint8], line: NDArray[np.int64], digits: int) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """The numbers at the start of lines, and which of them are numbers."""
    value, valid = np.zeros(len(line), np.uint64), np.ones(len(line), np.bool_)
    for column in range(digits):
        digit = _DIGITS[data[line + column]]
        valid &= digit < 16
        value = value << np.uint64(4) | digit.astype(np.uint64)
    return value, valid


def _modules(data: NDArray[np.uint8], name: NDArray[np.int64], line_end: NDArray[np.int64]) -> NDArray[np.int64]:
    """The offset of the module's "[" on each line that ends with "]", -1 on the others."""
    module = np.full(len(name), -1, np.int64)
    rows = np.flatnonzero(data[line_end - 1] == _BRACKET)
    tabs = np.flatnonzero(data == _TAB)
    if len(rows) and len(tabs):
        tab = tabs[np.maximum(np.searchsorted(tabs, line_end[rows]) - 1, 0)]
        inside = (tab > name[rows]) & (tab < line_end[rows])
        module[rows[inside]] = tab[inside] + 1
    return module


def _module_at(text: Any, offset: int) -> str:
    return "" if offset < 0 else bytes(text[offset : text.find(b"\0", offset)]).decode("utf-8", "surrogateescape")
