"""The CPython interpreter of a process: the address of _PyRuntime, the version, and the code of the evaluation loop; and C functions that
Python programs call, by the method tables of their files.

Candidates for the interpreter are mapped files with its name, then the program itself, which may embed one. Each file is read once, even if
many processes map it.
"""

from __future__ import annotations

import os
import re
import struct
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.abi.light_types import NamedTuple
from perfpy.interpreters.layouts import slots
from perfpy.symbols.dso import DsoKind, is_c_library, is_runtime
from perfpy.symbols.files import elf
from perfpy.symbols.files.debug_files import ColumnFiles, folder, key_of
from perfpy.unwind.call_frames import CallFrames
from perfpy.unwind.frame_entries import FrameSection

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from perfpy.kernel.procfs import ProcFs, ProcMapping
    from perfpy.symbols.files.elf import ElfFile
    from perfpy.symbols.symbolizer import Symbolizer

_INTERPRETER: Final = re.compile(r"(?:lib)?python(\d)\.(\d+)[a-z]*(?:\.so[\d.]*)?")
_INTERPRETERS: Final = (b"python", b"libpython")  # beginnings of these names
_RUNTIME: Final = b"_PyRuntime"
_LOOPS: Final = (b"_PyEval_EvalFrameDefault", b"_TAIL_CALL_")  # the second: builds with a function for each instruction (3.14)
_SECTION: Final = ".PyRuntime"
_EXECUTABLE: Final = 4  # PROT_EXEC
_MOST_LOOPS: Final = 1024
_PAGE: Final = 4096


class LocatedRuntime(NamedTuple):
    """An interpreter in a process.

    Attributes:
        runtime: the address of _PyRuntime.
        version: (0, 0) if no file name contains it.
        loops: address ranges of the evaluation loop.
    """

    runtime: int
    version: tuple[int, int]
    loops: list[tuple[int, int]]


class _RuntimeInFile(NamedTuple):
    """An interpreter in a file, in the file's addresses. first: the lowest mapped address."""

    runtime: int
    loops: list[tuple[int, int]]
    first: int


class RuntimeLocator:
    """Finds interpreters, and caches results by file."""

    def __init__(self, procfs: ProcFs) -> None:
        self._procfs = procfs
        self._files: dict[tuple[int, int, int], _RuntimeInFile | None] = {}

    def find(self, pid: int) -> LocatedRuntime | None:
        """Return the interpreter of a process; None if it does not run CPython."""
        try:
            program = os.readlink(f"{self._procfs.root}/{pid}/exe")
            mappings = loaded_files(self._procfs.maps(pid, data=True, lines=lines_of_candidates(self._procfs.map_lines(pid), program)))
        except OSError:
            return None
        for mapping, version in _candidates(mappings, program):
            key = (mapping.major, mapping.minor, mapping.inode)
            if key not in self._files:
                self._files[key] = _find_in_file(pid, mapping)
            in_file = self._files[key]
            if in_file is not None:
                shift = mapping.start - in_file.first
                return LocatedRuntime(in_file.runtime + shift, version, [(begin + shift, end + shift) for begin, end in in_file.loops])
        return None


def lines_of_candidates(lines: Iterable[bytes], program: str) -> Iterator[bytes]:
    """Yield the lines of /proc/PID/maps that name the program or what may be an interpreter. Most are of other libraries."""
    end = b" " + os.fsencode(program)
    return (line for line in lines if line.rpartition(b"/")[2].startswith(_INTERPRETERS) or line.endswith(end))


def loaded_files(mappings: Iterable[ProcMapping]) -> list[ProcMapping]:
    """Return the first mapping of each file that was loaded as code: the last one of the file's beginning before its code.

    Programs that read symbols, as profilers do, map the files of their own interpreter as data, too.
    """
    beginnings: dict[tuple[int, int, int], ProcMapping] = {}
    loaded: dict[int, ProcMapping] = {}
    for mapping in mappings:
        key = (mapping.major, mapping.minor, mapping.inode)
        if mapping.inode and not mapping.offset:
            beginnings[key] = mapping
        if mapping.prot & _EXECUTABLE and key in beginnings:
            loaded[beginnings[key].start] = beginnings[key]
    return list(loaded.values())


