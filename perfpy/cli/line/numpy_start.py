"""Have numpy start faster, because importing it is the largest part of a short command.

`import numpy` executes some 130 modules, of which an analysis needs half; the others are linear algebra, polynomials, text files and
types for annotations. prepare_numpy() imports numpy's core, its functions of differences, and when they are used those of sets. The
first use of any other attribute or submodule executes numpy's own `__init__` in the same module object, and numpy is complete: nothing
of it is replaced.

Other versions of numpy, and installations without one of these modules, are imported whole.
"""

from __future__ import annotations

import os
import sys
from _thread import RLock
from types import ModuleType

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from typing import Any

#: Functions outside of numpy._core that most analyses call, by the module that defines them.
_FUNCTIONS = {
    "numpy._core.multiarray": ("bincount", "packbits", "unpackbits"),
    "numpy.matrixlib.defmatrix": ("matrix",),  # numpy's functions ask whether an array is one
    "numpy.lib._function_base_impl": (),
    "numpy.lib._stride_tricks_impl": (),
}
#: Functions of sets, whose module is imported when the first of them is used: small recordings need none, and it imports typing.
_SETS, _OF_SETS = "numpy.lib._arraysetops_impl", ("intersect1d", "isin", "setdiff1d", "union1d", "unique")
_PARTS = ("numpy._core.", _SETS, "numpy.lib.array_utils", "numpy.lib._array_utils_impl")  # imported without the rest of numpy
_FIRST_VERSION, _END_VERSION = (2, 4), (2, 6)  # the __init__ of earlier ones also sets up types and limits
_UNUSED = ("ast", "ctypes", "inspect", "numpy._utils._inspect", "numpy.linalg", "pickle")
_CORE, _LIB = "numpy._core", "numpy.lib"


def prepare_numpy() -> None:
    """Arrange that the import of numpy imports its parts only, without threads for linear algebra: they spin for 50 ms.

    Commands that run the user's programs do not call this, as programs inherit the environment.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    import_in_parts()


def import_in_parts() -> None:
    """Arrange that the import of numpy imports its parts only."""
    if "numpy" in sys.modules or any(isinstance(finder, _NumpyInParts) for finder in sys.meta_path):
        return
    # numpy fills in the docstrings of its functions by two modules that do nothing else.
    for name in ("numpy._core._add_newdocs", "numpy._core._add_newdocs_scalars"):
        sys.modules.setdefault(name, ModuleType(name))
    if "NUMPY_MADVISE_HUGEPAGE" not in os.environ:  # numpy/__init__ reads it
        sys.meta_path.insert(0, _NumpyInParts())


class _NumpyInParts:
    """The finder of numpy: it imports the core as the module numpy, and the rest when it is used."""

    def __init__(self) -> None:
        self._parts: dict[str, Any] = {}
        self._is_complete = self._is_importing = False
        self._lock = RLock()  # other threads wait until numpy is complete

    def find_spec(self, name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None) -> ModuleSpec | None:
        """Import the core as numpy, and complete numpy before the import of any other submodule."""
        if name.startswith("numpy") and not self._is_importing:
            if name == "numpy":
                self._import_core()
            elif name.startswith("numpy.") and not name.startswith(_PARTS):
                self._complete_module("numpy", name)
            if name in sys.modules:  # else it is imported as usual
                return _spec_of_imported(sys.modules[name])
        return None

    def _import_core(self) -> None:
        """Make the core available as the module numpy; import all of it if that fails."""
        from importlib.util import find_spec, module_from_spec

        self._is_importing = True
        spec = find_spec("numpy")
        if spec is None or spec.loader is None:
            return
        self._loader = spec.loader
        sys.modules["numpy"] = self._module = module_from_spec(spec)
        unused = [_UnusedModule(name) for name in _UNUSED if name not in sys.modules]
        sys.modules.update((module.__name__, module) for module in unused)
        if is_first := "datetime" not in sys.modules:
            import _datetime  # type: ignore[import-not-found]  # all that numpy uses; until Python 3.11 datetime defines it twice

            sys.modules["datetime"] = _datetime
        try:
            self._import_parts()
            self._is_importing = False
        except (ImportError, AttributeError, KeyError, ValueError):
            self._complete()
        finally:
            for module in unused:
                module.leave()
            if is_first:
                sys.modules.pop("datetime", None)

    def _import_parts(self) -> None:
        from importlib import import_module
        from importlib.util import find_spec, module_from_spec

        version = import_module("numpy.version").short_version
        if not _FIRST_VERSION <= tuple(map(int, version.split(".")[:2])) < _END_VERSION:
            raise ImportError(f"numpy {version}")
        import_module("numpy._distributor_init")  # libraries that a distributor adds
        names = vars(import_module("numpy._globals"))
        self._module.__dict__.update((name, names[name]) for name in ("_NoValue", "_CopyMode"))  # used by the core
        core = import_module(_CORE)
        self._parts.update((name, value) for name in core.__all__ if not isinstance(value := getattr(core, name), ModuleType))
        self._module.__dict__["__getattr__"] = self._attribute
        spec = find_spec(_LIB)
        if spec is None:
            raise ImportError(_LIB)
        sys.modules[_LIB] = lib = module_from_spec(spec)  # not executed, because its __init__ imports every module of it
        for name, functions in _FUNCTIONS.items():
            module = import_module(name)
            self._parts.update((function, getattr(module, function)) for function in functions or module.__all__)
        lib.__dict__["__getattr__"] = lambda name: getattr(self._complete_module(_LIB, name), name)

    def _attribute(self, name: str) -> Any:
        """Return an attribute that the module object does not have yet."""
        if name == "ma":
            return _MASKED_ARRAYS
        if name in _OF_SETS and name not in self._parts:
            self._import_sets()
        if name in self._parts:
            self._module.__dict__[name] = self._parts[name]
            return self._parts[name]
        return getattr(self._complete_module("numpy", name), name)

    def _import_sets(self) -> None:
        from contextlib import suppress
        from importlib import import_module

        with suppress(ImportError, AttributeError):  # else the rest of numpy has them
            module = import_module(_SETS)
            self._parts.update((name, getattr(module, name)) for name in _OF_SETS)

    def _complete_module(self, module: str, name: str) -> ModuleType:
        """Return a module of the complete numpy because an attribute is missing."""
        with self._lock:
            if self._is_importing:  # by this thread
                raise AttributeError(f"module {module!r} has no attribute {name!r}")
            if not self._is_complete:
                self._complete()
        return sys.modules[module]

    def _complete(self) -> None:
        """Execute numpy's own __init__."""
        self._is_importing = True
        try:
            sys.modules.pop(_LIB, None)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            self._loader.exec_module(self._module)
            self._is_complete = True
        except BaseException:
            sys.modules.pop("numpy", None)  # as after any import that failed
            raise
        finally:
            self._is_importing = False


