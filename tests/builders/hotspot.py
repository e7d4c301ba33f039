"""The memory of a JVM that is none: tables, methods and compiled code, laid out as OpenJDK 17 does, or as 25 does."""

from __future__ import annotations

import struct

from perfpy.capture.process_memory import ProcessMemory

Scopes = list[tuple[int, list[tuple[int, int]]]]  # (offset of the pc, [(method, bytecode), innermost first])

HEAP, HEAP_SIZE, SEGMENT = 0x7F0000000000, 1 << 16, 7
_FIRST = 0x10000

_ALWAYS = {
    ("Method", "_constMethod"): (8, "ConstMethod*"),
    ("ConstMethod", "_constants"): (8, "ConstantPool*"),
    ("ConstMethod", "_code_size"): (16, "u2"),
    ("ConstMethod", "_name_index"): (18, "u2"),
    ("ConstMethod", "_signature_index"): (20, "u2"),
    ("ConstantPool", "_pool_holder"): (8, "InstanceKlass*"),
    ("Klass", "_name"): (16, "Symbol*"),
    ("Symbol", "_length"): (4, "u2"),
    ("Symbol", "_body[0]"): (6, "u1"),
    ("GrowableArrayBase", "_len"): (0, "int"),
    ("GrowableArray<int>", "_data"): (8, "int*"),
    ("VirtualSpace", "_low_boundary"): (0, "char*"),
    ("VirtualSpace", "_high_boundary"): (8, "char*"),
    ("CodeHeap", "_memory"): (0, "VirtualSpace"),
    ("CodeHeap", "_segmap"): (16, "VirtualSpace"),
    ("CodeHeap", "_log2_segment_size"): (32, "int"),
    ("HeapBlock::Header", "_used"): (8, "bool"),
    ("CodeBlob", "_name"): (0, "const char*"),
    ("CodeBlob", "_size"): (8, "int"),
    ("CodeBlob", "_data_offset"): (12, "int"),
    ("CodeBlob", "_frame_size"): (80, "int"),
    ("CodeBlob", "_frame_complete_offset"): (84, "int"),
    ("nmethod", "_scopes_pcs_offset"): (16, "int"),
    ("nmethod", "_compile_id"): (20, "int"),
    ("PcDesc", "_pc_offset"): (0, "int"),
    ("PcDesc", "_scope_decode_offset"): (4, "int"),
}
_BEFORE = {
    ("CodeBlob", "_code_begin"): (24, "address"),
    ("CodeBlob", "_code_end"): (32, "address"),
    ("CompiledMethod", "_method"): (40, "Method*"),
    ("CompiledMethod", "_scopes_data_begin"): (48, "address"),
    ("nmethod", "_dependencies_offset"): (56, "int"),
    ("nmethod", "_metadata_offset"): (60, "int"),
}
_SINCE = {
    ("CodeBlob", "_code_offset"): (24, "int"),
    ("CodeBlob", "_mutable_data"): (32, "address"),
    ("CodeBlob", "_mutable_data_size"): (44, "int"),
    ("CodeBlob", "_relocation_size"): (28, "int"),
    ("nmethod", "_method"): (48, "Method*"),
    ("nmethod", "_immutable_data"): (56, "address"),
    ("nmethod", "_immutable_data_size"): (64, "int"),
    ("nmethod", "_scopes_data_offset"): (68, "int"),
}
_TYPES = {"ConstMethod": 24, "ConstantPool": 16, "HeapBlock": 16, "PcDesc": 8}
_BLOB, _CODE = 128, 0x100  # bytes of a header, and of code


class Memory(ProcessMemory):
    """Pieces of memory by their addresses."""

    def __init__(self) -> None:
        self.pieces: dict[int, bytearray] = {}

    def close(self) -> None:
        """There is nothing to close."""

    def some(self, address: int, most: int) -> bytes:
        """As much as the piece has."""
        for start, data in self.pieces.items():
            if start <= address < start + len(data):
                return bytes(data[address - start :][:most])
        return b""


