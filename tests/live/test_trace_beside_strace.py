"""perfpy trace beside strace: the same calls in the same order, with the same results, files and strings."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.live

_DESCRIPTOR = re.compile(r"\w+\((?:\w+: )?([1-9]\d*)<([^>]*)>")


def calls(text: str, pattern: str) -> list[tuple[str, str]]:
    """Return (name, result) of each line; addresses and numbers of processes are left out."""
    found = []
    for line in text.splitlines():
        match = re.search(pattern, line)
        if match:
            result = re.split(r"[<( ]", re.sub(r"^-1 (E\w+).*", r"\1", match[2]))[0]
            found.append((match[1], "" if result.startswith("0x") or match[1] in ("set_tid_address", "rseq") else result))
    return found


def descriptors(text: str) -> list[tuple[str, str]]:
    """Return (number, file) of each call's first descriptor but 0, which perf does not print; links are resolved."""
    return [(match[1], os.path.realpath(match[2])) for line in text.splitlines() if (match := _DESCRIPTOR.search(line))]


def test_calls_results_files_and_strings_equal_those_of_strace(tmp_path: Path):
    if shutil.which("strace") is None:
        pytest.skip("no strace on this machine to compare with")
    if not os.access("/sys/kernel/tracing/events/raw_syscalls/sys_enter/id", os.R_OK):
        pytest.skip("the tracepoints of system calls are not readable here")
    outputs = [tmp_path / "strace", tmp_path / "trace"]
    tools: list[list[str | Path]] = [
        ["strace", "-f", "-y", "-o", outputs[0]],
        [sys.executable, "-m", "perfpy", "trace", "-o", outputs[1], "--"],
    ]
    for tool in tools:
        subprocess.run(
            [*tool, "cat", "/etc/passwd", "/nonesuch"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60, check=False
        )
    if not outputs[0].exists() or "exit_group" not in outputs[0].read_text(encoding="utf-8", errors="replace"):
        pytest.skip("this machine does not let strace trace")
    theirs, ours = (path.read_text(encoding="utf-8", errors="replace") for path in outputs)
    if 'openat(dfd: CWD, filename: "' not in ours:
        pytest.skip("the kernel refuses BPF programs that read file names")

    expected = calls(theirs, r"^\d+ +(\w+)\(.*\) += (\S+(?: E\w+)?)")
    assert calls(ours, r"/\d+ (?: \.\.\. \[continued\]: )?(\w+)\(.*\) += (\S+(?: E\w+)?)") == expected
    assert descriptors(ours) == [pair for pair in descriptors(theirs) if pair[0] != "0"]
    strings = [re.findall(r'(?:openat|access|readlink)\([^"]*"([^"]*)"', text) for text in (theirs, ours)]
    assert strings[0] == strings[1]
