"""Tests of the categories of functions."""

from __future__ import annotations

import pytest

from perfpy.analysis.verdict.categories import INTERPRETER, KERNEL, LIBRARY, OWN, RUNTIME, UNKNOWN, category
from perfpy.symbols.dso import Dso, DsoKind


@pytest.mark.parametrize(
    ("path", "name", "expected"),
    [
        ("/home/me/app", "main", OWN),
        ("/home/me/app", "void order<Row>(std::vector<Row>&)", OWN),
        ("/home/me/app", "std::vector<int> parse<char>(char)", OWN),
        ("/home/me/app", "void std::__introsort_loop<int*>(int*, int*)", LIBRARY),
        ("/home/me/app", "<alloc::vec::Vec<T> as core::ops::Drop>::drop", LIBRARY),
        ("/home/me/app", "runtime.mallocgc", RUNTIME),
        ("/home/me/app", "_start", RUNTIME),
        ("/home/me/static", "_int_malloc", RUNTIME),
        ("/home/me/build/libparser.so.1", "parse", OWN),
        ("/usr/lib/x86_64-linux-gnu/libcrypto.so.3", "AES_encrypt", LIBRARY),
        ("/home/me/venv/lib/python3.11/site-packages/numpy/core/_multiarray.so", "add", LIBRARY),
        ("/usr/lib/x86_64-linux-gnu/libc.so.6", "memcpy", RUNTIME),
        ("/usr/bin/python3.11", "_PyEval_EvalFrameDefault", INTERPRETER),
        ("/usr/bin/bash", "execute_command", INTERPRETER),
    ],
)
def test_the_path_and_the_name_decide(path: str, name: str, expected: int) -> None:
    assert category(Dso(path), name) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("py::parse:/srv/app.py", OWN),
        ("py::parse:app.py", OWN),
        ("py::[GIL held by crunch, thread 7]:/srv/app.py", LIBRARY),
        ("py::[event loop blocked for over 100 ms]:<asyncio>", LIBRARY),
        ("py::loads:/usr/lib/python3.11/json/__init__.py", LIBRARY),
        ("py::_find:<frozen importlib._bootstrap>", LIBRARY),
        ("JS:*handle file:///srv/app.js:12:34", OWN),
        ("JS:*route /srv/node_modules/express/index.js:1:1", LIBRARY),
        ("JS:^next node:internal/queue:69:14", INTERPRETER),
        ("Lcom/example/Main;::run", OWN),
        ("Ljava/util/HashMap;::get", LIBRARY),
        ("java.lang.String Main.join(int)", OWN),
        ("java.lang.Object jdk.internal.misc.Unsafe.allocateUninitializedArray(java.lang.Class, int)", LIBRARY),
        ("BytecodeHandler:Ldar", INTERPRETER),
    ],
)
def test_generated_code_is_divided_by_name(name: str, expected: int) -> None:
    assert category(Dso("/tmp/perf-12.map", DsoKind.JIT), name) == expected


def test_the_kernel_and_memory_without_a_file() -> None:
    assert category(Dso("[kernel.kallsyms]", DsoKind.KERNEL), "schedule") == KERNEL
    assert category(None, "") == category(Dso("//anon", DsoKind.NONE), "") == UNKNOWN
