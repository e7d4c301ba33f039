"""Java in samples that are unwound while recording: callchains with interpreted and inlined methods, and the data that readers need.

Frames of such methods become addresses of bytecodes. The memory of bytecodes gets mapping records, because the kernel does not
report memory without machine code, and the methods get lines of perf maps.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.abi import records
from perfpy.abi.columns import Ragged, distinct
from perfpy.abi.flags import CONTEXT_MAX, CONTEXT_USER, MISC_MMAP_DATA, NATIVE_ENDIAN, RecordType
from perfpy.abi.framing import HEADER
from perfpy.abi.records import NO_ID, IdLayout, code_mapping
from perfpy.abi.sample_decoding import stack_words
from perfpy.capture.process_memory import with_memory
from perfpy.capture.runtimes.attaching import has_inlined_functions, needs_names
from perfpy.capture.runtimes.hotspot_code import VARIABLES, CompiledCode, VmStructs
from perfpy.capture.runtimes.v8_functions import V8Process
from perfpy.kernel.procfs import ProcFs
from perfpy.symbols import dso
from perfpy.symbols.files import elf
from perfpy.symbols.tasks import is_memory
from perfpy.untrusted.text import one_line
from perfpy.unwind.rules import OFFSET, FrameRules

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from perfpy.abi.attr import EventAttr
    from perfpy.abi.columns import Columns
    from perfpy.capture.process_memory import ProcessMemory
    from perfpy.capture.runtimes.hotspot_code import CodeBlob
    from perfpy.perfdata.events import FileEvent
    from perfpy.perfdata.records.stream import Chunk


#: The columns of samples that are needed.


_STACK_POINTER: Final = 7  # of x86-64's registers in samples (perf_regs.h)
_FIRST_PAUSE: Final = 0.05  # seconds until a process without a ready JVM is checked again; doubled each time
_LONGEST_PAUSE: Final = 60.0
_PAGE: Final = 4096
_ANONYMOUS: Final = "//anon"
_MAPS: Final = (RecordType.MMAP, RecordType.MMAP2)
_NEVER: Final = (1 << 64) - 1


class _Pause(NamedTuple):
    until: float
    pause: float


class JavaFrames:
    """The JVMs and running Nodes among the recorded processes.

    event is the recording's first one. fields are those of samples that look() needs.
    """

    fields: Final = frozenset({"pid", "user_regs", "user_regs_abi", "user_stack"})

    def __init__(self, event: FileEvent) -> None:
        self._layout = IdLayout.of(event.attr, NATIVE_ENDIAN)
        self._identity = event.ids[0] if event.ids else 0
        self._procfs = ProcFs()
        self._processes: dict[int, JavaProcess | V8Process] = {}
        self._waiting: dict[int, _Pause] = {}
        self._refused: set[int] = set()
        self._mapped: dict[int, list[tuple[int, int]]] = {}
        self._first: dict[int, int] = {}  # time of the first sample with methods not yet reported, by pid

    # samples just recorded

    def look(self, columns: Columns, attr: EventAttr) -> None:
        """Find JVMs in new samples, and read what their stacks lead to."""
        pids = columns["pid"]
        for pid in distinct(pids).tolist():
            process = self._process(pid)
            if process is not None:
                process.refresh()
                rows = np.flatnonzero(pids == pid)
                pointers = _stack_pointers(columns, attr, rows)
                for row, pointer in zip(rows.tolist(), pointers, strict=True):
                    process.look(stack_words(columns, row), pointer)

    def _process(self, pid: int) -> JavaProcess | V8Process | None:
        if pid in self._processes:
            return self._processes[pid]
        now, waiting = time.monotonic(), self._waiting.get(pid, _Pause(0.0, _FIRST_PAUSE / 2))
        if now < waiting.until:
            return None
        library = library_of(pid, self._procfs)
        is_node = library is None and has_inlined_functions(pid)
        if library is not None or is_node:
            try:
                self._processes[pid] = JavaProcess.of(pid, library) if library else self._node(pid)
                return self._processes[pid]
            except PermissionError:
                if library:  # of Node, lacks() tells
                    self._refused.add(pid)
            except (OSError, LookupError, ValueError):
                pass  # it is still starting, or inaccessible
        pause = min(2 * waiting.pause, 1.0 if library or is_node else _LONGEST_PAUSE)
        self._waiting[pid] = _Pause(now + pause, pause)
        return None

    def _node(self, pid: int) -> V8Process:
        return V8Process.of(pid, self._procfs, is_published=not needs_names(pid))

    # samples being unwound

    def rules(self, pid: int, addresses: Sequence[int]) -> list[FrameRules | None]:
        """Return the unwind rules for addresses in a process's code; None for unknown ones."""
        process = self._processes.get(pid)
        return [None] * len(addresses) if process is None else process.rules(addresses)

    def name_methods(
        self, columns: Columns, chains: Ragged, ip: NDArray[np.uint64], keys: NDArray[np.uint64]
    ) -> tuple[Ragged, NDArray[np.uint64]]:
        """Return callchains, and sampled addresses, with a frame for each method. keys are delivery keys (times, if there are any)."""
        changed: dict[int, list[int]] = {}
        for pid in distinct(columns["pid"]).tolist():
            if (process := self._processes.get(pid)) is not None:
                inside = (chains.values >= process.low) & (chains.values < process.high)
                hits = np.add.reduceat(np.append(inside, False), chains.offsets[:-1]) if len(chains) else np.zeros(0)
                for row in np.flatnonzero((columns["pid"] == pid) & (hits > 0) & (chains.lengths > 0)).tolist():
                    values = self._chain(process, chains[row], stack_words(columns, row))
                    if values != chains[row].tolist():
                        changed[row] = values
                        self._first[pid] = min(self._first.get(pid, _NEVER), int(keys[row]))
        if not changed:
            return chains, ip
        return chains.with_rows(changed), _leaves(chains, changed, ip)

    def _chain(self, process: JavaProcess | V8Process, chain: NDArray[np.uint64], stack: NDArray[np.uint64]) -> list[int]:
        values: list[int] = chain.tolist()
        begin = values.index(CONTEXT_USER) + 1 if CONTEXT_USER in values else 0
        return values[:begin] + process.name_methods(values[begin:], stack)

    # data for readers

    def take_new_methods(self) -> tuple[bytes, dict[int, str]]:
        """Return what was not returned yet: records that map the memory of methods, and lines of perf maps by pid."""
        mappings, names, first = b"", {}, self._first
        self._first = {}
        for pid, moment in first.items():
            methods = self._processes[pid].new_methods()
            for method in methods:
                if not any(begin <= method.begin < end for begin, end in self._mapped.setdefault(pid, [])):
                    begin, end = self._memory_around(pid, method.begin, method.end)
                    self._mapped[pid].append((begin, end))
                    record = code_mapping((pid, pid), (begin, end - begin, begin), _ANONYMOUS, moment, self._identity)
                    mappings += records.encode(record, self._layout, NATIVE_ENDIAN)
            if methods:
                names[pid] = "".join(f"{one.begin:x} {one.end - one.begin:x} {one.name}\n" for one in methods)
        return mappings, names

    def notes(self) -> list[str]:
        """Return notes for the user, at the end."""
        refused = sorted(self._refused - self._processes.keys())
        if not refused:
            return []
        pids = ", ".join(map(str, refused[:3])) + (" ..." if len(refused) > 3 else "")
        problem = f"warning: --jit: cannot read the memory of Java process {pids} (check kernel.yama.ptrace_scope)"
        return [f"{problem}; interpreted and inlined methods have no names"]

    def hides(self, chunk: Chunk, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Return which records would hide these mappings: those of JVMs' data, whose memory grows."""
        hides = np.zeros(len(rows), bool)
        for number in np.flatnonzero(np.isin(chunk.types[rows], _MAPS)).tolist() if self._processes else ():
            record = chunk.record(int(rows[number]))
            kind, misc, _ = HEADER[NATIVE_ENDIAN].unpack_from(record)
            if misc & MISC_MMAP_DATA:
                mapping = records.decode(kind, misc, record[8:], NO_ID, NATIVE_ENDIAN)
                assert isinstance(mapping, (records.Mmap, records.Mmap2))
                hides[number] = mapping.pid in self._processes and is_memory(mapping.filename)
        return hides

    def _memory_around(self, pid: int, first: int, last: int) -> tuple[int, int]:
        """Return the mapping that contains an address; its pages if the process has ended."""
        try:
            for mapping in self._procfs.maps(pid, data=True):
                if mapping.start <= first < mapping.end:
                    return mapping.start, max(mapping.end, last)
        except OSError:
            pass
        return first & -_PAGE, (last + _PAGE - 1) & -_PAGE


def _stack_pointers(columns: Columns, attr: EventAttr, rows: NDArray[np.intp]) -> Iterable[int]:
    """Return the addresses of the stack copies; 0 for samples without registers."""
    registers = columns["user_regs"].gather()
    index = (attr.sample_regs_user & ((1 << _STACK_POINTER) - 1)).bit_count()
    values = registers.values
    starts, lengths = registers.offsets[:-1][rows], registers.lengths[rows]
    return (int(values[start + index]) if length > index else 0 for start, length in zip(starts.tolist(), lengths.tolist(), strict=True))


def _leaves(chains: Ragged, changed: dict[int, list[int]], ip: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the sampled addresses; one that was first in its callchain is replaced like the callchain."""
    leaves = ip.copy()
    for row, values in changed.items():
        for before, after in zip(chains[row].tolist(), values, strict=False):
            if before < CONTEXT_MAX:
                if before == int(ip[row]):
                    leaves[row] = after
                break
    return leaves


# One running JVM: convert addresses of callchains to addresses of bytecodes. An interpreted frame, and a compiled one with its inlined
# methods, become one address of a bytecode for each method; other frames are unchanged. Layout of an interpreter's frame (frame_x86.hpp),
# relative to the address in %rbp: 0 the caller's %rbp, +8 the return address, -24 the method, -64 the bytecode.

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
        return with_memory(pid, lambda memory: cls(memory, exported_addresses(pid, library)))

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


def exported_addresses(pid: int, library: tuple[int, str]) -> dict[str, int]:
    """Return the addresses of the variables that lead to the tables."""
    base, name = library
    path = dso.seen_by(pid, name)
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


# Unwind rules of HotSpot's code, in the form of call frame information. HotSpot's compilers use %rbp as any register unless
# -XX:+PreserveFramePointer is set, but each blob has the size of its frames (frame_x86.cpp): the return address is the last word, and the
# caller's %rbp the one before it. The interpreter has a frame pointer; the end of its caller's stack, before the arguments were moved, is
# stored below it.

_RBP, _RSP, _RETURN = 6, 7, 16  # of x86-64 in DWARF
_LARGEST: Final = 1 << 16  # words
_PUSH, _POP, _RET = b"\x55", b"\x5d", b"\xc3"  # push %rbp; pop %rbp; ret
_POLL: Final = (b"\x49\x3b\x67", b"\x49\x3b\xa7")  # cmp N(%r15),%rsp: after the frame is removed; then ja to the safepoint handler
_MAKE: Final = (b"\x48\x83\xec", b"\x48\x81\xec")  # sub $N,%rsp
_ABOVE: Final = b"\x0f\x87"
_RETURNS: Final = (_RETURN, (OFFSET, -_WORD))
_SAVED: Final = (_RBP, (OFFSET, -2 * _WORD))
_INTERPRETER: Final = FrameRules((_RBP, 2 * _WORD), (_SAVED, (_RSP, (OFFSET, -3 * _WORD)), _RETURNS), _RETURN)
_BEFORE: Final = FrameRules((_RSP, _WORD), (_RETURNS,), _RETURN)
_PUSHED: Final = FrameRules((_RSP, 2 * _WORD), (_SAVED, _RETURNS), _RETURN)


def rules_at(blob: CodeBlob, address: int, memory: ProcessMemory) -> FrameRules | None:
    """Return the rules for an address in a blob; None if there is only a frame pointer."""
    if blob.is_interpreter:
        return _INTERPRETER
    if not 0 < blob.frame_size <= _LARGEST or blob.complete < 0:
        return None
    if address < blob.start + blob.complete:
        executed = memory.some(blob.start, address - blob.start)
        if not any(opcode in executed for opcode in _MAKE):  # after it, before the frame is complete, come barriers of garbage collectors
            return _PUSHED if _PUSH in executed else _BEFORE
    code = memory.some(address, 7)
    if code.startswith(_POP):
        return _PUSHED
    if code.startswith((_RET, *_POLL)) or (code.startswith(_ABOVE) and code.endswith(_RET)):
        return _BEFORE
    return FrameRules((_RSP, blob.frame_size * _WORD), (_SAVED, _RETURNS), _RETURN)


# Java methods: a pointer to HotSpot's Method -> its name and bytecodes. The address of a bytecode represents a frame without machine code
# of its own: it is unique to the method, and has the position.

_MOST_METHODS: Final = 1 << 20
_LONGEST: Final = 4096  # characters of a name
_PRIMITIVE: Final = {
    "B": "byte", "C": "char", "D": "double", "F": "float", "I": "int", "J": "long", "S": "short", "Z": "boolean", "V": "void",
}  # fmt: skip


class JavaMethod(NamedTuple):
    """A Java method.

    Attributes:
        begin: the first address that represents it.
        code: the address of the first bytecode.
        size: bytes of bytecode, 0 for native methods.
    """

    begin: int
    code: int
    size: int
    name: str

    @property
    def end(self) -> int:
        """The address after the last bytecode."""
        return self.code + max(self.size, 1)

    def address(self, bci: int) -> int:
        """Return the address of a bytecode by index; of the first one if the index is invalid."""
        return self.code + (bci if 0 <= bci < self.size else 0)

    def holds(self, bytecode: int) -> bool:
        """Whether the address of a bytecode, as found on a stack, belongs to this method; a native one has none."""
        return self.code <= bytecode < self.code + self.size if self.size else bytecode == 0


class Methods:
    """The methods of one JVM, each read once."""

    def __init__(self, memory: ProcessMemory, vm: VmStructs) -> None:
        self._memory = memory
        self._const = vm.field(("Method", "_constMethod"))
        self._const_size = vm.size("ConstMethod")
        self._pool_size = vm.size("ConstantPool")
        names = ("_constants", "_code_size", "_name_index", "_signature_index")
        self._of_const = [vm.field(("ConstMethod", name)) for name in names]
        self._holder = vm.field(("ConstantPool", "_pool_holder"))
        self._class_name = vm.field(("Klass", "_name"))
        self._length = vm.field(("Symbol", "_length"))
        self._body = vm.field(("Symbol", "_body[0]"), ("Symbol", "_body"))
        self._methods: dict[int, JavaMethod | None] = {}

    def find(self, pointer: int) -> JavaMethod | None:
        """Return the method at a pointer; None if there is none."""
        if pointer not in self._methods:
            if pointer & 7 or len(self._methods) >= _MOST_METHODS:
                return None
            try:
                self._methods[pointer] = self._read(pointer)
            except (OSError, ValueError):
                self._methods[pointer] = None
        return self._methods[pointer]

    def forget_failures(self) -> None:
        """Drop failures, because the memory may be readable now."""
        self._methods = {pointer: method for pointer, method in self._methods.items() if method is not None}

    def _read(self, pointer: int) -> JavaMethod:
        const = self._memory.number(pointer + self._const.offset)
        data = self._memory.read(const, self._const_size)
        pool, size, name, signature = (field.of(data) for field in self._of_const)
        holder = self._memory.number(pool + self._holder.offset)
        of_class = self._symbol(self._memory.number(holder + self._class_name.offset))
        slots = pool + self._pool_size
        texts = [self._symbol(self._memory.number(slots + 8 * index)) for index in (name, signature)]
        return JavaMethod(const, const + self._const_size, size, external_name(of_class, *texts))

    def _symbol(self, pointer: int) -> str:
        pointer &= ~7
        length = self._memory.number(pointer + self._length.offset, self._length.size)
        return self._memory.read(pointer + self._body.offset, min(length, _LONGEST)).decode("utf-8", "replace")


def external_name(of_class: str, name: str, descriptor: str) -> str:
    """Return a method's name in the format of the JVM's perf maps: void Main.main(java.lang.String[])."""
    parameters, _, result = descriptor.removeprefix("(").partition(")")
    types = ", ".join(_types(parameters))
    before = "".join(_types(result)[:1])
    return one_line(f"{before} {external_class(of_class)}.{name}({types})"[:_LONGEST])


def external_class(name: str) -> str:
    """Return a class's name as Java programs write it."""
    return name.replace("/", ".").replace("+0x", "/0x")  # hidden classes: App$$Lambda+0x7f...


def _types(descriptor: str) -> list[str]:
    """Return the types of a descriptor (JVM specification, 4.3.2)."""
    types, index = [], 0
    while index < len(descriptor):
        first = index
        while index < len(descriptor) and descriptor[index] == "[":
            index += 1
        arrays = "[]" * (index - first)
        if descriptor[index : index + 1] == "L":
            end = descriptor.find(";", index)
            end = len(descriptor) if end < 0 else end
            types.append(external_class(descriptor[index + 1 : end]) + arrays)
        else:
            end = index
            types.append(_PRIMITIVE.get(descriptor[index : index + 1], "?") + arrays)
        index = end + 1
    return types
