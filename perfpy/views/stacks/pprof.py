"""Stacks as a pprof profile: a gzipped protocol buffer (profile.proto, message perftools.profiles.Profile).

With sites, a location is an address in a mapping, with the lines of all functions inlined there. Otherwise it is a function.
"""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from perfpy.abi.columns import distinct
from perfpy.views.readable import readable, source_file
from perfpy.views.stacks.protobuf import message, number, packed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from perfpy.analysis.stacks.code_sites import FileMapping, Source
    from perfpy.analysis.stacks.stacks import Function, Stacks

_UNNAMED = "[unknown]"


class Metadata(NamedTuple):
    """The profile's metadata.

    Attributes:
        start: ns since 1970
        duration: ns
        period: ns between two samples, if known
        host: the name of the recorded machine
        cgroups: the paths of cgroups by their ids
    """

    start: int = 0
    duration: int = 0
    period: int = 0
    comments: Sequence[str] = ()
    host: str = ""
    cgroups: Mapping[int, str] = {}


def pprof(parts: Sequence[Stacks], metadata: Metadata = Metadata()) -> bytes:  # noqa: B008 - a value
    """Return the profile: two values for each event (samples, and the sum of periods).

    Labels of samples are texts: the command (comm), and if known the process (pid), the thread (tid), the cgroup and the machine (host).
    """
    return gzip.compress(_Writer(parts).profile(metadata), 6, mtime=0)


class _Location(NamedTuple):
    """A location: its mapping (0: none), its address, and its functions with lines, innermost first."""

    mapping: int
    address: int
    lines: tuple[tuple[int, int], ...]


class _Writer:
    """A builder of the Profile message; field numbers are those of profile.proto."""

    def __init__(self, parts: Sequence[Stacks]) -> None:
        self._parts = parts
        self._strings: dict[str, int] = {"": 0}
        self._functions: dict[tuple[Function, str, int], int] = {}
        self._locations: dict[_Location, int] = {}
        self._mappings: dict[FileMapping | str, int] = {}
        for mapping in _in_order(parts):
            self._mappings[mapping] = len(self._mappings) + 1

    def profile(self, metadata: Metadata) -> bytes:
        kinds = self._kinds()
        out = [message(1, self._value_type(*kind)) for kind in kinds]
        out += [message(2, sample) for sample in self._samples(metadata)]
        locations = [self._location(i, site) for site, i in self._locations.items()]
        functions = [self._function(i, *function) for function, i in self._functions.items()]
        out += [message(3, self._mapping(i, mapping)) for mapping, i in self._mappings.items()]
        out += [message(4, location) for location in locations]
        out += [message(5, function) for function in functions]
        first = self._string(kinds[1][0]) if kinds else 0
        period_type = self._value_type(*kinds[1]) if kinds else b""
        comments = [self._string(comment) for comment in metadata.comments]
        out += [message(6, text.encode("utf-8", "replace")) for text in self._strings]
        out += [number(9, metadata.start), number(10, metadata.duration), message(11, period_type), number(12, metadata.period or 1)]
        return b"".join([*out, packed(13, comments), number(14, first)])

    def _kinds(self) -> list[tuple[str, str]]:
        kinds = []
        for part in self._parts:
            kinds += [(f"{part.event} samples", "count"), (part.event, "nanoseconds" if part.in_nanoseconds else "count")]
        return kinds

    def _string(self, text: str) -> int:
        return self._strings.setdefault(text, len(self._strings))

    def _value_type(self, kind: str, unit: str) -> bytes:
        return number(1, self._string(kind)) + number(2, self._string(unit))

    def _samples(self, metadata: Metadata) -> Iterator[bytes]:
        of_host = self._label("host", metadata.host) if metadata.host else b""
        for position, part in enumerate(self._parts):
            locations = _Locations(self, part)
            chains = {chain: packed(1, locations.of_chain(chain)) for chain in distinct(part.chain).tolist()}
            comms = [self._label("comm", comm) + of_host for comm in part.comms]
            rows = zip(
                part.chain.tolist(),
                part.comm.tolist(),
                part.count.tolist(),
                part.weight.tolist(),
                self._tasks(part, metadata.cgroups),
                strict=True,
            )
            for chain, comm, count, weight, task in rows:
                values = [0] * (2 * len(self._parts))
                values[2 * position : 2 * position + 2] = count, weight
                yield chains[chain] + packed(2, values) + comms[comm] + task

    def _label(self, name: str, value: str) -> bytes:
        return message(3, number(1, self._string(name)) + number(2, self._string(value)))

    def _tasks(self, part: Stacks, cgroups: Mapping[int, str]) -> Iterable[bytes]:
        """Return the labels of each row's process, thread and cgroup."""
        if not part.tasks:
            return [b""] * len(part.chain)
        cgroup = [0] * len(part.chain) if part.cgroup is None else part.cgroup.tolist()
        labels: dict[tuple[int, int, int], bytes] = {}
        tasks = list(zip(*(column.tolist() for column in part.tasks), cgroup, strict=True))
        for task in tasks:
            if task not in labels:
                pid, tid, number = task
                of_cgroup = self._label("cgroup", cgroups[number]) if number in cgroups else b""
                labels[task] = self._label("pid", str(pid)) + self._label("tid", str(tid)) + of_cgroup
        return [labels[task] for task in tasks]

    def location(self, site: _Location) -> int:
        """Return the id of a location."""
        return self._locations.setdefault(site, len(self._locations) + 1)

    def function(self, function: Function, file: str, begins: int) -> int:
        """Return the id of a function in a file."""
        return self._functions.setdefault((function, file, begins), len(self._functions) + 1)

    def mapping(self, mapping: FileMapping | str) -> int:
        """Return the id of a mapping, or of a file with an unknown mapping."""
        return self._mappings.setdefault(mapping, len(self._mappings) + 1) if mapping else 0

    def _location(self, ident: int, site: _Location) -> bytes:
        lines = b"".join(message(4, number(1, function) + number(2, line)) for function, line in site.lines)
        return number(1, ident) + number(2, site.mapping) + number(3, site.address) + lines

    def _function(self, ident: int, function: Function, file: str, begins: int) -> bytes:
        name, raw = self._string(readable(function.name) or _UNNAMED), self._string(function.name or _UNNAMED)
        return number(1, ident) + number(2, name) + number(3, raw) + number(4, self._string(file)) + number(5, begins)

    def _mapping(self, ident: int, mapping: FileMapping | str) -> bytes:
        if isinstance(mapping, str):
            return number(1, ident) + number(5, self._string(mapping)) + number(7, 1)
        where = number(2, mapping.start) + number(3, mapping.end) + number(4, mapping.offset)
        names = number(5, self._string(mapping.path)) + number(6, self._string(mapping.build_id))
        symbols, lines = int(mapping.has_symbols), int(mapping.has_lines)
        return number(1, ident) + where + names + b"".join(number(7 + i, flag) for i, flag in enumerate((symbols, lines, lines, lines)))


