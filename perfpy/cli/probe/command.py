"""`perfpy probe`: add, list and delete dynamic probes; show lines, variables and functions to probe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.cli.line.options import PerfCommand, fail
from perfpy.cli.probe.options import ALL_PROBES, ProbeCommandOptions

if TYPE_CHECKING:
    from collections.abc import Callable


def run(options: ProbeCommandOptions) -> int:
    """Add, list and delete dynamic probes in programs and the kernel; show lines, variables and functions to probe."""
    if options.words and options.words[0].startswith("/") and not options.exec_path and not options.module:
        options = options.replace(exec_path=options.words[0], words=options.words[1:])
    if options.quiet and options.verbose:
        fail("-q and -v exclude each other")
    chosen = _chosen(options)
    if len(chosen) > 1:
        fail(f"{chosen[0]} and {chosen[1]} exclude each other")
    if not chosen:
        fail("no action; give a point to probe, -a, -d, -D, -l, -L, -V or -F")
    return _ACTIONS[chosen[0]](options)


def _chosen(options: ProbeCommandOptions) -> list[str]:
    are_given = {
        "-a": bool(options.add or options.words),
        "-d": bool(options.delete),
        "-D": bool(options.definition),
        "-l": options.list_probes is not None,
        "-L": options.line is not None,
        "-V": bool(options.variables),
        "-F": options.functions is not None,
    }
    return [name for name, is_given in are_given.items() if is_given]


def _add(options: ProbeCommandOptions) -> int:
    from perfpy.cli.probe.adding import add

    texts = [*options.add, *([" ".join(options.words)] if options.words else [])]
    return add(options, texts)


def _define(options: ProbeCommandOptions) -> int:
    from perfpy.cli.probe.adding import print_definitions

    return print_definitions(options, options.definition)


def _delete(options: ProbeCommandOptions) -> int:
    from perfpy.cli.probe.existing import delete

    return delete(options.delete, dry_run=options.dry_run, quiet=options.quiet)


def _list(options: ProbeCommandOptions) -> int:
    from perfpy.cli.probe.existing import print_probes

    if options.exec_path:
        fail("-l lists the probes of all programs; drop -x")
    return print_probes(options.list_probes or ALL_PROBES, options)


def _show_lines(options: ProbeCommandOptions) -> int:
    from perfpy.cli.probe.listings import print_lines

    return print_lines(options, options.line or "")


def _show_variables(options: ProbeCommandOptions) -> int:
    from perfpy.cli.probe.listings import print_variables

    return print_variables(options, options.variables)


def _show_functions(options: ProbeCommandOptions) -> int:
    from perfpy.cli.probe.listings import print_functions

    return print_functions(options, options.functions or "")


_ACTIONS: Final[dict[str, Callable[[ProbeCommandOptions], int]]] = {
    "-a": _add,
    "-d": _delete,
    "-D": _define,
    "-l": _list,
    "-L": _show_lines,
    "-V": _show_variables,
    "-F": _show_functions,
}


command = PerfCommand(ProbeCommandOptions, run)
