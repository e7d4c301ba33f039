"""What the tests need of the machine, and what happens where it is not there.

A test that needs perf_event_open is marked `live`, one that compares with the
real perf `versus_perf`, one that measures whole CPUs `system_wide`, one that
measures user space and kernel `kernel_too`. Where the machine lacks it, the test is skipped and the summary says why. With
PERFPY_LIVE=1 (or CI set) such a skip is a failure, so that a broken runner
cannot pass (but for recordings from outside of the checkout). A test marked `particular` depends on more (a PMU, a setting) and
may be skipped everywhere.

Tests with these markers, or `slow`, take seconds a case. A run of the whole suite has one case of each, and no test that is marked
`thorough` or `alone`; --cases=rest runs the others, --cases=alone (with -n 0) those that measure the whole machine, --cases=all everything.
A run that names files or tests has all their cases.
"""

from __future__ import annotations

import functools
import gc
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

from tests.builders.case_choice import CHOICES, chosen, may_have_cases
from tests.builders.compiled_tests import compile_all

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

CHECKOUT = Path(__file__).resolve().parents[1]
OLDEST_PERF = (6, 12)
NEEDS = ("live", "kernel_too", "system_wide", "versus_perf")
NO_CORPUS = "no corpus of recordings"

# A busy machine makes examples slow, which says nothing about the code.
hypothesis.settings.register_profile("any machine", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("any machine")


@pytest.fixture(scope="session", autouse=True)
def _default_signals() -> Generator[None, None, None]:
    """Undo what a shell does to background commands, and nohup: tests send these signals to themselves and to programs they start."""
    defaults: dict[signal.Signals, Any] = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}
    ignored = [number for number in defaults if signal.getsignal(number) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, defaults[number])
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


@pytest.fixture(scope="session")
def corpus() -> Path:
    """Return the folder of recordings made elsewhere: PERFPY_CORPUS, or ../shared/corpus beside the checkout."""
    folder_name = os.environ.get("PERFPY_CORPUS")
    folder = Path(folder_name) if folder_name else CHECKOUT.parent / "shared" / "corpus"
    if not (folder / "INDEX.tsv").exists():
        pytest.skip(f"{NO_CORPUS} in {folder}: set PERFPY_CORPUS")
    return folder


@pytest.fixture(scope="session")
def perf(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The path of a real perf, 6.12 or newer; it knows the names in the vdso.

    Unlike perfpy, perf names them only when the vdso is in its build-id cache, where the recordings that hit it put it.
    """
    reason = _no_perf()
    if reason:
        pytest.skip(reason)
    path = shutil.which("perf") or ""
    probe_path = str(tmp_path_factory.mktemp("vdso") / "perf.data")
    every_file = [path, "record", "-q", "--buildid-all", "-e", "task-clock", "-o", probe_path, "true"]
    subprocess.run(every_file, check=False, capture_output=True, timeout=60)
    return path


@functools.cache
def _no_perf() -> str:
    """Return why there is no perf to compare with, or ""."""
    path = shutil.which("perf")
    if path is None:
        return "no perf in PATH (Debian: linux-perf)"
    answer = subprocess.run([path, "--version"], capture_output=True, text=True, check=False, timeout=60).stdout
    match = re.search(r"(\d+)\.(\d+)", answer)
    if match is None or (int(match[1]), int(match[2])) < OLDEST_PERF:
        return f"{path} is {answer.strip() or 'not a perf'}; its text is compared from 6.12 on"
    return ""


@functools.cache
def _no_perf_events(cpu: int = -1, *, kernel: bool = False) -> str:
    """Return why this machine permits no measurement, or "". cpu: measure this whole CPU; kernel: measure the kernel, too."""
    if not sys.platform.startswith("linux"):
        return f"perf_event_open is Linux's; this is {sys.platform}"
    from perfpy.abi.attr import EventAttr
    from perfpy.abi.flags import PerfType, SoftwareId
    from perfpy.errors import KernelRefusedError
    from perfpy.kernel.syscalls import perf_event_open

    attr = EventAttr()
    attr.type, attr.config, attr.disabled, attr.exclude_kernel = PerfType.SOFTWARE, SoftwareId.TASK_CLOCK, 1, int(not kernel)
    try:
        os.close(perf_event_open(attr, pid=0 if cpu < 0 else -1, cpu=cpu, group_fd=-1, flags=0))
    except KernelRefusedError as error:
        return str(error)
    return ""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare --cases."""
    parser.addoption("--cases", choices=CHOICES, help="which cases of slow tests run: one of each (some), the others (rest), or all")


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return how many processes `-n auto` starts: two more than CPUs, four if most tests are live ones, which wait half of the time."""
    cpu_count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cpu_count + (4 if config.option.cases == "rest" else 2)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Choose the cases, unless the command line does; xdist's workers receive the choice."""
    if getattr(config.option, "dist", "no") == "load":
        config.option.dist = "worksteal"  # slow tests stand side by side: the last worker would run on alone
    if getattr(config.option, "tx", None) and not sys.dont_write_bytecode:
        compile_all()  # once, and not in each worker
    if config.option.cases is None:
        is_whole_suite = (
            config.args_source is pytest.Config.ArgsSource.TESTPATHS and not config.option.keyword and not config.option.markexpr
        )
        config.option.cases = "some" if is_whole_suite else "all"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Ignore files that have no case that --cases chooses."""
    is_test = collection_path.name.startswith("test_") and collection_path.suffix == ".py"
    return True if is_test and not may_have_cases(collection_path.read_text(encoding="utf-8"), config.option.cases) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the cases that --cases does not choose."""
    kept, left = chosen(items, config.option.cases, lambda item: item.nodeid, lambda item: {marker.name for marker in item.iter_markers()})
    if config.option.cases == "some":
        _check_files({item.path for item in left})
    if left:
        items[:] = kept
        config.hook.pytest_deselected(items=left)


def _check_files(paths: set[Path]) -> None:
    """Raise UsageError if the other choices would ignore one of these files, all of which have cases for them."""
    for path in paths:
        text = path.read_text(encoding="utf-8")
        if not may_have_cases(text, "rest") and not may_have_cases(text, "alone"):
            raise pytest.UsageError(f"{path}: the markers of slow tests must be in the file itself")


def pytest_collection_finish() -> None:
    """Exclude the collected tests from the garbage collector's walks: they stay to the end."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print how to run the deselected cases."""
    if config.option.cases == "some":
        terminalreporter.write_line("one case of each slow test ran, and no thorough test; --cases=rest runs the others")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip tests whose requirements this machine lacks."""
    reasons: dict[str, Callable[[], str]] = {
        "live": _no_perf_events,
        "kernel_too": lambda: _no_perf_events(kernel=True),
        "system_wide": lambda: _no_perf_events(0),
        "versus_perf": _no_perf,
    }
    for marker, reason in reasons.items():
        if item.get_closest_marker(marker) and reason():
            pytest.skip(reason())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skip for a missing requirement into a failure if nothing may be missing."""
    report = yield
    needed = any(item.get_closest_marker(name) for name in NEEDS) and not item.get_closest_marker("particular")
    if report.skipped and needed and _nothing_may_be_missing() and not hasattr(report, "wasxfail"):
        reason = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
        if NO_CORPUS not in reason:  # it is not part of the checkout
            report.outcome = "failed"
            report.longrepr = f"{reason} (a failure, because PERFPY_LIVE or CI is set)"
    return report


def _nothing_may_be_missing() -> bool:
    return any(os.environ.get(name, "").lower() in ("1", "true", "yes") for name in ("PERFPY_LIVE", "CI"))
