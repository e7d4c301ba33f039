"""Probes in running programs: added, listed, recorded and deleted; nothing is left."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from perfpy.errors import KernelRefusedError
from perfpy.kernel.probe_events import ProbeEvents
from perfpy.kernel.sysfs import Tracefs, mount_as_root
from tests.builders.probed import compiled

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.system_wide]
PERFPY = [sys.executable, "-m", "perfpy"]


def run(*args: str, status: int = 0, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    process = subprocess.run([*PERFPY, *args], capture_output=True, text=True, timeout=300, cwd=folder, check=False)
    assert process.returncode == status, process.stderr
    return process


@pytest.fixture
def group() -> Iterator[str]:
    """A group of events of this test's own, whose events are deleted afterwards."""
    name = f"perfpy_test_{os.getpid()}"
    events = ProbeEvents(Tracefs(mount=mount_as_root))
    try:
        events.lines(is_kernel=False)
        if os.geteuid() or not events.has_kind(is_kernel=False):
            pytest.skip("adding probes needs root and a kernel with uprobes")
    except KernelRefusedError as refused:
        pytest.skip(str(refused))
    yield name
    for event in {line.split("/")[1].split(" ")[0] for line in lines_of(name)}:
        events.remove(name, event, is_kernel=False)


def lines_of(group: str) -> list[str]:
    return [line for line in ProbeEvents(Tracefs()).lines(is_kernel=False) if f":{group}/" in line]


def test_a_probe_is_added_listed_recorded_and_deleted(tmp_path: Path, group: str) -> None:
    shop = compiled(tmp_path)
    added = run("probe", "-x", str(shop), f"{group}:cost=cost count it->price it->name:string total it->high")
    assert "Added new event:" in added.stderr
    listed = run("probe", "-l", f"{group}:*").stdout
    assert f"{group}:cost" in listed
    assert f"(on cost@{tmp_path}/shop.c in {shop} with count price name total high)" in listed
    run("record", "-q", "-o", "p.data", "-e", f"{group}:cost", "--", str(shop), folder=tmp_path)
    hits = [line for line in run("script", "-i", "p.data", folder=tmp_path).stdout.splitlines() if f"{group}:cost" in line]
    assert len(hits) == 20
    assert 'count=0 price=3 name="apple" total=0 high=7' in hits[0]
    assert "count=19 price=3" in hits[-1]
    assert " total=0 " not in hits[-1]  # a global variable in .bss, read where it is now
    assert run("probe", "-d", f"{group}:cost").stderr == f"Removed event: {group}:cost\n"
    assert not lines_of(group)


def test_a_name_is_not_taken_twice(tmp_path: Path, group: str) -> None:
    shop = compiled(tmp_path)
    run("probe", "-x", str(shop), f"{group}:e=cost")
    run("probe", "-x", str(shop), f"{group}:e=cost", status=239)
    run("probe", "-q", "-f", "-x", str(shop), f"{group}:e=cost")
    assert len(lines_of(group)) == 2
    run("probe", "-n", "-x", str(shop), f"{group}:dry=cost")
    assert len(lines_of(group)) == 2


def test_a_refused_probe_leaves_none_of_its_line(tmp_path: Path, group: str) -> None:
    shop = compiled(tmp_path)
    refused = run("probe", "-x", str(shop), "-a", f"{group}:one=cost", "-a", f"{group}:two=cost %nosuch", status=255)
    assert "the kernel's reason is: Invalid register name" in refused.stderr
    assert not lines_of(group)


def test_nothing_to_delete_has_perfs_status() -> None:
    assert "no probe is named" in run("probe", "-d", "no_such_group:nosuch", status=254).stderr


def test_a_program_of_a_container_is_probed_inside_of_it(tmp_path: Path, group: str) -> None:
    """A link that leads out of the container's root leads nowhere."""
    root = tmp_path / "root"
    root.mkdir()
    compiled(root)
    (root / "link").symlink_to("/shop")
    (root / "escape").symlink_to("/etc/hostname")
    pid = os.fork()
    if not pid:
        os.chroot(root)
        os.read(0 if os.isatty(0) else os.pipe()[0], 1)
        os._exit(0)
    try:
        while os.readlink(f"/proc/{pid}/root") != str(root):
            pass
        run("probe", "-x", "/link", "--target-ns", str(pid), f"{group}:inner=cost")
        assert f"/proc/{pid}/root/shop" in lines_of(group)[0] or str(root / "shop") in lines_of(group)[0]
        run("probe", "-x", "/escape", "--target-ns", str(pid), f"{group}:outer=cost", status=129)
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
