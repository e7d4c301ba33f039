"""List the markers (SDT) of programs in perf's build-id cache: sdt_PROVIDER:NAME.

Layout: the cache's .build-id/XX/YYYY links, and beside each ELF file a text `probes` with one line `%provider:name=...` for each marker.
"""

from __future__ import annotations

import os

from perfpy.untrusted.files import read_regular

_LARGEST = 64 << 20  # bytes of one program's list


class Marker:
    """One marker of one file."""

    __slots__ = ("build_id", "name", "path")

    def __init__(self, name: str, path: str, build_id: str) -> None:
        self.name = name
        self.path = path
        self.build_id = build_id


def markers(cache: str) -> list[Marker]:
    """Return all markers of the cache, by name, then by build-id."""
    base = os.path.join(cache, ".build-id")
    markers_found = []
    for head in _names(base):
        for tail in _names(f"{base}/{head}"):
            link = f"{base}/{head}/{tail}"
            names = _read_markers(f"{link}/probes")
            if names:
                path = os.path.dirname(os.path.realpath(link)).removeprefix(os.path.realpath(cache))
                markers_found += [Marker(name, path, head + tail) for name in names]
    return sorted(markers_found, key=lambda marker: (marker.name, marker.build_id))


def marker_names(cache: str) -> list[str]:
    """Return the names for -e, as `name@file(build-id)` if several files have the marker."""
    all_markers = markers(cache)
    count: dict[str, int] = {}
    for marker in all_markers:
        count[marker.name] = count.get(marker.name, 0) + 1
    return [m.name if count[m.name] == 1 else f"{m.name}@{m.path}({m.build_id[:12]})" for m in all_markers]


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _read_markers(path: str) -> list[str]:
    try:
        if not os.stat(path).st_size:
            return []  # most files have no markers, and a list visits hundreds
        text = read_regular(path, limit=_LARGEST).decode("utf-8", "replace")
        return [line[1:].partition("=")[0] for line in text.split("\n") if line.startswith("%sdt_")]
    except OSError:
        return []
