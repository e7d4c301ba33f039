"""Print the hottest functions on a terminal: the instructions with samples, and some lines around them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.text import Text

from perfpy.untrusted.text import visible
from perfpy.views.annotate.code_page import CodePage
from perfpy.views.report.screens.fitting import fit_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console

    from perfpy.analysis.annotation.annotated import AnnotatedFunction

_AROUND: Final = 3


def show_functions(functions: Iterable[AnnotatedFunction], title: str, console: Console) -> None:
    """Print the functions of one event."""
    for function in functions:
        page = CodePage(function)
        console.print(Text(fit_text(f"{visible(page.title)} of {visible(title)}", console.width), "bold"))
        for displayed in page.near_heat(_AROUND):
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