class _ImportedModule:
    """The loader of a module that is imported already."""

    def __init__(self, module: ModuleType) -> None:
        self._module, self._spec = module, module.__spec__

    def create_module(self, _spec: ModuleSpec) -> ModuleType:
        """Return the module."""
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        """Restore the module's own spec."""
        module.__spec__ = self._spec


def _spec_of_imported(module: ModuleType) -> ModuleSpec:
    """Return a spec with which the import system takes the module as it is; it would execute it again by the module's own spec."""
    from importlib.machinery import ModuleSpec

    loader: Any = _ImportedModule(module)
    module.__spec__ = None
    return ModuleSpec(module.__name__, loader)


class _UnusedModule(ModuleType):
    """A module that numpy's start imports without need: for docstrings, pickles, texts of types, powers of matrices and pointers, and
    to compare the arguments of its own functions. Its first use imports it.
    """

    def leave(self) -> None:
        """Let later imports import the module itself."""
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]

    def __getattr__(self, name: str) -> Any:
        from importlib import import_module

        if name.startswith("__"):  # which the import system looks for
            raise AttributeError(name)
        self.leave()
        return getattr(import_module(self.__name__), name)

    def is_masked(self, array: object) -> bool:
        """Whether an array has masked values, which unique() asks: none has as long as numpy.ma is not imported."""
        return self.__name__ in sys.modules and self.__getattr__("is_masked")(array)

    def matrix_power(self, *arguments: Any) -> Any:
        """Raise a matrix to a power."""
        return self.__getattr__("matrix_power")(*arguments)

    def getargspec(self, _function: object) -> tuple[list[str], None, None, None]:
        """Return no arguments, so that numpy finds each pair of its functions, which it compares, alike."""
        return [], None, None, None

    def signature(self, _function: object) -> None:
        """Return None: a C function without a signature."""

    def cleandoc(self, text: str) -> str:
        """Return a docstring as it is."""
        return text


_MASKED_ARRAYS = _UnusedModule("numpy.ma")
