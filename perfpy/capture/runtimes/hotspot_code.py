"""Machine code that HotSpot generated: an address -> the code blob that contains it, and the methods inlined there.

A blob is copied with its debug information when it is first seen, so that it is available after the process has ended. Layout:
OpenJDK, heap.cpp (which segment of the heap belongs to which block), nmethod.hpp, pcDesc.hpp, debugInfoRec.cpp (scopes: offset
of the caller's scope, number of the method, bytecode, ...), unsigned5.hpp (numbers). OpenJDK 17 and 25 were tried; the changes
of 20 and 23 are recognized by the fields.
"""

from __future__ import annotations

import bisect
import struct
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from perfpy.capture.process_memory import ProcessMemory


_MOST_HEAPS: Final = 16
_MOST_HOPS: Final = 1 << 14
_FREE: Final = 0xFF
_HEADER: Final = 512  # bytes; larger than any version's nmethod
_LARGEST: Final = 1 << 26  # bytes of one blob with its debug information
_DEEPEST: Final = 128  # scopes
_LOW, _GROUP_BITS, _MOST_BYTES = 192, 6, 5  # of numbers: see unsigned5.hpp
_NMETHODS: Final = ("nmethod", "native nmethod")
_INTERPRETER: Final = "Interpreter"


class Scope(NamedTuple):
    """A method at an address, and the index of its current bytecode. method is the pointer."""

    method: int
    bci: int


class CodeBlob(NamedTuple):
    """A piece of generated code.

    Attributes:
        frame_size: words of its frames, 0 if there are none.
        complete: the offset from which frames are complete (-1: unknown).
        method: 0 for stubs.
        pcs: addresses with debug information, relative to the start.
        offsets: of their scopes.
    """

    start: int
    end: int
    name: str
    frame_size: int = 0
    complete: int = -1
    method: int = 0
    pcs: tuple[int, ...] = ()
    offsets: tuple[int, ...] = ()
    scopes: bytes = b""
    methods: tuple[int, ...] = ()

    @property
    def is_interpreter(self) -> bool:
        """Whether it is the interpreter."""
        return self.name == _INTERPRETER

    def scopes_at(self, address: int) -> list[Scope]:
        """Return the methods at an address, innermost first; calls are described by their return address."""
        if not self.method:
            return []
        row = bisect.bisect_left(self.pcs, address - self.start)
        if row < len(self.pcs) and self.offsets[row]:
            for excess in (1, 0):
                scopes = self._decode_scopes(self.offsets[row], excess)
                if scopes and scopes[-1].method == self.method:
                    return scopes
        return [Scope(self.method, -1)]

    def _decode_scopes(self, offset: int, excess: int) -> list[Scope]:
        scopes: list[Scope] = []
        while offset and len(scopes) < _DEEPEST:
            values = numbers(self.scopes, offset, 3, excess)
            if len(values) < 3 or not 0 < values[1] <= len(self.methods):
                return []
            scopes.append(Scope(self.methods[values[1] - 1], values[2] - 1))
            offset = values[0]
        return scopes


def numbers(data: bytes, index: int, count: int, excess: int) -> list[int]:
    """Decode consecutive numbers. excess is 1 if no byte of them is 0 (since 20)."""
    values: list[int] = []
    for _ in range(count):
        value = 0
        for group in range(_MOST_BYTES):
            if index >= len(data) or data[index] < excess:
                return values
            byte = data[index] - excess
            value += byte << (_GROUP_BITS * group)
            index += 1
            if byte < _LOW - (1 if excess else 0):
                break
        values.append(value & 0xFFFFFFFF)
    return values


class _Heap(NamedTuple):
    low: int
    high: int
    segments: int  # the address of the map of segments
    shift: int


