"""Stacks as a pprof profile: a gzipped protocol buffer (profile.proto, message perftools.profiles.Profile).

With sites, a location is an address in a mapping, with the lines of all functions inlined there. Otherwise it is a function.
"""

from __future__ import annotations

import gzip
import struct
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.abi.columns import distinct
from perfpy.abi.perfpy_encodings import PYTHON_MARK
from perfpy.analysis.sample_view import combine_columns
from perfpy.analysis.verdict.categories import KERNEL
from perfpy.symbols.interning import IdTable
from perfpy.views.readable import readable, source_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from perfpy.analysis.code_sites import FileMapping, Source
    from perfpy.analysis.stacks import Function, Stacks, TimedSamples


_PPROF_UNNAMED = "[unknown]"


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
        name, raw = self._string(readable(function.name) or _PPROF_UNNAMED), self._string(function.name or _PPROF_UNNAMED)
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


# Stacks as OpenTelemetry profiles: a message ProfilesData, which is an ExportProfilesServiceRequest, too.
#
# Field numbers are those of opentelemetry/proto/profiles/v1development/profiles.proto, version 1.9 and later. Each event is a Profile. A
# sample is a stack of a thread, with the time and the weight of each of its occurrences. Tables begin with an empty entry: index 0 is
# none.


_OTLP_UNNAMED: Final = "[unknown]"
#: indexes of the tables in ProfilesDictionary
_MAPPINGS, _LOCATIONS, _FUNCTIONS, _STRINGS, _ATTRIBUTES, _STACKS = 1, 2, 3, 5, 6, 7


class Origin(NamedTuple):
    """The origin of a profile.

    Attributes:
        started: time of the first sample, ns since 1970.
        first: time of the first sample by the recording's clock, ns.
        duration: ns.
        resource: attributes of the resource by OpenTelemetry's names, for example host.name.
        version: of perfpy.
    """

    started: int = 0
    first: int = 0
    duration: int = 0
    resource: Mapping[str, str] = {}
    version: str = ""


def otlp(parts: Sequence[Stacks], origin: Origin) -> bytes:
    """Return the message. Raises ValueError if samples have no times."""
    return _Profiles(parts, origin).content()


class _DictionaryTable:
    """The entries of a table of the dictionary; equal ones are one."""

    def __init__(self, field: int) -> None:
        self._field = field
        self._entries: dict[bytes, int] = {b"": 0}

    def index(self, entry: bytes) -> int:
        return self._entries.setdefault(entry, len(self._entries))

    def content(self) -> bytes:
        return b"".join(message(self._field, entry) for entry in self._entries)


