"""Make the event table of one CPU from a vendor's event files (`list --update-events`).

The source is a folder or a URL that has one of

    mapfile.csv, and the files it names          as Intel's perfmon repository
    arch/ARCH/mapfile.csv, and folders           as the kernel's tools/perf/pmu-events (arch/ and ARCH/ are optional),
                                                 or the kernel's whole tree

In both layouts a row of mapfile.csv is `pattern of identities,version,path,kind,...`. The first matching row of the kernel's mapfile is
complete. Table format: perfpy.events.vendor.vendor_table. Raises UsageError if there is nothing to read, or nothing for the CPU.
"""

from __future__ import annotations

import csv
import errno
import os
import re
import time
from typing import TYPE_CHECKING, Final

from perfpy.errors import UsageError
from perfpy.events.vendor.event_files import entries_of, event_terms, merge_standard, unit_of
from perfpy.events.vendor.vendor_table import file_name, own_folder
from perfpy.untrusted.files import read_regular
from perfpy.untrusted.folders import own
from perfpy.untrusted.paths import below

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.events.vendor.event_files import EventEntry

_LARGEST: Final = 64 << 20  # bytes of one file
_SECONDS: Final = 60  # of one file
_ALL_SECONDS: Final = 600
_PIECE: Final = 1 << 20
#: repeated groups, which can take the matcher for ever; no maker's pattern has them
_REPEATED_GROUP: Final = re.compile(r"\)[*+{]")
_PATTERN_MOST: Final = 256
_REPETITIONS_MOST: Final = 4
_ADDRESS: Final = ("http://", "https://")
_ARCHITECTURES: Final = ("x86", "arm64", "powerpc", "riscv", "s390")
_NAME: Final = re.compile(r"[\w.:+-]+", re.ASCII)
_CORE_ROLES: Final = {"Core": "cpu_core", "Atom": "cpu_atom"}  # of hybrid CPUs
_METRICS: Final = "_perf.json"
_STEPPING: Final = "(-[0-9A-F]+)?"
_CLASSES: Final = {"[:xdigit:]": "0-9A-Fa-f", "[:digit:]": "0-9", "[:alpha:]": "A-Za-z", "[:alnum:]": "0-9A-Za-z"}
_IN_KERNEL: Final = "tools/perf/pmu-events/arch"
_ORIGIN: Final = "Intel publishes its files in a public repository: git clone https://github.com/intel/perfmon"


def update(identity: str, source: str) -> tuple[str, int, int]:
    """Write the user's table of a CPU. Return its path, and the numbers of events and metrics."""
    if not identity:
        raise UsageError("--update-events: this CPU has no identity")
    rows = sorted(set(_rows(identity, source)))
    if not rows:
        raise UsageError(f"--update-events: {source} has nothing for {identity}")
    text = "".join(row + "\n" for row in rows)
    name = file_name(identity)
    with own(own_folder()) as folder:
        fd = folder.create(f".{name}.{os.getpid()}")
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(f".{name}.{os.getpid()}", name, src_dir_fd=folder.fd, dst_dir_fd=folder.fd)
    return os.path.join(own_folder(), name), text.count("\nE\t") + text.startswith("E"), text.count("\nM\t") + text.startswith("M")


def _rows(identity: str, source: str) -> Iterator[str]:
    files = _Address(source) if source.startswith(_ADDRESS) else _Folder(source)
    top, mapped = _mapfile(files)
    standard = _standard(top, files)
    for path, pmu in _named_files(identity, mapped, top):
        for name in _files_of(path, files):
            for topic, fields in _entries(name, files):
                row = _row(topic, merge_standard(fields, standard), pmu)
                if row is not None:
                    yield row


def _entries(name: str, files: _Folder) -> list[EventEntry]:
    try:
        return entries_of(files.read(name), name)
    except OSError as error:
        if name.endswith(_METRICS):  # some CPUs have none in this notation
            return []
        raise UsageError(f"--update-events: cannot read {name} in {files.path}: {error}") from None


def _standard(top: str, files: _Folder) -> dict[str, dict[str, str]]:
    """Return the entries that an architecture's CPUs share, from the files beside its mapfile."""
    entries = [entry for name in files.beside(top) for _, entry in _entries(name, files)]
    return {entry["EventName"].lower(): entry for entry in entries if "EventName" in entry}


class _Folder:
    """Files below a folder."""

    def __init__(self, path: str) -> None:
        self.path = path

    def read(self, name: str) -> bytes:
        """Return a file's bytes. Raises OSError."""
        return read_regular(below(self.path, name), limit=_LARGEST)

    def beside(self, top: str) -> list[str]:
        """Return the event files directly in a folder."""
        folder = below(self.path, top) if top else self.path
        return sorted(os.path.join(top, name) for name in os.listdir(folder) if name.endswith(".json"))

    def inside(self, name: str) -> list[str]:
        """Return the event files of a folder and its subfolders."""
        top = below(self.path, name)
        paths = [os.path.join(folder, file) for folder, _, files in os.walk(top) for file in files if file.endswith(".json")]
        return sorted(os.path.relpath(path, self.path) for path in paths)


