"""Build the allocator hook, and start a command with it.

An ordinary user may not put probes into programs, and CPython's tracemalloc sees neither the memory of C libraries nor the highest
moment. So a small C library (hook.c) is loaded into the command, as memray and heaptrack do it. It is compiled when it is first needed,
by the C compiler of the machine, with the offsets of all known interpreters, and stored below XDG_CACHE_HOME.

The hook stores sums for each stack, not single allocations: its file does not grow with the time, and needs no reading at the end.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import shutil
import signal
import struct
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from perfpy.errors import PerfError
from perfpy.interpreters.layouts import LAYOUTS, NONE, described_words
from perfpy.symbols.files.debug_files import folder
from perfpy.untrusted.destinations import create_new, own, trusted_program
from perfpy.untrusted.files import open_regular
from perfpy.untrusted.text import visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

#: The numbers in the file of sums, of which there are as many as a region has room for.
MOST_STACKS: Final = 1 << 17
MOST_FRAME_NUMBERS: Final = 1 << 18
MOST_CODES: Final = 1 << 16
POOL_ROOM: Final = 1 << 22  # frames of all stacks
TEXT_ROOM: Final = 1 << 26  # bytes of names and line tables
LONGEST_TEXT: Final = 1 << 18
NATIVE: Final = 1 << 40  # marks a module in place of a code object
UNKNOWN: Final = NATIVE - 1
MAGIC: Final = b"PERFPYM\1"
MOST_FRAMES: Final = 128  # of a stack
_MOST_NATIVE: Final = 48
SMALLEST: Final = 512  # bytes: larger objects are not in CPython's arenas
SMALL_STEP: Final = 4096  # bytes of small objects, for each that is followed
_FILTER_BITS: Final = 18

#: head_t_, stack_t_, frame_t_ and code_t_ of hook.c: the names of their 64-bit words
HEAD: Final = (
    *("pid", "parent", "python", "stacks", "frames", "codes", "pool", "text", "live", "peak", "epoch"),
    *("total", "count", "temporary", "lost", "began", "peaked", "ended", "small", "arenas", "most_arenas"),
)
STACK: Final = ("live", "live_count", "peak", "peak_count", "epoch", "total", "count", "temporary", "most", "first", "depth")
FRAME: Final = ("code", "offset")
CODE: Final = ("name", "name_size", "file", "file_size", "lines", "lines_size", "first_line")
COMMAND_AT: Final = 1024  # the command line, its words separated by NUL
COMMAND_SIZE: Final = 1024
STACKS_AT: Final = 4096
FRAMES_AT: Final = STACKS_AT + MOST_STACKS * 8 * len(STACK)
CODES_AT: Final = FRAMES_AT + MOST_FRAME_NUMBERS * 8 * len(FRAME)
POOL_AT: Final = CODES_AT + MOST_CODES * 8 * len(CODE)
TEXT_AT: Final = POOL_AT + POOL_ROOM * 4
FILE_SIZE: Final = TEXT_AT + TEXT_ROOM

#: the constants that hook.c needs
_NUMBERS: Final = (
    *("MOST_STACKS", "MOST_FRAME_NUMBERS", "MOST_CODES", "POOL_ROOM", "TEXT_ROOM", "LONGEST_TEXT", "NATIVE", "UNKNOWN"),
    *("COMMAND_AT", "COMMAND_SIZE", "STACKS_AT", "FRAMES_AT", "CODES_AT", "POOL_AT", "TEXT_AT", "FILE_SIZE"),
)
_COMPILERS: Final = ("cc", "gcc", "clang")
_LONGEST_BUILD: Final = 60.0  # seconds
_FIELDS: Final = (
    *("thread_frame", "frame_previous", "frame_code", "frame_instruction", "frame_owner"),
    *("code_filename", "code_name", "code_lines", "code_first_line", "code_code"),
)
#: the same fields where an interpreter describes itself
_DESCRIBED: Final = ("thread.current_frame", "frame.previous", "frame.executable", "frame.instr_ptr", "frame.owner", "code.filename",
                     "code.qualname", "code.linetable", "code.firstlineno", "code.adaptive")  # fmt: skip
_CONSTANTS: Final = ("thread_cframe", "shims", "tag_mask", "is_inline", "unit", "ascii_text", "other_text")


def source() -> str:
    """Return the text of the library: the offsets of interpreters and the layout of the file, then hook.c."""
    numbers = {
        **{name: globals()[name] for name in _NUMBERS},
        "MOST_FRAMES": MOST_FRAMES,
        "MOST_NATIVE": _MOST_NATIVE,
        "DESCRIBED_FIELDS": len(_FIELDS),
        "SMALLEST": SMALLEST,
        "SMALL_STEP": SMALL_STEP,
        "FILTER_BITS": _FILTER_BITS,
    }
    lines = ["#define _GNU_SOURCE"]
    lines += [f"#define {name} {value}ull" if value > _MOST_NATIVE << 8 else f"#define {name} {value}" for name, value in numbers.items()]
    lines += ["#include <stdint.h>", f"typedef struct {{ uint64_t version; int32_t {', '.join((*_FIELDS, *_CONSTANTS))}; }} layout_t;"]
    rows = []
    for version, layout in LAYOUTS.items():
        frame, code, unit = layout.frame, layout.code, 2 if version == (3, 10) else 1
        qualname = code.name if code.qualname == NONE else code.qualname
        fields = (layout.thread.frame, frame.previous, frame.code, frame.instruction, frame.owner, code.filename, qualname, code.lines)
        constants = (layout.thread.cframe, frame.shims, 0, int(code.is_inline), unit, layout.ascii_text, layout.other_text)
        rows.append((version, (*fields, code.first_line, code.code, *constants)))
    described = [
        (version, (*(words[name] for name in _DESCRIBED), NONE, 3, 3 if version >= (3, 14) else 0, 1, 1, 40, 56))
        for version, words in described_words().items()
    ]
    for name, table in (("LAYOUTS", rows), ("DESCRIBED", described)):
        entries = ", ".join(f"{{{major << 8 | minor}, {', '.join(map(str, values))}}}" for (major, minor), values in table)
        lines.append(f"static const layout_t {name}[] = {{{entries}}};")
    return "\n".join(lines) + "\n" + Path(__file__).with_name("hook.c").read_text(encoding="utf-8")


def library(private: str) -> str:
    """Return the path of the compiled library. private: a folder for it if it cannot be cached. Raises PerfError without a C compiler."""
    text = source()
    name = f"{hashlib.sha256(f'{text} {platform.machine()} {platform.libc_ver()}'.encode()).hexdigest()[:32]}.so"
    try:
        with own(folder("leaks")) as cache:
            path = os.path.join(cache.path, name)
            if not cache.has(name):
                cache.put(name, (_compiled(text, private),))
            with open_regular(path, owners={os.geteuid()}, follow=False):
                return path
    except OSError:  # a home that others may write to, or a full disk
        path = os.path.join(private, name)
        with open(create_new(path), "wb") as file:
            file.write(_compiled(text, private))
        return path


def _compiled(text: str, private: str) -> bytes:
    """Compile the library in a private folder; return its bytes."""
    if struct.calcsize("P") != struct.calcsize("Q"):
        raise PerfError("the allocator hook needs a 64-bit machine")
    compiler = next((path for one in _COMPILERS if (path := shutil.which(one))), None)
    if compiler is None:
        raise PerfError("no C compiler for the allocator hook; install gcc or clang, or attach as root with -p PID")
    code, built = os.path.join(private, "hook.c"), os.path.join(private, "hook.so")
    try:
        trusted_program(compiler)
        with open(create_new(code), "w", encoding="utf-8") as file:
            file.write(text)
        done = subprocess.run(
            [compiler, "-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-fno-builtin", "-pthread", "-o", built, code, "-ldl"],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=_LONGEST_BUILD, check=False,
        )  # fmt: skip
        if not done.returncode:
            with open_regular(built) as library_file:
                return library_file.read()
        reason = next((line for line in done.stderr.splitlines() if "error" in line), "no message")
    except subprocess.TimeoutExpired:
        reason = f"it ran for {_LONGEST_BUILD:.0f} s"
    except OSError as error:
        reason = error.strerror or type(error).__name__
    raise PerfError(f"{compiler}: the allocator hook was not compiled: {visible(reason)}")


def run_with_hook(command: Sequence[str], private: str, *, small_objects: bool, quiet: bool = False) -> tuple[int, int]:
    """Run a command with the hook until it ends; return its process id and exit status. Raises PerfError.

    Args:
        command: the program and its arguments.
        private: a folder of this user alone, for the files of sums.
        small_objects: let CPython allocate each object by malloc, so that the hook sees it.
        quiet: write the command's output to stderr: stdout is for a program to read.
    """
    preloaded = [library(private), *filter(None, [os.environ.get("LD_PRELOAD", "")])]
    environment: Mapping[str, str] = {
        "ARROW_DEFAULT_MEMORY_POOL": "system",  # its own allocators map large pieces in advance
        **os.environ,
        "LD_PRELOAD": ":".join(preloaded),
        "PERFPY_LEAKS": private,
        **({"PYTHONMALLOC": "malloc"} if small_objects else {}),
    }
    try:
        process = subprocess.Popen(list(command), env=environment, stdout=sys.stderr if quiet else None)
    except OSError as error:
        raise PerfError(f"{visible(command[0])}: {error.strerror}") from None
    with _waiting_for_the_end(process):
        return process.pid, process.wait()


@contextlib.contextmanager
def _waiting_for_the_end(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Leave Ctrl-C to the command, and pass SIGTERM on: the report follows its end."""
    before = {signal.SIGINT: signal.signal(signal.SIGINT, signal.SIG_IGN)}
    before[signal.SIGTERM] = signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
