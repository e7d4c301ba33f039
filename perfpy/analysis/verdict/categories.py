"""Divide functions into categories: own code, libraries, interpreters, runtimes and the kernel.

The file of a function decides, by its kind and path. Code that runtimes generate, and the parts of standard libraries that compilers put
into the program itself, are divided by the functions' names.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from perfpy.abi.python_code import PYTHON_MARK
from perfpy.symbols.dso import DsoKind
from perfpy.symbols.interpreters import is_c_library, is_runtime

if TYPE_CHECKING:
    from perfpy.symbols.dso import Dso

#: numbers of categories; UNKNOWN is code that belongs to no file
OWN, LIBRARY, INTERPRETER, RUNTIME, KERNEL, UNKNOWN = range(6)
#: numbers of stacks' frames that are no code: the reason of a wait, and the command that a stack begins with
WAITING, COMMAND = 6, 7
NAMES: Final = ("own code", "libraries", "interpreter", "runtime", "kernel", "unknown code")

_SYSTEM: Final = re.compile(r"/(?:usr/)?lib(?:32|64|x32)?/|/snap/|/nix/store/|/gnu/store/")
_PACKAGES: Final = re.compile(r"/(?:site|dist)-packages/|/node_modules/|/lib/python\d|/\.cargo/|/go/pkg/mod/|/gems/|/\.m2/")
_SHARED: Final = re.compile(r"\.so(?:\.[\d.]+)?$|\.jar$|\.dll$|\.jsa$")
_VIRTUAL_MACHINES: Final = re.compile(
    r"(?:ba|da|z|k)?sh|perl[\d.]*|lib(?:perl|lua|php|R|coreclr|clrjit|mono).*\.so.*|lua[\d.]*|php[\d.]*|Rscript|java|dotnet|mono|beam\.smp"
)
#: standard libraries, and the code before main, in the program's own file
_OF_LIBRARY: Final = re.compile(
    r"(?:<&?)?(?:std|core|alloc|hashbrown|__gnu_cxx|__cxxabiv1|boost|absl|tokio|rayon)::|__|operator (?:new|delete)"
)
_OF_RUNTIME: Final = re.compile(r"_start$|_init$|_fini$|_dl_|_IO_|_Unwind_|runtime[./]|gcWriteBarrier|caml_")
_C_FUNCTIONS: Final = re.compile(
    r"(?:_int_)?(?:malloc|free|calloc|realloc|memalign)|malloc_consolidate|(?:mem(?:cpy|set|move|cmp|chr)|str(?:len|cmp|cpy|chr))(?:_\w+)?"
)
_TEMPLATE: Final = re.compile(r"(?<!^)(?<!operator)(?<!operator<)<[^<>]*>")
_PYTHON: Final = re.compile(PYTHON_MARK + r".+?:(.+)", re.DOTALL)
_MARK: Final = PYTHON_MARK + "["  # no function, but for example [GIL held by FUNCTION, thread TID]
_JAVASCRIPT: Final = re.compile(r"(?:LazyCompile|Function|JS|Script|Eval):")
_JAVA_LIBRARY: Final = re.compile(r"L?(?:java|javax|jdk|sun|com[./]sun|kotlin|scala)[./]")
_JAVA_RETURN_TYPE: Final = re.compile(r"[\w$.]+(?:\[\])* (?=[\w$.]+\()")
_JAVA_METHOD: Final = re.compile(r"L[\w/$]+;|[\w$]+(?:\.[\w$]+)+\(")


def category(dso: Dso | None, name: str) -> int:
    """Return the category of a function; name: as recorded, "" if unknown; dso: its file, None for none."""
    if dso is None:
        return UNKNOWN
    if dso.kernel:
        return KERNEL
    if dso.made_code:
        return _of_generated(name)
    if dso.kind in (DsoKind.VDSO, DsoKind.VSYSCALL) or is_c_library(dso):
        return RUNTIME
    if dso.kind is not DsoKind.FILE:
        return UNKNOWN
    if is_runtime(dso) or _VIRTUAL_MACHINES.fullmatch(dso.short_name):
        return INTERPRETER
    if _SHARED.search(dso.short_name):
        return LIBRARY if _SYSTEM.match(dso.name) or _PACKAGES.search(dso.name) else _of_program(name)
    return _of_program(name)


def _of_program(name: str) -> int:
    """Return the category of a function in the program's file."""
    if _OF_RUNTIME.match(name) or _C_FUNCTIONS.fullmatch(name):
        return RUNTIME
    return LIBRARY if _OF_LIBRARY.match(_without_return_type(name)) else OWN


def _without_return_type(name: str) -> str:
    """Return the name without the type that C++ templates return, which stands before it.

    >>> _qualified("void std::sort<int*>(int*, int*)"), _qualified("std::vector<int> parse<char>(std::string)"), _qualified("main")
    ('std::sort(int*, int*)', 'parse(std::string)', 'main')
    """
    if "::" not in name or " " not in name:
        return name
    stripped, before = name, ""
    while stripped != before:
        stripped, before = _TEMPLATE.sub("", stripped), stripped
    head, bracket, arguments = stripped.partition("(")
    word = head if "operator" in head or head.startswith("<") else head.rpartition(" ")[2]
    return f"{word}{bracket}{arguments}"


def _of_generated(name: str) -> int:
    """Return the category of a function in code that a runtime generated."""
    if name.startswith(_MARK):
        return LIBRARY
    if python := _PYTHON.match(name):
        return LIBRARY if python[1].startswith("<frozen") or _PACKAGES.search(python[1]) else OWN
    if _JAVASCRIPT.match(name):
        return INTERPRETER if " node:" in name else LIBRARY if _PACKAGES.search(name) else OWN
    method = _JAVA_RETURN_TYPE.sub("", name)
    if _JAVA_METHOD.match(method):
        return LIBRARY if _JAVA_LIBRARY.match(method) else OWN
    return INTERPRETER
