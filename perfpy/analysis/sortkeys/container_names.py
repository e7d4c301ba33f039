"""The container of a cgroup, from its path: Docker, Podman, containerd, CRI-O, LXC, nspawn, Kubernetes."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

HOST: Final = "host"
_SHORT: Final = 12  # digits of an id, as `docker ps` prints it
_ID: Final = r"(?P<id>[0-9a-f]{64})"
#: patterns of one folder of a cgroup's path, and the runtime
_FOLDERS: Final = (
    (re.compile(rf"docker-{_ID}\.scope"), "docker"),
    (re.compile(rf"libpod-(?:conmon-)?{_ID}(?:\.scope)?"), "podman"),
    (re.compile(rf"crio-(?:conmon-)?{_ID}(?:\.scope)?"), "cri-o"),
    (re.compile(rf"cri-containerd-{_ID}\.scope"), "containerd"),
    (re.compile(r"lxc\.payload\.(?P<id>.+)"), "lxc"),
    (re.compile(r"machine-(?P<id>.+)\.scope"), "machine"),
    (re.compile(r"systemd-nspawn@(?P<id>.+)\.service"), "nspawn"),
    (re.compile(_ID), ""),  # of the runtime that the folder above names
)
_ABOVE: Final = {"docker": "docker", "lxc": "lxc", "default": "containerd", "k8s.io": "containerd", "moby": "docker"}


class Container(NamedTuple):
    """A container: its runtime, and its name or id; full_id: 64 digits, "" if the cgroup has a name."""

    runtime: str
    name: str
    full_id: str = ""

    @property
    def text(self) -> str:
        """The text of the sort key."""
        return f"{self.runtime} {self.name}"


def container_of(path: str) -> str:
    """Return the runtime and the short id or name of the innermost container in a cgroup's path; "host" without one.

    >>> container_of("/system.slice/docker-" + "0123456789ab" * 5 + "cdef.scope")
    'docker 0123456789ab'
    >>> container_of("/kubepods/burstable/pod12/" + "f" * 64), container_of("/lxc.payload.web/system.slice"), container_of("/user.slice")
    ('kubernetes ffffffffffff', 'lxc web', 'host')
    """
    container = innermost_container(path)
    return HOST if container is None else container.text


def innermost_container(path: str) -> Container | None:
    """Return the innermost container in a cgroup's path; None without one."""
    folders = path.strip("/").split("/")
    for number in range(len(folders) - 1, -1, -1):
        if folders[number - 1] == "lxc" and number:
            return Container("lxc", folders[number])
        for pattern, runtime in _FOLDERS:
            if match := pattern.fullmatch(folders[number]):
                full_id = match["id"] if re.fullmatch(_ID, match["id"]) else ""
                return Container(runtime or _runtime_above(folders[:number]), full_id[:_SHORT] or match["id"], full_id)
    return None


def _runtime_above(folders: list[str]) -> str:
    if any(folder.startswith("kubepods") for folder in folders):
        return "kubernetes"
    return next((_ABOVE[folder] for folder in reversed(folders) if folder in _ABOVE), "container")
