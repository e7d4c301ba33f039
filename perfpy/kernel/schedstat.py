"""Read /proc/schedstat: the counters of the scheduler since the boot.

Layout, versions 15 to 17: Documentation/scheduler/sched-stats.rst.

    version 17
    timestamp 4295176789                       jiffies
    cpu0 <9 counters>
    domain0 [NAME] <CPU mask> <36 counters, 45 in version 17>      the name in version 17 only; domains follow their CPU
"""

from __future__ import annotations

import os
from errno import ENOENT
from typing import Final, NamedTuple

from perfpy.abi.perf_records.newer_records import SCHEDSTAT_DOMAIN_COUNTS, SCHEDSTAT_LONG_COUNTS
from perfpy.errors import PerfError

PATH: Final = "/proc/schedstat"
SWITCH: Final = "/proc/sys/kernel/sched_schedstats"
_LARGEST: Final = 256 << 20  # bytes
_CPU_COUNTS: Final = 9
_FIRST_NAMED: Final = 17  # the first version with names of domains
_WORD: Final = (1 << 32) - 1
_LONG: Final = (1 << 64) - 1


class DomainLine(NamedTuple):
    """A line "domainN"; name: "" before version 17; cpus: the numbers in the mask."""

    number: int
    name: str
    mask: str
    cpus: tuple[int, ...]
    counts: tuple[int, ...]


class CpuLine(NamedTuple):
    """A line "cpuN", with the domains below it."""

    cpu: int
    counts: tuple[int, ...]
    domains: tuple[DomainLine, ...]


class Snapshot(NamedTuple):
    """The content of the file; timestamp in jiffies."""

    version: int
    timestamp: int
    cpus: tuple[CpuLine, ...]


def read_schedstat(path: str = PATH) -> Snapshot:
    """Read the counters. Raises PerfError if the kernel has none, or has them in another format."""
    try:
        with open(path, encoding="ascii", errors="surrogateescape") as file:
            text = file.read(_LARGEST)
    except OSError as error:
        reason = "this kernel has no statistics of the scheduler" if error.errno == ENOENT else error.strerror or str(error)
        raise PerfError(f"{path}: {reason}; use a kernel with CONFIG_SCHEDSTATS, or record events (perfpy sched record)") from None
    try:
        return parse_schedstat(text)
    except ValueError as error:
        raise PerfError(f"{path}: {error}; record events instead (perfpy sched record)") from None


def parse_schedstat(text: str) -> Snapshot:
    """Parse the content of the file. Raises ValueError."""
    lines = [line.split() for line in text.splitlines()]
    heads = {words[0]: words[1] for words in lines[:2] if len(words) == 2}
    if "version" not in heads or "timestamp" not in heads:
        raise ValueError("no version or time in its first lines")
    version, timestamp = int(heads["version"]), int(heads["timestamp"])
    if version not in SCHEDSTAT_DOMAIN_COUNTS:
        first, last = min(SCHEDSTAT_DOMAIN_COUNTS), max(SCHEDSTAT_DOMAIN_COUNTS)
        raise ValueError(f"version {version} of its format is unknown; perfpy reads {first} to {last}")
    cpus: list[CpuLine] = []
    for words in lines[2:]:
        if not words:
            continue
        if words[0].startswith("cpu"):
            counts = tuple(int(word) & (_LONG if number >= SCHEDSTAT_LONG_COUNTS else _WORD) for number, word in enumerate(words[1:]))
            cpus.append(CpuLine(int(words[0].removeprefix("cpu")), _exactly(counts, _CPU_COUNTS, words[0]), ()))
        elif words[0].startswith("domain") and cpus:
            cpus[-1] = cpus[-1]._replace(domains=(*cpus[-1].domains, _domain(words, version)))
        else:
            raise ValueError(f"unexpected line {words[0]!r}")
    return Snapshot(version, timestamp, tuple(cpus))


def _domain(words: list[str], version: int) -> DomainLine:
    named = version >= _FIRST_NAMED
    name, rest = (words[1], words[2:]) if named and len(words) > 1 else ("", words[1:])
    if not rest:
        raise ValueError(f"line {words[0]!r} has no CPUs")
    mask = int(rest[0].replace(",", ""), 16)
    cpus = tuple(cpu for cpu in range(mask.bit_length()) if mask >> cpu & 1)
    counts = tuple(int(word) & _WORD for word in rest[1:])
    counts = _exactly(counts, SCHEDSTAT_DOMAIN_COUNTS[version], words[0])
    return DomainLine(int(words[0].removeprefix("domain")), name, rest[0], cpus, counts)


def _exactly(counts: tuple[int, ...], number: int, line: str) -> tuple[int, ...]:
    if len(counts) != number:
        raise ValueError(f"line {line!r} has {len(counts)} counters, not {number}")
    return counts


class EnabledStatistics:
    """Switches the kernel's statistics on while it is entered, if they are off and may be switched."""

    def __init__(self, path: str = SWITCH) -> None:
        self._path = path
        self._was_off = False

    def __enter__(self) -> EnabledStatistics:
        try:
            with open(self._path) as file:
                self._was_off = file.read(2).strip() == "0"
            if self._was_off:
                self._write("1")
        except OSError:  # not root: the counters of an earlier setting count
            self._was_off = False
        return self

    def __exit__(self, *_: object) -> None:
        if self._was_off:
            self._write("0")

    def _write(self, value: str) -> None:
        fd = os.open(self._path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, value.encode())
        finally:
            os.close(fd)
