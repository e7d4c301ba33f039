"""The dimensions that histograms group samples by: one number per sample.

Numbers are equal for equal samples. A dimension
is raw: the thread's id, the frame's id; sort keys (perfpy.analysis.sortkeys.names)
decide later, on the distinct numbers only, which of them share a row.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.abi.columns import Ragged
from perfpy.abi.python_code import FIRST_ADDRESS, MAPPED_SIZE, GilState
from perfpy.abi.startup import NamedTuple
from perfpy.analysis.samples.wait_reasons import state_of, waker_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from perfpy.abi.columns import Slices
    from perfpy.analysis.samples.sample_view import SampleView

#: bits of physical addresses in the dimension "physical"
PHYSICAL_BITS: Final = 60

# columns that are dimensions
_FIELDS = (
    "tid",
    "pid",
    "cpu",
    "time",
    "weight",
    "ins_lat",
    "retire_lat",
    "transaction",
    "cgroup",
    "data_src",
    "data_page_size",
    "code_page_size",
    "cpumode",
)


class Dimension(NamedTuple):
    """One dimension of samples.

    Attributes:
        fields: the columns that it reads.
        fingerprints: the hashes that determine it (perfpy.analysis.samples.fingerprints).
        read: returns the number of each sample.
        dense: whether these are small ids already (of frames, comms, events).
        table: "frame" or "comm" for ids of the symbolizer's frames, or of the timeline's comms.
    """

    fields: tuple[str, ...]
    fingerprints: tuple[str, ...]
    read: Callable[[SampleView], NDArray[Any]]
    dense: bool = False
    table: str = ""


def _field(name: str) -> Dimension:
    return Dimension((name,), (name,), lambda samples: samples.column(name))


def _added_dimension(name: str, *fields: str) -> Dimension:
    """Return the dimension of a column of small numbers that is added to batches."""
    return Dimension(fields, (name,), lambda samples: samples.columns[name], dense=True)


def _physical(samples: SampleView) -> NDArray[Any]:
    """Return physical addresses, below PHYSICAL_BITS, with the CPU mode of the access above."""
    mode = samples.columns["cpumode"].astype(np.uint64) << np.uint64(PHYSICAL_BITS)
    values: NDArray[np.uint64] = samples.column("phys_addr").astype(np.uint64) & np.uint64((1 << PHYSICAL_BITS) - 1) | mode
    return values


def _branch_end(name: str) -> Dimension:
    def read(samples: SampleView) -> NDArray[Any]:
        from perfpy.analysis.samples.branches import branch_frames

        return branch_frames(samples, name)

    return Dimension(("branch_stack", "pid"), (name, "space"), read, dense=True, table="frame")


DIMENSIONS: dict[str, Dimension] = {
    "comm": Dimension(
        ("pid", "tid"), ("comm",), lambda samples: samples.timeline.comm_ids(samples.column("tid"), samples.key), dense=True, table="comm"
    ),
    "process_comm": Dimension(
        *(("pid", "tid"), ("process_comm",)),
        lambda samples: samples.timeline.process_comm_ids(samples.column("pid"), samples.column("tid"), samples.key),
        dense=True,
        table="comm",
    ),
    "frame": Dimension(
        ("pid", "tid", "ip", "cpumode"), ("ip", "cpumode", "mode_space"), lambda samples: samples.frames_at("ip"), dense=True, table="frame"
    ),
    "data": Dimension(
        *(("pid", "tid", "addr", "cpumode"), ("addr", "cpumode", "mode_space")),
        lambda samples: samples.frames_at("addr"),
        dense=True,
        table="frame",
    ),
    "recording": Dimension((), (), lambda samples: np.zeros(len(samples), np.int32), dense=True),
    "cgroup_id": _added_dimension("cgroup_id", "tid"),
    "parallelism": _added_dimension("parallelism"),
    "socket": Dimension(("cpu",), ("cpu",), lambda samples: samples.column("cpu")),
    "wall": Dimension(("time",), ("wall",), lambda samples: samples.columns["wall"]),
    "state": Dimension(("ins_lat", "retire_lat"), ("ins_lat", "retire_lat"), state_of),
    "gil": Dimension(("callchain",), ("callchain",), lambda samples: gil_states(samples.chains()), dense=True),
    "waker": Dimension(("weight", "retire_lat"), ("weight", "retire_lat"), waker_of),
    "physical": Dimension(("phys_addr", "cpumode"), ("phys_addr", "cpumode"), _physical),
    "branch_from": _branch_end("branch_from"),
    "branch_to": _branch_end("branch_to"),
    "branch_flags": Dimension(("branch_stack",), ("branch_flags",), lambda samples: samples.columns["branch_flags"]),
}
DIMENSIONS |= {name: _field(name) for name in _FIELDS}


class PayloadTable:
    """Distinct raw payloads (of tracepoints): bytes <-> dense ids."""

    def __init__(self) -> None:
        self._ids: dict[bytes, int] = {}
        self.payloads: list[bytes] = []

    def ids(self, raw: Ragged) -> NDArray[np.int32]:
        """Return the id of each row's bytes."""
        data, bounds = raw.values.tobytes(), raw.offsets.tolist()
        return self.ids_of([data[start:end] for start, end in pairwise(bounds)])

    def ids_of(self, payloads: list[bytes]) -> NDArray[np.int32]:
        """Return the id of each payload."""
        return np.array([self._id(payload) for payload in payloads], np.int32)

    def _id(self, payload: bytes) -> int:
        number = self._ids.setdefault(payload, len(self.payloads))
        if number == len(self.payloads):
            self.payloads.append(payload)
        return number


def gil_states(chains: Ragged | Slices) -> NDArray[np.int32]:
    """Return the GilState of each sample; only the innermost Python frame has one other than UNKNOWN."""
    gathered = chains if isinstance(chains, Ragged) else chains.gather()
    distances = gathered.values - np.uint64(FIRST_ADDRESS)  # of lower addresses: very large
    states = np.where(distances < len(GilState) * MAPPED_SIZE, distances // np.uint64(MAPPED_SIZE), 0).astype(np.int32)
    padded = np.append(states, np.int32(0))
    highest = np.maximum.reduceat(padded, gathered.offsets[:-1]) if len(gathered) else padded[:0]
    return np.where(gathered.lengths > 0, highest, 0).astype(np.int32)
