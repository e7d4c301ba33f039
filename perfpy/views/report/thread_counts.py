"""`report -T`: the counts of each thread, for recordings made with `record -s`.

The counts come from READ records; damaged ones are skipped. Lines are perf's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.abi.readings import decode_read
from perfpy.abi.records import Read

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.abi.readings import Reading
    from perfpy.views.recorded import Recorded


def thread_count_lines(recording: Recorded) -> Iterator[str]:
    """Yield a table: a line for each thread, a column for each event."""
    event_of = {number: event for event in recording.events for number in event.ids}
    counts: dict[tuple[int, int], dict[int, int]] = {}
    for side in recording.side_band():
        record = side.record
        if not isinstance(record, Read):
            continue
        of_thread = counts.setdefault((record.pid, record.tid), {})
        for reading in _readings(record, recording):
            event = event_of.get(reading.id or 0, recording.events[0])
            of_thread[event.index] = of_thread.get(event.index, 0) + reading.value
    indexes = list(dict.fromkeys(index for of_thread in counts.values() for index in of_thread))
    names = {index: recording.events[index].name for index in indexes}
    pid_width = max([3, *(len(str(pid)) for pid, _ in counts)])
    tid_width = max([3, *(len(str(tid)) for _, tid in counts)])
    widths = {index: max([len(names[index]), *(len(str(of_thread.get(index, 0))) for of_thread in counts.values())]) for index in indexes}
    yield f"# {'PID':>{pid_width}}  {'TID':>{tid_width}}" + "".join(f"  {names[index]:>{widths[index]}}" for index in indexes)
    for (pid, tid), of_thread in counts.items():
        numbers = "".join(f"  {of_thread.get(index, 0):>{widths[index]}}" for index in indexes)
        yield f"  {pid:>{pid_width}}  {tid:>{tid_width}}{numbers}"


def _readings(record: Read, recording: Recorded) -> list[Reading]:
    try:
        return decode_read(record.values, recording.events[0].attr.read_format, recording.data.endian)
    except (ValueError, IndexError):
        return []
