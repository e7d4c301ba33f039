"""Python names for perf in CPython 3.8 to 3.11, which have no -X perf: every function runs through its own trampoline.

The interpreter's frames go through the evaluator of perfpy_machine_code (see evaluator.c), and each trampoline gets a line in
/tmp/perf-PID.map, "ADDRESS SIZE py::FUNCTION:FILE". Nothing is changed if the interpreter differs from the known ones: the
offsets below are first checked on a frame of this module.
"""

from __future__ import annotations

import os
import sys

#: Offsets of the code object in a frame, co_extra in a code object, eval_frame in the interpreter's state (-1: there is a function
#: for it), and the frame in a frame object (0: they are one). Include/cpython/*.h, Include/internal/*.h.
OFFSETS = {
    (3, 8): (32, 144, 568, 0),
    (3, 9): (32, 144, -1, 0),
    (3, 10): (32, 144, -1, 0),
    (3, 11): (32, 176, -1, 24),
}
#: The name of the code between a function and its trampoline, by which perfpy.unwind.code_rules recognizes it.
EVALUATOR = "perfpy::evaluate"
CODE_SIZE = 0x10000  # of the machine code's memory; the state follows it
READ, WRITE, EXECUTE = 1, 2, 4
PRIVATE_ANONYMOUS = 0x22
#: The functions that the evaluator calls, in the order of its state (struct state).
CALLED = (
    *("_PyCode_SetExtra", "_PyCode_GetExtra", "PyObject_GetAttrString", "PyUnicode_AsUTF8AndSize", "PyUnicode_FromFormat"),
    *("PyTuple_Size", "PyTuple_GetItem", "PyLong_AsUnsignedLongMask", "PyErr_Fetch", "PyErr_Restore", "PyErr_Clear"),
    *("Py_IncRef", "Py_DecRef"),
)


class Interpreter:
    """This interpreter, through its C API."""

    def __init__(self, ctypes) -> None:  # type: ignore[no-untyped-def]  # the module, imported only where it is used
        self._ctypes = ctypes
        self._api = ctypes.PyDLL(None)
        self._c = ctypes.CDLL(None, use_errno=True)
        names = ("_PyInterpreterState_Get", "PyInterpreterState_Get")
        self.state = self.call(names[sys.version_info >= (3, 9)])
        self.main = self.state == self.call("PyInterpreterState_Main")
        self.evaluate = self.address("_PyEval_EvalFrameDefault")

    def address(self, name: str) -> int:
        """Return the address of a function of the C API."""
        return int(self._ctypes.cast(self._api[name], self._ctypes.c_void_p).value)

    def call(self, name: str, *values: int) -> int:
        """Call a function of the C API with words, and return one."""
        return self._call(self._api[name], values)

    def system(self, name: str, *values: int) -> int:
        """Call a function of the C library. Raises OSError."""
        result = self._call(self._c[name], values)
        if result == (1 << 64) - 1 or result == (1 << 32) - 1:
            error = self._ctypes.get_errno()
            raise OSError(error, os.strerror(error))
        return result

    def _call(self, function, values) -> int:  # type: ignore[no-untyped-def]  # a function of ctypes
        function.argtypes = [self._ctypes.c_ulong] * len(values)
        function.restype = self._ctypes.c_ulong
        return int(function(*values))

    def word(self, address: int) -> int:
        """Return the word at an address."""
        return int(self._ctypes.c_ulong.from_address(address).value)

    def put(self, address: int, data: bytes) -> None:
        """Write bytes to an address."""
        self._ctypes.memmove(address, data, len(data))

    def evaluator(self, offset: int) -> int:
        """Return the function that evaluates frames."""
        return self.word(self.state + offset) if offset >= 0 else self.call("_PyInterpreterState_GetEvalFrameFunc", self.state)

    def set_evaluator(self, offset: int, function: int) -> None:
        """Set the function that evaluates frames."""
        if offset >= 0:
            self.put(self.state + offset, function.to_bytes(8, sys.byteorder))
        else:
            self.call("_PyInterpreterState_SetEvalFrameFunc", self.state, function)


