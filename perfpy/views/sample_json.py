"""A recording's samples as JSON: perf's `data convert --to-json`, with perf's keys in perf's order and on perf's lines.

Keys of missing features are skipped (perf 6.12 crashes there), and stacks are
whole callchains.
"""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.abi.columns import Ragged
from perfpy.abi.flags import CONTEXT_MAX, SampleType
from perfpy.analysis.callchains import CPUMODE_OF_MARKER, ChainTable, frames_of
from perfpy.perfdata.header import FileHeader
from perfpy.perfdata.records.batches import carries_readings, split_readings
from perfpy.symbols.dso import short_name
from perfpy.views.script.field_text import column, times
from perfpy.views.script.fields import has_callchain
from perfpy.views.script.lines import take_rows
from perfpy.views.tracepoints.event_text import PayloadTexts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from perfpy.analysis.filters import TimeRanges
    from perfpy.perfdata.records.batches import Batch
    from perfpy.symbols.symbolizer import Symbolizer
    from perfpy.unwind.callchains import UserCallchains
    from perfpy.views.recorded import Recorded


_NO_TASK: Final = -1
_COLUMNS: Final = frozenset(("time", "pid", "tid", "cpu", "ip", "callchain", "cpumode", "raw"))
_ESCAPES: Final = {
    **{number: f"\\u{number:04x}" for number in (*range(0x20), *range(0xDC80, 0xDD00))},
    **{ord(character): "\\" + letter for character, letter in zip('"\\\b\f\n\r\t', '"\\bfnrt', strict=True)},
}
_SIGNED: Final = 1 << 63
_MARKERS: Final = np.array([*CPUMODE_OF_MARKER], np.uint64)


def quote_json(text: str) -> str:
    """Return a JSON string; bytes that are no text become lone surrogates, as in Python."""
    return f'"{text.translate(_ESCAPES)}"'


