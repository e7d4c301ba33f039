"""The unit of work over many recordings: one of them, folded to a portable profile.

What enters: the path of a recording, and what is asked of each. What leaves: its PortableProfile, or
why it cannot be read. It needs nothing but perfpy and the files: it may run in any process, on any machine that sees them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from perfpy.analysis.aggregate.exact_sums import sum_by
from perfpy.analysis.aggregate.profile import LATENCY, Recipe
from perfpy.analysis.aggregate.scan import SampleScan
from perfpy.analysis.filters.sample_filter import SampleFilter
from perfpy.analysis.report.plan import plan_report
from perfpy.analysis.report.report import key_style, losses, planned_scan, recording_text
from perfpy.analysis.samples.parallelism import Parallelism
from perfpy.analysis.samples.wait_events import has_off_cpu
from perfpy.analysis.sortkeys.key_texts import MachineTexts, TraceData
from perfpy.analysis.stacks.stack_builder import WithSingleFrames
from perfpy.debuginfo.known_lines import lines_of
from perfpy.errors import PerfError, UsageError
from perfpy.fleet.merging import Merging
from perfpy.fleet.opening import opened
from perfpy.fleet.own_values import OwnWords
from perfpy.fleet.portable import PortableProfile, RecordingProblem, portable
from perfpy.fleet.remote import shown
from perfpy.fleet.traced_values import formats_of, shown_texts
from perfpy.symbols.files.shared_files import SharedFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from numpy.typing import NDArray

    from perfpy.analysis.aggregate.profile import FoldedSamples
    from perfpy.analysis.report.options import ReportOptions
    from perfpy.analysis.sortkeys.sort_key import Mode
    from perfpy.fleet.traced_values import ShownText
    from perfpy.recording import Recording
    from perfpy.symbols.files.debug_files import SymbolOptions
    from perfpy.symbols.symbolizer import Symbolizer
    from perfpy.symbols.tasks.address_space import TaskTimeline

#: what a recording counts as, where all count the same
_ONE = 10**12

#: the key that is known of every recording, and of those without tracepoints is none
_TRACE_FIELDS = "trace_fields"


class Conditions:
    """hosts: machines that are wanted, None for all; of_samples: what Recording.where takes."""

    def __init__(self, hosts: Collection[str] | None, of_samples: dict[str, Any]) -> None:
        self.hosts = hosts
        self.of_samples = of_samples


def narrowed_by(recording: Recording, conditions: Sequence[Conditions]) -> Recording | None:
    """A recording with the samples that are wanted; None where it is of another machine."""
    from perfpy.analysis.report.report import recording_text

    host = recording_text(recording.data).host
    for wanted in conditions:
        if wanted.hosts is not None and host not in wanted.hosts:
            return None
        if wanted.of_samples:
            recording = recording.where(**wanted.of_samples)
    return recording


class WantedStacks(NamedTuple):
    """Which whole stacks are wanted; latency: weighted by shares of the wall clock; sites: told apart by addresses, with lines."""

    sample_filter: SampleFilter = SampleFilter()
    latency: bool = False
    sites: bool = False


#: a recording -> what is asked of it: its report's options, or which stacks; and where to look for symbols
Asked: TypeAlias = "Callable[[Recording], tuple[ReportOptions | WantedStacks, SymbolOptions | None]]"


class FoldingRequest(NamedTuple):
    """What is done with each recording: asked of it; weight: "time", "samples" or "equal"; check_owner: refuse those of strangers;
    mode: what a row stands for (None: whatever it does for each recording); conditions: which samples count.
    """

    asked: Asked
    weight: str = "time"
    check_owner: bool = False
    mode: Mode | None = None
    conditions: tuple[Conditions, ...] = ()


class FoldedGroup(NamedTuple):
    """Some recordings, put together; None where none could be read. failed: those that could not; refused: what was asked
    that one of these cannot be asked, "" for nothing.
    """

    part: PortableProfile | None
    failed: list[RecordingProblem]
    refused: str = ""


def folded_group(paths: list[str], request: FoldingRequest, shared: SharedFiles | None = None) -> FoldedGroup:
    """Some recordings, folded and put together; and those that could not be read. shared: files that were found for others."""
    shared = shared or SharedFiles()
    return merged_groups(_folded_or_named(path, request, shared) for path in paths)


def _folded_or_named(path: str, request: FoldingRequest, shared: SharedFiles) -> FoldedGroup:
    try:
        return FoldedGroup(folded_recording(path, request, shared), [])
    except PerfError as error:
        return FoldedGroup(None, [RecordingProblem.of(shown(path), error)], str(error) if isinstance(error, UsageError) else "")


def merged_groups(groups: Iterable[FoldedGroup]) -> FoldedGroup:
    """Neighbouring groups as one; each is let go of before the next is taken."""
    merging: Merging | None = None
    failed: list[RecordingProblem] = []
    refused = ""
    for group in groups:
        failed += group.failed
        refused = refused or group.refused
        if group.part is not None:
            merging = merging or Merging()
            merging.add(group.part)
    return FoldedGroup(merging.result() if merging else None, failed, refused)


def folded_recording(path: str, request: FoldingRequest, shared: SharedFiles | None = None) -> PortableProfile | None:
    """One recording, folded; None where it is of a machine that is not wanted. shared: files that were found for others.

    Raises BadPerfDataError, UsageError.
    """
    with opened(path, check_owner=request.check_owner) as whole:
        recording = narrowed_by(whole, request.conditions)
        if recording is None:
            return None
        asked, symbols = request.asked(recording)
        if request.mode is not None and not isinstance(asked, WantedStacks) and asked.wanted.mode is not request.mode:
            kinds = f"{asked.wanted.mode.value} samples here, in the first of {request.mode.value} ones"
            raise PerfError(f"a row is of {kinds}: report it apart, or all by their samples (--no-branch-stack)")
        timeline = recording.make_timeline(keep_exited=True)
        symbolizer = recording.new_symbolizer(timeline, symbols, shared)
        if isinstance(asked, WantedStacks):
            asked = asked._replace(sample_filter=recording.within(asked.sample_filter))
            found = _stacks(recording, asked, timeline, symbolizer)
        else:
            asked = asked._replace(sample_filter=recording.within(asked.sample_filter))
            found = _rows(recording, asked, timeline, symbolizer, symbols)
        lost, dropped = losses(recording.data)
        warnings = [RecordingProblem(path, text) for text in recording.warnings]
        listed = [entry.filename for entry in recording.data.features.get("build_id", ())]
        return _weighted(found._replace(lost=lost, dropped=dropped, listed=listed, warnings=warnings), request.weight)


def _rows(
    recording: Recording, asked: ReportOptions, timeline: TaskTimeline, symbolizer: Symbolizer, symbols: SymbolOptions | None
) -> PortableProfile:
    """What a report is made of."""
    data = recording.data
    plan = plan_report(data, asked)
    recipe = plan.recipe
    if asked.call_graph is not None or asked.children:
        # those without callchains have the same rows
        plan = plan._replace(recipe=recipe._replace(dimensions=tuple(dict.fromkeys([*recipe.dimensions, "frame"]))))
    scan, machine = planned_scan(plan, data, timeline, symbolizer)
    profile = scan.profile()
    shown: list[tuple[ShownText, ...]] = []
    if "raw" in recipe.dimensions:
        texts = TraceData(profile.raw.payloads, recording.payload_texts(symbols))
        shown = shown_texts(plan.layout, texts, symbolizer, key_style(plan.options))
    words = OwnWords(timeline.last_comm, machine, formats_of(recording.events, data.tracing), shown)
    infos = lines_of(symbolizer, as_addr2line=plan.options.as_addr2line) if plan.needs_sources else None
    parts = recording_text(data), recording.events, profile, symbolizer, timeline, words
    found = portable(*parts, by_function=recipe.by_function, infos=infos)._replace(truncated=scan.truncated)
    return _with_dimension(found, "raw", [()]) if _TRACE_FIELDS in f"{asked.wanted.sort},{asked.wanted.fields}" else found


def _stacks(recording: Recording, asked: WantedStacks, timeline: TaskTimeline, symbolizer: Symbolizer) -> PortableProfile:
    """What whole stacks are made of."""
    data, events = recording.data, recording.events
    dimensions = ("comm", "frame", "state") if has_off_cpu(events) else ("comm", "frame")
    recipe = Recipe(dimensions, asked.sample_filter, (LATENCY,) if asked.latency else (), chains=True, by_function=not asked.sites)
    follows = asked.latency or asked.sample_filter.parallelism is not None
    scan = SampleScan(data, timeline, symbolizer, recipe, more=[Parallelism.of(data)] if follows else [])
    profile: FoldedSamples = scan.profile()
    if asked.sites:
        profile = WithSingleFrames(profile)
    infos = lines_of(symbolizer) if asked.sites else None
    words = OwnWords(timeline.last_comm, MachineTexts(), [None] * len(events))
    parts = recording_text(data), events, profile, symbolizer, timeline, words
    waits = portable(*parts, by_function=not asked.sites, infos=infos, sites=asked.sites)
    return _with_dimension(waits, "state")._replace(truncated=scan.truncated)


def _with_dimension(found: PortableProfile, name: str, values: list[Any] | None = None) -> PortableProfile:
    """With a dimension that other recordings may have: where this one has not, all its rows have number 0 (of values)."""
    if name in found.folded.dimensions:
        return found
    known = {} if values is None else {name: values}
    rows = found.folded.with_dimensions({name: np.zeros(len(found.folded), np.int64)})
    return found._replace(folded=rows, values={**found.values, **known})


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
