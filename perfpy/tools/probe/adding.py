"""`perfpy probe -a` and `-D`: requests to definitions, and definitions to the kernel.

All definitions of a line are planned before the first one is written, and a refused one removes those before it. The messages about added
events go to stderr, as perf's.
"""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from perfpy.cli.line.examples import program
from perfpy.cli.line.option_groups import QuietOptions, VerboseOptions
from perfpy.cli.line.options import Attached, CommandOptions, Flag, Listed, Value, fail, option, parse_unsigned, words
from perfpy.cli.line.perfconfig import load_config
from perfpy.cli.output.terminal import print_notes
from perfpy.cli.temporary_probes import EndingSignals, remove_orphans
from perfpy.errors import KernelRefusedError, PerfError
from perfpy.kernel.probe_events import ProbeEvents
from perfpy.kernel.sysfs import Tracefs, mount_as_root
from perfpy.probing.definitions import parse_shown, unused_name
from perfpy.probing.grammar import parse_request
from perfpy.probing.problems import ProbeError
from perfpy.probing.program import open_program
from perfpy.probing.requests import plan
from perfpy.probing.sites import KALLSYMS, plan_kernel
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.untrusted.files import is_file, read_regular
from perfpy.untrusted.pinned_files import pin
from perfpy.untrusted.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perfpy.probing.definitions import Definition, Planned
    from perfpy.probing.program import Program
    from perfpy.symbols.files import debuginfod
    from perfpy.untrusted.pinned_files import PinnedFile


def print_definitions(options: ProbeCommandOptions, texts: Iterable[str]) -> int:
    """Print the definitions of some requests."""
    for planned in _plan_all(options, texts):
        for definition in planned.definitions:
            print(one_line(definition.text))
    return 0


def add(options: ProbeCommandOptions, texts: Iterable[str]) -> int:
    """Add probes, and print their names."""
    plans = _plan_all(options, texts)
    events = ProbeEvents(Tracefs(mount=mount_as_root))
    named_definitions = _with_names(plans, events, force=options.force)
    if not options.dry_run:
        remove_orphans(events)
        files = [planned.file for planned in plans]
        probes = [(one, file) for definitions, file in zip(named_definitions, files, strict=True) for one in definitions]
        _write_all(probes, events)
    if not options.quiet:
        _print_added(plans, named_definitions)
    return 0


def _plan_all(options: ProbeCommandOptions, texts: Iterable[str]) -> list[Planned]:
    requests = [parse_request(text) for text in texts]
    target = target_program(options)
    kallsyms = "" if target else read_kallsyms()
    plans = []
    for request in requests:
        if target is None:
            planned = plan_kernel(kallsyms, request, module=options.module, most=options.max_probes)
        else:
            planned = plan(
                target,
                request,
                inlines=not options.no_inlines,
                source=options.source,
                most=options.max_probes,
                is_kernel=is_kernel(options),
            )
        plans.append(planned)
        print_notes([f"note: {note}" for note in planned.notes], quiet=options.quiet, verbose=options.verbose)
    return plans


def _with_names(plans: list[Planned], events: ProbeEvents, *, force: bool) -> list[list[Definition]]:
    """Return the definitions with event names that no other probe has. The sites of one request share a name."""
    names_in_use = existing_names(events)
    results = []
    for planned in plans:
        chosen: dict[tuple[str, str], str] = {}
        definitions = []
        for definition in planned.definitions:
            key = definition.group, definition.event
            if key not in chosen:
                chosen[key] = unused_name(
                    definition.event, definition.group, names_in_use.setdefault(definition.group, set()), may_number=force
                )
            definitions.append(definition._replace(event=chosen[key]))
        for definition in definitions:
            names_in_use[definition.group].add(definition.event)
        results.append(definitions)
    return results


def existing_names(events: ProbeEvents) -> dict[str, set[str]]:
    """Return the names of all dynamic events by group."""
    names: dict[str, set[str]] = {}
    for kernel_side in (False, True):
        for line in events.lines(is_kernel=kernel_side):
            probe = parse_shown(line, is_kernel=kernel_side)
            if probe:
                names.setdefault(probe.group, set()).add(probe.event)
    return names


