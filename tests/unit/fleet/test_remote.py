"""Recordings on other hosts."""

from __future__ import annotations

import http.server
import json
import lzma
import os
import pickle
import random
import re
import sys
import tempfile
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import perfpy
from perfpy.analysis.report.options import CallGraph, ChainOptions, ColumnOptions, ReportOptions
from perfpy.analysis.stacks import StackOptions
from perfpy.errors import BadPerfDataError, PerfError
from perfpy.fleet import remote
from perfpy.fleet import remote as pace
from perfpy.fleet.cluster import _unpack
from perfpy.fleet.folding import FoldedGroup, FoldingRequest, fold_group
from perfpy.fleet.recordings import Recordings, find_recordings
from perfpy.fleet.remote import Fetched, find_urls, public_name
from perfpy.fleet.transfer import MAGIC, BadTransferError, pack, unpack
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.symbols.known_frames import SymbolColumns
from perfpy.views.report.text import TextOptions
from tests.builders.own_corpus import RECORDINGS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


# Recordings are fetched from URLs within limits of time and size, and leave nothing behind; failures are reported.


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


# Profiles and options travel between a cluster's machines as data: the same on arrival, checked, and never run.


if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


class Evil:
    """An object whose pickle runs code."""

    def __reduce__(self) -> tuple[Any, ...]:
        return exec, ("import sys; sys.perfpy_ran = True",)


def folded(folder: Path, name: str, options: ReportOptions | StackOptions) -> FoldedGroup:
    path = folder / f"{name}.data"
    path.write_bytes(lzma.decompress((RECORDINGS / f"{name}.data.xz").read_bytes()))
    group = fold_group([str(path)], FoldingRequest(lambda _recording: (options, None)))
    assert group.part is not None
    return group


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> FoldedGroup:
    options = ReportOptions(
        columns=ColumnOptions(sort="comm,symbol,srcline"), chains=ChainOptions(CallGraph(order="caller"), children=True)
    )
    group = folded(tmp_path_factory.mktemp("group"), "chains", options)
    assert group.part is not None
    numbers, bits = np.zeros(1, np.uint64), np.zeros(1, np.bool_)
    symbols = SymbolColumns(["f"], numbers, numbers + 8, np.zeros(1, np.int32), np.zeros(1, np.int32), bits, bits, np.zeros(1, np.uint8))
    return group._replace(part=group.part._replace(symbols=symbols))


def parts_of(data: bytes) -> tuple[Any, bytes]:
    """Return the JSON tree of packed data, and the contents of its arrays."""
    raw = zstd.decompress(data)
    start = len(MAGIC) + 8
    end = start + int.from_bytes(raw[len(MAGIC) : start], "little")
    return json.loads(raw[start:end]), raw[end:]


def data_of(tree: Any, arrays: bytes) -> bytes:
    text = json.dumps(tree).encode()
    return zstd.compress(MAGIC + len(text).to_bytes(8, "little") + text + arrays)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        (
            "chains",
            ReportOptions(columns=ColumnOptions(sort="comm,dso,symbol"), chains=ChainOptions(CallGraph(order="caller"), children=True)),
        ),
        ("chains", StackOptions(sites=True)),
        ("sched", ReportOptions(columns=ColumnOptions(sort="comm,trace"))),
        ("fork-exec", ReportOptions(columns=ColumnOptions(sort="pid,cpu"))),
    ],
)
def test_a_profile_arrives_as_it_was(tmp_path: Path, name: str, options: ReportOptions | StackOptions) -> None:
    sent = folded(tmp_path, name, options)
    arrived = unpack(pack(sent), FoldedGroup)
    assert arrived.part.comms == sent.part.comms  # type: ignore[union-attr]
    assert pack(arrived) == pack(sent)


def test_options_arrive_as_they_were() -> None:
    sent = ReportOptions(columns=ColumnOptions(sort="sym")), SymbolOptions(symfs="/there"), TextOptions(widths=(1, 2))
    assert unpack(pack(sent), tuple) == sent


def test_pickled_data_are_refused_and_not_run() -> None:
    data = pickle.dumps(Evil())
    pickle.loads(data)
    assert vars(sys).pop("perfpy_ran")
    for sent in (data, zstd.compress(data), Evil(), [Evil()]):
        with pytest.raises(PerfError, match="a worker of tcp://there sent bad data"):
            _unpack(sent, FoldedGroup, "tcp://there")
    assert "perfpy_ran" not in vars(sys)


def test_other_objects_are_not_sent() -> None:
    with pytest.raises(TypeError, match="a Evil cannot be sent"):
        pack(FoldedGroup(None, [Evil()]))  # type: ignore[list-item]


