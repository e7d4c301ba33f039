"""A function's code for screens: instructions with their heat, source lines, and jumps.

Heat is relative to the hottest instruction, so that a function of a thousand cool ones still shows its warmest.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from perfpy.errors import plural
from perfpy.untrusted.text import visible
from perfpy.views.report.screen_table import fit_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rich.console import Console

    from perfpy.analysis.annotation import AnnotatedFunction
    from perfpy.disassembly.disassembler import AsmLine


_SHARE: Final = 7  # columns: 100.00%
#: the least part of the hottest instruction's share for each style
_HEAT: Final = ((0.6, "bold white on red"), (0.25, "bold red"), (0.05, "magenta"), (0.0, ""))
#: a code address in an instruction: objdump's 1f <f+0xf>, capstone's 0x1f
_TARGET: Final = re.compile(r"(?:^|[ ,#])(?:0x([0-9a-f]+)|([0-9a-f]+) <.*>)$")
_COMMENT: Final = re.compile(r"\s(?:#|//)\s")
#: instructions that return from there, or only take the address
_CALLS: Final = frozenset(("bl", "blx", "brasl", "bras", "jal", "jalr", "adr", "adrp", "larl", "auipc"))
_INDENT: Final = "  "


class Jump(NamedTuple):
    """A jump from one line of a page to another."""

    source: int
    target: int

    def mark(self, line: int) -> str:
        """Return the two columns drawn in front of a line."""
        low, high = sorted(self)
        if not low <= line <= high:
            return "  "
        corner = "┌" if line == low else "└" if line == high else "│"
        return corner + (" " if corner == "│" else "▶" if line == self.target else "─")


class CodePage:
    """The lines of a function: `lines`, numbered from 0; source: include source lines."""

    def __init__(self, function: AnnotatedFunction, *, source: bool = True) -> None:
        self.function = function
        self.lines: Sequence[AsmLine] = [line for line in _without_heading(function.lines) if source or line.is_code]
        first = function.hot.hits[0]
        samples = f"{first.total_samples:,} {plural(first.total_samples, 'sample')}"
        self.title = f"{function.name}  {function.dso.short_name}  {function.hot.percent:.2f}%  {samples}"

    @cached_property
    def _shares(self) -> list[float]:
        """The share of each line; -1 for lines that are no instructions."""
        from perfpy.analysis.annotation import ShareOf

        shares = iter(self.function.shares(ShareOf())[0].tolist())
        return [next(shares) if line.is_code else -1.0 for line in self.lines]

    @cached_property
    def most(self) -> float:
        """The share of the hottest instruction."""
        return max(self._shares, default=0.0)

    @property
    def hottest(self) -> int:
        """The line of the hottest instruction, the first of several."""
        return self._shares.index(self.most) if self._shares else 0

    @cached_property
    def by_heat(self) -> list[int]:
        """The lines with samples, hottest first."""
        return sorted((number for number, share in enumerate(self._shares) if share > 0), key=lambda number: -self._shares[number])

    def line_at(self, offset: int) -> int:
        """Return the line of the instruction at an offset."""
        return self._line_of.get(offset, 0)

    @cached_property
    def _line_of(self) -> dict[int, int]:
        return {line.offset: number for number, line in enumerate(self.lines) if line.is_code}

    @cached_property
    def jumps(self) -> list[Jump]:
        """All jumps within the function."""
        targets = ((number, self._target(line)) for number, line in enumerate(self.lines) if line.is_code)
        return [Jump(number, target) for number, target in targets if target is not None]

    def _target(self, line: AsmLine) -> int | None:
        """Return the target line of a jump; None for other instructions."""
        address = _TARGET.search(_COMMENT.split(line.text)[0].rstrip())
        if address is None or any(word in _CALLS or word.startswith("call") for word in line.text.split()):
            return None
        return self._line_of.get(int(address[1] or address[2], 16) - self.function.start)

    def jumps_at(self, line: int) -> list[Jump]:
        """Return the jump at a line, or the jumps to it."""
        return [jump for jump in self.jumps if jump.source == line] or [jump for jump in self.jumps if jump.target == line]

    def text(self, number: int, width: int, jumps: Sequence[Jump] = ()) -> Text:
        """Return one line; jumps: to draw."""
        line, share = self.lines[number], self._shares[number]
        mark = next((arrow for jump in jumps if (arrow := jump.mark(number)).strip()), "  ")
        if not line.is_code:
            text = _truncate(visible(line.text), max(width - _SHARE - 3 - line.indent, 8))
            return Text.assemble(" " * (_SHARE + 1), (mark, "dim"), (" " * line.indent + text, "dim"))
        heat = f"{share:{_SHARE - 1}.2f}%" if share else " " * _SHARE
        code = f"{self.function.start + line.offset:>8x}{_INDENT}{visible(' '.join(line.text.split(None, 0)).expandtabs())}"
        room = max(width - _SHARE - 3, 8)
        return Text.assemble((heat, heat_style(share, self.most)), " ", (mark, "dim"), _truncate(code, room))

    def near_heat(self, around: int) -> Iterator[int | range]:
        """Yield the numbers of lines close to one with samples, and ranges in place of the others."""
        close = {near for number, share in enumerate(self._shares) if share > 0 for near in range(number - around, number + around + 1)}
        begin: int | None = None
        for number in range(len(self.lines)):
            if number not in close:
                begin = number if begin is None else begin
                continue
            if begin is not None:
                yield range(begin, number)
                begin = None
            yield number
        if begin is not None:
            yield range(begin, len(self.lines))


def _truncate(text: str, room: int) -> str:
    """Truncate a line of code at its end."""
    return text if cell_len(text) <= room else set_cell_size(text, room - 1) + "…"


def heat_style(share: float, most: float) -> str:
    """Return rich's style for a share; "" for none."""
    if share <= 0 or most <= 0:
        return ""
    return next(style for least, style in _HEAT if share / most >= least)


