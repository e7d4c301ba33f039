"""Names come from the files that ran: replaced ones, those of other roots, and of processes in other namespaces."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.builders.prepared_start import PERFPY, output_of, run

if TYPE_CHECKING:
    from collections.abc import Iterator


# A program or library that is replaced while it is recorded: names come from the file that ran, or there are none.


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


@pytest.mark.live
@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
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


def shares_of_builds(table: str) -> dict[str, float]:
    """The shares of the functions of the old and of the new file."""
    shares = {"old": 0.0, "new": 0.0}
    for percent, build in re.findall(r"^ *([0-9.]+)% .* (old|new)_(?:one|two)$", table, re.MULTILINE):
        shares[build] += float(percent)
    return shares


BOTH_BUILDS = pytest.mark.parametrize("options", [[], ["-z"], ["--buildid-all"], ["--unwind"]], ids=str)


@pytest.mark.live
@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="needs a tmpfs")
@BOTH_BUILDS
def test_samples_before_and_after_the_replacement_get_the_names_of_their_own_files(options: list[str]):
    """As in a long recording of a machine whose packages are upgraded: both builds run, the new one has a build-id.

    On a tmpfs, where nobody finds a removed file by its inode: a recorder of another test may hold it open.
    """
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        case = Case(Path(folder), "program", build_id=True)
        command = f"./prog 0.3 '{case.replacing}'; ./prog 0.3"
        _, messages = case.run(*RECORD, *options, "--", "sh", "-c", command)
        assert f"warning: replaced while recorded: {case.file}; " in messages
        assert messages.count(str(case.file)) == 1, messages
        table, further = case.report("-i", "perf.data", "-g", "none")
        shares = shares_of_builds(table)
        assert (30 < shares["new"] < 70, shares["old"]) == (True, 0), (table, further)


@pytest.mark.live
@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root opens a file by its inode")
@BOTH_BUILDS
def test_a_replaced_file_that_is_still_open_gives_its_names(tmp_path: Path, options: list[str]):
    case = Case(tmp_path, "program", build_id=True)
    if output_of(["stat", "-f", "-c", "%T", tmp_path]).strip() not in {"ext2/ext3", "xfs", "btrfs"}:
        pytest.skip("this file system does not open files by inode")
    command = f"./prog 0.3 '{case.replacing}'; ./prog 0.3"
    with case.file.open("rb"):
        _, messages = case.run(*RECORD, *options, "--", "sh", "-c", command)
    table, further = case.report("-i", "perf.data", "-g", "none")
    shares = shares_of_builds(table)
    assert 30 < shares["new"] < 70, (table, further)
    if options == ["-z"]:  # its compressed mappings get no build-ids: no name is better than one of the other file
        assert (f"warning: several files are named {case.file}; " in messages, shares["old"]) == (True, 0), (messages, table)
        assert "replaced" in further
    else:
        assert (str(case.file) in messages, 30 < shares["old"] < 70) == (False, True), (messages, table)


@pytest.mark.live
@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
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


@pytest.mark.live
@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
def test_a_library_that_is_replaced_after_the_recording_keeps_its_names_by_the_build_id_cache(tmp_path: Path):
    case = Case(tmp_path, "library", build_id=True)
    _, messages = case.run(*RECORD, "--", "./prog", "0.3")
    subprocess.run(["sh", "-c", case.replacing], check=True)
    table, further = case.report("-i", "perf.data")
    assert ("old_one" in table, "replaced" in messages + further) == (True, False)


@pytest.mark.live
@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
@pytest.mark.parametrize("content", ["names", "binaries"])
def test_a_self_contained_recording_of_both_files_stores_neither(tmp_path: Path, content: str):
    case = Case(tmp_path, "program", build_id=False)
    command = f"./prog 0.3 '{case.replacing}'; ./prog 0.3"
    _, messages = case.run(*RECORD, f"--self-contained={content}", "--", "sh", "-c", command)
    assert f"several files are named {case.file}" in messages
    assert "new_one" in case.report("-i", "perf.data")[0]
    case.file.unlink()
    assert "new_" not in case.report("-i", "perf.data")[0]


@pytest.mark.live
@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
@pytest.mark.parametrize("option", ["-b", "-B", "--buildid-all"])
def test_inject_gives_no_build_id_of_the_new_file(tmp_path: Path, option: str):
    case = Case(tmp_path, "program", build_id=True)
    case.run(*RECORD, "-B", "--", "./prog", "0.3", case.replacing)
    case.run("inject", option, "-i", "perf.data", "-o", "injected.data")
    listed, _ = case.run("buildid-list", "-i", "injected.data")
    assert not [line for line in listed.splitlines() if str(case.file) in line.split()[1:]], "a line is BUILD-ID NAME, or NAME"
    table, messages = case.report("-i", "injected.data")
    assert ("new_" in table, "replaced" in messages) == (False, True), (table, messages)


@pytest.mark.live
@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
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


# Programs below chroot: their own files are used, not those of the host with the same path.


PROGRAM = """
#include <stdlib.h>
#include <time.h>
volatile unsigned sink;
__attribute__((noinline)) void %(name)s_inner(void) { for (int i = 0; i < 2000; i++) sink += i; }
__attribute__((noinline)) void %(name)s(void) { for (int i = 0; i < 10; i++) %(name)s_inner(); sink++; }
int main(void) { while (clock() < CLOCKS_PER_SEC / 5) %(name)s(); return 0; }
"""


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A program, and a folder in which another program has the same path."""
    if os.geteuid() or not shutil.which("gcc") or not shutil.which("chroot"):
        pytest.skip("needs root, gcc and chroot")
    folder = tmp_path_factory.mktemp("roots")
    host, root = folder / "busy", folder / "root"
    inside = root / str(host)[1:]
    inside.parent.mkdir(parents=True)
    for name, path, more in (("of_host", host, ""), ("of_root", inside, "int unused(int a) { return a * 3; }\n")):
        source = folder / f"{name}.c"
        source.write_text(more + PROGRAM % {"name": name})
        build = ["gcc", "-O1", "-static", "-fomit-frame-pointer", "-fno-optimize-sibling-calls", "-o", str(path), str(source)]
        if subprocess.run(build, capture_output=True, timeout=60, check=False).returncode:
            pytest.skip("no static C library")
    return host, root


