"""Disassemble functions of a recording with the available tool.

The tool for the next function runs while the previous function's lines are processed.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from threading import Timer
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfpy.disassembly.function_code import FunctionCode, NoCodeError, code_bytes, function_code
from perfpy.symbols.files.elf import MACHINES
from perfpy.symbols.files.elf_symbols import mapping_symbols, symbol_sections
from perfpy.symbols.symbol_table import STT_FUNC
from perfpy.untrusted.destinations import trusted_program
from perfpy.untrusted.files import read_regular, regular_fd, split_process

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from perfpy.symbols.files.elf import ElfFile
    from perfpy.symbols.symbolizer import Symbolizer


class Disassembly(NamedTuple):
    """The location of a function's code and its lines."""

    code: FunctionCode
    lines: list[AsmLine]


class Disassembler:
    """A disassembler for the files of one recording."""

    def __init__(self, symbolizer: Symbolizer, style: CodeStyle) -> None:
        self._symbolizer = symbolizer
        self._style = style

    def functions(self, symbols: Iterable[int]) -> Iterator[Disassembly | NoCodeError]:
        """Yield the code of each symbol, or the error that explains why there is none."""
        waiting: tuple[FunctionCode, Running | None] | NoCodeError | None = None
        try:
            for symbol in symbols:
                ahead = self._begin(symbol)
                if waiting is not None:
                    last, waiting = waiting, ahead
                    yield self._finish(last)
                waiting = ahead
            if waiting is not None:
                last, waiting = waiting, None
                yield self._finish(last)
        finally:
            if isinstance(waiting, tuple) and waiting[1] is not None:
                waiting[1].stop()

    def _begin(self, symbol: int) -> tuple[FunctionCode, Running | None] | NoCodeError:
        try:
            code = function_code(self._symbolizer, symbol)
            path = program(code, self._style)
            return code, (start(code, self._style, path) if path else None)
        except NoCodeError as reason:
            return reason

    def _finish(self, begun: tuple[FunctionCode, Running | None] | NoCodeError) -> Disassembly | NoCodeError:
        if isinstance(begun, NoCodeError):
            return begun
        code, running = begun
        try:
            return Disassembly(code, running.lines() if running else instructions(code, self._style))
        except NoCodeError as reason:
            if running is None or self._style.program:
                return reason
        try:  # this machine's binutils may support fewer machines than capstone
            return Disassembly(code, instructions(code, self._style))
        except NoCodeError as reason:
            return reason


# Disassemble with binutils' objdump. objdump opens no file by a name that the program's owner chose. It gets the program as a descriptor:
# the file that was read, or a copy in memory without links to debug files, unless the program and the folders above it are root's or the
# current user's. Source files that debug information names are read here (source_lines). Names could lead objdump to any file, also to
# FIFOs and devices. Its output is read up to a limit.

_TEXT_MOST: Final = 256 << 20  # bytes of text of one function
_SECONDS_MOST: float = 300.0
#: e_machine -> the prefix of binutils' cross tools
_PREFIXES: Final = {
    2: ("sparc64-linux-gnu-",),
    3: ("i686-linux-gnu-", "x86_64-linux-gnu-"),
    8: ("mips-linux-gnu-", "mipsel-linux-gnu-", "mips64el-linux-gnuabi64-"),
    20: ("powerpc-linux-gnu-",),
    21: ("powerpc64le-linux-gnu-", "powerpc64-linux-gnu-"),
    22: ("s390x-linux-gnu-",),
    40: ("arm-linux-gnueabihf-", "arm-linux-gnueabi-"),
    62: ("x86_64-linux-gnu-",),
    183: ("aarch64-linux-gnu-",),
    243: ("riscv64-linux-gnu-",),
    258: ("loongarch64-linux-gnu-",),
}
#: beginnings of the names of sections from which objdump takes source lines
_DEBUG_SECTIONS: Final = (
    *(".debug_info", ".debug_line", ".debug_types", ".zdebug_info", ".zdebug_line", ".zdebug_types"),
    *(".gnu.linkonce.wi.", ".gnu.debuglto_", ".stab", ".line", ".mdebug"),
)
#: sections that name debug files
_LINKS: Final = (".gnu_debuglink", ".gnu_debugaltlink")
#: machines for which perf shows the raw bytes too: POWER
_RAW_ALWAYS: Final = (20, 21)


class CodeStyle(NamedTuple):
    """The style of disassembly.

    Attributes:
        source: with lines of source files.
        syntax: intel, att ...
        prefix: prepended to the paths of source files.
        prefix_strip: number of folders to strip before that.
        program: the objdump to run.
        code_only: only instructions are needed, with the names that objdump prints with source lines, too.
    """

    source: bool = True
    raw: bool = False
    syntax: str = ""
    prefix: str = ""
    prefix_strip: str = ""
    demangle: bool = True
    program: str = ""
    code_only: bool = False


