"""Two recordings side by side on a terminal: the totals, then the rows that changed.

Rows within sampling noise are counted, or
printed above the others: the largest change is then the last line, beside the prompt.
"""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING, Final, NamedTuple

from rich.text import Text

from perfpy.abi.flags import PerfType, SoftwareId
from perfpy.analysis.differences import LEVEL, Amount, changed_rows, has_grown_or_shrunk, totals
from perfpy.untrusted.files import PYTHON_IMAGE
from perfpy.untrusted.text import visible
from perfpy.views.readable import event_name, readable
from perfpy.views.verdict.comparisons import change_verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from rich.console import Console

    from perfpy.analysis.differences import ChangedRow, Difference

_MOST: Final = 40
_WIDTH: Final = 11
_SHARE_WIDTH: Final = 8
_CLOCKS: Final = (SoftwareId.CPU_CLOCK, SoftwareId.TASK_CLOCK)
_NO_NAME: Final = "(no symbol)"
_MORE, _LESS = "red", "green"
_UNITS: Final = (("G", 1e9), ("M", 1e6), ("k", 1e3))


class Side(NamedTuple):
    """One of the recordings.

    Attributes:
        path, title: of the recording.
        seconds: of the recording; 0: unknown.
        charged: the samples and the period of each function of own code, with all that is charged to it (SampledFunctions).
    """

    path: str
    title: str
    seconds: float
    charged: Mapping[str, tuple[int, int]] = {}


def show_differences(by_event: Iterable[Difference], sides: Sequence[Side], console: Console, *, everything: bool = False) -> None:
    """Print the header, and for each event totals and rows; everything: also rows within noise."""
    differences = [*by_event]
    _show_verdict(differences, [side.charged for side in sides], console)
    for word, side in zip(("before", "after"), sides, strict=True):
        title = side.title if side.title != side.path else ""
        _line(console, Text.assemble(f"{word:7}", (visible(side.path), "bold"), "  ", (visible(title), "dim")))
    for difference in differences:
        _Event(difference, sides, console).show(everything=everything)


def _show_verdict(differences: Sequence[Difference], charged: Sequence[Mapping[str, tuple[int, int]]], console: Console) -> None:
    """Print the sentences on the first event that both recordings have."""
    verdicts = (change_verdict(difference, charged) for difference in differences)
    sentences = next(filter(None, verdicts), [])
    for sentence in sentences:
        console.print(Text("\n".join(wrap(sentence.text, console.width, break_on_hyphens=False)), style="bold"))
    if sentences:
        console.print()


class _Event:
    """The part of one event."""

    def __init__(self, difference: Difference, sides: Sequence[Side], console: Console) -> None:
        self._difference = difference
        self._sides = sides
        self._console = console
        self._totals = totals(difference)
        base = difference.histograms[0]
        assert base is not None
        attr = base.leader.event.attr
        self._amount: Callable[[float], str] = _milliseconds if attr.type == PerfType.SOFTWARE and attr.config in _CLOCKS else _number
        self._headers = [key.header.strip() for key in base.layout.keys][::-1]  # functions before their files

    def show(self, *, everything: bool) -> None:
        """Print the part."""
        before, after = self._totals
        self._console.print()
        header = "".join(f"{word:>{_WIDTH}}" for word in ("before", "after", "change"))
        _line(self._console, Text.assemble((f"{visible(event_name(self._difference.event)):18}"[:18], "bold"), (header, "dim")))
        self._total("samples", before.samples, after.samples, _number)
        certain = has_grown_or_shrunk(before, after)
        self._total("cost", before.period, after.period, self._amount, "" if certain else "within noise")
        seconds = [side.seconds for side in self._sides]
        if all(seconds):
            self._total("time recorded", seconds[0], seconds[1], _seconds)
        self._rows(everything=everything)

    def _total(self, name: str, before: float, after: float, amount: Callable[[float], str], remark: str = "") -> None:
        change = after - before
        sign = "+" if change > 0 else "-" if change < 0 else ""
        ratio = f"{after / before:8.2f}x" if before else " " * 9
        numbers = f"  {name:16}{amount(before):>{_WIDTH}}{amount(after):>{_WIDTH}}"
        _line(self._console, Text.assemble(numbers, (f"{sign + amount(abs(change)):>{_WIDTH}}{ratio}", _style(change)), f"  {remark}"))

    def _rows(self, *, everything: bool) -> None:
        rows = changed_rows(self._difference)
        certain = [row for row in rows if row.has_changed]
        rest = [row for row in rows if not row.has_changed]
        displayed = [*rest[::-1], *certain[::-1]] if everything else certain[:_MOST]
        if displayed:
            self._console.print()
            numbers = "".join(f"{word:>{_WIDTH}}" for word in ("before", "after", "change"))
            _line(self._console, Text(f"{numbers}  {'of all':>{_SHARE_WIDTH}}    {'  '.join(self._headers)}", style="dim"))
        for row in displayed:
            self._row(row)
        if not everything:
            self._rest(certain[_MOST:], rest, nothing=not certain)

    def _row(self, row: ChangedRow) -> None:
        before, after = self._totals
        points = _percent(row.after, after) - _percent(row.before, before)
        sign = "+" if row.change > 0 else "-" if row.change < 0 else ""
        change = f"{sign + self._amount(abs(row.change)):>{_WIDTH}}"
        text = Text.assemble(
            f"{self._amount(row.before.period):>{_WIDTH}}{self._amount(row.after.period):>{_WIDTH}}",
            (f"{change}{'*' if row.by_amount else ' '} ", _style(row.change) if row.by_amount else ""),
            (f"{points:+{_SHARE_WIDTH - 1}.1f}%{'*' if row.by_share else ' '}", _style(points) if row.by_share else ""),
            "   ",
            "  ".join(visible(_readable(name) or _NO_NAME) for name in row.names[::-1]),
        )
        _line(self._console, text)

    def _rest(self, more: Sequence[ChangedRow], rest: Sequence[ChangedRow], *, nothing: bool) -> None:
        """Print a line about the hidden rows."""
        self._console.print()
        if nothing:
            _line(self._console, Text("no row changed beyond sampling noise"))
        else:
            _line(self._console, Text(f"*: sampling alone would mark a row in {100 * LEVEL:.0f} of 100 such tables", style="dim"))
        hidden = len(more) + len(rest)
        if hidden:
            change = sum(row.change for row in (*more, *rest))
            sign = "+" if change > 0 else "-" if change < 0 else ""
            _line(
                self._console,
                Text(
                    f"{hidden:,} more row{'s' if hidden > 1 else ''}, {sign}{self._amount(abs(change))} in all; --all shows them",
                    style="dim",
                ),
            )


def _readable(name: str | None) -> str:
    return "Python" if name == PYTHON_IMAGE else readable(name or "")


def _percent(part: Amount, whole: Amount) -> float:
    return 100 * part.period / whole.period if whole.period else 0.0


def _style(change: float) -> str:
    return _MORE if change > 0 else _LESS if change < 0 else ""


def _milliseconds(nanoseconds: float) -> str:
    return f"{nanoseconds / 1e6:,.1f} ms"


def _seconds(seconds: float) -> str:
    return f"{seconds:,.3f} s"


def _number(number: float) -> str:
    """Format a count, abbreviated with k, M or G if long."""
    for letter, size in _UNITS:
        if number >= 100 * size:
            return f"{number / size:,.1f}{letter}"
    return f"{number:,.0f}"


def _line(console: Console, text: Text) -> None:
    console.print(text, overflow="ellipsis", no_wrap=True, soft_wrap=False)
