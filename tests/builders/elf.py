"""ELF files made in memory: just enough of each part for a reader of symbols.

    elf = Elf()
    elf.section(".text", flags=ALLOC | EXEC, addr=0x1000, offset=0x1000, size=0x100)
    elf.symbol("main", 0x1000, 16)
    data = elf.build()

Sections without `offset` are placed behind one another; segments are what the
test says. Layout: the System V ABI.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

ALLOC, EXEC, COMPRESSED = 2, 4, 0x800
PROGBITS, SYMTAB, STRTAB, RELA, NOTE, NOBITS, REL, DYNSYM = 1, 2, 3, 4, 7, 8, 9, 11
ET_REL, ET_EXEC, ET_DYN = 1, 2, 3
NOTYPE, OBJECT, FUNC, SECTION, FILE, TLS, IFUNC = 0, 1, 2, 3, 4, 6, 10
LOCAL, GLOBAL, WEAK = 0, 1, 2
HIDDEN = 2
UNDEF, ABS = 0, 0xFFF1
X86_64, I386, ARM, AARCH64, S390X, PPC64, RISCV = 62, 3, 40, 183, 22, 21, 243


@dataclass
class _Section:
    name: str
    type: int
    flags: int
    addr: int
    data: bytes
    offset: int | None
    size: int
    link: str
    entsize: int
    align: int


@dataclass
class _Symbol:
    name: str
    value: int
    size: int
    type: int
    binding: int
    section: str | int
    other: int


@dataclass
class Elf:
    """One file. bits: 32 or 64; endian: "<" or ">"."""

    bits: int = 64
    endian: str = "<"
    machine: int = X86_64
    type: int = ET_DYN
    _sections: list[_Section] = field(default_factory=list)
    _symbols: dict[str, list[_Symbol]] = field(default_factory=dict)
    _segments: list[tuple[int, int, int, int, int]] = field(default_factory=list)

    def section(
        self,
        name: str,
        data: bytes = b"",
        *,
        type: int = PROGBITS,
        flags: int = ALLOC,
        addr: int = 0,
        offset: int | None = None,
        size: int | None = None,
        link: str = "",
        entsize: int = 0,
        align: int = 1,
    ) -> Elf:
        """Add a section. size: if it is larger than the data, which are then padded with zeros."""
        length = len(data) if size is None else size
        self._sections.append(_Section(name, type, flags, addr, data, offset, length, link, entsize, align))
        return self

    def text(self, addr: int = 0x1000, offset: int | None = None, size: int = 0x1000, name: str = ".text") -> Elf:
        """Add a section of code, by default at the same offset in the file as its address in memory."""
        return self.section(name, flags=ALLOC | EXEC, addr=addr, offset=addr if offset is None else offset, size=size)

    def segment(self, vaddr: int, offset: int, size: int, kind: int = 1) -> Elf:
        """Add a program header, by default a PT_LOAD segment."""
        self._segments.append((kind, vaddr, offset, size, size))
        return self

    def symbol(
        self,
        name: str,
        value: int,
        size: int = 0,
        type: int = FUNC,
        binding: int = GLOBAL,
        section: str | int = ".text",
        *,
        other: int = 0,
        table: str = ".symtab",
    ) -> Elf:
        """Add an entry to .symtab or .dynsym. section: its name, or UNDEF, ABS."""
        self._symbols.setdefault(table, []).append(_Symbol(name, value, size, type, binding, section, other))
        return self

    def build_id(self, hexadecimal: str) -> Elf:
        """Add a GNU build-id note."""
        identity = bytes.fromhex(hexadecimal)
        note = struct.pack(self.endian + "III", 4, len(identity), 3) + b"GNU\0" + identity
        return self.section(".note.gnu.build-id", note, type=NOTE)

    def relocations(self, name: str, entries: list[tuple[int, int, int, int]], table: str = ".dynsym") -> Elf:
        """Add a .rela section. Each entry is (offset, symbol number, type, addend)."""
        word, shift = ("Q", 32) if self.bits == 64 else ("I", 8)
        code = self.endian + word * 2 + word.lower()
        data = b"".join(struct.pack(code, offset, symbol << shift | kind, addend) for offset, symbol, kind, addend in entries)
        return self.section(name, data, type=RELA, link=table, entsize=struct.calcsize(code))

    def build(self) -> bytes:
        """Return the file's bytes."""
        sections = [*self._sections]
        numbers = {section.name: number for number, section in enumerate(sections, 1)}
        for table in self._symbols:
            data, strings = self._symbol_table(table, numbers)
            kind = DYNSYM if table == ".dynsym" else SYMTAB
            names = ".dynstr" if table == ".dynsym" else ".strtab"
            sections.append(_Section(table, kind, ALLOC, 0, data, None, len(data), names, 24 if self.bits == 64 else 16, 1))
            sections.append(_Section(names, STRTAB, 0, 0, strings, None, len(strings), "", 0, 1))
        return self._assemble(sections)

    def _symbol_table(self, table: str, numbers: dict[str, int]) -> tuple[bytes, bytes]:
        strings = bytearray(b"\0")
        entries = [bytes(24 if self.bits == 64 else 16)]
        for symbol in self._symbols[table]:
            name = len(strings) if symbol.name else 0
            strings += symbol.name.encode("utf-8", "surrogateescape") + b"\0" if symbol.name else b""
            info = symbol.binding << 4 | symbol.type
            index = numbers[symbol.section] if isinstance(symbol.section, str) else symbol.section
            if self.bits == 64:
                entries.append(struct.pack(self.endian + "IBBHQQ", name, info, symbol.other, index, symbol.value, symbol.size))
            else:
                entries.append(struct.pack(self.endian + "IIIBBH", name, symbol.value, symbol.size, info, symbol.other, index))
        return b"".join(entries), bytes(strings)

    def _assemble(self, sections: list[_Section]) -> bytes:
        names = bytearray(b"\0")
        offsets_of_names = []
        for section in [*sections, _Section(".shstrtab", STRTAB, 0, 0, b"", None, 0, "", 0, 1)]:
            offsets_of_names.append(len(names))
            names += section.name.encode() + b"\0"
        sections = [*sections, _Section(".shstrtab", STRTAB, 0, 0, bytes(names), None, len(names), "", 0, 1)]
        numbers = {section.name: number for number, section in enumerate(sections, 1)}
        ehdr, phdr, shdr = (64, 56, 64) if self.bits == 64 else (52, 32, 40)
        fixed = [section.offset + section.size for section in sections if section.offset is not None and section.type != NOBITS]
        at = max([ehdr + phdr * len(self._segments), *fixed])
        headers = [bytes(shdr)]
        body = bytearray(at)
        for section, name in zip(sections, offsets_of_names, strict=True):
            offset = at if section.offset is None else section.offset
            if section.type != NOBITS:
                data = section.data.ljust(section.size, b"\0")
                body[offset : offset + len(data)] = data
                at = max(at, offset + len(data))
            link = numbers.get(section.link, 0)
            row = (name, section.type, section.flags, section.addr, offset, section.size, link, 0, section.align, section.entsize)
            headers.append(struct.pack(self.endian + ("IIQQQQIIQQ" if self.bits == 64 else "10I"), *row))
        body[: ehdr + phdr * len(self._segments)] = self._header(len(body), len(headers), ehdr) + self._program_headers()
        return bytes(body) + b"".join(headers)

    def _header(self, sections_at: int, count: int, size: int) -> bytes:
        ident = b"\x7fELF" + bytes([1 if self.bits == 32 else 2, 1 if self.endian == "<" else 2, 1]) + bytes(9)
        word = "Q" if self.bits == 64 else "I"
        phdr, shdr = (56, 64) if self.bits == 64 else (32, 40)
        return ident + struct.pack(
            f"{self.endian}HHI{word}{word}{word}IHHHHHH",
            *(self.type, self.machine, 1, 0, size if self._segments else 0, sections_at, 0, size),
            *(phdr, len(self._segments), shdr, count, count - 1),
        )

    def _program_headers(self) -> bytes:
        rows = []
        for kind, vaddr, offset, filesz, memsz in self._segments:
            if self.bits == 64:
                rows.append(struct.pack(self.endian + "IIQQQQQQ", kind, 5, offset, vaddr, vaddr, filesz, memsz, 0x1000))
            else:
                rows.append(struct.pack(self.endian + "8I", kind, offset, vaddr, vaddr, filesz, memsz, 5, 0x1000))
        return b"".join(rows)
