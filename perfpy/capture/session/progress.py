"""The progress of a recording, as one line on a terminal: time, samples, losses, the file's size, and the rate of each event.

Samples are estimated from the bytes of the ring buffers and the size of one record in some thousands.
"""

from __future__ import annotations

import os
import struct
import sys
from typing import TYPE_CHECKING, Final

from perfpy.abi.flags import RecordType
from perfpy.capture.rings.sample_attrs import is_dummy
from perfpy.errors import PerfError
from perfpy.untrusted.terminal import control

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfpy.abi.attr import EventAttr
    from perfpy.capture.output.draining import Held
    from perfpy.capture.output.output import RecordOutput
    from perfpy.capture.rings.sample_counters import SampleCounters

_EVERY: Final = 1.0  # seconds
_LOOKED_AT: Final = 64  # records of a ring buffer
_HEADER: Final = struct.Struct("=IHH")
_CLOCKS: Final = ("cpu-clock", "task-clock")
_EVENTS: Final = 3  # events in the line
_WIDTH: Final = 80  # of a terminal that does not report it
_UNITS: Final = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


def progress_line(command: Sequence[str], counters: SampleCounters, output: RecordOutput, start: float) -> ProgressLine | None:
    """Return the line of a recording that begins at `start`; None if the command may write to the terminal (`sleep` does not)."""
    is_silent = not command or os.path.basename(command[0]) == "sleep"
    return ProgressLine(counters, output, start) if is_silent and os.environ.get("TERM", "dumb") != "dumb" else None


class ProgressLine:
    """The line of one recording; an alarm of Attention."""

    def __init__(self, counters: SampleCounters, output: RecordOutput, start: float) -> None:
        self._counters = counters
        self._output = output
        self._start = self._last = start
        self._next = start + _EVERY
        self._values: dict[str, int] = {}
        self._samples = 0
        self._looked_bytes = self._looked_samples = 0
        self._last_bytes = output.bytes_read
        self._is_visible = False

    def wait(self, now: float) -> float:
        """Return the seconds until the line is due."""
        return max(self._next - now, 0.0)

    def ring(self, now: float) -> None:
        """Update the line."""
        if now < self._next:
            return
        self._next = now + _EVERY
        rates, lost = self._measure(now - self._last)
        self._last = now
        self._show(self._line(now, rates, lost))

    def inspect(self, held: Held) -> None:
        """Inspect a few records of a ring buffer for the size of a sample."""
        data = held[0]
        offset = 0
        for _ in range(_LOOKED_AT):
            if offset + _HEADER.size > len(data):
                break
            kind, _, size = _HEADER.unpack_from(data, offset)
            if size < _HEADER.size or offset + size > len(data):
                break
            self._looked_samples += kind == RecordType.SAMPLE
            offset += size
        self._looked_bytes += offset

    def clear(self) -> None:
        """Clear the line before other output."""
        if self._is_visible:
            control(sys.stderr, "\r\x1b[K")
            self._is_visible = False

    def _measure(self, seconds: float) -> tuple[dict[str, float], int]:
        """Return the events per second since the last line, and the total of lost samples."""
        values: dict[str, int] = {}
        attrs: dict[str, EventAttr] = {}
        lost = 0
        for one in self._counters.opened:
            if is_dummy(one.event):
                continue
            try:
                reading = one.counter.read()
            except (PerfError, OSError):  # a CPU that went offline, a pinned event
                continue
            values[one.event.name] = values.get(one.event.name, 0) + reading.value
            attrs[one.event.name] = one.event.attr
            lost += reading.lost or 0
        rates = {name: (value - self._values.get(name, 0)) / seconds for name, value in values.items()}
        self._values = values
        return rates, lost

    def _count(self) -> int:
        """Return the estimated number of samples."""
        size = self._output.bytes_read
        if self._looked_bytes:
            self._samples += round((size - self._last_bytes) * self._looked_samples / self._looked_bytes)
        self._last_bytes = size
        return self._samples

    def _line(self, now: float, rates: dict[str, float], lost: int) -> str:
        size = self._output.size / (1 << 20)
        events = ", ".join(f"{name} {_rate(name, rate)}" for name, rate in list(rates.items())[:_EVENTS])
        others = f", {len(rates) - _EVENTS} more" if len(rates) > _EVENTS else ""
        parts = f"{now - self._start:.0f} s, ~{_short(self._count())} samples, {lost} lost, {size:.1f} MB"
        return f"[ perf record: {parts}; {events}{others}; Ctrl-C stops it ]"

    def _show(self, line: str) -> None:
        width = os.get_terminal_size(sys.stderr.fileno()).columns or _WIDTH
        control(sys.stderr, "\r\x1b[K")
        sys.stderr.write(line[: max(width - 1, 1)])
        sys.stderr.flush()
        self._is_visible = True


def _rate(name: str, rate: float) -> str:
    """Format a rate; clocks count nanoseconds of a CPU."""
    if name.split(":", maxsplit=1)[0] in _CLOCKS:
        return f"{rate / 1e9:.2f} CPUs"
    return f"{_short(rate)}/s"


def _short(number: float) -> str:
    for factor, unit in _UNITS:
        if number >= factor:
            return f"{number / factor:.1f}{unit}"
    return f"{number:.0f}"
