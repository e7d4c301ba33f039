"""The elements of perf's SVG files: times to pixels, the head of the file, sizes of texts.

Texts come from recordings: they are escaped here, and control characters become visible. The file has no scripts and no links. Its text is
that of perf 6.12, learnt from its charts; perf escapes nothing.
"""

from __future__ import annotations

from perfpy.abi.light_types import TYPE_CHECKING, NamedTuple
from perfpy.untrusted.text import visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Final


ROW: Final = 30  # pixels from one row to the next
BOX: Final = 25.0  # pixels of a row that are used
CPU_BOX: Final = ROW + BOX  # a CPU has two rows
_PERIOD: Final = 100_000_000  # charts begin at a multiple of this, nanoseconds
_SMALL_PERIOD: Final = 10_000_000
_LONG_PERIOD: Final = 1_000_000_000
_MOST_LINES: Final = 100_000
_WORD: Final = (1 << 64) - 1
_LARGEST_TEXT: Final = 10.0
_SMALLEST_TEXT: Final = 0.01
_STYLES: Final = (
    ("rect          ", "stroke-width: 1;"),
    ("rect.process  ", "fill:rgb(180,180,180); fill-opacity:0.9; stroke-width:1;   stroke:rgb(  0,  0,  0);"),
    ("rect.process2 ", "fill:rgb(180,180,180); fill-opacity:0.9; stroke-width:0;   stroke:rgb(  0,  0,  0);"),
    ("rect.process3 ", "fill:rgb(180,180,180); fill-opacity:0.5; stroke-width:0;   stroke:rgb(  0,  0,  0);"),
    ("rect.sample   ", "fill:rgb(  0,  0,255); fill-opacity:0.8; stroke-width:0;   stroke:rgb(  0,  0,  0);"),
    ("rect.sample_hi", "fill:rgb(255,128,  0); fill-opacity:0.8; stroke-width:0;   stroke:rgb(  0,  0,  0);"),
    ("rect.error    ", "fill:rgb(255,  0,  0); fill-opacity:0.5; stroke-width:0;   stroke:rgb(  0,  0,  0);"),
    ("rect.net      ", "fill:rgb(  0,128,  0); fill-opacity:0.5; stroke-width:0;   stroke:rgb(  0,  0,  0);"),
    ("rect.disk     ", "fill:rgb(  0,  0,255); fill-opacity:0.5; stroke-width:0;   stroke:rgb(  0,  0,  0);"),
    ("rect.sync     ", "fill:rgb(128,128,  0); fill-opacity:0.5; stroke-width:0;   stroke:rgb(  0,  0,  0);"),
    ("rect.poll     ", "fill:rgb(  0,128,128); fill-opacity:0.2; stroke-width:0;   stroke:rgb(  0,  0,  0);"),
    ("rect.blocked  ", "fill:rgb(255,  0,  0); fill-opacity:0.5; stroke-width:0;   stroke:rgb(  0,  0,  0);"),
    ("rect.waiting  ", "fill:rgb(224,214,  0); fill-opacity:0.8; stroke-width:0;   stroke:rgb(  0,  0,  0);"),
    ("rect.WAITING  ", "fill:rgb(255,214, 48); fill-opacity:0.6; stroke-width:0;   stroke:rgb(  0,  0,  0);"),
    ("rect.cpu      ", "fill:rgb(192,192,192); fill-opacity:0.2; stroke-width:0.5; stroke:rgb(128,128,128);"),
    ("rect.pstate   ", "fill:rgb(128,128,128); fill-opacity:0.8; stroke-width:0;"),
    ("rect.c1       ", "fill:rgb(255,214,214); fill-opacity:0.5; stroke-width:0;"),
    ("rect.c2       ", "fill:rgb(255,172,172); fill-opacity:0.5; stroke-width:0;"),
    ("rect.c3       ", "fill:rgb(255,130,130); fill-opacity:0.5; stroke-width:0;"),
    ("rect.c4       ", "fill:rgb(255, 88, 88); fill-opacity:0.5; stroke-width:0;"),
    ("rect.c5       ", "fill:rgb(255, 44, 44); fill-opacity:0.5; stroke-width:0;"),
    ("rect.c6       ", "fill:rgb(255,  0,  0); fill-opacity:0.5; stroke-width:0;"),
    ("line.pstate   ", "stroke:rgb(255,255,  0); stroke-opacity:0.8; stroke-width:2;"),
)


