"""The names of functions in debug information.

What enters: Activations. What leaves: the name as the linker has it where there is one (mangled), otherwise as in the
source. It may stand elsewhere: where the function is declared, in another unit, or in the file that dwz made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.debuginfo import dwarf
from perfpy.debuginfo.sections import damage_of
from perfpy.symbols.files.elf import DAMAGE

if TYPE_CHECKING:
    from perfpy.debuginfo.inline_search import Activation
    from perfpy.debuginfo.unit import DebugUnit

_LINKS_MOST: Final = 16  # a call refers to its function, that to its declaration; each in a circle if somebody likes
_LINKAGE: Final = (dwarf.AT_LINKAGE_NAME, dwarf.AT_MIPS_LINKAGE_NAME)


class FunctionNames:
    """Numbers of names; `names` has them, b"" for a function without one."""

    def __init__(self) -> None:
        self.names: list[bytes] = []
        self._numbers: dict[bytes, int] = {}
        self._known: dict[tuple[DebugUnit, int], int] = {}

    def number(self, activation: Activation) -> int:
        """The number of a function's name."""
        target: tuple[DebugUnit, int] | None = (activation.unit, activation.offset)
        if activation.caller is not None:
            target = activation.unit.target(activation.origin) if activation.origin else None
        if target is None:
            return self._intern(b"")
        number = self._known.get(target)
        if number is None:
            number = self._known[target] = self._intern(_name(*target))
        return number

    def _intern(self, name: bytes) -> int:
        number = self._numbers.setdefault(name, len(self.names))
        if number == len(self.names):
            self.names.append(name)
        return number


def _name(unit: DebugUnit, offset: int) -> bytes:
    """The name of the function at a DIE; as far as it can be found."""
    name = b""
    try:
        for _ in range(_LINKS_MOST):
            unit.sections.spend(1)
            _, attributes, _ = unit.die(offset)
            linkage = next((attributes[kind] for kind in _LINKAGE if kind in attributes), None)
            if linkage is not None:
                return unit.string(linkage)
            if dwarf.AT_NAME in attributes and not name:
                name = unit.string(attributes[dwarf.AT_NAME])
            link = attributes.get(dwarf.AT_ABSTRACT_ORIGIN) or attributes.get(dwarf.AT_SPECIFICATION)
            target = unit.target(link) if link else None
            if target is None:
                return name
            unit, offset = target
    except DAMAGE as damage:
        unit.sections.file.flaw(damage_of(damage))
    return name
