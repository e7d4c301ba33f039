"""Demangle names of C++, Rust, OCaml and Java, as perf prints them.

Names that are not mangled, malformed, or too long when demangled (name_budget) are returned unchanged; nothing raises.

Distributions' perf 6.12 uses libstdc++'s __cxa_demangle, which prints parameters, and spells closures and clones as GNU does. perfpy uses
the same function if that library is available. LLVM's demangler replaces it for names that the machine's libstdc++ does not understand,
because a newer compiler wrote them, and where the library is missing. Its few differences are adjusted.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Final, TypeAlias

Demangle: TypeAlias = Callable[[bytes], str]

_PLT: Final = b"@plt"
_LONG: Final = 1024  # bytes; longer names are not cached
# the end of a legacy Rust name: ::h and 16 hex digits
_LLVM_COPY = re.compile(r"\.llvm\.[0-9A-F@]+\Z")  # the suffix of functions that link-time optimization made global; Rust's tools drop it
_RUST_HASH = re.compile(r"::h[0-9a-f]{16}\Z")
_RUST_ESCAPES: Final = {
    "$SP$": "@", "$BP$": "*", "$RF$": "&", "$LT$": "<", "$GT$": ">", "$LP$": "(", "$RP$": ")", "$C$": ",",
}  # fmt: skip
_RUST_ESCAPE = re.compile(r"\$(?:SP|BP|RF|LT|GT|LP|RP|C|u[0-9a-f]{1,6})\$|\.\.|\.")
_LLVM_SUFFIX = re.compile(r" \((\.[^()]*)\)\Z")
_ANGLES: Final = r"<(?:[^<>]|<(?:[^<>]|<[^<>]*>)*>)*>"
_PARENTHESES: Final = r"\((?:[^()]|\([^()]*\))*\)"
_LLVM_LAMBDA = re.compile(rf"'lambda(\d*)'({_ANGLES})?({_PARENTHESES})(?:(::operator\(\)({_ANGLES}))({_PARENTHESES}))?")
_LLVM_UNNAMED = re.compile(r"'unnamed(\d*)'")
_LLVM_PARAMETER = re.compile(r"\$(T|N|TT)(\d*)\b")  # of a template, as LLVM counts them: each kind apart
_LLVM_VECTOR = re.compile(r" vector\[(\d+)\]")
# Types that older versions of libstdc++ take for fixed-point numbers ("bool _Accum"), with a name to test the library.
_BINARY_FLOAT = re.compile(r"DF[0-9]+[bx]")
_BFLOAT: Final = "_Z1fDF16b", "f(std::bfloat16_t)"


def plain(name: bytes) -> str:
    """Decode a name without demangling (--no-demangle)."""
    return name.decode("utf-8", "surrogateescape")


def demangle(name: bytes) -> str:
    """Return the printed name; `foo@plt` keeps its suffix."""
    return _demangled(name) if len(name) < _LONG else _new(name)


def _new(name: bytes) -> str:
    stub = name.endswith(_PLT)
    text = plain(name[: -len(_PLT)] if stub else name)
    if text.startswith(("_Z", "___Z")):
        demangled = _rust_legacy(_within_budget(text, _cxx) or text)
    elif text.startswith("_R"):
        demangled = _within_budget(text, _rust_v0) or text
    elif text.startswith(("caml", "L")):
        demangled = _demangle_managed(text) or text
    else:
        demangled = text
    return demangled + "@plt" if stub else demangled


_demangled: Final = lru_cache(maxsize=1 << 16)(_new)


def _within_budget(name: str, read: Callable[[str], str | None]) -> str | None:
    """Demangle a name, None if that would take too long or the result would be too long."""
    from perfpy.symbols.demangling import name_budget  # programs in C have no such names

    is_short = name_budget.is_short_rust if name.startswith("_R") else name_budget.is_short_cxx
    text = read(name) if is_short(name) else None
    return text if text and len(text) <= name_budget.LONGEST else None


def _demangle_managed(name: str) -> str | None:
    from perfpy.symbols.demangling.managed_names import managed_name  # names with this beginning are rare

    return managed_name(name)


def _cxx(name: str) -> str | None:
    native = _libstdcxx()
    text = native(name) if native and not (_BINARY_FLOAT.search(name) and _misreads_floats()) else None
    return text or _llvm(name)


@cache
def _misreads_floats() -> bool:
    """Whether the machine's libstdc++ takes extended floating-point types for others."""
    native, (name, text) = _libstdcxx(), _BFLOAT
    return native is not None and native(name) != text


