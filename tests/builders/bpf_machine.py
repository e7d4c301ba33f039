"""A BPF machine for programs that call the helpers of the frame program: runs their instructions on memory made by hand."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence  # noqa: TC003  # for the annotations of a NamedTuple
from typing import TYPE_CHECKING, NamedTuple

from perfpy.interpreters.objects import UnreadableMemoryError

if TYPE_CHECKING:
    from perfpy.interpreters.objects import Memory

MASK = (1 << 64) - 1
CONTEXT, STACK, SCRATCH, ENTRY = 0x1000, 0x20000, 0x100000, 0x300000
FOUND = 0x1000000  # values of further maps
WIDTHS = {0x61: 4, 0x63: 4, 0x79: 8, 0x7B: 8}
MOST_STEPS = 1 << 18


class Output(NamedTuple):
    """A record that the program put into the ring, and the flags of the call."""

    record: bytes
    flags: int


class BpfMachine:
    """One CPU.

    Args:
        maps: the descriptors of the maps of threads, of scratch memory and of the ring.
        threads: the values of the map of threads by tid.
        scratch_size: bytes of a value of the map of scratch memory.
        memory: the user's.
        tables: further maps: descriptor -> bytes of a key and of a value.

    Attributes:
        values: descriptor -> the contents of a further map.
        most: entries of each further map.
    """

    def __init__(
        self,
        maps: Sequence[int],
        threads: Mapping[int, bytes],
        scratch_size: int,
        memory: Memory,
        tables: Mapping[int, tuple[int, int]] | None = None,
    ) -> None:
        self._tables = tables or {}
        self.values: dict[int, dict[bytes, bytearray]] = {descriptor: {} for descriptor in self._tables}
        self.most = 1 << 20
        self.random = 0
        self._maps = maps
        self._threads = threads
        self._memory = memory
        self._regions = {CONTEXT: bytearray(168), STACK - 512: bytearray(512), SCRATCH: bytearray(scratch_size)}
        self.now = 1_000
        self.pid, self.tid = 7, 77
        self.outputs: list[Output] = []
        self.entry = b""

    def run(self, program: bytes, stack_pointer: int = 0, registers_at: Mapping[int, int] | None = None) -> int:
        """Run a program for one sample; return its result. registers_at: offset in the context -> value of a register."""
        for offset, value in {152: stack_pointer, **(registers_at or {})}.items():
            struct.pack_into("=Q", self._regions[CONTEXT], offset, value)
        code = [struct.unpack_from("=BBhi", program, offset) for offset in range(0, len(program), 8)]
        registers = [0] * 11
        registers[1], registers[10] = CONTEXT, STACK
        position = 0
        for _ in range(MOST_STEPS):
            operation, both, offset, immediate = code[position]
            target, source = both & 15, both >> 4
            position += 1
            if operation == 0x95:
                self.entry = bytes(self._regions.get(ENTRY, b""))
                return registers[0]
            if operation == 0x18:
                registers[target] = immediate
                position += 1
            elif operation == 0x85:
                registers[0] = self._call(immediate, registers[1:6]) & MASK
            elif operation in (0x61, 0x79):
                registers[target] = int.from_bytes(self._bytes(registers[source] + offset, WIDTHS[operation]), "little")
            elif operation in (0x63, 0x7B):
                self._write(registers[target] + offset, registers[source].to_bytes(8, "little")[: WIDTHS[operation]])
            elif operation in (0x05, 0xE5, 0x15, 0x55, 0x35, 0x25, 0xAD, 0xA5, 0x65):
                is_taken = {
                    0x05: True,
                    0xE5: False,  # may_goto, which the kernel takes after some thousand rounds
                    0x15: registers[target] == immediate,
                    0x55: registers[target] != immediate,
                    0x35: registers[target] >= immediate,
                    0x25: registers[target] > immediate,
                    0xAD: registers[target] < registers[source],
                    0xA5: registers[target] < immediate,
                    0x65: (registers[target] ^ 1 << 63) > (immediate ^ 1 << 63),
                }[operation]
                position += offset if is_taken else 0
            else:
                registers[target] = _computed(operation, registers[target], registers[source], immediate)
        raise AssertionError("the program does not end")

    def _call(self, function: int, arguments: list[int]) -> int:
        first, second, third, fourth, _ = arguments
        if function in (1, 2, 3) and first in self._tables:
            return self._on_table(function, first, second, third)
        if function == 7:
            return self.random
        if function == 1:
            key = int.from_bytes(self._bytes(second, 4), "little")
            if first == self._maps[1]:
                return SCRATCH
            if key not in self._threads:
                return 0
            self._regions[ENTRY] = bytearray(self._threads[key])
            return ENTRY
        if function == 5:
            return self.now
        if function == 8:
            return 0
        if function == 14:
            return self.pid << 32 | self.tid
        if function == 112:
            try:
                self._write(first, self._memory.read(third, second))
            except UnreadableMemoryError:
                self._write(first, bytes(second))
                return -14
            return 0
        assert function == 130
        assert first == self._maps[2]
        self.outputs.append(Output(bytes(self._bytes(second, third)), fourth))
        return 0

    def _on_table(self, function: int, descriptor: int, key_at: int, value_at: int) -> int:
        """Look up, set or delete an entry of a further map."""
        (key_size, value_size), values = self._tables[descriptor], self.values[descriptor]
        key = self._bytes(key_at, key_size)
        if function == 1:
            if key not in values:
                return 0
            address = FOUND + descriptor * 0x10000
            self._regions[address] = values[key]
            return address
        if function == 2:
            if key not in values and len(values) >= self.most:
                return -7
            values[key] = bytearray(self._bytes(value_at, value_size))
        else:
            values.pop(key, None)
        return 0

    def _bytes(self, address: int, size: int) -> bytes:
        begin, region = self._region(address, size)
        return bytes(region[address - begin : address - begin + size])

    def _write(self, address: int, data: bytes) -> None:
        begin, region = self._region(address, len(data))
        region[address - begin : address - begin + len(data)] = data

    def _region(self, address: int, size: int) -> tuple[int, bytearray]:
        for begin, region in self._regions.items():
            if begin <= address and address + size <= begin + len(region):
                return begin, region
        raise AssertionError(f"{size} bytes at {address:#x} are out of bounds")


def _computed(operation: int, target: int, source: int, immediate: int) -> int:
    results = {
        0xBF: source,
        0xB7: immediate,
        0x0F: target + source,
        0x1F: target - source,
        0x2F: target * source,
        0x07: target + immediate,
        0x57: target & immediate,
        0x67: target << (immediate & 63),
    }
    return results[operation] & MASK
