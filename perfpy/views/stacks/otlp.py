"""Stacks as OpenTelemetry profiles: a message ProfilesData, which is an ExportProfilesServiceRequest, too.

Field numbers are those of opentelemetry/proto/profiles/v1development/profiles.proto, version 1.9 and later. Each event is a Profile. A
sample is a stack of a thread, with the time and the weight of each of its occurrences. Tables begin with an empty entry: index 0 is none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.abi.python_code import PYTHON_MARK
from perfpy.analysis.samples.row_hashes import combine_columns
from perfpy.analysis.verdict.categories import KERNEL
from perfpy.symbols.interning import IdTable
from perfpy.views.readable import readable, source_file
from perfpy.views.stacks.protobuf import fixed, message, number, packed, text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from perfpy.analysis.stacks.stacks import Stacks, TimedSamples

_UNNAMED: Final = "[unknown]"
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
        line = number(1, self._function(readable(function.name) or _UNNAMED, function.name, file)) + number(2, source.line if source else 0)
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
