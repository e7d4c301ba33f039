"""Fold and merge many recordings on a Dask cluster, where the files are.

The workers fold the recordings, a few at a time; the results stay on the workers, which merge neighbours
until one profile is left: only that one is transferred. The merge order is the order of the recordings, whichever worker is first; so
the result is the same as without a cluster, also if workers die and their tasks run again. Workers need perfpy and the files.

Recordings that repeatedly kill workers run one by one, then are reported as unreadable. If a task is slow while
other workers are idle, one of them runs it, too; the first result counts.

Profiles and options move between machines as data that cannot run code, and are checked on arrival (perfpy.fleet.transfer). The client
does not deserialize pickled results. Dask itself pickles tasks and exceptions: use a trusted network, or TLS.
"""

from __future__ import annotations

import logging
import os
import time
from concurrent.futures import CancelledError
from contextlib import contextmanager
from importlib import import_module
from queue import Empty, SimpleQueue
from threading import Event, local
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar
from uuid import uuid4

from perfpy.errors import PerfError, UsageError
from perfpy.fleet.folding import FoldedGroup, fold_group, merge_groups
from perfpy.fleet.portable_profile import RecordingProblem
from perfpy.fleet.remote import public_name, read_first, run_with_timeout
from perfpy.fleet.transfer import BadTransferError, pack, unpack
from perfpy.symbols.files.debug_files import SharedFiles
from perfpy.version import __version__
from perfpy.workers import keeping_freed_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from perfpy.fleet.folding import FoldingRequest
    from perfpy.recording import Recording


#: families of Dask's serialization that the client accepts for results: no pickle
_DESERIALIZERS: Final = ("msgpack", "error")
#: the most bytes of recordings per task; the size that a file is taken for if this process cannot see it
_BUNDLE_BYTES: Final = 64 << 20
_UNKNOWN_BYTES: Final = 16 << 20
#: the least number of tasks per thread of the cluster
_TURNS: Final = 4
#: profiles merged per task
_FAN_IN: Final = 8
#: retries of a task that failed for lack of its worker or of memory
_RETRIES: Final = 3
#: seconds: between two looks at the progress; until a slow task runs on a second worker; until a cluster without workers fails
_LOOK: Final = 1.0
_SLOW: Final = 30.0
_ALONE: Final = 60.0
#: the scheduler's address, unless an option has it
CLUSTER_VARIABLE: Final = "PERFPY_CLUSTER"
#: the timeout of one recording on a worker, seconds
TIMEOUT_VARIABLE: Final = "PERFPY_CLUSTER_TIMEOUT"
_SECONDS_EACH: Final = 3600.0

_per_thread = local()  # per thread of a worker: the files found for the last request


def cluster_address(address: str) -> str:
    """Return the scheduler's address from the option or the environment; "" for none."""
    return address or os.environ.get(CLUSTER_VARIABLE, "")


def _seconds_each() -> float:
    text = os.environ.get(TIMEOUT_VARIABLE, "")
    try:
        return float(text) if text else _SECONDS_EACH
    except ValueError:
        raise UsageError(f"{TIMEOUT_VARIABLE}={text}: not a number of seconds") from None


def fold_on_cluster(
    address: str, paths: Sequence[str], request: FoldingRequest, progress: Callable[[float], None] | None = None
) -> FoldedGroup:
    """Fold and merge all recordings on a cluster. Raises PerfError if there is no cluster, and the workers' errors."""
    with _client(address) as client:
        folding = _Folding(client, address, request, paths)
        group: FoldedGroup = _unpack(_merged_to_one(client, address, folding.results(progress)), FoldedGroup, address)
        return group


def read_first_on_cluster(address: str, paths: Sequence[str], tell: Callable[[Recording], Any], *, check_owner: bool) -> Any:
    """Return tell()'s result for the first recording that a worker can read. Raises PerfError."""
    with _client(address) as client:
        future = client.submit(_first, list(paths), tell, check_owner=check_owner, retries=_RETRIES, pure=False)
        return _unpack(_await_task(client, address, future), tuple, address)


