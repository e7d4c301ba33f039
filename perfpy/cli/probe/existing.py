"""`perfpy probe -l` and `-d`: the probes that the kernel has."""

from __future__ import annotations

import errno
import os
import sys
from functools import cache
from typing import TYPE_CHECKING

from perfpy.cli.probe.adding import existing_names
from perfpy.errors import PerfError
from perfpy.kernel.probe_events import ProbeEvents
from perfpy.kernel.tracefs import Tracefs, mount_as_root
from perfpy.probing.definitions import parse_shown
from perfpy.probing.grammar.name_filters import glob_test
from perfpy.probing.neighbours import nearest
from perfpy.probing.problems import ProbeError
from perfpy.probing.sites.site_names import site_text
from perfpy.untrusted.files import is_file
from perfpy.untrusted.text import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from perfpy.cli.probe.options import ProbeCommandOptions
    from perfpy.probing.definitions import ShownProbe
    from perfpy.probing.sites.program import Program


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
    shown_probes = [
        parse_shown(line, is_kernel=kernel_side) for kernel_side in (True, False) for line in events.lines(is_kernel=kernel_side)
    ]
    return [probe for probe in shown_probes if probe is not None]


def _describe(probe: ShownProbe, programs: Callable[[str], Program | None]) -> str:
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
    from perfpy.probing.sites.program import open_program
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