class _Locations:
    """The locations of one event's callchains."""

    def __init__(self, writer: _Writer, part: Stacks) -> None:
        self._writer = writer
        self._part = part
        self._ids: dict[tuple[int, ...], int] = {}

    def of_chain(self, chain: int) -> list[int]:
        """Return the location ids of a callchain, innermost first."""
        functions, sites = self._part.chain_of(chain).tolist(), self._part.sites
        if sites is None:
            return [self._of_function(function) for function in functions]
        numbers, inlined = self._part.sites_of(chain).tolist(), sites.inlined
        locations, begun = [], 0
        for position, site in enumerate(numbers):
            if not inlined[site] or position == len(numbers) - 1:
                whole = slice(begun, position + 1)
                locations.append(self._of_sites(functions[whole], numbers[whole]))
                begun = position + 1
        return locations

    def _of_function(self, number: int) -> int:
        function = self._part.functions[number]
        writer, file = self._writer, source_file(function.name) or function.dso
        return writer.location(_Location(writer.mapping(function.dso), 0, ((writer.function(function, file, 0), 0),)))

    def _of_sites(self, functions: list[int], numbers: list[int]) -> int:
        location = self._ids.get(tuple(numbers))
        if location is None:
            sites, last = self._part.sites, numbers[-1]
            assert sites is not None
            lines = tuple(self._line(function, sites.source_of(number)) for function, number in zip(functions, numbers, strict=True))
            mapping = int(sites.mapping[last])
            site = _Location(self._writer.mapping(sites.mappings[mapping]) if mapping >= 0 else 0, int(sites.address[last]), lines)
            location = self._ids[tuple(numbers)] = self._writer.location(site)
        return location

    def _line(self, number: int, source: Source | None) -> tuple[int, int]:
        function, sites = self._part.functions[number], self._part.sites
        begins = sites.begins[number] if sites and number < len(sites.begins) else None
        file = source.path if source else begins.path if begins else source_file(function.name)
        line = begins.line if begins and begins.path == file else 0
        return self._writer.function(function, file, line), source.line if source else 0


def _in_order(parts: Sequence[Stacks]) -> list[FileMapping]:
    """Return the mappings, the program's first, as pprof expects: the one with the most samples whose name begins with its command."""
    weights: dict[FileMapping, float] = {}
    for part in parts:
        sites, comms = part.sites, tuple(comm for comm in part.comms if comm)
        if sites is None:
            continue
        none = np.zeros(0, np.int32)  # the last chain may be empty, with no row
        innermost = none if part.site is None or not len(part.site) else part.site[np.minimum(part.offsets[:-1], len(part.site) - 1)]
        of_chain = sites.mapping[innermost]
        mapping = of_chain[part.chain]
        hits = np.bincount(mapping[mapping >= 0], part.count[mapping >= 0], len(sites.mappings)).tolist()
        for one, weight in zip(sites.mappings, hits, strict=True):
            is_command = one.path.startswith("/") and one.path.rpartition("/")[2].startswith(comms)  # the command python3 runs python3.11
            weights[one] = weights.get(one, 0.0) + weight + is_command * 1e18
    return sorted(weights, key=lambda one: -weights[one])