def _write_all(probes: list[tuple[Definition, PinnedFile | None]], events: ProbeEvents) -> None:
    """Write definitions, all or none: if the kernel refuses one, or a signal arrives, remove those before it."""
    written: list[tuple[str, str, bool]] = []

    def undo() -> None:
        while written:
            group, event, kernel_side = written.pop()
            with suppress(KernelRefusedError):  # an event of several definitions is removed by the first
                events.remove(group, event, is_kernel=kernel_side)

    with EndingSignals(lambda _ends: undo()) as signals:
        try:
            for definition, file in probes:
                with signals.hold():
                    events.add(definition.text, file)
                    written.append((definition.group, definition.event, definition.is_kernel))
            written.clear()
        except BaseException:
            with signals.hold():
                undo()
            raise


def _print_added(plans: list[Planned], definitions_of_plans: list[list[Definition]]) -> None:
    count = sum(len(definitions) for definitions in definitions_of_plans)
    print(f"Added new event{'s' if count > 1 else ''}:", file=sys.stderr)
    last = ""
    for planned, definitions in zip(plans, definitions_of_plans, strict=True):
        for definition in definitions:
            target = definition.target.rpartition(":")[0]
            where = f" in {target}" if target else ""
            point, *arguments = planned.described.split(" with ", 1)
            rest = f" with {arguments[0]}" if arguments else ""
            print(one_line(f"  {definition.name:<20} (on {point}{where}{rest})"), file=sys.stderr)
            last = definition.name
    print(f"\nYou can now use it in all perf tools, such as:\n\n\t{program()} record -e {last} -aR sleep 1\n", file=sys.stderr)


_KALLSYMS_MOST: Final = 256 << 20


def target_program(options: ProbeCommandOptions) -> Program | None:
    """Return the program, module file or kernel image to probe; None for the running kernel without debug information."""
    if options.exec_path:
        return _user_program(options)
    path = options.module if options.module.endswith((".ko", ".debug")) or "/" in options.module else options.vmlinux
    if not path:
        return None
    if not is_file(path):
        raise ProbeError(f"no file {path}", errno.ENOENT)
    return open_program(path, _symbol_options(options), client=_client(), demangles=options.demangle_kernel)


def is_kernel(options: ProbeCommandOptions) -> bool:
    """Whether the target is the kernel or a module."""
    return not options.exec_path


def _user_program(options: ProbeCommandOptions) -> Program:
    """Open a program. With --target-ns, its links stay in that process's root, and nothing is read that its user may not read."""
    path = options.exec_path
    where = f" in the root of process {options.target_ns}" if options.target_ns else ""
    try:
        file = pin(path, options.target_ns)
    except ProcessLookupError:
        raise PerfError(f"--target-ns {options.target_ns}: no such process") from None
    except FileNotFoundError:
        if options.target_ns and not os.path.exists(f"/proc/{options.target_ns}"):
            raise PerfError(f"--target-ns {options.target_ns}: no such process") from None
        fail(f"-x {path}: no such file{where}")
    except OSError as error:
        fail(f"-x {path}: {error.strerror}{where}")
    return open_program(file, _symbol_options(options), client=_client(), demangles=options.demangle)


def _symbol_options(options: ProbeCommandOptions) -> SymbolOptions:
    folder = "" if options.symfs else load_config().build_id_folder
    return SymbolOptions(symfs=options.symfs, buildid_dir=folder)


def _client() -> debuginfod.Client | None:
    if not os.environ.get("DEBUGINFOD_URLS"):
        return None
    from perfpy.symbols.files import debuginfod  # few users have servers

    return debuginfod.Client()


def read_kallsyms() -> str:
    """Return the running kernel's symbols. Raises ProbeError."""
    try:
        return read_regular(KALLSYMS, limit=_KALLSYMS_MOST, of_kernel=True).decode("utf-8", "surrogateescape")
    except OSError as error:
        raise ProbeError(f"cannot read {KALLSYMS}: {error.strerror}; -k names a vmlinux", errno.ENOENT) from None


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
