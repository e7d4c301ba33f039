"""The unit of work over many recordings: one of them, folded to a portable profile.

What enters: the path of a recording, and what is asked of each. What leaves: its PortableProfile, or
why it cannot be read. It needs nothing but perfpy and the files: it may run in any process, on any machine that sees them.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, cast

import numpy as np

from perfpy.analysis.aggregate.exact_sums import sum_by
from perfpy.analysis.aggregate.profile import Recipe
from perfpy.analysis.aggregate.scan import SampleScan
from perfpy.analysis.filters.sample_filter import SampleFilter
from perfpy.analysis.report.plan import plan_report
from perfpy.analysis.report.report import losses, recording_text
from perfpy.analysis.samples.wait_events import has_off_cpu
from perfpy.errors import PerfError, UsageError
from perfpy.fleet.merging import Merging
from perfpy.fleet.portable import PortableProfile, Unread, portable
from perfpy.fleet.remote import Fetched, is_url, shown
from perfpy.recording import Recording
from perfpy.symbols.files.shared_files import SharedFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any, BinaryIO

    from numpy.typing import NDArray

    from perfpy.analysis.report.options import ReportOptions
    from perfpy.analysis.sortkeys.sort_key import Mode
    from perfpy.symbols.files.debug_files import SymbolOptions

#: dimensions and measures that need more of a recording than its samples
_OF_ONE_RECORDING = {
    "raw": "data of tracepoints",
    "cgroup": "cgroups",
    "cgroup_id": "cgroups",
    "parallelism": "context switches",
    "latency": "context switches",
}
#: what a recording counts as, where all count the same
_ONE = 10**12

#: a recording -> what is asked of it: its report's options, or for whole stacks a filter; and where to look for symbols
Asked: TypeAlias = "Callable[[Recording], tuple[ReportOptions | SampleFilter, SymbolOptions | None]]"


class FoldingRequest(NamedTuple):
    """What is done with each recording: asked of it; weight: "time", "samples" or "equal"; check_owner: refuse those of strangers;
    mode: what a row stands for (None: whatever it does for each recording).
    """

    asked: Asked
    weight: str = "time"
    check_owner: bool = False
    mode: Mode | None = None


class FoldedGroup(NamedTuple):
    """Some recordings, put together; None where none could be read. unread: those that could not."""

    part: PortableProfile | None
    unread: list[Unread]


def folded_group(paths: list[str], request: FoldingRequest, shared: SharedFiles | None = None) -> FoldedGroup:
    """Some recordings, folded and put together; and those that could not be read. shared: files that were found for others."""
    shared = shared or SharedFiles()
    return merged_groups(_folded_or_named(path, request, shared) for path in paths)


def _folded_or_named(path: str, request: FoldingRequest, shared: SharedFiles) -> FoldedGroup:
    try:
        return FoldedGroup(folded_recording(path, request, shared), [])
    except UsageError:
        raise
    except PerfError as error:
        name = shown(path)
        return FoldedGroup(None, [Unread(name, str(error).removeprefix(f"{name}: "))])


def merged_groups(groups: Iterable[FoldedGroup]) -> FoldedGroup:
    """Neighbouring groups as one; each is let go of before the next is taken."""
    merging: Merging | None = None
    unread: list[Unread] = []
    for group in groups:
        unread += group.unread
        if group.part is not None:
            merging = merging or Merging()
            merging.add(group.part)
    return FoldedGroup(merging.result() if merging else None, unread)


@contextmanager
def opened(path: str, *, check_owner: bool) -> Iterator[Recording]:
    """A recording that is named by its path or URL. Raises BadPerfData."""
    fetched = Fetched(path) if is_url(path) else None
    try:
        with Recording(cast("BinaryIO", fetched) if fetched else path, check_owner=check_owner) as recording:
            yield recording
    finally:
        if fetched:
            fetched.close()


def told_of_first(paths: Sequence[str], tell: Callable[[Recording], Any], *, check_owner: bool) -> Any:
    """What is told of the first of some recordings that can be read. Raises BadPerfData where none can."""
    refused: PerfError | None = None
    for path in paths:
        try:
            with opened(path, check_owner=check_owner) as recording:
                return tell(recording)
        except UsageError:
            raise
        except PerfError as error:
            refused = refused or error
    raise refused or PerfError("no recordings")


def folded_recording(path: str, request: FoldingRequest, shared: SharedFiles | None = None) -> PortableProfile:
    """One recording, folded; shared: files that were found for others. Raises BadPerfData, UsageError."""
    with opened(path, check_owner=request.check_owner) as recording:
        asked, symbols = request.asked(recording)
        data = recording.data
        if request.mode is not None and not isinstance(asked, SampleFilter) and asked.wanted.mode is not request.mode:
            raise PerfError(f"a row is of {asked.wanted.mode.value} samples here, in the others of {request.mode.value} ones")
        timeline = recording.make_timeline(keep_exited=True)
        symbolizer = recording.new_symbolizer(timeline, symbols, shared)
        recipe = _stacks_recipe(recording, asked) if isinstance(asked, SampleFilter) else plan_report(data, asked).recipe
        _refuse(recipe)
        if not isinstance(asked, SampleFilter) and (asked.call_graph is not None or asked.children):
            # those without callchains have the same rows
            recipe = recipe._replace(dimensions=tuple(dict.fromkeys([*recipe.dimensions, "frame"])))
        if isinstance(asked, SampleFilter):
            scan = SampleScan(data, timeline, symbolizer, recipe)
        else:
            scan = SampleScan(data, timeline, symbolizer, recipe, asked.wanted.mode, grain=asked.time_quantum, max_stack=asked.max_stack)
        profile = scan.profile()
        found = portable(recording_text(data), recording.events, profile, symbolizer, timeline, by_function=recipe.by_function)
        lost, dropped = losses(data)
        warnings = [Unread(path, text) for text in recording.warnings]
        listed = [entry.filename for entry in data.features.get("build_id", ())]
        return _weighted(found._replace(lost=lost, dropped=dropped, cut=scan.cut, listed=listed, warnings=warnings), request.weight)


def _stacks_recipe(recording: Recording, sample_filter: SampleFilter) -> Recipe:
    dimensions = ("comm", "frame", "state") if has_off_cpu(recording.events) else ("comm", "frame")
    return Recipe(dimensions, sample_filter, chains=True, by_function=True)


def _refuse(recipe: Recipe) -> None:
    needed = {_OF_ONE_RECORDING[name] for name in (*recipe.dimensions, *recipe.measures) if name in _OF_ONE_RECORDING}
    if needed:
        raise UsageError(f"{' and '.join(sorted(needed))}: these are each recording's own: report one at a time")


def _weighted(found: PortableProfile, weight: str) -> PortableProfile:
    """With other periods: those of samples are 1, or those of each event are the same in all recordings."""
    rows = found.folded
    if weight == "samples":
        return found._replace(folded=rows.with_periods(rows.count))
    if weight == "equal":
        total = sum_by(rows.event, rows.period, len(found.events))
        return found._replace(folded=rows.with_periods(_scaled(rows.period, total[rows.event])))
    return found


def _scaled(period: NDArray[np.int64], total: NDArray[np.int64]) -> NDArray[np.int64]:
    shares = period.astype(np.longdouble) / np.maximum(total, 1)
    scaled: NDArray[np.int64] = np.rint(shares * _ONE).astype(np.int64)
    return scaled