class Running:
    """A running objdump; `path`: the name by which it knows the file."""

    def __init__(self, code: FunctionCode, process: subprocess.Popen[bytes], path: str, style: CodeStyle) -> None:
        self._code = code
        self._process = process
        self._path = path
        self._style = style

    def lines(self) -> list[AsmLine]:
        """Return its lines. Raises NoCodeError if there are no instructions."""
        assert self._process.stdout is not None
        with self._process:
            deadline = Timer(_SECONDS_MOST, self._process.kill)
            deadline.start()
            text = self._process.stdout.read(_TEXT_MOST + 1)
            deadline.cancel()
            if len(text) > _TEXT_MOST:
                self._process.kill()
                raise NoCodeError(self._code.name, f"objdump prints more than {_TEXT_MOST >> 20} MiB for this file")
        code = self._code
        text_lines = text.split(b"\n")[:-1]
        if self._style.source:
            text_lines = [*with_source(text_lines, is_read=not self._style.code_only)]
        lines = of_objdump(text_lines, code.start, code.end, self._path)
        if not any(line.is_code for line in lines):
            raise NoCodeError(code.name, f"objdump finds no instructions in {code.file.path} (ELF machine {code.file.machine})")
        return lines

    def stop(self) -> None:
        """Kill objdump; its output is not needed."""
        self._process.kill()
        with self._process:
            pass


def program(code: FunctionCode, style: CodeStyle) -> str | None:
    """Return the objdump for the code's machine, None without one."""
    if style.program:
        return style.program
    machine, own = code.file.machine, MACHINES.get(os.uname().machine, -1)
    is_native = machine in ((62, 3) if own in (62, 3) else (own,))  # x86's objdump reads both
    names = ["objdump"] if is_native else [f"{prefix}objdump" for prefix in _PREFIXES.get(machine, ())] + ["objdump"]
    return next((path for name in names if (path := shutil.which(name))), None)


def start(code: FunctionCode, style: CodeStyle, path: str) -> Running:
    """Start a program. Raises NoCodeError if it cannot be run."""
    file_fd = _hand_over(code)
    name = f"/proc/self/fd/{file_fd}"
    try:
        process = subprocess.Popen(
            _command(os.path.abspath(path) if "/" in path else path, code, style, name),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=(file_fd,),
            cwd="/",  # objdump searches the current folder for debug files
        )
    except OSError as error:
        raise NoCodeError(code.name, f"cannot run {path}: {error.strerror}") from None
    finally:
        os.close(file_fd)
    return Running(code, process, name, style)


def _command(path: str, code: FunctionCode, style: CodeStyle, name: str) -> list[str]:
    """Return the command line that perf uses."""
    command = [path, *(("-M", style.syntax) if style.syntax else ())]
    command += [f"--start-address={code.start:#018x}", f"--stop-address={code.end:#018x}", "-d"]
    command += [] if style.raw or code.file.machine in _RAW_ALWAYS else ["--no-show-raw-insn"]
    prefix = os.path.abspath(style.prefix) if style.prefix else ""
    if style.source and not any(section.name.startswith(_DEBUG_SECTIONS) or section.name == ".debug" for section in code.file.sections):
        # -S reads the names of a separate debug file of root, as perf does. No source file is below this prefix.
        command += ["-S", "-l"]
        prefix = os.devnull + prefix
    elif style.source and not style.code_only:
        command += ["-l"]
    command += [f"--prefix={prefix}"] if prefix else []
    command += [f"--prefix-strip={style.prefix_strip}"] if style.prefix_strip else []
    return [*command, *(["-C"] if style.demangle else []), "--", name]


def _hand_over(code: FunctionCode) -> int:
    """Return a descriptor of the code's file, or of a copy if other bytes are on the disk, or if objdump must not follow its links."""
    links = [section for section in code.file.sections if section.name in _LINKS]
    if code.is_file and (not links or _is_trusted(code.file.path)):
        with contextlib.suppress(OSError, ValueError):  # ValueError: a name with a NUL
            fd = regular_fd(code.file.path)
            state = os.fstat(fd)
            if (state.st_dev, state.st_ino, state.st_size) == (*code.file.inode, len(code.file.content)):
                return fd
            os.close(fd)
    fd = os.memfd_create("code")
    with os.fdopen(os.dup(fd), "wb") as file:
        file.write(code.file.content)
        for link in links:
            file.seek(link.offset)
            file.write(bytes(link.size))
    return fd


def _is_trusted(path: str) -> bool:
    """Whether only root and the current user can change a program, and what is in the folders where objdump searches its debug file."""
    try:
        trusted_program(path)
    except (OSError, ValueError):
        return False
    return split_process(path) is None


