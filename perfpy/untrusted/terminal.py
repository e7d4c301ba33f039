"""The stream to a terminal, which obeys only perfpy's own control sequences.

Control characters in names are written as perfpy.untrusted.text escapes them; line feeds and tabs remain. Colours and cursor movements
begin with a character that no data can contain: bytes that are not UTF-8 are decoded as U+DC80 to U+DCFF (PEP 383), so nothing decodes
as U+DC00 to U+DC7F. perfpy's sequences begin with U+DC1B, which this stream converts to ESC.

A terminal whose locale is not UTF-8 (LC_ALL=C) gets bars, lines and arrows of ASCII, and other characters as escapes.

Other streams are unchanged: pipes and files get perf's bytes.
"""

from __future__ import annotations

import io
import os

from perfpy.untrusted.text import signs

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from typing import IO, Any, Final

_ESCAPE: Final = "\x1b"
_OUR_ESCAPE: Final = "\udc1b"
_OUR_RETURN: Final = "\udc0d"
_OURS: Final = {ord(_ESCAPE): _OUR_ESCAPE, ord("\r"): _OUR_RETURN}
_HARMLESS: Final = bytes([9, 10, *range(0x20, 0x7F)])
_UTF_8: Final = ("utf-8", "utf8")  # the names that locales have for it
#: drawn characters -> ASCII of the same width, but for the sign of an uncertainty
_ASCII: Final[dict[int, Any]] = {ord("±"): "+-"} | str.maketrans(
    "█▉▊▋▌▍▎▏▇▆▅▄▃▂▁─│┌┐└┘├┤┬┴┼━┃╺╸→←▶▼▲⋮…·",
    "#####:::*+=-:..-|+++++++++-|--><>v^:~.",
)


class Terminal(io.TextIOWrapper):
    """A text stream to a terminal that replaces another one, which stays open and must have been flushed.

    Args:
        stream: the replaced stream.
        under: receives the bytes instead of the terminal's descriptor.
    """

    def __init__(self, stream: IO[str], under: io.RawIOBase | None = None) -> None:
        super().__init__(
            # for the life of the stream, whose descriptor it is
            io.BufferedWriter(under) if under else open(stream.fileno(), "wb", closefd=False),  # noqa: SIM115
            encoding="utf-8" if "PYTHONUTF8" in os.environ or "PYTHONIOENCODING" in os.environ else "locale",
            errors="backslashreplace",
            line_buffering=True,
        )
        self._under = stream  # dropping the last reference would close the descriptor
        self._signs = {code: sign for code, sign in signs().items() if chr(code) not in "\n\t"}
        if self.encoding.lower() not in _UTF_8:
            self._signs |= _ASCII
        self._signs_and_ours = {**self._signs, ord(_OUR_ESCAPE): _ESCAPE, ord(_OUR_RETURN): "\r"}
        self._bytes = _Bytes(self, super().buffer)

    def over(self, under: io.RawIOBase) -> Terminal:
        """Return the same stream with something between it and the terminal."""
        return Terminal(self._under, under)

    def write(self, text: str, /) -> int:
        """Write text, with escaped control characters."""
        super().write(text.translate(self._signs_and_ours))
        return len(text)

    @property
    def buffer(self) -> Any:
        """A stream of bytes to the same terminal, with the same escaping."""
        return self._bytes

    def escape(self, text: str) -> str:
        """Return the text with all control characters escaped except line feeds and tabs."""
        return text.translate(self._signs)


class _Bytes(io.BufferedIOBase):
    """The stream of bytes of a Terminal."""

    def __init__(self, terminal: Terminal, out: Any) -> None:
        self._terminal = terminal
        self._out = out

    def write(self, data: Any, /) -> int:
        """Write bytes, which end with a complete character."""
        if bytes(data).translate(None, _HARMLESS):
            text = self._terminal.escape(bytes(data).decode("utf-8", "surrogateescape"))
            self._out.write(text.encode(self._terminal.encoding, "backslashreplace"))
        else:
            self._out.write(data)
        return len(data)

    def flush(self) -> None:
        """Flush the stream; do nothing if it is closed (Python 3.13 reports errors of discarded streams)."""
        if not self._out.closed:
            self._out.flush()

    def writable(self) -> bool:
        """Whether the stream is writable: always."""
        return True

    def fileno(self) -> int:
        """Return the terminal's descriptor."""
        return self._terminal.fileno()


def guard_terminal(stream: IO[str]) -> IO[str]:
    """Return a Terminal for a stream to a terminal, other streams unchanged."""
    if isinstance(stream, Terminal) or not isinstance(stream, io.TextIOWrapper) or not stream.isatty():
        return stream
    stream.flush()
    return Terminal(stream)


def escape_of(stream: IO[str]) -> str:
    """Return the prefix of colours in text for this stream, which replaces ESC."""
    return _OUR_ESCAPE if isinstance(stream, Terminal) else _ESCAPE


def control(stream: IO[str], text: str) -> None:
    """Write perfpy's text with control sequences; names in it must be escaped already."""
    stream.write(text.translate(_OURS) if isinstance(stream, Terminal) else text)


def clear_screen(stream: IO[str]) -> None:
    """Move the cursor to the first column of the first line, and clear the screen."""
    control(stream, f"{_ESCAPE}[H{_ESCAPE}[2J")


def without_colours(text: str) -> str:
    """Return the visible part of text with colours."""
    if _ESCAPE not in text:
        return text
    import re  # needed only for colours

    return re.sub(_ESCAPE + r"\[[\d;]*m", "", text)


class Painted:
    """A text stream for a library that writes its own control sequences around escaped text."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str, /) -> int:
        """Write the library's text."""
        control(self._stream, text)
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