class _Address(_Folder):
    """Files below a URL, whose folders cannot be listed."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._end = time.monotonic() + _ALL_SECONDS

    def read(self, name: str) -> bytes:
        """Return a file's bytes. Raises OSError, also if the server is slow."""
        from perfpy.untrusted.download import get  # most tables come from a folder

        end = min(time.monotonic() + _SECONDS, self._end)
        try:
            answer = get(f"{self.path.rstrip('/')}/{name.lstrip('/')}", end - time.monotonic())
        except ValueError as error:  # no URL, with this name
            raise OSError(str(error)) from None
        if answer is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        data = bytearray()  # a list of pieces takes 30 times the memory if the server sends single bytes
        with answer:
            while len(data) <= _LARGEST and (piece := answer.read(_PIECE, end - time.monotonic())):
                data += piece
        size = len(data)
        if size > _LARGEST or size < answer.size:
            raise OSError(f"{name} is larger than {_LARGEST} bytes" if size > _LARGEST else f"{name} ends after {size} bytes")
        return bytes(data)

    def beside(self, top: str) -> list[str]:
        """Return no files: a URL cannot be listed."""
        return []

    def inside(self, name: str) -> list[str]:
        """Refuse to list a folder. Raises UsageError."""
        raise UsageError(f"--update-events: {self.path} refers to folders, which a URL cannot list; use a local copy of the files")


def _named_files(identity: str, mapped: list[list[str]], top: str) -> Iterator[tuple[str, str]]:
    """Yield (path, PMU of events without one) of the files or folders for a CPU."""
    for row in mapped:
        pattern, _, path, *rest = [field.strip() for field in row]
        if _matches(pattern, identity):
            pmu = _CORE_ROLES.get(rest[-1], "") if len(rest) > 1 else ""
            yield os.path.normpath(f"{top}/{path}").lstrip("/"), pmu
            if not path.endswith(".json"):
                return


def _files_of(path: str, files: _Folder) -> list[str]:
    if not path.endswith(".json"):
        return files.inside(path)
    folder, name = os.path.split(path)
    if os.path.basename(folder) == "metrics":  # perf's notation of these metrics is in a folder beside them
        return [f"{folder}/perf/{name.removesuffix('.json')}{_METRICS}"]
    return [path]


def _mapfile(files: _Folder) -> tuple[str, list[list[str]]]:
    """Return the mapfile's folder, and its rows that name files."""
    architecture = _architecture()
    for top in ("", f"arch/{architecture}", architecture, f"{_IN_KERNEL}/{architecture}"):
        try:
            text = files.read(os.path.join(top, "mapfile.csv"))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:  # the other places of a silent server would take a minute each
            raise UsageError(f"--update-events: cannot read mapfile.csv in {files.path}: {error.strerror or error}") from None
        rows = csv.reader(line for line in text.decode("utf-8", "replace").splitlines() if line and not line.startswith("#"))
        return top, [row for row in rows if len(row) >= 4 and row[0] != "Family-model"]
    raise UsageError(f"--update-events: no mapfile.csv in {files.path}, nor for {architecture} in arch/; {_ORIGIN}")


def _architecture() -> str:
    machine = os.uname().machine
    folder_of = {"x86_64": "x86", "i686": "x86", "aarch64": "arm64", "ppc64le": "powerpc", "ppc64": "powerpc", "s390x": "s390"}
    return folder_of.get(machine, next((name for name in _ARCHITECTURES if machine.startswith(name)), machine))


def _matches(pattern: str, identity: str) -> bool:
    for name, members in _CLASSES.items():
        pattern = pattern.replace(name, members)
    repetitions = sum(map(pattern.count, "*+{"))
    if len(pattern) > _PATTERN_MOST or repetitions > _REPETITIONS_MOST or _REPEATED_GROUP.search(pattern):
        return False
    try:
        return re.fullmatch(pattern + _STEPPING, identity, re.IGNORECASE) is not None
    except re.error:
        return False


def _row(topic: str, fields: dict[str, str], pmu: str) -> str | None:
    """Return the row of an event or a metric; None for other entries, and for text that would not stay on one row."""
    if _NAME.fullmatch(fields.get("EventName", "")):
        deprecated = "d" if fields.get("Deprecated", "0") != "0" else ""
        row = (
            "E",
            fields["EventName"].lower(),
            unit_of(fields) or pmu,
            event_terms(fields),
            fields.get("ScaleUnit", ""),
            topic,
            deprecated,
        )
    elif _NAME.fullmatch(fields.get("MetricName", "")) and fields.get("MetricExpr"):
        groups, limits = fields.get("MetricGroup", ""), fields.get("MetricThreshold", "")
        row = ("M", fields["MetricName"], fields["MetricExpr"], fields.get("ScaleUnit", ""), groups, limits, "")
    else:
        return None
    return "\t".join(row).rstrip("\t") if all(map(str.isprintable, row)) else None
