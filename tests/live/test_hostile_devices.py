"""Names of another user's files that are names of root's devices, FIFOs and kernel files as well. Root opens none of them."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.builders.opened_files import watch_opens
from tests.builders.other_users import GID, UID, child, needs_root

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: machine -> a function that counts down from 99 million, and returns
LOOPS = {"x86_64": bytes.fromhex("b900e1f505 ffc9 75fc c3"), "aarch64": bytes.fromhex("a0bea052 00040071 e1ffff54 c0035fd6")}
CHECKOUT = Path(__file__).resolve().parents[2]
PAGE = mmap.PAGESIZE

pytestmark = [
    pytest.mark.live,
    needs_root,
    pytest.mark.skipif(os.uname().machine not in LOOPS, reason=f"no code for {os.uname().machine}"),
]


def perfpy(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command as root, in a folder of root's."""
    return subprocess.run(
        [sys.executable, "-m", "perfpy", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT), "HOME": str(folder)},
        capture_output=True,
        text=True,
        errors="surrogateescape",
        timeout=120,
        check=False,
    )


def opens(folder: Path, name: str, *words: str) -> bool:
    """Whether a command opens a file. Another recorder of the machine may open it as well, but not each time."""
    for _ in range(3):
        with watch_opens(name) as opened:
            assert "Traceback" not in perfpy(folder, *words).stderr
        if not opened:
            return False
    return True


def put_program(root: Path, name: str) -> None:
    """Put a program of the other user below a root, whose second page is a loop."""
    path = root / name.lstrip("/")
    path.parent.mkdir(parents=True, exist_ok=True)
    content = bytearray(Path(sys.executable).resolve().read_bytes()[: 64 * PAGE])
    content[64:PAGE] = bytes(PAGE - 64)  # without program headers: a kernel that records build-ids finds none, and records the inode
    loop = LOOPS[os.uname().machine]
    content[PAGE : PAGE + len(loop)] = loop
    path.write_bytes(content)
    path.chmod(0o755)
    os.chown(path, UID, GID)


