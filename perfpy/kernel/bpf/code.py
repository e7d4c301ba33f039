"""BPF programs as instructions: a small assembler with labels.

Layout of an instruction, struct bpf_insn in include/uapi/linux/bpf.h: { u8 code; u4 dst, src; s16 offset; s32 immediate }.
"""

from __future__ import annotations

import struct


class BpfCode:
    """The instructions of one program. Registers are numbers from 0 to 10; 10 points to the end of the stack."""

    def __init__(self) -> None:
        self._code: list[tuple[int, int, int, int, int]] = []
        self._labels: dict[str, int] = {}
        self._jumps: dict[int, str] = {}

    def emit(self, code: int, dst: int = 0, src: int = 0, offset: int = 0, immediate: int = 0) -> None:
        """Append an instruction."""
        self._code.append((code, dst, src, offset, immediate))

    def label(self, name: str) -> None:
        """Name the next instruction."""
        self._labels[name] = len(self._code)

    def move(self, dst: int, src: int) -> None:
        """Copy a register."""
        self.emit(0xBF, dst, src)

    def set(self, dst: int, value: int) -> None:
        """Set a register to a number."""
        self.emit(0xB7, dst, immediate=value)

    def add(self, dst: int, src: int) -> None:
        """Add a register."""
        self.emit(0x0F, dst, src)

    def subtract(self, dst: int, src: int) -> None:
        """Subtract a register."""
        self.emit(0x1F, dst, src)

    def multiply(self, dst: int, src: int) -> None:
        """Multiply by a register."""
        self.emit(0x2F, dst, src)

    def mask(self, dst: int, value: int) -> None:
        """Keep the bits of a number."""
        self.emit(0x57, dst, immediate=value)

    def add_number(self, dst: int, value: int) -> None:
        """Add a number."""
        self.emit(0x07, dst, immediate=value)

    def load(self, dst: int, src: int, offset: int) -> None:
        """Load a 64-bit word."""
        self.emit(0x79, dst, src, offset)

    def load_half(self, dst: int, src: int, offset: int) -> None:
        """Load 32 bits; the upper half becomes 0."""
        self.emit(0x61, dst, src, offset)

    def store(self, dst: int, offset: int, src: int) -> None:
        """Store a 64-bit word."""
        self.emit(0x7B, dst, src, offset)

    def store_half(self, dst: int, offset: int, src: int) -> None:
        """Store the low 32 bits of a register."""
        self.emit(0x63, dst, src, offset)

    def load_map(self, dst: int, descriptor: int) -> None:
        """Load the address of a map."""
        self.emit(0x18, dst, 1, immediate=descriptor)  # BPF_PSEUDO_MAP_FD
        self.emit(0)

    def call(self, function: int) -> None:
        """Call a function of the kernel (enum bpf_func_id)."""
        self.emit(0x85, immediate=function)

    def end(self) -> None:
        """Return register 0."""
        self.emit(0x95)

    def jump(self, label: str) -> None:
        """Jump to a label."""
        self._jumps[len(self._code)] = label
        self.emit(0x05)

    def jump_if_equal(self, dst: int, value: int, label: str) -> None:
        """Jump if a register has this value."""
        self._jumps[len(self._code)] = label
        self.emit(0x15, dst, immediate=value)

    def jump_if_other(self, dst: int, value: int, label: str) -> None:
        """Jump if a register has another value."""
        self._jumps[len(self._code)] = label
        self.emit(0x55, dst, immediate=value)

    def jump_if_at_least(self, dst: int, value: int, label: str) -> None:
        """Jump if a register is not below a number, without sign."""
        self._jumps[len(self._code)] = label
        self.emit(0x35, dst, immediate=value)

    def jump_if_above(self, dst: int, value: int, label: str) -> None:
        """Jump if a register is above a number, without sign."""
        self._jumps[len(self._code)] = label
        self.emit(0x25, dst, immediate=value)

    def jump_if_below(self, dst: int, src: int, label: str) -> None:
        """Jump if a register is below another, without sign."""
        self._jumps[len(self._code)] = label
        self.emit(0xAD, dst, src)

    def jump_if_below_number(self, dst: int, value: int, label: str) -> None:
        """Jump if a register is below a number, without sign."""
        self._jumps[len(self._code)] = label
        self.emit(0xA5, dst, immediate=value)

    def jump_if_negative(self, dst: int, label: str) -> None:
        """Jump if a register is negative."""
        self._jumps[len(self._code)] = label
        self.emit(0xC5, dst)

    def jump_if_positive(self, dst: int, label: str) -> None:
        """Jump if a register is above 0, with sign."""
        self._jumps[len(self._code)] = label
        self.emit(0x65, dst)

    def bytes(self) -> bytes:
        """Return the program."""
        encoded = b""
        for number, (code, dst, src, offset, immediate) in enumerate(self._code):
            distance = self._labels[self._jumps[number]] - number - 1 if number in self._jumps else offset
            encoded += struct.pack("=BBhi", code, dst | src << 4, distance, immediate)
        return encoded
