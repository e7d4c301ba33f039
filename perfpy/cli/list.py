"""`perfpy list`: the events of this machine.

What enters: words (sections, patterns, or anything to search for) and
options, see perf-list(1). What leaves: perf's own text, its JSON, a row of
names, or tables for a person at a terminal.
"""

from __future__ import annotations

import io
import os
import sys

from perfpy.cli.line.decorators import argument, option, perf_command, stdio_option

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from typing import Any, TextIO

    from perfpy.events.inventory import Offer
    from perfpy.events.list_filter import ListFilter, Selector
    from perfpy.events.machine import Machine
    from perfpy.views.list.text import ListView

_DEFAULT_WIDTH = 78  # perf's, when COLUMNS is not set


@perf_command()
@option("-d", "--desc", "descriptions", is_flag=True, default=True, help="print extra event descriptions (default)")
@option("-j", "--json", "as_json", is_flag=True, help="JSON encode events and metrics")
@option("-o", "--output", metavar="<file>", default="", help="output file name")
@option("-v", "--long-desc", "long_descriptions", is_flag=True, help="print longer event descriptions")
@option("--details", is_flag=True, help="print how events are encoded, and the expressions of metrics")
@option("--deprecated", is_flag=True, help="print deprecated events, too")
@option("--unit", "--cputype", "unit", metavar="<PMU>", default="", help="limit PMU events to the PMUs of this name or pattern")
@option("--raw-dump", is_flag=True, hidden=True, help="print the names only, in one row")
@option("--check", is_flag=True, help="try to open each event, and say why not")
@option("--event-files", metavar="<folder>", default="", help="take named events from these JSON files, too")
@option("--debug", is_flag=True, help="say where events were looked for")
@stdio_option
@argument("words", nargs=-1)
def command(words: tuple[str, ...], event_files: str, output: str, debug: bool, **options: Any) -> int:
    """List the events of this machine: [hw|sw|cache|tracepoint|pmu|sdt|metric|metricgroup|TEXT]..."""
    from perfpy.events.machine import this_machine

    machine = this_machine(event_files)
    if debug:
        _say_where(machine)
    if not output:
        _list(words, machine, sys.stdout, options)
        return 0
    from perfpy.cli.line.output_files import whole_file
    from perfpy.errors import OutputFailed

    try:
        with whole_file(output) as place, open(place, "w", encoding="utf-8", errors="surrogateescape") as file:
            _list(words, machine, file, options)
    except OSError as error:
        raise OutputFailed(output, error.strerror or str(error)) from None
    return 0


def _list(words: tuple[str, ...], machine: Machine, file: TextIO, options: dict[str, Any]) -> None:
    from perfpy.cli.line.terminal import wants_plain
    from perfpy.events.list_filter import Selector, default_cache_folder

    plain = options["as_json"] or options["raw_dump"] or file is not sys.stdout or wants_plain(stdio=options["stdio"])
    as_tables = options["check"] or not plain
    selector = Selector(machine, default_cache_folder(), unsupported=as_tables)
    selections = [_select(selector, word) for word in words] if words else [selector.everything()]
    if as_tables:
        _show_tables(selections, machine, file, options)
    else:
        _show_text(selections, file, options)
    if selector.refusals:
        print(f"perfpy list: tracepoints are left out: {selector.refusals[0]}", file=sys.stderr)


def _select(selector: Selector, word: str) -> ListFilter:
    """What a word asks for; what it may mean when nothing is called so."""
    from perfpy.events.list_filter import ListFilter, forgiving, is_section

    chosen = selector.select(word)
    if is_section(word) or list(chosen.offers) or chosen.metrics:
        return chosen
    near = forgiving(word, selector.everything().offers)
    if near:
        print(f"no event is called '{word}'; near it:", file=sys.stderr)
    return ListFilter(near, chosen.metrics, chosen.show)


def _show_text(selections: list[ListFilter], file: TextIO, options: dict[str, Any]) -> None:
    text = io.StringIO()  # thousands of lines go out in one piece, whatever the buffering
    view = _view(text, options)
    for selection in selections:
        for offer in selection.offers:
            if _is_wanted(offer, options):
                view.offer(offer)
        view.metrics(selection.metrics, selection.show)
    view.close()
    file.write(text.getvalue())


def _show_tables(selections: list[ListFilter], machine: Machine, file: TextIO, options: dict[str, Any]) -> None:
    from perfpy.cli.line.terminal import console
    from perfpy.events.availability import Checker, known_reason
    from perfpy.kernel import this_kernel as kernel
    from perfpy.views.list.tables import print_tables

    checker = Checker(machine, kernel()) if options["check"] else None
    offers = [offer for selection in selections for offer in selection.offers if _is_wanted(offer, options)]
    rows = [(offer, checker.check(offer) if checker else known_reason(offer, machine)) for offer in offers]
    metrics = [metric for selection in selections for metric in selection.metrics]
    print_tables(rows, metrics, console(file), checked=options["check"])


def _is_wanted(offer: Offer, options: dict[str, Any]) -> bool:
    if offer.deprecated and not options["deprecated"]:
        return False
    if options["unit"] and offer.pmu:
        from fnmatch import fnmatchcase

        return fnmatchcase(offer.pmu, options["unit"])
    return True


def _view(file: TextIO, options: dict[str, Any]) -> ListView:
    from perfpy.views.list.text import JsonList, NameList, TextList

    if options["as_json"]:
        return JsonList(file)
    if options["raw_dump"]:
        return NameList(file)
    columns = os.environ.get("COLUMNS", "")
    return TextList(
        file,
        int(columns) if columns.isdigit() else _DEFAULT_WIDTH,
        descriptions=options["descriptions"],
        long_descriptions=options["long_descriptions"],
        encodings=options["details"],
    )


def _say_where(machine: Machine) -> None:
    folder = machine.event_files.folder if machine.event_files else "none"
    where = f"PMUs: {machine.sysfs.root}; tracepoints: {' or '.join(machine.tracefs.mount_points)}; event files: {folder}"
    print(where, file=sys.stderr)
