"""A program or library that is replaced while it is recorded: names come from the file that ran, or there are none."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.builders.prepared_start import PERFPY, run

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")]

#: Works for some seconds of its own time. Before that it runs a command.
MAIN = """
#include <stdlib.h>
void work(double seconds);
int main(int count, char **words) { if (count > 2) system(words[2]); work(atof(words[1])); return 0; }
"""
WORK = """
#include <time.h>
static volatile unsigned long sum;
__attribute__((noinline)) void NAME_one(unsigned long n) { for (unsigned long i = 0; i < n; i++) sum += i * 3; }
__attribute__((noinline)) void NAME_two(unsigned long n) { for (unsigned long i = 0; i < n; i++) sum ^= i * 5; }
void work(double seconds) { do { NAME_one(20000); NAME_two(20000); } while (clock() < seconds * CLOCKS_PER_SEC); }
"""


class Case:
    """A program, or a program with a library, in two builds. `file`: the one that is replaced."""

    def __init__(self, folder: Path, kind: str, *, build_id: bool) -> None:
        self.folder, self.program, self.file = folder, folder / "prog", folder / ("prog" if kind == "program" else "libwork.so")
        more = [] if build_id else ["-Wl,--build-id=none"]
        (folder / "main.c").write_text(MAIN)
        for name in ("new", "old"):
            (folder / f"{name}.c").write_text(WORK.replace("NAME", name) + ("void unused(void) { sum++; }\n" if name == "new" else ""))
            sources = [f"{name}.c"] if kind == "library" else ["main.c", f"{name}.c"]
            shared = ["-shared", "-fPIC"] if kind == "library" else []
            self._compile("-o", self.file.name, *sources, *shared, *more)
            self.file.rename(folder / f"{name}.build")
        (folder / "old.build").rename(self.file)
        if kind == "library":
            self._compile("-o", "prog", "main.c", "./libwork.so")

    def _compile(self, *words: str) -> None:
        subprocess.run(["gcc", "-O1", "-g", "-w", *words], cwd=self.folder, check=True, timeout=60)

    @property
    def replacing(self) -> str:
        """The command that replaces the file."""
        return f"cp {self.folder}/new.build {self.folder}/next; mv {self.folder}/next {self.file}"

    def run(self, *words: str) -> tuple[str, str]:
        """Run perfpy; return its output and its messages."""
        environment = {**os.environ, "HOME": str(self.folder), "XDG_CACHE_HOME": str(self.folder)}
        done = run([*PERFPY, *words], env=environment, cwd=self.folder, check=True)
        return done.stdout.decode(), done.stderr.decode()

    def report(self, *words: str) -> tuple[str, str]:
        """Return the report's table and messages."""
        return self.run("report", "--stdio", "-s", "dso,sym", *words)


RECORD = ("record", "-F", "499", "-e", "cpu-clock:u", "-o", "perf.data")


@pytest.mark.parametrize("build_id", [True, False], ids=["build-ids", "no build-ids"])
@pytest.mark.parametrize("kind", ["program", "library"])
@pytest.mark.parametrize(
    "options",
    [[], ["-N"], ["-B"], ["--buildid-all"], ["--self-contained"], ["--self-contained=binaries"], ["--unwind"], ["--threads"]],
    ids=str,
)
def test_a_file_that_was_replaced_while_it_ran_gives_no_wrong_names(tmp_path: Path, kind: str, build_id: bool, options: list[str]):
    case = Case(tmp_path, kind, build_id=build_id)
    _, messages = case.run(*RECORD, *options, "--", "./prog", "0.3", case.replacing)
    table, further = case.report("-i", "perf.data")
    assert "new_" not in table, table
    listed, _ = case.run("buildid-list", "-i", "perf.data")
    is_in_cache_or_told = "old_one" in table or "replaced" in further or "replaced" in messages
    # As long as the process ends, its file can still be read: -N records its build-id, and does not keep it.
    assert is_in_cache_or_told or (options == ["-N"] and str(case.file) in listed), (table, further, messages)