def _candidates(mappings: list[ProcMapping], program: str) -> Iterator[tuple[ProcMapping, tuple[int, int]]]:
    """Yield mappings that may contain an interpreter and the version in the file name, libraries first."""
    interpreters = [(mapping, match) for mapping in mappings if (match := _INTERPRETER.fullmatch(os.path.basename(mapping.path)))]
    interpreters.sort(key=lambda one: not os.path.basename(one[0].path).startswith("lib"))
    for mapping, match in interpreters:
        yield mapping, (int(match[1]), int(match[2]))
    seen_paths = {mapping.path for mapping, _ in interpreters}
    for mapping in mappings:
        if mapping.path == program and program not in seen_paths:
            yield mapping, (0, 0)
            return


def _find_in_file(pid: int, mapping: ProcMapping) -> _RuntimeInFile | None:
    try:
        file = elf.open_mapped(mapping.path, (mapping.major, mapping.minor, mapping.inode, 0), (pid,))
    except (elf.BadElfError, OSError):
        return None
    if file.bits != 64 or file.endian != "<" or not len(file.segments):
        return None
    runtime, loops = 0, list[tuple[int, int]]()
    for table, kind in ((".symtab", elf.SHT_SYMTAB), (".dynsym", elf.SHT_DYNSYM)):
        section = file.section(table, kind)
        if section is None:
            continue
        entries, strings = file.symbols(section), bytes(file.strings(section))
        runtime = runtime or next((begin for begin, _ in _symbols(entries, strings, _RUNTIME, exact=True)), 0)
        for name in _LOOPS:
            loops += [one for one in _symbols(entries, strings, name, exact=False) if one not in loops]
    if file.section(".symtab", elf.SHT_SYMTAB) is None:
        loops += [part for loop in list(loops) for part in cold_parts(file, *loop)]
    section = file.section(_SECTION)
    runtime = runtime or (section.addr if section else 0)
    first = int(file.segments["vaddr"].min()) & -_PAGE
    return _RuntimeInFile(runtime, loops, first) if runtime else None


def _symbols(entries: NDArray[Any], strings: bytes, name: bytes, *, exact: bool) -> Iterator[tuple[int, int]]:
    """Yield the ranges of the symbols with a name.

    Args:
        entries: the symbol table.
        strings: the names of the table's symbols.
        name: the symbol's name.
        exact: False: also names with a suffix after a dot, or after a name that ends with an underscore.
    """
    position = strings.find(b"\0" + name)
    count = 0
    while position >= 0 and count < _MOST_LOOPS:
        end = position + 1 + len(name)
        suffix = strings[end : end + 1]
        if suffix == b"\0" or (not exact and (suffix == b"." or name.endswith(b"_"))):
            for row in np.flatnonzero(entries["name"] == position + 1).tolist():
                begin, size = int(entries["value"][row]), int(entries["size"][row])
                if begin:
                    yield begin, begin + max(size, 1)
        position = strings.find(b"\0" + name, end)
        count += 1


_USUAL: Final = b"\x01\x1b\x03\x3b"  # version 1; 4-byte pointers relative to the section, as all linkers write them
_HEAD: Final = struct.Struct("<4siI")
_LEAST: Final = 2  # jumps from the function


