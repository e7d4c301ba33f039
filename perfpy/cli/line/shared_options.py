"""Options that several commands and tools share (-i, -f, -v, -q, --symfs ...), as groups that a command's options extend."""

from __future__ import annotations

import os
import sys

from perfpy.abi.flags import HOST_ONLY, Machines
from perfpy.cli.line.option_parsing import Attached, CommandOptions, Counted, Flag, Value, option, parse_unsigned, split_names
from perfpy.errors import PerfError, UsageError
from perfpy.untrusted.text import one_line

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Final, TypeVar

    from perfpy.cli.line.perfconfig import Config
    from perfpy.recording import Recording
    from perfpy.symbols.files.debug_files import Inline, SymbolOptions
    from perfpy.symbols.symbolizer import Symbolizer

    _T = TypeVar("_T")


class InputOptions(CommandOptions):
    """The recording to read ("" if not given), and whether to skip the ownership check."""

    input: str = option("-i,--input", Value(default=""), "input file (default: perf.data; -: standard input)", metavar="<file>")
    force: bool = option("-f,--force", Flag(), "skip the file ownership check")

    def prepare(self) -> None:
        """Have numpy start faster if a recording is read; a program to run would inherit its settings."""
        if self.input or not (getattr(self, "workload", ()) or getattr(self, "words", ())):
            from perfpy.cli.line.numpy_start import prepare_numpy

            prepare_numpy()


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

    @property
    def machines(self) -> Machines:
        """The machines whose samples are shown."""
        return HOST_ONLY

    def code_files(self) -> SymbolOptions:
        """Return where to look for the code that a hardware trace ran through."""
        from perfpy.symbols.files.debug_files import SymbolOptions

        return SymbolOptions(symfs=self.symfs, kallsyms=self.kallsyms, vmlinux=self.vmlinux)


class GuestFileOptions(CommandOptions):
    """The files that have the symbols of virtual machines."""

    guestmount: str = option("--guestmount", Value(default=""), "this folder has a folder PID/proc for each guest", metavar="<directory>")
    guestkallsyms: str = option("--guestkallsyms", Value(default=""), "the guest's /proc/kallsyms", metavar="<file>")
    guestmodules: str = option("--guestmodules", Value(default=""), "the guest's /proc/modules", metavar="<file>")
    guestvmlinux: str = option("--guestvmlinux", Value(default=""), "the guest kernel's file with symbols", metavar="<file>")


class HardwareTraceOptions(CommandOptions):
    """Which samples are made of a hardware trace."""

    itrace: str = option(
        "--itrace",
        Attached("", default="", negated="none"),
        "decode a hardware trace into these samples, such as i100us",
        metavar="<opts>",
    )

    @property
    def decoding(self) -> str | None:
        """The kinds of samples to make of a hardware trace, "" for the default; None to read what was recorded."""
        return None if self.itrace == "none" else self.itrace


class KernelSymbolOptions(CommandOptions):
    """Options for the sources of the kernel's symbols."""

    vmlinux: str = option("--vmlinux", Value(default=""), "read kernel symbols from this ELF file", metavar="<file>")
    kallsyms: str = option("--kallsyms", Value(default=""), "read kernel symbols from this copy of /proc/kallsyms", metavar="<file>")

    def check_symbol_files(self) -> None:
        """Raise PerfError if a file of the options is unreadable."""
        _require_readable("kallsyms", self.kallsyms)
        _require_readable("vmlinux", self.vmlinux)


class DumpOptions(CommandOptions):
    """Whether to print all records first."""

    dump_raw_trace: bool = option("-D,--dump-raw-trace", Flag(), "print every record as bytes and text first")

    def dump(self, recording: Recording) -> None:
        """Print all records of the recording if -D is given."""
        if self.dump_raw_trace:
            from perfpy.views.dump.recording import write_dump

            sys.stdout.flush()
            write_dump(recording, sys.stdout.buffer)
            sys.stdout.buffer.flush()


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


