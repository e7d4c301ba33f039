"""What other programs make of exports: programs in node, with the code of the viewers themselves."""

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

_DEADLINE = 60.0
PACKAGES = "ajv, pprof-format, speedscope, pyright and @firefox-devtools/profiler-cli"

#: a program in Node.js that checks an export by speedscope's own schema
SPEEDSCOPE = """
const fs = require("fs"), Ajv = require("ajv"), [packages, file] = process.argv.slice(1);
const schema = JSON.parse(fs.readFileSync(packages + "/node_modules/speedscope/dist/release/file-format-schema.json"));
delete schema.$schema;
const valid = new Ajv({ strict: false, validateFormats: false }).compile(schema);
console.log(JSON.stringify([valid(JSON.parse(fs.readFileSync(file))), valid.errors]));
"""


def consumed(program: str, file: Path) -> object:
    """What a node program prints about an exported file, from JSON.

    Needs node and a folder of npm packages named by PERFPY_NODE_PACKAGES:
    `npm install --prefix FOLDER ajv pprof-format speedscope pyright @firefox-devtools/profiler-cli`.
    """
    node, packages = node_and_packages()
    env = {**os.environ, "NODE_PATH": f"{packages}/node_modules"}
    run = subprocess.run([node, "-e", program, packages, str(file)], capture_output=True, text=True, timeout=60, check=False, env=env)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def node_and_packages() -> tuple[str, str]:
    """Where node is, and the folder with packages; the test is skipped where they are not."""
    packages, node = os.environ.get("PERFPY_NODE_PACKAGES"), shutil.which("node")
    if not packages or node is None:
        pytest.skip(f"no node with the packages {PACKAGES}: set PERFPY_NODE_PACKAGES")
    return node, packages


class FirefoxProfiler:
    """The Firefox Profiler with a profile loaded, in its form for command lines."""

    def __init__(self, command: list[str], env: dict[str, str]) -> None:
        self._command = command
        self._env = env

    def asked(self, *words: str) -> Any:
        """What it says, as JSON."""
        process = subprocess.run([*self._command, *words, "--json"], capture_output=True, text=True, timeout=60, check=False, env=self._env)
        assert process.returncode == 0, process.stderr
        return json.loads(process.stdout)

    def is_ready(self) -> bool:
        """Whether it has loaded the profile."""
        process = subprocess.run([*self._command, "status"], capture_output=True, timeout=60, check=False, env=self._env)
        return process.returncode == 0


@contextmanager
def firefox_profiler(profile: Path) -> Iterator[FirefoxProfiler]:
    """The viewer with a profile."""
    node, packages = node_and_packages()
    script = f"{packages}/node_modules/@firefox-devtools/profiler-cli/dist/profiler-cli.js"
    folder = tempfile.mkdtemp(prefix="viewer")  # for a socket, whose path has to be short
    env = {**os.environ, "PROFILER_CLI_SESSION_DIR": folder}
    viewer = subprocess.Popen(
        [node, script, "--daemon", str(profile), "--session", "one"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env
    )
    try:
        profiler, deadline = FirefoxProfiler([node, script], env), time.monotonic() + _DEADLINE
        while not profiler.is_ready():
            assert viewer.poll() is None, "the viewer ended"
            assert time.monotonic() < deadline, "the viewer did not begin"
        yield profiler
    finally:
        viewer.kill()
        viewer.wait()
        shutil.rmtree(folder)
