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

from perfpy.abi.light_types import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Final, TypeAlias

Demangle: TypeAlias = Callable[[bytes], str]

_PLT: Final = b"@plt"
_LONG: Final = 1024  # bytes; longer names are not cached
# the end of a legacy Rust name: ::h and 16 hex digits
_LLVM_COPY = r"\.llvm\.[0-9A-F@]+\Z"  # the suffix of functions that link-time optimization made global; Rust's tools drop it
_RUST_HASH = re.compile(r"::h[0-9a-f]{16}\Z")
_RUST_END = r"17h[0-9a-f]{16}E(?=\.)"  # of a legacy name, before the suffix of a copy of the function
_COPY_SUFFIX = r"(?:\.[\w@]+)+"
_RUST_ESCAPES: Final = {
    "$SP$": "@", "$BP$": "*", "$RF$": "&", "$LT$": "<", "$GT$": ">", "$LP$": "(", "$RP$": ")", "$C$": ",",
}  # fmt: skip
_RUST_ESCAPE = r"\$(?:SP|BP|RF|LT|GT|LP|RP|C|u[0-9a-f]{1,6})\$|\.\.|\."
_LLVM_SUFFIX: Final = r" \((\.[^()]*)\)\Z"
_ANGLES: Final = r"<(?:[^<>]|<(?:[^<>]|<[^<>]*>)*>)*>"
_PARENTHESES: Final = r"\((?:[^()]|\([^()]*\))*\)"
_LLVM_LAMBDA: Final = rf"'lambda(\d*)'({_ANGLES})?({_PARENTHESES})(?:(::operator\(\)({_ANGLES}))({_PARENTHESES}))?"
_LLVM_UNNAMED: Final = r"'unnamed(\d*)'"
_LLVM_PARAMETER: Final = r"\$(T|N|TT)(\d*)\b"  # of a template, as LLVM counts them: each kind apart
_LLVM_VECTOR: Final = r" vector\[(\d+)\]"
# Types that older versions of libstdc++ take for fixed-point numbers ("bool _Accum"), with a name to test the library.
_BINARY_FLOAT: Final = r"DF[0-9]+[bx]"
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
        end = re.search(_RUST_END, text) if "17h" in text else None
        is_copy = end is not None and re.fullmatch(_COPY_SUFFIX, text[end.end() :])
        original, suffix = (text[: end.end()], re.sub(_LLVM_COPY, "", text[end.end() :])) if end and is_copy else (text, "")
        demangled = _rust_legacy(_within_budget(original, _cxx) or original) + suffix
    elif text.startswith("_R"):
        demangled = _within_budget(text, _rust_v0) or text
    elif text.startswith(("caml", "L")):
        demangled = managed_name(text) or text
    else:
        demangled = text
    return demangled + "@plt" if stub else demangled


_demangled: Final = lru_cache(maxsize=1 << 16)(_new)


def _within_budget(name: str, read: Callable[[str], str | None]) -> str | None:
    """Demangle a name, None if that would take too long or the result would be too long."""
    is_short = is_short_rust if name.startswith("_R") else is_short_cxx
    text = read(name) if is_short(name) else None
    return text if text and len(text) <= LONGEST else None


def _cxx(name: str) -> str | None:
    native = _libstdcxx()
    text = native(name) if native and not (re.search(_BINARY_FLOAT, name) and _misreads_floats()) else None
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
    text = re.sub(_LLVM_SUFFIX, lambda match: f" [clone {match[1]}]", text)
    text = re.sub(_LLVM_LAMBDA, _gnu_lambda, text)
    text = re.sub(_LLVM_UNNAMED, lambda match: f"{{unnamed type#{_ordinal(match[1])}}}", text)
    while ">>" in text and "operator>>" not in text:
        text = text.replace(">>", "> >")
    text = text.replace("decltype(", "decltype (").replace("std::nullptr_t", "decltype(nullptr)")
    return re.sub(_LLVM_VECTOR, r" __vector(\1)", text)


