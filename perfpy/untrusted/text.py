r"""Make names that others chose visible as text.

A terminal obeys control characters (ECMA-48, C0 and C1), reorders text after a bidirectional override (UAX #9), and shows nothing for
characters without width. These are written as in perf's browser and `cat -v`: ^[ for C0, and \x9b or \u202e for all others. Bytes that are
not UTF-8 are escaped as surrogates.

Use `visible` for a name on a screen with columns, `one_line` for names and lines in pipes and files too, where other bytes remain
perf's; perfpy.untrusted.terminal handles everything else on the way to a terminal.
"""

from __future__ import annotations

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Final

_CARET = 0x40  # ^@ is 0, ^[ is ESC
_DELETE = 0x7F
_BYTES = range(0xDC80, 0xDD00)  # bytes that are not UTF-8, escaped
#: First and last of each range of characters that are invisible or change how their neighbours are displayed.
_UNSEEN: Final = (
    (0xAD, 0xAD),  # soft hyphen
    (0x61C, 0x61C),  # Arabic letter mark
    (0x180E, 0x180E),
    (0x200B, 0x200F),  # zero width; marks of direction
    (0x2028, 0x202E),  # line and paragraph separator; embedding and override of direction
    (0x2060, 0x206F),  # zero width; isolates of direction
    (0xFEFF, 0xFEFF),  # zero width no-break space
    (0xFFF9, 0xFFFB),  # interlinear annotations
    (0x1BCA0, 0x1BCA3),  # shorthand format controls
    (0x1D173, 0x1D17A),  # musical format controls
    (0xE0000, 0xE007F),  # tags
)

_signs: dict[int, str] = {}


def signs() -> dict[int, str]:
    """Return the replacement of each unsafe character, for str.translate."""
    if not _signs:  # built at the first use: most output goes to pipes
        _signs.update((code, f"^{chr(code ^ _CARET)}") for code in (*range(0x20), _DELETE))
        _signs.update((code, f"\\x{code:02x}") for code in range(0x80, 0xA0))
        _signs.update((code, f"\\x{code & 0xFF:02x}") for code in _BYTES)
        for first, last in _UNSEEN:
            _signs.update((code, f"\\u{code:04x}" if code < 1 << 16 else f"\\U{code:08x}") for code in range(first, last + 1))
    return _signs


def visible(text: str) -> str:
    r"""Escape a name for a screen: one line with visible characters only.

    >>> visible("\x1b]0;owned\x07 main\u202e")
    '^[]0;owned^G main\\u202e'
    """
    return text if text.isprintable() else text.translate(signs())


def one_line(text: str) -> str:
    r"""Escape a name for a line that programs read: its line breaks do not end the line.

    >>> one_line("sh\n1 forged")
    'sh^J1 forged'
    """
    if "\n" in text or "\r" in text:
        return text.replace("\n", "^J").replace("\r", "^M")
    return text


def one_line_bytes(text: bytes) -> bytes:
    """Escape text like one_line, in encoded form."""
    if b"\n" in text or b"\r" in text:
        return text.replace(b"\n", b"^J").replace(b"\r", b"^M")
    return text


def byte_width(text: str) -> int:
    """Return the length of a text as C's strlen does."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogateescape"))


def padded(text: str, width: int) -> str:
    """Return a text with blanks behind it up to a width in bytes, as C prints %-*s.

    >>> padded("käse", 6), f"{'käse':<6}"
    ('käse ', 'käse  ')
    """
    return text + " " * (width - byte_width(text))


def indented(text: str, width: int) -> str:
    """Return a text with blanks before it up to a width in bytes, as C prints %*s."""
    return " " * (width - byte_width(text)) + text


def lines(texts: Iterable[str]) -> Iterator[str]:
    """Yield each text as one line with a line feed, whatever names it contains."""
    return (f"{one_line(text)}\n" for text in texts)