class _Profiles:
    """A builder of the message."""

    def __init__(self, parts: Sequence[Stacks], origin: Origin) -> None:
        self._parts, self._origin = parts, origin
        self._mappings, self._locations, self._functions = (
            _DictionaryTable(_MAPPINGS),
            _DictionaryTable(_LOCATIONS),
            _DictionaryTable(_FUNCTIONS),
        )
        self._strings, self._attributes, self._stacks = _DictionaryTable(_STRINGS), _DictionaryTable(_ATTRIBUTES), _DictionaryTable(_STACKS)

    def content(self) -> bytes:
        profiles = b"".join(message(2, self._profile(part)) for part in self._parts)
        scope = message(1, text(1, "perfpy") + text(2, self._origin.version)) + profiles
        resource = b"".join(message(1, text(1, key) + message(2, text(1, value))) for key, value in self._origin.resource.items() if value)
        tables = (self._mappings, self._locations, self._functions, self._strings, self._attributes, self._stacks)
        return message(1, message(1, resource) + message(2, scope)) + message(2, b"".join(table.content() for table in tables))

    def _string(self, value: str) -> int:
        return self._strings.index(value.encode("utf-8", "replace"))

    def _value_type(self, kind: str, unit: str) -> bytes:
        return number(1, self._string(kind)) + number(2, self._string(unit))

    def _profile(self, part: Stacks) -> bytes:
        if part.timed is None:
            raise ValueError("OpenTelemetry profiles need the samples' times")
        kind = self._value_type(part.event, "nanoseconds" if part.in_nanoseconds else "count")
        samples = b"".join(message(2, sample) for sample in self._samples(part, part.timed))
        return message(1, kind) + samples + fixed(3, self._origin.started) + number(4, self._origin.duration) + message(5, kind)

    def _samples(self, part: Stacks, timed: TimedSamples) -> Iterator[bytes]:
        """Yield a sample for each thread and stack."""
        times = timed.time.astype(np.int64) + (self._origin.started - self._origin.first)
        keys = np.stack([timed.chain, timed.comm, timed.pid, timed.tid]).astype(np.int64)
        which, first = IdTable().ids_and_new(combine_columns(list(keys)))
        order = np.argsort(which, kind="stable")
        ends = np.cumsum(np.bincount(which, minlength=len(first)))
        sorted_times, weights = times[order].astype("<u8"), timed.weight[order]
        begin = 0
        for row, end in zip(first.tolist(), ends.tolist(), strict=True):
            chain, comm, pid, tid = keys[:, row].tolist()
            yield (
                number(1, self._stack(part, chain))
                + packed(2, self._thread(part.comms[comm], pid, tid))
                + packed(4, weights[begin:end].tolist())
                + message(5, sorted_times[begin:end].tobytes())
            )
            begin = end

    def _thread(self, comm: str, pid: int, tid: int) -> list[int]:
        """Return the attributes of a thread."""
        numbers = {"process.pid": pid, "thread.id": tid}
        attributes = [self._attribute(key, number(3, value & (1 << 64) - 1)) for key, value in numbers.items()]
        return [*attributes, self._attribute("thread.name", text(1, comm))]

    def _attribute(self, key: str, value: bytes) -> int:
        return self._attributes.index(number(1, self._string(key)) + message(2, value))

    def _stack(self, part: Stacks, chain: int) -> int:
        functions = part.chain_of(chain).tolist()
        sites = [-1] * len(functions) if part.sites is None else part.sites_of(chain).tolist()
        return self._stacks.index(packed(1, [self._location(part, pair) for pair in zip(functions, sites, strict=True)]))

    def _location(self, part: Stacks, frame: tuple[int, int]) -> int:
        """Return the index of a frame: its file, address and line if known."""
        number_of_function, site = frame
        function, sites = part.functions[number_of_function], part.sites
        source = sites.source_of(site) if sites is not None and site >= 0 else None
        file = source.path if source else source_file(function.name)
        line = number(1, self._function(readable(function.name) or _OTLP_UNNAMED, function.name, file)) + number(
            2, source.line if source else 0
        )
        is_kernel = function.kernel or (number_of_function < len(part.categories) and part.categories[number_of_function] == KERNEL)
        kind = self._attribute("profile.frame.type", text(1, "kernel" if is_kernel else _frame_type(function.name)))
        address = int(sites.address[site]) if sites is not None and site >= 0 else 0
        mapping = self._mappings.index(number(4, self._string(function.dso))) if function.dso else 0
        return self._locations.index(number(1, mapping) + number(2, address) + message(3, line) + packed(4, [kind]))

    def _function(self, name: str, recorded: str, file: str) -> int:
        return self._functions.index(number(1, self._string(name)) + number(2, self._string(recorded)) + number(3, self._string(file)))


def _frame_type(name: str) -> str:
    """Return the kind of a user-space frame, as OpenTelemetry's semantic conventions name it."""
    if name.startswith(PYTHON_MARK):
        return "cpython"
    return "v8js" if name.startswith(("JS:", "LazyCompile:")) else "native"


# Samples as a Perfetto trace: packets of perf samples with interned callstacks, and the names of processes and threads.
#
# Field numbers are those of protos/perfetto/trace/perfetto_trace.proto (TracePacket, PerfSample, InternedData, ProcessTree). Each event
# is a
# sequence of packets of its own: its first packet has all its callstacks. Times are those of the recording.


