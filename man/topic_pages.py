"""Turn a topic of `perfpy help`, written in Markdown, into a manual page of section 7.

The layout is that of man(7). A table becomes one tagged paragraph for each row: the first cell is the tag, and each other cell follows with
the title of its column.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from markdown_it import MarkdownIt

if TYPE_CHECKING:
    from collections.abc import Iterator

    from markdown_it.token import Token


def escape(text: str) -> str:
    """Return text in which roff sees no request, escape or hyphen."""
    safe = text.replace("\\", "\\e").replace("-", "\\-")
    safe = "".join(sign if sign.isascii() else f"\\[u{ord(sign):04X}]" for sign in safe)
    return f"\\&{safe}" if safe.startswith((".", "'")) else safe


def topic_page(name: str, summary: str, text: str, version: str) -> str:
    """Return the page of a topic."""
    lines = [
        f'.TH PERFPY\\-{name.upper()} 7 "" "perfpy {version}" "perfpy manual"',
        ".SH NAME",
        escape(f"perfpy-{name} - {summary}"),
        ".SH DESCRIPTION",
        *_Page(MarkdownIt().enable("table").parse(text)).lines(),
        ".SH SEE ALSO",
        "\\fBperfpy\\fR(1),\n\\fBperfpy\\-help\\fR(1)",
    ]
    return "\n".join(lines) + "\n"


class _Page:
    """The tokens of one Markdown text, and the roff lines made of them."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = iter(tokens)
        self._titles: list[str] = []
        self._cells: list[str] = []

    def lines(self) -> Iterator[str]:
        """Yield the lines."""
        for token in self._tokens:
            match token.type:
                case "heading_open":
                    yield from self._heading(token)
                case "paragraph_open" if token.level == 0:
                    yield ".PP"
                case "list_item_open":
                    yield ".IP \\(bu 2"
                case "inline":
                    yield from _inline(token).splitlines()
                case "fence" | "code_block":
                    yield from (".PP", ".EX", *(escape(f"    {line}") for line in token.content.splitlines()), ".EE")
                case "tr_open":
                    yield from self._row()

    def _heading(self, token: Token) -> Iterator[str]:
        title = next(self._tokens)
        if token.tag != "h1":
            yield f'.SH "{escape(title.content)}"'

    def _row(self) -> Iterator[str]:
        """Yield a row of a table, or keep the titles that its head has."""
        cells = []
        is_head = False
        for token in self._tokens:
            if token.type == "tr_close":
                break
            is_head = is_head or token.type == "th_open"
            if token.type == "inline":
                cells.append(_inline(token))
        if is_head:
            self._titles = cells
            return
        yield from (".TP", cells[0] or "\\&")
        for title, cell in zip(self._titles[1:], cells[1:], strict=True):
            if cell:
                yield f"\\fI{title}:\\fR {cell}" if len(self._titles) > 2 else cell
                yield ".br"


def _inline(token: Token) -> str:
    """Return the text of a paragraph or cell: code in bold, links as their text."""
    parts = []
    for child in token.children or ():
        match child.type:
            case "code_inline":
                parts.append(f"\\fB{escape(child.content)}\\fR")
            case "strong_open":
                parts.append("\\fB")
            case "strong_close":
                parts.append("\\fR")
            case "softbreak":
                parts.append("\n")
            case "text":
                parts.append(escape(child.content))
    lines = "".join(parts).splitlines()
    return "\n".join(f"\\&{line}" if line.startswith((".", "'")) else line for line in lines)
