"""The `trace` field of tracepoint samples, as perf prints it.

What enters: an EventFormat and the raw data of many samples of that event.
What leaves: a text a sample. The print format is compiled once an event
(tracecode); this module holds the compiled event and the functions that its
code calls. Texts are latin-1 strings: a character a byte of the data.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from perfpy.abi.byteorder import ORDERS
from perfpy.perfdata.printconstants import number
from perfpy.perfdata.printfmt import PrintFormatError, parse_print_fmt
from perfpy.views.script.tracecode import Load, Rendering, field_formats, render

if TYPE_CHECKING:
    import numpy as np

    from perfpy.perfdata.printfmt import PrintFormat
    from perfpy.perfdata.printtree import Flags, Symbolic
    from perfpy.perfdata.traceformat import EventFormat, TraceField

_CODES: Final = {(1, "u"): "B", (2, "u"): "H", (4, "u"): "I", (8, "u"): "Q", (1, "s"): "b", (2, "s"): "h", (4, "s"): "i", (8, "s"): "q"}
_CACHE_LIMIT: Final = 1 << 14
#: names that some formats leave in place of their numbers
_KNOWN_NAMES: Final = {
    "HI_SOFTIRQ": 0, "TIMER_SOFTIRQ": 1, "NET_TX_SOFTIRQ": 2, "NET_RX_SOFTIRQ": 3, "BLOCK_SOFTIRQ": 4, "IRQ_POLL_SOFTIRQ": 5,
    "TASKLET_SOFTIRQ": 6, "SCHED_SOFTIRQ": 7, "HRTIMER_SOFTIRQ": 8, "RCU_SOFTIRQ": 9, "HRTIMER_NORESTART": 0, "HRTIMER_RESTART": 1,
}  # fmt: skip

#: names a kernel address: (function, its start), or None
FunctionResolver = Callable[[int], "tuple[str, int] | None"]


class Runtime:
    """What the code of every event of a file shares: byte order, kernel names, caches."""

    def __init__(
        self,
        endian: str = "<",
        long_size: int = 8,
        resolve: FunctionResolver | None = None,
        strings: Mapping[int, str] | None = None,
    ) -> None:
        """strings: the kernel's format strings by address (printk_formats), surrogates escaped."""
        self.endian = endian
        self.long_size = long_size
        self._resolve = resolve
        self._strings = strings or {}
        self._texts: dict[bytes, str] = {}
        self._functions: dict[tuple[int, bool], str] = {}

    # numbers

    def divide(self, left: int, right: int) -> int:
        """left / right; 0 where C would trap."""
        return left // right if right else 0

    def remainder(self, left: int, right: int) -> int:
        """left % right; 0 where C would trap."""
        return left % right if right else 0

    def alternate(self, python: str, values: tuple[int, ...]) -> str:
        """C's '#' flag: none of it for 0, and a single 0 before octal digits."""
        if not values[-1] or python[-1] not in "xX":
            python = python.replace("#", "")
            return (python % values).replace(" 0", "00") if values[-1] and python[-1] == "o" else python % values
        return python % values

    def read(self, raw: bytes, offset: int, size: int) -> int:
        """The unsigned number at an offset; 0 when it does not fit the data or has an odd size."""
        code = _CODES.get((size, "u"))
        if code is None or offset + size > len(raw):
            return 0
        value: int = struct.unpack_from(self.endian + code, raw, offset)[0]
        return value

    def dynamic_offset(self, raw: bytes, location: int, size: int, base: int) -> int:
        """Where the data of a dynamic field start; location: the field's own value."""
        offset = location & 0xFFFF
        return (0 if offset > len(raw) else offset) + base

    def dynamic_length(self, raw: bytes, location: int, size: int, base: int) -> int:
        """How many bytes a dynamic field has; 0 when they are not all there."""
        offset = location & 0xFFFF
        length = len(raw) - offset if size == 2 else location >> 16 & 0xFFFF
        return 0 if offset + length > len(raw) else length

    # strings

    def c_string(self, data: bytes) -> str:
        """The text up to the first NUL."""
        text = self._texts.get(data)
        if text is None:
            if len(self._texts) > _CACHE_LIMIT:
                self._texts.clear()
            text = self._texts[data] = data.partition(b"\0")[0].decode("latin-1")
        return text

    def string_from(self, raw: bytes, offset: int) -> str:
        """The text from an offset on."""
        return self.c_string(raw[offset:])

    def string(self, raw: bytes, location: int, size: int, base: int) -> str:
        """The text of a dynamic string."""
        length = self.dynamic_length(raw, location, size, base)
        if not length:
            return ""
        offset = self.dynamic_offset(raw, location, size, base)
        data = raw[offset : offset + length]
        return self.c_string(data if b"\0" in data else raw[offset:])

    def padded(self, python: str, text: str, *width: int) -> str:
        """A dynamic string under a conversion with a width."""
        return python % (*width, text) if text else ""

    def kernel_string(self, address: int) -> str:
        """The string that a pointer into the kernel points to."""
        known = self._strings.get(address)
        return f"{address:x}" if known is None else _latin(known)

    def bitmask(self, raw: bytes, location: int, size: int, base: int) -> str:
        """A bit mask in hexadecimal words of 32 bits."""
        data = self._mask(raw, location, size, base)
        return ",".join(data[max(i - 4, 0) : i].hex() for i in range(len(data) % 4 or 4, len(data) + 1, 4)) if data else ""

    def cpumask(self, raw: bytes, location: int, size: int, base: int) -> str:
        """A bit mask as a list of ranges."""
        value = int.from_bytes(self._mask(raw, location, size, base), "big")
        ranges = []
        bit = 0
        while value >> bit:
            if value >> bit & 1:
                first = bit
                while value >> bit & 1:
                    bit += 1
                ranges.append(str(first) if bit == first + 1 else f"{first}-{bit - 1}")
            else:
                bit += 1
        return ",".join(ranges)

    def _mask(self, raw: bytes, location: int, size: int, base: int) -> bytes:
        """The bytes of a mask, the highest bits first."""
        offset = self.dynamic_offset(raw, location, size, base)
        data = raw[offset : offset + self.dynamic_length(raw, location, size, base)]
        return data if self.endian == ">" else data[::-1]

    def hex_bytes(self, raw: bytes, offset: int, size: int, delimiter: str) -> str:
        """__print_hex and __print_hex_str."""
        data = raw[offset : offset + size]
        return data.hex(delimiter) if delimiter else data.hex()

    def number_array(self, raw: bytes, offset: int, count: int, size: int) -> str:
        """{0x1,0x2}; perf reads the elements in the byte order of its own host, and so a little-endian one's here."""
        if size not in (1, 2, 4, 8):
            return "{" + ",".join(f"BAD SIZE:{size} 0x{byte:x}" for byte in raw[offset : offset + count]) + "}"
        data = raw[offset : offset + count * size]
        return "{" + ",".join(f"0x{int.from_bytes(data[i : i + size], 'little'):x}" for i in range(0, len(data), size)) + "}"

    # names of values

    def flags(self, tree: Flags, python: str, has_width: bool) -> Callable[..., str]:
        """The function that names the bits of a value."""
        names = [(_name_value(value), name) for value, name in tree.names]

        def text(value: int, *width: int) -> str:
            parts: list[str] = []
            for mask, name in names:
                if not value and mask < 0:
                    parts.append(python % (*width, name))
                    break
                if mask > 0 and value & mask == mask:
                    if parts:
                        parts.append(tree.delimiter)
                    parts.append(python % (*width, name))
                    value &= ~mask
            if value:
                parts.append((tree.delimiter if parts else "") + f"0x{value:x}")
            return "".join(parts)

        return text if has_width else _cached(text)

    def symbolic(self, tree: Symbolic, python: str, has_width: bool) -> Callable[..., str]:
        """The function that names a value."""
        names: dict[int, str] = {}
        for value, name in tree.names:
            names.setdefault(_name_value(value) & 0xFFFFFFFFFFFFFFFF, name)

        def text(value: int, *width: int) -> str:
            name = names.get(value)
            return f"0x{value:x}" if name is None else python % (*width, name)

        return text if has_width else _cached(text)

    # pointers

    def function(self, address: int, with_offset: bool) -> str:
        """A kernel function's name, or the address."""
        text = self._functions.get((address, with_offset))
        if text is None:
            found = self._resolve(address) if self._resolve else None
            name, start = found or (f"0x{address:x}", 0)
            text = f"{name}+0x{address - start:x}" if found and with_offset else name
            self._functions[address, with_offset] = text
        return text

    def pointer(self, value: int) -> str:
        """%p of C's library."""
        return f"0x{value:x}" if value else "(nil)"

    def mac(self, raw: bytes, offset: int, size: int, suffix: str) -> str:
        """%pM, %pm, %pMF, %pMR, %pmR"""
        if size != 6:
            return "INVALIDMAC"
        data = raw[offset : offset + 6]
        if suffix[1:] == "R":
            data = data[::-1]
        return data.hex() if suffix[0] == "m" else data.hex("-" if suffix[1:] == "F" else ":")

    def uuid(self, raw: bytes, offset: int, size: int, suffix: str) -> str:
        """%pUb, %pUB, %pUl, %pUL"""
        if size != 16:
            return "INVALIDUUID"
        d = raw[offset : offset + 16]
        if suffix[1:] in ("l", "L"):
            d = d[3::-1] + d[5:3:-1] + d[7:5:-1] + d[8:]
        text = "-".join(part.hex() for part in (d[:4], d[4:6], d[6:8], d[8:10], d[10:]))
        return text.upper() if suffix[1:] in ("L", "B") else text

    def dump(self, raw: bytes, offset: int, size: int, suffix: str, length: int = 1) -> str:
        """%ph, %phC, %phD, %phN: bytes of a dynamic array"""
        data = raw[offset : offset + min(size, length)]
        delimiter = {"C": ":", "D": "-", "N": ""}.get(suffix[1:], " ")
        return data.hex(delimiter) if delimiter else data.hex()

    def address(self, raw: bytes, offset: int, size: int, suffix: str) -> str:
        """%pI4, %pi4, %pI6, %pi6, %pI6c, %pIS and their letters"""
        from perfpy.views.script.ipaddress import internet_address

        return internet_address(raw[offset : offset + size], suffix, self.endian)