_PERFETTO_UNNAMED: Final = "[unknown]"
_CLEARED, _NEEDS_STATE = 1, 2  # TracePacket.SequenceFlags: the first packet of a sequence, and the later packets that refer to it
_KERNEL, _USER = 1, 2  # Profiling.CpuMode
_UINT32: Final = (1 << 32) - 1
#: fields of InternedData
_BUILD_IDS, _PATHS, _SOURCE_PATHS, _FUNCTION_NAMES, _PERFETTO_MAPPINGS, _FRAMES, _CALLSTACKS = 16, 17, 18, 5, 19, 6, 7


def perfetto(parts: Sequence[Stacks]) -> bytes:
    """Return the trace. Raises ValueError if samples have no times."""
    packets = [_process_tree(parts)]
    for sequence, part in enumerate(parts, 1):
        if part.timed is None:
            raise ValueError("a Perfetto trace needs the samples' times")
        callstacks = _Callstacks(part, np.unique(part.timed.chain).tolist())
        timebase = message(1, text(10, part.event))
        first = number(13, _CLEARED) + number(87, 1) + message(59, message(12, timebase)) + message(12, callstacks.interned())
        packets.append(number(10, sequence) + first)
        packets += (number(10, sequence) + number(13, _NEEDS_STATE) + sample for sample in _samples(part, part.timed))
    return b"".join(message(1, packet) for packet in packets)


def _process_tree(parts: Sequence[Stacks]) -> bytes:
    """Return a packet with the processes and threads, each with its last name."""
    names: dict[tuple[int, int], str] = {}
    for part in parts:
        if part.timed is not None:
            columns = (part.timed.pid.tolist(), part.timed.tid.tolist(), part.timed.comm.tolist())
            tasks = dict.fromkeys(zip(*columns, strict=True))
            names.update({(pid, tid): part.comms[comm] for pid, tid, comm in tasks if pid >= 0 and tid >= 0})
    processes = {pid: names.get((pid, pid), name) for (pid, _), name in names.items()}
    tree = [message(1, number(1, pid) + text(3, name) + number(9, 1)) for pid, name in processes.items()]
    tree += [message(2, number(1, tid) + number(3, pid) + text(2, name)) for (pid, tid), name in names.items()]
    return message(2, b"".join(tree))


def _samples(part: Stacks, timed: TimedSamples) -> Iterator[bytes]:
    """Yield the fields of the packet of each sample. The counter of an event grows on each CPU by the weights of its samples."""
    lengths, innermost = np.diff(part.offsets), part.frames[np.minimum(part.offsets[:-1], max(len(part.frames) - 1, 0))]
    in_kernel = np.array([function.kernel for function in part.functions] or [False], np.bool_)
    modes = np.where((lengths > 0) & in_kernel[innermost], _KERNEL, _USER)[timed.chain] if len(lengths) else timed.chain
    columns = (timed.time, timed.cpu, timed.pid, timed.tid, timed.chain, timed.weight, modes)
    counts: dict[int, int] = {}
    for time, cpu, pid, tid, chain, weight, mode in zip(*(column.tolist() for column in columns), strict=True):
        counts[cpu] = count = counts.get(cpu, 0) + weight
        where = (number(1, cpu) if cpu >= 0 else b"") + number(2, pid & _UINT32) + number(3, tid & _UINT32)
        yield number(8, time) + message(66, where + number(4, chain + 1) + number(5, mode) + number(6, count & (1 << 63) - 1))


class _InternedTexts:
    """Texts with ids from 1 on."""

    def __init__(self, field: int) -> None:
        self._field = field
        self._ids: dict[str, int] = {}

    def id_of(self, value: str) -> int:
        return self._ids.setdefault(value, len(self._ids) + 1)

    def content(self) -> list[bytes]:
        return [message(self._field, number(1, ident) + text(2, value)) for value, ident in self._ids.items()]


