"""Calls, errors, times and bytes of each file or peer of a connection, added up over batches.

The file of a call is the path in its arguments, or that of its first descriptor. The peer is that of the descriptor's connection, or the
address in the arguments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.abi.columns import distinct, rows_where
from perfpy.abi.system_calls.arguments import arguments_of
from perfpy.abi.system_calls.numbers import names_by_number
from perfpy.abi.system_calls.structures import structures_of
from perfpy.tracing.descriptor_rules import CURRENT_FOLDER, SOCKET, peer_address
from perfpy.tracing.events import EXIT
from perfpy.tracing.pairing import NO_ROW
from perfpy.tracing.totals import Totals

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from perfpy.tracing.descriptor_names import DescriptorNames
    from perfpy.tracing.pairing import PairedEvents

PATH, PEER = "path", "peer"
_MOST_NAMES: Final = 1 << 16
_OTHERS: Final = "(others)"
_TRANSFERS: Final = frozenset(
    "read write pread64 pwrite64 readv writev preadv pwritev preadv2 pwritev2 sendto recvfrom sendmsg recvmsg sendfile splice "
    "copy_file_range".split()
)


class _Naming(NamedTuple):
    """The places of a call's names: indexes of its arguments, None without.

    Attributes:
        descriptor: the file.
        folder: of the path.
        path, address: strings, structures.
    """

    descriptor: int | None = None
    folder: int | None = None
    path: int | None = None
    address: int | None = None


class NamedTotals:
    """The sums by names.

    Args:
        kind: PATH or PEER.
        machine: as uname(2) has it.

    Attributes:
        totals: the sums, by the index of a name in place of the number of a call.
        names: the names.
        bytes: of each name: what its calls have read, written, sent and received.
    """

    def __init__(self, kind: str, machine: str) -> None:
        self.kind = kind
        self._machine = machine
        self._calls = names_by_number(machine)
        self._namings: dict[int, _Naming] = {}
        self.totals = Totals()
        self.names: list[str] = []
        self.bytes: list[int] = []
        self._ids: dict[str, int] = {}

    def add(self, paired: PairedEvents, texts: Mapping[int, Mapping[int, str]], names: DescriptorNames) -> None:
        """Add the returns of a batch.

        Args:
            paired: the events.
            texts: row of an entry -> index of the argument -> its text.
            names: of descriptors.
        """
        events = paired.events
        rows = rows_where((events.kind == EXIT) & (paired.entry != NO_ROW))
        ids = np.full(events.size, -1, np.int64)
        for number in distinct(events.number[rows]).tolist():
            chosen = rows[events.number[rows] == number]
            own = np.array([self._id(name) for name in self._names(number, paired.entry[chosen], paired, texts, names)], np.int64)
            ids[chosen] = own
            if self._calls.get(number) in _TRANSFERS:
                for one, size in zip(own.tolist(), events.result[chosen].tolist(), strict=True):
                    if one >= 0 and size > 0:
                        self.bytes[one] += size
        named = rows[ids[rows] >= 0]
        self.totals.add(paired._replace(events=events._replace(number=ids, tid=np.zeros(events.size, np.int32))), named)

    def _id(self, name: str) -> int:
        """Return the index of a name; -1 for none."""
        if not name:
            return -1
        if name not in self._ids and len(self._ids) >= _MOST_NAMES:
            name = _OTHERS
        if name not in self._ids:
            self._ids[name] = len(self.names)
            self.names.append(name)
            self.bytes.append(0)
        return self._ids[name]

    def _names(
        self,
        number: int,
        entries: NDArray[np.int64],
        paired: PairedEvents,
        texts: Mapping[int, Mapping[int, str]],
        names: DescriptorNames,
    ) -> list[str]:
        """Return the name of each call of one number; "" for none."""
        naming = self._naming(number)
        arguments = paired.events.arguments
        files = [""] * len(entries)
        if naming.descriptor is not None:
            files = names.names(entries, arguments[entries, naming.descriptor].astype(np.uint32).view(np.int32))
        if self.kind == PEER:
            addresses = [texts.get(row, {}).get(naming.address, "") if naming.address is not None else "" for row in entries.tolist()]
            return [_peer(file, address) for file, address in zip(files, addresses, strict=True)]
        if naming.path is None:
            return [file if file.startswith("/") else "" for file in files]
        if naming.folder is None:
            folders = [CURRENT_FOLDER] * len(entries)
        else:
            folders = arguments[entries, naming.folder].astype(np.uint32).view(np.int32).tolist()
        paths = [texts.get(row, {}).get(naming.path) for row in entries.tolist()]
        return [
            names.path(row, folder, path) if path is not None else ""
            for row, folder, path in zip(entries.tolist(), folders, paths, strict=True)
        ]

    def _naming(self, number: int) -> _Naming:
        naming = self._namings.get(number)
        if naming is None:
            name = self._calls.get(number, "")
            kinds = [("fd" if argument.name == "fd" else argument.kind) for argument in arguments_of(name) or ()]
            naming = self._namings[number] = _Naming(
                descriptor=_first(kinds, "fd"),
                folder=_first(kinds, "dirfd"),
                path=_first(kinds, "text"),
                address=next((one.argument for one in structures_of(name, self._machine) if one.structure == "sockaddr"), None),
            )
        return naming


def _first(kinds: list[str], kind: str) -> int | None:
    return kinds.index(kind) if kind in kinds else None


def _peer(file: str, address: str) -> str:
    """Return PROTOCOL:ADDRESS of a socket that is connected, or whose call has an address; "" for others."""
    if file and not file.startswith(SOCKET):
        return ""
    kind, _, peer = file.removeprefix(SOCKET).partition(":")
    peer = peer or peer_address(address)
    return f"{kind}:{peer}" if kind and not kind.startswith("[") and peer else peer