def _latin(text: str) -> str:
    """A text of UTF-8 with escaped surrogates as one character a byte."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("latin-1")


def _is_printable(text: bytes) -> bool:
    return all(32 <= byte < 127 or 9 <= byte <= 13 for byte in text)


def _name_value(text: str) -> int:
    """The number of a flag's or symbol's value text; -1 for a name that nobody knows."""
    return number(text) if text[:1].isdigit() else _KNOWN_NAMES.get(text, -1)


def _cached(text: Callable[..., str]) -> Callable[[int], str]:
    known: dict[int, str] = {}

    def look_up(value: int) -> str:
        found = known.get(value)
        if found is None:
            if len(known) > _CACHE_LIMIT:
                known.clear()
            found = known[value] = text(value)
        return found

    return look_up


class TraceText:
    """One tracepoint's compiled print format."""

    def __init__(self, event: EventFormat, runtime: Runtime) -> None:
        self._runtime = runtime
        self._event = event = replace(event, print_fmt=_latin(event.print_fmt))
        self._plain: set[str] = set()  # character arrays that held something unprintable
        self._of_field: dict[str, _Compiled] = {}
        try:
            self._parsed: PrintFormat | None = parse_print_fmt(event, runtime.long_size)
            self._compiled: _Compiled | None = _Compiled(render(self._parsed, runtime), runtime.endian)
        except PrintFormatError:
            self._parsed = self._compiled = None

    @property
    def breaks_lines(self) -> bool:
        """Whether the format itself has line breaks: the text of a stack is many lines."""
        return "\\n" in self._event.print_fmt

    def texts(self, values: np.ndarray, starts: np.ndarray, sizes: np.ndarray) -> list[str]:
        """The text of each sample.

        values: the bytes in which the raw data are (uint8); starts and sizes:
        of each sample's raw data there (int64).
        """
        if self._compiled is not None:
            return self._compiled.texts(values, starts, sizes)
        return [self._unparsed(raw) for raw in _slices(values, starts, sizes)]

    def _unparsed(self, raw: bytes) -> str:
        """The text of a sample whose print format perf's library cannot parse."""
        return f"[FAILED TO PARSE]{self.raw_text(raw)}"

    def raw_text(self, raw: bytes) -> str:
        """Every field by name; numbers as the event's print format has them, if it has them bare."""
        return "".join(f" {field.name}={self._field_text(raw, field)}" for field in self._event.fields)

    def field_text(self, raw: bytes, name: str) -> str:
        """The text of one field, by its name; "" if there is none."""
        fields = (*self._event.fields, *self._event.common_fields)
        return next((self._field_text(raw, field) for field in fields if field.name == name), "")

    def _field_text(self, raw: bytes, field: TraceField) -> str:
        if field.is_array or (field.is_dynamic and field.is_string):
            return self._array_text(raw, field)
        if field.name in self._formats:
            return self._formatted(raw, field.name)
        value = self._runtime.read(raw, field.offset, field.size)
        bits = field.size * 8
        if field.is_pointer or (field.is_long and not (field.is_signed and bits != 32)):
            return f"0x{value:x}"
        if field.is_signed and bits:
            value = (value ^ 1 << bits - 1) - (1 << bits - 1)
        return f"{value:2d}" if field.is_signed and bits == 16 else str(value)

    @cached_property
    def _formats(self) -> dict[str, PrintFormat]:
        return {} if self._parsed is None else field_formats(self._parsed)

    def _formatted(self, raw: bytes, name: str) -> str:
        import numpy as np

        if name not in self._of_field:
            self._of_field[name] = _Compiled(render(self._formats[name], self._runtime), self._runtime.endian)
        return self._of_field[name].texts(np.frombuffer(raw, np.uint8), np.zeros(1, np.int64), np.array([len(raw)], np.int64))[0]

    def _array_text(self, raw: bytes, field: TraceField) -> str:
        offset, length = field.offset, field.size
        if field.is_dynamic:
            base = field.offset + field.size if field.is_relative else 0
            location = self._runtime.read(raw, field.offset, field.size)
            offset = self._runtime.dynamic_offset(raw, location, field.size, base)
            length = self._runtime.dynamic_length(raw, location, field.size, base)
        data = raw[offset : offset + length]
        if field.is_string and field.name not in self._plain and _is_printable(data.partition(b"\0")[0]):
            return self._runtime.string_from(raw, offset)  # an empty one runs on into what follows it
        self._plain.add(field.name)
        return "ARRAY[" + ", ".join(f"{byte:02x}" for byte in data) + "]"