class _Callstacks:
    """The callstacks of one event with their frames and mappings; the id of a callstack is the number of its chain plus 1."""

    def __init__(self, part: Stacks, chains: Sequence[int]) -> None:
        self._part, self._chains = part, chains
        self._names, self._paths = _InternedTexts(_FUNCTION_NAMES), _InternedTexts(_PATHS)
        self._sources, self._build_ids = _InternedTexts(_SOURCE_PATHS), _InternedTexts(_BUILD_IDS)
        self._frames: dict[tuple[int, int], int] = {}
        self._mappings: dict[FileMapping | str, int] = {}

    def interned(self) -> bytes:
        """Return the message InternedData."""
        callstacks = [message(_CALLSTACKS, number(1, chain + 1) + _repeated(2, self._frames_of(chain))) for chain in self._chains]
        frames = [message(_FRAMES, number(1, ident) + self._frame(*frame)) for frame, ident in self._frames.items()]
        mappings = [message(_PERFETTO_MAPPINGS, number(1, ident) + self._mapping(mapping)) for mapping, ident in self._mappings.items()]
        texts = (one.content() for one in (self._names, self._paths, self._sources, self._build_ids))
        return b"".join([*(entry for content in texts for entry in content), *mappings, *frames, *callstacks])

    def _frames_of(self, chain: int) -> list[int]:
        """Return the ids of a chain's frames, outermost first."""
        functions = self._part.chain_of(chain).tolist()
        sites = [-1] * len(functions) if self._part.sites is None else self._part.sites_of(chain).tolist()
        return [self._frames.setdefault(frame, len(self._frames) + 1) for frame in zip(functions[::-1], sites[::-1], strict=True)]

    def _frame(self, number_of_function: int, site: int) -> bytes:
        function, sites = self._part.functions[number_of_function], self._part.sites
        source = sites.source_of(site) if sites is not None and site >= 0 else None
        mapping: FileMapping | str = function.dso or _PERFETTO_UNNAMED
        address = 0
        if sites is not None and site >= 0 and sites.mapping[site] >= 0:
            mapping = sites.mappings[int(sites.mapping[site])]
            address = max(int(sites.address[site]) - mapping.start + mapping.offset, 0)
        path = source.path if source else source_file(function.name)
        where = (number(5, self._sources.id_of(path)) if path else b"") + number(6, source.line if source else 0)
        of_mapping = self._mappings.setdefault(mapping, len(self._mappings) + 1)
        return (
            number(2, self._names.id_of(readable(function.name) or _PERFETTO_UNNAMED)) + number(3, of_mapping) + number(4, address) + where
        )

    def _mapping(self, mapping: FileMapping | str) -> bytes:
        path = mapping if isinstance(mapping, str) else mapping.path
        folders = [self._paths.id_of(folder) for folder in path.strip("/").split("/")]
        names = _repeated(7, folders)
        if isinstance(mapping, str):
            return names
        build_id = number(2, self._build_ids.id_of(mapping.build_id)) if mapping.build_id else b""
        return build_id + number(8, mapping.offset) + number(4, mapping.start) + number(5, mapping.end) + names


def _repeated(field: int, ids: Sequence[int]) -> bytes:
    """Return a repeated field of ids: not packed, as in proto2."""
    return b"".join(number(field, one) for one in ids)


# The wire format of protocol buffers (https://protobuf.dev/programming-guides/encoding): fields of messages to bytes.


_NUMBERS_KEPT: Final = 1 << 16  # cached encodings of numbers
_FIXED64: Final = 1
_LENGTH_DELIMITED: Final = 2


@lru_cache(_NUMBERS_KEPT)
def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field: int, value: int) -> bytes:
    """Return a varint field; proto3 omits 0.

    >>> number(1, 300).hex(), number(1, 0)
    ('08ac02', b'')
    """
    return _varint(field << 3) + _varint(value) if value else b""


def fixed(field: int, value: int) -> bytes:
    """Return a fixed64 field; proto3 omits 0."""
    return _varint(field << 3 | _FIXED64) + struct.pack("<Q", value) if value else b""


def message(field: int, data: bytes) -> bytes:
    """Return a field of bytes, text or a message."""
    return _varint(field << 3 | _LENGTH_DELIMITED) + _varint(len(data)) + data


def text(field: int, value: str) -> bytes:
    """Return a field of text; proto3 omits empty ones."""
    return message(field, value.encode("utf-8", "replace")) if value else b""


def packed(field: int, values: Sequence[int]) -> bytes:
    """Return a field of many varints."""
    return message(field, b"".join(map(_varint, values)))