@pytest.mark.live
@pytest.mark.parametrize("options", [[], ["--unwind"]], ids=["plain", "unwind"])
def test_two_files_with_one_path_are_distinct(programs: tuple[Path, Path], tmp_path: Path, options: list[str]):
    host, root = programs
    command = ["sh", "-c", f"{host}; chroot {root} {host}"]
    environment = {**os.environ, "HOME": str(tmp_path)}  # the build-id cache keeps the files
    words = ["record", "-q", *options, "-F", "999", "-e", "cpu-clock:u", "-o", "perf.data", "--", *command]
    run([*PERFPY, *words], env=environment, cwd=tmp_path, check=True)
    line = [*PERFPY, "script", "-i", "perf.data", "-F", "ip,sym,dso", "--no-inline"]
    lines = run(line, env=environment, cwd=tmp_path, check=True).stdout.decode()
    counts = [len(re.findall(rf"\b{name}_inner\b", lines)) for name in ("of_host", "of_root")]
    assert min(counts) > 50, lines[:1000]
    if options:  # only the right file leads to the callers
        assert len(re.findall(r" of_root_inner .*\n.* of_root .*\n.* main ", lines)) > 50, lines[:1000]


# record --jit keeps the perf maps of processes in pid namespaces, which have ended when the recording ends.


#: generates a loop, names it by argv[1] in the perf map of its pid, and runs it for some 0.4 s
NAMESPACE_PROGRAM = r"""
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
static const unsigned char loop[] = {0x48, 0x89, 0xf8, 0x48, 0xff, 0xc8, 0x75, 0xfb, 0xc3};
int main(int count, char **words)
{
    char path[64];
    char *code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(code, loop, sizeof loop);
    snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
    FILE *map = fopen(path, "w");
    fprintf(map, "%lx %zx %s\n", (unsigned long)code, sizeof loop, words[1]);
    fclose(map);
    struct timespec now;
    do {
        ((void (*)(long))code)(1000000);
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    } while (now.tv_sec == 0 && now.tv_nsec < 400000000);
    return 0;
}
"""
UNSHARE = "unshare --pid --fork"


