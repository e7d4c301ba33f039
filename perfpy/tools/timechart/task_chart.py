"""The chart of CPUs and tasks: who ran where, who waited for a CPU or was blocked, who was woken, and how deeply CPUs slept.

The text is that of perf 6.12, learnt from its charts.
"""

from __future__ import annotations

import numpy as np

from perfpy.abi.light_types import TYPE_CHECKING, NamedTuple
from perfpy.tools.timechart.drawing import BOX, CPU_BOX, ROW, Axis, escaped, head, text_size, time_text
from perfpy.tools.timechart.task_history import BLOCKED, BLOCKED_UNTIL_RUN, RUNNING, WAITING, StateIntervals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Final

    from numpy.typing import NDArray

    from perfpy.tools.timechart.task_history import ChartedTask, PowerHistory, TaskHistory, TaskName


_LEGEND: Final = (
    (0, "sample", "Running"), (100, "c1", "Idle"), (200, "c3", "Deeper Idle"), (350, "c6", "Deepest Idle"),
    (550, "process2", "Sleeping"), (650, "waiting", "Waiting for cpu"), (800, "blocked", "Blocked on IO"),
)  # fmt: skip
_LONG_WAIT: Final = 10_000_000  # nanoseconds
_FIRST_THRESHOLD: Final = 10_000_000  # of run times, nanoseconds
_CPU_TEXT: Final = 5.0  # the largest size of a text in a box, points
_ROW_TEXT: Final = 1.25
_WAIT_TEXT: Final = 2.5
_MOST_CPUS: Final = 4096


class ChartParts(NamedTuple):
    """The contents of the chart.

    Attributes:
        width: pixels.
        least_tasks: the least number of tasks, if the recording has as many.
        is_chosen: whether to show a name of a task, by name and number; None: show the busiest.
        with_cpus: whether to show the states of CPUs.
        with_tasks: whether to show rows of tasks.
        position_of_cpu: the order of CPUs; CPUs that are absent keep their number.
        is_highlighted: whether to highlight a task, by its name and the length of the interval (nanoseconds).
        cpus: of the machine.
        cpu_model: of the machine.
        first, last: nanoseconds, of the first and the last sample of any event.
    """

    width: int
    least_tasks: int
    is_chosen: Callable[[str, int], bool] | None
    with_cpus: bool
    with_tasks: bool
    position_of_cpu: Mapping[int, int]
    is_highlighted: Callable[[str, int], bool]
    cpus: int
    cpu_model: str
    first: int
    last: int


def draw_tasks(history: TaskHistory, power: PowerHistory, parts: ChartParts) -> Iterator[str]:
    """Yield the text of the chart."""
    return _TaskChart(history, power, parts).pieces()