class Axis(NamedTuple):
    """The time of a chart, as pixels.

    Attributes:
        begin, end: nanoseconds.
        width: pixels.
    """

    begin: int
    end: int
    width: int

    @classmethod
    def of(cls, begin: int, end: int, width: int) -> Axis:
        """Return the axis of a recording: its beginning is rounded down."""
        return cls(begin // _PERIOD * _PERIOD, end, width)

    def x(self, time: int) -> float:
        """Return the pixels of a time; times before the chart wrap around, as in perf's."""
        return 1.0 * self.width * float((time - self.begin) & _WORD) / float(max(self.end - self.begin, 1))


def head(axis: Axis, rows: int, legend: Sequence[tuple[int, str, str]], *, fine: bool) -> Iterator[str]:
    """Yield the beginning of a file: styles, lines at round times, the legend.

    Args:
        axis: of the time.
        rows: of the chart.
        legend: (x, class, text) of each colour.
        fine: whether there is a line each 10 ms.
    """
    height = (rows + 1) * ROW
    yield '<?xml version="1.0" standalone="no"?> \n'
    yield '<!DOCTYPE svg SYSTEM "http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd">\n'
    yield f'<svg width="{axis.width}" height="{height}" version="1.1" xmlns="http://www.w3.org/2000/svg">\n'
    yield '<defs>\n  <style type="text/css">\n    <![CDATA[\n'
    for number, (name, style) in enumerate(_STYLES):
        yield f"      {name}{{ {style} }}{' ' if number else ''}\n"
    yield "    ]]>\n   </style>\n</defs>\n"
    step = _SMALL_PERIOD if fine else _PERIOD
    while (axis.end - axis.begin) // step > _MOST_LINES:  # a clock that jumped
        step *= 10
    for time in range(axis.begin, axis.end, step):
        grey, thickness = (220, 0.075) if time % _PERIOD else (192, 0.5) if time % _LONG_PERIOD else (128, 2.0)
        x = axis.x(time)
        style = f"stroke:rgb({grey},{grey},{grey});stroke-width:{thickness:.3f}"
        yield f'<line x1="{x:.8f}" y1="{ROW / 2:.2f}" x2="{x:.8f}" y2="{height}" style="{style}"/>\n'
    yield "<g>\n"
    size = BOX / 2
    for left, name, text in legend:
        yield f'<rect x="{left}" width="{size:.8f}" y="0" height="{size:.1f}" class="{name}"/>\n'
        yield f'<text transform="translate({left + size + 5:.8f}, {size:.8f})" font-size="{_LARGEST_TEXT:.8f}pt">{text}</text>\n'
    yield "</g>\n"


def text_size(width: float, largest: float = _LARGEST_TEXT) -> float:
    """Return the size of a text in a box, in points; 0 if it would be too small to read.

    >>> text_size(7.1), text_size(300.0, 5.0), text_size(0.001)
    (5.0, 5.0, 0.0)
    """
    size = _LARGEST_TEXT
    while size > width and size > _SMALLEST_TEXT:
        size /= 2
    return min(size, largest) if size > _SMALLEST_TEXT else 0.0


def escaped(text: str) -> str:
    r"""Return a text as the content of an element.

    >>> escaped("<script>a\x1b&b")
    '&lt;script&gt;a^[&amp;b'
    """
    # xml.sax would import urllib and email to do the same.
    text = visible(text).replace("&", "&amp;").replace(">", "&gt;").replace("<", "&lt;")
    return text.encode("utf-8", "replace").decode()


def time_text(nanoseconds: int) -> str:
    """Return a duration with its unit; nothing below a microsecond.

    >>> time_text(31_500), time_text(2_400_000), time_text(3 * 10**9), time_text(999)
    ('31.5 us', '2.4 ms', '3000.0 ms', '')
    """
    if nanoseconds < 1000:
        return ""
    if nanoseconds < 1_000_000:
        return f"{nanoseconds / 1000:.1f} us"
    return f"{nanoseconds / 1_000_000:.1f} ms"
