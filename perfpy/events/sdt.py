"""Markers (SDT) of programs that perf's build-id cache has looked at: sdt_PROVIDER:NAME.

What enters: the cache's folder (~/.debug). What leaves: names; where several
files have the same marker, each with its file. Layout: the cache's
.build-id/XX/YYYY links, and beside each ELF file a text `probes` whose lines
`%provider:name=...` are the markers.
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
    """All markers of the cache, by name, then by build-id."""
    base = os.path.join(cache, ".build-id")
    found = []
    for head in _names(base):
        for tail in _names(f"{base}/{head}"):
            link = f"{base}/{head}/{tail}"
            names = _marked(f"{link}/probes")
            if names:
                path = os.path.dirname(os.path.realpath(link)).removeprefix(os.path.realpath(cache))
                found += [Marker(name, path, head + tail) for name in names]
    return sorted(found, key=lambda marker: (marker.name, marker.build_id))


def marker_names(cache: str) -> list[str]:
    """The names for -e; `name@file(build-id)` where the name alone would mean several."""
    found = markers(cache)
    count: dict[str, int] = {}
    for marker in found:
        count[marker.name] = count.get(marker.name, 0) + 1
    return [m.name if count[m.name] == 1 else f"{m.name}@{m.path}({m.build_id[:12]})" for m in found]


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _marked(path: str) -> list[str]:
    try:
        if not os.stat(path).st_size:
            return []  # most files have no markers, and a list looks at hundreds
        text = read_regular(path, limit=_LARGEST).decode("utf-8", "replace")
        return [line[1:].partition("=")[0] for line in text.split("\n") if line.startswith("%sdt_")]
    except OSError:
        return []
