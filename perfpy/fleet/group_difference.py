"""Compare two groups of recordings: hosts before and after, days, releases."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.analysis.group_differences import RECORDING, GroupTable, group_changes
from perfpy.analysis.sample_view import NANOSECONDS_A_SECOND, is_time
from perfpy.errors import UsageError
from perfpy.symbols.demangling.short_names import without_instance

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perfpy.analysis.group_differences import GroupChanges
    from perfpy.analysis.report.options import ReportOptions
    from perfpy.analysis.report.report import Report
    from perfpy.analysis.sort_key import RecordingText
    from perfpy.fleet.portable_profile import PortableProfile

#: the units of observation
UNITS: Final = ("host", RECORDING)
_UNKNOWN_HOST: Final = "?"


class FoldedGroupReport(NamedTuple):
    """One of the groups.

    Attributes:
        weight: how its recordings count.
        profile: the merged recordings.
        report: of the profile, separated by recording.
    """

    weight: str
    profile: PortableProfile
    report: Report


def changes_between(before: FoldedGroupReport, after: FoldedGroupReport, unit: str, *, full_names: bool) -> list[GroupChanges]:
    """Return the changes of each event that both groups have.

    Args:
        before, after: the groups.
        unit: "host", "recording", or "" for hosts, and recordings if a group has one host.
        full_names: whether each instance of a template is separate.
    """
    groups = before, after
    chosen = unit or _unit([group.profile.recordings for group in groups])
    first, second = (_tables(group, chosen, full_names=full_names) for group in groups)
    equal = any(group.weight == "equal" for group in groups)
    return [group_changes(table, second[key], chosen, equal=equal) for key, table in first.items() if key in second]


def comparable(options: ReportOptions, before: Sequence[str], after: Sequence[str], unit: str) -> ReportOptions:
    """Return the options with recordings separated. Raises UsageError if the groups cannot be compared.

    before, after: paths.
    """
    if unit not in ("", *UNITS):
        raise UsageError(f"unknown unit {unit!r}; units: {', '.join(UNITS)}")
    if both := set(map(os.path.realpath, before)) & set(map(os.path.realpath, after)):
        raise UsageError(f"{min(both)}: in both groups; name it once")
    if own := [key for key in (options.columns.sort or "").split(",") if key in UNITS]:
        raise UsageError(f"-s {own[0]}: {own[0]}s are the observations of each group and cannot be rows")
    return with_recordings(options)


def with_recordings(options: ReportOptions) -> ReportOptions:
    """Return the options with recordings separated."""
    return options._replace(
        rows=options.rows._replace(rows_filtered=False), columns=options.columns._replace(sort=f"{options.columns.sort},{RECORDING}")
    )


def _tables(group: FoldedGroupReport, unit: str, *, full_names: bool) -> dict[tuple[object, ...], GroupTable]:
    """Return the table of each event with samples, by the event's key."""
    unit_of = _units(group.profile.recordings, unit)

    def name(key: str, text: str) -> str:
        text = text.strip()
        return without_instance(text) if key == "symbol" and not full_names else text

    tables = (table for table in group.report.histograms if table.leader.samples)
    profile = group.profile
    timed = group.weight == "time" and all(one.seconds > 0 for one in profile.recordings)
    numbered = [(table.leader.event.index, table) for table in tables]
    return {
        profile.event_keys[number]: GroupTable(table, unit_of, name, _rates(profile, number, unit_of) if timed else {})
        for number, table in numbered
    }


def _rates(profile: PortableProfile, event: int, unit_of: Callable[[str], str]) -> dict[str, float]:
    """Return the rate of an event per second, after filters, of each unit."""
    rows = profile.folded
    own = (rows.event == event) & ~rows.filtered
    periods = np.bincount(rows.dimensions[RECORDING][own], rows.period[own], len(profile.recordings))
    totals: dict[str, list[float]] = {}
    for one, period in zip(profile.recordings, periods.tolist(), strict=True):
        total = totals.setdefault(unit_of(one.path), [0.0, 0.0])
        total[0] += period
        total[1] += one.seconds
    scale = NANOSECONDS_A_SECOND if is_time(profile.events[event]) else 1
    return {unit: period / scale / seconds for unit, (period, seconds) in totals.items()}


def _unit(groups: Sequence[Sequence[RecordingText]]) -> str:
    """Return "host" if both groups have several, else "recording"."""
    return "host" if all(len({one.host for one in group} - {_UNKNOWN_HOST}) > 1 for group in groups) else RECORDING


def _units(recordings: Sequence[RecordingText], unit: str) -> Callable[[str], str]:
    """Return a function from path to host, or to the path itself if the recording is the unit."""
    hosts = {one.path: one.host for one in recordings if one.host != _UNKNOWN_HOST} if unit == "host" else {}
    return lambda path: hosts.get(path, path)