@pytest.fixture(scope="module")
def generator() -> Iterator[Path]:
    """The program, outside of /tmp, over which a test mounts another file system."""
    if subprocess.run([*UNSHARE.split(), "--mount-proc", "true"], check=False, capture_output=True).returncode:
        pytest.skip("not allowed to make a pid namespace")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        (Path(folder) / "generator.c").write_text(NAMESPACE_PROGRAM)
        subprocess.run(["gcc", "-O1", "-o", f"{folder}/generator", f"{folder}/generator.c"], check=True, timeout=60)
        yield Path(folder) / "generator"


def symbols(generator: Path, script: str) -> dict[str, float]:
    """Record a script with a /tmp of its own; return the shares of functions.

    The maps are gone before the report, those of other programs in /tmp stay, and no other test writes a map for the same inner pid.
    """
    with tempfile.TemporaryDirectory(dir=generator.parent) as folder:
        recording, own_tmp = f"{folder}/perf.data", Path(folder, "tmp")
        own_tmp.mkdir(mode=0o1777)
        record = [sys.executable, "-m", "perfpy", "record", "--jit", "-q", "-e", "cpu-clock:u", "-F", "500", "-o", recording]
        inside = ["unshare", "--mount", "sh", "-c", f'mount --bind {own_tmp} /tmp && exec "$@"', "sh"]
        subprocess.run([*inside, *record, "--", "sh", "-c", script], check=True, timeout=120, capture_output=True)
        assert list(own_tmp.glob("perf-*.map")) or "tmpfs" in script
        for path in own_tmp.iterdir():
            path.unlink()
        lines = output_of([*PERFPY, "report", "--stdio", "-i", recording, "-s", "sym", "-g", "none", "--no-children"]).splitlines()
    rows = [line.split() for line in lines if line.strip() and not line.startswith("#")]
    return {row[-1]: float(row[0].rstrip("%")) for row in rows if row[0].endswith("%")}


@pytest.mark.live
@pytest.mark.particular
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the generated code is that of x86-64")
@pytest.mark.skipif(not shutil.which("gcc") or not shutil.which("unshare"), reason="needs gcc and unshare")
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root for namespaces")
@pytest.mark.parametrize(
    "command",
    [
        "{program} inside",
        UNSHARE + " {program} inside",
        UNSHARE + " --mount-proc {program} inside",
        UNSHARE + " --mount-proc sh -c '{program} inside; true'",
        UNSHARE + " " + UNSHARE + " --mount-proc {program} inside",
        UNSHARE + " --mount sh -c 'mount -t tmpfs none /tmp && exec {program} inside'",
        UNSHARE + " --mount-proc sh -c 'mount -t tmpfs none /tmp; {program} inside; umount -l /tmp'",
    ],
)
def test_generated_code_has_names(generator: Path, command: str):
    assert symbols(generator, command.format(program=generator)).get("inside", 0) > 80


@pytest.mark.live
@pytest.mark.particular
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the generated code is that of x86-64")
@pytest.mark.skipif(not shutil.which("gcc") or not shutil.which("unshare"), reason="needs gcc and unshare")
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root for namespaces")
def test_processes_with_one_pid_inside_have_names_of_their_own(generator: Path):
    """Both are 1, and share /tmp: the second one replaces the map of the first, which the recorder has read by then."""
    shares = symbols(generator, f"{UNSHARE} {generator} first; sleep 1.5; {UNSHARE} {generator} second")
    assert min(shares.get("first", 0), shares.get("second", 0)) > 30


@pytest.mark.live
@pytest.mark.particular
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the generated code is that of x86-64")
@pytest.mark.skipif(not shutil.which("gcc") or not shutil.which("unshare"), reason="needs gcc and unshare")
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root for namespaces")
def test_another_tmp_may_have_the_same_pid(generator: Path):
    inside = f"{UNSHARE} --mount sh -c 'mount -t tmpfs none /tmp && exec {generator} "
    shares = symbols(generator, f"{inside}first' & {inside}second' & wait")
    assert min(shares.get("first", 0), shares.get("second", 0)) > 30