def test_truncated_data_are_refused(group: FoldedGroup) -> None:
    data = pack(group)
    tree, arrays = parts_of(data)
    for size in (*range(40), *range(40, len(data), 97)):
        with pytest.raises(BadTransferError):
            unpack(data[:size], FoldedGroup)
    for size in range(0, len(arrays), 101):
        with pytest.raises(BadTransferError):
            unpack(data_of(tree, arrays[:size]), FoldedGroup)


def test_more_bytes_than_arrays_are_refused(group: FoldedGroup) -> None:
    tree, arrays = parts_of(pack(group))
    with pytest.raises(BadTransferError, match="more bytes than arrays"):
        unpack(data_of(tree, arrays + b"\0"), FoldedGroup)


def test_data_that_expand_without_end_are_refused() -> None:
    with pytest.raises(BadTransferError, match="become more than"):
        unpack(zstd.compress(bytes(1 << 30)), FoldedGroup)


@pytest.mark.parametrize(
    ("tree", "problem"),
    [
        (["Evil"], "'Evil'"),
        (["os.system", "true"], "'os.system'"),
        (["FoldedGroup", None, ["l"]], "missing 0|refused"),
        (["FoldedGroup", 1, ["l"], ""], "FoldedGroup: part has a wrong type"),
        (["FoldedGroup", None, ["l", ["RecordingProblem", "a", 1]], ""], "RecordingProblem: reason has a wrong type"),
        (["t"], "a tuple instead of a FoldedGroup"),
        (["TextOptions", None, ["t"], False, 0.0, "", True, "", -1, "\x1b]0;title", False], "TextOptions: colours are the terminal"),
        (["a", "|O8", 1], "unknown type"),
        (["a", "<i8", 1 << 62], "longer than the message"),
        (["a", "<i8", -1], "longer than the message"),
        (["e", "Inline", "sometimes"], "sometimes"),
        ({"FoldedGroup": 1}, "an object of JSON"),
    ],
)
def test_anything_but_a_profile_is_refused(tree: Any, problem: str) -> None:
    if problem == "missing 0|refused":  # the default of its last field
        assert unpack(data_of(tree, b""), FoldedGroup) == FoldedGroup(None, [])
        return
    with pytest.raises(BadTransferError, match=problem):
        unpack(data_of(tree, b""), FoldedGroup)


def test_deep_nesting_is_refused() -> None:
    text = b'["l",' * 100_000 + b"1" + b"]" * 100_000
    with pytest.raises(BadTransferError):
        unpack(zstd.compress(MAGIC + len(text).to_bytes(8, "little") + text), FoldedGroup)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda part: part._replace(chain_frames=part.chain_frames + np.int32(1 << 20)), "a callchain refers to no frame"),
        (lambda part: part._replace(chain_lengths=part.chain_lengths * 2), "callchain"),
        (lambda part: part._replace(dsos=[]), "files without origins"),
        (lambda part: part._replace(formats=[]), "events without keys or formats"),
        (lambda part: part._replace(comms=[]), "a row refers to no comm"),
        (lambda part: part._replace(events=[], event_keys=[], formats=[]), "a row refers to no event"),
        (
            lambda part: part._replace(frames={**part.frames, "symbol": part.frames["symbol"] + 10_000}),
            "a frame refers to no file or symbol",
        ),
        (lambda part: part._replace(symbols=part.symbols._replace(dso=part.symbols.dso + 1000)), "a symbol refers to no file"),
        (lambda part: part._replace(symbols=part.symbols._replace(twin=part.symbols.twin[:-1])), "columns of different lengths"),
        (lambda part: part._replace(folded=part.folded.with_periods(part.folded.period[:-1])), "columns of different lengths"),
        (lambda part: part._replace(lost="many"), "lost has a wrong type"),
    ],
)
def test_indexes_of_missing_items_are_refused(group: FoldedGroup, change: Any, problem: str) -> None:
    with pytest.raises(BadTransferError, match=problem):
        unpack(pack(group._replace(part=change(group.part))), FoldedGroup)


def test_mutated_data_are_refused_or_a_profile(group: FoldedGroup) -> None:
    raw = bytearray(zstd.decompress(pack(group)))
    chance = random.Random(26)
    for _ in range(1500):
        mutated = bytearray(raw)
        for _ in range(chance.choice((1, 1, 2, 8))):
            mutated[chance.randrange(len(mutated))] = chance.randrange(256)
        try:
            arrived = unpack(zstd.compress(bytes(mutated)), FoldedGroup)
        except BadTransferError:
            continue
        assert type(arrived) is FoldedGroup
