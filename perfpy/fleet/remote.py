"""Recordings that are named by a URL: s3://, gs://, hdfs://, sftp:// ... by fsspec and its packages, http:// and https:// without.

What enters: URLs, patterns and folders of such. What leaves: the URLs of the recordings, and each as a file without a name,
which is gone when it is closed, however that comes about.

A server has no say in how long that takes: within each minute 100 KB have to come, the first of them, too; nor in where
anything is written; nor does a listing lead elsewhere than below what was named.
"""

from __future__ import annotations

import errno
import os
import queue
import re
import tempfile
import threading
from importlib import import_module
from typing import IO, TYPE_CHECKING, Any, Final
from urllib.error import URLError
from urllib.parse import urlsplit, urlunsplit

from perfpy.errors import BadPerfDataError, PerfError
from perfpy.fleet.pace import Pace
from perfpy.workers.forked import ForkedWorkers, can_fork

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from perfpy.symbols.files.download import Answer

_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_HERE: Final = ("file://", "local://")
_WEB: Final = ("http://", "https://")
_MAGIC: Final = frozenset("*?[")
#: bytes of one recording
_LARGEST: Final = 16 << 30
#: recordings that one pattern or folder names
_MOST: Final = 100_000
_PIECE: Final = 4 << 20
_AHEAD: Final = 2  # pieces


def is_url(name: str) -> bool:
    """Whether a recording is named by where it can be fetched."""
    return _URL.match(name) is not None and not os.path.exists(name)


def shown(name: str) -> str:
    """A name as others may read it: a URL without what opens doors, a user's password and a signature."""
    if not is_url(name):
        return name
    parts = urlsplit(name)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def local_name(name: str) -> str:
    """The path that file:// names; other names as they are."""
    return next((name.removeprefix(scheme) for scheme in _HERE if name.startswith(scheme)), name)


def urls_named(url: str) -> list[str]:
    """The recordings that a URL names: itself, what fits a pattern, or in a folder ("/" at its end) the files *.data; in order.

    Raises BadPerfDataError where nothing can be listed.
    """
    pattern = f"{url}*.data" if url.endswith("/") else url
    if not _MAGIC & set(urlsplit(pattern).path):
        return [url]
    if pattern.startswith(_WEB):
        raise BadPerfDataError(shown(url), "a web server does not list what it has", remedy="name each recording, or a file system's URL")

    def listed(pattern: str) -> list[str]:
        return list(_in_time(shown(url), lambda: _listed(pattern)))

    if not can_fork():
        return listed(pattern)
    with ForkedWorkers([pattern], listed, 1) as worker:  # file systems leave threads behind, beside which nothing can be forked
        return next(worker.results())


def _listed(pattern: str) -> Iterator[str]:
    files, path = _file_system(pattern)
    below = re.split(r"[*?\[]", path)[0].rpartition("/")[0]
    names = sorted(str(name) for name in files.glob(path))
    for name in [name for name in names if name.startswith(f"{below}/") and ".." not in name.split("/")][:_MOST]:
        yield str(files.unstrip_protocol(name))


class Fetched:
    """A recording that was fetched: a file without a name among files, called by its URL."""

    def __init__(self, url: str) -> None:
        """Raises BadPerfDataError where it cannot be fetched, PerfError where a package is missing."""
        self.name = shown(url)
        self._file: IO[bytes] = tempfile.TemporaryFile(prefix="perfpy-")  # noqa: SIM115  # close() does
        try:
            self._fetch(url)
        except BaseException:
            self.close()
            raise

    def fileno(self) -> int:
        """Of the open file."""
        return self._file.fileno()

    def close(self) -> None:
        """Let go of it: nothing is left."""
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
            room = error.errno in (errno.ENOSPC, errno.EDQUOT)
            remedy = "TMPDIR names a folder with more room" if room else ""
            raise BadPerfDataError(self.name, f"cannot fetch: {_reason(error)}", remedy=remedy) from None


def _web_pieces(url: str, name: str) -> Iterator[bytes]:
    from perfpy.symbols.files.download import get  # of few recordings

    pace = Pace()
    try:
        answer: Answer | None = get(url, pace.left())
        if answer is None:
            raise BadPerfDataError(name, "the server does not give it")
        with answer:
            while piece := answer.read(_PIECE, pace.left()):
                pace.came(len(piece))
                yield piece
            if pace.bytes < answer.size:
                raise BadPerfDataError(name, f"cut off after {pace.bytes} of {answer.size} bytes")
    except ValueError:
        raise BadPerfDataError(name, "not a URL") from None
    except OSError:
        if pace.left() <= 0:  # the connection was ended when its time was over
            raise TimeoutError from None
        raise


def _pieces(url: str) -> Iterator[bytes]:
    files, path = _file_system(url)
    with files.open(path, "rb") as file:
        while piece := file.read(_PIECE):
            yield piece


def _file_system(url: str) -> tuple[Any, str]:
    """What knows such URLs, and the path by which it knows this one. Raises PerfError."""
    try:
        core: Any = import_module("fsspec.core")
    except ModuleNotFoundError:
        raise PerfError(f"{shown(url)}: such URLs need the package fsspec: pip install 'perfpy[cluster]'") from None
    try:
        found: tuple[Any, str] = core.url_to_fs(url)
    except ImportError as error:
        cause = error.__cause__
        package = cause.name if isinstance(cause, ModuleNotFoundError) else error.name
        raise PerfError(f"{shown(url)}: such URLs need one more package: pip install {package or urlsplit(url).scheme + 'fs'}") from None
    except ValueError as error:
        raise PerfError(f"{shown(url)}: {error}") from None
    return found


def _in_time(name: str, made: Callable[[], Iterator[Any]]) -> Iterator[Any]:
    """What a file system gives, asked by a thread of its own: who waits for it for ever is that one."""
    given: queue.Queue[tuple[str, Any]] = queue.Queue(_AHEAD)
    ended = threading.Event()

    def ask() -> None:
        try:
            for one in made():
                given.put(("one", one))
                if ended.is_set():
                    return
            given.put(("end", None))
        except Exception as error:  # noqa: BLE001  # of any file system's kind: it is told by who waits
            given.put(("error", error))

    threading.Thread(target=ask, daemon=True).start()
    pace = Pace()
    try:
        while True:
            try:
                kind, one = given.get(timeout=max(pace.left(), 0))
            except queue.Empty:
                raise BadPerfDataError(name, "cannot fetch: too slow") from None
            if kind == "end":
                return
            if kind == "error":
                raise one if isinstance(one, PerfError | OSError) else BadPerfDataError(name, f"cannot fetch: {_reason(one)}")
            pace.came(len(one))
            yield one
    finally:
        ended.set()
        while not given.empty():  # it may wait for room
            given.get_nowait()


def _reason(error: BaseException) -> str:
    """What went wrong, in one line."""
    if isinstance(error, URLError) and isinstance(error.reason, BaseException):
        return _reason(error.reason)
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return text.splitlines()[0]
