"""A program that counts the overflows of its own counter, by event-based branches: no signal, no system call, no kernel.

    python3 overflows.py [PERIOD [TURNS]]          on POWER8 or later

perfpy opens the event by the kernel's rules and tells whether it is on the PMU. The rest is the program's: a handler in
machine code (handler.S) to which the CPU branches when PMC1 overflows, and which counts that and sets PMC1 back.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys

import perfpy
from perfpy.errors import UsageError

CYCLES_ON_PMC1 = "r1001e:u"
FIRST_OVERFLOW = 0x80000000  # PMCs have 32 bits, and overflow when the highest one is set
ITERATIONS = 100_000  # of the loop in a turn

#: handler.S, assembled
CODE = bytearray.fromhex(
    "a6cb647c0100803806f884780100a038c607a578782b847ca6cb867c2000804ea6c3637ca6c28b7c600084788000a0387828847c00048464"
    "a6c38b7c2000804ea603697c000000422000804e0000006000006038a6cb667ca6c28b7c00808464a6c38b7c2000804e0000006000000060"
    "a6c2637c2000804e0000006000000060a6c26b7c2000804e000000600000006000fe61f808fe81f810fea1f82600607c18fe61f8a602687c"
    "20fe61f805009f42a602687c680063e8000083e801008438000083f8080083e8a6c3837ca6c28b7c600084788000a0387828847c00048464"
    "a6c38b7c01008038a6cb827cc6078478a6cb807c20fe61e8a603687c18fe61e820f16f7c10fea1e808fe81e800fe61e82409004c00004260"
    "0000000000000000"
)
DATA = 0x118  # in CODE: the address of two numbers, overflows and what PMC1 begins with
BEGIN, ARM, TURN, END, PMC1, HANDLER = 0x00, 0x20, 0x40, 0x50, 0x70, 0x90


class Program:
    """The machine code, where it can run, and its two numbers."""

    def __init__(self, period: int) -> None:
        self._numbers = (ctypes.c_uint64 * 2)(0, FIRST_OVERFLOW - period)
        CODE[DATA : DATA + 8] = ctypes.addressof(self._numbers).to_bytes(8, "little")
        fd = os.memfd_create("ebb")
        os.write(fd, CODE)
        libc = ctypes.CDLL(None)
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
        self.address = libc.mmap(None, mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_EXEC, mmap.MAP_PRIVATE, fd, 0)
        os.close(fd)

    def call(self, offset: int, *arguments: int) -> int:
        """One of its functions."""
        function = ctypes.CFUNCTYPE(ctypes.c_uint64, *[ctypes.c_uint64] * len(arguments))(self.address + offset)
        return int(function(*arguments))

    def count(self, turns: int) -> int:
        """The overflows in a loop; the event is on the PMU. left: what PMC1 has counted after the last of them."""
        self.call(BEGIN, self.address + HANDLER)
        self.call(ARM, self._numbers[1])
        for _ in range(turns):
            self.call(TURN, ITERATIONS)
        self.call(END)
        self.left = self.call(PMC1) - self._numbers[1]
        return self._numbers[0]


def main(period: int = 100_000, turns: int = 50) -> None:
    """Count, and say what came of it."""
    program = Program(period)
    with perfpy.Counter.open(CYCLES_ON_PMC1, ebb=True, disabled=1) as counter:
        counter.enable()  # raises NotScheduledError where another event holds the PMU
        overflows = program.count(turns)
        try:
            counter.read()
        except UsageError as reason:
            print(f"read: {reason}")
    print(f"overflows: {overflows} of {period} cycles each, and {program.left} cycles more")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
