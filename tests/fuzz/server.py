"""The fork server: one process imports everything, each run is a child of it.

Input: a Case. Output: an Outcome. The child has its own folder with
the case's files, limits, and nobody to ask; its stdout and stderr are files.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import os
import pkgutil
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from tests.fuzz import api
from tests.fuzz.limits import Limits, limit, watch
from tests.fuzz.targets import TARGETS
from tests.fuzz.verdict import FAULT, Outcome, judge

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fuzz.case import Case

_PIPE_ROOM = 1 << 20
_ALSO = (
    "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd",
    "pycxxfilt",
    "elftools.elf.elffile",
    "numpy.ma",
    "lzma",
    "zlib",
    "json",
    "sqlite3",
    "encodings.idna",
    "pyarrow.parquet",
    "pyarrow.compute",
    "pyarrow.dataset",
    "capstone",
)
_DROPPED = ("DEBUGINFOD", "PERF", "XDG", "COLUMNS")


def import_everything() -> None:
    """Every module of perfpy that can be imported here, so that children need not."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # a thread would not live on in the child
    import perfpy

    names = [module.name for module in pkgutil.walk_packages(perfpy.__path__, "perfpy.") if "__main__" not in module.name]
    for name in (*names, *_ALSO):
        try:
            importlib.import_module(name)
        except ImportError as error:
            if (error.name or "").startswith("perfpy"):
                raise  # the others are optional
    gc.freeze()


class Server:
    """Runs cases one after the other, below one folder that is removed at the end."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        import_everything()
        memory = "/dev/shm"
        self._folder = tempfile.mkdtemp(prefix="perfpy-fuzz-", dir=memory if os.access(memory, os.W_OK) else None)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def run(self, case: Case) -> Outcome:
        """Run a case; a failure that shows no traceback of its own is run again to get one."""
        outcome = self._run(case, self.limits)
        if outcome.failure and not outcome.where:
            small = Limits(self.limits.cpu_seconds, self.limits.wall_seconds, self.limits.memory // 3)
            again = self._run(case, small if "memory" in outcome.failure else self.limits, debug=True)
            return Outcome(outcome.failure, again.where, outcome.seconds, outcome.memory, outcome.status, outcome.opened, again.stderr)
        return outcome

    def _run(self, case: Case, limits: Limits, *, debug: bool = False) -> Outcome:
        folder = os.path.join(self._folder, "run")
        with _laid_out(folder, case):
            told_read, told_write = os.pipe()
            start = time.monotonic()
            child = os.fork()
            if not child:
                os.close(told_read)
                _be_the_run(case, folder, told_write, limits, debug=debug)
            os.close(told_write)
            killed = _wait(child, limits.wall_seconds)
            _, status, usage = os.wait4(child, 0)
            seconds = time.monotonic() - start
            lines = _read_all(told_read).splitlines()
            stderr = Path(folder, "stderr").read_bytes()[-200_000:].decode(errors="replace")
        cpu = usage.ru_utime + usage.ru_stime
        return judge(status, seconds, cpu, usage.ru_maxrss * 1024, stderr, [*dict.fromkeys(lines)], limits, killed=killed)


@contextlib.contextmanager
def _laid_out(folder: str, case: Case) -> Iterator[None]:
    os.makedirs(os.path.join(folder, "tmp"))
    os.makedirs(os.path.join(folder, "home"))
    os.mkfifo(os.path.join(folder, "fifo"))
    for path, data in case.files.items():
        whole = os.path.join(folder, path)
        os.makedirs(os.path.dirname(whole), exist_ok=True)
        Path(whole).write_bytes(data)
    Path(folder, "stderr").touch()
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _wait(child: int, seconds: float) -> bool:
    """Wait until the child ends; True when it had to be ended."""
    handle = os.pidfd_open(child)
    try:
        if select.select([handle], [], [], seconds)[0]:
            return False
        for number in (signal.SIGABRT, signal.SIGKILL):
            signal.pidfd_send_signal(handle, number)
            if select.select([handle], [], [], 2)[0]:
                break
        return True
    finally:
        os.close(handle)


def _read_all(fd: int) -> str:
    os.set_blocking(fd, False)
    with open(fd, "rb") as file:
        return (file.read() or b"").decode(errors="replace")


def _be_the_run(case: Case, folder: str, told: int, limits: Limits, *, debug: bool) -> None:
    """The child: never returns."""
    status = FAULT
    try:
        os.set_blocking(told, False)

        def tell(line: str) -> None:
            with contextlib.suppress(OSError):
                os.write(told, (line[:300].replace("\n", " ") + "\n").encode(errors="replace"))

        os.chdir(folder)
        _set_streams(case)
        _set_environment(case, folder, debug=debug)
        _tell_when_opened(tell)
        watch(folder, tell)
        limit(limits)
        sys.dont_write_bytecode = True  # a module that is imported late has no compiled file yet
        status = _call(case)
        sys.stdout.flush()
        atexit._run_exitfuncs()
    except BaseException:  # noqa: BLE001  # whatever it is, it is the run's, not the fuzzer's
        traceback.print_exc()
    finally:
        with contextlib.suppress(BaseException):
            sys.stderr.flush()
        os._exit(status & 0xFF)


def _set_streams(case: Case) -> None:
    if case.stdin:
        read, write = os.pipe()
        import fcntl

        fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, _PIPE_ROOM)
        os.set_blocking(write, False)
        os.write(write, case.files[case.stdin])
        os.close(write)
        os.dup2(read, 0)
    else:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for name, fd in (("stdout", 1), ("stderr", 2)):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND), fd)
    sys.stdin, sys.stdout, sys.stderr = open(0, closefd=False), open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115  # of the run


def _set_environment(case: Case, folder: str, *, debug: bool) -> None:
    for name in [name for name in os.environ if name.startswith(_DROPPED)]:
        del os.environ[name]
    own = {"HOME": os.path.join(folder, "home"), "TMPDIR": os.path.join(folder, "tmp"), "PERFPY_DEBUG": "1" if debug else "0"}
    os.environ.update(own | case.environ)
    tempfile.tempdir = None


def _tell_when_opened(tell) -> None:
    """Say when a recording got past its header: what is refused there tests little."""
    from perfpy.perfdata import reader

    make = reader.PerfData.__init__

    def made(self, *args: object, **options: object) -> None:
        make(self, *args, **options)  # type: ignore[arg-type]
        tell("opened")

    reader.PerfData.__init__ = made  # type: ignore[method-assign]
    from perfpy.symbols import dso

    dso.perf_map_paths = lambda pid: iter((f"perf-{pid}.map",))  # not those of this machine


def _call(case: Case) -> int:
    from perfpy import cli
    from perfpy.errors import PerfError

    target = TARGETS[case.target]
    if target.command:
        gc.set_threshold(50_000)
        sys.argv = ["perfpy", target.command, *case.args]
        return cli.run([target.command, *case.args])
    try:
        api.CALLS[case.target](*case.args)
    except PerfError as error:
        print(error, file=sys.stderr)
        return 255
    return 0