class TraceSource:
    """Compiled print formats of a recording's tracepoints, by id."""

    def __init__(self, formats: Mapping[int, EventFormat], runtime: Runtime) -> None:
        self.endian = runtime.endian
        self._formats = formats
        self._runtime = runtime
        self._compiled: dict[int, TraceText | None] = {}

    def printer(self, number: int) -> TraceText | None:
        """The print format of a tracepoint; None for one that the recording does not describe."""
        if number not in self._compiled:
            known = number in self._formats
            self._compiled[number] = TraceText(self._formats[number], self._runtime) if known else None
        return self._compiled[number]


class _Compiled:
    """The generated function of one event, and how its variables are taken out of the data."""

    def __init__(self, rendering: Rendering, endian: str) -> None:
        self._needs_raw = rendering.needs_raw
        self._may_hold_nul = rendering.may_hold_nul
        loads, others = _separate(rendering.loads)
        self._struct = struct.Struct(_struct_code(loads, endian))
        names = ", ".join(load.name for load in loads) + ("," if loads else "")
        source = f"lambda rows, raws: [{rendering.code} for "
        source += f"({names}), raw in zip(rows, raws)" if self._needs_raw or others else f"({names}) in rows"
        for load in others:  # places that overlap another one
            self._needs_raw = True
            source += f" for {load.name} in ({_other_code(load, endian)},)"
        self._function: Callable[[Any, Any], list[str]] = eval(source + "]", {**rendering.constants, "from_bytes": int.from_bytes})

    def texts(self, values: np.ndarray, starts: np.ndarray, sizes: np.ndarray) -> list[str]:
        import numpy as np

        size = self._struct.size
        if not len(starts):
            return []
        if size == 0:
            rows: Iterable[tuple[Any, ...]] = [()] * len(starts)
        elif int(sizes.min()) >= size:
            windows = np.lib.stride_tricks.sliding_window_view(values, size)
            rows = self._struct.iter_unpack(windows[starts].tobytes())
        else:
            rows = (self._struct.unpack(raw[:size].ljust(size, b"\0")) for raw in _slices(values, starts, sizes))
        texts = self._function(rows, _slices(values, starts, sizes) if self._needs_raw else ())
        return [text.partition("\0")[0] for text in texts] if self._may_hold_nul else texts


