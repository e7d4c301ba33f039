"""A recording with Python functions as `record --python` leaves them: native frames, Python's at their places, the image of functions.

Of ten samples six are in `spin`, which `main` calls at line 5 (in the interpreter, an extension module, the C library and the kernel),
two in `main` itself without the GIL (five of the six hold it), one in the interpreter's start, one in a thread of C.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.abi import records
from perfpy.abi.flags import CONTEXT_KERNEL, CONTEXT_USER, SampleType
from perfpy.abi.perfpy_encodings import FIRST_ADDRESS, MAPPED_SIZE, GilState, mapping_of
from perfpy.abi.records import SampleId
from perfpy.capture.python_frames.answers import FoundCode
from perfpy.capture.python_frames.recorded_frames import IMAGE_OFFSET, PlacedFunction, PythonFunctions
from perfpy.perfdata.header import KEPT_FILES
from perfpy.perfdata.kept_files import encode
from tests.builders.perfdata import USUAL, PerfDataBuilder, usual_attr

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = """def spin():
    x = 1
    return x + 1
def main():
    spin()
    spin()
main()
"""
VERSION = (3, 8)
LIBPYTHON, LIBC, FAST, PYTHON, APP = (0x10000 * number + 0x10 for number in range(1, 6))
INSTALLED = "/usr/lib/python3/dist-packages/fast.so"
FILES = ("/usr/lib/libpython3.12.so.1.0", "/lib/libc.so.6", INSTALLED, "/usr/bin/python3.12", "/srv/embedding")
KERNEL = 0xFFFFFFFF81000010


def place(functions: PythonFunctions, name: str, path: Path, first_line: int) -> PlacedFunction:
    """A function of three lines, two instructions each."""
    number = len(functions)
    code = FoundCode(7, number, 0, 0x1000 * number, 0x1000 * number + 12, name, str(path), first_line, bytes((4, 1, 4, 1)), 0)
    placed = functions.addresses_of(code, VERSION)
    assert placed is not None
    return placed


def python_recording(folder: Path, module: str = INSTALLED) -> Path:
    """Write the program and its recording; module: the path of the extension module."""
    source = folder / "app.py"
    source.write_text(SOURCE)
    functions = PythonFunctions()
    spin, main = place(functions, "spin", source, 1), place(functions, "main", source, 4)
    at_start = [main.address(4), LIBPYTHON, LIBC, PYTHON]
    holds, released = (mapping_of(state) - FIRST_ADDRESS for state in (GilState.HOLDS, GilState.RELEASED))
    in_spin = [spin.address(8) + holds, LIBPYTHON, *at_start]
    user = CONTEXT_USER
    chains = [
        *[[user, LIBPYTHON, LIBPYTHON, *in_spin]] * 2,
        [user, FAST, LIBPYTHON, *in_spin],
        [user, LIBC, LIBPYTHON, *in_spin],
        [user, LIBPYTHON, spin.address(4), LIBPYTHON, *at_start],
        [CONTEXT_KERNEL, KERNEL, user, LIBC, LIBPYTHON, *in_spin],
        [user, LIBPYTHON, main.address(8) + released, LIBPYTHON, LIBC, PYTHON],
        [user, LIBPYTHON, main.address(8) + released, LIBPYTHON, APP],
        [user, LIBPYTHON, LIBC, PYTHON],
        [user, FAST, LIBC],
    ]
    built = PerfDataBuilder(attrs=[usual_attr(USUAL | SampleType.CALLCHAIN)])
    ids = SampleId(pid=7, tid=7, time=100)
    built.record(records.Comm(0, 7, 7, "python", ids))
    image = str(folder / "jit" / "jitted-0-1.so")
    for number, file in enumerate(module if file == INSTALLED else file for file in FILES):
        built.record(records.Mmap2(2, 7, 7, 0x10000 * (number + 1), 0x1000, 0, 8, 1, 5 + number, 0, 5, 2, file, b"", ids))
    for state in GilState:
        built.record(records.Mmap2(2, 7, 7, mapping_of(state), MAPPED_SIZE, IMAGE_OFFSET, 8, 1, 99, 0, 5, 2, image, b"", ids))
    for number, chain in enumerate(chains):
        in_kernel = chain[0] == CONTEXT_KERNEL
        built.sample(misc=1 if in_kernel else 2, ip=chain[1], pid=7, tid=7, time=200 + number, period=1000, callchain=chain)
    built.features[KEPT_FILES] = encode({image: functions.image()}, "<")
    path = folder / "perf.data"
    path.write_bytes(built.file())
    return path
