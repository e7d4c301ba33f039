"""Recordings are fetched from URLs within limits of time and size, and leave nothing behind; failures are reported."""

from __future__ import annotations

import http.server
import lzma
import os
import re
import sys
import tempfile
import threading
import time
from typing import TYPE_CHECKING

import pytest

import perfpy
from perfpy.errors import BadPerfDataError, PerfError
from perfpy.fleet import remote
from perfpy.fleet import remote as pace
from perfpy.fleet.recordings import Recordings, find_recordings
from perfpy.fleet.remote import Fetched, find_urls, public_name
from tests.builders.own_corpus import RECORDINGS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CONTENT = lzma.decompress((RECORDINGS / "chains.data.xz").read_bytes())
NAMES = ("one.data", "two.data")


@pytest.fixture
def here(tmp_path: Path) -> list[str]:
    for name in NAMES:
        (tmp_path / name).write_bytes(CONTENT)
    return [str(tmp_path / name) for name in NAMES]


class _Answers(http.server.BaseHTTPRequestHandler):
    """Recordings, some of them truncated, slow, endless, or elsewhere."""

    def do_GET(self) -> None:
        name = self.path.partition("?")[0]
        if name == "/elsewhere":
            self.send_response(302)
            self.send_header("Location", "file:///etc/passwd")
            self.end_headers()
            return
        if name == "/malformed":
            self.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n100\r\ncut off")
            return
        if name == "/headless":
            self.wfile.write(b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 200)
            return
        if name in ("/abroad", "/nowhere"):
            self.send_response(302)
            self.send_header("Location", "ftp://127.0.0.1/x" if name == "/abroad" else "http://[::1")
            self.end_headers()
            return
        if not name.endswith(".data"):
            self.send_error(404)
            return
        self.send_response(200)
        if name != "/endless.data":
            self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        try:
            self._send(name)
        except OSError:
            return  # the client has closed the connection

    def _send(self, name: str) -> None:
        if name == "/slow.data":
            for number in range(200):
                self.wfile.write(CONTENT[number : number + 1])
                self.wfile.flush()
                time.sleep(0.05)
        elif name == "/endless.data":
            while True:
                self.wfile.write(bytes(1 << 16))
        else:
            self.wfile.write(CONTENT[: len(CONTENT) // 2] if name == "/cut.data" else CONTENT)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Answers) as served:
        served.daemon_threads = True
        thread = threading.Thread(target=served.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{served.server_port}"
        served.shutdown()
        thread.join()


def rows(names: list[str]) -> list[tuple[object, ...]]:
    return [(*row.texts.values(), row.period) for row in Recordings(names, jobs=1).report(by="comm,dso,symbol")]


def test_a_web_server_gives_the_same_report_as_the_files(here: list[str], server: str) -> None:
    assert rows([f"{server}/{name}" for name in NAMES]) == rows(here)


def test_a_file_system_gives_the_same_report_and_is_listed(here: list[str]) -> None:
    memory = pytest.importorskip("fsspec").filesystem("memory")
    for name in (*NAMES, "other.txt"):
        memory.pipe(f"/fleet/{name}", CONTENT)
    urls = [f"memory://fleet/{name}" for name in NAMES]
    for places in (["memory://fleet/*.data"], ["memory://fleet/"], urls):
        assert [re.sub("/+", "/", url) for url in find_recordings(places)] == [re.sub("/+", "/", url) for url in urls]
    assert rows(find_recordings("memory://fleet/")) == rows(here)
    with pytest.raises(BadPerfDataError, match="no recordings found"):
        find_recordings("memory://nowhere/*.data")


def test_file_urls_are_paths(here: list[str]) -> None:
    assert find_recordings([f"file://{path}" for path in here]) == here
    assert find_recordings(f"file://{os.path.dirname(here[0])}/*.data") == here


def test_recordings_that_cannot_be_fetched_are_skipped_and_reported(here: list[str], server: str) -> None:
    recordings = Recordings([f"{server}/{name}" for name in (NAMES[0], "gone", "cut.data", "elsewhere")], jobs=1)
    assert [(*row.texts.values(), row.period) for row in recordings.report(by="comm,dso,symbol")] == rows(here[:1])
    reasons = {failed.path.removeprefix(server): failed.reason for failed in recordings.failed}
    assert reasons["/gone"] == "the server does not return it"
    assert reasons["/cut.data"].startswith("truncated after ")
    assert reasons["/elsewhere"] == "the server does not return it"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("malformed", "malformed HTTP answer (IncompleteRead)"),
        ("headless", "malformed HTTP answer (HTTPException)"),
        ("abroad", "redirected to an address that is not http or https"),
        ("nowhere", "redirected to a malformed address"),
    ],
)
def test_a_server_that_lies_is_reported_in_one_line(server: str, name: str, reason: str) -> None:
    with pytest.raises(BadPerfDataError) as caught:
        Fetched(f"{server}/{name}?signature=abc")
    assert str(caught.value) == f"{server}/{name}: cannot fetch: {reason}"


def test_slow_downloads_time_out(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "_SECONDS", 0.5)
    begun = time.monotonic()
    with pytest.raises(BadPerfDataError, match="too slow"):
        Fetched(f"{server}/slow.data")
    assert time.monotonic() - begun < 9


def test_endless_downloads_are_stopped(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_LARGEST", 1 << 20)
    with pytest.raises(BadPerfDataError, match="larger than"):
        Fetched(f"{server}/endless.data")


def test_no_named_file_is_made_or_left_behind(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    fetched = Fetched(f"{server}/one.data")
    assert os.fstat(fetched.fileno()).st_size == len(CONTENT)
    assert not list(tmp_path.iterdir())
    fetched.close()


def test_passwords_and_signatures_are_not_shown(server: str) -> None:
    assert public_name("s3://me:secret@bucket/a.data?X-Amz-Signature=abc#x") == "s3://bucket/a.data"
    assert public_name("/a/b@c?d.data") == "/a/b@c?d.data"
    signed = server.replace("//", "//me:secret@") + "/gone?signature=abc"
    recordings = Recordings([signed], jobs=1)
    with pytest.raises(PerfError) as caught:
        recordings.report()
    assert "secret" not in str(caught.value) + str(recordings.failed)
    assert "abc" not in str(caught.value) + str(recordings.failed)


def test_listings_stay_below_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    class Lying:
        def glob(self, _path: str) -> list[str]:
            return ["/etc/passwd", "fleet/../../x", "fleet/one.data"]

        def unstrip_protocol(self, name: str) -> str:
            return f"lying://{name}"

    monkeypatch.setattr(remote, "_file_system", lambda _url: (Lying(), "fleet/*.data"))
    assert find_urls("lying://fleet/*.data") == ["lying://fleet/one.data"]


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("fsspec")
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(PerfError, match="another package: pip install s3fs"):
        Fetched("s3://bucket/perf.data")
    with pytest.raises(PerfError, match="nobodys://bucket"):
        Fetched("nobodys://bucket/perf.data")
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(PerfError, match=r"pip install 'perfpy\[cluster\]'"):
        Fetched("s3://bucket/perf.data")


def test_web_servers_are_not_listed() -> None:
    with pytest.raises(BadPerfDataError, match="cannot list"):
        find_urls("https://example.org/*.data")


def test_a_slow_file_system_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "_SECONDS", 0.2)
    release = threading.Event()

    class Stuck:
        def open(self, _path: str, _mode: str) -> object:
            release.wait(30)
            raise OSError("gone")

    monkeypatch.setattr(remote, "_file_system", lambda _url: (Stuck(), "x"))
    with pytest.raises(BadPerfDataError, match="too slow"):
        Fetched("stuck://x")
    release.set()


def test_open_many_takes_urls(server: str) -> None:
    assert [row.texts["recording"] for row in perfpy.open_many(f"{server}/one.data").report(by="recording")] == [f"{server}/one.data"]