def _gnu_lambda(match: re.Match[str]) -> str:
    """Return a lambda in the spelling of libstdc++: the parameters of its template are counted together.

    LLVM prints the parameters of an instance's operator() as those of the template.
    """
    number, template, parameters, operator, arguments, types = match.groups()
    names = dict.fromkeys(one[0] for one in re.finditer(_LLVM_PARAMETER, template or ""))
    numbered = {name: f"{name.rstrip('0123456789')}{number}" for number, name in enumerate(names)}
    text = f"{{lambda{_renamed((template or '') + parameters, numbered)}#{_ordinal(number)}}}"
    if not operator:
        return text
    values = _split_arguments(arguments[1:-1])
    return text + operator + _renamed(types, dict(zip(names, values, strict=True)) if len(values) == len(names) else numbered)


def _renamed(text: str, names: dict[str, str]) -> str:
    return re.sub(_LLVM_PARAMETER, lambda match: names.get(match[0], match[0]), text)


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
    return re.sub(_RUST_ESCAPE, _rust_escape, part)


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
        return pycxxfilt.rust_demangle(re.sub(_LLVM_COPY, "", name))
    except (ValueError, UnicodeError):
        return None


# Demangle names of OCaml and Java compilers, as perf prints them. Functions return None for other names. OCaml: camlMODULE__NAME_NUMBER,
# with characters as $ and two hexadecimal digits. Java (symbols of JIT-compiled code): the class and argument types as descriptors of the
# Java Virtual Machine Specification, 4.3.

_OCAML: Final = r"caml(?=[A-Z])"
_OCAML_PART: Final = r"__|\$[0-9a-fA-F]{2}"
_CLASS: Final = r"[^;()\[]+"
_JAVA_ARGUMENT: Final = rf"(\[*)(?:([BCDFIJSZ])|L({_CLASS});)"
_JAVA_METHOD: Final = rf"L({_CLASS});([^;()\[/]*)\(((?:{_JAVA_ARGUMENT})*)\)[^)]*"
_JAVA_TYPES: Final = {"B": "byte", "C": "char", "D": "double", "F": "float", "I": "int", "J": "long", "S": "short", "Z": "bool"}

#: V8's marks before a function: bytecode ~, baseline code ^, Maglev's +, optimized *; regular expressions have none, but may begin with ^
_TIER: Final = r"(?:(?<=\] )|^)((?:LazyCompile|Function|JS|Script|Eval):)[~^+*]"


def without_tier(name: str) -> str:
    """Return the common name of all code generated for one function, alone or after a level as in `[.] name`.

    >>> without_tier("JS:*slowGroup /srv/app.js:7:3"), without_tier("[.] LazyCompile:~slowGroup app.js:7"), without_tier("operator*")
    ('JS:slowGroup /srv/app.js:7:3', '[.] LazyCompile:slowGroup app.js:7', 'operator*')
    >>> without_tier("RegExp:^a+$")
    'RegExp:^a+$'
    """
    return re.sub(_TIER, r"\1", name) if ":" in name else name


def managed_name(name: str) -> str | None:
    """Return the printed name, None if it is neither OCaml's nor Java's."""
    if re.match(_OCAML, name):
        return re.sub(_OCAML_PART, _ocaml_part, name[4:])
    method = re.fullmatch(_JAVA_METHOD, name) if name.startswith("L") else None
    return _java(method) if method else None


def _ocaml_part(match: re.Match[str]) -> str:
    return "." if match[0] == "__" else chr(int(match[0][1:], 16))


def _java(method: re.Match[str]) -> str:
    arguments = (
        (_JAVA_TYPES[argument[2]] if argument[2] else argument[3].replace("/", ".")) + "[]" * len(argument[1])
        for argument in re.finditer(_JAVA_ARGUMENT, method[3])
    )
    return f"{method[1].replace('/', '.')}.{method[2]}({', '.join(arguments)})"


