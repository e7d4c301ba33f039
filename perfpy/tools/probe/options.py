"""The options of `perfpy probe`."""

from __future__ import annotations

from typing import Final

from perfpy.cli.line.option_parsing import Attached, CommandOptions, Flag, Listed, Value, option, parse_unsigned, words
from perfpy.cli.line.shared_options import QuietOptions, VerboseOptions

_LACKING: Final = {
    "--bootconfig": "it formats the kernel's probes for its boot parameters",
    "--cache": "markers are read from the program itself; keep definitions in a file (-D)",
}
_MOST: Final = 128
ALL_PROBES: Final = "*"


class _Actions(CommandOptions):
    """What to do."""

    add: tuple[str, ...] = option("-a,--add", Listed(), "add a probe", metavar="<[EVENT=]POINT [ARG]...>", negatable=False)
    delete: tuple[str, ...] = option("-d,--del", Listed(), "delete probes", metavar="<[GROUP:]EVENT>", negatable=False)
    definition: tuple[str, ...] = option(
        "-D,--definition", Listed(), "print a probe's definition", metavar="<[EVENT=]POINT [ARG]...>", negatable=False
    )
    list_probes: str | None = option(
        "-l,--list", Attached(ALL_PROBES, takes_word=True), "list the probes", metavar="<[GROUP:]EVENT>", negatable=False
    )
    line: str | None = option("-L,--line", Value(), "show source lines that can be probed", metavar="<FUNC[:FIRST[-LAST]]|FILE[:...]>")
    variables: tuple[str, ...] = option("-V,--vars", Listed(), "show the variables at a point", metavar="<POINT>", negatable=False)
    functions: str | None = option("-F,--funcs", Attached("", takes_word=True), "list functions", metavar="<FILTER>", negatable=False)


class _ProbeTarget(CommandOptions):
    """Options for the program or kernel to probe."""

    exec_path: str = option("-x,--exec", Value(default=""), "the program or library to probe", metavar="<executable|path>")
    module: str = option("-m,--module", Value(default=""), "the kernel module to probe", metavar="<modname|path>")
    vmlinux: str = option("-k,--vmlinux", Value(default=""), "the kernel's ELF file with debug information", metavar="<file>")
    source: str = option("-s,--source", Value(default=""), "the folder of the sources", metavar="<directory>")
    symfs: str = option("--symfs", Value(default=""), "look for symbol files below this directory", metavar="<directory>")
    target_ns: int = option(
        "--target-ns", Value(parse_unsigned, default=0), "find the program in this process's container", metavar="<pid>"
    )
    demangle: bool = option("--demangle", Flag(default=True), "demangle C++ and Rust names (default)")
    demangle_kernel: bool = option("--demangle-kernel", Flag(), "demangle kernel names, too")


class ProbeCommandOptions(_Actions, _ProbeTarget, VerboseOptions, QuietOptions, lacks=_LACKING):
    """Options of `perfpy probe`."""

    force: bool = option("-f,--force", Flag(), "add events with existing names, numbered")
    dry_run: bool = option("-n,--dry-run", Flag(), "do not add or delete, show what would be done")
    filter: str = option("--filter", Value(default=""), "patterns of names to show (with -V and -F)", metavar="<[!]FILTER>")
    max_probes: int = option("--max-probes", Value(parse_unsigned, default=_MOST), "the largest number of sites of a probe", metavar="<n>")
    show_range: bool = option("--range", Flag(), "show where variables have values (with -V)")
    externs: bool = option("--externs", Flag(), "show global variables, too (with -V)")
    no_inlines: bool = option("--no-inlines", Flag(), "ignore inlined calls of functions")
    words: tuple[str, ...] = words("[POINT [ARG]...]")