def _without_heading(lines: Sequence[AsmLine]) -> Sequence[AsmLine]:
    """Drop the lines of disassemblers before the code: the section and the function."""
    first = next((number for number, line in enumerate(lines) if line.text.endswith(">:") or line.is_code), 0)
    return [line for line in lines[first + (not lines[first].is_code) :] if line.text] if lines else lines


# Print the hottest functions on a terminal: the instructions with samples, and some lines around them.


_AROUND: Final = 3
_AROUND_HOTTEST: Final = 6
_NEAR_TITLE: Final = 16  # lines below it: the hottest instruction there needs no copy in front


def show_functions(functions: Iterable[AnnotatedFunction], title: str, console: Console) -> None:
    """Print the functions of one event: long ones begin with the lines around the hottest instruction."""
    for function in functions:
        page = CodePage(function)
        console.print(Text(fit_text(f"{visible(page.title)} of {visible(title)}", console.width), "bold"))
        lines = [*page.near_heat(_AROUND)]
        if page.hottest not in lines[:_NEAR_TITLE]:
            console.print(Text("hottest lines", "dim"))
            for number in range(max(page.hottest - _AROUND_HOTTEST, 0), min(page.hottest + _AROUND_HOTTEST, len(page.lines))):
                console.print(page.text(number, console.width, page.jumps_at(page.hottest)))
            console.print(Text("from the beginning of the function", "dim"))
        for displayed in lines:
            if isinstance(displayed, range):
                console.print(_left_out(page, displayed))
            else:
                console.print(page.text(displayed, console.width, page.jumps_at(page.hottest)))
        console.print()


def _left_out(page: CodePage, lines: range) -> Text:
    """Return a line with the number of skipped instructions."""
    count = sum(page.lines[number].is_code for number in lines)
    hidden_lines = f"{count} instruction{'s' * (count != 1)} without samples" if count else "lines of source code"
    return Text(f"{'⋮':>7}   {hidden_lines}", "dim")
