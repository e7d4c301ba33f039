"""Write counts to a perf.data, as `perf stat record` does, for `perf stat report`.

The file has events and ids, THREAD_MAP, CPU_MAP and STAT_CONFIG, then a STAT for each counter and round, a STAT_ROUND after each
round, and the features. Layout: tools/perf/Documentation/perf.data-file-format.txt.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from perfpy.abi.flags import NATIVE_ENDIAN
from perfpy.abi.perf_records import (
    CpuMap,
    Stat,
    StatConfig,
    StatRound,
    ThreadMap,
    UserRecord,
    encode,
)
from perfpy.capture.synthesis import Environment, updates_of
from perfpy.capture.targets import ANY, comms
from perfpy.counts.aggregation import Aggregation
from perfpy.counts.tally import name_with_pmu
from perfpy.perfdata.header import EventDesc, EventGroup, Feature, encode_feature
from perfpy.perfdata.writer import FileWriter, PipeWriter, WrittenEvent
from perfpy.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perfpy.capture.counter import OpenEvent
    from perfpy.capture.counters import Counting
    from perfpy.capture.measurement import Plan
    from perfpy.counts.aggregation import CounterCell
    from perfpy.perfdata.writer import RecordWriter


_TERM_AGGREGATION, _TERM_INTERVAL, _TERM_SCALE = 0, 1, 2
ROUND_INTERVAL: Final = 0
ROUND_FINAL: Final = 1
_U32: Final = 0xFFFFFFFF
_U64: Final = (1 << 64) - 1
_ANONYMOUS_GROUP: Final = "{anon_group}"


class CountFile:
    """One file, "-" for a pipe on standard output. Raises OutputFailedError."""

    def __init__(self, path: str, plan: Plan, command_line: Sequence[str]) -> None:
        self._plan = plan
        self._command_line = tuple(command_line)
        self._is_pipe = path == "-"
        self._writer: RecordWriter = PipeWriter(sys.stdout.fileno()) if self._is_pipe else FileWriter(path)
        self._ids: dict[OpenEvent, dict[tuple[int, int], int]] = {}
        self._features: dict[int, bytes] = {}

    @property
    def is_pipe(self) -> bool:
        """Whether standard output carries the file."""
        return self._is_pipe

    def begin(self, counting: Counting) -> None:
        """Write the header, once; counts of later runs of a repeat belong to the same events."""
        new_run: dict[OpenEvent, dict[tuple[int, int], int]] = {event: counting.ids(event) for event in self._written(counting)}
        if self._ids:
            self._same_ids(new_run)
            return
        self._ids = new_run
        events = [WrittenEvent(event.attr, tuple(ids.values())) for event, ids in self._ids.items()]
        self._features = {number: encode_feature(number, value, NATIVE_ENDIAN) for number, value in self._feature_values().items()}
        self._writer.begin(events, self._features)
        for record in self._preface(counting):
            self._writer.write(encode(record, NATIVE_ENDIAN))

    def _written(self, counting: Counting) -> Iterator[OpenEvent]:
        """Return the events of the kernel; those that it cannot count have no ids."""
        return (event for event in counting.events if not event.tool)

    def _same_ids(self, new_run: dict[OpenEvent, dict[tuple[int, int], int]]) -> None:
        """Map the counters of a later run to the first run's ids, which the file has."""
        for event, ids in new_run.items():
            ids_of_targets = self._ids[event]
            for target in ids if ids_of_targets else ():
                ids_of_targets.setdefault(target, next(iter(ids_of_targets.values())))

    def _feature_values(self) -> dict[int, Any]:
        descriptions = tuple(EventDesc(event.attr, self._name(event), tuple(ids.values())) for event, ids in self._ids.items())
        values: dict[int, Any] = Environment().features()
        values |= {
            Feature.VERSION: f"perfpy {__version__}",
            Feature.CMDLINE: self._command_line,
            Feature.EVENT_DESC: descriptions,
            Feature.STAT: True,
        }
        events = list(self._ids)
        groups = tuple(
            EventGroup(_ANONYMOUS_GROUP, index, sum(other.leader is event for other in events))
            for index, event in enumerate(events)
            if event.group_size > 1 and event.is_leader
        )
        return values | ({Feature.GROUP_DESC: groups} if groups else {})

    def _name(self, event: OpenEvent) -> str:
        """Return the event's name as perf writes it, because perf shows no other."""
        apart = self._plan.grouping.mode is Aggregation.NONE and not self._plan.default_set
        return name_with_pmu(event) if apart else event.name

    def _preface(self, counting: Counting) -> Iterator[UserRecord]:
        for event, ids in self._ids.items():
            if not ids:
                continue
            ident = next(iter(ids.values()))
            yield from updates_of(event, ident, pipe=self._is_pipe)
        task_names = comms(counting.tids) if counting.tids != [ANY] else [("", ANY)]
        yield ThreadMap(0, tuple((tid & _U64, comm) for comm, tid in task_names))
        yield CpuMap(0, tuple(counting.cpus))
        config = (
            (_TERM_AGGREGATION, self._plan.grouping.mode.value),
            (_TERM_INTERVAL, self._plan.interval),
            (_TERM_SCALE, int(self._plan.scale)),
        )
        yield StatConfig(0, config)

    def round(self, readings: dict[OpenEvent, list[CounterCell]], elapsed: int, *, final: bool) -> None:
        """Write one round's readings; elapsed is in ns since the start. After intervals, a result is written only for --summary."""
        if final and self._plan.interval and not self._plan.summary:
            return  # the last interval ends with the result
        parts = []
        for event, ids in self._ids.items():
            for cell in readings[event]:
                counted = Stat(0, ids[cell.cpu, cell.thread], cell.cpu & _U32, cell.thread, cell.value, cell.enabled, cell.running)
                parts.append(encode(counted, NATIVE_ENDIAN))
        parts.append(encode(StatRound(0, ROUND_FINAL if final else ROUND_INTERVAL, elapsed), NATIVE_ENDIAN))
        self._writer.write(*parts)

    def finish(self) -> None:
        """Write the end of the file, and close it."""
        self._writer.finish(self._features)
        self._writer.close()