class SampleJson:
    """A writer of a recording's samples; samples: written so far."""

    def __init__(
        self, recording: Recorded, symbolizer: Symbolizer, *, unwound: UserCallchains | None = None, ranges: TimeRanges | None = None
    ) -> None:
        """Set the source; unwound: unwinds stacks; ranges: the times to include."""
        self.samples = 0
        self._recording = recording
        self._symbolizer = symbolizer
        self._unwound = unwound
        self._ranges = ranges
        self._frames: list[str] = []
        self._names: dict[int, str] = {}
        self._pid_of_exited = _NO_TASK
        self._has_cpu = recording.data.has(SampleType.CPU)
        tracing = recording.data.tracing
        self._payloads = None if tracing is None else PayloadTexts(tracing, None)  # perf names no functions here

    def pieces(self) -> Iterator[str]:
        """Yield the whole text."""
        yield '{\n\t"linux-perf-json-version": 1,\n\t"headers": {'
        yield ",".join(f"\n\t\t{quote_json(key)}: {value}" for key, value in self._headers())
        yield '\n\t},\n\t"samples": ['
        fields = _COLUMNS
        events = self._recording.events
        if any(carries_readings(event) for event in events):
            fields = fields | {"read", "period"}
        for batch in split_readings(self._recording.batches(fields, self._unwound), events):
            before = self.samples
            text = ",".join(self._texts(batch))
            if text:
                yield "," + text if before else text
        yield "\n\t]\n}\n"

    def _headers(self) -> Iterator[tuple[str, str]]:
        """Yield the header's keys and values."""
        data, header = self._recording.data, self._recording.header
        version, offset, size = 1, 0, 0
        if isinstance(data.header, FileHeader):
            version, (offset, size) = data.header.version - 1, data.header.data
        yield "header-version", str(version)
        yield "captured-on", quote_json(time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(data.modification_time)))
        yield from (("data-offset", str(offset)), ("data-size", str(size)), ("feat-offset", str(offset + size)))
        texts = {"hostname": "hostname", "os-release": "osrelease", "arch": "arch", "cpu-desc": "cpudesc", "cpuid": "cpuid"}
        yield from ((key, quote_json(str(header[name]))) for key, name in texts.items() if name in header)
        if "nrcpus" in header:
            yield from (("nrcpus-online", str(header["nrcpus"].online)), ("nrcpus-avail", str(header["nrcpus"].available)))
        if "clock_data" in header:
            clock = header["clock_data"]
            yield from (("clockid", str(clock.clockid)), ("clock-time", str(clock.clockid_ns)), ("real-time", str(clock.wall_clock_ns)))
        if "version" in header:
            yield "perf-version", quote_json(str(header["version"]))
        if "cmdline" in header:
            yield "cmdline", _json_list([f"\n\t\t\t{quote_json(word)}" for word in header["cmdline"]], "\n\t\t")

    def _texts(self, batch: Batch) -> list[str]:
        """Return the texts of a batch's samples."""
        stamps = times(batch, self._recording.events)
        rows = np.arange(len(batch)) if self._ranges is None else np.flatnonzero(self._ranges.mask(stamps))
        texts = np.full(len(batch), "", object)
        for number in np.flatnonzero(np.bincount(batch.event, minlength=1)).tolist():
            own = rows[batch.event[rows] == number]
            if len(own):
                texts_of_event = self._of_event(take_rows(batch, own), number, stamps[own])
                texts[own] = np.fromiter(texts_of_event, object, len(own))
        self.samples += len(rows)
        ordered: list[str] = texts[rows].tolist()
        return ordered

    def _pids_of_threads(self, pid: NDArray[Any], tid: NDArray[Any]) -> NDArray[np.int32]:
        """Return the process of each sample's thread. To perf, all exited threads (tid -1) are one, of the first one's process."""
        pids = pid.astype(np.int32)
        exited = np.flatnonzero(tid.astype(np.int32) == _NO_TASK)
        if self._pid_of_exited == _NO_TASK:
            known = np.flatnonzero(pids[exited] != _NO_TASK)
            if len(known):
                exited = exited[known[0] :]
                self._pid_of_exited = int(pids[exited[0]])
        if self._pid_of_exited != _NO_TASK:
            pids[exited] = self._pid_of_exited
        return pids

    def _of_event(self, batch: Batch, number: int, stamps: NDArray[np.uint64]) -> Iterator[str]:
        """Yield the texts of one event's samples."""
        event = self._recording.events[number]
        pid, tid, cpu = (column(batch, event, name) for name in ("pid", "tid", "cpu"))
        timeline = self._recording.timeline
        comms = timeline.comm_ids(tid, batch.key).tolist()
        chains = self._chains(batch, pid, with_chain=has_callchain(event))
        cpus = [f'\n\t\t\t"cpu": {one},' for one in cpu.astype(np.int32).tolist()] if self._has_cpu else [""] * len(batch)
        fields = self._fields(batch) if event.tracepoint else itertools.repeat("")
        tasks = self._pids_of_threads(pid, tid).tolist(), tid.astype(np.int32).tolist()
        whole = zip(stamps.tolist(), *tasks, cpus, comms, chains, fields, strict=False)  # fields may have no end
        for stamp, one_pid, one_tid, cpu_text, comm, chain, more in whole:
            if comm not in self._names:
                self._names[comm] = quote_json(timeline.comms[comm])
            yield (
                f'\n\t\t{{\n\t\t\t"timestamp": {stamp - 2 * (stamp & _SIGNED)},\n\t\t\t"pid": {one_pid},\n\t\t\t"tid": {one_tid},{cpu_text}'
                f'\n\t\t\t"comm": {self._names[comm]},\n\t\t\t"callchain": {chain}{more}\n\t\t}}'
            )

    def _chains(self, batch: Batch, pid: NDArray[Any], *, with_chain: bool) -> list[str]:
        """Return the callchain of each sample, or its address alone: formatted once for equal ones."""
        columns = batch.columns
        if with_chain and "callchain" in columns:
            frames, counts = frames_of(_without_unknown_words(columns["callchain"]), pid, batch.key, self._symbolizer)
        else:
            frames = self._symbolizer.frame_ids(pid, columns["ip"], batch.key, columns["cpumode"])
            counts = np.ones(len(batch), np.int64)
        self._name_frames()
        table = ChainTable()
        which = table.add(frames, counts)
        ids, bounds = table.chains()
        each = list(map(self._frames.__getitem__, ids.tolist()))
        texts = [_json_list(each[begin:end], "\n\t\t\t") for begin, end in itertools.pairwise(bounds.tolist())]
        return list(map(texts.__getitem__, which.tolist()))

    def _name_frames(self) -> None:
        """Format the new frames."""
        symbolizer, first_new = self._symbolizer, len(self._frames)
        frames = symbolizer.resolve()
        for ip, symbol, dso in zip(
            frames.ip[first_new:].tolist(), frames.symbol[first_new:].tolist(), frames.dso[first_new:].tolist(), strict=True
        ):
            parts = [f'"ip": "0x{ip:x}"']
            if symbol >= 0:
                parts.append(f'"symbol": {quote_json(symbolizer.symbols.name(symbol))}')
                if dso >= 0:
                    parts.append(f'"dso": {quote_json(short_name(symbolizer.dsos[dso].name, symbolizer.dsos[dso].kind))}')
            self._frames.append("\n\t\t\t\t{" + ",".join(f"\n\t\t\t\t\t{part}" for part in parts) + "\n\t\t\t\t}")

    def _fields(self, batch: Batch) -> Iterable[str]:
        """Return the fields of tracepoints, as keys."""
        raw = batch.columns.get("raw")
        if raw is None or self._payloads is None:
            return [""] * len(batch)
        data, bounds = raw.values.tobytes(), raw.offsets.tolist()
        payloads = [data[begin:end] for begin, end in itertools.pairwise(bounds)]
        return self._payloads.joined_fields(payloads, lambda name, text: f",\n\t\t\t{quote_json(name)}: {quote_json(text)}")


def _without_unknown_words(chains: Ragged) -> Ragged:
    """Return the chains without words that are neither addresses nor markers: perf's JSON skips them, its text has no frames then."""
    is_left_out = (chains.values >= np.uint64(CONTEXT_MAX)) & ~np.isin(chains.values, _MARKERS)
    if not is_left_out.any():
        return chains
    before = np.concatenate([[0], np.cumsum(~is_left_out)])
    return Ragged(chains.values[~is_left_out], before[chains.offsets])


def _json_list(items: list[str], end: str) -> str:
    return "[" + ",".join(items) + end + "]"
