"""`report --stats`: the number of records of each type, and samples of each event; perf 6.12's text byte for byte."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from perfpy.abi.flags import RecordType, names_of
from perfpy.perfdata.features import Feature
from perfpy.perfdata.records.batches import carries_readings, split_readings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.views.recorded import Recorded


#: perf's names that differ from the constants'
_NAMES: Final = {
    RecordType.HEADER_ATTR: "ATTR",
    RecordType.HEADER_EVENT_TYPE: "EVENT_TYPE",
    RecordType.HEADER_TRACING_DATA: "TRACING_DATA",
    RecordType.HEADER_BUILD_ID: "BUILD_ID",
    RecordType.HEADER_FEATURE: "FEATURE",
    RecordType.COMPRESSED2: "COMPRESSED",
}
#: types that perf 6.12 lacks: only shown if present
_NEW: Final = (
    RecordType.CALLCHAIN_DEFERRED, RecordType.COMPRESSED2,
    RecordType.BPF_METADATA, RecordType.SCHEDSTAT_CPU, RecordType.SCHEDSTAT_DOMAIN,
)  # fmt: skip


def record_count_lines(recording: Recorded, entries: Counter[int] | None = None, *, skip_empty: bool = True) -> Iterator[str]:
    """Yield the lines of --stats: all records by type, then the samples of each event with samples.

    entries: by event, the number of histogram entries, which -D shows
    instead of samples; skip_empty: skip zeros.
    """
    counts = _by_name(recording, skip_empty=skip_empty)
    total = sum(counts.values())
    yield ""
    yield "Aggregated stats:" + _auxtrace_note(recording)
    yield _line("TOTAL", total)
    for name, count in counts.items():
        yield f"{_line(name, count)}  ({100 * count / total:4.1f}%)"
    samples, lost = (_samples(recording), _lost_samples(recording)) if entries is None else (entries, Counter[int]())
    for event in recording.events:
        if samples[event.index] or lost[event.index] or not skip_empty:
            yield f"{event.name} stats:"
            if samples[event.index]:
                yield _line("SAMPLE", samples[event.index])
            if lost[event.index]:
                yield _line("LOST_SAMPLES", lost[event.index])


def _line(name: str, count: int) -> str:
    return f"{name:>20} events: {count:10}"


def _auxtrace_note(recording: Recorded) -> str:
    if Feature.AUXTRACE not in recording.data.feature_sections:
        return ""
    return " (excludes AUX area (e.g. instruction trace) decoded / synthesized events)"


def _by_name(recording: Recorded, *, skip_empty: bool) -> dict[str, int]:
    """Return counts in order of the types' numbers; types that perf lacks are skipped."""
    types = recording.data.record_index.type_counts
    counts_of_names: Counter[str] = Counter()
    for kind, name in names_of(RecordType).items():
        if types[kind] or not (skip_empty or kind in _NEW):
            counts_of_names[_NAMES.get(kind, name)] += types[kind]
    return counts_of_names


def _samples(recording: Recorded) -> Counter[int]:
    """Count the delivered samples of each event: with counter readings, one for each counter that advanced."""
    if not any(carries_readings(event) for event in recording.events):
        return recording.data.record_index.sample_counts
    counts: Counter[int] = Counter()
    for batch in split_readings(recording.batches(["read", "period"]), recording.events):
        counts.update(batch.event.tolist())
    return counts


def _lost_samples(recording: Recorded) -> Counter[int]:
    """Count the lost samples reported by the kernel, for each event."""
    lost: Counter[int] = Counter()
    index_of = {ident: event.index for event in recording.events for ident in event.ids}
    for side in recording.side_band([RecordType.LOST_SAMPLES]):
        sample_id = side.record.sample_id
        ident = (sample_id.identifier or sample_id.id or 0) if sample_id else 0
        lost[index_of.get(ident, 0)] += side.record.lost
    return lost
