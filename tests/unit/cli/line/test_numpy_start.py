"""numpy's start in parts: what an analysis needs is there at once, and everything else when it is used."""

from __future__ import annotations

import pkgutil
import subprocess
import sys
from importlib.metadata import version
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.builders.growing import nested_mappings

if TYPE_CHECKING:
    from pathlib import Path

_PREPARE = """
import sys
from perfpy.cli.line.numpy_start import prepare_numpy
prepare_numpy()
import numpy
def is_whole():
    return "numpy.lib._npyio_impl" in sys.modules
"""
_IS_KNOWN = tuple(map(int, version("numpy").split(".")[:2])) >= (2, 4)
_PUBLIC = [name for name in dir(np) if not name.startswith("_")]
#: Submodules that warn, or belong to numpy's own build and tests.
_INTERNAL = ("compat", "core", "conftest", "distutils", "f2py", "testing", "tests")
_SUBMODULES = [module.name for module in pkgutil.iter_modules(np.__path__) if not module.name.startswith("_")]


def _run(code: str, prepare: str = _PREPARE) -> str:
    """Run code in a new interpreter, in which warnings are errors, and return what it printed."""
    command = [sys.executable, "-W", "error", "-W", "ignore::PendingDeprecationWarning", "-c", prepare + code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.skipif(not _IS_KNOWN, reason="this numpy is imported whole")
@pytest.mark.parametrize(
    "code",
    [
        "numpy.unique([3, 1, 3]).tolist()",
        "numpy.append([1], [2]).tolist()",
        "numpy.diff([1, 4], prepend=0).tolist()",
        "numpy.bincount([1, 1]).tolist()",
        "numpy.isin([1, 2], [2]).tolist()",
        "numpy.array2string(numpy.broadcast_to(numpy.float64(1.5), (2,)))",
        "numpy.insert(numpy.sort(numpy.array(['b', 'a'])), 1, 'c').tolist()",
    ],
)
def test_analyses_need_no_more_than_the_parts(code: str) -> None:
    """The functions that most analyses call give their results without the rest of numpy."""
    expected = eval(code, {"numpy": np})  # the text stands above
    assert _run(f"print({code}, is_whole())") == f"{expected} False"


@pytest.mark.skipif(not _IS_KNOWN, reason="this numpy is imported whole")
def test_a_small_report_needs_no_more_than_the_parts(tmp_path: Path) -> None:
    """A report of a small recording never imports the rest of numpy."""
    path = tmp_path / "perf.data"
    path.write_bytes(nested_mappings(10)["perf.data"])
    code = f"""
import atexit, sys
from perfpy.cli import main
atexit.register(lambda: print("numpy" in sys.modules, "numpy.lib._npyio_impl" in sys.modules))
main(["report", "--stdio", "-f", "-i", {str(path)!r}])
"""
    output = _run(code, "")
    assert output.splitlines()[-1] == "True False"
    assert "Samples: 10 " in output


def test_every_name_is_numpys() -> None:
    """Every public name has the value that a whole numpy gives it, whether it is used before or after the rest is imported."""
    code = f"""
before = {{name: getattr(numpy, name) for name in {_PUBLIC!r} if name != "ma"}}
numpy.polyfit
print([name for name, value in before.items() if getattr(numpy, name) is not value], len(before) > 300, is_whole())
print([name for name in {_PUBLIC!r} if name not in dir(numpy)])
"""
    assert _run(code) == "[] True True\n[]"


@pytest.mark.parametrize("name", [name for name in _SUBMODULES if name not in _INTERNAL])
def test_a_submodule_is_imported_with_the_whole_numpy(name: str) -> None:
    """The import of any submodule gives the module that it gives without preparation."""
    code = f"""
import numpy.{name} as module
print(numpy.{name} is module, sys.modules["numpy.{name}"] is module, sorted({{*dir(module)}} - {{'_array_utils_impl'}}))
"""
    assert _run(code) == _run(code, "import numpy, sys\n")


def test_what_was_left_out_is_imported_when_it_is_used() -> None:
    """Powers of matrices, masked arrays, pickles and signatures work after a start without their modules."""
    code = """
import inspect, pickle
matrix = numpy.matrix([[1, 1], [0, 1]])
print((matrix ** 3).tolist(), type(matrix) is numpy.matrix)
print(pickle.loads(pickle.dumps(numpy.arange(2))).tolist(), numpy.arange(2).dumps()[:1])
print(inspect.signature(numpy.diff), inspect.cleandoc(" a\\n   b"))
masked = numpy.ma.masked_array([1, 2], [True, False])
print(numpy.ma.is_masked(masked), numpy.unique(masked).tolist())
"""
    assert _run(code) == _run(code, "import numpy\n")


def test_masked_arrays_are_masked_before_the_rest_is_used() -> None:
    """unique() treats a masked array as one although only numpy.ma was imported."""
    code = "from numpy.ma import array\nfrom numpy import unique\nprint(unique(array([1, 2, 2], mask=[0, 1, 0])).tolist())"
    assert _run(code) == _run(code, "")


def test_missing_names_are_missing() -> None:
    """An unknown attribute or submodule raises the error that it always raises."""
    code = """
for text in ("numpy.nonsense", "__import__('numpy.nonsense')", "__import__('numpy.lib', fromlist=['x']).nonsense"):
    try:
        eval(text)
    except (AttributeError, ImportError) as error:
        print(type(error).__name__, error)
"""
    assert _run(code) == _run(code, "import numpy\n")


@pytest.mark.parametrize("missing", ["numpy.lib._function_base_impl", "numpy._globals", "numpy.matrixlib.defmatrix"])
def test_a_numpy_without_one_of_the_parts_is_imported_whole(missing: str) -> None:
    """The import of another numpy, whose modules have other names, does not fail."""
    code = f"""
import importlib, sys
from perfpy.cli.line.numpy_start import prepare_numpy
import_module = importlib.import_module
def fail(name):
    if name == {missing!r}:
        raise ModuleNotFoundError(name)
    return import_module(name)
importlib.import_module = fail
prepare_numpy()
import numpy
importlib.import_module = import_module
print("numpy.lib._npyio_impl" in sys.modules, numpy.unique([1, 1]).tolist(), numpy.polyfit([0, 1], [0, 1], 1).round().tolist())
"""
    assert _run(code, "") == "True [1] [1.0, 0.0]"


def test_a_numpy_without_the_module_of_sets_has_the_functions_from_the_rest() -> None:
    """The functions of sets are numpy's also where another module defines them."""
    code = """
import importlib
import_module = importlib.import_module
def fail(name):
    if name == "numpy.lib._arraysetops_impl":
        raise ModuleNotFoundError(name)
    return import_module(name)
importlib.import_module = fail
print(numpy.isin([1, 2], [2]).tolist(), numpy.unique([1, 1]).tolist())
"""
    assert _run(code) == "[False, True] [1]"


def test_pointers_to_arrays_are_numpys() -> None:
    """numpy imports ctypes for them only, which happens when the first is made."""
    code = """
array = numpy.arange(3)
print("ctypes" in sys.modules, array.ctypes.data == array.__array_interface__["data"][0], "ctypes" in sys.modules)
import ctypes
print(array.ctypes.data_as(ctypes.POINTER(ctypes.c_int64))[2], numpy.dtype(ctypes.c_int32))
"""
    assert _run(code) == "False True True\n2 int32"


def test_threads_wait_for_the_rest() -> None:
    """Several threads that use the rest at once all find it complete."""
    code = """
import threading
sys.setswitchinterval(1e-6)
results = []
def fit():
    results.append(numpy.polyfit([0, 1], [0, 1], 1).round().tolist())
threads = [threading.Thread(target=fit) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(results == [[1.0, 0.0]] * 8)
"""
    assert _run(code) == "True"


def test_datetime_is_the_standard_library_s() -> None:
    """numpy has only the part of it that is written in C; the classes are the same."""
    code = """
whole = "datetime" in sys.modules
import datetime
day = numpy.array(["2020-01-02"], "M8[D]").tolist()[0]
print(whole, datetime.__name__, type(day) is datetime.date, numpy.datetime64(datetime.datetime(2020, 1, 2)) == numpy.datetime64(day))
"""
    assert _run(code).endswith("datetime True True")


def test_the_comparison_of_arguments_is_numpy_s_own() -> None:
    """numpy's start compares those of its functions with each other, which is left out."""
    code = "from numpy._utils._inspect import getargspec\nprint(getargspec(lambda one, two=2: one)[0])"
    assert _run(code) == "['one', 'two']"
