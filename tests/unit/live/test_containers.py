"""Names of containers from files of Docker, Podman, CRI-O and containerd, also from damaged and hostile ones."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from perfpy.live import containers as module
from perfpy.live.containers import RunningContainers

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