_FILE: Final = "file://"  # prefix of a path in lists of names
_LARGEST_LIST: Final = 64 << 20  # bytes of names
_WIDEST: Final = 10_000  # columns of a terminal
_UNITS: Final = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1000, "ns": 1}


def parse_names(text: str) -> tuple[str, ...] | None:
    """Convert a list of names, None if there is none; file://PATH means the lines of a file."""
    names: list[str] = []
    for name in split_names(text):
        names += _lines(name.removeprefix(_FILE)) if name.startswith(_FILE) else [name]
    return tuple(names) or None


def _lines(path: str) -> list[str]:
    from perfpy.untrusted.files import read_named  # rarely needed

    try:
        return read_named(path, limit=_LARGEST_LIST).decode("utf-8", "surrogateescape").splitlines()
    except OSError as error:
        raise ValueError(f"a file with one name per line ({path}: {error.strerror})") from None


def parse_numbers(text: str) -> tuple[int, ...] | None:
    """Convert a list of numbers, None if there is none."""
    try:
        return tuple(map(int, split_names(text))) or None
    except ValueError:
        raise ValueError("a list of numbers, for example 10,20") from None


def parse_ranges(text: str) -> tuple[int, ...] | None:
    """Convert a list of numbers such as 0-2,5; None if there is none."""
    from perfpy.abi.cpu_list import parse_cpu_list  # rarely needed

    try:
        return parse_cpu_list(text) if text else None
    except ValueError as error:
        raise ValueError(f"a list such as 0-2,5 ({error})") from None


def parse_pattern(text: str) -> str:
    """Check a regular expression."""
    import re  # rarely needed

    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"a regular expression ({error})") from None
    return text


def parse_widths(text: str) -> tuple[int, ...]:
    """Convert a list of column widths."""
    return tuple(min(width, _WIDEST) for width in parse_numbers(text) or ())


def parse_separator(text: str) -> str | None:
    """Check a separator of columns. An empty one is none, as in perf."""
    if text.startswith("."):
        raise ValueError("a separator other than a dot, which numbers contain")
    return text or None


def parse_quantum(text: str) -> int:
    """Convert a time with its unit to nanoseconds."""
    digits = text.rstrip("smun")
    if not digits.isdecimal() or text[len(digits) :] not in _UNITS:
        raise ValueError("a number with s, ms, us or ns, for example 100ms")
    return int(digits) * _UNITS[text[len(digits) :]]


def convert(option: str, text: str, parse: Callable[[str], _T]) -> _T:
    """Convert the text of an option after the command line was parsed. Raises UsageError."""
    try:
        return parse(text)
    except ValueError as error:
        raise UsageError(f"option {option} expects {error}, not '{text}'") from None


class SampleFilterOptions(CommandOptions):
    """The tasks and CPUs whose samples are included, for `perfpy.analysis.filters`."""

    comms: tuple[str, ...] | None = option("-c,--comms", Value(parse_names), "only these commands", metavar="<comm[,comm...]>")
    pids: tuple[int, ...] | None = option("--pid", Value(parse_numbers), "only these processes", metavar="<pid[,pid...]>")
    tids: tuple[int, ...] | None = option("--tid", Value(parse_numbers), "only these threads", metavar="<tid[,tid...]>")
    cpus: tuple[int, ...] | None = option("-C,--cpu", Value(parse_ranges), "only these CPUs", metavar="<cpu>")


def shown_machines(options: SymbolFileOptions, recording: Recording) -> Machines | None:
    """Return the machines whose samples are shown; None if the recording has samples of the host only."""
    return None if all(event.attr.exclude_guest for event in recording.events) else options.machines


