"""Tests of the refusal for functions of Python programs."""

from __future__ import annotations

import errno

import pytest

from perfpy.probing.problems import ProbeError
from perfpy.tools.latency import _with_python_remedy

MISSING = ProbeError("there is no function 'handler' in FILE; did you mean 'handle'?", errno.ENODEV)


@pytest.mark.parametrize("path", ["/usr/bin/python3.11", "/usr/lib/libpython3.13.so.1.0"])
def test_an_interpreter_without_the_function_names_the_way_for_python(path):
    error = _with_python_remedy(MISSING, path)
    assert str(error).startswith(
        "there is no function 'handler' in FILE; latency measures C functions; for Python functions: perfpy record --python"
    )
    assert error.exit_code == 237


def test_other_programs_keep_their_error():
    assert _with_python_remedy(MISSING, "/usr/bin/pythonic") is MISSING
