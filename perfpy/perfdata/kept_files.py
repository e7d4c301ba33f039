r"""Store files inside of a recording: perf maps and jitdumps; with --self-contained, all sampled code.

Runtimes leave the names of their code in files that do not outlive the machine's next boot
(/tmp/perf-PID.map, jitdumps); kept in the recording they stay with the samples. perf skips the
section: it counts features of this number, but never reads them. Layout:

    char magic[8];                        "perfpy\1\0"
    u32 count, size of the table;         in bytes
    { u64 size, packed; u16 name length; u8 packing; char name[]; }   count times, not padded
    then the packed bytes of each file, in the order of the table

packing: 0 none, 1 zlib, 2 zstd. Names are labels: nothing is ever written under them. Pipes have
no such section: perf 6.12 stops at a feature record of an unknown number.
"""

from __future__ import annotations

import contextlib
import struct
import zlib

from perfpy.abi.light_types import TYPE_CHECKING, NamedTuple
from perfpy.untrusted import expansion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Final

DEBUG_FILE: Final = "debug:"  #: prefix of a program's name: its separate file of symbols
_MAGIC: Final = b"perfpy\1\0"
_HEAD: Final = "8sII"
_ENTRY: Final = "QQHB"
_STORED, _ZLIB, _ZSTD = range(3)
_KINDS: Final = {_ZLIB: "zlib", _ZSTD: "zstd"}
_MOST_FILES: Final = 1 << 16
_LONGEST_NAME: Final = 4096  # PATH_MAX
_LEVEL: Final = 3  # of zstd: its default
_SMALL: Final = 256 << 10  # bytes


class KeptFile(NamedTuple):
    """The position and size of one file.

    Attributes:
        offset: in the section.
        packed: bytes in the section.
        size: bytes unpacked.
        packing: 0 none, 1 zlib, 2 zstd.
    """

    offset: int
    packed: int
    size: int
    packing: int


class KeptFiles:
    """The files of one section, by name.

    Args:
        read: reads (offset in the section, size).
        size: bytes of the section.
        endian: "<" or ">".
        warn: called once for each damaged file.

    Raises ValueError if the section has another format.
    """

    def __init__(self, read: Callable[[int, int], bytes], size: int, endian: str, warn: Callable[[str], None]) -> None:
        self._read = read
        self._warn = warn
        self._files = _table(read, size, endian)

    def __len__(self) -> int:
        return len(self._files)

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __contains__(self, name: object) -> bool:
        return name in self._files

    def get(self, name: str) -> bytes | None:
        """Return the bytes of a file, or None if it is missing or damaged."""
        file = self._files.get(name)
        if file is None:
            return None
        try:
            data = self._read(file.offset, file.packed)
            if len(data) < file.packed:
                raise ValueError("truncated")
            if file.packing == _STORED:
                return data
            if file.packing not in _KINDS:
                raise ValueError(f"unknown packing {file.packing}")
            return expansion.expand(_KINDS[file.packing], data)
        except ValueError as error:
            self._warn(f"{name!a} in the recording: {error}; skipped")
            return None


def _table(read: Callable[[int, int], bytes], size: int, endian: str) -> dict[str, KeptFile]:
    """Return the files of a section by name; of equal names, the first."""
    head = read(0, struct.calcsize(endian + _HEAD))
    if len(head) < struct.calcsize(endian + _HEAD):
        raise ValueError("truncated before its table")
    magic, count, table_size = struct.unpack(endian + _HEAD, head)
    offset = len(head) + table_size
    if magic != _MAGIC or count > _MOST_FILES or offset > size:
        raise ValueError("no section of kept files")
    table = read(len(head), table_size)
    files: dict[str, KeptFile] = {}
    position = 0
    for _ in range(count):
        name, file, position = _entry(table, position, offset, endian)
        offset += file.packed
        if offset > size:
            raise ValueError(f"file of {file.packed} bytes extends beyond it")
        files.setdefault(name, file)
    return files


def _entry(table: bytes, position: int, offset: int, endian: str) -> tuple[str, KeptFile, int]:
    try:
        size, packed, length, packing = struct.unpack_from(endian + _ENTRY, table, position)
    except struct.error:
        raise ValueError("its table is truncated") from None
    position += struct.calcsize(endian + _ENTRY)
    name = table[position : position + length]
    if len(name) < length or not 0 < length <= _LONGEST_NAME:
        raise ValueError("its table is truncated, or has a file without a name")
    return name.decode("utf-8", "surrogateescape"), KeptFile(offset, packed, size, packing), position + length


def encode(files: Mapping[str, bytes], endian: str) -> bytes:
    """Return a section that holds these files."""
    table, bodies = [], []
    for name, data in files.items():
        encoded = name.encode("utf-8", "surrogateescape")[:_LONGEST_NAME]
        packing, body = _pack(data)
        table.append(struct.pack(endian + _ENTRY, len(data), len(body), len(encoded), packing) + encoded)
        bodies.append(body)
    joined = b"".join(table)
    return struct.pack(endian + _HEAD, _MAGIC, len(table), len(joined)) + joined + b"".join(bodies)


def _pack(data: bytes) -> tuple[int, bytes]:
    """Compress a file, unless a reader's limit of expansion would reject it. Small ones are not worth loading zstd."""
    packing, packed = _ZLIB, b""
    if len(data) > _SMALL:
        with contextlib.suppress(expansion.ExpansionError):
            packing, packed = _ZSTD, expansion.zstd_library().compress(data, _LEVEL)
    packed = packed or zlib.compress(data)
    return (packing, packed) if len(packed) < len(data) <= expansion.allowance(len(packed)) else (_STORED, data)


