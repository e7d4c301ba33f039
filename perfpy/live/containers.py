"""Names of running containers, from the files of their runtimes, as far as this user may read them.

    Docker             /var/lib/docker/containers/ID/config.v2.json                          "Name"
    Podman, CRI-O      /var/lib/containers/storage/overlay-containers/containers.json        "id", "names"
                       ~/.local/share/containers/storage/overlay-containers/containers.json  (Podman without root)
    containerd         /run/containerd/io.containerd.runtime.v2.task/k8s.io/ID/config.json   "annotations"

Names are data of other users: they are text, never a path. Ids in paths have 64 hexadecimal digits.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any, Final

from perfpy.analysis.sortkeys.container_names import HOST, innermost_container
from perfpy.untrusted import paths
from perfpy.untrusted.files import read_regular, state_of, trusted_file_owners
from perfpy.untrusted.text import visible

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
        self._storages = (paths.below(root, f"var/lib/{_STORAGE}"), paths.below(home, f".local/share/{_STORAGE}"))
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
        name = _read(paths.below(self._root, _DOCKER.format(id=full_id))).get("Name")
        return name.removeprefix("/") if isinstance(name, str) else ""

    def _in_containerd(self, full_id: str) -> str:
        annotations = _read(paths.below(self._root, _CONTAINERD.format(id=full_id))).get("annotations")
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
