"""Another user exchanges a program between its analysis and the kernel's; signals end a measurement whose probes exist."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from perfpy.cli import run, temporary_probes
from perfpy.cli.temporary_probes import TemporaryProbes
from perfpy.errors import KernelRefusedError
from perfpy.kernel.probe_events import ProbeEvents
from perfpy.kernel.procfs import ProcFs
from perfpy.kernel.sysfs import Tracefs, mount_as_root
from perfpy.tools.leaks.allocators import INTERVAL, find_allocators, probes
from perfpy.tools.leaks.attached import _open_maps
from perfpy.tools.probe import actions
from perfpy.untrusted import pinned_files
from tests.builders.other_users import GID, UID, child, needs_root
from tests.builders.probed import compiled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [needs_root, pytest.mark.live, pytest.mark.system_wide]

PERFPY = [sys.executable, "-m", "perfpy"]
CHECKOUT = Path(__file__).resolve().parents[2]
HANDLE = 'int handle(int n) { __asm__ volatile(""); return n * 2; }'
SLEEPS = """#include <unistd.h>
__attribute__((noinline, aligned(64))) %s
int main(void) { write(1, "r", 1); for (;;) { usleep(1000); handle(1); } }
"""
#: `handle` is elsewhere: in the middle of the other program's function
MOVED = SLEEPS.replace("__attribute__", '__asm__(".skip 200, 0x90");\n__attribute__', 1)
ALLOCATOR = """#include <stddef.h>
#include <unistd.h>
static char room[64];
void *malloc(size_t n) { (void)n; return room; }
void free(void *p) { (void)p; }
int main(void) { write(1, "r", 1); for (;;) usleep(1000); }
"""
_IN_OPEN = 0x20
_BREAKPOINT = b"\xcc"


@pytest.fixture(autouse=True)
def events() -> Iterator[ProbeEvents]:
    """The kernel's probes; those of this test are removed afterwards."""
    events = ProbeEvents(Tracefs(mount=mount_as_root))
    try:
        before = set(events.lines(is_kernel=False))
        if not events.has_kind(is_kernel=False):
            pytest.skip("a kernel without uprobes")
    except KernelRefusedError as refused:
        pytest.skip(str(refused))
    yield events
    mark = f"_by{os.getpid()}/"
    for line in set(events.lines(is_kernel=False)) - before:
        if mark in line or ":perfpy_hostile/" in line:
            group, _, event = line.split(" ")[0].partition(":")[2].partition("/")
            with contextlib.suppress(KernelRefusedError):
                events.remove(group, event, is_kernel=False)


