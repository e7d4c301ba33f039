"""Lines of wakeups, from the row of the waker to that of the woken task."""

from __future__ import annotations

from typing import Final

from perfpy.views.timechart.drawing import BOX, ROW

_STUB: Final = ROW / 32  # the length of a line that ends before it reaches the other row
_STYLE: Final = 'style="stroke:rgb(32,255,32);stroke-width:0.009"'


def wakeup_element(x: float, waker: tuple[int, str], woken: tuple[int, str]) -> str:
    """Return the element of a wakeup.

    Args:
        x: pixels.
        waker, woken: row and name of each task; row 0: the chart lacks it.
    """
    first, second = waker[0], woken[0]
    if first and second and abs(first - second) == 1:
        return f"<g>\n<desc></desc>\n{_line(x, first, second)}{_circle(x, first, second)}</g>\n"
    title = f"<g>\n<title>{waker[1]} wakes up {woken[1]}</title>\n<desc></desc>\n"
    circle = _circle(x, first, second) if first else ""
    return f"{title}{_stubs(x, waker, woken)}{circle}</g>\n"


def _line(x: float, first: int, second: int) -> str:
    upper, lower = sorted((first, second))
    return f'<line x1="{x:.8f}" y1="{upper * ROW + BOX:.2f}" x2="{x:.8f}" y2="{lower * ROW:.2f}" {_STYLE}/>\n'


def _circle(x: float, first: int, second: int) -> str:
    y = first * ROW + (BOX if first < second else 0)
    return f'<circle  cx="{x:.8f}" cy="{y:.2f}" r = "0.01"  style="fill:rgb(32,255,32)"/>\n'


def _stubs(x: float, waker: tuple[int, str], woken: tuple[int, str]) -> str:
    """Return a short line at each row, with the name of the other task."""
    first, second = waker[0], woken[0]
    parts = []
    if first < second:
        if first:
            top = first * ROW + BOX
            parts += [_stub(x, top, top + _STUB), _name(x, top + BOX / 48, f"{woken[1]} &gt;")]
        if second:
            top = second * ROW - _STUB
            parts += [_stub(x, top, top + _STUB), _name(x, top, f"{waker[1]} &gt;")]
    else:
        if second:
            top = second * ROW + BOX
            parts += [_stub(x, top, top + _STUB), _name(x, top + ROW / 48, f"{waker[1]} &lt;")]
        if first:
            top = first * ROW - _STUB
            parts += [_stub(x, top, top + _STUB), _name(x, first * ROW - BOX / 32, f"{woken[1]} &lt;")]
    return "".join(parts)


def _stub(x: float, top: float, bottom: float) -> str:
    return f'<line x1="{x:.8f}" y1="{top:.2f}" x2="{x:.8f}" y2="{bottom:.2f}" {_STYLE}/>\n'


def _name(x: float, y: float, text: str) -> str:
    return f'<g transform="translate({x:.8f},{y:.8f})"><text transform="rotate(90)" font-size="0.02pt">{text}</text></g>\n'
