"""The dimensions that histograms group samples by: one number per sample.

Numbers are equal for equal samples. A dimension
is raw: the thread's id, the frame's id; sort keys (perfpy.analysis.sort_keys)
decide later, on the distinct numbers only, which of them share a row.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from perfpy.abi.columns import Ragged
from perfpy.abi.flags import MISC_GUEST_USER, MISC_KERNEL, MISC_SWITCH_OUT, MISC_USER, RecordType
from perfpy.abi.light_types import TYPE_CHECKING, NamedTuple
from perfpy.abi.perfpy_encodings import FIRST_ADDRESS, MAPPED_SIZE, GilState
from perfpy.abi.records import Namespaces, Switch, SwitchCpuWide
from perfpy.abi.sample_decoding import BRANCH_DTYPE
from perfpy.analysis.sample_view import combine_columns, row_fingerprints, state_of, waker_of
from perfpy.errors import PerfError
from perfpy.perfdata.header import Feature, key_of
from perfpy.symbols.address_spaces import DeliveredValues

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, Final

    from numpy.typing import NDArray

    from perfpy.abi.columns import Slices
    from perfpy.analysis.sample_view import SampleView
    from perfpy.perfdata.records.delivery import SideRecord
    from perfpy.perfdata.sample_source import SampleSource


#: bits of physical addresses in the dimension "physical"
PHYSICAL_BITS: Final = 60

# columns that are dimensions
_FIELDS = (
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
        fingerprints: the hashes that determine it (perfpy.analysis.dimensions).
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

        return branch_frames(samples, name)

    return Dimension(("branch_stack", "pid"), (name, "space"), read, dense=True, table="frame")


def _sampled_frames(branches: SampleView) -> NDArray[Any]:
    """Return the frames of the samples' own locations."""
    own = {"ip": branches.columns["sampled_ip"], "cpumode": branches.columns["sampled_mode"]}
    return branches.with_columns(branches.columns | own).frames_at("ip")