def run_program(name: str) -> Callable[[], None]:
    """Return a function that maps a program as code, and runs it, again and again.

    A recorder that has begun gets the mappings from the kernel, with device and inode.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p

    def work() -> None:
        fd = os.open(name, os.O_RDONLY)
        protection = mmap.PROT_READ | mmap.PROT_EXEC
        while True:
            address = libc.mmap(None, ctypes.c_size_t(2 * PAGE), protection, mmap.MAP_PRIVATE, fd, ctypes.c_long(0))
            ctypes.CFUNCTYPE(None)(address + PAGE)()
            libc.munmap(ctypes.c_void_p(address), ctypes.c_size_t(2 * PAGE))

    return work


def fifo(tmp_path: Path, stack: contextlib.ExitStack) -> str:
    os.mkfifo(tmp_path / "fifo", 0o600)
    return str(tmp_path / "fifo")


def fifo_below_a_bind_mount(tmp_path: Path, stack: contextlib.ExitStack) -> str:
    for name in ("from", "to"):
        (tmp_path / name).mkdir()
    os.mkfifo(tmp_path / "from" / "fifo", 0o600)
    if subprocess.run(["mount", "--bind", tmp_path / "from", tmp_path / "to"], check=False, capture_output=True).returncode:
        pytest.skip("no bind mounts here")
    stack.callback(lambda: subprocess.run(["umount", "-l", tmp_path / "to"], check=True))
    return str(tmp_path / "to" / "fifo")


def terminal(tmp_path: Path, stack: contextlib.ExitStack) -> str:
    ends = os.openpty()
    for end in ends:
        stack.callback(os.close, end)
    return os.ttyname(ends[1])


def unix_socket(tmp_path: Path, stack: contextlib.ExitStack) -> str:
    server = stack.enter_context(socket.socket(socket.AF_UNIX))
    os.chdir(tmp_path)
    server.bind("socket")
    return str(tmp_path / "socket")


def kernel_messages(tmp_path: Path, stack: contextlib.ExitStack) -> str:
    """Who reads them removes them."""
    if not os.access("/proc/kmsg", os.R_OK):
        pytest.skip("no /proc/kmsg")
    return "/proc/kmsg"


def kernel_trace(tmp_path: Path, stack: contextlib.ExitStack) -> str:
    path = "/sys/kernel/tracing/trace_pipe"
    if not os.path.exists(path):
        pytest.skip(f"no {path}")
    return path


def link_to_a_fifo(tmp_path: Path, stack: contextlib.ExitStack) -> str:
    os.mkfifo(tmp_path / "fifo", 0o600)
    (tmp_path / "link").symlink_to("fifo")
    return str(tmp_path / "link")


KINDS = [fifo, fifo_below_a_bind_mount, link_to_a_fifo, terminal, unix_socket, kernel_messages, kernel_trace]


@pytest.fixture
def stack() -> Iterator[contextlib.ExitStack]:
    folder = os.getcwd()
    with contextlib.ExitStack() as opened:
        yield opened
    os.chdir(folder)


@pytest.mark.parametrize("kind", KINDS)
def test_root_opens_no_device_with_the_name_of_a_mapped_file(
    kind: Callable[[Path, contextlib.ExitStack], str], theirs: Path, tmp_path: Path, stack: contextlib.ExitStack
):
    """The program of a user runs below a root of its own, where its name is one that the host has as well."""
    name = kind(tmp_path, stack)
    put_program(theirs, name)
    words = ["-o", "perf.data", "-e", "cpu-clock:u", "-F", "499"]
    with child(theirs, work=run_program(name)) as pid:
        assert not opens(tmp_path, name, "record", *words, "-p", str(pid), "--", "sleep", "1")
        assert not opens(tmp_path, name, "report", "--stdio", "--sort", "dso")
        assert os.path.basename(name) in perfpy(tmp_path, "report", "--stdio", "--sort", "dso").stdout
    for command, *options in (
        ["report", "--stdio", "--sort", "dso,sym,srcline"],
        ["script", "-F", "ip,sym,dso,srcline,insn"],
        ["annotate", "--stdio"],
        ["archive"],
    ):
        assert not opens(tmp_path, name, command, *options), command


@pytest.mark.parametrize("kind", [fifo, terminal, kernel_messages])
def test_root_opens_no_device_with_the_name_of_a_perf_map(
    kind: Callable[[Path, contextlib.ExitStack], str], theirs: Path, tmp_path: Path, stack: contextlib.ExitStack
):
    """A perf map that is a link to it, in a /tmp where the user can make links."""
    name = kind(tmp_path, stack)
    put_program(theirs, "/program")
    for folder in ("tmp", "proc", os.path.dirname(name).lstrip("/")):
        (theirs / folder).mkdir(parents=True, exist_ok=True)
    with watch_opens(name) as opened, child(theirs, work=run_program("/program")) as pid:
        link = Path(f"/tmp/perf-{pid}.map")
        link.symlink_to(name)
        stack.callback(link.unlink)
        words = ["-o", "perf.data", "-e", "cpu-clock:u", "-F", "499", "-p", str(pid), "--", "sleep", "0.3"]
        assert perfpy(tmp_path, "record", *words).returncode == 0
        for command in (["report", "--stdio"], ["report", "--stdio", "-f"], ["script"]):
            assert "Traceback" not in perfpy(tmp_path, *command).stderr
    assert opened == []


@pytest.mark.parametrize("kind", [terminal, kernel_messages])
def test_root_opens_no_device_with_the_usual_name_of_a_recording(
    kind: Callable[[Path, contextlib.ExitStack], str], theirs: Path, tmp_path: Path, stack: contextlib.ExitStack
):
    """A user's link perf.data, in the folder in which root runs a command. (A FIFO of this name is one that root names.)"""
    name = kind(tmp_path, stack)
    (theirs / "perf.data").symlink_to(name)
    with watch_opens(name) as opened:
        for command in ("report", "script", "evlist", "diff", "archive"):
            result = perfpy(theirs, command)
            assert result.returncode == 255, (command, result.stdout, result.stderr)
            assert len(result.stderr.splitlines()) == 1
    assert opened == []


