"""Names of running containers, from the files of their runtimes, as far as this user may read them.

    Docker             /var/lib/docker/containers/ID/config.v2.json                          "Name"
    Podman, CRI-O      /var/lib/containers/storage/overlay-containers/containers.json        "id", "names"
                       ~/.local/share/containers/storage/overlay-containers/containers.json  (Podman without root)
    containerd         /run/containerd/io.containerd.runtime.v2.task/k8s.io/ID/config.json   "annotations"

Names are data of other users: they are text, never a path. Ids in paths have 64 hexadecimal digits.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import tempfile
import threading
import time
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.analysis.sort_key import HOST, innermost_container
from perfpy.analysis.verdict.processes import texts_of_names
from perfpy.capture.counter import Counter
from perfpy.capture.runtimes.attaching import ask, is_java, lacks, runtime_of_process
from perfpy.capture.runtimes.known_runtimes import PYTHON
from perfpy.capture.session.unwound_output import ReaderProcess
from perfpy.capture.unwinding.observed_states import current_commands
from perfpy.capture.unwinding.process import Spool, has_stacks
from perfpy.capture.unwinding.serving import chunk_of
from perfpy.capture.unwinding.unwinder import PieceUnwinder
from perfpy.errors import KernelRefusedError
from perfpy.symbols.dso import DsoKind, perf_map_pid
from perfpy.untrusted import files
from perfpy.untrusted.files import read_regular, state_of, trusted_file_owners
from perfpy.untrusted.text import visible

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from perfpy.capture.unwinding.unwinder import UnwoundPiece
    from perfpy.live.rings import LiveRings
    from perfpy.live.window import LiveSymbols
    from perfpy.perfdata.events import FileEvent
    from perfpy.symbols.symbolizer import Symbolizer


_DOCKER: Final = "var/lib/docker/containers/{id}/config.v2.json"
_CONTAINERD: Final = "run/containerd/io.containerd.runtime.v2.task/k8s.io/{id}/config.json"
_STORAGE: Final = "containers/storage/overlay-containers/containers.json"
_KUBERNETES: Final = "io.kubernetes.cri."
_KUBERNETES_PARTS: Final = ("sandbox-namespace", "sandbox-name", "container-name")
_LARGEST: Final = 8 << 20  # bytes of a file
_LONGEST: Final = 80  # characters of a name
_VALID_FOR: Final = 30.0  # seconds: containers can be renamed, and files appear after the first samples
_MOST: Final = 4096


class RunningContainers:
    """The texts of containers for reports. One thread uses it.

    Args:
        root: of the file system.
        home: of this user.
    """

    def __init__(self, root: str = "/", home: str | None = None) -> None:
        self._root = root
        home = os.path.expanduser("~") if home is None else home
        self._storages = (files.below(root, f"var/lib/{_STORAGE}"), files.below(home, f".local/share/{_STORAGE}"))
        self._texts: dict[str, tuple[str, float]] = {}  # path of a cgroup -> text, when it is looked up again
        self._stored: dict[str, tuple[tuple[int, int], dict[str, str]]] = {}  # storage -> its state, id -> name

    def text(self, path: str) -> str:
        """Return the container of a cgroup: runtime, name and id; "host" outside of containers."""
        text, valid_until = self._texts.get(path, ("", 0.0))
        now = time.monotonic()
        if now >= valid_until:
            if len(self._texts) >= _MOST:
                self._texts.clear()
            text = self._new_text(path)
            self._texts[path] = text, now + _VALID_FOR
        return text

    def _new_text(self, path: str) -> str:
        container = innermost_container(path)
        if container is None:
            return HOST
        name = self._name(container.full_id) if container.full_id else ""
        return f"{container.runtime} {name} ({container.name})" if name else container.text

    def _name(self, full_id: str) -> str:
        """Return the name of a container; "" if it is unknown."""
        for name_of in (self._in_docker, self._in_storages, self._in_containerd):
            name = name_of(full_id)
            if name:
                return visible(name)[:_LONGEST]
        return ""

    def _in_docker(self, full_id: str) -> str:
        name = _read(files.below(self._root, _DOCKER.format(id=full_id))).get("Name")
        return name.removeprefix("/") if isinstance(name, str) else ""

    def _in_containerd(self, full_id: str) -> str:
        annotations = _read(files.below(self._root, _CONTAINERD.format(id=full_id))).get("annotations")
        if not isinstance(annotations, dict):
            return ""
        parts = [annotations.get(_KUBERNETES + name) for name in _KUBERNETES_PARTS]
        return "/".join(part for part in parts if isinstance(part, str) and part)

    def _in_storages(self, full_id: str) -> str:
        return next((name for storage in self._storages if (name := self._names_in(storage).get(full_id, ""))), "")

    def _names_in(self, storage: str) -> dict[str, str]:
        """Return id -> name of the containers in a storage; it is read again after changes."""
        try:
            status = state_of(storage)
        except OSError:
            return {}
        state = status.st_mtime_ns, status.st_size
        known, names = self._stored.get(storage, ((0, 0), {}))
        if known != state:
            names = {}
            for row in _read(storage).get("rows", []):
                if isinstance(row, dict) and isinstance(row.get("id"), str) and isinstance(row.get("names"), list):
                    names[row["id"]] = next((name for name in row["names"] if isinstance(name, str)), "")
            self._stored[storage] = state, names
        return names


def _read(path: str) -> dict[str, Any]:
    """Return the object in a file of root's or this user's, a list as its "rows"; empty if there is none."""
    try:
        value = json.loads(read_regular(path, owners=trusted_file_owners(), limit=_LARGEST))
    except (OSError, ValueError, RecursionError):
        return {}
    if isinstance(value, list):
        return {"rows": value}
    return value if isinstance(value, dict) else {}


_TITLES_VALID_FOR: Final = 5.0  # seconds: services write the titles of their processes some time after their start


class RunningProcesses:
    """The names of processes by their command lines. They are read together, soon after a new process has a row, else every few seconds."""

    def __init__(self) -> None:
        self._pids: frozenset[int] = frozenset()
        self._names: dict[int, str] = {}
        self._read_at = -math.inf

    def of(self, pids: Iterable[int]) -> Mapping[int, str]:
        """Return the names of some processes, as far as they have one."""
        wanted, passed = frozenset(pids), time.monotonic() - self._read_at
        if passed >= (_TITLES_VALID_FOR if wanted <= self._pids else _PAUSE):
            self._names, self._pids, self._read_at = texts_of_names(current_commands(wanted)), wanted, time.monotonic()
        return self._names


_PAUSE: Final = 1.0  # seconds between two maps of one process: writing one takes the JVM some hundredths of a second
_MOST_PROCESSES: Final = 256


class LiveJitNames:
    """Requests perf maps of JVMs. One thread uses it.

    Other runtimes write their perf maps themselves, if they were started for it, and the view reads what was added
    (perfpy.symbols.dso_symbols). A JVM writes its map on request only, so a new one is requested when samples hit code without a name. The
    requests run in a thread of their own: a JVM may need seconds for its answer, or never give one.

    Args:
        pids: the processes that may be asked; empty: all that samples hit.
    """

    def __init__(self, pids: Collection[int] = ()) -> None:
        self._pids = frozenset(pids)
        self._requests: SimpleQueue[int | None] = SimpleQueue()
        self._answers: SimpleQueue[tuple[int, list[str]]] = SimpleQueue()
        self._due: dict[int, float] = {}  # pid -> when its next map may be requested; infinity: never
        self._failures: list[str] = []
        self._thread = threading.Thread(target=self._run, name="perfpy perf maps", daemon=True)
        self._is_running = False

    def begin(self, *, with_callers: bool) -> Iterator[str]:
        """Request the maps of the given processes; yield a line for each process whose names will be missing.

        with_callers: whether the view has callchains.
        """
        for pid in sorted(self._pids):
            if is_java(pid):
                self._request(pid)
            if runtime_of_process(pid) is PYTHON:
                yield f"process {pid} is Python; top --python shows its functions"
            elif hint := lacks(pid, unwinds=not with_callers):
                yield hint

    def prepare(self, symbols: LiveSymbols) -> None:
        """Let the symbols be read again from maps that were written since the last call."""
        while not self._answers.empty():
            pid, failures = self._answers.get()
            self._failures += failures
            self._due[pid] = float("inf") if failures else time.monotonic() + _PAUSE
            if not failures:
                symbols.forget({files.perf_map(pid)})

    def see(self, symbolizer: Symbolizer) -> None:
        """Request the maps of JVMs whose code has frames without a name."""
        frames = symbolizer.frames
        for number in np.unique(frames.dso[frames.symbol < 0]).tolist():
            dso = symbolizer.dsos[number]
            pid = perf_map_pid(dso.name) if number >= 0 and dso.kind is DsoKind.JIT else None
            if pid is not None and pid in (self._pids or (pid,)) and (pid in self._due or is_java(pid)):
                self._request(pid)

    def failures(self) -> list[str]:
        """Return a line for each process that gave no map, once."""
        failures, self._failures = self._failures, []
        return failures

    def close(self) -> None:
        """End the thread, but do not wait for the answer of a JVM."""
        self._requests.put(None)

    def _request(self, pid: int) -> None:
        if time.monotonic() < self._due.get(pid, 0):
            return
        if len(self._due) >= _MOST_PROCESSES and pid not in self._due:
            self._due.clear()
        self._due[pid] = float("inf")  # until it answers
        if not self._is_running:
            self._thread.start()
            self._is_running = True
        self._requests.put(pid)

    def _run(self) -> None:
        while (pid := self._requests.get()) is not None:
            self._answers.put((pid, list(_failures_of(ask([pid])))))


def _failures_of(answers: Iterable[str]) -> Iterator[str]:
    """Yield the failures of a request, whatever its cause."""
    try:
        yield from answers
    except Exception as error:  # noqa: BLE001  # the view shows addresses instead of names
        yield f"cannot get a perf map: {error}"


_SPOOL: Final = 128 << 20  # bytes of memory: twice the records that may wait


class LivePython:
    """Converts the records of ring buffers. Close it before the rings.

    Another process reads the frames (perfpy.capture.session.unwound_output), because a page of a hostile program can block its reader
    for ever. Samples with registers and stack copies go in; samples with callchains of native and Python frames come out.

    One thread may convert while another one calls look(), close_piece() and release_pieces().

    Attributes:
        reader_pid: of the process that reads frames.

    Args:
        rings: the open, not enabled events.
        events: those of the rings.
        only_python: whether other processes' callchains need no user part.
    """

    def __init__(self, rings: LiveRings, events: list[FileEvent], *, only_python: bool = False) -> None:
        with contextlib.ExitStack() as opened:
            counters = rings.counters
            attr = counters.events[0].attr
            copier = rings.copier
            self._spool = Spool(tempfile.gettempdir(), _SPOOL)
            opened.callback(self._spool.close)
            self._reader = ReaderProcess(self._spool, attr, copier.maps if copier else None, change=0)
            opened.callback(self._reader.close)
            opened.callback(self._reader.close_answers)
            if copier is not None:
                with contextlib.suppress(OSError, KernelRefusedError):
                    for own in copier.attach((one.counter for one in counters.opened if has_stacks(one.event.attr)), Counter):
                        opened.callback(own.close)
            frames = self._reader.answers, None
            self._unwinder = PieceUnwinder(events, own=self._reader.pid, python=frames, is_live=True, only_python=only_python)
            self.reader_pid = self._reader.pid
            self._functions = 0
            self._opened = opened.pop_all()

    def learn(self, records: bytes) -> None:
        """Learn from synthesized records."""
        if records:
            self._unwinder.learn(chunk_of(np.frombuffer(records, np.uint8)))

    def look(self, records: bytes) -> None:
        """Let the reader read the frames of new records."""
        self._reader.look(self._spool.write([records]))

    def close_piece(self) -> None:
        """Begin the next piece."""
        if self._spool.size:
            self._spool.close_piece()

    def release_pieces(self) -> None:
        """Release all pieces but the last: the reader may be behind by one."""
        while len(self._spool) > 1:
            self._spool.release_first()

    def convert(self, records: bytes) -> bytes:
        """Return the records of the ring buffers with callchains; those of the last call, if all were read once more since.

        The reader must have seen the records (look).
        """
        return _bytes_of(self._unwinder.take(chunk_of(np.frombuffer(records, np.uint8))))

    def rest(self) -> bytes:
        """Return the records of the last call of convert()."""
        return _bytes_of(self._unwinder.rest())

    def new_images(self) -> dict[str, bytes]:
        """Return the image of all functions by its path, if there are new ones; another path if earlier functions were forgotten."""
        before, self._functions = self._functions, self._unwinder.function_count
        return dict(self._unwinder.images()) if self._functions > before else {}

    def close(self) -> None:
        """End the reader."""
        self._opened.close()


def _bytes_of(piece: UnwoundPiece | None) -> bytes:
    return b"".join(piece.parts) if piece else b""
