"""What `perfpy annotate` takes: perf annotate's options, by topic."""

from __future__ import annotations

from typing import Final

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
    """How code is read and shown."""

    source: bool = option("--source", Flag(default=True), "lines of source code among the instructions (default)")
    asm_raw: bool = option("--asm-raw", Flag(), "the bytes of each instruction, too")
    disassembler_style: str = option(
        "-M,--disassembler-style", Value(default=""), "how instructions are written, such as intel", metavar="<style>"
    )
    print_line: bool = option("-l,--print-line", Flag(), "file and line of the instructions that matter, and a table of them")
    full_paths: bool = option("-P,--full-paths", Flag(), "name files with their folders")
    objdump: str = option("--objdump", Value(default=""), "the objdump to run", metavar="<path>")
    prefix: str = option("--prefix", Value(default=""), "put this before the paths of source files", metavar="<prefix>")
    prefix_strip: str = option("--prefix-strip", Value(default=""), "leave out so many of their folders", metavar="<n>")


class AnnotateFilterOptions(CommandOptions):
    """Which samples and functions count."""

    symbol: str = option("-s,--symbol", Value(default=""), "only this function", metavar="<symbol>")
    dsos: str = option("-d,--dsos", Value(default=""), "only these shared objects", metavar="<dso[,dso...]>")
    cpu: str = option("-C,--cpu", Value(default=""), "only these CPUs", metavar="<cpu>")
    percent_limit: float | None = option("--percent-limit", Value(float), "leave out functions below it", metavar="<percent>")
    skip_missing: bool = option("--skip-missing", Flag(), "say nothing of functions whose code is not here")
    group: bool | None = option("--group", Flag(default=None), "events of a group side by side (default)")
    skip_empty: bool = option("--skip-empty", Flag(), "leave out the columns of events without samples")


class AnnotateColumnOptions(CommandOptions):
    """What stands in front of instructions, and in which form all is shown."""

    show_nr_samples: bool = option("-n,--show-nr-samples", Flag(), "numbers of samples in place of shares")
    show_total_period: bool = option("--show-total-period", Flag(), "sums of periods in place of shares")
    percent_type: str = option(
        "--percent-type",
        Value(Choice("local-period", "global-period", "local-hits", "global-hits"), default="local-period"),
        "shares of the function or (global) of the event, by period or by number",
        metavar="<type>",
    )
    stdio_color: str = option(
        "--stdio-color",
        Attached("always", Choice("always", "never", "auto"), default="auto", takes_word=True),
        "colours in plain text: always, never or auto",
        metavar="<mode>",
    )
    by_line: bool = option("--by-line", Flag(), "lines of source files, with what they and the calls inlined there have")
    dump_raw_trace: bool = option("-D,--dump-raw-trace", Flag(), "print every record as bytes and as text")


class AnnotateModuleOptions(CommandOptions):
    """Which of the kernel's files have its symbols."""

    modules: bool = option("-m,--modules", Flag(), "load symbols of modules (they are, always)")
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
    """What the command takes."""

    word: str | None = word("[<symbol>]")

    @property
    def function(self) -> str:
        """The one function that is wanted, "" for all."""
        return self.symbol or self.word or ""

    @property
    def shown(self) -> str:
        """What stands in front of instructions."""
        return "period" if self.show_total_period else "samples" if self.show_nr_samples else "percent"