class _TaskChart:
    def __init__(self, history: TaskHistory, power: PowerHistory, parts: ChartParts) -> None:
        self._history = history
        self._power = power
        self._parts = parts
        self._axis = Axis.of(parts.first, parts.last, parts.width)
        self._cpus = min(max(history.cpus, power.cpus, parts.cpus), _MOST_CPUS)
        self._shown = _shown_names(history.tasks, parts) if parts.with_tasks else []
        self._intervals_of = _IntervalsByName(history.intervals)
        self._row_of: dict[int, int] = {}

    def pieces(self) -> Iterator[str]:
        rows = 2 * self._cpus + len(self._shown) + 1
        yield from head(self._axis, rows, _LEGEND, fine=True)
        for cpu in range(self._cpus):
            yield self._cpu_box(cpu)
        for task in self._history.tasks:
            for name in reversed(task.names):
                if name.comm is not None:
                    yield from self._cpu_intervals(task, name)
        row = 2 * self._cpus + 2
        for task, name in self._shown:
            yield from self._task_row(task, name, row)
            self._row_of[name.number] = row
            row += 1
        if self._parts.with_cpus:
            yield from power_elements(self._power, self._axis, self._parts.first, self._cpus, self._parts.position_of_cpu)
        if self._parts.with_tasks:
            tasks = {task.tid: task for task in self._history.tasks}
            for wakeup in reversed(self._history.wakeups):
                waker, woken = (self._row_at(tasks.get(tid), tid, wakeup.time) for tid in (0, wakeup.woken))
                yield wakeup_element(self._axis.x(wakeup.time), waker, woken)
        yield "</svg>\n"

    def _top_of_cpu(self, cpu: int) -> int:
        return ROW * (2 * self._parts.position_of_cpu.get(cpu, cpu) + 1)

    def _cpu_box(self, cpu: int) -> str:
        top, axis = self._top_of_cpu(cpu), self._axis
        left, right = axis.x(axis.begin), axis.x(axis.end)
        box = f'<g>\n<rect x="{left:.8f}" width="{right - left:.8f}" y="{top:.1f}" height="{CPU_BOX:.1f}" class="cpu"/>\n'
        label = f'<text x="{10 + left:.8f}" y="{top + BOX / 2:.8f}">CPU {cpu}</text>\n'
        model = f'<text transform="translate({10 + left:.8f},{top + CPU_BOX - 4:.8f})" font-size="1.25pt">{self._parts.cpu_model}</text>\n'
        return f"{box}{label}{model}</g>\n"

    def _cpu_intervals(self, task: ChartedTask, name: TaskName) -> Iterator[str]:
        """Yield the intervals of a task in the rows of the CPUs."""
        comm = escaped(name.comm or "")
        for kind, begin, end, cpu in self._intervals_of.newest_first(name.number):
            if kind != RUNNING:
                continue
            width = self._axis.x(end) - self._axis.x(begin)
            style = "sample_hi" if self._parts.is_highlighted(name.comm or "", end - begin) else "sample"
            size = text_size(width, _CPU_TEXT)
            text = f'<text transform="rotate(90)" font-size="{size:.8f}pt">{comm}</text>\n' if size else ""
            yield (
                f'<g transform="translate({self._axis.x(begin):.8f},{self._top_of_cpu(cpu):.8f})">\n'
                f"<title>{task.tid} {comm} running {time_text(end - begin)}</title>\n<desc>Switched because:\n</desc>\n"
                f'<rect x="0" width="{width:.8f}" y="0" height="{CPU_BOX:.1f}" class="{style}"/>\n{text}</g>\n'
            )

    def _task_row(self, task: ChartedTask, name: TaskName, row: int) -> Iterator[str]:
        axis, top = self._axis, row * ROW
        left, right = axis.x(name.begin), axis.x(name.end or axis.end)
        yield f'<rect x="{left:.8f}" width="{right - left:.8f}" y="{top:.1f}" height="{BOX:.1f}" class="process"/>\n'
        for kind, begin, end, cpu in self._intervals_of.newest_first(name.number):
            if kind == RUNNING:
                yield self._running(top, begin, end, cpu)
            elif kind in (BLOCKED, BLOCKED_UNTIL_RUN):
                yield self._blocked(top, begin, end, cpu, "" if kind == BLOCKED else "<desc>Blocked on:\n</desc>\n")
            elif kind == WAITING:
                yield self._waiting(top, begin, end, cpu)
        label = f"{escaped(name.comm or '')}:{task.tid} ({name.run_time / 1e6:.1f}ms)"
        yield f'<text x="{left:.8f}" y="{top + BOX / 2:.8f}">{label}</text>\n'

    def _running(self, top: int, begin: int, end: int, cpu: int) -> str:
        left = self._axis.x(begin)
        width = self._axis.x(end) - left
        size = text_size(width, _ROW_TEXT)
        kind = "sample_hi" if self._parts.is_highlighted("", end - begin) else "sample"  # perf highlights names in the rows of CPUs only
        text = f'<text x="{left:.8f}" y="{top + BOX - 1:.8f}" font-size="{size:.8f}pt">{cpu + 1}</text>\n' if size else ""
        return (
            f"<g>\n<title>#{cpu} running {time_text(end - begin)}</title>\n<desc>Switched because:\n</desc>\n"
            f'<rect x="{left:.8f}" width="{width:.8f}" y="{top:.1f}" height="{BOX:.1f}" class="{kind}"/>\n{text}</g>\n'
        )

    def _blocked(self, top: int, begin: int, end: int, cpu: int, description: str) -> str:
        left = self._axis.x(begin)
        width = self._axis.x(end) - left
        return (
            f"<g>\n<title>#{cpu} blocked {time_text(end - begin)}</title>\n{description}"
            f'<rect x="{left:.8f}" width="{width:.8f}" y="{top:.1f}" height="{BOX:.1f}" class="blocked"/>\n</g>\n'
        )

    def _waiting(self, top: int, begin: int, end: int, cpu: int) -> str:
        left, length = self._axis.x(begin), end - begin
        width = self._axis.x(end) - left
        kind = "WAITING" if length > _LONG_WAIT else "waiting"
        size = text_size(width, _WAIT_TEXT)
        text = f'<text transform="rotate(90)" font-size="{size:.8f}pt"> {time_text(length)}</text>\n' if size else ""
        return (
            f'<g transform="translate({left:.8f},{top:.8f})">\n<title>#{cpu} waiting {time_text(length)}</title>\n'
            "<desc>Waiting on:\n</desc>\n"
            f'<rect x="0" width="{width:.8f}" y="0" height="{BOX:.1f}" class="{kind}"/>\n{text}</g>\n'
        )

    def _row_at(self, task: ChartedTask | None, tid: int, time: int) -> tuple[int, str]:
        """Return the row and the name of a task at a time; row 0: the chart lacks it."""
        names = list(reversed(task.names)) if task else []
        shown = [name for name in names if name.number in self._row_of]
        current = [name for name in shown if name.begin <= time <= (name.end or self._axis.end)]
        named = [name for name in names if name.comm is not None]
        chosen = (current or shown or named[-1:])[:1]
        row = self._row_of.get(chosen[0].number, 0) if chosen else 0
        return row, escaped(chosen[0].comm or "") if chosen else f"[{tid}]"


