"""Debug files from debuginfod servers, by build-id.

What enters: a build-id; the servers are those of DEBUGINFOD_URLS (without it
nothing is asked). What leaves: the path of the file in the cache that all
debuginfod clients share ($DEBUGINFOD_CACHE_PATH, or debuginfod_client under
XDG_CACHE_HOME). Protocol: debuginfod(8), GET /buildid/BUILDID/debuginfo.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from typing import TYPE_CHECKING, BinaryIO, Final

from perfpy.untrusted.terminal import control
from perfpy.untrusted.text import visible

if TYPE_CHECKING:
    from http.client import HTTPResponse

_MISS_SECONDS: Final = 600  # how long "no server has it" is believed
_DEFAULT_TIMEOUT: Final = 30.0  # seconds, for one file
_CHUNK: Final = 1 << 20


def servers() -> list[str]:
    """The addresses in DEBUGINFOD_URLS."""
    return os.environ.get("DEBUGINFOD_URLS", "").split()


def cache_folder() -> str:
    """Where debuginfod clients keep what they fetched."""
    named = os.environ.get("DEBUGINFOD_CACHE_PATH")
    return named or os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "debuginfod_client")


class Client:
    """Asks servers, in their order. One that cannot be reached is not asked again."""

    def __init__(self) -> None:
        self.servers = servers()

    def fetch(self, build_id: str, kind: str = "debuginfo") -> str:
        """The path of a file from the cache or a server; "" where none has it. kind: debuginfo or executable."""
        if not build_id or not self.servers:
            return ""
        path = os.path.join(cache_folder(), build_id, kind)
        known = _known(path)
        if known is not None:
            return known
        for server in list(self.servers):
            try:
                if _download(f"{server.rstrip('/')}/buildid/{build_id}/{kind}", path):
                    return path
            except (OSError, ValueError):  # refused, no such host, timed out, a malformed address
                self.servers.remove(server)
        if self.servers:
            with contextlib.suppress(OSError), open(path, "wb"):  # an empty file: no server has it
                pass
        return ""


def _known(path: str) -> str | None:
    """The cached answer: the path, "" for a recent miss, None where there is none."""
    try:
        state = os.stat(path)
    except OSError:
        return None
    if state.st_size:
        return path
    return "" if time.time() - state.st_mtime < _MISS_SECONDS else None


def _download(url: str, path: str) -> bool:
    """Fetch one file; False where the server does not have it. Raises OSError or ValueError where there is no server."""
    import urllib.error
    import urllib.request  # only when a server is asked

    timeout = float(os.environ.get("DEBUGINFOD_TIMEOUT") or _DEFAULT_TIMEOUT)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    try:
        with urllib.request.urlopen(url, timeout=timeout) as response:
            return _store(response, path, time.monotonic() + timeout)
    except urllib.error.HTTPError as answer:
        answer.close()
        return False


def _store(response: HTTPResponse, path: str, deadline: float) -> bool:
    """Write a response beside the path and put it in place whole."""
    import tempfile  # only when a server was asked

    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(path))
    try:
        with os.fdopen(handle, "wb") as file:
            _copy(response, file, deadline)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    return True


def _copy(response: HTTPResponse, file: BinaryIO, deadline: float) -> None:
    total, done = int(response.headers.get("Content-Length") or 0), 0
    show = sys.stderr.isatty()
    while piece := response.read(_CHUNK):
        file.write(piece)
        done += len(piece)
        if show:
            control(sys.stderr, f"\rfetching {visible(response.url)} {done >> 20} of {total >> 20} MB")
        if time.monotonic() > deadline:
            raise TimeoutError(f"{response.url}: too slow")
    if show:
        control(sys.stderr, "\r\033[K")
