"""Disassemble with binutils' objdump.

objdump reads the file and the source files that it names. Its output is read up to a limit. Code that is in no file is passed in an
unnamed file in memory.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from threading import Timer
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.disassembly.code_lines import of_objdump
from perfpy.disassembly.function_code import NoCodeError
from perfpy.symbols.files.elf import MACHINES

if TYPE_CHECKING:
    from perfpy.disassembly.code_lines import AsmLine
    from perfpy.disassembly.function_code import FunctionCode

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
    """A running objdump."""

    def __init__(self, code: FunctionCode, process: subprocess.Popen[bytes], path: str) -> None:
        self._code = code
        self._process = process
        self._path = path

    def lines(self) -> list[AsmLine]:
        """Return its lines. Raises NoCodeError if there are no instructions."""
        assert self._process.stdout is not None
        with self._process:
            # Debug information names the source files that objdump reads. One that is a FIFO would block it.
            deadline = Timer(_SECONDS_MOST, self._process.kill)
            deadline.start()
            text = self._process.stdout.read(_TEXT_MOST + 1)
            deadline.cancel()
            if len(text) > _TEXT_MOST:
                self._process.kill()
                raise NoCodeError(self._code.name, f"objdump prints more than {_TEXT_MOST >> 20} MiB for this file")
        code = self._code
        lines = of_objdump(text.split(b"\n")[:-1], code.start, code.end, self._path)
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
    handed = -1 if code.is_file else _in_memory(code)
    name = code.file.path if handed < 0 else f"/proc/self/fd/{handed}"
    try:
        process = subprocess.Popen(
            _command(path, code, style, name),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=() if handed < 0 else (handed,),
        )
    except OSError as error:
        raise NoCodeError(code.name, f"cannot run {path}: {error.strerror}") from None
    finally:
        if handed >= 0:
            os.close(handed)
    return Running(code, process, name)


def _command(path: str, code: FunctionCode, style: CodeStyle, name: str) -> list[str]:
    """Return the command line that perf uses."""
    command = [path, *(("-M", style.syntax) if style.syntax else ())]
    command += [f"--start-address={code.start:#018x}", f"--stop-address={code.end:#018x}", "-d"]
    command += [] if style.raw or code.file.machine in _RAW_ALWAYS else ["--no-show-raw-insn"]
    command += ["-S"] if style.source and not (style.code_only and _has_lines(code)) else []
    command += [f"--prefix={style.prefix}"] if style.prefix else []
    command += [f"--prefix-strip={style.prefix_strip}"] if style.prefix_strip else []
    return [*command, *(["-C"] if style.demangle else []), "--", name]


def _has_lines(code: FunctionCode) -> bool:
    """Whether a file has debug information: objdump -S takes most of its time to read it. Otherwise -S finds names of another file."""
    return any(code.file.section(name) is not None for name in (".debug_info", ".zdebug_info"))


def _in_memory(code: FunctionCode) -> int:
    fd = os.memfd_create("code")
    with os.fdopen(os.dup(fd), "wb") as file:
        file.write(code.file.content)
    return fd


def _native() -> tuple[int, ...]:
    own = MACHINES.get(os.uname().machine, -1)
    return (62, 3) if own in (62, 3) else (own,)  # x86's objdump reads both


def _machine(code: FunctionCode) -> str:
    return f"ELF machine {code.file.machine}"
