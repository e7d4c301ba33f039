"""Stacks from folded lines, the shortest way to write a profile down; and what other programs make of exports."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from perfpy.analysis.stacks.stacks import Function, Stacks


def stacks(folded: str, event: str = "cycles") -> Stacks:
    """`comm;outer;inner weight` a line; a name that ends in _[k] is the kernel's."""
    rows = [line.rsplit(" ", 1) for line in folded.strip().splitlines()]
    paths = [path.strip().split(";") for path, _ in rows]
    functions = list(dict.fromkeys(name for path in paths for name in path[1:]))
    comms = list(dict.fromkeys(path[0] for path in paths))
    chains = [[functions.index(name) for name in reversed(path[1:])] for path in paths]
    return Stacks(
        event,
        [Function(name.removesuffix("_[k]"), "kernel" if name.endswith("_[k]") else "app", name.endswith("_[k]")) for name in functions],
        np.array([f for chain in chains for f in chain], np.int32),
        np.cumsum([0, *map(len, chains)]),
        comms,
        np.arange(len(rows), dtype=np.int32),
        np.array([comms.index(path[0]) for path in paths], np.int32),
        np.array([int(weight) for _, weight in rows], np.uint64),
        np.ones(len(rows), np.int64),
    )


def consumed(program: str, file: Path) -> object:
    """What a node program prints about an exported file, from JSON.

    Needs node and a folder of npm packages named by PERFPY_NODE_PACKAGES: `npm install --prefix FOLDER ajv pprof-format speedscope`.
    """
    packages, node = os.environ.get("PERFPY_NODE_PACKAGES"), shutil.which("node")
    if not packages or node is None:
        pytest.skip("no node with the packages ajv, pprof-format and speedscope: set PERFPY_NODE_PACKAGES")
    env = {**os.environ, "NODE_PATH": f"{packages}/node_modules"}
    run = subprocess.run([node, "-e", program, packages, str(file)], capture_output=True, text=True, timeout=60, check=False, env=env)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)
