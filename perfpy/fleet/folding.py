"""Fold one recording to a portable profile: the unit of work over many recordings.

It needs nothing but perfpy and the file: it may run in any process, on any machine that has the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from perfpy.analysis.report.options import plan_report
from perfpy.analysis.report.report import key_style, losses, planned_scan, recording_text
from perfpy.analysis.sort_key import MachineTexts, TraceData
from perfpy.analysis.stacks import StackOptions, WithSingleFrames, plan_stacks
from perfpy.debuginfo.debug_info import lines_of
from perfpy.errors import PerfError, UsageError
from perfpy.fleet.merging import Merging
from perfpy.fleet.portable_profile import OwnWords, PortableProfile, RecordingProblem, formats_of, portable, shown_texts
from perfpy.fleet.remote import open_recording, public_name
from perfpy.symbols.files.debug_files import SharedFiles
from perfpy.symbols.interning import sum_by

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from numpy.typing import NDArray

    from perfpy.analysis.aggregate.profile import FoldedSamples
    from perfpy.analysis.report.options import ReportOptions
    from perfpy.analysis.sort_key import Mode
    from perfpy.fleet.portable_profile import ShownText
    from perfpy.recording import Recording
    from perfpy.symbols.address_spaces import TaskTimeline
    from perfpy.symbols.files.debug_files import SymbolOptions
    from perfpy.symbols.symbolizer import Symbolizer

#: the period of a recording if all count the same
_ONE = 10**12

#: the key that every recording accepts, with no values in recordings without tracepoints
_TRACE_FIELDS = "trace_fields"


class Conditions(NamedTuple):
    """A condition on samples.

    Attributes:
        hosts: the machines to include; None for all.
        of_samples: arguments of Recording.where().
    """

    hosts: Collection[str] | None
    of_samples: dict[str, Any]


def restrict_to(recording: Recording, conditions: Sequence[Conditions]) -> Recording | None:
    """Return a recording restricted to the conditions; None if it is of an excluded machine."""
    from perfpy.analysis.report.report import recording_text

    host = recording_text(recording.data).host
    for condition in conditions:
        if condition.hosts is not None and host not in condition.hosts:
            return None
        if condition.of_samples:
            recording = recording.where(**condition.of_samples)
    return recording


#: a recording -> the options of its report, or of its stacks; and its symbol options
OptionsOf: TypeAlias = "Callable[[Recording], tuple[ReportOptions | StackOptions, SymbolOptions | None]]"


class FoldingRequest(NamedTuple):
    """The work on each recording.

    Attributes:
        options_of: returns the options of a recording.
        weight: "time", "samples" or "equal".
        check_owner: reject files of other users.
        mode: the mode of all recordings; None for each one's own.
        conditions: on the samples that count.
    """

    options_of: OptionsOf
    weight: str = "time"
    check_owner: bool = False
    mode: Mode | None = None
    conditions: tuple[Conditions, ...] = ()


class FoldedGroup(NamedTuple):
    """Folded recordings, merged.

    Attributes:
        part: the profile; None if no recording could be read.
        failed: the recordings that could not be read.
        refused: the first usage error of a recording; "" for none.
    """

    part: PortableProfile | None
    failed: list[RecordingProblem]
    refused: str = ""


def fold_group(paths: list[str], request: FoldingRequest, shared: SharedFiles | None = None) -> FoldedGroup:
    """Fold some recordings and merge them, except those that cannot be read. shared: files found for other recordings."""
    shared = shared or SharedFiles()
    return merge_groups(_folded_or_named(path, request, shared) for path in paths)


def _folded_or_named(path: str, request: FoldingRequest, shared: SharedFiles) -> FoldedGroup:
    try:
        return FoldedGroup(fold_recording(path, request, shared), [])
    except PerfError as error:
        return FoldedGroup(None, [RecordingProblem.of(public_name(path), error)], str(error) if isinstance(error, UsageError) else "")


def merge_groups(groups: Iterable[FoldedGroup]) -> FoldedGroup:
    """Merge neighbouring groups; release each before taking the next."""
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


def fold_recording(path: str, request: FoldingRequest, shared: SharedFiles | None = None) -> PortableProfile | None:
    """Fold one recording; return None if it is of an excluded machine. shared: files found for other recordings.

    Raises BadPerfDataError, UsageError.
    """
    with open_recording(path, check_owner=request.check_owner) as whole:
        recording = restrict_to(whole, request.conditions)
        if recording is None:
            return None
        options, symbols = request.options_of(recording)
        if request.mode is not None and not isinstance(options, StackOptions) and options.columns.mode is not request.mode:
            kinds = f"this recording has {options.columns.mode.value} samples, the first one {request.mode.value} samples"
            raise PerfError(f"{kinds}; report it separately, or all by samples with --no-branch-stack")
        timeline = recording.make_timeline(keep_exited=True)
        symbolizer = recording.new_symbolizer(timeline, symbols, shared)
        if isinstance(options, StackOptions):
            options = options._replace(sample_filter=recording.within(options.sample_filter))
            profile = _stacks(recording, options, timeline, symbolizer)
        else:
            options = options._replace(sample_filter=recording.within(options.sample_filter))
            profile = _rows(recording, options, timeline, symbolizer, symbols)
        lost, dropped, _ = losses(recording.data)
        warnings = [RecordingProblem(path, text) for text in recording.warnings]
        listed = [entry.filename for entry in recording.data.features.get("build_id", ())]
        return _scale_periods(profile._replace(lost=lost, dropped=dropped, listed=listed, warnings=warnings), request.weight)


def _rows(
    recording: Recording, options: ReportOptions, timeline: TaskTimeline, symbolizer: Symbolizer, symbols: SymbolOptions | None
) -> PortableProfile:
    """Return the profile of a report's rows."""
    data = recording.data
    plan = plan_report(data, options)
    folding = plan.folding
    if options.chains.call_graph is not None or options.chains.children:
        # recordings without callchains get the same rows
        plan = plan._replace(folding=folding._replace(dimensions=tuple(dict.fromkeys([*folding.dimensions, "frame"]))))
    scan, machine = planned_scan(plan, data, timeline, symbolizer)
    profile = scan.profile()
    rows: list[tuple[ShownText, ...]] = []
    if "raw" in folding.dimensions:
        texts = TraceData(profile.raw.payloads, recording.payloads(recording.symbolizer(symbols)))
        rows = shown_texts(plan.layout, texts, symbolizer, key_style(plan.options))
    words = OwnWords(timeline.last_comm, machine, formats_of(recording.events, data.tracing), rows)
    infos = lines_of(symbolizer, as_addr2line=plan.options.names.as_addr2line) if plan.needs_sources else None
    parts = recording_text(data), recording.events, profile, symbolizer, timeline, words
    result = portable(*parts, by_function=folding.by_function, infos=infos)._replace(truncated=scan.truncated_stacks)
    return _with_dimension(result, "raw", [()]) if _TRACE_FIELDS in f"{options.columns.sort},{options.columns.fields}" else result