def cold_parts(file: ElfFile, begin: int, end: int) -> list[tuple[int, int]]:
    """Return the ranges that x86-64 code of a function jumps into, beside its own."""
    code = _code(file, begin, end)
    header, frames = file.section(".eh_frame_hdr"), file.section(".eh_frame")
    if header is None or frames is None:
        return []
    data = bytes(file.data(header))
    if len(data) < _HEAD.size or not data.startswith(_USUAL):
        return []
    count = min(_HEAD.unpack_from(data)[2], (len(data) - _HEAD.size) // 8)
    table = np.frombuffer(data, "<i4", 2 * count, _HEAD.size).reshape(-1, 2).astype(np.int64) + header.addr
    section = FrameSection(bytes(file.data(frames)), frames.addr, is_eh=True, endian="<", word=8)
    targets = jump_targets(code, begin)
    targets = targets[(targets < begin) | (targets >= end)]
    parts = []
    for row in np.unique(np.searchsorted(table[:, 0], targets, "right") - 1).tolist():
        try:
            entry = section.entry(int(table[row, 1]) - frames.addr)
        except ValueError:
            continue
        if row >= 0 and is_part(targets, entry.start, entry.end):
            parts.append((entry.start, entry.end))
    return parts


def is_part(targets: NDArray[np.int64], start: int, end: int) -> bool:
    """Whether jumps of a function lead into a range, one of them not to its start: into other functions none does."""
    into = targets[(targets >= start) & (targets < end)]
    return len(into) >= _LEAST and bool((into != start).any())


def _code(file: ElfFile, begin: int, end: int) -> bytes:
    for segment in file.segments:
        offset = begin - int(segment["vaddr"])
        if offset >= 0 and end - int(segment["vaddr"]) <= int(segment["filesz"]):
            first = int(segment["offset"]) + offset
            return bytes(file.content[first : first + end - begin])
    return b""


def jump_targets(code: bytes, begin: int) -> NDArray[np.int64]:
    """Return the targets of jumps with 4-byte distances in x86-64 code at an address.

    Instructions are not decoded, so some targets are bytes of other instructions.
    """
    data = np.frombuffer(code, np.uint8)
    if len(data) < 6:
        return np.zeros(0, np.int64)
    conditional = np.flatnonzero((data[:-5] == 0x0F) & (data[1:-4] & 0xF0 == 0x80)) + 2
    always = np.flatnonzero(data[:-4] == 0xE9) + 1
    positions = np.concatenate([conditional, always])
    distances = data[positions[:, None] + np.arange(4)].view("<i4")[:, 0]
    targets: NDArray[np.int64] = begin + positions + 4 + distances.astype(np.int64)
    return targets


# The names of C functions in a file, by the tables that tell them to the interpreter: PyMethodDef { name, function, flags, doc } in the
# table of a module (PyModuleDef) or of a type, and the slots of types (PyTypeObject, or PyType_Spec { name, sizes, flags, slots } with
# PyType_Slot { number, function }). Layouts: the public headers (Include/methodobject.h, moduleobject.h, cpython/object.h, object.h), the
# same from 3.8 to 3.15. The tables are data of a file that anybody may have written: a name is an identifier, and all is bounded.

_X86_64: Final = 62
_RELATIVE: Final = 8  # R_X86_64_RELATIVE
_ABSOLUTE: Final = 1  # R_X86_64_64
_JUMP_SLOT: Final = 7  # R_X86_64_JUMP_SLOT
_RELA: Final = elf.fields("offset u8, info u8, addend u8")
_NEAR_JUMP: Final = 0xEB
_STUB: Final = 16  # bytes of an entry of the procedure linkage table
_STUBS: Final = (b"\xf3\x0f\x1e\xfa", b"\xff\x25")  # endbr64, and a jump by a word in memory
_WRITABLE: Final = 2  # PF_W
_RUNNABLE: Final = 1  # PF_X
_PROGRAM: Final = 2  # ET_EXEC
_MOST_DATA: Final = 64 << 20  # bytes of a file's data that are searched
_LARGE_DATA: Final = 64 << 10  # bytes of data from which on a file's names are cached
_MOST_ENTRIES: Final = 1 << 14  # methods, types or specs of a segment
_WORD: Final = 8
_ENTRY: Final = 4  # words of a PyMethodDef
_METH_KINDS: Final = (0x1, 0x3, 0x4, 0x8, 0x80, 0x82, 0x282)  # METH_VARARGS ... METH_METHOD | METH_FASTCALL | METH_KEYWORDS
_METH_FLAGS: Final = 0x70  # METH_CLASS, METH_STATIC, METH_COEXIST
_NAME: Final = re.compile(rb"[A-Za-z_][A-Za-z0-9_]{0,79}")
_DOTTED: Final = re.compile(rb"[A-Za-z_][A-Za-z0-9_]{0,79}(?:\.[A-Za-z_][A-Za-z0-9_]{0,79}){0,7}")
_LONGEST: Final = 256
_TYPE_WORDS: Final = 51  # of a PyTypeObject up to tp_vectorcall
_TYPE_NAME, _TYPE_BASIC, _TYPE_ITEM, _TYPE_DEALLOC, _TYPE_FLAGS, _TYPE_METHODS = 3, 4, 5, 6, 21, 29  # words of a PyTypeObject
_MODULE_METHODS: Final = 3  # words from a PyModuleDef's name to its methods
_METHODS_SLOT: Final = 64  # Py_tp_methods
_LARGEST_SLOT: Final = 100
_LEAST_OF_IMMORTALS: Final = 1 << 29  # references, since 3.12
_LARGEST_WRAPPER: Final = 1 << 12  # bytes of a function in which a jump to its continuation is looked for
_MOST_SAME: Final = 64  # functions of one name
_BUILTINS: Final = "builtins."
#: types whose methods run Python functions, which have rows of their own
_OF_PYTHON: Final = re.compile(r"(?:generator|coroutine|coroutine_wrapper|async_generator\w*|function|method|type)\b.*|\w+\.__call__")
#: work of the interpreter's instructions themselves: arithmetic of numbers, and steps of loops over what is in memory
_OF_INSTRUCTIONS: Final = re.compile(r"(?:int|float|bool|complex|NoneType)\.__.*|\w*_?iterator\.__next__|enumerate\.__next__|zip\.__next__")
NO_CALL: Final = ""  #: instead of a name: a function that frees or visits objects, which nobody calls by a name


class MethodTables:
    """The C functions of one file that the interpreter knows by name. Raises BadElfError and the like for damaged files.

    Args:
        file: the file.
        cache: keeps the names of large files between runs, whose tables take as long to read as the program's samples to unwind.

    Attributes:
        names: by the address of the function in the file; NO_CALL for functions that are not called by a name.
    """

    def __init__(self, file: ElfFile, cache: ColumnFiles | None = None) -> None:
        self.names: dict[int, str] = {}
        self._jumps: dict[tuple[int, str], str | None] = {}
        self._call_frames = CallFrames(file)
        self._starts = self._call_frames.starts()
        if file.machine != _X86_64 or file.bits != 64:
            return
        self._file = file
        self._code = [_span(one) for one in file.segments if int(one["flags"]) & _RUNNABLE]
        is_large = sum(size for _, size in map(_span, file.segments[file.segments["flags"] & _WRITABLE != 0])) > _LARGE_DATA
        key = key_of("methods", file) if cache and is_large else ""
        columns = cache.columns(key) if cache and key else None
        if columns and columns.keys() == {"function", "stub", "target", "names"}:
            names = bytes(columns["names"]).decode("ascii", "replace").split("\n")
            self.names = dict(zip(columns["function"].tolist(), names, strict=False))
            self._linked = dict(zip(columns["stub"].tolist(), columns["target"].tolist(), strict=False))
            return
        self._read_tables()
        self._linked = self._read_linked()
        if cache and key:
            text = "\n".join(self.names.values()).encode("ascii", "replace")
            linked = {name: np.array(list(some), np.uint64) for name, some in (("stub", self._linked), ("target", self._linked.values()))}
            cache.keep(key, {"function": np.array(list(self.names), np.uint64), **linked, "names": np.frombuffer(text, np.uint8)})

    def _read_tables(self) -> None:
        """Name the functions in all tables."""
        file = self._file
        self._loaded = [_span(one) for one in file.segments]
        self._offsets = list(zip(self._loaded, file.segments["offset"].tolist(), strict=True))
        self._data = list(self._read_data())
        self._ranges_of_data = [(begin, _WORD * len(words)) for begin, words in self._data]
        for _, words in self._data:
            self._add_types(words)
        self._add_specs()
        owners = self._owners_of_tables()
        for begin, words in self._data:
            self._add_methods(begin, words, owners)
        self._data.clear()

    def start_of(self, offset: np.uint64) -> int:
        """Return where the function at an offset in the file begins, 0 if that is not known."""
        row = int(np.searchsorted(self._starts, self._call_frames.addresses(np.array([offset], np.uint64))[0], "right")) - 1
        return int(self._starts[row]) if row >= 0 else 0

    def that_continues_in(self, start: int, name: str) -> str | None:
        """Return the full name of the function with a name that ends with a jump to another function; None without one.

        Compilers replace the last call of a function by a jump, so that the function itself is not on the stack.
        """
        key = (start, name)
        if key not in self._jumps:
            suffix = f".{name}"
            same = [(function, full) for function, full in self.names.items() if full == name or full.endswith(suffix)]
            found = {full for function, full in same[:_MOST_SAME] if start in self._continuations(function)}
            self._jumps[key] = found.pop() if len(found) == 1 else None
        return self._jumps[key]

    def _continuations(self, function: int) -> set[int]:
        """Return where jumps of a function lead, directly or by the procedure linkage table."""
        code = self._code_of(function)
        near = (row for row in range(len(code) - 1) if code[row] == _NEAR_JUMP)
        targets = {function + row + 2 + int.from_bytes(code[row + 1 : row + 2], "little", signed=True) for row in near}
        targets.update(jump_targets(code, function).tolist())
        return targets | {self._linked[target] for target in targets if target in self._linked}

    def _read_linked(self) -> dict[int, int]:
        """Return the functions of this file that the stubs of its procedure linkage table jump to."""
        file = self._file
        section, symbols = file.section(".rela.plt", elf.SHT_RELA), file.section(".dynsym", elf.SHT_DYNSYM)
        if section is None or symbols is None:
            return {}
        table = file.symbols(symbols)["value"]
        rows = file.entries(section, _RELA)
        numbers = (rows["info"] >> np.uint64(32)).astype(np.int64)
        known = (numbers < len(table)) & (rows["info"] & np.uint64(0xFFFFFFFF) == _JUMP_SLOT)
        slots_of = dict(zip(rows["offset"][known].tolist(), table[numbers[known]].tolist(), strict=True))
        linked: dict[int, int] = {}
        for stubs in filter(None, map(file.section, (".plt", ".plt.sec"))):
            code = bytes(file.data(stubs))
            for begin in range(0, len(code) - _STUB + 1, _STUB):
                jump = 4 if code.startswith(_STUBS[0], begin) else 0
                if code.startswith(_STUBS[1], begin + jump):
                    (distance,) = struct.unpack_from("<i", code, begin + jump + 2)
                    linked[stubs.addr + begin] = slots_of.get(stubs.addr + begin + jump + 6 + distance, 0)
        return linked

    def _code_of(self, function: int) -> bytes:
        row = int(np.searchsorted(self._starts, np.uint64(function), "right"))
        ends = [begin + size for begin, size in self._code if begin <= function < begin + size]
        ends += self._starts[row : row + 1].tolist()
        return _code(self._file, function, min(*ends, function + _LARGEST_WRAPPER))

    def _read_data(self) -> Iterator[tuple[int, NDArray[np.uint64]]]:
        """Yield the address and the words of each segment with data, as the loader relocates them."""
        file, room = self._file, _MOST_DATA
        addresses, values = self._relocations()
        for segment in file.segments:
            flags, (address, size) = int(segment["flags"]), _span(segment)
            if flags & _RUNNABLE or not (flags & _WRITABLE or file.type == _PROGRAM) or size > room or address % _WORD:
                continue
            offset = int(segment["offset"])
            data = bytes(file.content[offset : offset + size])
            words = np.frombuffer(data, "<u8", len(data) // _WORD).copy()
            room -= size
            distances = addresses - address
            inside = (distances >= 0) & (distances <= (len(words) - 1) * _WORD) & (distances % _WORD == 0)
            words[distances[inside] // _WORD] = values[inside]
            yield address, words

    def _relocations(self) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
        """Return the addresses of words that the loader sets, and their values."""
        file = self._file
        section, symbols = file.section(".rela.dyn", elf.SHT_RELA), file.section(".dynsym", elf.SHT_DYNSYM)
        if section is None:
            return np.zeros(0, np.int64), np.zeros(0, np.uint64)
        rows = file.entries(section, _RELA)
        kinds = rows["info"] & np.uint64(0xFFFFFFFF)
        values = rows["addend"].astype(np.uint64)
        is_known = kinds == _RELATIVE
        if symbols is not None:
            table = file.symbols(symbols)["value"].astype(np.uint64)
            numbers = (rows["info"] >> np.uint64(32)).astype(np.int64)
            is_absolute = (kinds == _ABSOLUTE) & (numbers < len(table))
            targets = table[numbers[is_absolute]]
            values[is_absolute] += targets
            is_known[is_absolute] = targets > 0
        return rows["offset"][is_known].astype(np.int64), values[is_known]

    def _are_in(self, values: NDArray[np.uint64], ranges: list[tuple[int, int]]) -> NDArray[np.bool_]:
        inside = np.zeros(len(values), np.bool_)
        for begin, size in ranges:
            inside |= values - np.uint64(begin) < np.uint64(size)
        return inside

    def _text(self, address: int, pattern: re.Pattern[bytes] = _DOTTED) -> str:
        """Return the name at an address, "" for other texts."""
        for (begin, size), start in self._offsets:
            if begin <= address < begin + size:
                offset = start + address - begin
                text = self._file.content[offset : offset + _LONGEST].partition(b"\0")[0]
                return text.decode() if pattern.fullmatch(text) else ""
        return ""

    def _word(self, address: int) -> int:
        """Return a word of the data, 0 outside of it."""
        for begin, words in self._data:
            distance = address - begin
            if 0 <= distance < _WORD * len(words):
                return int(words[distance // _WORD])
        return 0

    def _words_at(self, addresses: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Return words of the data, 0 outside of it."""
        values = np.zeros(len(addresses), np.uint64)
        for begin, words in self._data:
            distances = addresses - np.uint64(begin)
            inside = distances < np.uint64(_WORD * len(words))
            values[inside] = words[distances[inside] // np.uint64(_WORD)]
        return values

    def _name(self, function: int, name: str) -> None:
        """Name a function. One with several names keeps what they have in common; one that is not only called has none."""
        before = self.names.get(function)
        if before is None or name == before:
            self.names[function] = name
        elif NO_CALL in (name, before):
            self.names[function] = NO_CALL
        else:
            last = before.rpartition(".")[2]
            self.names[function] = last if last == name.rpartition(".")[2] and not last.startswith("_") else NO_CALL

    def _add_slot(self, function: int, owner: str, slot: str) -> None:
        if not any(begin <= function < begin + size for begin, size in self._code):
            return
        name = owner if slot == "()" else f"{owner}.{slot}"
        is_interpreters = "." not in owner and (_OF_PYTHON.fullmatch(name) or _OF_INSTRUCTIONS.fullmatch(name))
        self._name(function, NO_CALL if slot == "-" or is_interpreters else name)

    def _add_types(self, words: NDArray[np.uint64]) -> None:
        """Name the functions in the slots of types."""
        count = len(words) - _TYPE_WORDS
        if count <= 0:
            return
        size, item, dealloc, flags = (words[word : word + count] for word in (_TYPE_BASIC, _TYPE_ITEM, _TYPE_DEALLOC, _TYPE_FLAGS))
        mask = (
            ((words[:count] > 0) & (words[:count] < _PAGE) | (words[:count] >= _LEAST_OF_IMMORTALS))  # the count of references
            & ((words[1 : 1 + count] == 0) | self._are_in(words[1 : 1 + count], self._ranges_of_data))  # the type's type
            & ((flags > 0) | (dealloc > 0))
            & (flags < 1 << 33)
            & (size >= 16)
            & (size <= 1 << 20)
            & (item < 1 << 16)
            & (words[2 : 2 + count] == 0)
        )
        mask &= (words[7 : 7 + count] < 1 << 16) & ((dealloc == 0) | self._are_in(dealloc, self._code))
        mask &= self._are_in(words[_TYPE_NAME : _TYPE_NAME + count], self._loaded)
        owners = {row: self._text(int(words[row + _TYPE_NAME])) for row in np.flatnonzero(mask)[:_MOST_ENTRIES].tolist()}
        rows = np.array([row for row, owner in owners.items() if owner], np.int64)
        for slot, _, (first, second) in slots():
            functions = words[rows + first // _WORD]
            if second >= 0:
                functions = np.where(functions > 0, self._words_at(functions + np.uint64(second)), 0).astype(np.uint64)
            for number in np.flatnonzero(self._are_in(functions, self._code)).tolist():
                self._add_slot(int(functions[number]), owners[int(rows[number])].removeprefix(_BUILTINS), slot)

    def _slots_of_spec(self, table: int) -> Iterator[tuple[int, int]]:
        """Yield the numbers and functions of a spec's slots."""
        for row in range(_LARGEST_SLOT):
            number = self._word(table + 2 * _WORD * row)
            if not 0 < number < _LARGEST_SLOT:
                return
            yield number, self._word(table + 2 * _WORD * row + _WORD)

    @cached_property
    def _specs(self) -> list[tuple[str, int]]:
        """The name of each type that is made from a spec, and the address of its slots."""
        return [spec for _, words in self._data for spec in self._specs_in(words)]

    def _specs_in(self, words: NDArray[np.uint64]) -> Iterator[tuple[str, int]]:
        count = len(words) - _ENTRY
        if count <= 0:
            return
        tables = words[3 : 3 + count]
        mask = self._are_in(words[:count], self._loaded) & self._are_in(tables, self._ranges_of_data)
        mask &= (words[1 : 1 + count] & np.uint64(0xFFFFFFFF) <= 1 << 20) & (words[1 : 1 + count] >> np.uint64(32) < 1 << 16)
        mask &= words[2 : 2 + count] >> np.uint64(32) == 0
        rows = np.flatnonzero(mask)
        first = self._words_at(tables[rows])
        for row in rows[(first > 0) & (first < _LARGEST_SLOT)][:_MOST_ENTRIES].tolist():
            if name := self._text(int(words[row])):
                yield name.removeprefix(_BUILTINS), int(tables[row])

    def _add_specs(self) -> None:
        """Name the functions in the slots of specs."""
        by_number = {number: slot for slot, number, _ in slots()}
        for owner, table in self._specs:
            for number, function in self._slots_of_spec(table):
                if number in by_number:
                    self._add_slot(function, owner, by_number[number])

    def _are_methods(self, words: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Return which words begin a PyMethodDef."""
        count = max(len(words) - _ENTRY + 1, 0)
        flags = words[2 : 2 + count]
        mask: NDArray[np.bool_] = np.isin(flags & ~np.uint64(_METH_FLAGS), np.array(_METH_KINDS, np.uint64))
        mask &= self._are_in(words[1 : 1 + count], self._code) & self._are_in(words[:count], self._loaded)
        doc = words[3 : 3 + count]
        mask &= (doc == 0) | self._are_in(doc, self._loaded)
        return mask

    def _owners_of_tables(self) -> dict[int, str]:
        """Return the prefix of the names in each table of methods, by the table's address."""
        tables = np.concatenate([np.zeros(0, np.uint64), *(begin + _WORD * self._first_rows(words) for begin, words in self._data)])
        owners: dict[int, str] = {}
        for begin, words in self._data:
            for row in np.flatnonzero(np.isin(words, tables))[:_MOST_ENTRIES].tolist():
                name, is_module = self._owner(begin + _WORD * row)
                if name:
                    owners[int(words[row])] = "" if is_module and name == "builtins" else f"{name.removeprefix(_BUILTINS)}."
        for owner, table in self._specs:
            methods = dict(self._slots_of_spec(table)).get(_METHODS_SLOT)
            if methods:
                owners[methods] = f"{owner}."
        return owners

    def _first_rows(self, words: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Return the first entry of each table of methods."""
        mask = self._are_methods(words)
        is_later = np.zeros_like(mask)
        is_later[_ENTRY:] = mask[:-_ENTRY]
        return np.flatnonzero(mask & ~is_later).astype(np.uint64)

    def _owner(self, pointer: int) -> tuple[str, bool]:
        """Return the name of the type or module in which the pointer to a table of methods at an address is, and whether it is a module."""
        owner = self._text(self._word(pointer - _WORD * (_TYPE_METHODS - _TYPE_NAME)))
        if owner and 16 <= self._word(pointer - _WORD * (_TYPE_METHODS - _TYPE_BASIC)) <= 1 << 20:
            return owner, False
        size = self._word(pointer - _WORD)
        is_module = size < 1 << 32 or size == (1 << 64) - 1
        return (self._text(self._word(pointer - _WORD * _MODULE_METHODS)) if is_module else ""), True

    def _add_methods(self, begin: int, words: NDArray[np.uint64], owners: dict[int, str]) -> None:
        owner, end = "", -1
        for row in np.flatnonzero(self._are_methods(words))[:_MOST_ENTRIES].tolist():
            address = begin + _WORD * row
            owner = owners.get(address, owner if address == end else "")
            end = address + _WORD * _ENTRY
            if name := self._text(int(words[row]), _NAME):
                full = owner + name
                is_interpreters = owner.count(".") == 1 and _OF_PYTHON.fullmatch(full)
                self._name(int(words[row + 1]), NO_CALL if is_interpreters else full)


def _span(segment: Any) -> tuple[int, int]:
    """Return the address and the size of a segment's part in the file."""
    return int(segment["vaddr"]), int(segment["filesz"])


_CALL: Final = ".__call__"
#: where a frame's function is
_IN_OTHER_FILE, _IN_INTERPRETER, _IN_EXTENSION = range(3)
_MOST_FILES: Final = 1 << 8
_MOST_CACHED: Final = 16 << 20  # bytes of the names of methods of all files
_MOST_MACHINERY: Final = 4  # frames of the interpreter between the loop and a function of an extension: more of them do other work


class _NativeFrame(NamedTuple):
    """A native frame: the tables of its file, where its function begins, its name (see MethodTables), and where it is."""

    tables: MethodTables | None
    start: int
    name: str | None
    kind: int


class CalledFunctions:
    """The C functions in a recording's native frames that evaluation loops called."""

    def __init__(self) -> None:
        self._by_file: dict[tuple[str, tuple[int, int]], MethodTables | None] = {}
        self._cache = ColumnFiles(folder("methods"), ".methods", _MOST_CACHED)
        self._symbolizer: Symbolizer | None = None  # whose numbers these are:
        self._tables: dict[int, MethodTables | None] = {}
        self._frames: dict[int, _NativeFrame] = {}
        self._kinds: dict[int, int] = {}

    def find(self, symbolizer: Symbolizer, frames: NDArray[np.int32], name_of_call: str) -> tuple[str, bool]:
        """Return the name of the C function that a loop called, and whether a method table has that name; "" without one.

        Args:
            symbolizer: has the frames.
            frames: the native frames within the loop, innermost first.
            name_of_call: what the loop's instruction calls, "" if that is not known or not C.
        """
        if symbolizer is not self._symbolizer:
            self._symbolizer = symbolizer
            for numbered in (self._tables, self._frames, self._kinds):
                numbered.clear()
        of_object = ""
        for machinery, number in enumerate(frames[::-1].tolist()):
            frame = self._frames.get(number) or self._look_up(symbolizer, number)
            name = frame.name
            if name is None and name_of_call and frame.tables:
                name = frame.tables.that_continues_in(frame.start, name_of_call)
            if name and name.endswith(_CALL) and not of_object:
                of_object = name  # the function that runs another one, if that has a name
            elif name:
                return name, True
            elif of_object and frame.kind != _IN_EXTENSION:
                break
            elif frame.kind == _IN_EXTENSION and not of_object:
                is_call = name is None and machinery <= _MOST_MACHINERY
                return self._called_within(symbolizer, frames[: len(frames) - machinery], name_of_call) if is_call else ("", False)
            elif name == NO_CALL:
                break
        return of_object, bool(of_object)

    def _called_within(self, symbolizer: Symbolizer, frames: NDArray[np.int32], name_of_call: str) -> tuple[str, bool]:
        """Return the name of what a loop called by nameless functions of an extension, as are around those of Cython."""
        for number in frames[::-1].tolist():
            frame = self._frames.get(number) or self._look_up(symbolizer, number)
            if frame.kind != _IN_EXTENSION:
                break
            if frame.name and frame.name.rpartition(".")[2] == name_of_call:
                return frame.name, True
        return name_of_call, False

    def _look_up(self, symbolizer: Symbolizer, number: int) -> _NativeFrame:
        dso, address = int(symbolizer.frames.dso[number]), symbolizer.frames.address[number]
        kind = self._kind(symbolizer, dso)
        tables = self._tables_of(symbolizer, dso) if kind != _IN_OTHER_FILE else None
        start = tables.start_of(address) if tables else 0
        frame = self._frames[number] = _NativeFrame(tables, start, tables.names.get(start) if tables else None, kind)
        return frame

    def _kind(self, symbolizer: Symbolizer, number: int) -> int:
        if number not in self._kinds:
            dso = symbolizer.dsos[number] if number >= 0 else None
            is_file = dso is not None and dso.kind is DsoKind.FILE and not dso.made_code
            kind = _IN_OTHER_FILE if dso is None or not is_file or is_c_library(dso) else _IN_EXTENSION
            self._kinds[number] = _IN_INTERPRETER if dso is not None and is_file and is_runtime(dso) else kind
        return self._kinds[number]

    def _tables_of(self, symbolizer: Symbolizer, number: int) -> MethodTables | None:
        if number not in self._tables:
            files = symbolizer.files(number)
            self._tables[number] = self._tables_in(files.runtime or files.original)
        return self._tables[number]

    def _tables_in(self, file: ElfFile | None) -> MethodTables | None:
        if file is None:
            return None
        key = (file.path, file.inode)
        if key not in self._by_file:
            if len(self._by_file) >= _MOST_FILES:
                self._by_file.clear()
            try:
                self._by_file[key] = MethodTables(file, self._cache)
            except elf.DAMAGE:
                self._by_file[key] = None
        return self._by_file[key]