def install() -> None:
    """Install the evaluator in this interpreter if the interpreter and the machine are known."""
    offsets = OFFSETS.get(sys.version_info[:2])
    if offsets is None or sys.maxsize < 1 << 32 or sys.byteorder != "little" or hasattr(sys, "gettotalrefcount"):
        return
    import ctypes

    from perfpy_machine_code import MACHINES

    del sys.modules["perfpy_machine_code"]
    machine_code = MACHINES.get(os.uname().machine)
    interpreter = Interpreter(ctypes)
    frame_code, code_extra, eval_frame, frame_of_object = offsets
    if machine_code is None or not interpreter.main or interpreter.evaluator(eval_frame) != interpreter.evaluate:
        return  # a subinterpreter, or another evaluator is installed
    if not _frame_is_known(interpreter, frame_code, frame_of_object):
        return
    index = interpreter.call("_PyEval_RequestCodeExtraIndex", 0)
    name_index = interpreter.call("_PyEval_RequestCodeExtraIndex", interpreter.address("Py_DecRef"))
    if not index < name_index < 256 or not _extra_is_known(interpreter, code_extra, index):
        return
    in_thread, without_thread, state_size, digits = machine_code
    code = _executable(interpreter, bytes.fromhex(digits), state_size)
    entries = 2 * without_thread + 15 & ~15  # both functions come first, with equal lengths
    map_state = _start_map(f"{code:x} {entries:x} {EVALUATOR}\n")
    state = (
        *(frame_code, code_extra, index, name_index, sys.version_info >= (3, 11), id(type(install.__code__)), interpreter.evaluate),
        *(interpreter.address(name) for name in CALLED),
        *map_state,
    )
    interpreter.put(code + CODE_SIZE, b"".join(int(word).to_bytes(8, "little") for word in state))
    interpreter.set_evaluator(eval_frame, code + (without_thread if sys.version_info < (3, 9) else in_thread))


def _frame_is_known(interpreter: Interpreter, frame_code: int, frame_of_object: int) -> bool:
    frame = sys._getframe()  # noqa: SLF001 - the only way to a frame
    address = interpreter.word(id(frame) + frame_of_object) if frame_of_object else id(frame)
    return bool(address) and interpreter.word(address + frame_code) == id(frame.f_code)


def _extra_is_known(interpreter: Interpreter, code_extra: int, index: int) -> bool:
    """Check the extra of this function's code object: empty first, then the value that was set, with the requested size."""
    code = id(_extra_is_known.__code__)
    mark = 0x5045524650
    if interpreter.word(code + code_extra) or interpreter.call("_PyCode_SetExtra", code, index, mark):
        return False
    extra = interpreter.word(code + code_extra)
    is_set = extra != 0 and extra % 8 == 0 and interpreter.word(extra) > index and interpreter.word(extra + 8 + 8 * index) == mark
    return interpreter.call("_PyCode_SetExtra", code, index, 0) == 0 and is_set


def _executable(interpreter: Interpreter, code: bytes, state_size: int) -> int:
    """Return the address of the code, followed by memory for its state. It is never freed."""
    size = CODE_SIZE + (state_size + 0xFFFF & ~0xFFFF)
    address = interpreter.system("mmap", 0, size, READ | WRITE, PRIVATE_ANONYMOUS, (1 << 64) - 1, 0)
    interpreter.put(address, code)
    try:
        interpreter.system("mprotect", address, CODE_SIZE, READ | EXECUTE)
    except OSError as refused:
        text = "perfpy: process {}: no names of Python functions: no executable memory here ({})\n"
        sys.stderr.write(text.format(os.getpid(), refused.strerror))
        interpreter.system("munmap", address, size)
        raise
    return address


def _start_map(line: str) -> tuple[int, int, int, int, int]:
    """Begin the map with a line; return its state: no descriptor yet, device, inode, process, and bytes in it."""
    path = f"/tmp/perf-{os.getpid()}.map"
    flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        file = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        if not _is_of_this_process(path):
            os.unlink(path)
            flags |= os.O_CREAT | os.O_EXCL
        file = os.open(path, flags, 0o600)
    os.write(file, line.encode())
    about = os.fstat(file)
    os.close(file)
    return ((1 << 64) - 1, about.st_dev, about.st_ino, os.getpid(), about.st_size)


def _is_of_this_process(path: str) -> bool:
    """Whether the map was written since this process began: by the program that became this one with exec."""
    import stat
    import time

    with open("/proc/self/stat", "rb") as file:
        ticks = int(file.read().rpartition(b")")[2].split()[19])
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    about = os.lstat(path)
    return stat.S_ISREG(about.st_mode) and about.st_uid == os.geteuid() and about.st_mtime >= time.time() - age - 0.1
