"""Choose the options that the user of `record --jit` left open: the clock, the callchains, the frequency.

jitdumps have times of CLOCK_MONOTONIC, and names of functions are of little use without callers.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Final

from perfpy.capture.option_values import DEFAULT_STACK_SIZE, Callchain
from perfpy.capture.runtimes.programs import find_program
from perfpy.capture.runtimes.table import PYTHON
from perfpy.untrusted.files import open_regular

if TYPE_CHECKING:
    from perfpy.capture.record_options import RecordOptions
    from perfpy.capture.runtimes.table import LanguageRuntime

_STACK_SIZE: Final = 32768  # a call of a Python function takes some 500 bytes of the C stack
_DWARF_FREQUENCY: Final = 999  # Hz; stacks of that size are 32 MB a second for each CPU, which have to be copied at least
_PACED: Final = 100  # a smaller count (-c) samples most page faults and system calls: hundreds of thousands a second
_PROLOGUE: Final = b"\x55\x48\x89\xe5"  # push %rbp; mov %rsp,%rbp
_PIECE: Final = 1 << 20  # bytes read at a time
_ENOUGH: Final = 2000  # functions with this prologue: an interpreter has some ten thousand, without frame pointers a few hundred
_SMALL: Final = 1 << 20  # bytes; smaller programs have their interpreter in a shared object


def complete_options(
    options: RecordOptions, runtime: LanguageRuntime | None, program: str, *, unwound_later: bool = False
) -> RecordOptions:
    """Return the complete options.

    Args:
        program: the command, or the path of the running program; "" if there are several.
        unwound_later: the unwind information of its code is available at the end only.
    """
    if options.sampling.clockid is None:
        options = options._replace(sampling=options.sampling._replace(clockid=time.CLOCK_MONOTONIC))
    if options.sampling.callchain is not None:
        return options
    if not options.sampling.unwind and not needs_stack_copies(runtime, program):
        return options._replace(sampling=options.sampling._replace(callchain=Callchain("fp")))
    excluded = (
        unwound_later or options.sampling.user_regs or options.buffers.overwrite or options.side_band.tail_synthesize
    )  # see RecordOptions.check
    callchain = Callchain("dwarf", _stack_size(options))
    options = options._replace(sampling=options.sampling._replace(callchain=callchain, unwind=options.sampling.unwind or not excluded))
    return (
        options._replace(sampling=options.sampling._replace(freq=_DWARF_FREQUENCY))
        if options.sampling.freq is None and options.sampling.period is None
        else options
    )


def _stack_size(options: RecordOptions) -> int:
    """Return the size of stack copies, in bytes: a small one where samples come as fast as the events themselves."""
    period = options.sampling.period
    return DEFAULT_STACK_SIZE if period is not None and period < _PACED else _STACK_SIZE


def needs_stack_copies(runtime: LanguageRuntime | None, program: str) -> bool:
    """Whether frame pointers do not lead from a runtime's frames to their callers."""
    if not reads_frames():  # elsewhere compilers keep frame pointers by default
        return False
    return (runtime or PYTHON).stacks == "dwarf" and not _has_frame_pointers(find_program(program))


def reads_frames() -> bool:
    """Whether frames described by a runtime's memory can be read on this machine (perfpy.capture.runtimes.hotspot)."""
    return os.uname().machine == "x86_64"


def _has_frame_pointers(path: str) -> bool:
    """Whether a program, or the interpreter's library beside it, was compiled with frame pointers."""
    real = os.path.realpath(path) if path else ""
    try:
        if not real or os.path.getsize(real) >= _SMALL:
            return _prologues(real) >= _ENOUGH if real else False
        return any(_prologues(library) >= _ENOUGH for library in _libraries(real))
    except (OSError, ValueError):
        return False


def _libraries(program: str) -> list[str]:
    """Return the existing libraries of an interpreter, for example libpython3.12.so.1.0 of bin/python3.12."""
    name, folder = os.path.basename(program), os.path.dirname(os.path.dirname(program))
    candidates = [f"{folder}/{lib}/lib{name}.so.1.0" for lib in ("lib", "lib64", f"lib/{os.uname().machine}-linux-gnu")]
    return [path for path in candidates if os.path.isfile(path)]


def _prologues(path: str) -> int:
    """Count prologues, up to the threshold. The file is read, not mapped, because its owner may truncate it meanwhile."""
    count, tail = 0, b""
    with open_regular(path) as file:
        while count < _ENOUGH and (piece := file.read(_PIECE)):
            data = tail + piece
            count += data.count(_PROLOGUE)
            tail = data[-len(_PROLOGUE) + 1 :]
    return min(count, _ENOUGH)
