"""`perfpy probe`: add, list and delete dynamic probes; show lines, variables and functions to probe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.cli.line.kinds import Attached, Flag, Listed, Value, unsigned
from perfpy.cli.line.options import CommandOptions, PerfCommand, fail, option, words
from perfpy.cli.line.shared import QuietOptions, VerboseOptions

if TYPE_CHECKING:
    from collections.abc import Callable

_LACKING: Final = {
    "--bootconfig": "it formats the kernel's probes for its boot parameters",
    "--cache": "markers are read from the program itself; keep definitions in a file (-D)",
}
_MOST: Final = 128
_ALL: Final = "*"


class _Actions(CommandOptions):
    """What to do."""

    add: tuple[str, ...] = option("-a,--add", Listed(), "add a probe", metavar="<[EVENT=]POINT [ARG]...>", negatable=False)
    delete: tuple[str, ...] = option("-d,--del", Listed(), "delete probes", metavar="<[GROUP:]EVENT>", negatable=False)
    definition: tuple[str, ...] = option(
        "-D,--definition", Listed(), "print a probe's definition", metavar="<[EVENT=]POINT [ARG]...>", negatable=False
    )
    list_probes: str | None = option(
        "-l,--list", Attached(_ALL, takes_word=True), "list the probes", metavar="<[GROUP:]EVENT>", negatable=False
    )
    line: str | None = option("-L,--line", Value(), "show source lines that can be probed", metavar="<FUNC[:FIRST[-LAST]]|FILE[:...]>")
    variables: tuple[str, ...] = option("-V,--vars", Listed(), "show the variables at a point", metavar="<POINT>", negatable=False)
    functions: str | None = option("-F,--funcs", Attached("", takes_word=True), "list functions", metavar="<FILTER>", negatable=False)


class _ProbeTarget(CommandOptions):
    """What to probe."""

    exec_path: str = option("-x,--exec", Value(default=""), "the program or library to probe", metavar="<executable|path>")
    module: str = option("-m,--module", Value(default=""), "the kernel module to probe", metavar="<modname|path>")
    vmlinux: str = option("-k,--vmlinux", Value(default=""), "the kernel's ELF file with debug information", metavar="<file>")
    source: str = option("-s,--source", Value(default=""), "the folder of the sources", metavar="<directory>")
    symfs: str = option("--symfs", Value(default=""), "look for symbol files below this directory", metavar="<directory>")
    target_ns: int = option("--target-ns", Value(unsigned, default=0), "find the program in this process's container", metavar="<pid>")
    demangle: bool = option("--demangle", Flag(default=True), "demangle C++ and Rust names (default)")
    demangle_kernel: bool = option("--demangle-kernel", Flag(), "demangle kernel names, too")


class ProbeCommandOptions(_Actions, _ProbeTarget, VerboseOptions, QuietOptions, lacks=_LACKING):
    """Options of `perfpy probe`."""

    force: bool = option("-f,--force", Flag(), "add events with existing names, numbered")
    dry_run: bool = option("-n,--dry-run", Flag(), "do not add or delete, show what would be done")
    filter: str = option("--filter", Value(default=""), "patterns of names to show (with -V and -F)", metavar="<[!]FILTER>")
    max_probes: int = option("--max-probes", Value(unsigned, default=_MOST), "the largest number of sites of a probe", metavar="<n>")
    show_range: bool = option("--range", Flag(), "show where variables have values (with -V)")
    externs: bool = option("--externs", Flag(), "show global variables, too (with -V)")
    inlines: bool = option("--inlines", Flag(default=True), "probe inlined calls of functions, too (default)")
    words: tuple[str, ...] = words("[POINT [ARG]...]")


def run(options: ProbeCommandOptions) -> int:
    """Add, list and delete dynamic probes in programs and the kernel; show lines, variables and functions to probe."""
    if options.words and options.words[0].startswith("/") and not options.exec_path and not options.module:
        options = options.replaced(exec_path=options.words[0], words=options.words[1:])
    if options.quiet and options.verbose:
        fail("-q and -v exclude each other")
    chosen = _chosen(options)
    if len(chosen) > 1:
        fail(f"{chosen[0]} and {chosen[1]} exclude each other")
    if not chosen:
        fail("no action; give a point to probe, -a, -d, -D, -l, -L, -V or -F")
    return _ACTIONS[chosen[0]](options)


def _chosen(options: ProbeCommandOptions) -> list[str]:
    given = {
        "-a": bool(options.add or options.words),
        "-d": bool(options.delete),
        "-D": bool(options.definition),
        "-l": options.list_probes is not None,
        "-L": options.line is not None,
        "-V": bool(options.variables),
        "-F": options.functions is not None,
    }
    return [name for name, is_given in given.items() if is_given]


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
    return print_probes(options.list_probes or _ALL, options)


def _show_lines(options: ProbeCommandOptions) -> int:
    from perfpy.cli.probe.sources import print_lines

    return print_lines(options, options.line or "")


def _show_variables(options: ProbeCommandOptions) -> int:
    from perfpy.cli.probe.sources import print_variables

    return print_variables(options, options.variables)


def _show_functions(options: ProbeCommandOptions) -> int:
    from perfpy.cli.probe.sources import print_functions

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
