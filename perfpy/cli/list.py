"""`perfpy list`: list the events of this machine, as perf's text or JSON, as names, or as tables on a terminal."""

from __future__ import annotations

import io
import os
import sys

from perfpy.cli.line.option_parsing import CommandOptions, Flag, PerfCommand, StdioOptions, Value, option, words
from perfpy.errors import PerfError, plural

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from typing import Final, TextIO

    from perfpy.events.listing import EventInfo, ListFilter, Selector
    from perfpy.events.machine import Machine
    from perfpy.views.list_text import ListView

_BRANCHES: Final = "note: {}: a raw event with bit 63 (r80000000000NNNNN) makes event-based branches (EBB): Counter.open(..., ebb=True)"
_COLUMNS_DIGITS = 6
_DEFAULT_WIDTH = 78  # perf's, if COLUMNS is not set


class _EventListOptions(CommandOptions):
    """Which events to list, and their details."""

    descriptions: bool = option("-d,--desc", Flag(default=True), "print event descriptions (default)")
    as_json: bool = option("-j,--json", Flag(), "print JSON")
    output: str = option("-o,--output", Value(default=""), "write to this file", metavar="<file>")
    long_descriptions: bool = option("-v,--long-desc", Flag(), "print longer event descriptions")
    details: bool = option("--details", Flag(), "print event encodings and metric expressions")
    deprecated: bool = option("--deprecated", Flag(), "print deprecated events, too")
    unit: str = option("--unit", Value(default=""), "only events of PMUs with this name or pattern", metavar="<PMU>")
    cputype: str = option("--cputype", Value(default=""), "only events of this kind of CPU", metavar="<PMU>")
    raw_dump: bool = option("--raw-dump", Flag(), "print the names only, in one row", hidden=True)
    check: bool = option("--check", Flag(), "try to open each event, print the reason for failures")
    event_files: str = option("--event-files", Value(default=""), "also take named events from these JSON files", metavar="<folder>")
    update_events: str = option(
        "--update-events", Value(default=""), "install this CPU's events from its vendor's files", metavar="<folder or address>"
    )
    debug: bool = option("--debug", Flag(), "show where perfpy looked for events")


class ListCommandOptions(_EventListOptions, StdioOptions):
    """Options of `perfpy list`."""

    words: tuple[str, ...] = words()


def run(options: ListCommandOptions) -> int:
    """List the events of this machine: [hw|sw|cache|tracepoint|pmu|sdt|metric|metricgroup|TEXT]..."""
    from perfpy.events.machine import this_machine

    if options.update_events:
        return _update(options.update_events)
    machine = this_machine(options.event_files)
    if options.cputype:
        pmu = machine.sysfs.pmu(options.cputype) or machine.sysfs.pmu(f"cpu_{options.cputype}")
        if not pmu:
            raise PerfError(f"--cputype {options.cputype}: no such type of CPU on this machine")
        options = options.replace(unit=pmu.name)
    if options.debug:
        _print_sources(machine)
    if not options.output:
        _list(machine, sys.stdout, options)
        return 0
    from perfpy.cli.output.output_files import text_of, whole_file

    with whole_file(options.output) as unfinished, text_of(unfinished) as file:
        _list(machine, file, options)
    return 0


def _update(source: str) -> int:
    from perfpy.events.machine import this_identity
    from perfpy.events.vendor import update

    path, events, metrics = update(this_identity(), source)
    print(f"installed {events} {plural(events, 'event')} and {metrics} {plural(metrics, 'metric')} of {this_identity()} in {path}")
    return 0


def _list(machine: Machine, file: TextIO, options: ListCommandOptions) -> None:
    from perfpy.cli.output.terminal import wants_plain
    from perfpy.events.listing import Selector, default_cache_folder
    from perfpy.kernel import this_kernel as kernel

    plain = options.as_json or options.raw_dump or file is not sys.stdout or wants_plain(stdio=options.stdio)
    as_tables = options.check or not plain
    is_long = options.long_descriptions and not as_tables
    selector = Selector(
        machine,
        default_cache_folder(),
        unsupported=as_tables,
        described=options.descriptions and not options.raw_dump,
        every_pmu=is_long or options.as_json,
        kernel=kernel() if is_long else None,
    )
    selections = [_select(selector, word, as_tables) for word in options.words] if options.words else [selector.everything()]
    if as_tables and not options.check:
        selections += [_related(selector, word, selections) for word in options.words]
    if as_tables:
        _show_tables(selections, machine, file, options)
    else:
        _show_text(selections, file, options)
    if os.uname().machine.startswith("ppc") and machine.has_ebb:
        from perfpy.cli.output.terminal import print_notes

        print_notes([_BRANCHES.format(" ".join(pmu.name for pmu in machine.core_pmus))], verbose=options.long_descriptions)
    if selector.refusals:
        print(f"perfpy list: tracepoints are not listed: {selector.refusals[0]}", file=sys.stderr)


