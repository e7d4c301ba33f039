"""Kinds of arguments (perfpy.abi.system_calls.arguments) to the objects that make them text."""

from __future__ import annotations

from functools import cache
from typing import Final

from perfpy.abi.system_calls.constants import Constants, constants_of
from perfpy.views.trace.argument_texts import ArrayBits, Descriptor, Hidden, Named, Number, Process, Text, bits_text, open_text
from perfpy.views.trace.special_texts import special_text

_LOW: Final = 0xFFFFFFFF
_NUMBERS: Final = {"int": ("i4", "%d"), "long": ("i8", "%d"), "hex": ("u8", "%#x")}


@cache
def text_of_kind(kind: str, machine: str) -> Number:
    """Return how a kind becomes text; machine: as uname(2) has it."""
    if kind in ("fd", "dirfd"):
        return Descriptor(is_folder=kind == "dirfd")
    if kind == "pid":
        return Process()
    if kind == "text":
        return Text()
    if kind == "buffer":
        return Hidden()
    if kind in _NUMBERS:
        return Number(*_NUMBERS[kind])
    if kind == "open_flags":
        return Named(open_text(machine))
    constants = constants_of(kind)
    if constants is None:
        return special_text(kind, machine)
    return _of_constants(constants)


def _of_constants(constants: Constants) -> Number:
    if constants.is_array:
        return ArrayBits(constants)
    if constants.bits:
        return Named(lambda number: bits_text(number, constants.bits, constants.zero), is_always_shown=constants.is_always_shown)

    def text(number: int) -> str:
        name = constants.values.get(number)
        if name is not None:
            return name
        return f"{number & _LOW:#x}" if constants.is_hex else str(number)

    return Named(text, dtype="i4", is_always_shown=constants.is_always_shown)
