r"""The grammar of arguments: what a probe records.

    [NAME=]VARIABLE[->MEMBER|.MEMBER|[INDEX]]...[:TYPE][@user]
    [NAME=]$vars, [NAME=]$params      all variables, or all parameters
    [NAME=]%REGISTER, $retval, $stack0, @SYMBOL, +8(%di), \7 ...   passed to the kernel

Syntax: perf-probe(1).
"""

from __future__ import annotations

import re
from typing import Final

from perfpy.abi.startup import NamedTuple
from perfpy.errors import UsageError

_ARGUMENT: Final = re.compile(r"(?:(?P<name>[A-Za-z_]\w*)=)?(?P<rest>.+)\Z", re.ASCII)
_VARIABLE: Final = re.compile(
    r"(?P<name>[A-Za-z_][\w$]*(?:::[\w$]+)*)(?P<fields>(?:->\w+|\.\w+|\[\d+\])*)"
    r"(?::(?P<type>[^:@]+(?:@\d+/\d+)?))?(?P<user>@user)?\Z",
    re.ASCII,
)
_FIELD: Final = re.compile(r"->(\w+)|\.(\w+)|\[(\d+)\]", re.ASCII)
_RAW: Final = "$%@+-\\"
_TYPE: Final = re.compile(r"(?:\w+(?:\[\d+\])?|b\d+@\d+/\d+)\Z", re.ASCII)
_LARGEST_INDEX: Final = (1 << 31) - 1
#: names that stand for several variables
ALL_VARIABLES, ALL_PARAMETERS = "$vars", "$params"


class ArgumentField(NamedTuple):
    """One step from a variable to a part of it.

    Attributes:
        member: a member's name, "" for an index.
        number: index of an array's or a pointer's element.
        follows_pointer: written as ->.
    """

    member: str
    number: int = 0
    follows_pointer: bool = False


class ProbeArgument(NamedTuple):
    """An argument.

    Attributes:
        text: the whole text.
        name: its name, "" if the text has none.
        variable: a variable's name; "" for text that is passed to the kernel.
        fields: the steps to a part of the variable.
        type: the requested type, "" for the variable's own.
        is_user: the memory is the user's (kernel probes).
        raw: text that is passed to the kernel.
    """

    text: str
    name: str = ""
    variable: str = ""
    fields: tuple[ArgumentField, ...] = ()
    type: str = ""
    is_user: bool = False
    raw: str = ""

    @property
    def is_group(self) -> bool:
        """Whether the argument represents several variables."""
        return self.variable in (ALL_VARIABLES, ALL_PARAMETERS)

    @property
    def needs_variables(self) -> bool:
        """Whether it needs debug information."""
        return bool(self.variable)


def parse_argument(text: str) -> ProbeArgument:
    """Parse an argument. Raises UsageError."""
    match = _ARGUMENT.match(text)
    if match is None:
        raise UsageError(f"'{text}' is not an argument of a probe; the form is [NAME=]VARIABLE[:TYPE]")
    name, rest = match["name"] or "", match["rest"]
    if rest in (ALL_VARIABLES, ALL_PARAMETERS):
        return ProbeArgument(text, variable=rest)
    if rest[0] in _RAW:
        return ProbeArgument(text, name=name, raw=rest)
    parts = _VARIABLE.match(rest)
    if parts is None:
        raise UsageError(f"'{text}' is not an argument of a probe; the form is [NAME=]VARIABLE[->MEMBER|.MEMBER|[INDEX]]...[:TYPE]")
    kind = parts["type"] or ""
    if kind and not _TYPE.match(kind):
        raise UsageError(
            f"'{text}': '{kind}': unknown type; types are u8 to u64, s8 to s64, x8 to x64, x, u, s, string and bWIDTH@OFFSET/SIZE"
        )
    return ProbeArgument(text, name, parts["name"], tuple(_fields(parts["fields"], text)), kind, bool(parts["user"]))


def _fields(text: str, whole: str) -> list[ArgumentField]:
    fields = []
    for arrow, dot, index in _FIELD.findall(text):
        if index and int(index) > _LARGEST_INDEX:
            raise UsageError(f"'{whole}': the index {index} is too large")
        fields.append(ArgumentField("", int(index)) if index else ArgumentField(arrow or dot, follows_pointer=bool(arrow)))
    return fields


def shown_name(argument: ProbeArgument) -> str:
    """Return the name of the argument in the event: its own, the last member's, or the variable's with the type."""
    if argument.name:
        return argument.name
    members = [field.member for field in argument.fields if field.member]
    if members:
        return members[-1]
    if argument.fields or not argument.type:
        return _as_name(argument.variable)
    return _as_name(f"{argument.variable}_{re.split('[@[]', argument.type)[0]}")


def _as_name(text: str) -> str:
    return re.sub(r"\W", "_", text, flags=re.ASCII)