def _separate(loads: Iterable[Load]) -> tuple[list[Load], list[Load]]:
    """Loads that follow each other without overlap, by offset, and all others."""
    first: list[Load] = []
    others: list[Load] = []
    end = 0
    for load in sorted(loads):
        if load.offset >= end:
            first.append(load)
            end = load.offset + load.size
        else:
            others.append(load)
    return first, others


def _struct_code(loads: Iterable[Load], endian: str) -> str:
    code, end = endian, 0
    for load in loads:
        code += f"{load.offset - end}x" + (f"{load.size}s" if load.how == "bytes" else _CODES[load.size, load.how[0]])
        end = load.offset + load.size
    return code


def _other_code(load: Load, endian: str) -> str:
    data = f"raw[{load.offset}:{load.offset + load.size}]"
    if load.how == "bytes":
        return data
    return f"from_bytes({data}, {ORDERS[endian]!r}, signed={load.how == 'signed'})"


def _slices(values: np.ndarray, starts: np.ndarray, sizes: np.ndarray) -> list[bytes]:
    low = int(starts.min()) if len(starts) else 0
    data = values[low : int((starts + sizes).max()) if len(starts) else 0].tobytes()
    return [data[a : a + n] for a, n in zip((starts - low).tolist(), sizes.tolist(), strict=True)]