# States of programs that were read from their memory (perfpy.capture.unwinding.observed_states): one JSON list a line.

STATES: Final = "perfpy-states"  #: the name of the file
_MOST_STATES: Final = 1 << 16  # that are read
_MOST_FRAMES: Final = 256


class ObservedFrame(NamedTuple):
    """A function, its file and line; "" and 0 if they are unknown."""

    function: str
    file: str
    line: int


class ObservedState(NamedTuple):
    """A state of a thread of execution that the recorder saw.

    Attributes:
        pid: of the process; of "call", "mutex", "file lock" and "stuck", the thread.
        kind: "bash", "go", "call" for the system call in which a thread slept, "peer" for an address that a process was connected to while
            its main thread waited for sockets, "connecting" for one that it tried to connect to, "limit" for its cgroup's CPU limit,
            "killed" for the signal that ended it; "mutex" and "file lock" for one that it waited for, "stuck" for one that it waited for,
            without running, until the end; "collections" for a JVM's garbage collections of one kind, "heap option" for an option that
            limits the heap of a Node.
        looks: how often it was looked at; of "call", while it slept; of "mutex" and "file lock", while it waited for one.
        seen: how often this state was seen; in one look several threads of execution can have it. Of "limit", `looks` is the number of
            periods in which the cgroup had work, and `seen` that of those in which it reached the limit. Of "collections", `looks` is their
            time in ms, and `seen` their number.
        reason: what it waited for, in the runtime's words; of "call", the call and its descriptor; of "killed", the name of the signal; of
            "peer" and "connecting", the address; of "limit", the number of CPUs; of locks, the variable or the file, "" without a name; of
            "collections", young or full.
        frames: innermost first; of "killed", the address of the instruction in place of a line, if it is known.
        began: for goroutines, the function that it began with, and that with the go statement; for locks, the name and, in place of a line,
            the number of the thread that holds it: "" if it has ended; for connections, the same of the process at the other end; for
            collections, the option that limits the memory, and that limit in MB.
    """

    pid: int
    kind: str
    looks: int
    seen: int
    reason: str
    frames: list[ObservedFrame]
    began: list[ObservedFrame]


def encode_states(states: Iterable[ObservedState]) -> bytes:
    """Return the file of some states."""
    import json  # rarely needed

    return b"".join(json.dumps(state).encode() + b"\n" for state in states)


def decode_states(data: bytes) -> list[ObservedState]:
    """Return the states of a file; damaged ones are left out."""
    import json  # rarely needed

    states = []
    for line in data.splitlines()[:_MOST_STATES]:
        try:
            pid, kind, looks, seen, reason, frames, began = json.loads(line)
            numbers, texts = (int(pid), int(looks), int(seen)), (str(kind), str(reason))
            stacks = [
                [ObservedFrame(str(name), str(file), int(number)) for name, file, number in part[:_MOST_FRAMES]] for part in (frames, began)
            ]
        except (ValueError, TypeError, RecursionError):
            continue
        states.append(ObservedState(numbers[0], texts[0], *numbers[1:], texts[1], *stacks))
    return states


# The command lines of processes (perfpy.capture.unwinding.observed_states): one JSON list a line.

PROCESSES: Final = "perfpy-processes"  #: the name of the file
#: compilers, assemblers and linkers, of C, C++, Fortran, Ada, D, Go, Rust, Swift, CUDA and Haskell
BUILD_TOOL: Final = (
    r"(?:[\w.]+-)*(?:cc1(?:plus|obj|objplus)?|f951|gnat1|d21|go1|rust1|lto1|g?cc|[gc]\+\+|gfortran|clang(?:\+\+)?|rustc|swiftc?|swift-frontend"
    r"|ghc|nvcc|cicc|ptxas|cudafe\+\+|compile|asm|link|as|ld(?:\.\w+)?|collect2|lld|mold|javac|lto-wrapper)(?:-[\d.]+)?"
)
_MOST_WORDS: Final = 64
_LONGEST_WORD: Final = 256


class ObservedCommand(NamedTuple):
    """The command line of a process, as it was last seen.

    Attributes:
        parent: the process that created it, or that it was given to.
        began: when it began; numbers of one recording can be compared.
        words: the program and its arguments, or the title that the process has given itself. Of build tools, only the program and the
            file or the package that it compiles, or that it makes.
    """

    pid: int
    parent: int
    began: int
    words: list[str]


def encode_commands(commands: Iterable[ObservedCommand]) -> bytes:
    """Return the file of some command lines."""
    import json  # rarely needed

    return b"".join(json.dumps(command).encode() + b"\n" for command in commands)


def decode_commands(data: bytes) -> list[ObservedCommand]:
    """Return the command lines of a file; damaged ones are left out."""
    import json  # rarely needed

    commands = []
    for line in data.splitlines()[:_MOST_STATES]:
        try:
            pid, parent, began, words = json.loads(line)
            texts = [str(word)[:_LONGEST_WORD] for word in words[:_MOST_WORDS]]
            commands.append(ObservedCommand(int(pid), int(parent), int(began), texts))
        except (ValueError, TypeError, OverflowError, RecursionError):
            continue
    return commands