@cache
def _libstdcxx() -> Callable[[str], str | None] | None:
    """Return __cxa_demangle of the machine's libstdc++, None without it."""
    try:
        function = ctypes.CDLL("libstdc++.so.6")["__cxa_demangle"]
        free = ctypes.CDLL(None).free
    except (OSError, AttributeError):
        return None
    function.restype = ctypes.c_void_p
    function.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)]
    free.argtypes = [ctypes.c_void_p]

    def call(name: str) -> str | None:
        status = ctypes.c_int()
        address = function(name.encode("utf-8", "surrogateescape"), None, None, ctypes.byref(status))
        if not address:
            return None
        try:
            return (ctypes.c_char_p(address).value or b"").decode("utf-8", "surrogateescape")
        finally:
            free(address)

    return call


def _llvm(name: str) -> str | None:
    """Demangle by LLVM, in the spelling of libstdc++."""
    import pycxxfilt  # a native extension: loaded for the first name that needs it

    try:
        text = pycxxfilt.itanium_demangle(name)
    except (ValueError, UnicodeError):
        return None
    if text is None:
        return None
    text = _LLVM_SUFFIX.sub(lambda match: f" [clone {match[1]}]", text)
    text = _LLVM_LAMBDA.sub(_gnu_lambda, text)
    text = _LLVM_UNNAMED.sub(lambda match: f"{{unnamed type#{_ordinal(match[1])}}}", text)
    while ">>" in text and "operator>>" not in text:
        text = text.replace(">>", "> >")
    text = text.replace("decltype(", "decltype (").replace("std::nullptr_t", "decltype(nullptr)")
    return _LLVM_VECTOR.sub(r" __vector(\1)", text)


def _gnu_lambda(match: re.Match[str]) -> str:
    """Return a lambda in the spelling of libstdc++: the parameters of its template are counted together.

    LLVM prints the parameters of an instance's operator() as those of the template.
    """
    number, template, parameters, operator, arguments, types = match.groups()
    names = dict.fromkeys(one[0] for one in _LLVM_PARAMETER.finditer(template or ""))
    numbered = {name: f"{name.rstrip('0123456789')}{number}" for number, name in enumerate(names)}
    text = f"{{lambda{_renamed((template or '') + parameters, numbered)}#{_ordinal(number)}}}"
    if not operator:
        return text
    values = _split_arguments(arguments[1:-1])
    return text + operator + _renamed(types, dict(zip(names, values, strict=True)) if len(values) == len(names) else numbered)


def _renamed(text: str, names: dict[str, str]) -> str:
    return _LLVM_PARAMETER.sub(lambda match: names.get(match[0], match[0]), text)


def _split_arguments(text: str) -> list[str]:
    """Split the arguments of a template."""
    arguments, depth, begin = list[str](), 0, 0
    for position, letter in enumerate(text):
        depth += (letter in "<([{") - (letter in ">)]}")
        if letter == "," and not depth:
            arguments.append(text[begin:position].strip())
            begin = position + 1
    return [*arguments, text[begin:].strip()]


def _ordinal(digits: str) -> int:
    """Convert LLVM's count ('', 0, 1 ...) to GNU's (1, 2, 3 ...)."""
    return int(digits) + 2 if digits else 1


def _rust_legacy(text: str) -> str:
    """Convert a demangled C++ name that is Rust's: without the hash, escapes decoded. Other names stay."""
    hash_match = _RUST_HASH.search(text)
    if not hash_match or not 5 <= len(set(hash_match[0][3:])) <= 15:  # fewer or more different digits are hardly a hash
        return text
    body = _RUST_HASH.sub("", text)
    return "::".join(_rust_part(part) for part in body.split("::"))


def _rust_part(part: str) -> str:
    if part.startswith("_$"):
        part = part[1:]
    return _RUST_ESCAPE.sub(_rust_escape, part)


def _rust_escape(match: re.Match[str]) -> str:
    token = match[0]
    if token == "..":
        return "::"
    if token == ".":
        return "."
    if token.startswith("$u"):
        code = int(token[2:-1], 16)
        return chr(code) if 0x20 <= code < 0xD800 or 0xE000 <= code < 0x110000 else token
    return _RUST_ESCAPES[token]


def _rust_v0(name: str) -> str | None:
    import pycxxfilt  # see _llvm

    try:
        return pycxxfilt.rust_demangle(_LLVM_COPY.sub("", name))
    except (ValueError, UnicodeError):
        return None