@pytest.mark.parametrize("options", [[], ["-z"], ["--buildid-all"], ["--unwind"]], ids=str)
def test_samples_before_and_after_the_replacement_get_the_names_of_their_own_files(tmp_path: Path, options: list[str]):
    """As in a long recording of a machine whose packages are upgraded: both builds run, the new one has a build-id."""
    case = Case(tmp_path, "program", build_id=True)
    command = f"./prog 0.3 '{case.replacing}'; ./prog 0.3"
    _, messages = case.run(*RECORD, *options, "--", "sh", "-c", command)
    table, further = case.report("-i", "perf.data", "-g", "none")
    assert "replaced" in messages, messages
    shares = {line.split()[-1]: float(line.split("%")[0]) for line in table.splitlines() if "_one" in line or "_two" in line}
    assert 30 < shares["new_one"] + shares["new_two"] < 70, (table, further)


@pytest.mark.parametrize("kind", ["program", "library"])
@pytest.mark.parametrize("options", [[], ["-N"], ["-B"], ["--self-contained"], ["--self-contained=binaries"]], ids=str)
@pytest.mark.skipif(os.geteuid() != 0, reason="map_files needs root")
def test_a_running_process_still_has_the_replaced_file(tmp_path: Path, kind: str, options: list[str]):
    """Attached after the start: the build-id and the stored file are those of the mapped file, also after the process has ended."""
    case = Case(tmp_path, kind, build_id=True)
    with subprocess.Popen(["./prog", "30"], cwd=tmp_path) as process:
        try:
            subprocess.run(["sh", "-c", case.replacing], check=True)
            case.run(*RECORD, *options, "-p", str(process.pid), "--", "sleep", "0.4")
            now, _ = case.report("-i", "perf.data")
        finally:
            process.kill()
    later, further = case.report("-i", "perf.data")
    assert ("old_one" in now, "new_" in now) == (True, False), now
    assert "new_" not in later, later
    if options not in (["-N"], ["-B"]):
        assert "old_one" in later, (later, further)


def test_a_library_that_is_replaced_after_the_recording_keeps_its_names_by_the_build_id_cache(tmp_path: Path):
    case = Case(tmp_path, "library", build_id=True)
    _, messages = case.run(*RECORD, "--", "./prog", "0.3")
    subprocess.run(["sh", "-c", case.replacing], check=True)
    table, further = case.report("-i", "perf.data")
    assert ("old_one" in table, "replaced" in messages + further) == (True, False)


@pytest.mark.parametrize("content", ["names", "binaries"])
def test_a_self_contained_recording_of_both_files_stores_neither(tmp_path: Path, content: str):
    case = Case(tmp_path, "program", build_id=False)
    command = f"./prog 0.3 '{case.replacing}'; ./prog 0.3"
    _, messages = case.run(*RECORD, f"--self-contained={content}", "--", "sh", "-c", command)
    assert f"several files are named {case.file}" in messages
    assert "new_one" in case.report("-i", "perf.data")[0]
    case.file.unlink()
    assert "new_" not in case.report("-i", "perf.data")[0]


@pytest.mark.parametrize("option", ["-b", "-B", "--buildid-all"])
def test_inject_gives_no_build_id_of_the_new_file(tmp_path: Path, option: str):
    case = Case(tmp_path, "program", build_id=True)
    case.run(*RECORD, "-B", "--", "./prog", "0.3", case.replacing)
    case.run("inject", option, "-i", "perf.data", "-o", "injected.data")
    listed, _ = case.run("buildid-list", "-i", "injected.data")
    assert not [line for line in listed.splitlines() if str(case.file) in line.split()[1:]], "a line is BUILD-ID NAME, or NAME"
    table, messages = case.report("-i", "injected.data")
    assert ("new_" in table, "replaced" in messages) == (False, True), (table, messages)


@pytest.mark.parametrize("command", ["annotate", "script", "page"])
def test_other_commands_show_no_names_of_the_new_file(tmp_path: Path, command: str):
    case = Case(tmp_path, "program", build_id=True)
    case.run(*RECORD, "-B", "--", "./prog", "0.3", case.replacing)
    words = {"annotate": ["annotate", "--stdio"], "script": ["script"], "page": ["report", "--html", "page.html"]}[command]
    environment = {**os.environ, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    done = run([*PERFPY, *words, "-i", "perf.data"], env=environment, cwd=tmp_path)
    page = tmp_path / "page.html"
    text = done.stdout.decode() + (page.read_text() if page.exists() else "")
    assert text or command == "annotate"
    assert "new_" not in text
    assert "replaced" in done.stderr.decode()
