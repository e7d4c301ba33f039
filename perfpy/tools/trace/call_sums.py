"""Calls, errors and times of each thread and system call, added up over batches.

Times also go to buckets, 16 for each power of two, so that percentiles of any number of calls need little memory; they are at most 3 %
off.
"""

from __future__ import annotations

import numpy as np

from perfpy.abi.columns import Growing, count_each, distinct, grouped, rows_where
from perfpy.abi.light_types import TYPE_CHECKING, NamedTuple
from perfpy.abi.system_calls import arguments_of, names_by_number, structures_of
from perfpy.tools.trace.calls import ENTER, EXIT, NO_ROW, OTHER
from perfpy.tools.trace.descriptors import CURRENT_FOLDER, SOCKET, peer_address

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any, Final, Self

    from numpy.typing import NDArray

    from perfpy.tools.trace.calls import PairedEvents
    from perfpy.tools.trace.descriptors import DescriptorNames


_LAST_ERRNO: Final = 4095  # of results: MAX_ERRNO in include/linux/err.h
_PARTS: Final = 16  # buckets of a power of two
_HALF: Final = 0.5
_NUMBER: Final = 0xFFFFFFFF  # of a packed thread and call
_NEVER: Final = np.iinfo(np.int64).max  # the least time of no calls


def is_error(result: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return whether each result is the negative of an error number."""
    return (result < 0) & (result >= -_LAST_ERRNO)


def bucket_of(duration: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the bucket of each duration."""
    buckets: NDArray[np.int64] = np.floor(np.log2(np.maximum(duration, 1)) * _PARTS).astype(np.int64)
    return buckets


def bucket_middle(bucket: int) -> float:
    """Return the duration in the middle of a bucket, in nanoseconds."""
    return float(2 ** ((bucket + _HALF) / _PARTS))


class CallTotals(NamedTuple):
    """The sums of one system call, of a thread or of all.

    Attributes:
        number: of the call.
        calls, errors: counts.
        total, least, most: times in nanoseconds.
        squares: the sum of squared deviations from the mean.
        errnos: error number -> count.
        buckets: bucket -> count (bucket_of), of calls whose entry is known.
    """

    number: int
    calls: int
    errors: int
    total: int
    least: int
    most: int
    squares: float
    errnos: dict[int, int]
    buckets: dict[int, int]

    @property
    def mean(self) -> float:
        """The mean time in nanoseconds."""
        return self.total / self.calls if self.calls else 0.0

    def percentile(self, share: float) -> float:
        """Return the time that a share of the calls does not exceed, in nanoseconds, to 3 %."""
        wanted, seen = share * sum(self.buckets.values()), 0
        for bucket in sorted(self.buckets):
            seen += self.buckets[bucket]
            if seen >= wanted:
                return min(bucket_middle(bucket), self.most)
        return float(self.most)

    def plus(self, other: CallTotals) -> CallTotals:
        """Return the sums of both."""
        calls = self.calls + other.calls
        difference = other.mean - self.mean
        squares = self.squares + other.squares + difference**2 * self.calls * other.calls / max(calls, 1)
        return CallTotals(
            self.number,
            calls,
            self.errors + other.errors,
            self.total + other.total,
            min(self.least, other.least),
            max(self.most, other.most),
            squares,
            _added(self.errnos, other.errnos),
            _added(self.buckets, other.buckets),
        )


def _added(one: dict[int, int], two: dict[int, int]) -> dict[int, int]:
    both = dict(one)
    for key, count in two.items():
        both[key] = both.get(key, 0) + count
    return both


class ThreadRows(NamedTuple):
    """The sums of calls as columns, by thread, those of a thread with the most time first.

    Attributes:
        tid, number, calls, errors, total, least, most: int64[n], as in CallTotals.
        squares: float64[n], as in CallTotals.
        errnos: row -> error number -> count.
    """

    tid: NDArray[np.int64]
    number: NDArray[np.int64]
    calls: NDArray[np.int64]
    errors: NDArray[np.int64]
    total: NDArray[np.int64]
    least: NDArray[np.int64]
    most: NDArray[np.int64]
    squares: NDArray[np.float64]
    errnos: dict[int, dict[int, int]]

    @classmethod
    def of_all_threads(cls, calls: Sequence[CallTotals]) -> Self:
        """Return the sums of all threads together as columns, in their order; tid is 0."""
        number, count, errors, total, least, most = np.array([call[:6] for call in calls], np.int64).reshape(-1, 6).T
        squares = np.array([call.squares for call in calls])
        errnos = {row: call.errnos for row, call in enumerate(calls) if call.errnos}
        return cls(np.zeros_like(number), number, count, errors, total, least, most, squares, errnos)

    def means(self) -> NDArray[np.float64]:
        """Return the mean times in nanoseconds."""
        means: NDArray[np.float64] = self.total / np.maximum(self.calls, 1)
        return means

    def relative_errors(self) -> NDArray[np.float64]:
        """Return the standard errors of the means in percent of the means; 0 of single calls."""
        errors = np.zeros(len(self.calls))
        several = rows_where((self.calls > 1) & (self.total != 0))
        calls = self.calls[several]
        errors[several] = 100 * np.sqrt(self.squares[several] / (calls - 1) / calls) / self.means()[several]
        return errors


class Totals:
    """The sums of a stream of events.

    Args:
        has_buckets: also count the times in buckets, for percentiles and histograms.

    Attributes:
        events: tid -> number of its samples of system calls.
        samples: the number of all samples of system calls, those without a number included, and of page faults.
        faults: name of a kind of page faults -> tid -> count.
        run_times: tid -> time on a CPU, in nanoseconds.
    """

    def __init__(self, *, has_buckets: bool = True) -> None:
        self._has_buckets = has_buckets
        self.events: dict[int, int] = {}
        self.first_time = self.last_time = self.samples = 0
        self.faults: dict[str, dict[int, int]] = {}
        self.run_times: dict[int, int] = {}
        self._indexes: dict[int, int] = {}  # tid << 32 | number -> index
        self._calls, self._errors = Growing(np.int64), Growing(np.int64)
        self._total, self._least, self._most = Growing(np.int64), Growing(np.int64), Growing(np.int64)
        self._squares = Growing(np.float64)
        self._errnos: dict[tuple[int, int], int] = {}
        self._buckets: dict[tuple[int, int], int] = {}

    def add(self, paired: PairedEvents, exits: NDArray[np.int64] | None = None) -> None:
        """Add the returns of a batch; exits: only these rows, None for all."""
        self._count_events(paired)
        self.add_returns(paired, rows_where(paired.events.kind == EXIT) if exits is None else exits)

    def add_returns(self, paired: PairedEvents, rows: NDArray[np.int64]) -> None:
        """Add returns whose samples were counted before."""
        events = paired.events
        if not len(rows):
            return
        entry = paired.entry[rows]
        duration = np.where(entry == NO_ROW, 0, events.time[rows] - events.time[entry])
        index = self._indexes_of(_packed(events.tid[rows], events.number[rows]))
        self._add_times(index, duration)
        failed = rows_where(is_error(events.result[rows]))
        np.add.at(self._errors.values, index[failed], 1)
        _count(self._errnos, index[failed], -events.result[rows][failed])
        if not self._has_buckets:
            return
        whole = rows_where(entry != NO_ROW)
        _count(self._buckets, index[whole], bucket_of(duration[whole]))

    def add_faults(self, name: str, tid: NDArray[np.int32]) -> None:
        """Add page faults of one kind, by their threads."""
        counts = self.faults.setdefault(name, {})
        self.samples += len(tid)
        for one, count in count_each(tid).items():
            counts[one] = counts.get(one, 0) + count
            self.events[one] = self.events.get(one, 0) + count

    def add_run_times(self, tid: NDArray[np.int64], took: NDArray[np.int64]) -> None:
        """Add times on a CPU, by their threads."""
        for one, nanoseconds in zip(tid.tolist(), took.tolist(), strict=True):
            self.run_times[one] = self.run_times.get(one, 0) + nanoseconds

    def _count_events(self, paired: PairedEvents) -> None:
        events = paired.events
        own = slice(paired.carried, None)
        times = events.time[own]
        if len(times):
            self.first_time = self.first_time or int(times[0])
            self.last_time = max(self.last_time, int(times.max()))
        self.samples += int(np.count_nonzero(events.kind[own] != OTHER))
        is_counted = (events.kind[own] == ENTER) | (events.kind[own] == EXIT)
        for tid, count in count_each(events.tid[own][is_counted]).items():
            self.events[tid] = self.events.get(tid, 0) + count

    def empty(self) -> Totals:
        """Return sums of the same kind of nothing."""
        return Totals(has_buckets=self._has_buckets)

    def merge(self, other: Totals, head: PairedEvents) -> None:
        """Add the sums of a later part of the stream; head: its returns whose entries are before it, which `other` has only counted."""
        events, rows = head.events, rows_where(head.events.kind == EXIT)
        self._indexes_of(np.concatenate([np.array(list(other._indexes), np.int64), _packed(events.tid[rows], events.number[rows])]))
        self.add_returns(head, rows)
        self.first_time = self.first_time or other.first_time
        self.last_time = max(self.last_time, other.last_time)
        self.samples += other.samples
        for tid, count in other.events.items():
            self.events[tid] = self.events.get(tid, 0) + count
        if not other._indexes:
            return
        indexes = self._indexes_of(np.array(list(other._indexes), np.int64))

        def placed(values: NDArray[Any], otherwise: int = 0) -> NDArray[Any]:
            column = np.full(len(self._indexes), otherwise, values.dtype)
            column[indexes] = values
            return column

        self._combine(placed(other._calls.values), placed(other._total.values), placed(other._squares.values))
        self._errors.values[:] += placed(other._errors.values)
        np.minimum(self._least.values, placed(other._least.values, _NEVER), out=self._least.values)
        np.maximum(self._most.values, placed(other._most.values), out=self._most.values)
        names = indexes.tolist()
        for counts, others in ((self._errnos, other._errnos), (self._buckets, other._buckets)):
            for (index, value), count in others.items():
                key = names[index], value
                counts[key] = counts.get(key, 0) + count

    def _indexes_of(self, packed: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the index of each thread and call (_packed); new ones get the next."""
        tids, of_tid = grouped(packed >> 32)
        numbers, of_number = grouped(packed & _NUMBER)
        pairs, which = grouped(of_tid * len(numbers) + of_number)
        distinct = tids[pairs // len(numbers)] << 32 | numbers[pairs % len(numbers)]
        known = self._indexes
        new = [key for key in distinct.tolist() if key not in known]
        if new:
            known.update(zip(new, range(len(known), len(known) + len(new)), strict=True))
            for column in (self._calls, self._errors, self._total, self._most, self._squares):
                column.append(np.zeros(len(new)))
            self._least.append(np.full(len(new), _NEVER))
        indexes: NDArray[np.int64] = np.array([known[key] for key in distinct.tolist()], np.int64)[which]
        return indexes

    def _add_times(self, index: NDArray[np.int64], duration: NDArray[np.int64]) -> None:
        size = len(self._indexes)
        calls = np.bincount(index, minlength=size)
        total = np.zeros(size, np.int64)
        np.add.at(total, index, duration)
        mean = total / np.maximum(calls, 1)
        squares = np.bincount(index, (duration - mean[index]) ** 2, minlength=size)
        self._combine(calls, total, squares)
        np.minimum.at(self._least.values, index, duration)
        np.maximum.at(self._most.values, index, duration)

    def _combine(self, calls: NDArray[Any], total: NDArray[Any], squares: NDArray[Any]) -> None:
        """Add calls and times of each index. squares: of the differences to their own mean."""
        mean = total / np.maximum(calls, 1)
        before, before_total = self._calls.values, self._total.values
        difference = mean - before_total / np.maximum(before, 1)
        both = before + calls
        self._squares.values[:] += squares + np.where(calls > 0, difference**2 * before * calls / np.maximum(both, 1), 0)
        self._calls.values[:] = both
        self._total.values[:] += total

    def by_thread(self) -> dict[int, list[CallTotals]]:
        """Return tid -> the sums of its calls, those with the most time first."""
        threads: dict[int, list[CallTotals]] = {}
        errnos, buckets = _by_index(self._errnos), _by_index(self._buckets)
        columns = (self._calls, self._errors, self._total, self._least, self._most, self._squares)
        rows: Iterator[tuple[int, int, int, int, int, float]] = zip(*(column.values.tolist() for column in columns), strict=True)
        for (key, index), row in zip(self._indexes.items(), rows, strict=True):
            call = CallTotals(key & _NUMBER, *row, errnos.get(index, {}), buckets.get(index, {}))
            threads.setdefault(key >> 32, []).append(call)
        return {tid: by_time(calls) for tid, calls in threads.items()}

    def thread_rows(self) -> ThreadRows:
        """Return the sums of each thread's calls as columns."""
        keys = np.array(list(self._indexes), np.int64)
        tid = keys >> 32
        order = np.lexsort((keys, -self._total.values, tid))
        columns = (self._calls, self._errors, self._total, self._least, self._most)
        calls, errors, total, least, most = (column.values[order] for column in columns)
        errnos = _by_index(self._errnos)
        rows = {row: errnos[index] for row, index in enumerate(order.tolist()) if index in errnos} if errnos else {}
        return ThreadRows(tid[order], keys[order] & _NUMBER, calls, errors, total, least, most, self._squares.values[order], rows)

    def of_all(self) -> list[CallTotals]:
        """Return the sums of each call over all threads, those with the most time first."""
        calls: dict[int, CallTotals] = {}
        for of_thread in self.by_thread().values():
            for call in of_thread:
                calls[call.number] = calls[call.number].plus(call) if call.number in calls else call
        return by_time(calls.values())


def by_time(calls: Iterable[CallTotals]) -> list[CallTotals]:
    """Sort calls by their time, the longest first, and equal ones by their number."""
    return sorted(calls, key=lambda call: (-call.total, call.number))


def _packed(tid: NDArray[np.int32], number: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return threads and calls as keys: tid << 32 | number."""
    return (tid.astype(np.int64) << 32) | (number & _NUMBER)


def _count(counts: dict[tuple[int, int], int], index: NDArray[np.int64], value: NDArray[np.int64]) -> None:
    for pair, number in count_each((index << 32) | value).items():
        key = pair >> 32, pair & 0xFFFFFFFF
        counts[key] = counts.get(key, 0) + number


def _by_index(counts: dict[tuple[int, int], int]) -> dict[int, dict[int, int]]:
    by_index: dict[int, dict[int, int]] = {}
    for (index, value), count in counts.items():
        by_index.setdefault(index, {})[value] = count
    return by_index


PATH, PEER = "path", "peer"
_MOST_NAMES: Final = 1 << 16
_OTHERS: Final = "(others)"
_TRANSFERS: Final = frozenset(
    "read write pread64 pwrite64 readv writev preadv pwritev preadv2 pwritev2 sendto recvfrom sendmsg recvmsg sendfile splice "
    "copy_file_range".split()
)


class _Naming(NamedTuple):
    """The places of a call's names: indexes of its arguments, None without.

    Attributes:
        descriptor: the file.
        folder: of the path.
        path, address: strings, structures.
    """

    descriptor: int | None = None
    folder: int | None = None
    path: int | None = None
    address: int | None = None


class NamedTotals:
    """The sums by names.

    The file of a call is the path in its arguments, or that of its first descriptor. The peer is that of the descriptor's connection, or
    the address in the arguments.

    Args:
        kind: PATH or PEER.
        machine: as uname(2) has it.

    Attributes:
        totals: the sums, by the index of a name in place of the number of a call.
        names: the names.
        bytes: of each name: what its calls have read, written, sent and received.
    """

    def __init__(self, kind: str, machine: str) -> None:
        self.kind = kind
        self._machine = machine
        self._calls = names_by_number(machine)
        self._namings: dict[int, _Naming] = {}
        self.totals = Totals()
        self.names: list[str] = []
        self.bytes: list[int] = []
        self._ids: dict[str, int] = {}

    def add(self, paired: PairedEvents, texts: Mapping[int, Mapping[int, str]], names: DescriptorNames) -> None:
        """Add the returns of a batch.

        Args:
            paired: the events.
            texts: row of an entry -> index of the argument -> its text.
            names: of descriptors.
        """
        events = paired.events
        rows = rows_where((events.kind == EXIT) & (paired.entry != NO_ROW))
        ids = np.full(events.size, -1, np.int64)
        for number in distinct(events.number[rows]).tolist():
            chosen = rows[events.number[rows] == number]
            own = np.array([self._id(name) for name in self._names(number, paired.entry[chosen], paired, texts, names)], np.int64)
            ids[chosen] = own
            if self._calls.get(number) in _TRANSFERS:
                for one, size in zip(own.tolist(), events.result[chosen].tolist(), strict=True):
                    if one >= 0 and size > 0:
                        self.bytes[one] += size
        named = rows[ids[rows] >= 0]
        self.totals.add(paired._replace(events=events._replace(number=ids, tid=np.zeros(events.size, np.int32))), named)

    def _id(self, name: str) -> int:
        """Return the index of a name; -1 for none."""
        if not name:
            return -1
        if name not in self._ids and len(self._ids) >= _MOST_NAMES:
            name = _OTHERS
        if name not in self._ids:
            self._ids[name] = len(self.names)
            self.names.append(name)
            self.bytes.append(0)
        return self._ids[name]

    def _names(
        self,
        number: int,
        entries: NDArray[np.int64],
        paired: PairedEvents,
        texts: Mapping[int, Mapping[int, str]],
        names: DescriptorNames,
    ) -> list[str]:
        """Return the name of each call of one number; "" for none."""
        naming = self._naming(number)
        arguments = paired.events.arguments
        files = [""] * len(entries)
        if naming.descriptor is not None:
            files = names.names(entries, arguments[entries, naming.descriptor].astype(np.uint32).view(np.int32))
        if self.kind == PEER:
            addresses = [texts.get(row, {}).get(naming.address, "") if naming.address is not None else "" for row in entries.tolist()]
            return [_peer(file, address) for file, address in zip(files, addresses, strict=True)]
        if naming.path is None:
            return [file if file.startswith("/") else "" for file in files]
        if naming.folder is None:
            folders = [CURRENT_FOLDER] * len(entries)
        else:
            folders = arguments[entries, naming.folder].astype(np.uint32).view(np.int32).tolist()
        paths = [texts.get(row, {}).get(naming.path) for row in entries.tolist()]
        return [
            names.path(row, folder, path) if path is not None else ""
            for row, folder, path in zip(entries.tolist(), folders, paths, strict=True)
        ]

    def _naming(self, number: int) -> _Naming:
        naming = self._namings.get(number)
        if naming is None:
            name = self._calls.get(number, "")
            kinds = [("fd" if argument.name == "fd" else argument.kind) for argument in arguments_of(name) or ()]
            naming = self._namings[number] = _Naming(
                descriptor=_first(kinds, "fd"),
                folder=_first(kinds, "dirfd"),
                path=_first(kinds, "text"),
                address=next((one.argument for one in structures_of(name, self._machine) if one.structure == "sockaddr"), None),
            )
        return naming


def _first(kinds: list[str], kind: str) -> int | None:
    return kinds.index(kind) if kind in kinds else None


def _peer(file: str, address: str) -> str:
    """Return PROTOCOL:ADDRESS of a socket that is connected, or whose call has an address; "" for others."""
    if file and not file.startswith(SOCKET):
        return ""
    kind, _, peer = file.removeprefix(SOCKET).partition(":")
    peer = peer or peer_address(address)
    return f"{kind}:{peer}" if kind and not kind.startswith("[") and peer else peer
