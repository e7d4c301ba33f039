"""One running JVM: convert addresses of callchains to addresses of bytecodes.

An interpreted frame, and a compiled one with its inlined methods, become one address of a bytecode for each method; other frames
are unchanged. Layout of an interpreter's frame (frame_x86.hpp), relative to the address in %rbp: 0 the caller's %rbp, +8 the
return address, -24 the method, -64 the bytecode.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.capture.runtimes.hotspot.compiled_code import CompiledCode
from perfpy.capture.runtimes.hotspot.frame_rules import rules_at
from perfpy.capture.runtimes.hotspot.methods import JavaMethod, Methods
from perfpy.capture.runtimes.hotspot.process_memory import ProcessMemory
from perfpy.capture.runtimes.hotspot.vm_structs import VARIABLES, VmStructs
from perfpy.symbols.files import elf, live_process

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from perfpy.capture.runtimes.hotspot.compiled_code import CodeBlob
    from perfpy.kernel.procfs import ProcFs
    from perfpy.unwind.rules import FrameRules

LIBRARY: Final = "/libjvm.so"
_WORD: Final = 8
_METHOD: Final = -3  # words from the frame pointer
_BYTECODE: Final = -8
_MOST_ANSWERS: Final = 1 << 18


class JavaProcess:
    """A JVM, by its memory and the exported addresses of libjvm.so. Raises OSError or LookupError if it is not ready.

    low and high are the bounds of its code.
    """

    def __init__(self, memory: ProcessMemory, exported: Mapping[str, int]) -> None:
        self._memory = memory
        vm = VmStructs(memory, exported)
        self._code = CompiledCode(memory, vm)
        self._methods = Methods(memory, vm)
        self.low, self.high = self._code.low, self._code.high
        self._answers: dict[int, list[int]] = {}
        self._met: dict[int, JavaMethod] = {}
        self._reported: set[int] = set()

    @classmethod
    def of(cls, pid: int, library: tuple[int, str]) -> JavaProcess:
        """Open the JVM of a pid, with its mapped library."""
        memory = ProcessMemory(pid)
        try:
            return cls(memory, _exported_addresses(pid, library))
        except BaseException:
            memory.close()
            raise

    def close(self) -> None:
        """Close its memory."""
        self._memory.close()

    def refresh(self) -> None:
        """Drop cached failures and answers, because code may have changed."""
        self._code.forget_changed()
        self._methods.forget_failures()
        self._answers.clear()

    def look(self, stack: NDArray[np.uint64], stack_pointer: int) -> None:
        """Read the code and methods that a stack leads to while the process exists; its frames are resolved later."""
        rows = np.flatnonzero((stack >= self.low) & (stack < self.high))
        for row, word in zip(rows.tolist(), stack[rows].tolist(), strict=True):
            if word in self._answers:
                continue
            blob = self._code.find(word)
            if blob is not None and blob.is_interpreter and row:
                slot = ((int(stack[row - 1]) - stack_pointer) >> 3) + _METHOD
                if 0 <= slot < len(stack):
                    self._methods.find(int(stack[slot]))
            elif blob is not None and blob.method:
                self._compiled_bytecodes(blob, word)

    def name_methods(self, chain: Sequence[int], stack: NDArray[np.uint64]) -> list[int]:
        """Return a callchain with a frame for each method. chain is innermost first, callers one byte before the return address."""
        addresses: list[int] = []
        row = 0
        for number, value in enumerate(chain):
            address = value + 1 if number else value
            blob = self._code.find(value) if self.low <= value < self.high and address not in self._answers else None
            if address in self._answers:
                addresses += self._answers[address] or [value]
            elif blob is None:
                addresses.append(value)
            elif blob.method:
                addresses += self._compiled_bytecodes(blob, address) or [value]
            elif blob.is_interpreter and number + 1 < len(chain):
                address, row = self._interpreted_bytecode(stack, row, chain[number + 1] + 1)
                addresses.append(address or value)
            else:
                addresses.append(value)
        return addresses

    def rules(self, addresses: Sequence[int]) -> list[FrameRules | None]:
        """Return the unwind rules for addresses in its code; None for unknown ones."""
        blobs = [self._code.find(address) for address in addresses]
        return [None if blob is None else rules_at(blob, one, self._memory) for blob, one in zip(blobs, addresses, strict=True)]

    def new_methods(self) -> list[JavaMethod]:
        """Return the methods found since the last call."""
        methods = [method for method in self._met.values() if method.begin not in self._reported]
        self._reported.update(self._met)
        self._met = {}
        return methods

    def _compiled_bytecodes(self, blob: CodeBlob, address: int) -> list[int]:
        """Return the bytecodes at an address, innermost first."""
        if address not in self._answers:
            if len(self._answers) >= _MOST_ANSWERS:
                self._answers.clear()
            scopes = [(self._methods.find(scope.method), scope.bci) for scope in blob.scopes_at(address)]
            self._answers[address] = [self._bytecode(method, bci) for method, bci in scopes if method is not None]
        return self._answers[address]

    def _interpreted_bytecode(self, stack: NDArray[np.uint64], row: int, return_address: int) -> tuple[int, int]:
        """Return the bytecode of the next interpreted frame on a stack, 0 if there is none; and where to search for the following one.

        A frame is found by its return address, and confirmed if the words below it are a method and one of its bytecodes.
        """
        for slot in (np.flatnonzero(stack[row:] == np.uint64(return_address)) + row).tolist():
            frame = slot - 1
            if frame + _BYTECODE >= 0:
                method = self._methods.find(int(stack[frame + _METHOD]))
                bytecode = int(stack[frame + _BYTECODE])
                if method is not None and method.holds(bytecode):
                    return self._bytecode(method, bytecode - method.code if bytecode else 0), slot + 1
        return 0, row

    def _bytecode(self, method: JavaMethod, bci: int) -> int:
        self._met[method.begin] = method
        return method.address(bci)


def library_of(pid: int, procfs: ProcFs) -> tuple[int, str] | None:
    """Return the address and path of a process's libjvm.so; None if it has none."""
    try:
        for mapping in procfs.maps(pid, data=True):
            if mapping.offset == 0 and mapping.path.endswith(LIBRARY):
                return mapping.start, mapping.path
    except OSError:
        pass
    return None


def _exported_addresses(pid: int, library: tuple[int, str]) -> dict[str, int]:
    """Return the addresses of the variables that lead to the tables."""
    base, name = library
    path = live_process.seen_by(pid, name)
    try:
        file = elf.ElfFile(path)
        section = file.section(".dynsym", elf.SHT_DYNSYM)
        if section is None:
            raise LookupError(f"{os.path.basename(path)} exports nothing")
        entries, strings = file.symbols(section), bytes(file.strings(section))
    except elf.BadElfError as error:
        raise LookupError(str(error)) from None
    addresses = {}
    for begin in _name_offsets(strings):
        end = strings.find(b"\0", begin)
        rows = np.flatnonzero(entries["name"] == begin)
        if len(rows):
            addresses[strings[begin:end].decode()] = base + int(entries["value"][rows[0]])
    return addresses


def _name_offsets(strings: bytes) -> list[int]:
    """Return the offsets of these variables' names in a string table."""
    prefix, index = b"\0" + VARIABLES.encode(), 0
    offsets: list[int] = []
    while (index := strings.find(prefix, index)) >= 0 and len(offsets) < 64:
        offsets.append(index + 1)
        index += 1
    return offsets
