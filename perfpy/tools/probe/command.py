"""`perfpy probe`: add, list and delete dynamic probes; show lines, variables and functions to probe."""

from __future__ import annotations

import errno
import os
import sys
from functools import cache
from typing import TYPE_CHECKING, Final

from perfpy.cli.line.options import PerfCommand, fail
from perfpy.errors import PerfError
from perfpy.kernel.probe_events import ProbeEvents
from perfpy.kernel.sysfs import Tracefs, mount_as_root
from perfpy.probing.grammar import glob_test
from perfpy.tools.probe.adding import ProbeCommandOptions, add, print_definitions
from perfpy.untrusted.files import is_file
from perfpy.untrusted.text import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from perfpy.probing.definitions import ShownProbe
    from perfpy.probing.program import Program


def run(options: ProbeCommandOptions) -> int:
    """Add, list and delete dynamic probes in programs and the kernel; show lines, variables and functions to probe."""
    if options.words and options.words[0].startswith("/") and not options.exec_path and not options.module:
        options = options.replace(exec_path=options.words[0], words=options.words[1:])
    if options.quiet and options.verbose:
        fail("-q and -v exclude each other")
    are_given = {
        "-a": bool(options.add or options.words),
        "-d": bool(options.delete),
        "-D": bool(options.definition),
        "-l": options.list_probes is not None,
        "-L": options.line is not None,
        "-V": bool(options.variables),
        "-F": options.functions is not None,
    }
    chosen = [name for name, is_given in are_given.items() if is_given]
    if len(chosen) > 1:
        fail(f"{chosen[0]} and {chosen[1]} exclude each other")
    if not chosen:
        fail("no action; give a point to probe, -a, -d, -D, -l, -L, -V or -F")
    return _ACTIONS[chosen[0]](options)


def _list(options: ProbeCommandOptions) -> int:
    from perfpy.tools.probe.adding import ALL_PROBES

    if options.exec_path:
        fail("-l lists the probes of all programs; drop -x")
    return print_probes(options.list_probes or ALL_PROBES, options)


def _show(options: ProbeCommandOptions) -> int:
    from perfpy.tools.probe.listings import print_functions, print_lines, print_variables

    if options.line is not None:
        return print_lines(options, options.line)
    return print_variables(options, options.variables) if options.variables else print_functions(options, options.functions or "")


_ACTIONS: Final[dict[str, Callable[[ProbeCommandOptions], int]]] = {
    "-a": lambda options: add(options, [*options.add, *([" ".join(options.words)] if options.words else [])]),
    "-d": lambda options: delete(options.delete, dry_run=options.dry_run, quiet=options.quiet),
    "-D": lambda options: print_definitions(options, options.definition),
    "-l": _list,
    **dict.fromkeys(("-L", "-V", "-F"), _show),
}


command = PerfCommand(ProbeCommandOptions, run)


def print_probes(pattern: str, options: ProbeCommandOptions) -> int:
    """Print the probes whose name fits a pattern, with the point of each."""
    events = ProbeEvents(Tracefs(mount=mount_as_root))
    test = _name_test(pattern)
    programs = cache(lambda path: _program(path, options))
    probes = [probe for probe in _probes(events) if test(probe.group, probe.event)]
    lines = [(f"{probe.group}:{probe.event}", _describe(probe, programs)) for probe in probes]
    for name, text in sorted(lines, key=lambda line: line[0]):
        print(one_line(f"  {name:<20} (on {text})"))
    return 0


def _probes(events: ProbeEvents) -> list[ShownProbe]:
    from perfpy.probing.definitions import parse_shown

    shown_probes = [
        parse_shown(line, is_kernel=kernel_side) for kernel_side in (True, False) for line in events.lines(is_kernel=kernel_side)
    ]
    return [probe for probe in shown_probes if probe is not None]


def _describe(probe: ShownProbe, programs: Callable[[str], Program | None]) -> str:
    from perfpy.probing.sites import site_text

    if probe.symbol:
        text = probe.symbol.removesuffix("+0")
        return text + ("%return" if probe.is_return else "") + _with(probe)
    program = programs(probe.path)
    point = f"{probe.offset:#x}{'%return' if probe.is_return else ''}"
    if program is not None:
        point = site_text(program, program.address(probe.offset), is_return=probe.is_return) or point
    return f"{point} in {probe.path}{_with(probe)}"


def _with(probe: ShownProbe) -> str:
    return f" with {' '.join(probe.arguments)}" if probe.arguments else ""


def _program(path: str, options: ProbeCommandOptions) -> Program | None:
    """Return a probed program; None if it is missing or damaged."""
    from perfpy.probing.program import open_program
    from perfpy.symbols.files.debug_files import SymbolOptions

    if not os.path.isabs(path) or path.startswith("/proc/") or not is_file(path):
        return None
    try:
        return open_program(path, SymbolOptions(symfs=options.symfs))
    except (OSError, PerfError):
        return None


def _name_test(pattern: str) -> Callable[[str, str], bool]:
    """Return a test for a group and an event. A pattern without a group fits all groups."""
    group, colon, event = pattern.partition(":")
    group_fits, event_fits = glob_test(group if colon else "*"), glob_test(event if colon else group)
    return lambda one, other: group_fits(one) and event_fits(other)


def delete(patterns: Iterable[str], *, dry_run: bool, quiet: bool) -> int:
    """Delete the probes whose names fit. Raises ProbeError for a pattern that fits none, after the others are deleted."""
    from perfpy.probing.problems import ProbeError, nearest
    from perfpy.tools.probe.adding import existing_names

    events = ProbeEvents(Tracefs(mount=mount_as_root))
    missing = ""
    for pattern in patterns:
        test = _name_test(pattern)
        kernel_side = {(probe.group, probe.event): bool(probe.symbol) for probe in _probes(events)}
        names = [name for name in sorted(kernel_side) if test(*name)]
        if not names:
            missing = missing or pattern
        for group, event in names:
            if not dry_run:
                events.remove(group, event, is_kernel=kernel_side[group, event])
            if not quiet:
                print(one_line(f"Removed event: {group}:{event}"), file=sys.stderr)
    if missing:
        event_names = [f"{group}:{event}" for group, names in existing_names(events).items() for event in names]
        similar = nearest(missing, [*event_names, *(name.partition(":")[2] for name in event_names)])
        hint = f"did you mean {' or '.join(map(repr, similar))}?" if similar else "-l lists the probes"
        raise ProbeError(f"no probe is named '{missing}'; {hint}", errno.ENOENT)
    return 0