class CompiledCode:
    """The code of one JVM. Raises LookupError or OSError if this version lacks a field, or the memory is not readable yet."""

    def __init__(self, memory: ProcessMemory, vm: VmStructs) -> None:
        self._memory = memory
        self._heaps = self._read_heaps(vm)
        if not self._heaps:
            raise OSError("no code yet")
        self.low, self.high = min(heap.low for heap in self._heaps), max(heap.high for heap in self._heaps)
        self._block = vm.size("HeapBlock")
        self._used = vm.field(("HeapBlock::Header", "_used"))
        self._layout = _BlobLayout(vm)
        self._blobs: dict[int, CodeBlob] = {}
        self._starts: list[int] = []
        self._nowhere: set[int] = set()  # addresses without code, for now

    def _read_heaps(self, vm: VmStructs) -> list[_Heap]:
        memory = self._memory
        listed = memory.number(vm.field(("CodeCache", "_heaps")).offset)
        count = memory.number(listed + vm.field(("GrowableArrayBase", "_len"), ("GenericGrowableArray", "_len")).offset, 4)
        rows = memory.number(listed + vm.field(("GrowableArray<int>", "_data")).offset)
        low, high = vm.field(("VirtualSpace", "_low_boundary")).offset, vm.field(("VirtualSpace", "_high_boundary")).offset
        mapped, segments = vm.field(("CodeHeap", "_memory")).offset, vm.field(("CodeHeap", "_segmap")).offset
        shift = vm.field(("CodeHeap", "_log2_segment_size")).offset
        heaps = []
        for number in range(min(count, _MOST_HEAPS)):
            heap = memory.number(rows + 8 * number)
            first, end = memory.number(heap + mapped + low), memory.number(heap + mapped + high)
            heaps.append(_Heap(first, end, memory.number(heap + segments + low), memory.number(heap + shift, 4) & 31))
        return [heap for heap in heaps if heap.low < heap.high]

    def find(self, address: int) -> CodeBlob | None:
        """Return the blob that contains an address; None if there is none."""
        row = bisect.bisect_right(self._starts, address) - 1
        if row >= 0:
            blob = self._blobs[self._starts[row]]
            if blob.start <= address < blob.end:
                return blob
        if address in self._nowhere:
            return None
        try:
            new_blob = self._read(address)
        except (OSError, ValueError, struct.error):
            new_blob = None
        if new_blob is None or not new_blob.start <= address < new_blob.end:
            self._nowhere.add(address)
            return None
        first = bisect.bisect_left(self._starts, new_blob.start)
        while first < len(self._starts) and self._starts[first] < new_blob.end:
            self._forget(self._blobs[self._starts[first]])
        bisect.insort(self._starts, new_blob.start)
        self._blobs[new_blob.start] = new_blob
        return new_blob

    def forget_changed(self) -> None:
        """Drop blobs whose code was replaced, so that they are read again."""
        self._nowhere.clear()
        for blob in [*self._blobs.values()]:
            if blob.method and not self._layout.is_still(self._memory, blob):
                self._forget(blob)

    def _forget(self, blob: CodeBlob) -> None:
        del self._blobs[blob.start]
        self._starts.remove(blob.start)

    def _read(self, address: int) -> CodeBlob | None:
        heap = next((heap for heap in self._heaps if heap.low <= address < heap.high), None)
        if heap is None:
            return None
        segment = (address - heap.low) >> heap.shift
        for _ in range(_MOST_HOPS):
            back = self._memory.number(heap.segments + segment, 1)
            if back == 0 or segment < back:
                break
            if back == _FREE:
                return None
            segment -= back
        block = heap.low + (segment << heap.shift)
        if not self._memory.number(block + self._used.offset, 1):
            return None
        return self._layout.read(self._memory, block + self._block)


