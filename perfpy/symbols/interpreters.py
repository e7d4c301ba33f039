"""Remove an interpreter's own frames from callchains of interpreted programs.

Frames of the interpreter's program and libraries are removed if the callchain has frames that the interpreter named (in its perf map, or
as images of its jitdump). Extension modules and the C library remain, as does the innermost frame, where the time was spent.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import numpy as np

from perfpy.symbols.dso import DsoKind
from perfpy.untrusted.files import PYTHON_IMAGE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from perfpy.symbols.dso import Dso

_INTERPRETERS = re.compile(
    r"(lib)?python[\d.]*[a-z]*(\.so[\d.]*)?"
    r"|(lib)?node(js)?(\.so[\d.]*)?"
    r"|(lib)?ruby[\d.-]*(\.so[\d.]*)?"
    r"|libjvm\.so|luajit.*"
)

_C_LIBRARY = re.compile(r"(ld|lib(c|m|pthread|gcc_s|stdc\+\+|dl|rt))[-.]")


#: files of the system, of packages, and of virtual machines whose program is elsewhere
_INSTALLED = re.compile(
    r"/(?:usr/)?lib(?:32|64|x32)?/.*|/snap/.*|/nix/store/.*|/gnu/store/.*|.*/(?:site|dist)-packages/.*|.*/node_modules/.*|.*/lib/python\d.*"
    r"|(?:.*/)?lib(?:perl|lua|php|R|coreclr|clrjit|mono)\b[^/]*"
)


def is_own_library(dso: Dso) -> bool:
    """Whether a dso is a shared library of the program itself, as an extension module that is built where it is used."""
    is_library = dso.kind is DsoKind.FILE and not dso.made_code and ".so" in dso.short_name
    return is_library and not (is_runtime(dso) or is_c_library(dso) or _INSTALLED.fullmatch(dso.name))


def is_runtime(dso: Dso) -> bool:
    """Whether a dso is the program or library of an interpreter or a virtual machine."""
    return _INTERPRETERS.fullmatch(dso.short_name) is not None


def is_c_library(dso: Dso) -> bool:
    """Whether a dso is a library that every program has."""
    return _C_LIBRARY.match(dso.short_name) is not None


def has_python_image(paths: Iterable[str] | None) -> bool:
    """Whether the recording stores images of Python functions read from memory (record --python)."""
    return any(os.path.basename(name) == PYTHON_IMAGE for name in paths or ())


def without_interpreters(
    frames: NDArray[np.int32], counts: NDArray[np.int64], dso_of_frame: NDArray[np.int32], dsos: Sequence[Dso]
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Fold callchains (innermost frame first, `counts` frames each). `dso_of_frame`: by frame id, -1 for none."""
    if not len(frames):
        return frames, counts
    # The additional entry is for dso -1.
    interpreter = np.array([is_runtime(dso) for dso in dsos] + [False])
    is_runtime_code = np.array([bool(dso.made_code) for dso in dsos] + [False])
    dso = dso_of_frame[frames]
    chain = np.repeat(np.arange(len(counts)), counts)
    speaks = np.bincount(chain, weights=is_runtime_code[dso], minlength=len(counts)) > 0
    innermost = np.zeros(len(frames), np.bool_)
    innermost[(np.cumsum(counts) - counts)[counts > 0]] = True
    is_kept = ~(interpreter[dso] & speaks[chain]) | innermost
    return frames[is_kept], np.bincount(chain[is_kept], minlength=len(counts)).astype(np.int64)
