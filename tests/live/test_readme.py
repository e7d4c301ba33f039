"""Every line of the tables "I want to ..." in README and the guide does what it says, on a small program."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

CHECKOUT = Path(__file__).resolve().parents[2]
PAGES = [CHECKOUT / "README.md", CHECKOUT / "man" / "topics" / "guide.md"]
SECTIONS = [page.read_text().split("## I want to ...")[1].split("\n## ")[0] for page in PAGES]
TABLES = [dict(re.findall(r"^\| (?!\.\.\.)(.+?) \| `(.+)` \|$", section, re.MULTILINE)) for section in SECTIONS]
#: wish -> line; README's wishes are shorter words for lines of the guide
LINES = TABLES[1]
#: what stands in PATH before the real ones: nobody waits ten seconds, builds anything, or records what else runs here
STAND_INS = {
    "perfpy": f'#!/bin/sh\nexec {sys.executable} -m perfpy "$@"\n',
    "sleep": "#!/bin/sh\nexec /bin/sleep 0.3\n",
    "make": "#!/bin/sh\nexec ./program\n",
    "pgrep": "#!/bin/sh\ncat running.pid\n",
}
PROGRAM = "#!/bin/sh\ni=0; while [ $i -lt 50000 ]; do i=$((i+1)); done\n: </dev/null\n"
#: what the answer to a wish shows; of the others, that there is one
SHOWS = {
    "see where a program spends its time, and who calls what": "Children",
    "find the slow function and line of a running Python program": "busy",
    "find the slow function of a Node or Java program": "busy",
    "know what a program costs, and how much that varies": "seconds time elapsed",
    "know whether the new build is faster, or whether the difference is noise": "./new",
    "see each call of a function, with an argument (as root)": "size=42",
    "see how long the calls of a function took, and how long they waited (as root)": "1 call by 1 thread",
    "see the system calls of a program, and how long they took": "execve",
    "see which files a program opens, with time and result": "filename: ",
    "see which tasks waited for a CPU, and how long": "Max delay",
    "see why a build uses only one CPU": "Parallelism",
    "watch what the whole machine does now": "PerfTop",
}
#: what inserts a probe into a program
PROBING = ("perfpy probe", "perfpy latency")
MACHINE_WIDE = ("-a", "-e syscalls", "perfpy top", "perfpy trace", "perfpy sched", *PROBING)
#: what would run until Ctrl-C -> what ends
ENDING = {"perfpy top": "perfpy top --updates 1 -d 1"}
#: what a probe can be put into; other lines run a script
COMPILED_NAME = f"compiled_{os.getpid()}"  # the kernel's probes are the whole machine's, and a killed run leaves its own
COMPILED = r"""
#include <stdio.h>
__attribute__((noinline)) void handle(int size) { printf("%d\n", size); }
int main(void) { handle(42); }
"""


def test_the_guide_has_every_line_of_the_front_page() -> None:
    for table, section in zip(TABLES, SECTIONS, strict=True):
        assert len(table) == section.count("\n| ") - 2  # its head
    assert set(TABLES[0].values()) <= set(LINES.values())
    assert set(SHOWS) <= set(LINES)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("readme")
    (folder / "bin").mkdir()
    for name, text in STAND_INS.items():
        (folder / "bin" / name).write_text(text)
    for name in ("program", "old", "new"):
        (folder / name).write_text(PROGRAM)
    for path in (*(folder / "bin").iterdir(), folder / "program", folder / "old", folder / "new"):
        path.chmod(0o755)
    if shutil.which("gcc"):
        build = ["gcc", "-g", "-O1", "-o", COMPILED_NAME, "-x", "c", "-"]
        subprocess.run(build, input=COMPILED, text=True, check=True, capture_output=True, cwd=folder, timeout=60)
    (folder / "app.js").write_text(
        "function busy(n) { let s = 0; for (let i = 0; i < n; i++) s += i % 7; return s }\nfor (let i = 0; i < 300; i++) busy(1e6)\n"
    )
    (folder / "loop.py").write_text(
        "import time\ndef busy():\n    return sum(i * i for i in range(20_000))\n\nwhile True:\n    busy()\n    time.sleep(0.003)\n"
    )
    hosts = [
        folder / "before" / "web1.data",
        folder / "before" / "web2.data",
        folder / "after" / "web1.data",
        folder / "after" / "web2.data",
    ]
    for path in hosts:
        path.parent.mkdir(exist_ok=True)
    for name in ("perf.data", "before.data", "after.data", *map(str, hosts)):
        shell(f"perfpy record -q -g -e cpu-clock -o {name} -- ./program", folder)
    yield folder
    shell(f"perfpy probe -q -d 'probe_{COMPILED_NAME}:*' || true", folder)


@contextmanager
def running_program(folder: Path) -> Iterator[None]:
    """Run the Python program; pgrep finds it."""
    with subprocess.Popen([sys.executable, folder / "loop.py"]) as process:
        (folder / "running.pid").write_text(str(process.pid))
        try:
            yield
        finally:
            process.kill()


def shell(line: str, folder: Path) -> str:
    """What a line writes, on both streams."""
    environment = os.environ | {
        "PATH": f"{folder}/bin:{os.environ['PATH']}",
        "PYTHONPATH": str(CHECKOUT),
        "HOME": str(folder),
        "TMPDIR": str(folder),
    }
    for screen in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):  # nobody wants to see it
        environment.pop(screen, None)
    with open(folder / "shown", "w+", errors="replace") as output:  # not a pipe, into which record would write
        process = subprocess.run(["sh", "-c", line], check=False, stdout=output, stderr=output, cwd=folder, env=environment, timeout=300)
        output.seek(0)
        text = output.read()
    assert process.returncode == 0, text
    return text


def marked(wish: str, line: str) -> object:
    marks = [pytest.mark.system_wide if any(part in line for part in MACHINE_WIDE) else pytest.mark.live]
    if "node " in line:
        marks.append(pytest.mark.skipif(shutil.which("node") is None, reason="no node in PATH"))
    if "perfpy why" in line:
        marks.append(pytest.mark.alone)
    if any(part in line for part in PROBING):
        line = line.replace("./program", f"./{COMPILED_NAME}").replace("probe_program", f"probe_{COMPILED_NAME}")
        marks.append(pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc in PATH"))
    return pytest.param(wish, line, marks=marks, id=wish)


@pytest.mark.parametrize(("wish", "line"), [marked(*row) for row in LINES.items()])
def test_the_line_answers(wish: str, line: str, folder: Path) -> None:
    data = (folder / "perf.data").read_bytes()
    for endless, ending in ENDING.items():
        line = re.sub(rf"{endless}\b", ending, line)
    with running_program(folder) if "pgrep" in line else nullcontext():
        result = shell(line, folder)
    written = [folder / name for name in re.findall(r"(?:--html|-o) (\S+)", line)]
    assert SHOWS.get(wish, "") in result
    assert result or all(path.stat().st_size for path in written)
    (folder / "perf.data").write_bytes(data)
