"""Decode the functions that BPF programs of the BPF_PROG_INFO feature were compiled to.

Layout: struct bpf_prog_info in include/uapi/linux/bpf.h; its pointers are offsets into the program's data
here. BTF: struct btf_header, btf_type in include/uapi/linux/btf.h.
"""

from __future__ import annotations

import struct

from perfpy.abi.flags import NATIVE_ENDIAN
from perfpy.abi.light_types import NamedTuple

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Final

    from perfpy.perfdata.header import BpfProgram, BpfTypes


_TAG_SIZE: Final = 8
_BTF_MAGIC: Final = 0xEB9F
_KIND_FUNC: Final = 12
#: bytes after struct btf_type, by kind: (fixed, per member)
_BTF_TAILS: Final = {
    1: (4, 0),  # INT
    3: (12, 0),  # ARRAY
    4: (0, 12),  # STRUCT
    5: (0, 12),  # UNION
    6: (0, 8),  # ENUM
    13: (0, 8),  # FUNC_PROTO
    14: (4, 0),  # VAR
    15: (0, 12),  # DATASEC
    17: (4, 0),  # DECL_TAG
    19: (0, 12),  # ENUM64
}


class BpfFunction(NamedTuple):
    """One compiled function.

    Attributes:
        program: the program's id.
        name: as in /proc/kallsyms.
        address: of its code.
        size: bytes of its code.
        code: empty if not recorded.
    """

    program: int
    name: str
    address: int
    size: int
    code: bytes = b""


def bpf_functions(program: BpfProgram, types: Iterable[BpfTypes], endian: str = "<") -> list[BpfFunction]:
    """Return the functions of a program; none if its information is damaged or incomplete."""
    try:
        info = _Info(program, endian)
        functions = info.functions()
        btf = next((entry.data for entry in types if info.btf_id and entry.id == info.btf_id), b"")
        names = program_function_names(info.name, len(functions), info.function_types(), btf, endian)
        return [
            BpfFunction(info.id, kernel_name(tag, name), address, size, code)
            for name, (tag, address, size), code in zip(names, functions, info.code([size for _, _, size in functions]), strict=True)
        ]
    except (struct.error, ValueError, IndexError, OverflowError):  # damaged fields may be 64-bit numbers beyond any offset
        return []


def kernel_name(tag: bytes, name: str) -> str:
    """Return a function's name as /proc/kallsyms has it."""
    return f"bpf_prog_{tag.hex()}" + (f"_{name}" if name else "")


def program_function_names(program: str, count: int, types: Sequence[int], btf: bytes, endian: str = NATIVE_ENDIAN) -> list[str]:
    """Return the names of a program's functions: from its BTF if present, else the program's name if it has one function only."""
    if btf and len(types) == count:
        try:
            names = btf_function_names(btf, endian)
        except (struct.error, ValueError):
            names = {}
        if names:
            return [names.get(ident, "F") for ident in types]
    return [program] if count == 1 else ["F"] * count


class _Info:
    """The fields of struct bpf_prog_info that are needed here."""

    def __init__(self, program: BpfProgram, endian: str) -> None:
        self._data = program.data
        self._endian = endian
        # The struct grows at its end: fields that an older kernel did not write are 0.
        raw = program.info.ljust(256, b"\0")
        self.id = self._number("I", raw, 4)
        self.name = raw[64:80].split(b"\0", 1)[0].decode("utf-8", "surrogateescape")
        self.code_size = self._number("I", raw, 16)
        self.code_at = self._number("Q", raw, 24)
        self.functions_count = self._number("I", raw, 104)
        self.lengths_count = self._number("I", raw, 108)
        self.addresses_at = self._number("Q", raw, 112)
        self.lengths_at = self._number("Q", raw, 120)
        self.btf_id = self._number("I", raw, 128)
        self.func_info_size = self._number("I", raw, 132)
        self.func_info_at = self._number("Q", raw, 136)
        self.func_info_count = self._number("I", raw, 144)
        self.tags_count = self._number("I", raw, 180)
        self.tags_at = self._number("Q", raw, 184)

    def _number(self, code: str, raw: bytes, offset: int) -> int:
        (value,) = struct.unpack_from(self._endian + code, raw, offset)
        return int(value)

    def functions(self) -> list[tuple[bytes, int, int]]:
        """Return (tag, address, size) of each function."""
        count = self.functions_count
        if count != self.tags_count or count != self.lengths_count or count * 8 > len(self._data):
            return []
        addresses = struct.unpack_from(f"{self._endian}{count}Q", self._data, self.addresses_at)
        sizes = struct.unpack_from(f"{self._endian}{count}I", self._data, self.lengths_at)
        tags = struct.unpack_from(f"{_TAG_SIZE}s" * count, self._data, self.tags_at)
        return list(zip(tags, addresses, sizes, strict=True))

    def code(self, sizes: Sequence[int]) -> Iterator[bytes]:
        """Yield the code of each function, which is stored contiguously; empty if not recorded."""
        whole = self._data[self.code_at : self.code_at + self.code_size]
        first = 0
        for size in sizes:
            yield whole[first : first + size] if sum(sizes) == len(whole) else b""
            first += size

    def function_types(self) -> list[int]:
        """Return the BTF type ids of the functions; empty without BTF."""
        if self.func_info_size < 8 or self.func_info_count * self.func_info_size > len(self._data):
            return []
        return [self._number("I", self._data, self.func_info_at + i * self.func_info_size + 4) for i in range(self.func_info_count)]


def btf_function_names(data: bytes, endian: str = "<") -> dict[int, str]:
    """Map type ids of functions in a BTF blob to names. Raises ValueError or struct.error if it is damaged."""
    magic, _, _, size, types_at, types_size, strings_at, strings_size = struct.unpack_from(endian + "HBBIIIII", data)
    if magic != _BTF_MAGIC:
        raise ValueError("not BTF")
    strings = data[size + strings_at : size + strings_at + strings_size]
    types = data[size + types_at : size + types_at + types_size]
    names: dict[int, str] = {}
    offset, number = 0, 1
    while offset + 12 <= len(types):
        name_at, kind_info, _ = struct.unpack_from(endian + "III", types, offset)
        kind = kind_info >> 24 & 0x1F
        if kind == _KIND_FUNC:
            names[number] = strings[name_at:].split(b"\0", 1)[0].decode("utf-8", "surrogateescape")
        fixed, each = _BTF_TAILS.get(kind, (0, 0))
        offset += 12 + fixed + each * (kind_info & 0xFFFF)
        number += 1
    return names