def await_true(condition: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


@contextlib.contextmanager
def running(program: Path) -> Iterator[int]:
    """The pid of a program that runs: its libraries are loaded."""
    with subprocess.Popen([str(program)], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.read(1) == b"r"
            yield process.pid
        finally:
            process.kill()


def code_of(pid: int) -> bytes:
    """The code of a running program, as it is in memory."""
    name = os.readlink(f"/proc/{pid}/exe")
    line = next(line for line in Path(f"/proc/{pid}/maps").read_text().splitlines() if " r-xp " in line and line.endswith(name))
    start, end = (int(word, 16) for word in line.split()[0].split("-"))
    with open(f"/proc/{pid}/mem", "rb") as memory:
        memory.seek(start)
        return memory.read(end - start)


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[tuple[Path, int]]:
    """Root's program, whose code must stay, and its pid."""
    path = compiled(tmp_path, "victim", "-O1", (SLEEPS % HANDLE).replace("handle", "allowed"))
    with running(path) as pid:
        yield path, pid


@pytest.fixture
def app(theirs: Path) -> Path:
    """The other user's program."""
    folder = theirs / "d1"
    folder.mkdir()
    path = compiled(folder, "app", "-O1", MOVED % HANDLE)
    for one in (folder, path):
        os.chown(one, UID, GID)
    (theirs / "dir").symlink_to("d1")
    return path


def exchange_link(app: Path, victim: Path) -> None:
    (app.parent / "new").symlink_to(victim)
    (app.parent / "new").rename(app)


def exchange_hard_link(app: Path, victim: Path) -> None:
    os.link(victim, app.parent / "new")
    (app.parent / "new").rename(app)


def exchange_folder(app: Path, victim: Path) -> None:
    other = app.parent.with_name("d2")
    other.mkdir()
    (other / app.name).symlink_to(victim)
    app.parent.rename(app.parent.with_name("d0"))
    other.rename(app.parent)


def exchange_folder_link(app: Path, victim: Path) -> None:
    other = app.parent.with_name("d2")
    other.mkdir()
    (other / app.name).symlink_to(victim)
    (app.parent.with_name("next")).symlink_to("d2")
    (app.parent.with_name("next")).rename(app.parent.with_name("dir"))
    exchange_link(app, victim)  # the name without links, too


def mount_over(app: Path, victim: Path) -> None:
    subprocess.run(["mount", "--bind", victim, app], check=True)


def delete(app: Path, _victim: Path) -> None:
    app.unlink()


EXCHANGES = [exchange_link, exchange_hard_link, exchange_folder, exchange_folder_link, mount_over, delete]


@contextlib.contextmanager
def after_planning(monkeypatch: pytest.MonkeyPatch, module: object, exchange: Callable[[], None]) -> Iterator[None]:
    """Exchange the file when it has been read, before the kernel gets it."""
    plan = module.plan  # type: ignore[attr-defined]

    def work(*words: object, **options: object) -> object:
        result = plan(*words, **options)
        exchange()
        return result

    with monkeypatch.context() as patch:
        patch.setattr(module, "plan", work)
        yield


@contextlib.contextmanager
def enabled(name: str) -> Iterator[None]:
    """Enable an event, so that the kernel changes the code of running programs."""
    switch = Path(f"{Tracefs().root}/events/{name.replace(':', '/')}/enable")
    switch.write_text("1")
    try:
        yield
    finally:
        switch.write_text("0")


@contextlib.contextmanager
def unmounted(path: Path) -> Iterator[None]:
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", path], check=False, capture_output=True)


# -- the kernel probes the file that was read ---------------------------------------------------------------------


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_a_probe_for_one_measurement_is_in_the_file_that_was_read(
    exchange: Callable[[Path, Path], None], app: Path, victim: tuple[Path, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, pid = victim
    code = code_of(pid)
    given = app.parent.with_name("dir") / "app" if exchange is exchange_folder_link else app
    with running(app) as app_pid, unmounted(app):
        app_code = code_of(app_pid)
        exchanged = after_planning(monkeypatch, temporary_probes, lambda: exchange(app, path))
        with exchanged, TemporaryProbes([f"uprobe:{given}:handle"]) as added, enabled(added.texts[0]):
            changed = code_of(app_pid)
            assert code_of(pid) == code
        assert bytes(new for old, new in zip(app_code, changed, strict=True) if old != new) == _BREAKPOINT


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_a_lasting_probe_is_in_the_file_that_was_read_and_has_its_path(
    exchange: Callable[[Path, Path], None], app: Path, victim: tuple[Path, int], events: ProbeEvents, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, pid = victim
    code = code_of(pid)
    with running(app) as app_pid, unmounted(app), after_planning(monkeypatch, actions, lambda: exchange(app, path)):
        app_code = code_of(app_pid)
        assert run(["probe", "-q", "-x", str(app), "perfpy_hostile:handle=handle"]) == 0
        assert [line for line in events.lines(is_kernel=False) if line.startswith(f"p:perfpy_hostile/handle {app}:0x")]
        with enabled("perfpy_hostile:handle"):
            assert code_of(pid) == code
            assert code_of(app_pid) != app_code


def test_a_race_for_the_name_of_a_program_is_lost(app: Path, victim: tuple[Path, int], tmp_path: Path) -> None:
    """The user waits for perfpy's first look at the file, and exchanges it at different times after."""
    path, pid = victim
    code, kept = code_of(pid), app.with_name("kept")
    app.rename(kept)
    libc = ctypes.CDLL(None)
    for delay in (0.0, 0.0002, 0.001, 0.01, 0.05, 0.1):
        shutil.copyfile(kept, app)
        os.chown(app, UID, GID)

        def work(delay: float = delay) -> None:
            notes = libc.inotify_init()
            libc.inotify_add_watch(notes, os.fsencode(app), _IN_OPEN)
            (app.parent / "ready").touch()
            os.read(notes, 4096)
            time.sleep(delay)
            exchange_link(app, path)

        with child(work=work):
            await_true((app.parent / "ready").exists)
            (app.parent / "ready").unlink()
            measured = subprocess.Popen(
                [*PERFPY, "record", "-q", "-a", "-o", str(tmp_path / "u.data"), "-e", f"uprobe:{app}:handle", "--", "sleep", "0.3"],
                env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
            )
            codes = {code}
            while measured.poll() is None:
                codes.add(code_of(pid))
                time.sleep(0.02)
            assert codes == {code}
            await_true(app.is_symlink)  # at the longest delay it may still sleep
        app.unlink()


def test_an_allocator_is_probed_in_the_file_that_was_read(app: Path, victim: tuple[Path, int]) -> None:
    """Leaks: the functions' offsets are those of the file that the process has mapped."""
    own = compiled(app.parent, "own", "-O1 -rdynamic -fno-builtin", ALLOCATOR)
    with running(own) as pid, contextlib.ExitStack() as opened:
        code = code_of(pid)
        maps = _open_maps(opened)
        files = find_allocators(ProcFs(), pid, small_objects=False)
        exchange_link(own, victim[0])
        try:
            with probes(files, pid, maps, INTERVAL):
                assert code_of(pid) != code
        except (OSError, KernelRefusedError) as refused:
            if getattr(refused, "errno", 0) in (errno.EPERM, errno.ENOSYS):
                pytest.skip(f"no BPF: {refused}")
            raise


def test_a_program_of_a_container_is_pinned(tmp_path: Path, app: Path, victim: tuple[Path, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """The user, who is root in the container, exchanges the program; its path leads through /proc/PID/root."""
    path, pid = victim
    code = code_of(pid)
    root = tmp_path / "root"
    root.mkdir()
    (root / "victim").hardlink_to(path)
    shutil.copy2(app, root / "app")
    os.chown(root / "app", UID, GID)
    with running(root / "app") as app_pid, child(root=root, own_mounts=True) as container:
        app_code = code_of(app_pid)
        exchanged = after_planning(monkeypatch, temporary_probes, lambda: exchange_hard_link(root / "app", path))
        probes_inside = TemporaryProbes([f"uprobe:/proc/{container}/root/app:handle"])
        with exchanged, probes_inside as added, enabled(added.texts[0]):
            assert code_of(pid) == code
            assert code_of(app_pid) != app_code


def test_the_deleted_program_of_a_process_is_probed(app: Path, events: ProbeEvents) -> None:
    with running(app) as pid:
        code = code_of(pid)
        app.unlink()
        with TemporaryProbes([f"uprobe:/proc/{pid}/exe:handle"]) as added:
            assert [line for line in events.lines(is_kernel=False) if f" /proc/{pid}/exe:0x" in line]
            with open(f"/proc/{pid}/maps") as maps:
                line = next(line for line in maps if " r-xp " in line and "app (deleted)" in line)
            start = int(line.split("-")[0], 16)
            with enabled(added.texts[0]), open(f"/proc/{pid}/mem", "rb") as memory:
                memory.seek(start)
                assert memory.read(len(code)) != code


def test_a_program_in_memory_is_probed(app: Path, events: ProbeEvents) -> None:
    fd = os.memfd_create("app")
    os.write(fd, app.read_bytes())
    with TemporaryProbes([f"uprobe:/proc/{os.getpid()}/fd/{fd}:handle"]):
        assert [line for line in events.lines(is_kernel=False) if f" /proc/{os.getpid()}/fd/{fd}:0x" in line]
    os.close(fd)


@pytest.mark.parametrize("name", ["two words", "line\nfeed", "hash#", "no-break\xa0space"])
def test_names_that_would_be_several_words_are_refused(
    name: str, app: Path, events: ProbeEvents, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = app.rename(app.with_name(name))
    assert run(["probe", "-x", str(odd), "perfpy_hostile:handle=handle"]) != 0
    assert run(["latency", "-x", str(odd), "handle", "--", "true"]) != 0
    assert not [line for line in events.lines(is_kernel=False) if name[:5] in line]
    printed = capsys.readouterr().err
    assert "Traceback" not in printed
    assert printed.count("\n") == 2


def test_a_name_with_a_colon_is_a_path(app: Path, events: ProbeEvents) -> None:
    odd = app.rename(app.with_name("a:0x10"))
    assert run(["probe", "-q", "-x", str(odd), "perfpy_hostile:handle=handle"]) == 0
    assert [line for line in events.lines(is_kernel=False) if line.startswith(f"p:perfpy_hostile/handle {odd}:0x")]


def test_without_a_mount_namespace_only_safe_paths_are_given(
    app: Path, events: ProbeEvents, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class NoNamespaces:
        @staticmethod
        def unshare(_flags: int) -> int:
            ctypes.set_errno(errno.EPERM)
            return -1

    monkeypatch.setattr(pinned_files, "_libc", NoNamespaces)
    assert run(["probe", "-x", str(app), "perfpy_hostile:handle=handle"]) != 0
    printed = capsys.readouterr().err
    assert f"belongs to user {UID}" in printed
    assert "copy the program" in printed
    assert printed.count("\n") == 1
    assert not [line for line in events.lines(is_kernel=False) if f" {app}:" in line]
    system_library = next(line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "/libc.so" in line)
    assert run(["probe", "-q", "-x", system_library, "perfpy_hostile:malloc=malloc"]) == 0
    assert [line for line in events.lines(is_kernel=False) if line.startswith(f"p:perfpy_hostile/malloc {system_library}:0x")]


def test_nothing_of_the_private_root_remains(app: Path) -> None:
    before = Path("/proc/self/mountinfo").read_text()
    with TemporaryProbes([f"uprobe:{app}:handle"]):
        assert Path("/proc/self/mountinfo").read_text() == before
        assert os.path.realpath("/proc/self/root") == "/"
    assert Path(f"{Tracefs().root}/uprobe_events").exists()


# -- nothing is left ----------------------------------------------------------------------------------------------


def lines_of(events: ProbeEvents, pid: int) -> list[str]:
    return [line for line in events.lines(is_kernel=False) if f"_by{pid}/" in line]


#: perfpy, which waits between the last probe and the first counter, however busy the machine is
PREPARES = """
import runpy, sys, time
from perfpy.cli import temporary_probes
enter = temporary_probes.TemporaryProbes.__enter__
def wait(probes):
    enter(probes)
    time.sleep(60)
    return probes
temporary_probes.TemporaryProbes.__enter__ = wait
runpy.run_module("perfpy", run_name="__main__")
"""
PREPARING = (
    ("record", "-q", "-o", "x.data", "-e", "uprobe:{app}:handle", "-e", "uprobe:{app}:main", "--", "sleep", "9"),
    ("stat", "-e", "uprobe:{app}:handle", "--", "sleep", "9"),
    ("latency", "-x", "{app}", "-d", "9", "-p", str(os.getpid()), "handle"),
    ("trace", "-e", "uprobe:{app}:handle", "--", "sleep", "9"),
)
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1)


@pytest.mark.parametrize(
    ("words", "number"),
    [
        pytest.param(words, number, id=f"{words[0]}-{number.name}")
        for words in PREPARING
        for number in ENDING
        if words[0] != "trace" or number not in (signal.SIGQUIT, signal.SIGUSR1)  # it records from the beginning
    ],
)
def test_a_signal_leaves_no_probe(words: tuple[str, ...], number: signal.Signals, app: Path, events: ProbeEvents, tmp_path: Path) -> None:
    """The signal arrives as soon as the probe exists, and before the first counter."""
    handles_signals = words[0] == "trace"  # it prints what it has
    process = subprocess.Popen(
        [*(PERFPY if handles_signals else (sys.executable, "-c", PREPARES)), *(word.format(app=app) for word in words)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    await_true(lambda: bool(lines_of(events, process.pid)) or process.poll() is not None)
    process.send_signal(number)
    printed = process.communicate(timeout=50)[1]
    assert not lines_of(events, process.pid)
    assert process.returncode or handles_signals
    assert "Traceback" not in printed


def test_a_signal_while_counters_use_the_probe_leaves_none(app: Path, events: ProbeEvents, tmp_path: Path) -> None:
    """stat handles no SIGHUP, and the kernel removes no probe that is in use."""
    process = subprocess.Popen(
        [*PERFPY, "stat", "-e", f"uprobe:{app}:handle", "--", "sh", "-c", "touch begun; exec sleep 9"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        stderr=subprocess.PIPE,
    )
    await_true((tmp_path / "begun").exists)
    assert lines_of(events, process.pid)
    process.send_signal(signal.SIGHUP)
    assert process.wait(60) == -signal.SIGHUP
    await_true(lambda: not lines_of(events, process.pid))  # a child removes them
    assert process.stderr is not None
    process.stderr.close()


def test_probes_of_a_reused_pid_are_removed_and_those_of_an_owner_stay(app: Path, events: ProbeEvents, tmp_path: Path) -> None:
    """A live process with the number of the killed owner does not keep its probes."""
    other = subprocess.Popen(["sleep", "900"])
    owner = subprocess.Popen(
        [*PERFPY, "record", "-q", "-o", "x.data", "-e", f"uprobe:{app}:handle", "--", "sleep", "900"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
    )
    try:
        await_true(lambda: bool(lines_of(events, owner.pid)))
        fd = events.open()
        os.write(fd, f"p:probe_app_by{other.pid}/handle {app}:0x1000\n".encode())
        os.close(fd)
        assert lines_of(events, other.pid)
        group = os.open(f"{Tracefs().root}/events/probe_app_by{other.pid}", os.O_RDONLY)  # keeps its time: tracefs forgets unused ones
        os.utime(group, (0, time.time() - 3600))  # before the process began
        with TemporaryProbes([f"uprobe:{app}:handle"]):
            assert not lines_of(events, other.pid)
            assert lines_of(events, owner.pid)
            assert lines_of(events, os.getpid())
    finally:
        owner.terminate()
        owner.wait()
        other.kill()
        other.wait()
    os.close(group)
    await_true(lambda: not lines_of(events, owner.pid))  # a child removes them if a counter exists, and record does not handle SIGTERM yet