# Disassemble with the optional package capstone: code of other machines, or without objdump. Lines have a heading as objdump's. Mapping
# symbols of 32-bit Arm code distinguish Arm instructions, Thumb instructions and data.

ARM: Final = "a"
THUMB: Final = "t"
DATA: Final = "d"


def pieces(file: ElfFile, start: int, end: int) -> list[tuple[int, int, str]]:
    """Return the (first address, end, kind) of each piece of code or data."""
    marks: list[tuple[int, str]] = []
    thumb = False
    for section in symbol_sections(file):
        entries, strings = file.symbols(section), bytes(file.strings(section))
        value = entries["value"].astype(np.uint64)
        thumb |= bool(((entries["info"] & 15 == STT_FUNC) & (value == np.uint64(start | 1))).any())
        rows = np.flatnonzero(mapping_symbols(file, entries["name"], strings) & (value < np.uint64(end)))
        marks += [(int(value[row]), chr(strings[int(entries["name"][row]) + 1])) for row in rows.tolist()]
    marks.sort()
    first = next((kind for address, kind in reversed(marks) if address <= start), THUMB if thumb else ARM)
    bounds = [(start, first), *((address, kind) for address, kind in marks if address > start)]
    ends = [address for address, _ in bounds[1:]] + [end]
    return [(address, stop, kind) for (address, kind), stop in zip(bounds, ends, strict=True) if address < stop]


_HOW: Final = "install objdump (binutils; of another machine binutils-multiarch), or pip install 'perfpy[annotate]'"
_ARM: Final = 40
_WORD: Final = 4
#: size of data -> directive
_DIRECTIVES: Final = {1: ".byte", 2: ".short", 3: ".byte", 4: ".word"}
#: e_machine -> names of capstone's constants: the architecture and its mode flags
_MACHINES: Final = {
    3: ("ARCH_X86", ("MODE_32",)),
    8: ("ARCH_MIPS", ("MODE_64",)),
    20: ("ARCH_PPC", ("MODE_32",)),
    21: ("ARCH_PPC", ("MODE_64",)),
    22: ("ARCH_SYSZ", ()),
    40: ("ARCH_ARM", ("MODE_ARM",)),
    62: ("ARCH_X86", ("MODE_64",)),
    183: ("ARCH_ARM64", ()),
    243: ("ARCH_RISCV", ("MODE_RISCV64", "MODE_RISCVC")),
}


def instructions(code: FunctionCode, style: CodeStyle) -> list[AsmLine]:
    """Return the instructions of a function."""
    data = code_bytes(code)
    if code.file.machine == _ARM:
        lines = list(_of_arm(data, code, style))
    else:
        lines = list(_instructions(_reader(code, style), data, code.start, code, style))
    if not lines:
        raise NoCodeError(code.name, f"capstone finds no instructions in {code.file.path}")
    heading = ("", "", "", "Disassembly of section .text:", "", f"{code.start:016x} <{code.name}>:")
    return [*(AsmLine(NOT_CODE, text) for text in heading), *lines]


def _reader(code: FunctionCode, style: CodeStyle, extra_mode: str = "") -> Any:
    try:
        import capstone
    except ModuleNotFoundError:
        raise NoCodeError(code.name, f"no disassembler for its instructions: {_HOW}") from None
    if code.file.machine not in _MACHINES:
        raise NoCodeError(code.name, f"capstone does not know ELF machine {code.file.machine}")
    architecture, modes = _MACHINES[code.file.machine]
    mode = capstone.CS_MODE_BIG_ENDIAN if code.file.endian == ">" else 0
    for name in (*modes, *([extra_mode] if extra_mode else ())):
        mode |= getattr(capstone, f"CS_{name}")
    reader = capstone.Cs(getattr(capstone, f"CS_{architecture}"), mode)
    reader.skipdata = True
    if architecture == "ARCH_X86" and style.syntax != "intel":
        reader.syntax = capstone.CS_OPT_SYNTAX_ATT
    return reader


def _instructions(reader: Any, data: bytes, start: int, code: FunctionCode, style: CodeStyle) -> Iterator[AsmLine]:
    for address, size, name, operands in reader.disasm_lite(data, start):
        yield _line(address, data[address - start : address - start + size], f"{name:<6} {operands}", code, style)


def _of_arm(data: bytes, code: FunctionCode, style: CodeStyle) -> Iterator[AsmLine]:
    for start, end, kind in pieces(code.file, code.start, code.start + len(data)):
        part = data[start - code.start : end - code.start]
        if kind != DATA:
            yield from _instructions(_reader(code, style, "MODE_THUMB" if kind == THUMB else ""), part, start, code, style)
            continue
        for first in range(0, len(part), _WORD):
            word = part[first : first + _WORD]
            number = int.from_bytes(word, "big" if code.file.endian == ">" else "little")
            yield _line(start + first, word, f"{_DIRECTIVES[len(word)]:<6} {number:#0{2 + 2 * len(word)}x}", code, style)


