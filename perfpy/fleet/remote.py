"""Recordings at URLs: s3://, gs://, hdfs://, sftp:// ... through fsspec and its packages, http:// and https:// without.

Each is fetched into an unnamed temporary file, which disappears when it is closed.
Servers are untrusted: each minute must bring 100 KB, also the first; they do not
choose where anything is written; and listings stay below the named folder.
"""

from __future__ import annotations

import errno
import os
import queue
import re
import tempfile
import threading
import time
from contextlib import contextmanager
from importlib import import_module
from typing import IO, TYPE_CHECKING, Any, Final, TypeVar, cast
from urllib.error import URLError
from urllib.parse import urlsplit, urlunsplit

from perfpy.errors import BadPerfDataError, PerfError
from perfpy.recording import Recording
from perfpy.workers import ForkedWorkers, can_fork

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import BinaryIO

    from perfpy.symbols.files.debug_files import SymbolOptions
    from perfpy.untrusted.download import Answer


_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_HERE: Final = ("file://", "local://")
_WEB: Final = ("http://", "https://")
_MAGIC: Final = frozenset("*?[")
#: bytes of one recording
_LARGEST: Final = 16 << 30
#: recordings of one pattern or folder
_MOST: Final = 100_000
_PIECE: Final = 4 << 20
_AHEAD: Final = 2  # pieces


def is_url(name: str) -> bool:
    """Whether a name is the URL of a recording."""
    return _URL.match(name) is not None and not os.path.exists(name)


def public_name(name: str) -> str:
    """Return a name for display: a URL without password and signature."""
    if not is_url(name):
        return name
    parts = urlsplit(name)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def local_name(name: str) -> str:
    """Return the path of a file:// URL; other names unchanged."""
    return next((name.removeprefix(scheme) for scheme in _HERE if name.startswith(scheme)), name)


def find_urls(url: str) -> list[str]:
    """Return the recordings of a URL: itself, the matches of a pattern, or in a folder ("/" at its end) the files *.data; sorted.

    Raises BadPerfDataError if they cannot be listed.
    """
    pattern = f"{url}*.data" if url.endswith("/") else url
    if not _MAGIC & set(urlsplit(pattern).path):
        return [url]
    if pattern.startswith(_WEB):
        raise BadPerfDataError(
            public_name(url), "web servers cannot list files", remedy="name each recording, or use the URL of a file system"
        )

    def listed(pattern: str) -> list[str]:
        return list(_in_time(public_name(url), lambda: _list_files(pattern)))

    if not can_fork():
        return listed(pattern)
    with ForkedWorkers([pattern], listed, 1) as worker:  # file systems leave threads behind, which prevent later forks
        return next(worker.results())


def _list_files(pattern: str) -> Iterator[str]:
    files, path = _file_system(pattern)
    below = re.split(r"[*?\[]", path)[0].rpartition("/")[0]
    names = sorted(str(name) for name in files.glob(path))
    for name in [name for name in names if name.startswith(f"{below}/") and ".." not in name.split("/")][:_MOST]:
        yield str(files.unstrip_protocol(name))


class Fetched:
    """A fetched recording: an unnamed temporary file, called by its URL."""

    def __init__(self, url: str) -> None:
        """Fetch the recording. Raises BadPerfDataError if that fails, PerfError if a package is missing."""
        self.name = public_name(url)
        self._file: IO[bytes] = tempfile.TemporaryFile(prefix="perfpy-")  # noqa: SIM115  # close() does
        try:
            self._fetch(url)
        except BaseException:
            self.close()
            raise

    def fileno(self) -> int:
        """Return the descriptor of the open file."""
        return self._file.fileno()

    def close(self) -> None:
        """Close the file, which deletes it."""
        self._file.close()

    def _fetch(self, url: str) -> None:
        try:
            size = 0
            for piece in _web_pieces(url, self.name) if url.startswith(_WEB) else _in_time(self.name, lambda: _pieces(url)):
                size += self._file.write(piece)
                if size > _LARGEST:
                    raise BadPerfDataError(self.name, f"larger than {_LARGEST >> 30} GB")
            self._file.flush()
        except TimeoutError:
            raise BadPerfDataError(self.name, "cannot fetch: too slow") from None
        except OSError as error:
            is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            remedy = "set TMPDIR to a folder with more space" if is_full else ""
            raise BadPerfDataError(self.name, f"cannot fetch: {_reason(error)}", remedy=remedy) from None


def _web_pieces(url: str, name: str) -> Iterator[bytes]:
    from perfpy.untrusted.download import get  # of few recordings

    pace = Pace()
    try:
        answer: Answer | None = get(url, pace.seconds_left())
        if answer is None:
            raise BadPerfDataError(name, "the server does not return it")
        with answer:
            while piece := answer.read(_PIECE, pace.seconds_left()):
                pace.add(len(piece))
                yield piece
            if pace.bytes < answer.size:
                raise BadPerfDataError(name, f"truncated after {pace.bytes} of {answer.size} bytes")
    except ValueError:
        raise BadPerfDataError(name, "not a URL") from None
    except OSError:
        if pace.seconds_left() <= 0:  # the connection was closed at the time limit
            raise TimeoutError from None
        raise


