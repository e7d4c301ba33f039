"""The worked example of man/topics/continuous.md, as it stands there: a recorder, a store, a job at night."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = [pytest.mark.live, pytest.mark.system_wide]

CHECKOUT = Path(__file__).resolve().parents[2]
PAGE = (CHECKOUT / "man" / "topics" / "continuous.md").read_text()
FILES = dict(re.findall(r"^`(/\S+)`\n\n```\w+\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
UNITS = "/etc/systemd/system/"
SCRIPTS = "/usr/local/bin/"


def setting(unit: str, name: str) -> str:
    match = re.search(rf"^{name}=(.*)$", FILES[UNITS + unit], re.MULTILINE)
    assert match is not None
    return match[1].replace("%%", "%")


def until(condition, seconds: float = 300) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def host(tmp_path):
    """A folder with the scripts, and the environment in which they run."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "perfpy").write_text(f'#!/bin/sh\nexec {sys.executable} -m perfpy "$@"\n')
    for name, text in FILES.items():
        if name.startswith(SCRIPTS):
            (programs / Path(name).name).write_text(text)
    for path in programs.iterdir():
        path.chmod(0o755)
    return {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(CHECKOUT), "HOME": str(tmp_path)}


def test_the_page_names_five_files():
    record, *ship = (f"{UNITS}perfpy-{name}" for name in ("record.service", "ship.service", "ship.timer"))
    assert [*FILES] == [record, f"{SCRIPTS}perfpy-ship", *ship, f"{SCRIPTS}perfpy-nightly"]


def test_systemd_takes_the_units(tmp_path):
    """Where there is one to ask; the programs of this machine stand in for those of the page."""
    for name, text in FILES.items():
        if name.startswith(UNITS):
            (tmp_path / Path(name).name).write_text(text.replace("/usr/local/bin/perfpy-ship", "/bin/true"))
    if shutil.which("systemd-analyze"):
        units = [str(path) for path in sorted(tmp_path.iterdir())]
        process = subprocess.run(["systemd-analyze", "verify", "--man=no", *units], capture_output=True, text=True, timeout=60, check=False)
        assert [line for line in process.stderr.splitlines() if str(tmp_path) in line] == []
    assert setting("perfpy-ship.service", "ExecStart").split()[0] in FILES


@pytest.mark.thorough
def test_from_a_recorder_to_a_page(tmp_path, host):
    own, store = tmp_path / "own", tmp_path / "store"
    own.mkdir()
    line = setting("perfpy-record.service", "ExecStart").replace("/var/lib/perfpy", str(own)).replace("=10m", "=1s")
    with subprocess.Popen(line.split(), env=host, cwd=tmp_path, stderr=subprocess.PIPE) as recorder:
        try:
            until(lambda: len(list(own.glob("perf.data.2*"))) >= 2)
            recorder.send_signal(signal.SIGTERM)
            recorder.wait(timeout=300)
        finally:
            recorder.kill()
    recorded = {path.name.removeprefix("perf.data.") for path in own.glob("perf.data.2*")}
    assert not (own / "perf.data").exists()

    subprocess.run(["perfpy-ship", str(store), str(own)], env=host, check=True, timeout=300)
    assert not list(own.glob("perf.data.2*"))
    name = os.uname().nodename
    day = min(recorded)[:8]
    shipped = {path.name.removesuffix(".data") for path in store.glob(f"*/{name}/*.data")}
    assert shipped == recorded

    (store / day / name / "20000101.data").write_bytes(b"PERFILE2 and then nothing")
    before = store / time.strftime("%Y%m%d", time.localtime(time.mktime(time.strptime(day, "%Y%m%d")) - 43200))
    shutil.copytree(store / day, before)
    subprocess.run(["perfpy-nightly", str(store), day], env=host, check=True, timeout=300)
    pages = store / "pages" / day
    unread = store / day / name / "20000101.data"
    assert next(line for line in (pages / "notes").read_text().splitlines() if "skipped" in line).startswith(f"Warning: {unread}: ")
    stacks = (pages / f"{name}.folded").read_text().splitlines()
    assert stacks
    assert len({line.rpartition(" ")[0] for line in stacks}) == len(stacks)
    assert "<html" in (pages / f"{name}.html").read_text()
    table = (pages / f"{name}.txt").read_text()
    shares = [float(share) for share in re.findall(r"^ +([\d.]+)%", table, re.MULTILINE)]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) == pytest.approx(100, abs=0.006 * len(shares))
    assert name[:15] in (pages / "hosts.txt").read_text()
    changes = (pages / "changes.txt").read_text().splitlines()
    assert changes
    assert [line for line in changes if "  +0.00% " not in line or "% *" in line] == []  # the day before had the same recordings
    assert "<html" in (pages / "changes.html").read_text()
