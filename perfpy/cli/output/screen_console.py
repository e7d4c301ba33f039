"""Views through rich: rich's colours reach the terminal, control characters in the text do not."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, cast

from rich.console import Console
from rich.segment import Segment

from perfpy.untrusted.text import signs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import ConsoleOptions, RenderableType

_SIGNS = {code: sign for code, sign in signs().items() if code != ord("\n")}  # Newlines end rich's own lines.


class ScreenConsole(Console):
    """A console without markup, and without highlighting of guessed numbers."""

    def __init__(self, stream: IO[str], *, colour: bool) -> None:
        from perfpy.untrusted.terminal import Painted

        file = cast("IO[str]", Painted(stream))
        super().__init__(file=file, markup=False, highlight=False, emoji=False, no_color=not colour, soft_wrap=True)

    def on_broken_pipe(self) -> None:
        """Let the exception through: leaving the pager ends the command as for pipes (see perfpy.cli); rich would exit with 1."""
        raise  # noqa: PLE0704  # rich calls it in an exception handler

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render as rich does, with every control character of the text made visible."""
        for segment in super().render(renderable, options):
            text = segment.text
            if segment.control or text.isprintable():
                yield segment
            else:
                yield Segment(text.translate(_SIGNS), segment.style)
