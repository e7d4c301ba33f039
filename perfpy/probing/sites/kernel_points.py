"""Points in the running kernel, by the symbols of /proc/kallsyms.

perf writes probes of the kernel relative to its first symbol, _text; returns, and functions of modules, relative to the function.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Final

from perfpy.probing.definitions import Definition
from perfpy.probing.grammar.arguments import parse_argument
from perfpy.probing.grammar.name_filters import is_glob
from perfpy.probing.naming import KERNEL_GROUP, event_of
from perfpy.probing.neighbours import nearest
from perfpy.probing.plans import Planned, describe
from perfpy.probing.problems import NoSuchPointError, NoVariableError, ProbeError
from perfpy.probing.sites.site_search import name_test

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.probing.grammar.points import ProbePoint, ProbeRequest

KALLSYMS: Final = "/proc/kallsyms"
_CODE: Final = "tTwW"
_FIRST: Final = "_text"


class KernelSymbol:
    """A function of the kernel: name, address, module ("" for the kernel itself)."""

    __slots__ = ("address", "module", "name")

    def __init__(self, name: str, address: int, module: str) -> None:
        self.name = name
        self.address = address
        self.module = module


def kernel_symbols(text: str) -> Iterator[KernelSymbol]:
    """Yield the functions of a copy of /proc/kallsyms."""
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 3 and words[1] in _CODE:
            try:
                address = int(words[0], 16)
            except ValueError:
                continue
            yield KernelSymbol(words[2], address, words[3].strip("[]") if len(words) > 3 else "")


def plan_kernel(text: str, request: ProbeRequest, *, module: str = "", most: int = 128) -> Planned:
    """Return the definitions of a request for the running kernel.

    Args:
        text: /proc/kallsyms.
        request: the request.
        module: the module that has the function, "" for the kernel itself and all modules.
        most: the largest number of sites.

    Raises ProbeError.
    """
    arguments = [parse_argument(one) for one in request.arguments]
    point = request.point
    if not point.function or point.line is not None or point.pattern or point.source:
        raise ProbeError(f"'{point.text}' needs the kernel's debug information; name a vmlinux that has it with -k", errno.ENOENT)
    needy = next((argument for argument in arguments if argument.needs_variables), None)
    if needy is not None:
        raise NoVariableError(
            f"'{needy.text}' needs the kernel's debug information; name a vmlinux that has it with -k, or read registers (%di)"
        )
    symbols = list(kernel_symbols(text))
    first = next((symbol.address for symbol in symbols if symbol.name == _FIRST), 0)
    if symbols and not any(symbol.address for symbol in symbols):
        raise ProbeError("the kernel hides its addresses from this user (kernel.kptr_restrict); run as root", errno.EACCES)
    test = name_test(point.function)
    chosen = [symbol for symbol in symbols if test(symbol.name) and module in ("", symbol.module)]
    if not chosen:
        raise NoSuchPointError(_missing(point, symbols, module))
    if len(chosen) > most:
        raise ProbeError(f"'{point.text}' has more than {most} sites; --max-probes raises the limit", errno.E2BIG)
    definitions = [_definition(request, symbol, first, tuple(argument.text for argument in arguments)) for symbol in chosen]
    return Planned(definitions, describe(request, arguments), [])


def _definition(request: ProbeRequest, symbol: KernelSymbol, first: int, arguments: tuple[str, ...]) -> Definition:
    point = request.point
    event = request.event or event_of(symbol.name, point)
    if point.is_return:
        event += "__return"
    target = f"{symbol.name}+{point.offset}"
    if symbol.module:
        target = f"{symbol.module}:{target}"
    elif first and not point.is_return:
        target = f"{_FIRST}+{symbol.address - first + point.offset}"
    return Definition(point.is_return, request.group or KERNEL_GROUP, event, target, arguments, is_kernel=True)


def _missing(point: ProbePoint, symbols: list[KernelSymbol], module: str) -> str:
    where = f"the module {module}" if module else "the kernel"
    if is_glob(point.function):
        return f"'{point.text}' fits no function of {where}"
    similar = nearest(point.function, (symbol.name for symbol in symbols if module in ("", symbol.module)))
    hint = f"; did you mean {' or '.join(map(repr, similar))}?" if similar else ""
    return f"no function '{point.function}' in {where}{hint}"
