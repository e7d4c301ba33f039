"""Groups of options that several commands have; see `perfpy.cli.line.options`."""

from __future__ import annotations

from perfpy.cli.line.kinds import Counted, Flag, Value, parse_unsigned
from perfpy.cli.line.options import CommandOptions, option
from perfpy.errors import UsageError


class InputOptions(CommandOptions):
    """The recording to read ("" if not given), and whether to skip the ownership check."""

    input: str = option("-i,--input", Value(default=""), "input file (default: perf.data; -: standard input)", metavar="<file>")
    force: bool = option("-f,--force", Flag(), "skip the file ownership check")


class SymbolFileOptions(CommandOptions):
    """Options for the sources of symbols and the form of their names."""

    symfs: str = option("--symfs", Value(default=""), "look for symbol files below this directory", metavar="<directory>")
    kallsyms: str = option("--kallsyms", Value(default=""), "read kernel symbols from this copy of /proc/kallsyms", metavar="<file>")
    vmlinux: str = option("-k,--vmlinux", Value(default=""), "read kernel symbols from this ELF file", metavar="<file>")
    demangle: bool = option("--demangle", Flag(default=True), "demangle C++ and Rust names (default)")
    demangle_kernel: bool = option("--demangle-kernel", Flag(), "demangle kernel names, too")
    fold_interpreters: bool | None = option(
        "--fold-interpreters", Flag(default=None), "give an interpreter's time to the functions it runs"
    )


class HeaderOptions(CommandOptions):
    """Whether to show the recording's header."""

    header: bool = option("--header", Flag(), "show the file's header, too")
    header_only: bool = option("--header-only", Flag(), "show only the file's header")


class VerboseOptions(CommandOptions):
    """Options for the amount of detail."""

    verbose: int = option("-v,--verbose", Counted(), "print more details; repeatable")


class QuietOptions(CommandOptions):
    """Whether to print warnings."""

    quiet: bool = option("-q,--quiet", Flag(), "print no warnings or messages")


class JobOptions(CommandOptions):
    """The number of processes."""

    jobs: int = option(
        "--jobs", Value(parse_unsigned, default=0), "read large files with at most n processes (default: CPUs)", metavar="<n>"
    )


class StdioOptions(CommandOptions):
    """Whether to print perf's text on a terminal; see `perfpy.cli.output.terminal`."""

    stdio: bool = option("--stdio", Flag(), "print perf's plain text, also on a terminal")


def names_probe(text: str) -> bool:
    """Whether an -e text is a probe to add for the measurement: uprobe:./app:parse or ./app:parse%return."""
    prefix, colon, rest = text.partition(":")
    if colon and prefix in ("uprobe", "probe"):
        path, colon, point = rest.partition(":")
        return bool(path and point) and (prefix == "uprobe" or "/" in path)
    return bool(rest) and prefix.startswith(("./", "../", "/")) and not rest.startswith("/")


def events_with_filters(options: CommandOptions) -> tuple[list[str], list[tuple[int, str]]]:
    """Return the -e texts, and each --filter with the number of -e options before it."""
    events: list[str] = []
    filters: list[tuple[int, str]] = []
    for occurrence in options.in_order("event", "filter"):
        if occurrence.name == "event":
            events.append(occurrence.value)
        elif not events:
            raise UsageError(f"--filter {occurrence.value}: no event before it; put -e with a tracepoint first")
        else:
            filters.append((len(events), occurrence.value))
    return events, filters