def _stacks(recording: Recording, options: StackOptions, timeline: TaskTimeline, symbolizer: Symbolizer) -> PortableProfile:
    """Return the profile of whole stacks."""
    options = StackOptions(options.sample_filter, latency=options.latency, sites=options.sites)
    data, events = recording.data, recording.events
    scan = plan_stacks(data, timeline, symbolizer, options).scan
    profile: FoldedSamples = scan.profile()
    if options.sites:
        profile = WithSingleFrames(profile)
    infos = lines_of(symbolizer) if options.sites else None
    words = OwnWords(timeline.last_comm, MachineTexts(), [None] * len(events))
    parts = recording_text(data), events, profile, symbolizer, timeline, words
    profile_data = portable(*parts, by_function=not options.sites, infos=infos, sites=options.sites)
    return _with_dimension(profile_data, "state")._replace(truncated=scan.truncated_stacks)


def _with_dimension(profile: PortableProfile, name: str, values: list[Any] | None = None) -> PortableProfile:
    """Return the profile with a dimension that other recordings may have; without it, all rows have number 0 (of values)."""
    if name in profile.folded.dimensions:
        return profile
    new_values = {} if values is None else {name: values}
    rows = profile.folded.with_dimensions({name: np.zeros(len(profile.folded), np.int64)})
    return profile._replace(folded=rows, values={**profile.values, **new_values})


def _scale_periods(profile: PortableProfile, weight: str) -> PortableProfile:
    """Scale the periods: samples count 1, or each event has the same total in all recordings."""
    rows = profile.folded
    if weight == "samples":
        return profile._replace(folded=rows.with_periods(rows.count))
    if weight == "equal":
        total = sum_by(rows.event, rows.period, len(profile.events))
        return profile._replace(folded=rows.with_periods(_scale(rows.period, total[rows.event])))
    return profile


def _scale(period: NDArray[np.int64], total: NDArray[np.int64]) -> NDArray[np.int64]:
    shares = period.astype(np.longdouble) / np.maximum(total, 1)
    scaled: NDArray[np.int64] = np.rint(shares * _ONE).astype(np.int64)
    return scaled
