"""Download over HTTP, and send, within a time limit.

An Answer is read in pieces, each with its own limit; None if the server does not have the file. A socket's timeout alone bounds nothing,
because a server can send a byte now and then.
"""

from __future__ import annotations

import contextlib
import errno
import http.client
import math
import socket
import threading
import time
import urllib.error
import urllib.request
from typing import IO, TYPE_CHECKING, Any, Final

from perfpy.untrusted.files import open_regular

if TYPE_CHECKING:
    from types import TracebackType

_FILE: Final = "file://"
_LONGEST_SIZE: Final = 19  # digits of a Content-Length


class _Watch:
    """A timer that shuts down the connections of one request, redirections included."""

    def __init__(self, seconds: float) -> None:
        self.late = False
        self._due = time.monotonic() + seconds
        self._sockets: list[socket.socket] = []
        self._changed = threading.Condition()
        threading.Thread(target=self._wait, daemon=True).start()

    def connect(self, *args: Any, **keywords: Any) -> socket.socket:
        """Open a connection, as socket.create_connection does, and watch it."""
        connection = socket.create_connection(*args, **keywords)
        with self._changed:
            self._sockets.append(connection.dup())  # TLS takes over the original socket
            if self.late:
                self._shut()
        return connection

    def allow(self, seconds: float) -> None:
        """Set the remaining seconds; 0 and less shut the connections down."""
        with self._changed:
            self._due = time.monotonic() + seconds
            self._changed.notify()

    def close(self) -> None:
        """Stop the timer and close the duplicated sockets."""
        self.allow(0)

    def _wait(self) -> None:
        with self._changed:
            while (remaining := self._due - time.monotonic()) > 0:
                self._changed.wait(remaining if math.isfinite(remaining) else None)
            self.late = True
            self._shut()

    def _shut(self) -> None:
        for connected in self._sockets:
            with contextlib.suppress(OSError):  # the server was quicker
                connected.shutdown(socket.SHUT_RDWR)  # a blocked reader gets the end of the stream
            connected.close()
        self._sockets.clear()


class _Plain(urllib.request.HTTPHandler):
    def __init__(self, watch: _Watch) -> None:
        super().__init__()
        self._watch = watch

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(lambda *args, **options: _watch_connection(http.client.HTTPConnection(*args, **options), self._watch), req)


class _Secure(urllib.request.HTTPSHandler):
    def __init__(self, watch: _Watch) -> None:
        super().__init__()
        self._watch = watch

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(lambda *args, **options: _watch_connection(http.client.HTTPSConnection(*args, **options), self._watch), req)


def _watch_connection(connection: Any, watch: _Watch) -> Any:
    """Watch a connection from its first byte on, including a proxy's answer and the TLS handshake."""
    connection._create_connection = watch.connect  # noqa: SLF001  # http.client has no other place for it
    return connection


class _Redirections(urllib.request.HTTPRedirectHandler):
    def http_error_302(self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any) -> Any:
        fp.close()  # urllib would read its body into memory, however long it is
        try:
            return super().http_error_302(req, fp, code, msg, headers)
        except ValueError:  # the user's own address was valid
            raise urllib.error.URLError("redirected to a malformed address") from None

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302

    def redirect_request(self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str) -> Any:
        if not newurl.lower().startswith(("http://", "https://")):
            raise urllib.error.URLError("redirected to an address that is not http or https")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


class Answer:
    """The body of an answer, a context manager. `size` is the announced size, 0 if unknown."""

    def __init__(self, url: str, body: Any, size: int, watch: _Watch | None = None) -> None:
        self.url = url
        self.size = size
        self._body = body
        self._watch = watch

    def __enter__(self) -> Answer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._body.close()
        if self._watch:
            self._watch.close()

    def read(self, most: int, seconds: float) -> bytes:
        """Return the next bytes, b"" at the end. Raises TimeoutError if none arrive in time, OSError for a malformed or truncated body."""
        if self._watch:
            self._watch.allow(seconds)
        try:
            piece = bytes(self._body.read1(most))
        except http.client.HTTPException as error:  # of a body in chunks
            if not (self._watch and self._watch.late):
                raise _malformed(error) from None
            piece = b""
        if self._watch and self._watch.late:
            raise TimeoutError(f"{self.url}: too slow")
        return piece


def get(url: str, seconds: float) -> Answer | None:
    """Request an address. `seconds`: until the head of the answer must be complete. Raises OSError, ValueError."""
    if url.startswith(_FILE):
        try:
            file = open_regular(urllib.request.url2pathname(url.removeprefix(_FILE)))
        except OSError:
            return None
        return Answer(url, file, 0)
    watch = _Watch(seconds)
    try:
        body = _opener(watch).open(url, timeout=seconds if math.isfinite(seconds) else None)
        return Answer(url, body, _announced_size(body.headers), watch)
    except urllib.error.HTTPError as refusal:
        refusal.close()
        watch.close()
        return None
    except BaseException as error:
        watch.close()
        if isinstance(error, http.client.HTTPException):  # a malformed head, or one truncated by the limit
            raise _malformed(error) from None
        raise


def post(url: str, data: bytes, kind: str, seconds: float) -> None:
    """Send data to a server within a time limit; kind: the type of its content. Redirections are refused: the data are for this server.

    Raises OSError, ValueError.
    """
    if not url.lower().startswith(("http://", "https://")):
        raise ValueError(f"{url}: neither http nor https")
    watch = _Watch(seconds)
    try:
        request = urllib.request.Request(url, data, {"Content-Type": kind, "User-Agent": "perfpy"}, method="POST")
        _opener(watch, follows=False).open(request, timeout=seconds).close()
    except urllib.error.HTTPError as refusal:
        refusal.close()
        raise OSError(f"the server answers {refusal.code}") from None
    except urllib.error.URLError as error:
        raise OSError(f"too slow: no answer in {seconds:.0f} s" if watch.late else str(error.reason)) from None
    except http.client.HTTPException as error:
        raise OSError(f"too slow: no answer in {seconds:.0f} s" if watch.late else f"no HTTP answer: {error!r}") from None
    finally:
        watch.close()


def _announced_size(headers: Any) -> int:
    """Return the size of a body, 0 if unknown. Raises OSError for a Content-Length that is not a number."""
    text = str(headers.get("Content-Length") or "0").strip()
    if headers.get("Transfer-Encoding"):  # overrides Content-Length (RFC 9112, 6.3)
        return 0
    if not (text.isascii() and text.isdecimal() and len(text) <= _LONGEST_SIZE):
        raise OSError(errno.EPROTO, "malformed HTTP answer (Content-Length)")
    return int(text)


def _malformed(error: http.client.HTTPException) -> OSError:
    """Return the error of an answer that is not HTTP. It contains no text of the server, and not the address, which may have a password."""
    return OSError(errno.EPROTO, f"malformed HTTP answer ({type(error).__name__})")


def _opener(watch: _Watch, *, follows: bool = True) -> urllib.request.OpenerDirector:
    """Return an opener for http and https only; follows: redirections."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        _Plain(watch),
        _Secure(watch),
        *([_Redirections()] if follows else []),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.UnknownHandler(),
    ):
        opener.add_handler(handler)
    return opener