def _line(address: int, data: bytes, text: str, code: FunctionCode, style: CodeStyle) -> AsmLine:
    raw = f"{data.hex(' '):<22}" if style.raw else ""
    # The column of objdump's text after the address.
    blank = " " * (8 - (len(f"{address:x}") + 1) % 8)
    return AsmLine(address - code.start, f"{blank}{raw}{text}".rstrip())


# Parse a disassembler's text into AsmLines: instructions, and the lines between them. The rules for which lines count, and for blanks and
# tabs, are perf's.

#: the offset of lines that are not instructions of the function
NOT_CODE: Final = -1
_TABS: Final = 4  # columns, for screens; perf's text keeps the tabs
_INSTRUCTION: Final = re.compile(rb"(?:0[xX])?([0-9a-fA-F]{1,16}):(.+)")


class AsmLine(NamedTuple):
    """One line of code.

    Attributes:
        offset: of the instruction from the function's start, or NOT_CODE.
        text: the instruction, or the text of another line.
        indent: number of blanks before the text of another line.
    """

    offset: int
    text: str
    indent: int = 0

    @property
    def is_code(self) -> bool:
        """Whether the line is an instruction."""
        return self.offset != NOT_CODE


def of_objdump(lines: Iterable[bytes], start: int, end: int, path: str) -> list[AsmLine]:
    """Return the lines of a function from `start` to `end`, without the lines that name the file (`path`)."""
    path_prefix = path.encode("utf-8", "surrogateescape") + b":"
    return [_code_line(line, start, end) for line in lines if path_prefix not in line]


def _code_line(text: bytes, start: int, end: int) -> AsmLine:
    line = text.strip().expandtabs()
    match = _INSTRUCTION.match(line)
    address = int(match[1], 16) if match else -1
    if match and start <= address < end:
        return AsmLine(address - start, match[2].decode("utf-8", "surrogateescape"))
    before = text[: len(text) - len(text.lstrip())].expandtabs(_TABS)
    return AsmLine(NOT_CODE, line.decode("utf-8", "surrogateescape"), len(before) if line else 0)


# Insert source lines into the text of objdump -l, as objdump -S prints them.
#
# objdump -S opens the source files that a program's debug information names, also FIFOs and devices. These names are read here instead,
# like all names that others chose. objdump prints five more lines before a line, but no line twice in a row of instructions (binutils,
# objdump.c, show_line()).


_FILE_MOST: Final = 64 << 20
_FILES_MOST: Final = 1 << 10
_LINES_BEFORE: Final = 5
#: instructions, labels, headings
_KEPT: Final = re.compile(rb"\s*[0-9a-f]+:\t|[0-9a-f]{8,16} <|Disassembly of section ")
_LINE: Final = re.compile(rb"(.+):([1-9][0-9]{0,8})(?: \(discriminator [0-9]+\))?")
_LINE_END: Final = re.compile(rb"\n\r?|\r\n?")
_UNKNOWN: Final = b"???"
_NOWHERE: Final = b"/dev/null"  # objdump's --prefix if it must not find source files


class _Source:
    """The lines of a source file, and how far they are printed."""

    def __init__(self, name: bytes) -> None:
        try:
            text = read_regular(name.decode("utf-8", "surrogateescape"), limit=_FILE_MOST)
        except (OSError, ValueError):  # ValueError: a name with a NUL
            text = b""
        self._lines = _LINE_END.split(text)[:-1]  # objdump counts complete lines only
        self._last = self._largest = 0

    def until(self, number: int) -> list[bytes]:
        """Return the lines to print before an instruction of a line."""
        if number == self._last:
            return []
        first = number - _LINES_BEFORE if number >= _LINES_BEFORE else 1
        if self._largest >= first:
            first = self._largest + 1 if self._largest < number else number
        self._last, self._largest = number, max(self._largest, number)
        return self._lines[max(first - 1, 0) : number]


def with_source(lines: Iterable[bytes], *, is_read: bool = True) -> Iterator[bytes]:
    """Yield the lines of objdump -l with source lines in place of line numbers and names of functions.

    is_read: whether source files are read; without, the lines are only removed.
    """
    sources: dict[bytes, _Source] = {}
    for line in lines:
        if _KEPT.match(line):
            yield line
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            if not line.endswith(b":"):  # the name of a function
                yield line
            continue
        name = match[1].removeprefix(_NOWHERE)
        if is_read and name != _UNKNOWN and (name in sources or len(sources) < _FILES_MOST):
            source = sources.get(name) or sources.setdefault(name, _Source(name))
            yield from source.until(int(match[2]))
