"""Options of `perfpy annotate`: perf annotate's, by topic."""

from __future__ import annotations

from typing import Final

from perfpy.cli.line.filters import parse_names, parse_ranges
from perfpy.cli.line.kinds import Attached, Choice, Flag, Value
from perfpy.cli.line.options import CommandOptions, option, word
from perfpy.cli.line.shared import InputOptions, QuietOptions, StdioOptions, SymbolFileOptions, VerboseOptions

_TYPES: Final = "it needs the types of what instructions read and write"
_LACKING: Final = {
    "--data-type": _TYPES,
    "--type-stat": _TYPES,
    "--insn-stat": _TYPES,
    "--code-with-type": _TYPES,
    "--itrace": "it needs decoders of hardware traces",
    "--stdio2": "--stdio has the same instructions, with their addresses",
    "--tui": "perfpy report --tui opens the code of a function with Enter, or a",
    "--gtk": "it needs GTK",
}


class AnnotateCodeOptions(CommandOptions):
    """Options for reading and showing code."""

    source: bool = option("--source", Flag(default=True), "show source lines among the instructions (default)")
    asm_raw: bool = option("--asm-raw", Flag(), "show the bytes of each instruction")
    disassembler_style: str = option(
        "-M,--disassembler-style", Value(default=""), "set the disassembler style, such as intel", metavar="<style>"
    )
    print_line: bool = option("-l,--print-line", Flag(), "print source lines of hot instructions, and a summary")
    full_paths: bool = option("-P,--full-paths", Flag(), "show full paths of files")
    objdump: str = option("--objdump", Value(default=""), "run this objdump", metavar="<path>")
    prefix: str = option("--prefix", Value(default=""), "add this prefix to the paths of source files", metavar="<prefix>")
    prefix_strip: str = option("--prefix-strip", Value(default=""), "strip n leading folders from the paths of source files", metavar="<n>")


class AnnotateFilterOptions(CommandOptions):
    """Which samples and functions are included."""

    symbol: str = option("-s,--symbol", Value(default=""), "only this function", metavar="<symbol>")
    dsos: tuple[str, ...] | None = option("-d,--dsos", Value(parse_names), "only these shared objects", metavar="<dso[,dso...]>")
    cpus: tuple[int, ...] | None = option("-C,--cpu", Value(parse_ranges), "only these CPUs", metavar="<cpu>")
    percent_limit: float | None = option("--percent-limit", Value(float), "hide functions below this share", metavar="<percent>")
    skip_missing: bool = option("--skip-missing", Flag(), "skip functions whose code is missing")
    group: bool | None = option("--group", Flag(default=None), "show the events of a group side by side (default)")
    skip_empty: bool = option("--skip-empty", Flag(), "hide columns of events without samples")


class AnnotateColumnOptions(CommandOptions):
    """The columns before instructions, and the output's format."""

    show_nr_samples: bool = option("-n,--show-nr-samples", Flag(), "show numbers of samples instead of shares")
    show_total_period: bool = option("--show-total-period", Flag(), "show sums of periods instead of shares")
    percent_type: str = option(
        "--percent-type",
        Value(Choice("local-period", "global-period", "local-hits", "global-hits"), default="local-period"),
        "shares of the function or (global) of the event",
        metavar="<type>",
    )
    stdio_color: str = option(
        "--stdio-color",
        Attached("always", Choice("always", "never", "auto"), default="auto", takes_word=True),
        "colour plain text: always, never or auto",
        metavar="<mode>",
    )
    by_line: bool = option("--by-line", Flag(), "show source files by line, inlined calls included")
    dump_raw_trace: bool = option("-D,--dump-raw-trace", Flag(), "print every record as bytes and text")


class AnnotateModuleOptions(CommandOptions):
    """Which kernel files provide symbols."""

    modules: bool = option("-m,--modules", Flag(), "ignored: symbols of modules are always loaded")
    ignore_vmlinux: bool = option("--ignore-vmlinux", Flag(), "do not look for a vmlinux")
    addr2line: str = option("--addr2line", Value(default=""), "taken as perf takes it: lines are read without a program", hidden=True)


class AnnotateCommandOptions(
    InputOptions,
    AnnotateFilterOptions,
    AnnotateCodeOptions,
    AnnotateColumnOptions,
    StdioOptions,
    SymbolFileOptions,
    AnnotateModuleOptions,
    VerboseOptions,
    QuietOptions,
    lacks=_LACKING,
):
    """Options of `perfpy annotate`."""

    word: str | None = word("[<symbol>]")

    @property
    def function(self) -> str:
        """The only function to show, "" for all."""
        return self.symbol or self.word or ""

    @property
    def unit(self) -> str:
        """The unit before instructions: "percent", "samples" or "period"."""
        return "period" if self.show_total_period else "samples" if self.show_nr_samples else "percent"
