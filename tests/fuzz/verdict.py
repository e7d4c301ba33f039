"""How a run ended, and what its failure is called.

Input: wait status, time, memory, stderr, what was told of it.
Output: an Outcome; failures of one cause have the same name.
"""

from __future__ import annotations

import errno
import re
import signal
from dataclasses import dataclass

from tests.fuzz.limits import MEGABYTE, Limits

#: a wrong command line, a failure, an end by the reader, fine; 1: `evlist` and the like with nothing to show; 91: some of many left out
EXPECTED = (
    *(0, 1, 91, 129, 141, 255),
    *(-number & 0xFF for number in (errno.ENOENT, errno.ENODEV, errno.EINVAL, errno.ENOTDIR, errno.EOPNOTSUPP)),  # of probe, as perf's
    *(-number & 0xFF for number in (errno.E2BIG, errno.EEXIST, errno.ERANGE, errno.EACCES, errno.ENOEXEC, errno.ENODATA)),
)
FAULT = 70  # the API raised what it never should

_FRAME = re.compile(r'File "[^"]*?/(perfpy/[^"]+)", line \d+,? in (\S+)')
_LAST = re.compile(r"^(?:[\w.]+\.)?(\w+(?:Error|Exception|Warning|Exit|Interrupt|Iteration|Fault|Refused|\w+))(?::|$)", re.MULTILINE)
_INTERNAL = re.compile(r"internal error: (\w+)")
_WARNING = re.compile(r"/(perfpy/\S+?\.py):\d+: (\w*Warning): (.{0,50})")


@dataclass(frozen=True)
class Outcome:
    """failure: "" when the run was as it should be, else what kind; where: the innermost function of perfpy; opened: past the header."""

    failure: str
    where: str
    seconds: float
    memory: int
    status: int
    opened: bool
    stderr: str

    @property
    def signature(self) -> str:
        """The same for failures of one cause."""
        return f"{self.failure} in {self.where}" if self.where else self.failure


def judge(status: int, seconds: float, cpu: float, memory: int, stderr: str, told: list[str], limits: Limits, *, killed: bool) -> Outcome:
    """The outcome of a run. status: as of os.wait4; told: lines that the child sent."""
    opened = "opened" in told
    broken = next((line for line in told if line != "opened"), "")
    code = -(status & 0x7F) if status & 0x7F else status >> 8
    failure = _failure(code, cpu, memory, stderr, broken, limits, killed=killed)
    return Outcome(failure, _where(stderr) if failure else "", max(cpu, seconds if killed else cpu), memory, code, opened, stderr)


def _failure(code: int, cpu: float, memory: int, stderr: str, broken: str, limits: Limits, *, killed: bool) -> str:
    if killed or code == -signal.SIGXCPU or cpu > limits.cpu_seconds:
        return "time"
    if memory > limits.memory:
        return f"memory: more than {limits.memory // MEGABYTE} MB"
    if "out of memory" in stderr or "MemoryError" in stderr:
        return "out of memory"
    if match := _INTERNAL.search(stderr):
        return f"internal error: {match[1]}"
    if "Traceback (most recent call last)" in stderr:
        return f"traceback: {(_LAST.findall(stderr) or ['?'])[-1]}"
    if match := _WARNING.search(stderr):
        return f"warning in {match[1]}: {match[2]}: {match[3]}"
    if code < 0:
        return f"crash: {signal.Signals(-code).name}"
    if broken:
        return re.sub(r"[0-9a-f]{8,}|\d+", "N", broken)
    return "" if code in EXPECTED else f"exit status {code}"


def _where(stderr: str) -> str:
    """The innermost function of perfpy in the last traceback (in faulthandler's, the first line is the innermost)."""
    faults = "most recent call first" in stderr
    frames = _FRAME.findall(stderr)
    if not frames:
        return ""
    path, function = frames[0] if faults else frames[-1]
    return f"{path}:{function}"