DIMENSIONS: dict[str, Dimension] = {
    "comm": Dimension(
        *(("pid", "tid", "cpumode"), ("comm",)),
        lambda samples: samples.timeline.comm_ids(samples.task_numbers[1], samples.key),
        dense=True,
        table="comm",
    ),
    "process_comm": Dimension(
        *(("pid", "tid", "cpumode"), ("process_comm",)),
        lambda samples: samples.timeline.process_comm_ids(*samples.task_numbers, samples.key),
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
    "sampled": Dimension(
        *(("pid", "tid", "ip", "cpumode"), ("sampled_ip", "sampled_mode", "space")),
        _sampled_frames,
        dense=True,
        table="frame",
    ),
    "branch_from": _branch_end("branch_from"),
    "branch_to": _branch_end("branch_to"),
    "branch_flags": Dimension(("branch_stack",), ("branch_flags",), lambda samples: samples.columns["branch_flags"]),
}
DIMENSIONS |= {name: _field(name) for name in _FIELDS}
# tasks of virtual machines are other ones than those of the host with their numbers
DIMENSIONS["pid"] = Dimension(("pid", "tid", "cpumode"), ("pid",), lambda samples: samples.task_numbers[0])
DIMENSIONS["tid"] = Dimension(("pid", "tid", "cpumode"), ("tid",), lambda samples: samples.task_numbers[1])


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


# Hash samples by the properties that distinguish them, as 64-bit numbers.
#
# The hashes use recorded data only: so samples can be grouped first, and
# symbols, comms and mappings be looked up once for each group.


def _payload_fingerprints(samples: SampleView) -> NDArray[np.uint64]:
    return row_fingerprints(samples.payloads())


_OF_TASK: Final = frozenset(("comm", "mode_space", "space"))
_FINGERPRINTS: Final[dict[str, Callable[[SampleView], NDArray[np.generic]]]] = {
    "pid": lambda samples: samples.task_numbers[0],
    "tid": lambda samples: samples.task_numbers[1],
    "comm": lambda samples: samples.tasks.comm(),
    "process_comm": lambda samples: samples.tasks.process_comm(),
    "mode_space": lambda samples: samples.tasks.mode_space(samples.columns["cpumode"]),
    "space": lambda samples: samples.tasks.space(),
    "callchain": lambda samples: samples.chain_fingerprints,
    "raw": _payload_fingerprints,
}


def kind_numbers(samples: SampleView, names: Sequence[str]) -> NDArray[np.uint64]:
    """Combine a sample's event and fingerprints into one number."""
    of_task = [name for name in names if name in _OF_TASK]
    columns = [samples.event, *(fingerprint(samples, name) for name in names if name not in _OF_TASK)]
    if of_task:
        columns.append(samples.tasks.combine(of_task, samples.columns.get("cpumode")))
    return combine_columns(columns)


def fingerprint(samples: SampleView, name: str) -> NDArray[np.generic]:
    """Return one fingerprint: comm, mode_space, space, callchain, raw, or a column."""
    return _FINGERPRINTS[name](samples) if name in _FINGERPRINTS else samples.column(name)


# The number of recorded threads that run at any moment, and each sample's share of the wall clock.
#
# With four threads running, a second of CPU time is a
# quarter of a second of elapsed time. The definition is that of perfpy.scheduling.intervals.


#: multiplies a period before its division, to limit rounding errors
LATENCY_SCALE: Final = 1000


class Parallelism:
    """The number of running threads over time; records: SWITCH and EXIT; cpus: the number of CPUs."""

    def __init__(self, records: Iterable[SideRecord], cpus: int) -> None:
        from perfpy.scheduling.intervals import count_running

        keys, kinds = [], []
        for side in records:
            keys.append(side.key)
            kinds.append(_kind(side.record))
        self._keys = np.array(keys, np.uint64)
        self._running = count_running(kinds, cpus)

    @classmethod
    def of(cls, data: SampleSource) -> Parallelism:
        """Return the parallelism of a recording. Raises PerfError if it has no context switches of its threads."""
        records = list(data.side_band([RecordType.SWITCH, RecordType.SWITCH_CPU_WIDE, RecordType.EXIT]))
        kinds = {type(side.record) for side in records}
        if Switch not in kinds or SwitchCpuWide in kinds:
            reason = "latency and parallelism need context switches of processes; record with --latency, without -a"
            raise PerfError(f"{data.path}: {reason}")
        cpus = data.features.get(key_of(Feature.NRCPUS))
        return cls(records, cpus.available if cpus is not None else len(records) + 1)

    def add_to(self, samples: SampleView) -> SampleView:
        """Return the samples with columns parallelism, and latency: their share of the wall clock."""
        running = self._running[np.searchsorted(self._keys, samples.key, side="right")]
        latency = samples.period() * np.uint64(LATENCY_SCALE) // running.astype(np.uint64)
        return samples.with_columns({**samples.columns, "parallelism": running, "latency": latency})


def _kind(record: object) -> int:
    """Return the kind of transition of a SWITCH or EXIT record."""
    from perfpy.scheduling.transitions import END, IN, OUT

    if isinstance(record, Switch):
        return OUT if record.misc & MISC_SWITCH_OUT else IN
    return END


#: the cycles in a branch's flags
CYCLES_SHIFT: Final = np.uint64(4)
CYCLES_MASK: Final = np.uint64(0xFFFF)

# Expand branch stacks: a row for each branch record, newest first, with a weight of one event.
#
# The frames of its ends are in the process's own mappings or the kernel's.


def branch_samples(samples: SampleView) -> SampleView:
    """Return a row for each branch, with the columns branch_from, branch_to (addresses) and branch_flags."""
    stacks = samples.ragged_column("branch_stack", BRANCH_DTYPE)
    sample_of = np.repeat(np.arange(len(samples)), stacks.lengths)
    narrow = {name: column for name, column in samples.columns.items() if name != "branch_stack"}
    expanded = samples.with_columns(narrow).take(sample_of)
    ends = {f"branch_{field}": np.ascontiguousarray(stacks.values[field]) for field in ("from", "to", "flags")}
    return expanded.with_columns({**expanded.columns, **ends}).counted_once()


def branch_rows(samples: SampleView) -> SampleView:
    """Return a row for each branch, located at its target, with the cycles of its sample's newest branch as weight, as in perf.

    The columns sampled_ip and sampled_mode keep the samples' own locations.
    """
    stacks = samples.ragged_column("branch_stack", BRANCH_DTYPE)
    branches = branch_samples(samples)
    newest = np.repeat(stacks.offsets[:-1], stacks.lengths)
    cycles = stacks.values["flags"][newest] >> CYCLES_SHIFT & CYCLES_MASK
    to = branches.column("branch_to")
    mode = np.where(to >> np.uint64(63), MISC_KERNEL, MISC_USER).astype(np.uint8)
    columns = {**branches.columns, "ip": to, "cpumode": mode, "weight": np.maximum(cycles, np.uint64(1))}
    own = {f"sampled_{short}": branches.columns[name] for short, name in (("ip", "ip"), ("mode", "cpumode")) if name in branches.columns}
    return branches.with_columns(columns | own)


def branch_frames(samples: SampleView, name: str) -> NDArray[np.int32]:
    """Return the frame of each address of a column: in the process, else in the kernel, else nowhere."""
    pid, address, key, symbolizer = samples.column("pid"), samples.column(name), samples.key, samples.symbolizer

    def of(mode: int, rows: NDArray[np.int64]) -> NDArray[np.int32]:
        return symbolizer.frame_ids(pid[rows], address[rows], key[rows], np.full(len(rows), mode, np.uint8))

    frames = of(MISC_USER, np.arange(len(address)))
    for mode in (MISC_KERNEL, MISC_GUEST_USER):
        unmapped = np.flatnonzero(symbolizer.frames.dso[frames] < 0)
        frames[unmapped] = of(mode, unmapped)
    return frames


# The cgroup namespace of each thread over time, from NAMESPACES records.


#: the index of the cgroup namespace in a NAMESPACES record
_CGROUP: Final = 6
_UNKNOWN: Final = (0, 0)


class CgroupNamespaces:
    """The history of namespaces.

    Attributes:
        namespaces: (device, inode) by number; number 0 is for unknown threads.
    """

    def __init__(self, side_band: Iterable[SideRecord]) -> None:
        numbers = {_UNKNOWN: 0}
        rows = []
        for side in side_band:
            record = side.record
            if isinstance(record, Namespaces) and len(record.namespaces) > _CGROUP:
                number = numbers.setdefault(record.namespaces[_CGROUP], len(numbers))
                rows.append((record.tid, side.key, number))
        self.namespaces = list(numbers)
        self._history = DeliveredValues(*(zip(*rows, strict=True) if rows else ((),) * 3))

    def add_to(self, samples: SampleView) -> SampleView:
        """Return the samples with a column cgroup_id: the number of each one's namespace."""
        numbers = self._history.find(samples.column("tid"), samples.key, 0)
        return samples.with_columns({**samples.columns, "cgroup_id": numbers})
