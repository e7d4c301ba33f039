"""Compile perfpy and its tests once, on all CPUs, before xdist's workers each do it for themselves.

A fresh checkout has no compiled files. All workers import the same files in the same order at the same time, so none finds what
another has compiled. pytest's rewriting of assertions takes ten seconds of CPU time in each of them, hypothesis's search for
constants in perfpy four. Both keep their results in files, which this module asks them to write.
"""

from __future__ import annotations

import compileall
import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Final

from _pytest.assertion import rewrite

CHECKOUT: Final = Path(__file__).resolve().parents[2]
_FILES_A_TASK: Final = 16


def compile_all() -> None:
    """Write the files that pytest, Python and hypothesis keep for each module.

    Another process does it: hypothesis warns of a plugin that uses its files while pytest starts.
    """
    subprocess.run([sys.executable, "-m", "tests.builders.compiled_tests"], cwd=CHECKOUT, check=True)


def _compile_all() -> None:
    paths = [path for folder in ("perfpy", "tests") for path in sorted((CHECKOUT / folder).rglob("*.py"))]
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), get_context("fork")) as executor:
        for _ in executor.map(_compile, paths, chunksize=_FILES_A_TASK):
            pass


def _compile(path: Path) -> None:
    if path.name.startswith("test_") or path.name == "conftest.py":
        _rewrite(path)
    else:
        compileall.compile_file(path, quiet=2)
        if path.is_relative_to(CHECKOUT / "perfpy"):
            _read_constants(path)


def _rewrite(path: Path) -> None:
    """Rewrite the assertions of a test file if its compiled file is older."""
    compiled = rewrite.get_cache_dir(path) / (path.stem + rewrite.PYC_TAIL)
    if rewrite._read_pyc(path, compiled) is None:
        compiled.parent.mkdir(exist_ok=True)
        version, code = rewrite._rewrite_test(path, None)  # type: ignore[arg-type]
        rewrite._write_pyc(SimpleNamespace(trace=print), code, version, compiled)  # type: ignore[arg-type]


def _read_constants(path: Path) -> None:
    """Have hypothesis keep the constants of a module, from which it draws values."""
    try:
        from hypothesis.internal.constants_ast import constants_from_module
    except ImportError:  # older versions keep none
        return
    module = ModuleType(path.stem)
    module.__file__ = str(path)
    constants_from_module(module)


if __name__ == "__main__":
    _compile_all()
