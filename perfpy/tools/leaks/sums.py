"""Read the sums that the allocator hook left: what each stack of a process held at its highest moment, and at its end.

The process wrote the file, so nothing in it is trusted: numbers outside of their regions make a stack unknown, texts are cut to their
region, and line tables are decoded up to their first fault.
"""

from __future__ import annotations

import bisect
import contextlib
import os
import re
from functools import lru_cache, partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

from perfpy.interpreters.frames import CurrentFrame, decode_lines
from perfpy.symbols.dso import Dso
from perfpy.symbols.dso_symbols import loader_of
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.tools.leaks import hook
from perfpy.untrusted.files import open_regular

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

_FILE: Final = re.compile(r"[0-9]{1,10}\.memory")
_MOST_FILES: Final = 4096
_WORD: Final = 8
_LEAST_PART: Final = 500  # of the largest stack: smaller ones have no lines of native code
_LARGEST: Final = 1 << 46  # bytes: more than a process can map on most machines
#: files whose functions allocate for their callers: the line that calls them is shown
_LIBRARIES: Final = re.compile(r"/(ld-linux[^/]*|ld-musl[^/]*|lib(c|stdc\+\+|c\+\+|gcc_s|m|pthread|dl|asan)(-[0-9.]+)?\.so[^/]*)$")


#: the functions that load a library of Python's, by dlopen(); names have no class before Python 3.11
_LOADS_LIBRARY: Final = re.compile(
    r"(\w+\.)?create_module <frozen importlib\._bootstrap_external>|(CDLL\.)?__init__ .*/ctypes/__init__\.py"
)
_OF_START: Final = ("<frozen importlib.", "<frozen zipimport")  # the outermost functions before those of a program
_MAIN: Final = ("__libc_start_", "_start", "main@", "main")


class SumsFrame:
    """A frame of a stack. Python's line tables are decoded at the first use of a line: most lines are never shown.

    Args:
        function, file: as in CurrentFrame.
        line: the line, or a function that returns it.
    """

    __slots__ = ("_line", "file", "function")

    def __init__(self, function: str, file: str, line: int | Callable[[], int]) -> None:
        self.function = function
        self.file = file
        self._line = line

    @property
    def line(self) -> int:
        """The line; 0: unknown."""
        if not isinstance(self._line, int):
            self._line = self._line()
        return self._line


Frame: TypeAlias = CurrentFrame | SumsFrame


class StackSums(NamedTuple):
    """The allocations of one stack. frames: innermost first.

    Attributes:
        peak, peak_objects: bytes and number at the moment at which the process held most.
        left, left_objects: at its end.
        total, objects: of all allocations.
        temporary: allocations that were freed before the next one of their thread.
        most: the most bytes at a time.
    """

    frames: tuple[Frame, ...]
    peak: int
    peak_objects: int
    left: int
    left_objects: int
    total: int
    objects: int
    temporary: int
    most: int = 0


class ProcessSums(NamedTuple):
    """The allocations of a process.

    Attributes:
        command: its command line, truncated.
        python: the version, "" for other programs.
        peak: bytes at the highest moment.
        peak_after: seconds from the beginning to it, nearly.
        seconds: until the end; 0 if the process was killed.
        left: bytes at the end.
        lost: allocations whose stack has no number, because there are too many.
        small: of these allocations, the estimated number of CPython's objects of up to 512 bytes.
        arenas: bytes in which these objects lay, at most.
        stacks: those that held most first.
    """

    pid: int
    parent: int
    command: str
    python: str
    peak: int
    peak_after: float
    seconds: float
    left: int
    total: int
    objects: int
    temporary: int
    lost: int
    small: int
    arenas: int
    stacks: list[StackSums]


def read_processes(folder: str) -> Iterator[ProcessSums]:
    """Yield the processes whose files are in a folder."""
    for name in sorted(os.listdir(folder))[:_MOST_FILES]:
        if _FILE.fullmatch(name):
            with contextlib.suppress(OSError, ValueError), open_regular(os.path.join(folder, name)) as file:
                process = _SumsFile(file.fileno()).process()
                if process.objects:
                    yield process


