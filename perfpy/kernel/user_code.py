"""Machine code that reads a counter of the calling thread from its mapped page, which pure Python cannot do.

To the interpreter it is a builtin function without arguments, which returns count and times as bytes, as read(2) does. The code follows the
protocol of struct perf_event_mmap_page in include/uapi/linux/perf_event.h. Its source is in tests/builders/user_code, where a test
assembles it again.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_PAGE_ADDRESS: Final = b"\x11" * 8
_FOUND_ADDRESS: Final = b"\x22" * 8
_MAKE_BYTES: Final = b"\x33" * 8
_METH_NOARGS: Final = 4
_LOCK, _WHY_NOT, _THREAD = 3, 4, 5
_POINTER_SIZE: Final = 8
_PY_BUFFER_WORDS: Final = 16  # larger than struct Py_buffer, whose first word is the address

CODE: Final = {
    "x86_64": bytes.fromhex(
        "48bf111111111111111148be222222222222222264488b042500000000488b56284885d20f84e00000004839d00f850501000041bb640000"
        "00448b470841f7c0010000000f85c9000000448b4f284489c883e00683f8060f85c60000008b4f0c85c90f84c2000000ffc90f3348c1e220"
        "4809d0b940000000662b4f3048d3e048d3f848034710488906488b4718488b572048894608488956104839d0745841f6c1080f8489000000"
        "0f3148c1e2204809d041f6c120740e4c8b57504c29d0482347584c01d00fb74f324889c248d3ea4989d249d3e24c29d0448b5734490fafc2"
        "48d3e8490fafd24801d0480347384801460848014610443b470875174c8946184889f7be18000000eb3c48894628e920ffffff41ffcb0f85"
        "1dffffffb803000000eb1ab801000000eb13b802000000eb0cb804000000eb05b805000000488946204889f731f648b83333333333333333"
        "ffe0"
    ),
    "aarch64": bytes.fromhex(
        "80120058a112005849d03bd52a1440f9aa0f00b43f010aebe11000548b0c8052020840b9420f0037bf3903d5031440f964047f929f1800f1"
        "210f0054040c40b9240f0034840400519f7c0071c80e005485000010a50c048bdf3f03d5a0001fd606e83bd53e00001426e83bd53c000014"
        "46e83bd53a00001466e83bd53800001486e83bd536000014a6e83bd534000014c6e83bd532000014e6e83bd53000001406e93bd52e000014"
        "26e93bd52c00001446e93bd52a00001466e93bd52800001486e93bd526000014a6e93bd524000014c6e93bd522000014e6e93bd520000014"
        "06ea3bd51e00001426ea3bd51c00001446ea3bd51a00001466ea3bd51800001486ea3bd516000014a6ea3bd514000014c6ea3bd512000014"
        "e6ea3bd51000001406eb3bd50e00001426eb3bd50c00001446eb3bd50a00001466eb3bd50800001486eb3bd506000014a6eb3bd504000014"
        "c6eb3bd502000014069d3bd50460407907088052e400044bc620c49ac628c49a070840f9c600078b260000f9060c40f9071040f9df0007eb"
        "c002005403051836df3f03d544e03bd5c3002836052840f9082c40f9840005cb8400088a8400058b05644079083440b98924c59a2a21c59a"
        "84000acb847c089b8424c59a2411089b091c40f98400098bc600048be700048b269c00a9bf3903d5040840b99f00026be1000054220c00f9"
        "e00301aa010380d211000014291400f985ffff176b05007181f0ff54620080d208000014220080d206000014420080d204000014820080d2"
        "02000014a20080d2221000f9e00301aa010080d2f000005800021fd61f2003d5111111111111111122222222222222223333333333333333"
    ),
}


class NoMachineCodeError(Exception):
    """There is no code for this machine, or it may not run; the text has the reason."""


class _MethodDefinition(ctypes.Structure):
    """struct PyMethodDef, the interpreter's description of a builtin function."""

    _fields_ = (("name", ctypes.c_char_p), ("code", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p))


class PageCode:
    """The code for one page. Raises NoMachineCodeError.

    Attributes:
        buffer: the page, held until close()
        read: returns count (signed), enabled and running; b"" if the page cannot be used, and why_not has the reason. The first thread
            that calls it is the only one that may.
    """

    def __init__(self, buffer: object, code: bytes = b"") -> None:
        code = code or CODE.get(os.uname().machine, b"")
        if not code or ctypes.sizeof(ctypes.c_void_p) != _POINTER_SIZE or sys.implementation.name != "cpython":
            raise NoMachineCodeError(f"perfpy has no machine code that reads counters on {os.uname().machine} in {sys.implementation.name}")
        self._registers = (ctypes.c_uint64 * 6)()
        self._buffer = _HeldBuffer(buffer)
        make_bytes = ctypes.cast(ctypes.pythonapi.PyBytes_FromStringAndSize, ctypes.c_void_p).value or 0
        addresses = {_PAGE_ADDRESS: self._buffer.address, _FOUND_ADDRESS: ctypes.addressof(self._registers), _MAKE_BYTES: make_bytes}
        for mark, address in addresses.items():
            code = code.replace(mark, address.to_bytes(_POINTER_SIZE, "little"), 1)
        self._memory = _executable(code)
        self._definition = _MethodDefinition(b"read_page", self._memory.address, _METH_NOARGS, None)
        self.read: Callable[[], bytes] = _new_function(ctypes.byref(self._definition), None, None)

    @property
    def lock(self) -> int:
        """The page's lock at the last read."""
        return self._registers[_LOCK]

    @property
    def why_not(self) -> int:
        """The reason why the last call returned nothing, as a number of the source."""
        return self._registers[_WHY_NOT]

    def leave(self) -> None:
        """Forbid reading in the child of a fork, where the page is not mapped."""
        self._registers[_THREAD] = 1

    def close(self) -> None:
        """Release the page and the code; `read` must not be called any more."""
        self.read = bytes
        self._buffer.release()
        self._memory.release()


_libc: Final = ctypes.CDLL(None, use_errno=True)
_new_function: Final = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(
    ("PyCFunction_NewEx", ctypes.pythonapi)
)


class _HeldBuffer:
    """A buffer held at its address until release()."""

    def __init__(self, buffer: object) -> None:
        self._view = (ctypes.c_void_p * _PY_BUFFER_WORDS)()
        ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(buffer), ctypes.byref(self._view), 0)
        self.address: int = self._view[0] or 0

    def release(self) -> None:
        ctypes.pythonapi.PyBuffer_Release(ctypes.byref(self._view))  # safe to call again


def _executable(code: bytes) -> _HeldBuffer:
    """Return memory with this code, first writable, then executable, never both."""
    size = mmap.PAGESIZE
    memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ | mmap.PROT_WRITE)
    memory.write(code)
    held = _HeldBuffer(memory)
    if _libc.mprotect(ctypes.c_void_p(held.address), ctypes.c_size_t(size), mmap.PROT_READ | mmap.PROT_EXEC):
        held.release()
        raise NoMachineCodeError(f"this process may not run machine code of its own ({os.strerror(ctypes.get_errno())})")
    return held
