"""`perfpy probe -a` and `-D`: requests to definitions, and definitions to the kernel.

All definitions of a line are planned before the first one is written, and a refused one removes those before it. The messages about added
events go to stderr, as perf's.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from perfpy.cli.line.program_name import program
from perfpy.cli.output.notes import print_notes
from perfpy.cli.probe.ending_signals import EndingSignals
from perfpy.cli.probe.targets import is_kernel, read_kallsyms, target_program
from perfpy.cli.probe.temporary_probes import remove_orphans
from perfpy.errors import KernelRefusedError
from perfpy.kernel.probe_events import ProbeEvents
from perfpy.kernel.tracefs import Tracefs, mount_as_root
from perfpy.probing.definitions import parse_shown
from perfpy.probing.grammar.points import parse_request
from perfpy.probing.naming import unused_name
from perfpy.probing.requests import plan
from perfpy.probing.sites.kernel_points import plan_kernel
from perfpy.untrusted.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perfpy.cli.probe.options import ProbeCommandOptions
    from perfpy.probing.definitions import Definition
    from perfpy.probing.plans import Planned
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