def _unpack(data: Any, expected: type, address: str) -> Any:
    """Decode what workers sent. Raises PerfError for anything else than data of the expected class."""
    try:
        if not isinstance(data, bytes):
            raise BadTransferError(f"a {type(data).__name__} instead of bytes")
        return unpack(data, expected)
    except BadTransferError as error:
        raise PerfError(f"a worker of {address} sent bad data: {error}; use a cluster that you trust, and TLS") from None


@contextmanager
def _client(address: str) -> Iterator[Any]:
    try:
        distributed: Any = import_module("distributed")
    except ModuleNotFoundError:
        raise PerfError("a cluster needs the package distributed: pip install 'perfpy[cluster]'") from None
    failures = CancelledError, OSError, import_module("distributed.scheduler").KilledWorker
    with _without_its_log():
        try:
            client = distributed.Client(address, set_as_default=False, deserializers=_DESERIALIZERS)
        except (OSError, ValueError) as error:
            raise PerfError(f"no cluster at {address}: {_first_line(error)}") from None
        with client:
            try:
                yield client
            except failures as error:
                raise PerfError(f"lost the cluster at {address}: {_first_line(error)}") from None
            except ModuleNotFoundError as error:
                raise PerfError(f"the workers of {address} need the same packages as this process: {error}") from None


@contextmanager
def _without_its_log() -> Iterator[None]:
    """Silence Dask's log of lost connections: errors report those that matter."""
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
    """Neighbouring recordings in one task.

    Attributes:
        paths: of the recordings.
        suspect: whether a worker died with them.
        attempts: futures of their folded profile.
        result: the first future that finished, or bytes.
    """

    def __init__(self, paths: Sequence[str], *, suspect: bool = False) -> None:
        self.paths = list(paths)
        self.suspect = suspect
        self.attempts: list[Any] = []
        self.result: Any = None

    def fail(self, reason: str) -> None:
        """Report all recordings of the bundle as unreadable."""
        self.result = pack(FoldedGroup(None, [RecordingProblem(public_name(path), reason) for path in self.paths]))


