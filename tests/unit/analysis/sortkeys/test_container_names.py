"""Containers by the paths of their cgroups."""

from __future__ import annotations

import pytest

from perfpy.analysis.sortkeys.container_names import container_of

ID = "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/", "host"),
        ("", "host"),
        ("/user.slice/user-1000.slice/session-1.scope", "host"),
        (f"/docker/{ID}", "docker 0123456789ab"),
        (f"/system.slice/docker-{ID}.scope", "docker 0123456789ab"),
        (f"/machine.slice/libpod-{ID}.scope/container", "podman 0123456789ab"),
        (f"/kubepods.slice/kubepods-pod1.slice/cri-containerd-{ID}.scope", "containerd 0123456789ab"),
        (f"/kubepods.slice/kubepods-pod1.slice/crio-{ID}.scope", "cri-o 0123456789ab"),
        (f"/kubepods/burstable/pod1-2/{ID}", "kubernetes 0123456789ab"),
        (f"/default/{ID}", "containerd 0123456789ab"),
        (f"/somewhere/{ID}", "container 0123456789ab"),
        (f"/docker/{'f' * 64}/system.slice/docker-{ID}.scope", "docker 0123456789ab"),  # a container in a container
        ("/lxc/web/init.scope", "lxc web"),
        ("/lxc.payload.web/system.slice/ssh.service", "lxc web"),
        ("/machine.slice/machine-buster.scope", "machine buster"),
        ("/machine.slice/systemd-nspawn@web.service/payload", "nspawn web"),
        (f"/system.slice/docker-{ID[1:]}.scope", "host"),
    ],
)
def test_the_innermost_container_is_named_by_its_runtime(path: str, name: str) -> None:
    assert container_of(path) == name
