"""`perfpy diff`: what changed between recordings.

What enters: two or more perf.data files, the first of them the baseline, and
perf diff's options. What leaves: a table; a mark says which changes are more
than the noise of sampling.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

from perfpy.cli.options import argument, fail, lacking_options, option, perf_command, quiet_option, symbol_options

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfpy.analysis.difference import Change
    from perfpy.analysis.reporting import Report

_WDIFF = re.compile(r"wdiff:(\d+),(\d+)")
_LACKING = {
    "--stream": "it needs branch records in callchains",
    "--cycles-hist": "it needs block counts of last branch records",
    "-D,--dump-raw-trace": "use perfpy report -D",
    "-F,--formula": "use -p to see the periods",
}


@perf_command()
@option("-s", "--sort", default="dso,symbol", metavar="<key[,key2...]>", help="compare by these keys")
@option("-c", "--compute", default="delta-abs", metavar="<kind>", help="delta, delta-abs (default), ratio or wdiff:w1,w2")
@option("-b", "--baseline-only", is_flag=True, help="only rows of the first recording")
@option("-p", "--period", is_flag=True, help="show periods")
@option("-o", "--order", type=int, default=1, metavar="<n>", help="sort by this recording (1: the second)")
@option("-C", "--comms", default="", metavar="<comm[,comm...]>", help="only these commands")
@option("-d", "--dsos", default="", metavar="<dso[,dso...]>", help="only these shared objects")
@option("-S", "--symbols", default="", metavar="<symbol[,symbol...]>", help="only these functions")
@option("--pid", default="", metavar="<pid[,pid...]>", help="only these processes")
@option("--tid", default="", metavar="<tid[,tid...]>", help="only these threads")
@option("-t", "--field-separator", default=None, metavar="<separator>", help="columns with this separator")
@option("-f", "--force", is_flag=True, help="read files although somebody else owns them")
@option("--flamegraph", "--html", default=None, metavar="<file>", help="what changed as a flame graph, one HTML file")
@symbol_options
@quiet_option
@lacking_options(_LACKING)
@argument("files", nargs=-1, metavar="[<baseline> <file>...]")
def command(**values: Any) -> int:
    """Compare recordings, perf.data.old and perf.data where none are named."""
    from perfpy.symbols.debugfiles import SymbolOptions

    names = ("symfs", "kallsyms", "vmlinux", "demangle", "demangle_kernel")
    symbols = SymbolOptions(**{name: values[name] for name in names})
    paths = list(values["files"]) or ["perf.data.old", "perf.data"]
    if len(paths) == 1:
        paths.append("perf.data")
    if values["flamegraph"] is not None:
        return _flame_graph(paths, symbols, values)
    return _table(paths, symbols, values)


def _table(paths: list[str], symbols: Any, values: dict[str, Any]) -> int:
    from perfpy.analysis.difference import differences
    from perfpy.analysis.layout import Wanted
    from perfpy.analysis.options import ReportOptions
    from perfpy.analysis.selection import Selection
    from perfpy.cli.report_options import numbers, words
    from perfpy.recording import Recording
    from perfpy.views.difference_text import DifferenceOptions, difference_lines

    compute, weights = _compute(values["compute"])
    if not 1 <= values["order"] < len(paths):
        fail(f"-o {values['order']}: there are {len(paths)} recordings, counted from 0; 0 is the baseline")
    selection = Selection(
        comms=words(values["comms"]),
        dsos=words(values["dsos"]),
        symbols=words(values["symbols"]),
        pids=numbers(values["pid"], "--pid"),
        tids=numbers(values["tid"], "--tid"),
    )
    options = ReportOptions(wanted=Wanted(sort=values["sort"]), selection=selection, group=False)
    reports: list[Report] = []
    for path in paths:
        with Recording(path, check_owner=not values["force"]) as recording:
            reports.append(recording.report(options=options, symbols=symbols))
    found = differences(reports, _measure(compute, weights, values["order"]), baseline_only=values["baseline_only"])
    if not found:
        fail(f"{' and '.join(paths)} have no event in common")
    shown = DifferenceOptions(compute, weights, values["period"], values["field_separator"], values["quiet"], paths)
    sys.stdout.writelines(f"{line}\n" for line in difference_lines(found, shown))
    return 0


def _compute(text: str) -> tuple[str, tuple[int, int]]:
    weighted = _WDIFF.fullmatch(text)
    if weighted:
        return "wdiff", (int(weighted[1]), int(weighted[2]))
    if text not in ("delta", "delta-abs", "ratio"):
        fail(f"-c {text!r}: delta, delta-abs, ratio or wdiff:w1,w2 are known")
    return text, (1, 1)


def _measure(compute: str, weights: tuple[int, int], other: int) -> Callable[[Change], float | None]:
    """What rows are sorted by."""
    if compute == "delta":
        return lambda change: change.delta(other)
    if compute == "ratio":
        return lambda change: change.ratio(other)
    if compute == "wdiff":
        return lambda change: change.weighted(other, weights)

    def size(change: Change) -> float | None:
        delta = change.delta(other)
        return None if delta is None else abs(delta)

    return size


def _flame_graph(paths: list[str], symbols: Any, values: dict[str, Any]) -> int:
    from perfpy.cli.report_exports import flame_graph, write_bytes
    from perfpy.recording import Recording

    if len(paths) != 2:
        fail("--flamegraph compares two recordings")
    with Recording(paths[0]) as before, Recording(paths[1]) as after:
        page = flame_graph(before, before.stacks(symbols), after.stacks(symbols))
    write_bytes(values["flamegraph"], page.encode(errors="replace"), quiet=values["quiet"])
    return 0