def bundles_of(paths: Sequence[str], threads: int) -> Iterator[list[str]]:
    """Yield neighbouring recordings for one task each: few large ones or many small ones, in at least _TURNS tasks for each thread.

    A task has its own costs, a fraction of a second, whatever it reads.
    """
    most = max(1, len(paths) // (_TURNS * threads))
    bundle: list[str] = []
    total = 0
    for path in paths:
        try:
            size = os.stat(path).st_size
        except (OSError, ValueError):  # only the workers can see it
            size = _UNKNOWN_BYTES
        if bundle and (len(bundle) == most or total + size > _BUNDLE_BYTES):
            yield bundle
            bundle, total = [], 0
        bundle.append(path)
        total += size
    if bundle:
        yield bundle


class _Folding:
    """The folding of all recordings of one report on a cluster."""

    def __init__(self, client: Any, address: str, request: FoldingRequest, paths: Sequence[str]) -> None:
        self._client, self._address, self._request = client, address, request
        self._request_id = uuid4().hex
        self._done: SimpleQueue[_Bundle] = SimpleQueue()
        self._running: set[_Bundle] = set()
        self._suspects: list[_Bundle] = []
        self._killed = import_module("distributed.scheduler").KilledWorker
        threads = sum(client.nthreads().values()) or 1
        self._parts = [_Bundle(bundle) for bundle in bundles_of(paths, threads)]
        self._longest = 0.0  # the longest time between two results
        self._news = time.monotonic()  # the time of the last result

    def results(self, progress: Callable[[float], None] | None) -> list[Any]:
        """Return the folded bundles in order: futures of bytes, and bytes. progress: called with the finished share."""
        for part in self._parts:
            self._begin(part)
        remaining = len(self._parts)
        while remaining:
            try:
                part = self._done.get(timeout=_LOOK)
            except Empty:
                self._hurry()
                continue
            if part.attempts:  # no other attempt was faster
                remaining += self._end(part)
            if not self._running and self._suspects:  # suspects run alone
                self._begin(self._suspects.pop(0))
            if progress is not None:
                progress(1 - remaining / len(self._parts))
        return [part.result for part in self._parts]

    def _begin(self, part: _Bundle, **where: Any) -> None:
        arguments = part.paths, self._request, self._request_id, __version__, _seconds_each()
        future = self._client.submit(_fold_on_worker, *arguments, retries=_RETRIES, pure=False, **where)
        self._running.add(part)
        part.attempts.append(future)
        future.add_done_callback(lambda _: self._done.put(part))

    def _end(self, part: _Bundle) -> int:
        """Record the outcome of a bundle; return the change in the number of unfinished ones."""
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
            part.fail("the workers that read it died")
        else:  # one of them kills workers, or one that the worker was to read next
            suspects = [_Bundle([path], suspect=True) for path in part.paths]
            index = self._parts.index(part)
            self._parts[index : index + 1] = suspects
            self._suspects += suspects
            return len(suspects) - 1
        return -1

    def _hurry(self) -> None:
        """If nothing has finished for long, let idle workers try running bundles, too."""
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


def _await_task(client: Any, address: str, future: Any) -> Any:
    """Wait for a task while the cluster has workers. Raises PerfError, and the task's error."""
    event, last = Event(), time.monotonic()
    future.add_done_callback(lambda _: event.set())
    while not event.wait(_LOOK):
        if client.processing():
            last = time.monotonic()
        _require_workers(address, time.monotonic() - last)
    return future.result()


def _require_workers(address: str, alone: float) -> None:
    if alone > _ALONE:
        raise PerfError(f"the cluster at {address} has no workers")


def _merged_to_one(client: Any, address: str, level: list[Any]) -> bytes:
    """Merge the folded bundles on the workers."""
    while len(level) > 1:
        level = [
            client.submit(_merge_on_worker, level[begin : begin + _FAN_IN], retries=_RETRIES, pure=False)
            for begin in range(0, len(level), _FAN_IN)
        ]
    merged_bytes: bytes = level[0] if isinstance(level[0], bytes) else _await_task(client, address, level[0])
    return merged_bytes


def _first(paths: list[str], tell: Callable[[Recording], Any], *, check_owner: bool) -> bytes:
    """On a worker: pack tell()'s result for the first recording that can be read."""
    return pack(read_first(paths, tell, check_owner=check_owner))


def _fold_on_worker(paths: list[str], request: FoldingRequest, request_id: str, version: str, seconds: float) -> bytes:
    """On a worker: fold some recordings and merge them, with a timeout for each.

    request_id: identifies the report; files may change between reports.
    """
    if version != __version__:
        raise PerfError(f"a worker has perfpy {__version__}, this process {version}; install the same version")
    if getattr(_per_thread, "request_id", "") != request_id:
        _per_thread.request_id, _per_thread.shared = request_id, SharedFiles()
    with keeping_freed_memory():
        return pack(merge_groups(_folded_in_time(path, request, seconds) for path in paths))


def _folded_in_time(path: str, request: FoldingRequest, seconds: float) -> FoldedGroup:
    shared: SharedFiles = _per_thread.shared
    try:
        return run_with_timeout(lambda: fold_group([path], request, shared), seconds)
    except TimeoutError:
        _per_thread.shared = SharedFiles()  # the thread that timed out still uses the other object
        return FoldedGroup(None, [RecordingProblem(public_name(path), f"not read within {seconds:g} seconds")])


def _merge_on_worker(parts: list[bytes]) -> bytes:
    """On a worker: merge neighbouring bundles."""
    with keeping_freed_memory():
        return pack(merge_groups(_unpack(part, FoldedGroup, "this cluster") for part in parts))


# The settings of the process that reads many recordings, for the workers of its cluster: perf's configuration, symbol servers, cache.


Config = TypeVar("Config")
#: environment variables with locations of symbols
_FOR_SYMBOLS: Final = ("DEBUGINFOD_URLS", "PERF_BUILDID_DIR")


class SentSettings(Generic[Config]):
    """The configuration, and the environment's symbol servers and cache, of the process that creates it.

    Args:
        config: the settings of its configuration files.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._environment = {name: os.environ[name] for name in _FOR_SYMBOLS if name in os.environ}

    def apply(self) -> Config:
        """Return the configuration in the worker. Environment variables of the worker take precedence."""
        for name, value in self._environment.items():
            os.environ.setdefault(name, value)
        return self._config