class _SumsFile:
    """One file of sums."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        if os.fstat(descriptor).st_size != hook.FILE_SIZE or os.pread(descriptor, len(hook.MAGIC), 0) != hook.MAGIC:
            raise ValueError("no file of sums")
        words = self._words(_WORD, 1, len(hook.HEAD))[0].tolist()
        self._head = dict(zip(hook.HEAD, words, strict=True))
        for name, most in (("stacks", hook.MOST_STACKS), ("frames", hook.MOST_FRAME_NUMBERS), ("codes", hook.MOST_CODES),
                           ("pool", hook.POOL_ROOM), ("text", hook.TEXT_ROOM)):  # fmt: skip
            self._head[name] = min(self._head[name], most)
        self._text = os.pread(descriptor, self._head["text"], hook.TEXT_AT)
        self._version = (self._head["python"] >> 8 & 0xFF, self._head["python"] & 0xFF)
        self._codes = self._words(hook.CODES_AT, self._head["codes"], len(hook.CODE))

    def process(self) -> ProcessSums:
        """Return the process."""
        head = self._head
        table = np.minimum(self._words(hook.STACKS_AT, head["stacks"], len(hook.STACK)), np.uint64(_LARGEST))
        columns = {name: table[:, column] for column, name in enumerate(hook.STACK)}
        is_at_peak = columns["epoch"] != np.uint64(min(head["epoch"], _LARGEST))  # unchanged since the highest moment
        peak = np.where(is_at_peak, columns["live"], columns["peak"])
        peak_objects = np.where(is_at_peak, columns["live_count"], columns["peak_count"])
        pool = np.frombuffer(os.pread(self._descriptor, head["pool"] * 4, hook.POOL_AT), np.uint32)
        is_large = np.zeros(len(table), bool)  # lines of native code take time to find
        for values in (peak, *(columns[name] for name in ("live", "total", "temporary"))):
            is_large |= values >= np.uint64(max(int(values.max(initial=0)) // _LEAST_PART, 1))
        stacks_with_lines = zip(columns["first"][is_large].tolist(), columns["depth"][is_large].tolist(), strict=True)
        with_lines = {
            number for first, depth in stacks_with_lines for number in pool[first : first + min(depth, hook.MOST_FRAMES)].tolist()
        }
        frames = _FrameTexts(
            self._words(hook.FRAMES_AT, head["frames"], len(hook.FRAME)), self._codes, self._text, self._version, with_lines
        )
        order = np.argsort(peak)[::-1]
        rows = zip(peak[order].tolist(), peak_objects[order].tolist(),
                      *(columns[name][order].tolist() for name in ("live", "live_count", "total", "count", "temporary", "most")),
                      *(columns[name][order].tolist() for name in ("first", "depth")), strict=True)  # fmt: skip
        numbers_of_frames, frames_of = pool.tolist(), {number: frames.of(number) for number in np.unique(pool).tolist()}
        stacks = [
            StackSums(tuple(map(frames_of.__getitem__, numbers_of_frames[first : first + min(depth, hook.MOST_FRAMES)])), *numbers)
            for *numbers, first, depth in rows
            if numbers[5]
        ]
        return ProcessSums(
            head["pid"],
            head["parent"],
            os.pread(self._descriptor, hook.COMMAND_SIZE, hook.COMMAND_AT).strip(b"\0").replace(b"\0", b" ").decode("utf-8", "replace"),
            "{}.{}".format(*self._version) if head["python"] else "",
            head["peak"],
            max(head["peaked"] - head["began"], 0) / 1e9,
            max(head["ended"] - head["began"], 0) / 1e9,
            head["live"],
            head["total"],
            head["count"],
            head["temporary"],
            head["lost"],
            head["small"],
            head["most_arenas"],
            stacks,
        )

    def _words(self, offset: int, rows: int, columns: int) -> NDArray[np.uint64]:
        """Return a table of 64-bit words."""
        data = os.pread(self._descriptor, rows * columns * _WORD, offset)
        if len(data) != rows * columns * _WORD:
            raise ValueError("the file was truncated")
        return np.frombuffer(data, np.uint64).reshape(rows, columns)


class _FrameTexts:
    """The functions of frames, by their numbers; each is decoded on first use, native ones of a module together.

    Args:
        frames: a row a frame.
        codes: a row a code object or module.
        text: their names and line tables.
        version: of CPython.
        with_lines: the native frames whose lines are found.
    """

    def __init__(
        self, frames: NDArray[np.uint64], codes: NDArray[np.uint64], text: bytes, version: tuple[int, int], with_lines: set[int]
    ) -> None:
        self._with_lines = with_lines
        self._frames = frames
        self._rows = frames.tolist()
        self._codes = codes.tolist()
        self._text = text
        self._version = version
        self._known: dict[int, SumsFrame] = {}
        self._names: dict[int, tuple[str, str]] = {}  # function and file of a code object
        self._lines: dict[int, list[tuple[int, int]]] = {}
        self._dsos = {number: Dso(path) for number in self._modules() if (path := self._path(number)).startswith("/")}
        self._numbers = {number: row for row, number in enumerate(self._dsos)}
        self._loader = loader_of(list(self._dsos.values()), SymbolOptions())

    def of(self, number: int) -> SumsFrame:
        """Return the frame with a number."""
        if number not in self._known:
            code, offset = self._rows[number] if number < len(self._rows) else (hook.UNKNOWN, 0)
            if code & hook.NATIVE:
                self._name_module(code & ~hook.NATIVE)
            elif code < len(self._codes):
                self._known[number] = self._python_frame(code, offset)
        return self._known.setdefault(number, SumsFrame("[unknown]", "", 0))

    def _python_frame(self, code: int, offset: int) -> SumsFrame:
        if code not in self._names:
            name, name_size, file, file_size, *_ = self._codes[code]
            self._names[code] = self._decoded(name, name_size), self._decoded(file, file_size)
        return SumsFrame(*self._names[code], partial(self._line, code, offset))

    def _line(self, code: int, offset: int) -> int:
        """Return the line of an instruction of a Python code object."""
        *_, lines, lines_size, first_line = self._codes[code]
        if code not in self._lines:
            self._lines[code] = decode_lines(self._text[lines : lines + lines_size], first_line, self._version)
        rows = self._lines[code]
        row = bisect.bisect_right(rows, (offset, 1 << 62)) - 1
        return rows[row][1] if row >= 0 else first_line

    def _decoded(self, begin: int, size: int) -> str:
        return self._text[begin : begin + size].decode("utf-8", "replace")

    def _path(self, number: int) -> str:
        _, _, file, file_size, *_ = self._codes[number]
        return os.fsdecode(self._text[file : file + file_size].replace(b"\0", b""))

    def _modules(self) -> list[int]:
        """Return the numbers of the modules of native frames."""
        code = self._frames[:, 0]
        numbers = np.unique(code[code & np.uint64(hook.NATIVE) != 0] & ~np.uint64(hook.NATIVE))
        return [number for number in numbers.tolist() if number < len(self._codes)]

    def _name_module(self, module: int) -> None:
        """Name all frames in a module."""
        rows = np.flatnonzero(self._frames[:, 0] == np.uint64(module | hook.NATIVE))
        path = self._path(module) if module < len(self._codes) else ""
        short = path.rpartition("/")[2]
        functions, lines = self._native(module, rows) if module in self._dsos else _unnamed(len(rows))
        for number, function, (file, line) in zip(rows.tolist(), functions, lines, strict=True):
            self._known[number] = SumsFrame(function or f"[{short or 'unknown'}]", file or short, line)

    def _native(self, module: int, rows: NDArray[np.int64]) -> tuple[list[str], Sequence[tuple[str, int]]]:
        """Return the functions, and the files and lines, of the frames in a module."""
        from perfpy.debuginfo.debug_info import DebugInfo

        relative = self._frames[rows, 1]
        files = self._loader.files(self._numbers[module])
        if files.symbols is None or files.runtime is None or not len(files.runtime.segments):
            return _unnamed(len(relative))
        segments = files.runtime.segments
        base = min(int(segment["vaddr"]) for segment in segments) & ~0xFFF
        offsets = np.array([_file_offset(segments, address + base) for address in relative.tolist()], np.uint64)
        table = self._loader.table(self._numbers[module])
        if not len(table):
            return _unnamed(len(relative))
        functions = [table.name(row) if row >= 0 else "" for row in table.find(offsets).tolist()]
        source_lines = [("", 0)] * len(rows)
        chosen = [index for index, row in enumerate(rows.tolist()) if row in self._with_lines]
        if chosen:
            info = DebugInfo(files.symbols, files.runtime, keeps=True)
            lines = info.lines.find(info.addresses(offsets[chosen]))
            for index, file, line in zip(chosen, lines.file.tolist(), lines.line.tolist(), strict=True):
                if file >= 0:
                    source_lines[index] = (info.lines.paths[file], line)
        return functions, source_lines


def _unnamed(count: int) -> tuple[list[str], list[tuple[str, int]]]:
    return [""] * count, [("", 0)] * count


def _file_offset(segments: Iterable[Any], address: int) -> int:
    for segment in segments:
        position = address - int(segment["vaddr"])
        if 0 <= position < int(segment["filesz"]):
            return int(segment["offset"]) + position
    return 0


class PeakParts(NamedTuple):
    """What a Python process held at its highest moment, in bytes.

    Attributes:
        start: of the interpreter's start, before the program's first line.
        loading: of libraries, while they were loaded: of their constructors and the dynamic linker.
        own: the rest.
    """

    start: int
    loading: int
    own: int


def parts_of_peak(process: ProcessSums) -> PeakParts:
    """Return what a process held at its highest moment by the time at which it was allocated; of other programs all is their own."""
    start = loading = 0
    for stack in process.stacks if process.python else ():
        outermost = next(filter(_is_python, reversed(stack.frames)), None)
        if any(map(_loads_library, islice(filter(_is_python, stack.frames), 2))):
            loading += stack.peak
        elif outermost.file.startswith(_OF_START) if outermost else any(frame.function.startswith(_MAIN) for frame in stack.frames):
            start += stack.peak
    return PeakParts(start, loading, max(process.peak - start - loading, 0))


@lru_cache(maxsize=1 << 16)
def _is_python(frame: Frame) -> bool:
    return frame.file.endswith(".py") or frame.file.startswith("<")


@lru_cache(maxsize=1 << 16)
def _loads_library(frame: Frame) -> bool:
    return _LOADS_LIBRARY.fullmatch(f"{frame.function} {frame.file}") is not None


def own_begin(frames: Sequence[Frame]) -> int:
    """Return the number of allocating functions of libraries at the inner end of a stack, 0 if it has no others."""
    for index, frame in enumerate(frames):
        if not _allocates(frame):
            return index
    return 0


@lru_cache(maxsize=1 << 16)
def _allocates(frame: Frame) -> bool:
    return _LIBRARIES.search(f"/{frame.file}") is not None or frame.function.startswith("operator new")