class _BlobLayout:
    """The layout of blobs."""

    def __init__(self, vm: VmStructs) -> None:
        field, has = vm.field, vm.has
        self._name, self._size = field(("CodeBlob", "_name")), field(("CodeBlob", "_size"))
        self._code_begin, self._code_end = has(("CodeBlob", "_code_begin")), has(("CodeBlob", "_code_end"))
        self._data = field(("CodeBlob", "_data_offset"))
        self._frame_size, self._complete = field(("CodeBlob", "_frame_size")), field(("CodeBlob", "_frame_complete_offset"))
        self._code_offset = None if self._code_begin else field(("CodeBlob", "_code_offset"))
        self._method = field(("nmethod", "_method"), ("CompiledMethod", "_method"))
        self._pcs = field(("nmethod", "_scopes_pcs_offset"))
        self._beside = has(("nmethod", "_immutable_data"))  # since 23
        self._scopes = field(("nmethod", "_scopes_data_offset")) if self._beside else None
        self._scopes_begin = None if self._beside else field(("nmethod", "_scopes_data_begin"), ("CompiledMethod", "_scopes_data_begin"))
        self._pcs_end = None if self._beside else field(("nmethod", "_dependencies_offset"))
        self._beside_size = field(("nmethod", "_immutable_data_size")) if self._beside else None
        self._changing = has(("CodeBlob", "_mutable_data"))  # since 25
        self._changing_size = has(("CodeBlob", "_mutable_data_size"))
        self._relocations = has(("CodeBlob", "_relocation_size"))
        self._metadata = has(("nmethod", "_metadata_offset"))
        self._desc = [field(("PcDesc", name)) for name in ("_pc_offset", "_scope_decode_offset")]
        self._desc_size = vm.size("PcDesc")
        self._compilation = has(("nmethod", "_compile_id"))
        self._methods_of: dict[int, tuple[int, int]] = {}

    def is_still(self, memory: ProcessMemory, blob: CodeBlob) -> bool:
        """Whether a blob is unchanged; True if the process has ended."""
        if blob.start not in self._methods_of or self._compilation is None:
            return True
        address, number = self._methods_of[blob.start]
        data = memory.some(address + self._compilation.offset, 4)
        return len(data) < 4 or int.from_bytes(data, "little") == number

    def read(self, memory: ProcessMemory, address: int) -> CodeBlob:
        """Return the blob with this header."""
        data = memory.read(address, _HEADER)
        name = memory.text(self._name.of(data))
        size = self._size.of(data)
        if self._code_begin and self._code_end:
            start, end = self._code_begin.of(data), self._code_end.of(data)
        else:
            assert self._code_offset is not None
            start, end = address + self._code_offset.of(data), address + self._data.of(data)
        if not 0 < size <= _LARGEST or not address <= start < end <= address + size:
            raise ValueError("not a piece of code")
        method = self._method.of(data) if name in _NMETHODS else 0
        frame = self._frame_size.of(data), self._complete.of(data)
        if not method:
            return CodeBlob(start, end, name, *frame)
        if self._compilation:
            self._methods_of[start] = address, self._compilation.of(data) & 0xFFFFFFFF
        pcs, scopes = self._debug_information(memory, address, data)
        described = sorted(self._scope_offsets(pcs))
        return CodeBlob(
            start,
            end,
            name,
            *frame,
            method,
            tuple(pc for pc, _ in described),
            tuple(offset for _, offset in described),
            scopes,
            self._methods(memory, address, data, size),
        )

    def _scope_offsets(self, pcs: bytes) -> Iterator[tuple[int, int]]:
        """Yield the offsets of addresses, and of their scopes."""
        size = self._desc_size
        if not all(0 <= field.offset <= size - 4 for field in self._desc):
            raise ValueError("a field outside of its struct")
        rows = np.frombuffer(pcs, np.uint8)[: len(pcs) - len(pcs) % size].reshape(-1, size)
        pc, scope = (np.ascontiguousarray(rows[:, field.offset : field.offset + 4]).view(np.int32)[:, 0] for field in self._desc)
        return zip(pc.tolist(), scope.tolist(), strict=True)

    def _debug_information(self, memory: ProcessMemory, address: int, data: bytes) -> tuple[bytes, bytes]:
        """Return the descriptions of addresses, and the scopes."""
        if self._beside and self._scopes and self._beside_size:
            base, size = self._beside.of(data), self._beside_size.of(data)
            first, middle, end = self._pcs.of(data), self._scopes.of(data), size
            return _between(memory, base, first, middle), _between(memory, base, middle, end)
        assert self._scopes_begin is not None
        assert self._pcs_end is not None
        first, end = self._pcs.of(data), self._pcs_end.of(data)
        scopes = self._scopes_begin.of(data) - address
        return _between(memory, address, first, end), _between(memory, address, scopes, first)

    def _methods(self, memory: ProcessMemory, address: int, data: bytes, size: int) -> tuple[int, ...]:
        """Return the methods by their number in scopes."""
        if self._changing and self._changing_size and self._relocations:
            base, first, end = self._changing.of(data), self._relocations.of(data), self._changing_size.of(data)
        elif self._beside and self._metadata:
            base, first, end = address, self._data.of(data) + self._metadata.of(data), size
        elif self._metadata and self._scopes_begin:
            base, first, end = address, self._metadata.of(data), self._scopes_begin.of(data) - address
        else:
            return ()
        words = _between(memory, base, first, end)
        return struct.unpack_from(f"={len(words) >> 3}Q", words)


