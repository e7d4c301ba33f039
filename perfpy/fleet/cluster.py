"""Many recordings, folded by a Dask cluster, where the files are.

What enters: the address of a scheduler, paths and URLs, what is asked of each recording. What leaves: one
PortableProfile of all that could be read, and the names of the others.

Some recordings at a time are folded where a worker is free; what they give stays there, and neighbours are merged, a few at a
time, until one is left: only that comes here. The order of the recordings decides about the result, not which worker was first; so
it is the same as without a cluster, also where workers were lost and their parts done again. Workers need perfpy and the files.

Recordings with which workers are lost again and again are tried one by one, then named and left out. What a worker is slow with, while
others have nothing to do, is given to another one, too; who is done first counts.
Profiles are compressed while they move between machines.
"""

from __future__ import annotations

import logging
import os
import pickle
import sys
import time
from concurrent.futures import CancelledError
from contextlib import contextmanager
from importlib import import_module
from queue import Empty, SimpleQueue
from threading import Event, local
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from perfpy.errors import PerfError, UsageError
from perfpy.fleet.folding import FoldedGroup, folded_group, merged_groups
from perfpy.fleet.opening import told_of_first
from perfpy.fleet.pace import in_time
from perfpy.fleet.portable import RecordingProblem
from perfpy.fleet.remote import shown
from perfpy.symbols.files.shared_files import SharedFiles
from perfpy.version import __version__
from perfpy.workers.freed_memory import keeping_freed_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from perfpy.fleet.folding import FoldingRequest
    from perfpy.recording import Recording

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


_LEVEL: Final = 1  # the next ones take twice the time to save a tenth more


def packed(group: FoldedGroup) -> bytes:
    """To be handed on."""
    return zstd.compress(pickle.dumps(group, protocol=5), _LEVEL)


def unpacked(data: bytes) -> FoldedGroup:
    """What packed() made of a group, of our own workers: pickle runs what it is told."""
    group: FoldedGroup = pickle.loads(zstd.decompress(data))
    return group


#: recordings that are folded and merged before anything is handed on, at most; and how often each thread of a cluster is asked, at least
_GROUP: Final = 4
_TURNS: Final = 4
#: parts that are merged at once
_FAN_IN: Final = 8
#: how often a part is tried again that failed for want of its worker or of memory
_RETRIES: Final = 3
#: seconds: between two looks; after which somebody else may try; without any worker
_LOOK: Final = 1.0
_SLOW: Final = 30.0
_ALONE: Final = 60.0
#: names a scheduler where no option does
CLUSTER_VARIABLE: Final = "PERFPY_CLUSTER"
#: and how many seconds a worker may take for one recording
TIMEOUT_VARIABLE: Final = "PERFPY_CLUSTER_TIMEOUT"
_SECONDS_EACH: Final = 3600.0

_kept = local()  # each thread of a worker keeps the files that it found for what was asked last


def cluster_address(asked: str) -> str:
    """The scheduler that was asked for, or that the environment names; "" for none."""
    return asked or os.environ.get(CLUSTER_VARIABLE, "")


def _seconds_each() -> float:
    given = os.environ.get(TIMEOUT_VARIABLE, "")
    try:
        return float(given) if given else _SECONDS_EACH
    except ValueError:
        raise UsageError(f"{TIMEOUT_VARIABLE}={given}: it is a number of seconds") from None


def folded_by_cluster(
    address: str, paths: Sequence[str], request: FoldingRequest, progress: Callable[[float], None] | None = None
) -> FoldedGroup:
    """All recordings, folded and merged by a cluster. Raises PerfError where there is no cluster, and what its workers raise."""
    with _client(address) as client:
        folding = _Folding(client, address, request, paths)
        return unpacked(_merged_to_one(client, address, folding.results(progress)))


def told_by_cluster(address: str, paths: Sequence[str], tell: Callable[[Recording], Any], *, check_owner: bool) -> Any:
    """What is told of the first recording that a worker can read. Raises PerfError."""
    with _client(address) as client:
        asked = client.submit(told_of_first, list(paths), tell, check_owner=check_owner, retries=_RETRIES, pure=False)
        return _awaited(client, address, asked)


@contextmanager
def _client(address: str) -> Iterator[Any]:
    try:
        distributed: Any = import_module("distributed")
    except ModuleNotFoundError:
        raise PerfError("a cluster needs the package distributed: pip install 'perfpy[cluster]'") from None
    gone = CancelledError, OSError, import_module("distributed.scheduler").KilledWorker
    with _without_its_log():
        try:
            client = distributed.Client(address, set_as_default=False)
        except (OSError, ValueError) as error:
            raise PerfError(f"no cluster at {address}: {_first_line(error)}") from None
        with client:
            try:
                yield client
            except gone as error:
                raise PerfError(f"the cluster at {address} is gone: {_first_line(error)}") from None
            except ModuleNotFoundError as error:
                raise PerfError(f"the workers of {address} need the same packages as this process: {error}") from None


@contextmanager
def _without_its_log() -> Iterator[None]:
    """What Dask would say meanwhile of connections that come and go: what matters of it, an error says."""
    handlers = logging.getLogger("distributed").handlers
    for handler in handlers:
        handler.addFilter(_nothing)
    try:
        yield
    finally:
        for handler in handlers:
            handler.removeFilter(_nothing)


def _nothing(_record: logging.LogRecord) -> bool:
    return False


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


