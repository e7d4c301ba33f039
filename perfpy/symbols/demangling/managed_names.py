"""Demangle names of OCaml and Java compilers, as perf prints them.

Functions return None for other names. OCaml: camlMODULE__NAME_NUMBER, with characters as $ and two hexadecimal digits. Java (symbols of
JIT-compiled code): the class and argument types as descriptors of the Java Virtual Machine Specification, 4.3.
"""

from __future__ import annotations

import re
from typing import Final

_OCAML = re.compile(r"caml(?=[A-Z])")
_OCAML_PART = re.compile(r"__|\$[0-9a-fA-F]{2}")
_CLASS: Final = r"[^;()\[]+"
_JAVA_ARGUMENT = re.compile(rf"(\[*)(?:([BCDFIJSZ])|L({_CLASS});)")
_JAVA_METHOD = re.compile(rf"L({_CLASS});([^;()\[/]*)\(((?:{_JAVA_ARGUMENT.pattern})*)\)[^)]*")
_JAVA_TYPES: Final = {"B": "byte", "C": "char", "D": "double", "F": "float", "I": "int", "J": "long", "S": "short", "Z": "bool"}

#: V8's marks before a function: bytecode ~, baseline code ^, Maglev's +, optimized *
_TIER: Final = re.compile(r"(?:(?<=\] )|^)((?:LazyCompile|Function|JS|Script|Eval|RegExp):)[~^+*]")


def without_tier(name: str) -> str:
    """Return the common name of all code generated for one function, alone or after a level as in `[.] name`.

    >>> without_tier("JS:*slowGroup /srv/app.js:7:3"), without_tier("[.] LazyCompile:~slowGroup app.js:7"), without_tier("operator*")
    ('JS:slowGroup /srv/app.js:7:3', '[.] LazyCompile:slowGroup app.js:7', 'operator*')
    """
    return _TIER.sub(r"\1", name) if ":" in name else name


def managed_name(name: str) -> str | None:
    """Return the printed name, None if it is neither OCaml's nor Java's."""
    if _OCAML.match(name):
        return _OCAML_PART.sub(_ocaml_part, name[4:])
    method = _JAVA_METHOD.fullmatch(name) if name.startswith("L") else None
    return _java(method) if method else None


def _ocaml_part(match: re.Match[str]) -> str:
    return "." if match[0] == "__" else chr(int(match[0][1:], 16))


def _java(method: re.Match[str]) -> str:
    arguments = (
        (_JAVA_TYPES[argument[2]] if argument[2] else argument[3].replace("/", ".")) + "[]" * len(argument[1])
        for argument in _JAVA_ARGUMENT.finditer(method[3])
    )
    return f"{method[1].replace('/', '.')}.{method[2]}({', '.join(arguments)})"