class _IntervalsByName:
    """StateIntervals grouped by name."""

    def __init__(self, intervals: StateIntervals) -> None:
        order = np.argsort(intervals.name, kind="stable")
        self._intervals = StateIntervals._make(column[order] for column in intervals)

    def newest_first(self, number: int) -> Iterator[tuple[int, ...]]:
        """Return kind, begin, end and CPU of a name's intervals."""
        first, last = np.searchsorted(self._intervals.name, (number, number + 1))
        columns: Sequence[NDArray[np.int64]] = self._intervals[1:]
        return zip(*(column[first:last][::-1].tolist() for column in columns), strict=True)


def _shown_names(tasks: Sequence[ChartedTask], parts: ChartParts) -> list[tuple[ChartedTask, TaskName]]:
    """Return the names that have a row."""
    named = [(task, name) for task in tasks for name in reversed(task.names) if name.comm is not None]
    if parts.is_chosen is not None:
        return [(task, name) for task, name in named if parts.is_chosen(name.comm or "", task.tid)]
    threshold = _FIRST_THRESHOLD
    while threshold:
        busy = [(task, name) for task, name in named if name.run_time >= threshold]
        if len(busy) >= parts.least_tasks:
            return busy
        threshold //= 10
    return [(task, name) for task, name in named if name.run_time]


_DEEPEST: Final = 6
_LARGEST_LABEL: Final = 5.0
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
        size = text_size(width / 2, _LARGEST_LABEL)
        text = f'<text x="{axis.x(begin):.8f}" y="{top(cpu) + size:.8f}" font-size="{size:.8f}pt">C{depth}</text>\n' if size else ""
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
