"""checks.py [SECONDS]: run all checks of this checkout, and print what failed and how long each part took.

`.ci/run` calls it when it has installed the tools, which took SECONDS. A new check is a new row of CHECKS. They run in three steps:

1. The tests, one command after the other. Beside them, at the lowest priority, what needs CPU time and measures nothing.
2. The tests that measure the whole machine, when nothing else runs.
3. The few tests that failed, once more: live tests measure beside one another, on one kernel, and sometimes disturb each other.

A check that fails does not end the run. The exit status is that of the first check that failed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

CHECKOUT: Final = Path(__file__).resolve().parents[1]


class Check(NamedTuple):
    """One check.

    Attributes:
        name: its name in the output.
        step: "tests" run one after the other, "beside" together with them, "alone" when both have ended.
        command: a command for bash, in the checkout. SCRATCH is a temporary folder, SEED another number in each run.
    """

    name: str
    step: Literal["tests", "beside", "alone"]
    command: str


def readme_command() -> str:
    """Return the README's own test command, so that it is known to work."""
    section = re.search(r"<!-- tests -->(.*?)<!-- end -->", (CHECKOUT / "README.md").read_text(), re.DOTALL)
    assert section is not None
    return "\n".join(re.findall(r"^    (.+)$", section[1], re.MULTILINE))


# A failure prints the seed, which gives the same damaged files again. --wall: a program that waits for a CPU does not hang.
FUZZING: Final = '.venv/bin/python -m tests.fuzz --runs 300 --seed "$SEED" --wall 400'
CHECKS: Final = (
    Check("tests, as the README runs them", "tests", f"{readme_command()} --durations=30"),
    Check("the other cases of slow tests", "tests", ".venv/bin/pytest -q -n auto --dist worksteal --cases=rest --durations=30"),
    Check("types", "beside", ".venv/bin/mypy --cache-dir=/dev/null"),
    Check("lint", "beside", ".venv/bin/ruff check ."),
    Check("site", "beside", '.venv/bin/python man/site/build.py "$SCRATCH/site"'),
    Check(
        "wheels",
        "beside",
        'PYTHON=.venv/bin/python; export PYTHON="$PWD/$PYTHON"; .ci/build-wheel "$SCRATCH/dist"\n'
        'python3 -m zipfile -l "$SCRATCH"/dist/perfpy-*.whl | grep -c share/',
    ),
    Check("fuzzing, from 0", "beside", f"{FUZZING} --start 0"),
    Check("fuzzing, from 300", "beside", f"{FUZZING} --start 300"),
    Check("tests that run alone", "alone", ".venv/bin/pytest -q -n 0 --cases=alone --durations=5"),
)

RETRY: Final = ".venv/bin/pytest -q -n 0 --cases=all --last-failed --last-failed-no-failures none"
#: the exit status of pytest if tests failed, and nothing worse
TESTS_FAILED: Final = 1
#: if more tests of one check fail, the cause is not that they disturb each other
MOST_RETRIES: Final = 5
#: packages that read what perfpy exports
NODE_PACKAGES: Final = "ajv pprof-format speedscope pyright @firefox-devtools/profiler-cli"
#: perf looks for a recorded process's files in the mount namespace of the process that has this number today, which has another /tmp. In a
#: PID namespace of its own it finds no such process, and stays in its own mount namespace.
PERF_WRAPPER: Final = """#!/bin/sh
case $1:$2 in
*:record) ;;
annotate:* | buildid-list:* | c2c:* | diff:* | inject:* | mem:* | report:* | script:*)
    exec unshare --pid --fork --kill-child --mount-proc {perf} "$@" ;;
esac
exec {perf} "$@"
"""

times: list[tuple[float, str]] = []
failures: list[tuple[int, str]] = []  # exit status, name
outputs: dict[str, str] = {}  # of failed checks beside the tests: shown once more at the end, where a reader of a long log looks


@contextmanager
def part(name: str) -> Iterator[None]:
    """Print a headline, and note the elapsed time."""
    print(f"\n== {name}", flush=True)
    began = time.monotonic()
    try:
        yield
    finally:
        times.append((time.monotonic() - began, name))