def _between(memory: ProcessMemory, base: int, first: int, end: int) -> bytes:
    if not 0 <= first <= end <= _LARGEST:
        raise ValueError("a piece of code that is not whole")
    return memory.read(base + first, end - first) if end > first else b""


# The tables of HotSpot's data structures, which libjvm.so exports for tools: offsets, sizes, addresses. Layout: OpenJDK, vmStructs.cpp:
# gHotSpotVMStructs is an array of entries, ended by one without a type name; further variables have the size of an entry and the offsets
# in it.

VARIABLES: Final = "gHotSpotVM"
_MOST_ENTRIES: Final = 1 << 14
_LARGEST_ENTRY: Final = 1 << 10
_BLOCK: Final = 1 << 16
_WORD: Final = struct.Struct("=Q")
_INT: Final = struct.Struct("=i")
_SIZES: Final = {"u1": 1, "u2": 2, "int16_t": 2, "bool": 1}
_SIGNED: Final = ("int", "int16_t")


class StructField(NamedTuple):
    """A field of a struct.

    Attributes:
        offset: in its struct; the address for a static field.
        size: bytes.
        is_signed: whether it may be negative.
    """

    offset: int
    size: int
    is_signed: bool

    @classmethod
    def of_type(cls, offset: int, kind: str) -> StructField:
        """Return a field of a C++ type."""
        size = 8 if kind.endswith("*") or kind in ("address", "size_t") else _SIZES.get(kind, 4)
        return cls(offset, size, kind in _SIGNED)

    def of(self, data: bytes) -> int:
        """Return its value in the bytes of a struct. Raises ValueError if they are too short."""
        if not 0 <= self.offset <= len(data) - self.size:
            raise ValueError("a field outside of its struct")
        return int.from_bytes(data[self.offset : self.offset + self.size], "little", signed=self.is_signed)


class VmStructs:
    """All fields, and the sizes of all types. addresses has the exported variables."""

    def __init__(self, memory: ProcessMemory, addresses: Mapping[str, int]) -> None:
        self._memory = memory
        self._addresses = addresses
        self._fields: dict[tuple[str, str], StructField] = {}
        self._sizes: dict[str, int] = {}
        for entry, offsets in self._entries("Structs", "Struct", ("TypeName", "FieldName", "TypeString", "IsStatic", "Offset", "Address")):
            type_name, field, kind, static, offset, address = offsets
            is_static = _INT.unpack_from(entry, static)[0]
            value = _WORD.unpack_from(entry, address if is_static else offset)[0]
            self._fields[self._text(entry, type_name), self._text(entry, field)] = StructField.of_type(value, self._text(entry, kind))
        for entry, (type_name, size) in self._entries("Types", "Type", ("TypeName", "Size")):
            self._sizes[self._text(entry, type_name)] = _WORD.unpack_from(entry, size)[0]

    def field(self, *names: tuple[str, str]) -> StructField:
        """Return the first field (struct, name) that this version has. Raises LookupError if it has none of them."""
        field = self.has(*names)
        if field is None:
            raise LookupError("::".join(names[0]))
        return field

    def has(self, *names: tuple[str, str]) -> StructField | None:
        """Return the same; None if this version has none of them."""
        return next((self._fields[name] for name in names if name in self._fields), None)

    def size(self, type_name: str) -> int:
        """Return the size of a type. Raises LookupError."""
        return self._sizes[type_name]

    def _text(self, entry: bytes, begin: int) -> str:
        return self._memory.text(_WORD.unpack_from(entry, begin)[0])

    def _entries(self, table: str, kind: str, names: tuple[str, ...]) -> Iterator[tuple[bytes, tuple[int, ...]]]:
        """Yield the bytes of each entry, and the offsets in it."""
        start, size = self._variable(table), self._variable(f"{kind}EntryArrayStride")
        offsets = tuple(self._variable(f"{kind}Entry{name}Offset") for name in names)
        if not max(offsets) + 8 <= size <= _LARGEST_ENTRY:
            raise LookupError(f"{VARIABLES}{table}")
        data = b""
        for number in range(_MOST_ENTRIES):
            if len(data) < (number + 1) * size:
                data += self._memory.some(start + len(data), _BLOCK)
            entry = data[number * size : (number + 1) * size]
            if len(entry) < size or not _WORD.unpack_from(entry, offsets[0])[0]:
                return
            yield entry, offsets

    def _variable(self, name: str) -> int:
        return self._memory.number(self._addresses[f"{VARIABLES}{name}"])