def _pieces(url: str) -> Iterator[bytes]:
    files, path = _file_system(url)
    with files.open(path, "rb") as file:
        while piece := file.read(_PIECE):
            yield piece


def _file_system(url: str) -> tuple[Any, str]:
    """Return the file system of a URL, and the path in it. Raises PerfError."""
    try:
        core: Any = import_module("fsspec.core")
    except ModuleNotFoundError:
        raise PerfError(f"{public_name(url)}: URLs of this kind need the package fsspec: pip install 'perfpy[cluster]'") from None
    try:
        file_system: tuple[Any, str] = core.url_to_fs(url)
    except ImportError as error:
        cause = error.__cause__
        package = cause.name if isinstance(cause, ModuleNotFoundError) else error.name
        raise PerfError(
            f"{public_name(url)}: URLs of this kind need another package: pip install {package or urlsplit(url).scheme + 'fs'}"
        ) from None
    except ValueError as error:
        raise PerfError(f"{public_name(url)}: {error}") from None
    return file_system


def _in_time(name: str, open_pieces: Callable[[], Iterator[Any]]) -> Iterator[Any]:
    """Yield the items of a file system, read by another thread, so that only that one can hang."""
    items: queue.Queue[tuple[str, Any]] = queue.Queue(_AHEAD)
    ended = threading.Event()

    def ask() -> None:
        try:
            for one in open_pieces():
                items.put(("one", one))
                if ended.is_set():
                    return
            items.put(("end", None))
        except Exception as error:  # noqa: BLE001  # of any file system; the reader raises it
            items.put(("error", error))

    threading.Thread(target=ask, daemon=True).start()
    pace = Pace()
    try:
        while True:
            try:
                kind, one = items.get(timeout=max(pace.seconds_left(), 0))
            except queue.Empty:
                raise BadPerfDataError(name, "cannot fetch: too slow") from None
            if kind == "end":
                return
            if kind == "error":
                raise one if isinstance(one, PerfError | OSError) else BadPerfDataError(name, f"cannot fetch: {_reason(one)}")
            pace.add(len(one))
            yield one
    finally:
        ended.set()
        while not items.empty():  # the thread may wait for room
            items.get_nowait()


def _reason(error: BaseException) -> str:
    """Return an error's reason in one line."""
    if isinstance(error, URLError):
        return _reason(error.reason) if isinstance(error.reason, BaseException) else str(error.reason)
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return text.splitlines()[0]


# Time limits for data that arrive slowly or never: a minimal rate, and a timeout for work.


ResultT = TypeVar("ResultT")

#: at least 100 KB in each minute
_LEAST: Final = 100 << 10
_SECONDS: Final = 60.0


class Pace:
    """The rate of one download, whose first bytes must come within the time limit, too; bytes: received so far."""

    def __init__(self) -> None:
        self.bytes = 0
        self._counted = 0
        self._due = time.monotonic() + _SECONDS

    def add(self, size: int) -> None:
        """Count received bytes."""
        self.bytes += size
        if self.bytes >= self._counted + _LEAST:
            self._counted, self._due = self.bytes, time.monotonic() + _SECONDS

    def seconds_left(self) -> float:
        """Return the seconds until the limit; at most 0 if it has passed."""
        return self._due - time.monotonic()


def run_with_timeout(work: Callable[[], ResultT], seconds: float) -> ResultT:
    """Run work in a thread and return its result. Raises TimeoutError after `seconds`; the thread is then abandoned."""
    answers: queue.SimpleQueue[tuple[ResultT | None, BaseException | None]] = queue.SimpleQueue()

    def do() -> None:
        try:
            answers.put((work(), None))
        except BaseException as error:  # noqa: BLE001  # the caller raises it
            answers.put((None, error))

    threading.Thread(target=do, daemon=True).start()
    try:
        answer, error = answers.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError from None
    if error is not None:
        raise error
    return answer  # type: ignore[return-value]  # None only if work returns it


# Open recordings by path or URL.


@contextmanager
def open_recording(path: str, *, check_owner: bool, symbols: SymbolOptions | None = None) -> Iterator[Recording]:
    """Open a recording by its path or URL. Raises BadPerfDataError."""
    fetched = Fetched(path) if is_url(path) else None
    try:
        with Recording(cast("BinaryIO", fetched) if fetched else path, check_owner=check_owner, symbols=symbols) as recording:
            yield recording
    finally:
        if fetched:
            fetched.close()


def read_first(paths: Sequence[str], tell: Callable[[Recording], Any], *, check_owner: bool) -> Any:
    """Return tell()'s result for the first recording that it accepts. Raises PerfError if none is."""
    refused: PerfError | None = None
    for path in paths:
        try:
            with open_recording(path, check_owner=check_owner) as recording:
                return tell(recording)
        except PerfError as error:
            if refused is None or (isinstance(refused, BadPerfDataError) and not isinstance(error, BadPerfDataError)):
                refused = error
    raise refused or PerfError("no recordings")