def start(command: str, environment: Mapping[str, str], prefix: Sequence[str] = (), output: Path | None = None) -> subprocess.Popen[bytes]:
    """Start a command of bash. With `output`, it runs in a process group of its own, without input, and writes into this file."""
    line = [*prefix, "bash", "-euo", "pipefail", "-c", command]
    if output is None:
        return subprocess.Popen(line, cwd=CHECKOUT, env=environment)
    with output.open("wb") as file:
        return subprocess.Popen(
            line, cwd=CHECKOUT, env=environment, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, process_group=0
        )


def install_packages(scratch: Path, environment: Mapping[str, str]) -> None:
    r"""Install the packages of the lock, by their hashes, and no others. Raises CalledProcessError if that fails.

    The lock is made by

        uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --upgrade \
            --extra dev pyproject.toml .ci/build.in .ci/site.in -o .ci/requirements.txt
    """

    def run(*commands: str) -> None:
        processes = [start(command, environment) for command in commands]
        for process in processes:
            if process.wait():
                raise subprocess.CalledProcessError(process.returncode, process.args)

    # pip uses one CPU: two of them install half of the packages each. The lock names all, so neither looks for others.
    packages = re.split(r"\n(?=\S)", (CHECKOUT / ".ci" / "requirements.txt").read_text())
    for number in range(2):
        (scratch / f"half-{number}.txt").write_text("\n".join(packages[number::2]) + "\n")
    pip = ".venv/bin/pip install -q --no-compile --no-deps --require-hashes --only-binary :all: -r"
    # pip would compile on one CPU, and also what no test imports. pytest compiles the tests, but what runs beside it would not wait.
    unused = "/(tests|sphinx|docutils|babel|mypy|mypyc|pip|setuptools)/"
    run(
        f'npm install --silent --no-audit --no-fund --prefix "$PERFPY_NODE_PACKAGES" {NODE_PACKAGES}',
        f"""
        python3 -m venv .venv
        {pip} "$SCRATCH/half-0.txt" & half=$!
        {pip} "$SCRATCH/half-1.txt"
        wait "$half"
        .venv/bin/python -m compileall -q -j 0 -x '{unused}' .venv/lib >/dev/null || true
        .venv/bin/python -m tests.builders.compiled_tests
        """,
    )


def separate(scratch: Path, environment: dict[str, str]) -> list[str]:
    """Give tests an empty home and an empty /tmp: none may pass because of what lies on this machine.

    Returns what precedes a command so that it has the new /tmp. Without the right to mount, TMPDIR names it.
    """
    for folder in ("tmp", "home", "bin"):
        (scratch / folder).mkdir()
    (scratch / "tmp").chmod(0o1777)
    for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        environment.pop(name, None)
    environment.update(HOME=str(scratch / "home"), TMPDIR=str(scratch / "tmp"))
    if subprocess.run(["unshare", "--mount", "--pid", "--fork", "--mount-proc", "true"], stderr=subprocess.DEVNULL, check=False).returncode:
        return []
    for name in ("perf", "perf7"):
        if path := shutil.which(name):
            wrapper = scratch / "bin" / name
            wrapper.write_text(PERF_WRAPPER.format(perf=path))
            wrapper.chmod(0o755)
    environment.update(TMPDIR="/tmp", PATH=f"{scratch / 'bin'}:{environment['PATH']}")
    return ["unshare", "--mount", "bash", "-euc", 'mount --bind "$0" /tmp; exec "$@"', str(scratch / "tmp")]


def failed_tests() -> set[str]:
    """Return the node ids of the tests that pytest saw fail, and not yet pass."""
    path = CHECKOUT / ".pytest_cache" / "v" / "cache" / "lastfailed"
    return set(json.loads(path.read_text())) if path.exists() else set()


def functions_of(tests: set[str]) -> list[str]:
    """Return the functions of these tests: if a fixture fails, all cases do, and count once."""
    return sorted({test.partition("[")[0] for test in tests})


