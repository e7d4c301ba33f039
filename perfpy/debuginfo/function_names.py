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
    """Numbers of names; `names` has them, b"" for a function without one: those that are given, and what is found."""

    def __init__(self, names: list[bytes]) -> None:
        self.names = names
        self._numbers = {name: number for number, name in enumerate(names)}
        self._known: dict[tuple[DebugUnit, int], tuple[int, bool]] = {}

    def number(self, activation: Activation) -> int:
        """The number of a function's name."""
        return self._find(activation)[0]

    def lacks_linkage_name(self, activation: Activation) -> bool:
        """Whether its name is not the linker's although its language has other names for the linker."""
        return self._find(activation)[1]

    def _find(self, activation: Activation) -> tuple[int, bool]:
        target: tuple[DebugUnit, int] | None = (activation.unit, activation.offset)
        if activation.caller is not None:
            target = activation.unit.target(activation.origin) if activation.origin else None
        if target is None:
            return self._intern(b""), False
        found = self._known.get(target)
        if found is None:
            name, is_linkage = _name(*target)
            found = self._known[target] = self._intern(name), not is_linkage and _mangles(target[0])
        return found

    def _intern(self, name: bytes) -> int:
        number = self._numbers.setdefault(name, len(self.names))
        if number == len(self.names):
            self.names.append(name)
        return number


def _mangles(unit: DebugUnit) -> bool:
    return unit.number(dwarf.AT_LANGUAGE) in dwarf.MANGLED_LANGUAGES


def _name(unit: DebugUnit, offset: int) -> tuple[bytes, bool]:
    """The name of the function at a DIE, as far as it can be found, and whether it is the linker's."""
    name = b""
    try:
        for _ in range(_LINKS_MOST):
            unit.sections.spend(1)
            _, attributes, _ = unit.die(offset)
            linkage = next((attributes[kind] for kind in _LINKAGE if kind in attributes), None)
            if linkage is not None:
                return unit.string(linkage), True
            if dwarf.AT_NAME in attributes and not name:
                name = unit.string(attributes[dwarf.AT_NAME])
            link = attributes.get(dwarf.AT_ABSTRACT_ORIGIN) or attributes.get(dwarf.AT_SPECIFICATION)
            target = unit.target(link) if link else None
            if target is None:
                return name, False
            unit, offset = target
    except DAMAGE as damage:
        unit.sections.file.flaw(damage_of(damage))
    return name, False