def _select(selector: Selector, word: str, as_tables: bool) -> ListFilter:
    """Return the events for a word. If no event has this name, name similar events on stderr, or return them for tables: as text, perf
    prints none.
    """
    from perfpy.events.listing import ListFilter, forgiving, is_section

    selection = selector.select(word)
    if is_section(word) or list(selection.infos) or selection.metrics:
        return selection
    similar = forgiving(word, selector.everything().infos)
    if not similar:
        print(f"no event is named '{word}'{_near_names(word, selector)}", file=sys.stderr)
        return selection
    names = "" if as_tables else f" {', '.join(info.name for info in similar)}"
    print(f"no event is named '{word}'; similar events:{names}", file=sys.stderr)
    return ListFilter(similar, []) if as_tables else selection


def _related(selector: Selector, word: str, selections: list[ListFilter]) -> ListFilter:
    """Return other events whose names or descriptions have the words: `cache-miss` means more than cache-misses."""
    from perfpy.events.listing import ListFilter, forgiving, is_section

    if is_section(word) or ":" in word or not set(word).isdisjoint("*?["):
        return ListFilter((), [])
    known = {info.name for selection in selections for info in selection.infos}
    candidates = [info for info in selector.select("pmu").infos if info.name not in known]
    return ListFilter(forgiving(word, candidates), [])


def _near_names(word: str, selector: Selector) -> str:
    """Return a hint with sections and events similar to a word."""
    from perfpy.events.listing import section_names
    from perfpy.events.machine import nearest

    similar = nearest(word, [*section_names(), *(info.name for info in selector.everything().infos)])
    return f"; did you mean {', '.join(similar)}?" if similar else "; perfpy list shows all events"


def _show_text(selections: list[ListFilter], file: TextIO, options: ListCommandOptions) -> None:
    text = io.StringIO()  # One write for thousands of lines, whatever the buffering.
    view = _view(text, options)
    for selection in selections:
        for info in selection.infos:
            if _is_wanted(info, options):
                view.info(info)
        view.metrics(selection.metrics, selection.show)
    view.close()
    file.write(text.getvalue())


def _show_tables(selections: list[ListFilter], machine: Machine, file: TextIO, options: ListCommandOptions) -> None:
    from perfpy.cli.output.terminal import console
    from perfpy.events.listing import Checker, known_reason
    from perfpy.kernel import this_kernel as kernel
    from perfpy.views.list_tables import print_tables

    checker = Checker(machine, kernel()) if options.check else None
    infos = [info for selection in selections for info in selection.infos if _is_wanted(info, options)]
    rows = [(info, checker.check(info) if checker else known_reason(info, machine)) for info in infos]
    metrics = [metric for selection in selections for metric in selection.metrics]
    print_tables(rows, metrics, console(file), checked=options.check)


def _is_wanted(info: EventInfo, options: ListCommandOptions) -> bool:
    if info.deprecated and not options.deprecated and not options.as_json:
        return False
    if options.unit and info.pmu:
        from fnmatch import fnmatchcase

        return fnmatchcase(info.pmu, options.unit)
    return True


def _view(file: TextIO, options: ListCommandOptions) -> ListView:
    from perfpy.views.list_text import JsonList, NameList, TextList

    if options.as_json:
        return JsonList(file)
    if options.raw_dump:
        return NameList(file)
    columns = os.environ.get("COLUMNS", "")
    return TextList(
        file,
        int(columns) if columns.isdecimal() and len(columns) < _COLUMNS_DIGITS else _DEFAULT_WIDTH,
        descriptions=options.descriptions,
        long_descriptions=options.long_descriptions,
        encodings=options.details,
        group_text=_group_text,
    )


def _group_text(group: str) -> str:
    from perfpy.events.descriptions import group_text  # only lists with metrics need it

    return group_text(group)


def _print_sources(machine: Machine) -> None:
    files = ", ".join(source.folder for source in machine.named_events) or "none"
    sources = f"PMUs: {machine.sysfs.root}; tracepoints: {' or '.join(machine.tracefs.mount_points)}; event files: {files}"
    print(sources, file=sys.stderr)


command = PerfCommand(ListCommandOptions, run)