# Decide whether a mangled C++ or Rust name may be demangled, by the size of the result. 200 bytes with thirty back references can become
# gigabytes, and demanglers are C libraries that cannot be interrupted. Names with few back references pass at once. For others, the sizes
# of parts are added up as a demangler would visit them, each part once. Unknown syntax that could become long is not demangled. Grammar:
# Itanium C++ ABI, 5.1; RFC 2603.
#
# Measured instead of the sums: a forked process that demangles with limits of memory and CPU time, and is started again after a name that
# killed it. Compilers' names cost no more (38,055 of libLLVM, 732 of them with sums: 0.22 s of CPU, 0.29 s with sums). A hostile name costs
# 13 ms of CPU with a limit of 4 ms, 54 ms with 50 ms, and 0.3 to 1.7 ms with sums: 10,000 of them take minutes, unless only the first few
# are tried. The process takes 6 ms to start beside a report of 160 MB, and there is none where fork is missing or the caller has threads.

#: characters of a demangled name
LONGEST: Final = 1 << 16
# Limit of the summed sizes, which are upper bounds up to ten times the actual length.
_SUM_MOST: Final = 1 << 20
# libstdc++ refuses more than 1,024. LLVM has no limit but the stack (it crashed with 200,000).
_MANGLED_MOST: Final = 2048

# Substitutions (S_, S0_) and template parameters (T_, T0_). With r of them, three in each type for the previous one, a
# name can become 3^(r/3) times as long: 350 times with 16.
_REFERENCE: Final = r"[ST][0-9A-Z]*_"
_SOME: Final = 16
# In functions in functions, parameters refer to other arguments each time. With j of them in a type that r - j
# arguments refer to in turn, the factor can be j^(r-j): 256 with 8.
_NESTED: Final = r"Z|cv"
# Pack expansions print their pattern for every element: 19 times with 8 references, for a hundred elements.
_PACK: Final = r"Dp|sp"
_FEW: Final = 8
_PACKED_MOST: Final = 400
# Conversion operators to templates of templates: libstdc++ tries both readings of each, one inside the other.
_TRIED_TWICE: Final = r"T[0-9A-Z]*_I"
# In names of members of dependent types, libstdc++ 12 may read a malformed part forever.
_MEMBER: Final = r"sr[0-9a-zCUL]"
_BACK_REFERENCE: Final = r"B[0-9a-zA-Z]*_"


def is_short_cxx(name: str) -> bool:
    """Whether a C++ name (_Z...) is demangled quickly, to at most LONGEST characters."""
    if len(name) > _MANGLED_MOST:
        return False
    if "cv" in name and len(re.findall(_TRIED_TWICE, name)) > _FEW:
        return False
    references = len(re.findall(_REFERENCE, name))
    if references <= _SOME and not re.search(_MEMBER, name) and _is_simple(name, references):
        return True
    from perfpy.symbols.demangling.cxx_sizes import demangled_size  # one name in twenty needs it

    return _fits(name, demangled_size)


def _is_simple(name: str, references: int) -> bool:
    nested, packs = re.search(_NESTED, name[2:]), len(re.findall(_PACK, name))
    if not packs:
        return references <= _FEW or not nested
    return references <= _FEW and packs == 1 and not nested and len(name) <= _PACKED_MOST


def is_short_rust(name: str) -> bool:
    """Whether a Rust name (_R...) is demangled quickly, to at most LONGEST characters."""
    if len(name) > _MANGLED_MOST:
        return False
    if len(re.findall(_BACK_REFERENCE, name)) <= _FEW:  # at most 3 * 3 * 2 times as long
        return True
    from perfpy.symbols.demangling.rust_sizes import demangled_size

    return _fits(name, demangled_size)


def _fits(name: str, size: Callable[[str], int]) -> bool:
    try:
        return size(name) <= _SUM_MOST
    except (ValueError, LookupError, RecursionError):
        return False