class _Bundle:
    """Some neighbouring recordings.

    attempts: futures of what they are folded to; result: the one that was done, or bytes; suspect: workers were lost with it once.
    """

    def __init__(self, paths: Sequence[str], *, suspect: bool = False) -> None:
        self.paths = list(paths)
        self.suspect = suspect
        self.attempts: list[Any] = []
        self.result: Any = None

    def fail(self, reason: str) -> None:
        """Name its recordings, and leave them out."""
        self.result = packed(FoldedGroup(None, [RecordingProblem(shown(path), reason) for path in self.paths]))


class _Folding:
    """The recordings of one report, on a cluster."""

    def __init__(self, client: Any, address: str, request: FoldingRequest, paths: Sequence[str]) -> None:
        self._client, self._address, self._request = client, address, request
        self._asked = uuid4().hex
        self._done: SimpleQueue[_Bundle] = SimpleQueue()
        self._running: set[_Bundle] = set()
        self._suspects: list[_Bundle] = []
        self._killed = import_module("distributed.scheduler").KilledWorker
        threads = sum(client.nthreads().values()) or 1
        size = max(1, min(_GROUP, len(paths) // (_TURNS * threads)))
        self._parts = [_Bundle(paths[begin : begin + size]) for begin in range(0, len(paths), size)]
        self._longest = 0.0  # that nothing was done
        self._news = time.monotonic()  # when the last one was done

    def results(self, progress: Callable[[float], None] | None) -> list[Any]:
        """What the parts are folded to, in their order: futures of bytes, and bytes. progress: is told the share that is done."""
        for part in self._parts:
            self._begin(part)
        left = len(self._parts)
        while left:
            try:
                part = self._done.get(timeout=_LOOK)
            except Empty:
                self._hurry()
                continue
            if part.attempts:  # nobody was quicker
                left += self._end(part)
            if not self._running and self._suspects:  # each of them by itself
                self._begin(self._suspects.pop(0))
            if progress is not None:
                progress(1 - left / len(self._parts))
        return [part.result for part in self._parts]

    def _begin(self, part: _Bundle, **where: Any) -> None:
        arguments = part.paths, self._request, self._asked, __version__, _seconds_each()
        future = self._client.submit(_folded, *arguments, retries=_RETRIES, pure=False, **where)
        self._running.add(part)
        part.attempts.append(future)
        future.add_done_callback(lambda _: self._done.put(part))

    def _end(self, part: _Bundle) -> int:
        """What became of a part; how many more are left."""
        now = time.monotonic()
        self._longest, self._news = max(self._longest, now - self._news), now
        self._running.discard(part)
        future = next(future for future in part.attempts if future.done())
        error = future.exception()
        part.attempts = []
        if error is None:
            part.result = future
        elif not isinstance(error, self._killed | MemoryError):
            raise error
        elif part.suspect:
            part.fail("the workers that tried to read it were lost")
        else:  # one of them is to blame, or one that the worker was to read next
            suspects = [_Bundle([path], suspect=True) for path in part.paths]
            index = self._parts.index(part)
            self._parts[index : index + 1] = suspects
            self._suspects += suspects
            return len(suspects) - 1
        return -1

    def _hurry(self) -> None:
        """Where nothing was done for long: let those that have nothing to do try, too."""
        quiet = time.monotonic() - self._news
        if quiet < max(_SLOW, 3 * self._longest):
            return
        busy = self._client.processing()
        if not busy:
            _require_workers(self._address, quiet)
            return
        idle = [worker for worker, tasks in busy.items() if not tasks]
        for part in [part for part in self._running if len(part.attempts) == 1][: len(idle)]:
            self._begin(part, workers=idle, allow_other_workers=True)


def _awaited(client: Any, address: str, future: Any) -> Any:
    """The result of a task, while there are workers. Raises PerfError, and what the task raises."""
    done, last = Event(), time.monotonic()
    future.add_done_callback(lambda _: done.set())
    while not done.wait(_LOOK):
        if client.processing():
            last = time.monotonic()
        _require_workers(address, time.monotonic() - last)
    return future.result()


def _require_workers(address: str, alone: float) -> None:
    if alone > _ALONE:
        raise PerfError(f"the cluster at {address} has no workers")


def _merged_to_one(client: Any, address: str, level: list[Any]) -> bytes:
    """What parts were folded to, merged by the workers."""
    while len(level) > 1:
        level = [
            client.submit(_merged, level[begin : begin + _FAN_IN], retries=_RETRIES, pure=False) for begin in range(0, len(level), _FAN_IN)
        ]
    found: bytes = level[0] if isinstance(level[0], bytes) else _awaited(client, address, level[0])
    return found


def _folded(paths: list[str], request: FoldingRequest, asked: str, version: str, seconds: float) -> bytes:
    """On a worker: some recordings, folded and put together, in so many seconds each.

    asked: tells one report from the next: files may change between them.
    """
    if version != __version__:
        raise PerfError(f"a worker has perfpy {__version__}, this process {version}: install the same")
    if getattr(_kept, "asked", "") != asked:
        _kept.asked, _kept.shared = asked, SharedFiles()
    with keeping_freed_memory():
        return packed(merged_groups(_folded_in_time(path, request, seconds) for path in paths))


def _folded_in_time(path: str, request: FoldingRequest, seconds: float) -> FoldedGroup:
    shared: SharedFiles = _kept.shared
    try:
        return in_time(lambda: folded_group([path], request, shared), seconds)
    except TimeoutError:
        _kept.shared = SharedFiles()  # whoever is late has the others
        return FoldedGroup(None, [RecordingProblem(shown(path), f"not read within {seconds:g} seconds")])


def _merged(parts: list[bytes]) -> bytes:
    """On a worker: neighbouring parts as one."""
    with keeping_freed_memory():
        return packed(merged_groups(unpacked(part) for part in parts))