def run_tests(check: Check, environment: Mapping[str, str], prefix: Sequence[str]) -> bool:
    """Run a check of tests. Returns whether some failed, but so few that they may have disturbed each other."""
    before = failed_tests()
    with part(check.name):
        print(check.command, flush=True)
        status = start(check.command, environment, prefix).wait()
    if status == 0:
        return False
    count = len(functions_of(failed_tests() - before))
    if status == TESTS_FAILED and 0 < count <= MOST_RETRIES:
        return True
    print(f"{check.name}: status {status}; {count} tests failed", flush=True)
    failures.append((status, check.name))
    return False


def run_checks(scratch: Path, environment: dict[str, str], beside: list[subprocess.Popen[bytes]]) -> None:
    """Run CHECKS. Adds the processes that it starts beside the tests to `beside`."""
    environment.update(SCRATCH=str(scratch), PERFPY_NODE_PACKAGES=str(scratch / "node"))
    (scratch / "node").mkdir()
    with part("packages"):
        install_packages(scratch, environment)
    # What builds perfpy is in the lock, too: pip needs neither the index nor an environment of its own ("0" switches it off).
    environment.update(PIP_NO_INDEX="1", PIP_NO_BUILD_ISOLATION="0", PERFPY_LIVE="1")
    environment["SEED"] = environment.get("GITHUB_RUN_ID") or str(int(time.time()))
    of_tests = dict(environment)
    prefix = separate(scratch, of_tests)
    shutil.rmtree(CHECKOUT / ".pytest_cache", ignore_errors=True)  # failures of an earlier run are none of this one

    background = [check for check in CHECKS if check.step == "beside"]
    environment["PYTHONPATH"] = str(CHECKOUT)  # perfpy is not installed yet
    beside += [start(check.command, environment, ["nice", "-n", "19"], scratch / f"{check.name}.txt") for check in background]
    some_failed = [run_tests(check, of_tests, prefix) for check in CHECKS if check.step == "tests"]
    with part("what ran beside the tests"):
        for process in beside:
            with suppress(ProcessLookupError, PermissionError):
                os.setpriority(os.PRIO_PGRP, process.pid, 0)
        for check, process in zip(background, beside, strict=True):
            status = process.wait()
            print(f"-- {check.name}{f': failed, status {status}' if status else ''}")
            output = (scratch / f"{check.name}.txt").read_text(errors="replace")
            print(output, flush=True)
            if status:
                failures.append((status, check.name))
                outputs[check.name] = output
    some_failed += [run_tests(check, of_tests, prefix) for check in CHECKS if check.step == "alone"]
    if any(some_failed):
        retried = functions_of(failed_tests())
        with part("the failed tests, once more and alone"):
            status = start(RETRY, of_tests, prefix).wait()
        if status:
            failures.append((status, "the failed tests, once more and alone"))
        passed = [name for name in retried if name not in functions_of(failed_tests())]
        print(f"\n== failed beside the others, passed alone: {len(passed)}", *passed, sep="\n", flush=True)


def main(seconds_of_tools: float) -> int:
    """Run the checks and print a summary. Returns the exit status."""
    times.append((seconds_of_tools, "tools"))
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    environment = dict(os.environ)
    # Tests start perfpy thousands of times: with this variable, each start compiles its modules again.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    beside: list[subprocess.Popen[bytes]] = []
    # Not in /tmp, which the tests find empty
    with tempfile.TemporaryDirectory(dir="/var/tmp", ignore_cleanup_errors=True) as scratch:
        try:
            run_checks(Path(scratch), environment, beside)
        except subprocess.CalledProcessError as error:
            failures.append((error.returncode, "packages"))
        finally:
            for process in beside:
                if process.poll() is None:
                    with suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
            print("\n== times")
            print(*(f"{seconds:5.0f} s  {name}" for seconds, name in times), sep="\n")
            print(f"{sum(seconds for seconds, _ in times):5.0f} s  in all", flush=True)
    for status, name in failures:
        print(f"failed: {name} (status {status})")
        print(outputs.get(name, ""), end="")
    return failures[0][0] if failures else 0


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else 0.0))
