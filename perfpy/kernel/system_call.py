"""syscall(2) by _ctypes, the core of ctypes: importing ctypes itself would take a tenth of the instructions of `stat -- true`."""

from __future__ import annotations

from _ctypes import FUNCFLAG_CDECL, FUNCFLAG_USE_ERRNO, CFuncPtr, _SimpleCData, dlopen, dlsym, get_errno

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from typing import Any, Final


class _Word(_SimpleCData):  # type: ignore[type-arg]  # its value is the one of `long`
    _type_ = "l"


class _Byte(_SimpleCData):  # type: ignore[type-arg]  # only arrays of it are used
    _type_ = "c"


class _Function(CFuncPtr):
    _flags_ = FUNCFLAG_CDECL | FUNCFLAG_USE_ERRNO
    _restype_ = _Word


_syscall: Final[Any] = _Function(dlsym(dlopen(None, 0), "syscall"))  # type: ignore[arg-type]  # None is this process


def system_call(number: int, *arguments: int | bytearray) -> int:
    """Return the result of a system call. A bytearray is passed by its address, and the kernel may write into it. Raises OSError."""
    words = [_Word(argument) if isinstance(argument, int) else (_Byte * len(argument)).from_buffer(argument) for argument in arguments]
    result: int = _syscall(_Word(number), *words)
    if result == -1:
        raise OSError(get_errno(), "system call failed")
    return result
