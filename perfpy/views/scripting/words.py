"""Names of a tracepoint's flags and values, for a script.

Calls define_flag_field, define_flag_value, define_symbolic_field and define_symbolic_value, which scripts import from Core, for each
__print_flags and __print_symbolic of a print format.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from perfpy.perfdata.tracepoints.print_format import PrintFormatError, parse_print_fmt
from perfpy.perfdata.tracepoints.print_tree import FieldValue, Flags, Symbolic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.perfdata.tracepoints.event_format import EventFormat
    from perfpy.views.scripting.program import ScriptProgram


def define_words(form: EventFormat, name: str, program: ScriptProgram) -> None:
    """Define the names of a tracepoint's fields; `name`: SYSTEM__EVENT."""
    if program.function("define_flag_value") is None and program.function("define_symbolic_value") is None:
        return
    for tree, field in worded_fields(form):
        kind = "flag" if isinstance(tree, Flags) else "symbolic"
        head = (name, field, tree.delimiter) if isinstance(tree, Flags) else (name, field)
        program.call_if_there(f"define_{kind}_field", *head)
        for number, word in tree.names:
            value = _number(number)
            if value is not None:
                program.call_if_there(f"define_{kind}_value", name, field, value, word)


def worded_fields(form: EventFormat) -> list[tuple[Flags | Symbolic, str]]:
    """Return the parts of a print format that name a field's values, with the field; nothing for an invalid format."""
    try:
        arguments = parse_print_fmt(form).arguments
    except PrintFormatError:
        return []
    fields = []
    for tree in (part for argument in arguments for part in _parts(argument)):
        if isinstance(tree, (Flags, Symbolic)):
            field = next((part.name for part in _parts(tree.value) if isinstance(part, FieldValue)), None)
            if field is not None:
                fields.append((tree, field))
    return fields


def _parts(tree: Any) -> Iterator[Any]:
    """Yield a tree and all its nodes, without recursion, because formats may be deeply nested."""
    work = [tree]
    while work:
        one = work.pop()
        if is_dataclass(one):
            yield one
            work += [getattr(one, field.name) for field in reversed(fields(one)) if field.name != "field"]


def _number(text: str) -> int | None:
    """Return a number in C syntax; None for an expression."""
    digits = text.strip().strip("()").rstrip("uUlL")
    try:
        return int(digits, 8 if digits.isdigit() and digits.startswith("0") else 0)
    except ValueError:
        return None
