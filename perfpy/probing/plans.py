"""The definitions of a request, and its description."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.abi.startup import NamedTuple

if TYPE_CHECKING:
    from perfpy.probing.definitions import Definition
    from perfpy.probing.grammar.arguments import ProbeArgument
    from perfpy.probing.grammar.points import ProbeRequest
    from perfpy.untrusted.pinned_files import PinnedFile


class Planned(NamedTuple):
    """The definitions of one request.

    Attributes:
        definitions: one for each site.
        described: the point and the arguments, for the message about the new event.
        notes: what a user should know.
        file: the program that was read, None for the kernel.
    """

    definitions: list[Definition]
    described: str
    notes: list[str]
    file: PinnedFile | None = None


def describe(request: ProbeRequest, arguments: list[ProbeArgument]) -> str:
    """Return perf's description of a request: use:2@a.c with v=l->v."""
    point = request.point
    text = point.function
    if point.address is not None:
        text = f"{point.address:#x}"
    elif point.offset:
        text += f"+{point.offset}"
    elif point.is_return:
        text += "%return"
    elif point.function and point.line:
        text += f":{point.line}"
    if point.source:
        text += f"@{point.source}"
    if not point.function and point.line is not None:
        text += f":{point.line}"
    return text + _with([_described_argument(argument) for argument in arguments])


def _described_argument(argument: ProbeArgument) -> str:
    if argument.fields and not argument.name:
        members = [field.member for field in argument.fields if field.member]
        return f"{members[-1] if members else argument.variable}={argument.text}"
    return argument.text


def _with(arguments: list[str]) -> str:
    return f" with {' '.join(arguments)}" if arguments else ""
