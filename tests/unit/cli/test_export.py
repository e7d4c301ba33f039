"""`perfpy export --otlp`: OpenTelemetry profiles in a file, or sent to a collector."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from perfpy.cli import run
from perfpy.untrusted.download import post
from tests.builders.perfdata import simple_recording

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Collector(HTTPServer):
    """A collector that keeps what it gets, and answers with a status; 0: it sends one byte a tenth of a second."""

    def __init__(self, status: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status = status
        self.got: list[tuple[str, str, bytes]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append((self.path, self.headers["Content-Type"], data))
        if not self.server.status:
            self._dribble()
            return
        self.send_response(self.server.status)
        if self.server.status == 302:
            self.send_header("Location", f"{self.server.url}/elsewhere")
        self.end_headers()

    def _dribble(self) -> None:
        try:
            for _ in range(300):
                self.wfile.write(b"H")
                time.sleep(0.1)
        except OSError:
            return

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def collector(status: int) -> Iterator[Collector]:
    with Collector(status) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield server
        server.shutdown()


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "perf.data"
    path.write_bytes(simple_recording().file())
    return path


def profiles(data: bytes) -> Any:
    reason = "opentelemetry-proto is not installed"
    module = pytest.importorskip("opentelemetry.proto.profiles.v1development.profiles_pb2", reason=reason)
    return module.ProfilesData.FromString(data)


def test_a_recording_is_written(recording: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.otlp"
    assert run(["export", "--otlp", str(out), "-i", str(recording), "-q"]) == 0
    result = profiles(out.read_bytes()).resource_profiles[0].scope_profiles[0]
    assert result.scope.name == "perfpy"
    assert sum(len(sample.values) for profile in result.profiles for sample in profile.samples) > 0


def test_a_collector_gets_it_at_the_path_of_the_protocol(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with collector(200) as server:
        assert run(["export", "--otlp", server.url, "-i", str(recording)]) == 0
        assert run(["export", "--otlp", f"{server.url}/own/path", "-i", str(recording), "-q"]) == 0
    assert [path for path, _, _ in server.got] == ["/v1development/profiles", "/own/path"]
    assert {kind for _, kind, _ in server.got} == {"application/x-protobuf"}
    assert profiles(server.got[0][2]).resource_profiles
    assert f"to {server.url}/v1development/profiles ]" in capsys.readouterr().err


@pytest.mark.parametrize("status", [302, 404, 503])
def test_a_refusal_is_an_error_and_redirections_are_not_followed(status: int, recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with collector(status) as server:
        assert run(["export", "--otlp", server.url, "-i", str(recording)]) == 255
    assert len(server.got) == 1
    assert f"the server answers {status}" in capsys.readouterr().err


def test_a_server_that_answers_forever_is_left() -> None:
    with collector(0) as server:
        began = time.monotonic()
        with pytest.raises(OSError, match="too slow"):
            post(server.url, b"x", "application/x-protobuf", 0.4)
        assert time.monotonic() - began < 20


def test_only_one_recording_and_no_tables(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["export", "--otlp", "x", "-o", "folder", "-i", str(recording)]) == 129
    assert run(["export", "--otlp", "x", str(recording), str(recording)]) == 129
    assert capsys.readouterr().err.count("--otlp takes one recording, and no --parquet") == 2