def symbol_options_of(
    options: SymbolFileOptions,
    config: Config,
    recording: Recording,
    *,
    force: bool = False,
    ignore_vmlinux: bool = False,
    inline: Inline | None = None,
    for_people: bool = False,
) -> SymbolOptions:
    """Return where to look for symbols, and how to print them.

    inline: the callchains that get inlined calls; None: all.
    for_people: give the time of interpreters to the functions that they run by default; perf's text never does.

    Servers are queried if DEBUGINFOD_URLS is set, or perfconfig's buildid-cache.debuginfod or debuginfod.urls.
    Raises PerfError if a file given by an option is unreadable.
    """
    from perfpy.symbols.files.debug_files import GuestFiles, Inline, SymbolOptions

    _require_readable("kallsyms", options.kallsyms)
    _require_readable("vmlinux", options.vmlinux)
    urls = config.get("debuginfod.urls") or config.get("buildid-cache.debuginfod") or ""
    if urls and "DEBUGINFOD_URLS" not in os.environ:
        os.environ["DEBUGINFOD_URLS"] = urls
    return SymbolOptions(
        symfs=options.symfs,
        kallsyms=options.kallsyms,
        vmlinux=options.vmlinux,
        ignore_vmlinux=ignore_vmlinux,
        demangle=options.demangle,
        demangle_kernel=options.demangle_kernel,
        fold_interpreters=options.fold_interpreters if for_people else bool(options.fold_interpreters),
        force=force,
        buildid_dir=config.build_id_folder if not options.symfs else "",
        debuginfod=bool(os.environ.get("DEBUGINFOD_URLS")),
        os_release=recording.data.features.get("osrelease", ""),
        inline=inline or Inline.ALL,
        guests=options.fill(GuestFiles, machines=options.machines),
    )


def kernel_symbolizer(options: KernelSymbolOptions, recording: Recording, *, symfs: str = "", force: bool = False) -> Symbolizer:
    """Return the symbolizer of a recording with the kernel's symbols of the options."""
    from perfpy.cli.line.perfconfig import load_config

    files = SymbolFileOptions(symfs=symfs, kallsyms=options.kallsyms, vmlinux=options.vmlinux)
    return recording.symbolizer(symbol_options_of(files, load_config(), recording, force=force))


def inline_of(inline: bool | None, recording: Recording, *, plain: bool) -> Inline:
    """Return which callchains get inlined calls, for --inline, --no-inline or neither (None).

    plain: the output is perf's text. perf 6.12 always inlines in unwound stacks; perf 7.3 in all.
    """
    from perfpy.abi.flags import SampleType
    from perfpy.symbols.files.debug_files import Inline

    unwound = any(event.attr.sample_type & SampleType.STACK_USER for event in recording.events)
    if inline is False:
        return Inline.NONE
    if not plain:
        return Inline.ALL
    return Inline.UNWOUND_AS_PERF if unwound or inline is None else Inline.ALL_AS_PERF


def _require_readable(option: str, path: str) -> None:
    """Raise PerfError if the option's file is unreadable."""
    from perfpy.untrusted.files import is_handed

    if path and not os.access(path, os.R_OK):
        reason = "permission denied" if os.path.exists(path) else "no such file"
        raise PerfError(f"--{option} {path}: {reason}")
    if path and not os.path.isfile(path) and not is_handed(path):
        raise PerfError(f"--{option} {path}: not a regular file")


#: of code: the base of shares, and what is counted, in either order
PERCENT_TYPES: Final = (
    *("local-period", "global-period", "local-hits", "global-hits"),
    *("period-local", "period-global", "hits-local", "hits-global"),
)
# The exit status if a limit on regressions (--fail-if-slower, --fail-above) is exceeded; nothing else has it, so that scripts can tell.
EXCEEDED: Final = 90


def report_exceeded(worse: Sequence[str]) -> int:
    """Print each exceeded limit on stderr, and return the exit status: 0 if there are none."""
    for line in worse:
        print(one_line(line), file=sys.stderr)
    return EXCEEDED if worse else 0
