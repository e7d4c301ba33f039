"""The goroutines of a Go program, from its memory."""

from __future__ import annotations

import struct

import pytest

from perfpy.interpreters.goroutines import RUNNING, WAITING, GoLayout, GoProcess, Goroutine
from perfpy.interpreters.objects import UnreadableMemoryError
from tests.builders.python_memory import Heap

LAYOUT = GoLayout(allgs=0, reasons=0, pc=64, bp=104, status=144, reason=176, creator=280, start=288)


class Program(Heap):
    """The memory of a Go program."""

    def __init__(self, reasons: list[str]) -> None:
        super().__init__()
        texts = [(self.new(text.encode()), len(text)) for text in reasons]
        self.reasons = self.new(b"".join(struct.pack("<QQ", *text) for text in texts))
        self.allgs = self.new(24)
        self.all: list[int] = []

    def add(self, status: int, reason: int, callers: list[int], creator: int = 0x900, start: int = 0x800) -> int:
        """A goroutine that is parked at the first address."""
        frame = 0
        stack = self.new(16 * len(callers) + 16)
        for number in range(len(callers) - 1, 0, -1):  # the outermost frame is the highest
            at = stack + 16 * (number - 1)
            self.write(at, struct.pack("<QQ", frame, callers[number]))
            frame = at
        address = self.new(400)
        words = ((LAYOUT.pc, callers[0]), (LAYOUT.bp, frame), (LAYOUT.status, status), (LAYOUT.creator, creator), (LAYOUT.start, start))
        for offset, value in words:
            self.put(address + offset, value)
        self.put(address + LAYOUT.reason, reason, 1)
        self.all.append(address)
        self.write(self.allgs, struct.pack("<QQ", self.new(struct.pack(f"<{len(self.all)}Q", *self.all)), len(self.all)))
        return address

    def process(self) -> GoProcess:
        return GoProcess(self, LAYOUT._replace(allgs=self.allgs, reasons=self.reasons))


def test_goroutines_with_their_stacks_and_reasons() -> None:
    program = Program(["", "sleep", "chan receive"])
    program.add(WAITING, 1, [0x100, 0x200, 0x300])
    program.add(WAITING | 0x1000, 2, [0x100])  # the collector scans it
    program.add(RUNNING, 0, [0x100])
    program.add(6, 0, [0x100])  # it has ended
    assert program.process().goroutines() == [
        Goroutine(WAITING, "sleep", (0x100, 0x200, 0x300), 0x900, 0x800),
        Goroutine(WAITING, "chan receive", (0x100,), 0x900, 0x800),
        Goroutine(RUNNING, "", (), 0x900, 0x800),
    ]


def test_a_program_that_has_not_begun_has_none() -> None:
    assert Program([]).process().goroutines() == []


def test_misleading_memory_ends() -> None:
    program = Program(["sleep"])
    address = program.add(WAITING, 200, [0x100, 0x200, 0x300])  # a reason that does not exist
    (bp,) = struct.unpack("<Q", program.read(address + LAYOUT.bp, 8))
    program.put(bp, bp)  # a circle
    (goroutine,) = program.process().goroutines()
    assert (goroutine.reason, goroutine.addresses) == ("", (0x100, 0x200))
    program.write(program.allgs, struct.pack("<QQ", 1 << 40, 1 << 40))
    with pytest.raises(UnreadableMemoryError):
        program.process().goroutines()
    with pytest.raises(ValueError, match="structure of"):
        GoProcess(program, LAYOUT._replace(start=1 << 20))
