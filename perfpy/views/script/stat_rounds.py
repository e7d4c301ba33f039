"""The counts of `perf stat record` as `perf script` prints them: the counts of every round."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perfpy.abi.perf_records import user_records
from perfpy.untrusted.text import one_line
from perfpy.views.records.record_text import signed_number

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perfpy.perfdata.container.events import FileEvent

    _Counted = tuple[FileEvent, int, int, tuple[int, int, int]]

_HEAD = f"{'CPU':>3} {'THREAD':>8} {'VAL':>15} {'ENA':>15} {'RUN':>15} {'TIME':>15} EVENT\n"


class StatRounds:
    """The counts of a file, from its THREAD_MAP, CPU_MAP, STAT and STAT_ROUND records in order of delivery."""

    def __init__(self, events: Sequence[FileEvent]) -> None:
        self._events = events
        self._event_of = {ident: event.index for event in events for ident in event.ids}
        self._threads: tuple[int, ...] = ()
        self._cpus: tuple[int, ...] = ()
        self._counts: dict[tuple[int, int, int], user_records.Stat] = {}  # by event, cpu, index of the thread
        self._before: dict[tuple[int, int, int], user_records.Stat] = {}  # those of the previous round
        self._is_first = True

    def lines(self, record: Any) -> str:
        """Return the lines of a record: those of a STAT_ROUND, none for others."""
        counts = self.counts(record)
        return "".join(self._round(counts, record.time)) if isinstance(record, user_records.StatRound) else ""

    def counts(self, record: Any) -> list[_Counted]:
        """Return the counts of a STAT_ROUND: each event's value, time enabled and time running by CPU and thread."""
        if isinstance(record, user_records.ThreadMap):
            self._threads = tuple(signed_number(pid & 0xFFFFFFFF) for pid, _ in record.threads)
        elif isinstance(record, user_records.CpuMap):
            self._cpus = record.cpus
        elif isinstance(record, user_records.Stat) and record.id in self._event_of:
            self._counts[self._event_of[record.id], signed_number(record.cpu), record.thread] = record
        elif isinstance(record, user_records.StatRound):
            counts = list(self._of_round())
            self._before = dict(self._counts)
            return counts
        return []

    def _round(self, counts: list[_Counted], time: int) -> Iterator[str]:
        if self._is_first:
            self._is_first = False
            yield _HEAD
        for event, cpu, thread, (value, enabled, running) in counts:
            yield f"{cpu:3d} {thread:8d} {value:15d} {enabled:15d} {running:15d} {time:15d} {one_line(event.name)}\n"

    def _of_round(self) -> Iterator[_Counted]:
        for event in self._events:
            for number, thread in enumerate(self._threads):
                for index, cpu in enumerate(event.cpus or self._cpus):
                    # counts are keyed by CPU, or by its index if the CPU does not count
                    since = self._since((event.index, cpu, number)) or self._since((event.index, index, number))
                    yield event, cpu, thread, since or (0, 0, 0)

    def _since(self, key: tuple[int, int, int]) -> tuple[int, int, int] | None:
        """Return a counter's increase since the previous round; counts in the file are totals."""
        counts, before = self._counts.get(key), self._before.get(key)
        if counts is None or before is None:
            return counts and (counts.value, counts.enabled, counts.running)
        return counts.value - before.value, counts.enabled - before.enabled, counts.running - before.running
