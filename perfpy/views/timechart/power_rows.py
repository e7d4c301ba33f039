"""Idle states and frequencies in the rows of the CPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.views.timechart.drawing import CPU_BOX, ROW, Axis, text_size

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from perfpy.analysis.timechart.power import PowerHistory

_DEEPEST: Final = 6
_LARGEST_TEXT: Final = 5.0
_SMALLEST_TEXT: Final = 0.02
_MEGAHERTZ: Final = 1000  # kHz
_SHOWN_AS_GIGAHERTZ: Final = 1_500_000


def power_elements(power: PowerHistory, axis: Axis, first: int, cpus: int, position_of_cpu: Mapping[int, int]) -> Iterator[str]:
    """Yield idle states and frequencies, the newest first.

    Args:
        power: the states of the CPUs.
        axis: of the time.
        first: the time of the first event, nanoseconds.
        cpus: the number of CPUs.
        position_of_cpu: the order of CPUs; CPUs that are absent keep their number.
    """

    def top(cpu: int) -> int:
        return ROW * (2 * position_of_cpu.get(cpu, cpu) + 1)

    for cpu, begin, end, state in reversed(power.idle):
        depth = min(state, _DEEPEST)
        width = axis.x(end) - axis.x(begin)
        size = text_size(width, _LARGEST_TEXT)
        text = (
            f'<text x="{axis.x(begin):.8f}" y="{top(cpu) + size:.8f}" font-size="{size:.8f}pt">C{depth}</text>\n'
            if size > _SMALLEST_TEXT
            else ""
        )
        position = f'x="{axis.x(begin):.8f}" width="{width:.8f}" y="{top(cpu):.1f}" height="{CPU_BOX:.1f}"'
        yield f'<g>\n<rect class="c{depth}" {position}/>\n{text}</g>\n'
    frequencies = power.frequencies_until(axis.end, cpus, first)
    lowest = min((state for _, _, _, state in power.frequencies if state), default=0)
    turbo = _turbo_frequency(power)
    highest = max((state for _, _, _, state in frequencies), default=0)
    for cpu, begin, end, state in reversed(frequencies):
        frequency = state or lowest
        height = frequency * 1.0 / highest * CPU_BOX if highest else 0.0
        y = 1 + top(cpu) + CPU_BOX - height
        left, right = axis.x(begin), axis.x(end)
        name = "Turbo" if frequency == turbo else frequency_text(frequency)
        yield (
            f'<g>\n<line x1="{left:.8f}" x2="{right:.8f}" y1="{y:.1f}" y2="{y:.1f}" class="pstate"/>\n'
            f'<text x="{left:.8f}" y="{y + 0.9:.8f}" font-size="0.25pt">{name}</text>\n</g>\n'
        )


def _turbo_frequency(power: PowerHistory) -> int:
    """Return the frequency that stands for all faster ones: 1 MHz above the one below it, by the convention of acpi-cpufreq; 0: none."""
    highest = turbo = 0
    for state in power.set_frequencies:
        highest = max(highest, state)
        if state == highest - _MEGAHERTZ:
            turbo = highest
    return turbo


def frequency_text(kilohertz: int) -> str:
    """Return a frequency with its unit; "Turbo" if it is not known.

    >>> frequency_text(800_000), frequency_text(2_400_000), frequency_text(0)
    ('    800 Mhz', '   2.40 Ghz', 'Turbo')
    """
    if not kilohertz:
        return "Turbo"
    if kilohertz > _SHOWN_AS_GIGAHERTZ:
        return f"{(kilohertz + 5000.0) / 1_000_000:7.2f} Ghz"
    if kilohertz > _MEGAHERTZ:
        return f"{(kilohertz + 500) // _MEGAHERTZ:7d} Mhz"
    return f"{kilohertz:9d}"
