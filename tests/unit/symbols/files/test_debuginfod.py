"""Servers that are slow, endless or sly cost no more than what the user allows."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from perfpy.symbols.files.debuginfod import Client
from perfpy.untrusted.download import get

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ID = "ab" * 20
HEAD = b"HTTP/1.1 200 OK\r\n"


def drip(head: bytes) -> Callable[[socket.socket], None]:
    def answer(client: socket.socket) -> None:
        client.sendall(head)
        while True:
            client.sendall(b"x")
            time.sleep(0.02)

    return answer


def endless(client: socket.socket) -> None:
    client.sendall(HEAD + b"\r\n")
    while True:
        client.sendall(bytes(1 << 16))


def say(data: bytes) -> Callable[[socket.socket], None]:
    return lambda client: client.sendall(data)


def size(number: int) -> bytes:
    return HEAD + f"Content-Length: {number}\r\n\r\n".encode()


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Callable[[socket.socket], None]], str]]:
    """Answer every request so; the environment points at the server and at a cache of its own."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        monkeypatch.setenv("DEBUGINFOD_URLS", url)
        monkeypatch.setenv("DEBUGINFOD_CACHE_PATH", str(tmp_path / "cache"))
        monkeypatch.setenv("DEBUGINFOD_TIMEOUT", "60")  # on a busy machine, answers may take seconds

        threads: list[threading.Thread] = []

        def start(answer: Callable[[socket.socket], None]) -> str:
            def run() -> None:
                try:
                    client, _ = server.accept()
                    with client:
                        client.recv(1 << 16)
                        answer(client)
                except OSError:  # the client is gone, as it should be, or never came
                    return

            threads.append(threading.Thread(target=run, daemon=True))
            threads[-1].start()
            return url

        yield start
        with contextlib.suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)  # wakes a thread that still accepts: closing alone does not
        for thread in threads:
            thread.join(10)
            assert not thread.is_alive()


def left(tmp_path: Path) -> list[Path]:
    return [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


@pytest.mark.parametrize("head", [HEAD + b"X: ", size(100_000_000), HEAD + b"\r\n"], ids=["head", "body", "body without a size"])
def test_a_server_that_drips_is_left_in_time(serve, head: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DEBUGINFOD_TIMEOUT", "0.3")
    serve(drip(head))
    began = time.monotonic()
    client = Client()
    assert client.fetch(ID) == ""
    assert 0.2 < time.monotonic() - began < 5
    assert (client.servers, left(tmp_path)) == ([], [])


def test_the_time_of_a_whole_download_has_a_limit(serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DEBUGINFOD_MAXTIME", "0.5")
    serve(drip(size(100_000_000)))
    began = time.monotonic()
    assert Client().fetch(ID) == ""
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("answer", [endless, say(size(2_000_000) + bytes(10))], ids=["endless", "announced"])
def test_a_file_that_is_too_large_is_not_kept(serve, answer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DEBUGINFOD_MAXSIZE", "1000000")
    serve(answer)
    assert Client().fetch(ID) == ""
    assert left(tmp_path) == []


def test_a_file_that_was_cut_is_not_kept(serve, tmp_path: Path):
    serve(say(size(1000) + bytes(10)))
    assert Client().fetch(ID) == ""
    assert left(tmp_path) == []


CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n"


@pytest.mark.parametrize(
    "answer",
    [
        CHUNKED + b"\r\n100\r\ncut off",
        CHUNKED + b"\r\n",
        CHUNKED + b"\r\nno number\r\n",
        CHUNKED + b"\r\n-5\r\nabc\r\n0\r\n\r\n",
        CHUNKED + b"\r\n" + b"1" * 70_000,
        size(-5) + b"abc",
        HEAD + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\nabc",
        HEAD + b"Content-Length: 1_0\r\n\r\n0123456789",
    ],
    ids=["cut chunk", "no chunk", "no size of a chunk", "negative chunk", "endless size", "negative", "many digits", "underscore"],
)
def test_a_malformed_answer_is_the_servers_failure(serve, answer: bytes, tmp_path: Path):
    serve(say(answer))
    client = Client()
    assert client.fetch(ID) == ""
    assert (client.servers, left(tmp_path)) == ([], [])


def test_a_size_beside_chunks_is_ignored(serve):
    serve(say(CHUNKED + b"Content-Length: 1000\r\n\r\n3\r\nabc\r\n0\r\n\r\n"))
    assert Path(Client().fetch(ID)).read_bytes() == b"abc"


def test_the_body_of_a_redirection_is_not_read(serve, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DEBUGINFOD_TIMEOUT", "2")
    sent = 0

    def redirect(client: socket.socket) -> None:
        nonlocal sent
        client.sendall(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n")
        while sent < 1 << 30:
            sent += client.send(bytes(1 << 20))

    serve(redirect)
    assert Client().fetch(ID) == ""
    assert sent < 64 << 20  # the sockets' buffers take some


@pytest.mark.parametrize("place", ["http://[::1", "http://127.0.0.1:99999999/", "http://127.0.0.\u0661/", "http://" + "a" * 70 + "/"])
def test_a_malformed_redirection_is_the_servers_failure(serve, place: str):
    url = serve(say(f"HTTP/1.1 302 Found\r\nLocation: {place}\r\n\r\n".encode()))
    with pytest.raises(OSError, match=r"malformed|refused|name"):
        get(url, 5)


@pytest.mark.parametrize("place", ["file:///etc/passwd", "ftp://127.0.0.1/x", "/etc/passwd#%s"])
def test_redirections_stay_on_the_web(serve, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DEBUGINFOD_TIMEOUT", "1")  # the server answers once: a redirection to itself waits until then
    serve(say(f"HTTP/1.1 302 Found\r\nLocation: {place}\r\nContent-Length: 0\r\n\r\n".encode()))
    assert Client().fetch(ID) == ""
    assert [path.stat().st_size for path in left(tmp_path)] in ([], [0])


def test_downloads_are_private(serve, tmp_path: Path):
    before = os.umask(0)
    try:
        serve(say(size(5) + b"bytes"))
        path = Path(Client().fetch(ID))
    finally:
        os.umask(before)
    assert path.read_bytes() == b"bytes"
    assert [place.stat().st_mode & 0o077 for place in (path, path.parent, path.parent.parent)] == [0, 0, 0]


def test_nothing_is_kept_in_a_folder_of_others(serve, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(0o777)
    serve(say(size(5) + b"bytes"))
    assert Client().fetch(ID) == ""
    assert "all may write" in capsys.readouterr().err
    assert left(tmp_path) == []


@pytest.mark.parametrize("build_id", ["../../x", "ab", "AB" * 20, "ab" * 20 + "/../x"])
def test_only_build_ids_are_requested(serve, build_id: str, tmp_path: Path):
    assert Client().fetch(build_id) == ""
    assert not (tmp_path / "cache").exists()


def test_a_folder_may_stand_for_a_server(tmp_path: Path):
    (tmp_path / "file").write_bytes(b"content")
    answer = get(f"file://{tmp_path}/file", 1)
    assert answer is not None
    with answer:
        assert answer.read(100, 1) == b"content"
    os.mkfifo(tmp_path / "fifo")
    assert get(f"file://{tmp_path}/fifo", 1) is None
