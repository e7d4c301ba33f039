"""The changes between two recordings as values: for programs, and for limits."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

from perfpy.analysis.counterparts import Counterparts
from perfpy.analysis.differences.changed_rows import Amount, ChangedRow, changed_rows, totals
from perfpy.analysis.differences.difference import Compute, differences
from perfpy.data_frames import ConvertibleTable
from perfpy.symbols.demangling.short_names import without_instance

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from perfpy.analysis.differences.difference import Difference, Naming
    from perfpy.analysis.report.report import Report

_UNNAMED = "[unknown]"


class RecordingChanges(ConvertibleTable):
    """The changes of one event: a sequence of ChangedRow, sorted by the change of costs.

    Attributes:
        event: its name.
        keys: of the rows' names.
        before, after: the Amounts (samples, period) of everything.

    >>> import perfpy
    >>> with perfpy.open("perf.data") as before, perfpy.open("perf.data") as after:
    ...     (changes,) = perfpy.diff(before, after, by="comm")
    >>> changes.event, [(row.names, row.has_changed) for row in changes]
    ('cpu-clock:u', [(('busy',), False)])
    """

    def __init__(self, difference: Difference) -> None:
        self._difference = difference
        self.event = difference.event
        base = difference.histograms[0]
        self.keys = [key.name for key in base.layout.keys] if base else []
        self.before: Amount
        self.after: Amount
        self.before, self.after = totals(difference)

    @cached_property
    def rows(self) -> list[ChangedRow]:
        """All rows."""
        return changed_rows(self._difference)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[ChangedRow]:
        return iter(self.rows)

    @overload
    def __getitem__(self, index: int) -> ChangedRow: ...
    @overload
    def __getitem__(self, index: slice) -> list[ChangedRow]: ...
    def __getitem__(self, index: int | slice) -> ChangedRow | list[ChangedRow]:
        return self.rows[index]

    def above(self, by: float = 0.0) -> list[ChangedRow]:
        """Return the rows that cost more than before, beyond noise, and by more than `by` of the total before (0.02: 2 %)."""
        return [row for row in self.rows if row.exceeds(by * self.before.period)]

    def name(self, row: ChangedRow) -> str:
        """Return a row's names as one text."""
        return " ".join(name or _UNNAMED for name in row.names)

    def to_columns(self) -> dict[str, list[Any]]:
        """Return the rows as columns: each key, the periods and samples "before" and "after", "change", and whether it exceeds noise."""
        columns: dict[str, list[Any]] = {key: [row.names[index] for row in self.rows] for index, key in enumerate(self.keys)}
        columns |= {
            "before": [row.before.period for row in self.rows],
            "after": [row.after.period for row in self.rows],
            "change": [row.change for row in self.rows],
            "samples_before": [row.before.samples for row in self.rows],
            "samples_after": [row.after.samples for row in self.rows],
            "has_changed": [row.has_changed for row in self.rows],
        }
        return columns

    def __repr__(self) -> str:
        changed = sum(row.has_changed for row in self.rows)
        return f"<RecordingChanges of {self.event}: {self.before.period} -> {self.after.period}, {changed} of {len(self)} rows changed>"


def recording_changes(before: Report, after: Report, naming: Naming) -> list[RecordingChanges]:
    """Return the changes of each event that both reports have."""
    compared = differences([before, after], Compute(), naming=naming)
    return [RecordingChanges(one) for one in compared if all(histogram is not None for histogram in one.histograms)]


def names_for_both(
    before: Mapping[str, int], after: Mapping[str, int], *, ignore_comm: bool | None = None, full_names: bool = False
) -> Naming:
    """Return common names for both recordings; before, after: the periods of their commands (Counterparts)."""
    parts = Counterparts.of(before, after, ignore=ignore_comm)

    def name(index: int, key: str, text: str) -> str:
        text = text.strip()
        if key == "symbol":
            return text if full_names else without_instance(text)
        return parts.command(index, text) if key == "comm" else parts.file(index, text) if key == "dso" else text

    return name
