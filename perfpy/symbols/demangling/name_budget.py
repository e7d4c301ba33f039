"""Decide whether a mangled C++ or Rust name may be demangled, by the size of the result.

200 bytes with thirty back references can become gigabytes, and demanglers are C libraries that cannot be interrupted. Names with few back
references pass at once. For others, the sizes of parts are added up as a demangler would visit them, each part once. Unknown syntax
that could become long is not demangled. Grammar: Itanium C++ ABI, 5.1; RFC 2603.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

#: characters of a demangled name
LONGEST: Final = 1 << 16
# Limit of the summed sizes, which are upper bounds up to ten times the actual length.
_SUM_MOST: Final = 1 << 20
# libstdc++ refuses more than 1,024. LLVM has no limit but the stack (it crashed with 200,000).
_MANGLED_MOST: Final = 2048

# Substitutions (S_, S0_) and template parameters (T_, T0_). With r of them, three in each type for the previous one, a
# name can become 3^(r/3) times as long: 350 times with 16.
_REFERENCE = re.compile(r"[ST][0-9A-Z]*_")
_SOME: Final = 16
# In functions in functions, parameters refer to other arguments each time. With j of them in a type that r - j
# arguments refer to in turn, the factor can be j^(r-j): 256 with 8.
_NESTED = re.compile(r"Z|cv")
# Pack expansions print their pattern for every element: 19 times with 8 references, for a hundred elements.
_PACK = re.compile(r"Dp|sp")
_FEW: Final = 8
_PACKED_MOST: Final = 400
# Conversion operators to templates of templates: libstdc++ tries both readings of each, one inside the other.
_TRIED_TWICE = re.compile(r"T[0-9A-Z]*_I")
# In names of members of dependent types, libstdc++ 12 may read a malformed part forever.
_MEMBER = re.compile(r"sr[0-9a-zCUL]")
_BACK_REFERENCE = re.compile(r"B[0-9a-zA-Z]*_")


def is_short_cxx(name: str) -> bool:
    """Whether a C++ name (_Z...) is demangled quickly, to at most LONGEST characters."""
    if len(name) > _MANGLED_MOST:
        return False
    if "cv" in name and len(_TRIED_TWICE.findall(name)) > _FEW:
        return False
    references = len(_REFERENCE.findall(name))
    if references <= _SOME and not _MEMBER.search(name) and _is_simple(name, references):
        return True
    from perfpy.symbols.demangling.cxx_sizes import demangled_size  # one name in twenty needs it

    return _fits(name, demangled_size)


def _is_simple(name: str, references: int) -> bool:
    nested, packs = _NESTED.search(name, 2), len(_PACK.findall(name))
    if not packs:
        return references <= _FEW or not nested
    return references <= _FEW and packs == 1 and not nested and len(name) <= _PACKED_MOST


def is_short_rust(name: str) -> bool:
    """Whether a Rust name (_R...) is demangled quickly, to at most LONGEST characters."""
    if len(name) > _MANGLED_MOST:
        return False
    if len(_BACK_REFERENCE.findall(name)) <= _FEW:  # at most 3 * 3 * 2 times as long
        return True
    from perfpy.symbols.demangling.rust_sizes import demangled_size

    return _fits(name, demangled_size)


def _fits(name: str, size: Callable[[str], int]) -> bool:
    try:
        return size(name) <= _SUM_MOST
    except (ValueError, LookupError, RecursionError):
        return False
