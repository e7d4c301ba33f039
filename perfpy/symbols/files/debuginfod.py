"""Fetch debug files from the debuginfod servers of DEBUGINFOD_URLS, by build-id.

Files go to the cache that all debuginfod clients share ($DEBUGINFOD_CACHE_PATH, or debuginfod_client under XDG_CACHE_HOME). Protocol:
debuginfod(8), GET /buildid/BUILDID/debuginfo.

The limits on servers are those of debuginfod-client-config(7): 100 KB within each DEBUGINFOD_TIMEOUT seconds (30), the answer's head within
the first; the whole file within DEBUGINFOD_MAXTIME seconds (600); at most DEBUGINFOD_MAXSIZE bytes (4 GB). Redirections lead to http and
https only.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import time
from typing import TYPE_CHECKING, Final

from perfpy.untrusted import destinations, files
from perfpy.untrusted.terminal import control
from perfpy.untrusted.text import visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from perfpy.untrusted.download import Answer

_MISS_SECONDS: Final = 600  # how long a miss on all servers is cached
_DEFAULT_TIMEOUT: Final = 30.0  # seconds
_DEFAULT_MAX_TIME: Final = 600.0  # seconds
_DEFAULT_MAX_SIZE: Final = 4 << 30  # bytes; a browser's debug file has 3 GB
_LEAST: Final = 100 << 10  # bytes per timeout
_CHUNK: Final = 1 << 20


def servers() -> list[str]:
    """Return the addresses in DEBUGINFOD_URLS."""
    return os.environ.get("DEBUGINFOD_URLS", "").split()


def cache_folder() -> str:
    """Return the folder that debuginfod clients share."""
    folder = os.environ.get("DEBUGINFOD_CACHE_PATH")
    return folder or os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "debuginfod_client")


class Client:
    """A client of the servers, in their order. It queries an unreachable server only once."""

    def __init__(self) -> None:
        self.servers = servers()

    def fetch(self, build_id: str, kind: str = "debuginfo") -> str:
        """Return the path of a file from the cache or a server, or "" if none has it. `kind`: debuginfo or executable."""
        if not build_id or not self.servers:
            return ""
        try:
            folder = files.below(cache_folder(), files.build_id_hex(build_id))
            destinations.require_own(folder)
        except files.UnsafeNameError:
            return ""
        except OSError as error:  # the folder is not writable, or others can change it
            print(f"Warning: {error.filename}: {error.strerror}; no debuginfod server is asked", file=sys.stderr)
            self.servers = []
            return ""
        path = files.below(folder, kind)
        cached_path = _find_cached(path)
        return self._ask(f"buildid/{build_id}/{kind}", path) if cached_path is None else cached_path

    def _ask(self, artifact: str, path: str) -> str:
        for server in list(self.servers):
            try:
                if _download(f"{server.rstrip('/')}/{artifact}", path):
                    return path
            except (OSError, ValueError):  # refused, no such host, timed out, a malformed address
                self.servers.remove(server)
        if self.servers:
            with contextlib.suppress(OSError):
                _store(path, ())  # an empty file: no server has it
        return ""


def _find_cached(path: str) -> str | None:
    """Return the cached path, "" for a recent miss, None if nothing is cached."""
    try:
        state = os.stat(path)
    except OSError:
        return None
    if state.st_size:
        return path
    return "" if time.time() - state.st_mtime < _MISS_SECONDS else None


def _setting(name: str, default: float) -> float:
    """Return a number from the environment. As documented there, zero and less mean no limit."""
    number = float(os.environ.get(name) or default)
    return number if number > 0 else float("inf")


def _download(url: str, path: str) -> bool:
    """Fetch one file; return False if the server does not have it. Raises OSError or ValueError if the server fails."""
    from perfpy.untrusted.download import get  # only needed for a request

    timeout = _setting("DEBUGINFOD_TIMEOUT", _DEFAULT_TIMEOUT)
    deadline = time.monotonic() + _setting("DEBUGINFOD_MAXTIME", _DEFAULT_MAX_TIME)
    answer = get(url, min(timeout, deadline - time.monotonic()))
    if answer is None:
        return False
    with answer:
        _store(path, _pieces(answer, timeout, deadline))
    return True


def _store(path: str, pieces: Iterable[bytes]) -> None:
    """Write a file of the cache. Raises OSError."""
    with destinations.own(os.path.dirname(path)) as folder:
        folder.put(os.path.basename(path), pieces)


def _pieces(answer: Answer, timeout: float, deadline: float) -> Iterator[bytes]:
    """Yield an answer. Raises OSError if it is late, too large or cut off."""
    largest = _setting("DEBUGINFOD_MAXSIZE", _DEFAULT_MAX_SIZE)
    show = sys.stderr.isatty()
    received, required, due = 0, 0, time.monotonic() + timeout  # `required` bytes must have arrived at `due`
    while piece := answer.read(_CHUNK, min(due, deadline) - time.monotonic()):
        yield piece
        received += len(piece)
        if show:
            control(sys.stderr, f"\rfetching {visible(answer.url)} {received >> 20} of {answer.size >> 20} MB")
        if max(received, answer.size) > largest:
            raise OSError(errno.EFBIG, f"{answer.url}: larger than DEBUGINFOD_MAXSIZE")
        if received >= required + _LEAST:
            required, due = received, time.monotonic() + timeout
    if show:
        control(sys.stderr, "\r\033[K")
    if received < answer.size:
        raise OSError(errno.EIO, f"{answer.url}: cut off")
