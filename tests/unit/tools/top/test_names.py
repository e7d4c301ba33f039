"""Names of containers from files of Docker, Podman, CRI-O and containerd, also from damaged and hostile ones."""

from __future__ import annotations

import json
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from perfpy.capture.runtimes.table import runtime_of
from perfpy.symbols.dso import Dso, DsoKind
from perfpy.tools.top import names as module
from perfpy.tools.top.names import LiveJitNames, RunningContainers

if TYPE_CHECKING:
    from pathlib import Path


ID = "0123456789abcdef" * 4
DOCKER, PODMAN, CONTAINERD = f"/system.slice/docker-{ID}.scope", f"/machine.slice/libpod-{ID}.scope", f"/kubepods/pod1/{ID}"


def write(folder: Path, path: str, content: Any) -> None:
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content if isinstance(content, str) else json.dumps(content))


def text(root: Path, path: str) -> str:
    return RunningContainers(str(root), str(root / "home")).text(path)


def test_each_runtime_gives_its_names(tmp_path: Path) -> None:
    assert text(tmp_path, DOCKER) == "docker 0123456789ab"
    write(tmp_path, f"var/lib/docker/containers/{ID}/config.v2.json", {"ID": ID, "Name": "/web"})
    assert text(tmp_path, DOCKER) == "docker web (0123456789ab)"
    assert text(tmp_path, "/user.slice") == "host"
    assert text(tmp_path, "/lxc/web") == "lxc web"


@pytest.mark.parametrize("place", ["var/lib", "home/.local/share"])
def test_podman_names_its_containers_in_one_file(place: str, tmp_path: Path) -> None:
    rows = [{"id": "f" * 64, "names": ["other"]}, {"id": ID, "names": ["db"]}, {"id": 3}, "row"]
    write(tmp_path, f"{place}/containers/storage/overlay-containers/containers.json", rows)
    assert text(tmp_path, PODMAN) == "podman db (0123456789ab)"


def test_containers_of_kubernetes_have_the_names_of_their_pods(tmp_path: Path) -> None:
    annotations = {f"io.kubernetes.cri.{name}": name[:4] for name in ("container-name", "sandbox-name", "sandbox-namespace")}
    write(tmp_path, f"run/containerd/io.containerd.runtime.v2.task/k8s.io/{ID}/config.json", {"annotations": annotations})
    assert text(tmp_path, CONTAINERD) == "kubernetes sand/sand/cont (0123456789ab)"


@pytest.mark.parametrize(
    "content", ["", "{", "[[]]", "7", '{"Name": 7}', '{"Name": null}', "[" * 100_000, "\ufeff{}", '{"annotations": []}']
)
def test_damaged_files_give_no_names(content: str, tmp_path: Path) -> None:
    for path in (f"var/lib/docker/containers/{ID}/config.v2.json", "var/lib/containers/storage/overlay-containers/containers.json"):
        write(tmp_path, path, content)
    write(tmp_path, f"run/containerd/io.containerd.runtime.v2.task/k8s.io/{ID}/config.json", content)
    assert text(tmp_path, DOCKER) == "docker 0123456789ab"


def test_names_are_one_short_line(tmp_path: Path) -> None:
    write(tmp_path, f"var/lib/docker/containers/{ID}/config.v2.json", {"Name": "/a\x1b]0;title\x07\n" + "b" * 1000})
    name = text(tmp_path, DOCKER)
    assert name.isprintable()
    assert len(name) < 120


def test_names_are_looked_up_again_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    containers = RunningContainers(str(tmp_path), str(tmp_path))
    assert containers.text(DOCKER) == "docker 0123456789ab"
    write(tmp_path, f"var/lib/docker/containers/{ID}/config.v2.json", {"Name": "/web"})
    assert containers.text(DOCKER) == "docker 0123456789ab"
    monkeypatch.setattr(module, "_VALID_FOR", 0.0)
    containers._texts.clear()
    assert containers.text(DOCKER) == "docker web (0123456789ab)"


# Requests of perf maps for a live view: when, of which processes, and what follows an answer.


class Symbols:
    """Notes the files that are to be read again."""

    def __init__(self) -> None:
        self.forgotten: list[str] = []

    def forget(self, names: set[str]) -> None:
        self.forgotten += names


def frames(*pids: int, symbol: int = -1) -> Any:
    """Frames in the compiled code of processes, and one of a file."""
    dsos = [Dso("/bin/java"), *(Dso(f"/tmp/perf-{pid}.map", DsoKind.JIT) for pid in pids)]
    symbols = np.full(len(dsos), symbol, np.int32)
    return SimpleNamespace(dsos=dsos, frames=SimpleNamespace(dso=np.arange(len(dsos), dtype=np.int32), symbol=symbols))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The processes that were asked; 13 refuses, 40 and more are no JVMs."""
    pids: list[int] = []

    def ask(requested: list[int]) -> list[str]:
        pids.extend(requested)
        return ["process 13 refuses"] if 13 in requested else []

    monkeypatch.setattr(module, "ask", ask)
    monkeypatch.setattr(module, "is_java", lambda pid: pid < 40)
    monkeypatch.setattr(module, "_PAUSE", 0.0)
    return pids


def await_answers(names: LiveJitNames, symbols: Any, number: int) -> list[str]:
    """Take the answers; return the failures."""
    end, failures = time.monotonic() + 10, list[str]()
    while number and time.monotonic() < end:
        number -= not names._answers.empty()
        names.prepare(symbols)
        failures += names.failures()
        time.sleep(0.001)
    return failures


def test_a_map_is_requested_for_code_without_names_and_read_again(asked: list[int]) -> None:
    names, symbols = LiveJitNames(), Symbols()
    names.see(frames(7, 41))
    names.see(frames(7))  # it has not answered
    assert await_answers(names, symbols, 1) == []
    assert (asked, symbols.forgotten) == ([7], ["/tmp/perf-7.map"])
    names.see(frames(7, symbol=0))
    assert asked == [7]
    names.see(frames(7))
    await_answers(names, symbols, 1)
    names.close()
    assert asked == [7, 7]


def test_a_process_that_gave_no_map_is_reported_once_and_left_alone(asked: list[int]) -> None:
    names, symbols = LiveJitNames(), Symbols()
    names.see(frames(13))
    assert await_answers(names, symbols, 1) == ["process 13 refuses"]
    names.see(frames(13))
    names.close()
    assert (asked, symbols.forgotten, names.failures()) == ([13], [], [])


def test_with_targets_no_other_process_is_read(asked: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "runtime_of_process", lambda pid: runtime_of("python3" if pid == 41 else "java"))
    monkeypatch.setattr(module, "lacks", lambda pid, **_options: "" if pid == 8 else f"process {pid} is Node.js")
    names = LiveJitNames([8, 41, 42])
    hints = list(names.begin(with_callers=False))
    names.see(frames(9))
    await_answers(names, Symbols(), 1)
    names.close()
    assert asked == [8]
    assert ["top --python" in hint for hint in hints] == [True, False]