class Jvm:
    """memory; exported: the addresses of its variables. is_recent: as 25."""

    def __init__(self, *, is_recent: bool) -> None:
        self.memory = Memory()
        self.exported: dict[str, int] = {}
        self._is_recent = is_recent
        self._places = {**_ALWAYS, **(_SINCE if is_recent else _BEFORE)}
        self._next = _FIRST
        self._block = 0
        self._compilations = 0
        self._segments = self.put(b"\xff" * (HEAP_SIZE >> SEGMENT))
        self.memory.pieces[HEAP] = bytearray(HEAP_SIZE)
        self._tables()

    def put(self, data: bytes) -> int:
        """New memory with these bytes."""
        address, self._next = self._next, self._next + (len(data) + 0x1F & ~0xF)
        self.memory.pieces[address] = bytearray(data)
        return address

    def word(self, address: int, value: int, size: int = 8) -> None:
        """Write a number."""
        for start, data in self.memory.pieces.items():
            if start <= address < start + len(data):
                data[address - start : address - start + size] = (value & (1 << 8 * size) - 1).to_bytes(size, "little")

    def _field(self, address: int, owner: str, name: str, value: int) -> None:
        place, kind = self._places[owner, name]
        self.word(address + place, value, {"int": 4, "u2": 2, "bool": 1}.get(kind, 8))

    def _tables(self) -> None:
        heap, listed = self.put(bytes(64)), self.put(bytes(16))
        for place, low, high in (("_memory", HEAP, HEAP + HEAP_SIZE), ("_segmap", self._segments, self._segments + 512)):
            self.word(heap + self._places["CodeHeap", place][0], low)
            self.word(heap + self._places["CodeHeap", place][0] + 8, high)
        self._field(heap, "CodeHeap", "_log2_segment_size", SEGMENT)
        self._field(listed, "GrowableArrayBase", "_len", 1)
        self._field(listed, "GrowableArray<int>", "_data", self.put(struct.pack("<Q", heap)))
        heaps = self.put(struct.pack("<Q", listed))
        entries = b"".join(self._struct(*names, kind, place, static=0) for names, (place, kind) in self._places.items())
        entries += self._struct("CodeCache", "_heaps", "GrowableArray<CodeHeap*>*", heaps, static=1)
        types = b"".join(struct.pack("<QQ", self.put(name.encode() + b"\0"), size) for name, size in _TYPES.items())
        self._export("Structs", self.put(entries + bytes(48)))
        self._export("Types", self.put(types + bytes(16)))
        self._layout("StructEntry", 48, {"TypeName": 0, "FieldName": 8, "TypeString": 16, "IsStatic": 24, "Offset": 32, "Address": 40})
        self._layout("TypeEntry", 16, {"TypeName": 0, "Size": 8})

    def _struct(self, owner: str, name: str, kind: str, place: int, *, static: int) -> bytes:
        texts = [self.put(text.encode() + b"\0") for text in (owner, name, kind)]
        return struct.pack("<QQQQQQ", *texts, static, 0 if static else place, place if static else 0)

    def _layout(self, entry: str, stride: int, places: dict[str, int]) -> None:
        self._export(f"{entry}ArrayStride", stride)
        for name, place in places.items():
            self._export(f"{entry}{name}Offset", place)

    def _export(self, name: str, value: int) -> None:
        self.exported[f"gHotSpotVM{name}"] = self.put(struct.pack("<Q", value))

    def method(self, owner: str, name: str, descriptor: str, bytecodes: int = 100) -> int:
        """A method; its pointer."""
        klass, pool = self.put(bytes(32)), self.put(bytes(16 + 8 * 8))
        self._field(klass, "Klass", "_name", self._symbol(owner))
        self._field(pool, "ConstantPool", "_pool_holder", klass)
        for index, text in ((3, name), (5, descriptor)):
            self.word(pool + 16 + 8 * index, self._symbol(text))
        const, method = self.put(bytes(24 + bytecodes)), self.put(bytes(64))
        for field, value in (("_constants", pool), ("_code_size", bytecodes), ("_name_index", 3), ("_signature_index", 5)):
            self._field(const, "ConstMethod", field, value)
        self._field(method, "Method", "_constMethod", const)
        return method

    def code_of(self, method: int) -> int:
        """The address of a method's first bytecode."""
        return self.memory.number(method + 8) + 24

    def _symbol(self, text: str) -> int:
        data = text.encode()
        return self.put(bytes(4) + struct.pack("<H", len(data)) + data)

    def blob(self, name: str) -> int:
        """A piece of code without a method; where its code begins."""
        return self._placed(name, bytes(_CODE))[1]

    def compiled(self, method: int, scopes: Scopes, *, frame_size: int = 0, complete: int = 0, code: bytes = b"") -> int:
        """A compiled method; where its code begins. frame_size: in words; complete: the offset from which on it has its frame."""
        methods = sorted({one for _, inlined in scopes for one, _ in inlined} | {method})
        data, offsets = b"\xee", []  # an offset of 0 means that there is none
        for _, inlined in scopes:
            outer = 0
            for one, bci in reversed(inlined):
                begin = len(data)
                data += b"".join(self._number(value) for value in (outer, methods.index(one) + 1, bci + 1))
                outer = begin
            offsets.append(outer)
        pcs = b"".join(struct.pack("<ii", pc, offset) for (pc, _), offset in zip(scopes, offsets, strict=True))
        words = struct.pack(f"<{len(methods)}Q", *methods)
        data += bytes(-len(data) % 8)
        address, start = self._placed("nmethod", (code.ljust(_CODE, b"\x90") + (b"" if self._is_recent else words + data + pcs)))
        self._compilations += 1
        for owner, field, value in (
            ("nmethod", "_compile_id", self._compilations),
            ("CodeBlob", "_frame_size", frame_size),
            ("CodeBlob", "_frame_complete_offset", complete),
        ):
            self._field(address, owner, field, value)
        if self._is_recent:
            beside = self.put(bytes(16) + pcs + data)
            changing = self.put(bytes(24) + words)
            values = {"_immutable_data": beside, "_immutable_data_size": 16 + len(pcs) + len(data), "_scopes_data_offset": 16 + len(pcs)}
            for field, value in {**values, "_scopes_pcs_offset": 16, "_method": method}.items():
                self._field(address, "nmethod", field, value)
            for field, value in {"_mutable_data": changing, "_mutable_data_size": 24 + len(words), "_relocation_size": 24}.items():
                self._field(address, "CodeBlob", field, value)
        else:
            first = start - address + _CODE
            self._field(address, "CompiledMethod", "_method", method)
            self._field(address, "CompiledMethod", "_scopes_data_begin", address + first + len(words))
            for field, value in {"_metadata_offset": first, "_scopes_pcs_offset": first + len(words) + len(data)}.items():
                self._field(address, "nmethod", field, value)
            self._field(address, "nmethod", "_dependencies_offset", first + len(words) + len(data) + len(pcs))
        return start

    def _number(self, value: int) -> bytes:
        """A number as in debug information (unsigned5.hpp)."""
        excess = 1 if self._is_recent else 0
        low, out = 192 - excess, b""
        while value >= low:
            value -= low
            out += bytes((low + value % 64 + excess,))
            value //= 64
        return out + bytes((value + excess,))

    def _placed(self, name: str, content: bytes) -> tuple[int, int]:
        """A block in the heap: the addresses of its header and its code."""
        block = HEAP + (self._block << SEGMENT)
        address, start = block + 16, block + 16 + _BLOB
        size = _BLOB + len(content)
        count = (16 + size + (1 << SEGMENT) - 1) >> SEGMENT
        for number in range(count):
            self.word(self._segments + self._block + number, min(number, 0xFE), 1)
        self._block += count
        self.memory.pieces[HEAP][start - HEAP : start - HEAP + len(content)] = content
        self._field(block, "HeapBlock::Header", "_used", 1)
        fields = {"_name": self.put(name.encode() + b"\0"), "_size": size, "_data_offset": _BLOB + _CODE}
        if self._is_recent:
            fields["_code_offset"] = _BLOB
        else:
            fields |= {"_code_begin": start, "_code_end": start + _CODE}
        for field, value in fields.items():
            self._field(address, "CodeBlob", field, value)
        return address, start
