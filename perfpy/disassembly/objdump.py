"""Disassemble with binutils' objdump.

objdump opens no file by a name that the program's owner chose. It gets the program as a descriptor: the file that was read, or a copy in
memory without links to debug files, unless the program and the folders above it are root's or the current user's. Source files that debug
information names are read here (source_lines). Names could lead objdump to any file, also to FIFOs and devices. Its output is read up to a
limit.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from threading import Timer
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.disassembly.code_lines import of_objdump
from perfpy.disassembly.function_code import NoCodeError
from perfpy.disassembly.source_lines import with_source
from perfpy.symbols.files.elf import MACHINES
from perfpy.untrusted.files import regular_fd
from perfpy.untrusted.folders import trusted_program
from perfpy.untrusted.paths import split_process

if TYPE_CHECKING:
    from perfpy.disassembly.code_lines import AsmLine
    from perfpy.disassembly.function_code import FunctionCode
    from perfpy.symbols.files.elf import ElfFile

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
            raise NoCodeError(code.name, f"objdump finds no instructions in {code.file.path} ({_machine(code)})")
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
    machine = code.file.machine
    names = ["objdump"] if machine in _native() else [f"{prefix}objdump" for prefix in _PREFIXES.get(machine, ())] + ["objdump"]
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
    if style.source and not _has_debug_sections(code.file):
        # -S reads the names of a separate debug file of root, as perf does. No source file is below this prefix.
        command += ["-S", "-l"]
        prefix = os.devnull + prefix
    elif style.source and not style.code_only:
        command += ["-l"]
    command += [f"--prefix={prefix}"] if prefix else []
    command += [f"--prefix-strip={style.prefix_strip}"] if style.prefix_strip else []
    return [*command, *(["-C"] if style.demangle else []), "--", name]


def _has_debug_sections(file: ElfFile) -> bool:
    """Whether objdump would take names of source files from the file itself. It takes them from a debug file otherwise."""
    return any(section.name.startswith(_DEBUG_SECTIONS) or section.name == ".debug" for section in file.sections)


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


def _native() -> tuple[int, ...]:
    own = MACHINES.get(os.uname().machine, -1)
    return (62, 3) if own in (62, 3) else (own,)  # x86's objdump reads both


def _machine(code: FunctionCode) -> str:
    return f"ELF machine {code.file.machine}"
