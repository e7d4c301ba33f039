"""DWARF types to the kernel's types (s32, x64, string) and to C text.

The kernel's types: Documentation/trace/uprobetracer.rst. perf's choice, as observed: signed numbers are sN, all others xN.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.debuginfo.units import dwarf

if TYPE_CHECKING:
    from perfpy.debuginfo.units.dies import Die

_QUALIFIERS: Final = frozenset({
    dwarf.TAG_CONST_TYPE,
    dwarf.TAG_VOLATILE_TYPE,
    dwarf.TAG_RESTRICT_TYPE,
    dwarf.TAG_ATOMIC_TYPE,
})  # fmt: skip
_REFERENCES: Final = frozenset({dwarf.TAG_REFERENCE_TYPE, dwarf.TAG_RVALUE_REFERENCE_TYPE})
POINTERS: Final = frozenset({dwarf.TAG_POINTER_TYPE}) | _REFERENCES
COMPOUNDS: Final = frozenset({dwarf.TAG_STRUCTURE_TYPE, dwarf.TAG_CLASS_TYPE, dwarf.TAG_UNION_TYPE})
_WORDS: Final = {
    dwarf.TAG_STRUCTURE_TYPE: "struct ",
    dwarf.TAG_CLASS_TYPE: "struct ",
    dwarf.TAG_UNION_TYPE: "union ",
    dwarf.TAG_ENUMERATION_TYPE: "enum ",
}
_SIGNED: Final = (dwarf.ATE_SIGNED, dwarf.ATE_SIGNED_CHAR)
_CHARACTERS: Final = (dwarf.ATE_SIGNED_CHAR, dwarf.ATE_UNSIGNED_CHAR)
_LINKS_MOST: Final = 64  # damaged files may have cycles of types
_BITS: Final = (64, 32, 16, 8)


def plain_type(die: Die | None) -> Die | None:
    """Return a type without typedefs and qualifiers; None for void."""
    for _ in range(_LINKS_MOST):
        if die is None or (die.tag not in _QUALIFIERS and die.tag != dwarf.TAG_TYPEDEF):
            return die
        die = die.type
    raise ValueError("a type that refers to itself")


def type_text(die: Die | None, depth: int = 0) -> str:
    """Return a type as `probe --vars` prints it. Qualifiers are left out, as in perf; (unknown_type) is perf's text for the rest."""
    while die is not None and die.tag in _QUALIFIERS and depth < _LINKS_MOST:
        die, depth = die.type, depth + 1
    if die is None:
        return "void"
    if depth >= _LINKS_MOST:
        raise ValueError("a type that refers to itself")
    tag = die.tag
    if tag in POINTERS or tag == dwarf.TAG_ARRAY_TYPE:
        mark = "[]" if tag == dwarf.TAG_ARRAY_TYPE else "*" if tag == dwarf.TAG_POINTER_TYPE else "&"
        return type_text(die.type, depth + 1) + mark
    if tag == dwarf.TAG_SUBROUTINE_TYPE:
        return "(function_type)"
    return f"{_WORDS.get(tag, '')}{die.name}" if die.name or tag in _WORDS else "(unknown_type)"


def size_of(die: Die | None, depth: int = 0) -> int:
    """Return the bytes of a type, 0 if unknown."""
    die = plain_type(die)
    if die is None or depth > _LINKS_MOST:
        return 0
    size = die.number(dwarf.AT_BYTE_SIZE)
    if size is not None:
        return size
    if die.tag in POINTERS:
        return die.unit.header.shape.address_size
    if die.tag == dwarf.TAG_ARRAY_TYPE:
        size = size_of(die.type, depth + 1)
        for count in array_counts(die):
            size *= count
        return size
    return size_of(die.type, depth + 1) if die.tag == dwarf.TAG_ENUMERATION_TYPE else 0


def array_counts(die: Die) -> list[int]:
    """Return the elements of each dimension of an array, 0 where unknown."""
    counts = []
    for child in die.children():
        if child.tag == dwarf.TAG_SUBRANGE_TYPE:
            upper = child.number(dwarf.AT_UPPER_BOUND)
            counts.append(child.number(dwarf.AT_COUNT) or (0 if upper is None else upper + 1))
    return counts


def is_signed(die: Die) -> bool:
    """Whether a type's values are signed numbers."""
    return die.tag == dwarf.TAG_BASE_TYPE and die.number(dwarf.AT_ENCODING) in _SIGNED


def is_character(die: Die | None) -> bool:
    """Whether a type is char, signed or not."""
    die = plain_type(die)
    return die is not None and die.tag == dwarf.TAG_BASE_TYPE and die.number(dwarf.AT_ENCODING) in _CHARACTERS and size_of(die) == 1


def fetch_type(die: Die | None, letter: str = "") -> tuple[str, bool]:
    """Return the kernel's type for values of a type, "" for those without one, and whether it is truncated to 64 bits.

    `letter`: s, u or x as requested; "": the type's own.
    """
    die = plain_type(die)
    if die is None or die.tag == dwarf.TAG_ARRAY_TYPE:
        return "", False
    size = size_of(die)
    if not size or die.tag not in POINTERS | COMPOUNDS | {dwarf.TAG_BASE_TYPE, dwarf.TAG_ENUMERATION_TYPE}:
        return "", False
    bits = next((bits for bits in _BITS if bits <= 8 * size), 8)
    return f"{letter or ('s' if is_signed(die) else 'x')}{bits}", bits < 8 * size