def test_the_file_that_was_checked_is_opened_while_its_owner_exchanges_it(theirs: Path, tmp_path: Path):
    """A user exchanges a program for a FIFO and back, as fast as possible. The FIFO is never opened."""
    program = theirs / "program"
    put_program(theirs, "/program")
    os.mkfifo(theirs / "fifo")
    stop = threading.Event()
    exchange = ctypes.CDLL(None, use_errno=True).renameat2
    here, exchanged = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    first, second = os.fsencode(program), os.fsencode(theirs / "fifo")
    if exchange(here, first, here, second, exchanged) or exchange(here, first, here, second, exchanged):
        pytest.skip("the file system does not exchange files")

    def exchange_on() -> None:
        while not stop.is_set():
            exchange(here, first, here, second, exchanged)

    code = (
        "import sys; from perfpy.untrusted.files import regular_fd; import os, time; end = time.monotonic() + 1.5; counts = [0, 0]\n"
        "while time.monotonic() < end:\n"
        "    try: os.close(regular_fd(sys.argv[1])); counts[0] += 1\n"
        "    except OSError: counts[1] += 1\n"
        "print(*counts)"
    )
    with watch_opens(theirs / "fifo") as opened:
        thread = threading.Thread(target=exchange_on)
        thread.start()
        try:
            answer = subprocess.run([sys.executable, "-c", code, str(program)], cwd=CHECKOUT, capture_output=True, text=True, check=True)
        finally:
            stop.set()
            thread.join()
    accepted, refused = map(int, answer.stdout.split())
    assert accepted > 0
    assert refused > 0, "the race had two sides"
    assert opened == []


@pytest.mark.skipif(not shutil.which("gcc") or not shutil.which("objcopy"), reason="needs gcc and binutils")
@pytest.mark.parametrize("named_by", ["lines", "debug link", "debug link beside it", "alternative debug link", "program"])
def test_root_opens_no_device_that_debug_information_names(named_by: str, theirs: Path, tmp_path: Path):
    """Source files and debug files of a user's program are names as well. objdump opens all that it is told of."""
    source, device, program = theirs / "source.c", theirs / "device", theirs / "program"
    source.write_text("void spin(void) { for (volatile int i = 0; i < 1000000; i++); }\nint main(void) { for (;;) spin(); }\n")
    subprocess.run(["gcc", "-O1", "-g", "-o", program, source], check=True, timeout=60)
    link = {"debug link": "../../.." + str(device), "debug link beside it": device.name}.get(named_by, "")
    if link:
        section = theirs / "section"
        section.write_bytes(link.encode() + bytes(4 - len(link) % 4) + bytes(4))
        subprocess.run(["strip", "-g", program], check=True, timeout=60)
        subprocess.run(["objcopy", f"--add-section=.gnu_debuglink={section}", program], check=True, timeout=60)
    elif named_by == "alternative debug link":
        section = theirs / "section"
        section.write_bytes(os.fsencode(device) + b"\0" + bytes(20))
        subprocess.run(["objcopy", f"--add-section=.gnu_debugaltlink={section}", program], check=True, timeout=60)
    words = ["-o", "perf.data", "-e", "cpu-clock:u", "-F", "499", "--", "timeout", "0.3", str(program)]
    assert perfpy(tmp_path, "record", *words).returncode == 124
    (tmp_path / "perf.data").rename(theirs / "recording")
    if named_by in ("lines", "program"):
        device = source if named_by == "lines" else program
        device.unlink()
    os.mkfifo(device)
    began = time.monotonic()
    for command, *options in (
        ["annotate", "--stdio"],
        ["annotate", "--stdio", "-l"],
        ["annotate", "--by-line"],
        ["script", "-F", "+srcline,+srccode"],
        ["report", "--html", "page.html"],
    ):
        assert not opens(theirs, str(device), command, "-i", "recording", *options), command
    assert time.monotonic() - began < 90, "nothing waits for the writer of a FIFO"
