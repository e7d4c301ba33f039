"""The elements of an SVG file: rows over time, rectangles with titles, lines, texts.

Texts come from recordings: they are escaped here, and control characters become visible. The file has no scripts and no links.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple
from xml.sax.saxutils import escape

from perfpy.untrusted.text import visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROW: Final = 30.0  # pixels from one row to the next
BOX: Final = 25.0  # pixels of a row that are used
_MARGIN: Final = 15.0
_SECOND: Final = 1_000_000_000
_ROUND_FACTORS: Final = (1, 2, 5)
_MOST_LINES: Final = 40
_STYLE: Final = """\
text { font-family: sans-serif; font-size: 10px; fill: #222; }
rect.box { fill: #b4b4b4; fill-opacity: 0.35; }
rect.cpu { fill: #c0c0c0; fill-opacity: 0.2; stroke: #808080; stroke-width: 0.5; }
rect.running { fill: #0000ff; fill-opacity: 0.8; }
rect.highlighted { fill: #ff8000; fill-opacity: 0.8; }
rect.waiting { fill: #e0d600; fill-opacity: 0.8; }
rect.blocked { fill: #ff0000; fill-opacity: 0.5; }
rect.idle1 { fill: #ffd6d6; } rect.idle2 { fill: #ff8282; } rect.idle3 { fill: #ff2c2c; }
rect.disk { fill: #0000ff; fill-opacity: 0.5; }
rect.net { fill: #008000; fill-opacity: 0.5; }
rect.sync { fill: #808000; fill-opacity: 0.5; }
rect.poll { fill: #008080; fill-opacity: 0.2; }
rect.error { fill: #ff0000; fill-opacity: 0.5; }
line.time { stroke: #dcdcdc; stroke-width: 0.5; }
line.wakeup { stroke: #006400; stroke-width: 0.5; stroke-opacity: 0.6; }
polyline.frequency { fill: none; stroke: #c8a000; stroke-width: 1; }
"""


class Bar(NamedTuple):
    """A rectangle in a row.

    Attributes:
        row: from 0.
        begin, end: nanoseconds.
        kind: its class.
        title: shown by the browser on hover.
        top, height: as shares of the row.
    """

    row: int
    begin: int
    end: int
    kind: str
    title: str = ""
    top: float = 0.0
    height: float = 1.0


class Drawing:
    """An SVG file of rows over a time.

    Args:
        begin, end: of the time, nanoseconds.
        width: pixels.
        legend: (class, text) of the colours.
    """

    def __init__(self, begin: int, end: int, width: int, legend: Sequence[tuple[str, str]]) -> None:
        self._begin = begin
        self._scale = width / max(end - begin, 1)
        self._width = width
        self._seconds = max(end - begin, 0)
        self._legend = legend
        self._elements: list[str] = []
        self._rows = 0

    def add_row(self) -> int:
        """Begin a row; return its number."""
        self._rows += 1
        return self._rows - 1

    def add_bar(self, bar: Bar) -> None:
        """Add a rectangle."""
        x, top = self._x(bar.begin), self._top(bar.row) + bar.top * BOX
        size = f'width="{max(self._x(bar.end) - x, 0.01):.2f}" height="{bar.height * BOX:.1f}"'
        title = f"<title>{_text(bar.title)}</title>" if bar.title else ""
        self._elements.append(f'<rect class="{bar.kind}" x="{x:.2f}" y="{top:.1f}" {size}>{title}</rect>\n')

    def add_text(self, row: int, begin: int, text: str) -> None:
        """Add a text at a time of a row."""
        self._elements.append(f'<text x="{self._x(begin) + 2:.2f}" y="{self._top(row) + BOX / 2 + 3:.1f}">{_text(text)}</text>\n')

    def add_line(self, rows: tuple[int, int], time: int) -> None:
        """Add a vertical line between two rows: a wakeup."""
        upper, lower = min(rows), max(rows)
        ends = f'y1="{self._top(upper) + BOX:.1f}" y2="{self._top(lower):.1f}"'
        self._elements.append(f'<line class="wakeup" x1="{self._x(time):.2f}" x2="{self._x(time):.2f}" {ends}/>\n')

    def add_curve(self, row: int, points: Sequence[tuple[int, float]]) -> None:
        """Add a line through values of 0 to 1 at times of a row."""
        positions = (f"{self._x(time):.2f},{self._top(row) + BOX * (1 - value):.1f}" for time, value in points)
        self._elements.append(f'<polyline class="frequency" points="{" ".join(positions)}"/>\n')

    def pieces(self) -> Iterator[str]:
        """Yield the text of the file."""
        height = int(2 * _MARGIN + self._rows * ROW)
        yield '<?xml version="1.0" encoding="UTF-8"?>\n'
        yield f'<svg xmlns="http://www.w3.org/2000/svg" version="1.1" width="{self._width}" height="{height}">\n'
        yield f"<style>\n{_STYLE}</style>\n"
        yield from self._times(height)
        for number, (kind, text) in enumerate(self._legend):
            yield f'<rect class="{kind}" x="{number * 130}" y="0" width="12" height="12"/>'
            yield f'<text x="{number * 130 + 16}" y="10">{_text(text)}</text>\n'
        yield from self._elements
        yield "</svg>\n"

    def _times(self, height: int) -> Iterator[str]:
        """Yield a line at round times, so that there are at most 40."""
        step = next(size * factor for size in _powers() for factor in _ROUND_FACTORS if self._seconds <= size * factor * _MOST_LINES)
        for number in range(self._seconds // step + 1):
            x = self._x(self._begin + number * step)
            yield f'<line class="time" x1="{x:.2f}" x2="{x:.2f}" y1="{_MARGIN}" y2="{height}"/>\n'

    def _x(self, time: int) -> float:
        return min(max((time - self._begin) * self._scale, 0.0), float(self._width))

    def _top(self, row: int) -> float:
        return 2 * _MARGIN + row * ROW


def _powers() -> Iterator[int]:
    size = 1
    while True:
        yield size
        size *= 10


def _text(text: str) -> str:
    r"""Return a text as the content of an element.

    >>> _text("<script>a\x1b&b")
    '&lt;script&gt;a^[&amp;b'
    """
    return escape(visible(text)).encode("utf-8", "replace").decode()


def time_text(nanoseconds: int) -> str:
    """Return a duration with its unit.

    >>> time_text(31_500), time_text(2_400_000), time_text(3 * 10**9)
    ('31.5 us', '2.4 ms', '3.00 s')
    """
    if nanoseconds < 1_000_000:
        return f"{nanoseconds / 1000:.1f} us"
    return f"{nanoseconds / 1_000_000:.1f} ms" if nanoseconds < _SECOND else f"{nanoseconds / _SECOND:.2f} s"
