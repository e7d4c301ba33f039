"""The columns of a report: a `SortKey` that rows are grouped by, or an `OutputField` of numbers."""

from __future__ import annotations

import re
from collections.abc import Callable

from perfpy.abi.light_types import TYPE_CHECKING, Enum, NamedTuple, Protocol
from perfpy.analysis.locations import name_ranks, ranks
from perfpy.untrusted.text import byte_width

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Final, TypeAlias

    import numpy as np
    from numpy.typing import NDArray

    from perfpy.analysis.locations import Int64, Locations, SourceTexts


class ColumnCell(Enum):
    """The alignment of texts in a column."""

    LEFT = "left"  # truncated and padded to the width
    PADDED = "padded"  # padded to the width
    RIGHT = "right"  # padded on the left
    CUT = "cut"  # truncated to the width, not padded
    LOOSE = "loose"  # neither
    OFFSET = "offset"  # neither; addresses with as many digits as the width leaves
    RIGHT_CUT = "right cut"  # truncated to the width and padded on the left, like the header
    THREAD = "thread"  # PID:COMM, the comm truncated and padded
    DIGITS = "digits"  # a number with as many digits as the width
    SPACED_DIGITS = "spaced digits"  # a number with three digits less than the width


class Mode(Enum):
    """The unit of a row's counts: samples, branches or memory accesses. It decides which keys exist."""

    NORMAL = "normal"
    BRANCH = "branch"
    MEMORY = "memory"


class SortKey(NamedTuple):
    """A column that rows are grouped by.

    Attributes:
        name: as in -s.
        header: of the column.
        dimension: of samples (perfpy.analysis.dimensions), or "location" for sampled
            addresses and, in callchains, callers.
        column: makes the KeyColumn.
        cell: the alignment.
        least: the least width of a column with rows, and of a field.
        by_comm: the column's width beyond the longest comm of a thread.
        late: perf makes the texts when it first compares two samples, and measures only these.
        event: the only event whose rows have it.
        raw: a field without the format of its event: its texts do not widen the column.
    """

    name: str
    header: str
    dimension: str
    column: Column
    cell: ColumnCell = ColumnCell.LEFT
    least: int = 0
    mode: Mode = Mode.NORMAL
    by_comm: int | None = None
    late: bool = False
    event: int | None = None
    raw: bool = False

    @property
    def of_location(self) -> bool:
        """Whether it describes the location, so that callers have their own."""
        return self.dimension == "location"


class Unit(Enum):
    """The unit of a metric."""

    PERCENT = "percent"
    NUMBER = "number"
    AVERAGE = "average"
    SECONDS = "seconds"  # of events whose periods are ns


class OutputField(NamedTuple):
    """A column of numbers: its sum and format."""

    name: str
    header: str
    value: str
    unit: Unit
    width: int


# The columns of sort keys: for the distinct numbers of a dimension, ranks and texts.
#
# A `KeyColumn` has for every number (perfpy.analysis.dimensions) a rank that is equal for numbers of one row, a rank that
# sorts rows, and the text. Ranks ascend in the order in which perf shows rows.


Text = Callable[[int], str]


def no_width(_number: int) -> int:
    """Return the width of a text that does not widen its column."""
    return 0


class TreeComparison(NamedTuple):
    """A sort key's comparison in perf's tree of entries: ranks, and perf's own comparison as in KeyColumn."""

    ranks: Int64
    compare: Callable[[int, int], int] | None


class KeyColumn(NamedTuple):
    """One sort key over the distinct numbers of its dimension.

    Attributes:
        same: equal ranks share a row; their order is that of perf's tree of
            entries, which sorts rows that are equal in all columns.
        order: the order of rows.
        text: returns the text of number i.
        wide: returns the width that number i needs in its column.
        per_sample: numbers to print times the samples of the row, instead of a text.
        compare: perf's comparison of numbers i and j, negative if i comes first, if it is not transitive and ranks only approximate it.
        unnamed: marks the numbers that make it so.
        beside_dso: returns the comparison in perf's tree if -s has the key dso, too, and leaves files to it.
        texts, widest: faster versions of `text` and `wide` for many numbers.
    """

    same: Int64
    order: Int64
    text: Text
    wide: Callable[[int], int] = no_width
    per_sample: Int64 | None = None
    compare: Callable[[int, int], int] | None = None
    unnamed: NDArray[np.bool_] | None = None
    beside_dso: Callable[[], TreeComparison] | None = None
    texts: Callable[[Int64], list[str]] | None = None
    widest: Callable[[Int64], int] | None = None

    def texts_of(self, numbers: Int64) -> list[str]:
        """Return the texts of some numbers."""
        if self.texts is not None:
            return self.texts(numbers)
        listed = numbers.tolist()
        text_of = {number: self.text(number) for number in dict.fromkeys(listed)}  # in row order: a text can depend on earlier ones
        return [text_of[number] for number in listed]

    def width_of(self, numbers: Int64) -> int:
        """Return the column width for some distinct numbers."""
        return self.widest(numbers) if self.widest is not None else max(map(self.wide, numbers.tolist()), default=0)


#: a sort key: the distinct numbers of its dimension -> a column
Column: TypeAlias = "Callable[[KeyTexts, Int64], KeyColumn]"


def by_number(values: Int64, text: Text, *, falling: bool = False) -> KeyColumn:
    """Return a column that compares the numbers themselves; falling: larger first."""
    rank = ranks(-values if falling else values)
    return KeyColumn(rank, rank, text)


def by_text(texts: list[str], *, wide: bool = True) -> KeyColumn:
    """Return a column of texts, sorted by bytes; wide: whether they widen the column."""
    rank = name_ranks(texts)

    def many(numbers: Int64) -> list[str]:
        return list(map(texts.__getitem__, numbers.tolist()))

    def widest(numbers: Int64) -> int:
        return max(map(byte_width, set(many(numbers))), default=0)

    if not wide:
        return KeyColumn(rank, rank, lambda i: texts[i], texts=many)
    return KeyColumn(rank, rank, lambda i: texts[i], lambda i: byte_width(texts[i]), texts=many, widest=widest)


_NUMBERS: Final = 1 << 64


def number(_texts: KeyTexts, values: Int64) -> KeyColumn:
    """Return a column of unsigned numbers; larger ones first."""
    return by_number(values, lambda i: str(int(values[i]) % _NUMBERS), falling=True)


def summed_number(_texts: KeyTexts, values: Int64) -> KeyColumn:
    """Return a column of numbers, times the samples of the row."""
    return number(_texts, values)._replace(per_sample=values)


# The container of a cgroup, from its path: Docker, Podman, containerd, CRI-O, LXC, nspawn, Kubernetes.


HOST: Final = "host"
_SHORT: Final = 12  # digits of an id, as `docker ps` prints it
_ID: Final = r"(?P<id>[0-9a-f]{64})"
#: patterns of one folder of a cgroup's path, compiled by the reports that show containers, and the runtime
_FOLDERS: Final = (
    (rf"docker-{_ID}\.scope", "docker"),
    (rf"libpod-(?:conmon-)?{_ID}(?:\.scope)?", "podman"),
    (rf"crio-(?:conmon-)?{_ID}(?:\.scope)?", "cri-o"),
    (rf"cri-containerd-{_ID}\.scope", "containerd"),
    (r"lxc\.payload\.(?P<id>.+)", "lxc"),
    (r"machine-(?P<id>.+)\.scope", "machine"),
    (r"systemd-nspawn@(?P<id>.+)\.service", "nspawn"),
    (_ID, ""),  # of the runtime that the folder above names
)
_ABOVE: Final = {"docker": "docker", "lxc": "lxc", "default": "containerd", "k8s.io": "containerd", "moby": "docker"}


class Container(NamedTuple):
    """A container: its runtime, and its name or id; full_id: 64 digits, "" if the cgroup has a name."""

    runtime: str
    name: str
    full_id: str = ""

    @property
    def text(self) -> str:
        """The text of the sort key."""
        return f"{self.runtime} {self.name}"


def container_of(path: str) -> str:
    """Return the runtime and the short id or name of the innermost container in a cgroup's path; "host" without one.

    >>> container_of("/system.slice/docker-" + "0123456789ab" * 5 + "cdef.scope")
    'docker 0123456789ab'
    >>> container_of("/kubepods/burstable/pod12/" + "f" * 64), container_of("/lxc.payload.web/system.slice"), container_of("/user.slice")
    ('kubernetes ffffffffffff', 'lxc web', 'host')
    """
    container = innermost_container(path)
    return HOST if container is None else container.text


def innermost_container(path: str) -> Container | None:
    """Return the innermost container in a cgroup's path; None without one."""
    folders = path.strip("/").split("/")
    for number in range(len(folders) - 1, -1, -1):
        if folders[number - 1] == "lxc" and number:
            return Container("lxc", folders[number])
        for pattern, runtime in _FOLDERS:
            if match := re.fullmatch(pattern, folders[number]):
                full_id = match["id"] if re.fullmatch(_ID, match["id"]) else ""
                return Container(runtime or _runtime_above(folders[:number]), full_id[:_SHORT] or match["id"], full_id)
    return None


def _runtime_above(folders: list[str]) -> str:
    if any(folder.startswith("kubepods") for folder in folders):
        return "kubernetes"
    return next((_ABOVE[folder] for folder in reversed(folders) if folder in _ABOVE), "container")


# KeyTexts: the names, texts and styles that sort keys need besides the numbers of samples.


#: in ns
HOUR: Final = 3600 * 10**9


class Payloads(Protocol):
    """The texts of tracepoints' payloads."""

    def texts(self, payloads: Sequence[bytes]) -> list[str]:
        """Return the payloads as perf script prints them."""

    def raw_text(self, payload: bytes) -> str:
        """Return the fields of a payload by name, unformatted."""

    def field_text(self, payload: bytes, name: str) -> str:
        """Return one field of a payload, as a number or a string."""


class MemoryWords(Protocol):
    """The texts of the parts of data_src."""

    def level_text(self, data_src: int) -> str:
        """Return the memory level that served the access."""

    def snoop_text(self, data_src: int) -> str:
        """Return the result of snooping."""

    def lock_text(self, data_src: int) -> str:
        """Return whether the access was locked."""

    def tlb_text(self, data_src: int) -> str:
        """Return the result of the TLB lookup."""

    def block_text(self, data_src: int) -> str:
        """Return what blocked the access."""


class TaskComms(NamedTuple):
    """The comms of a recording; comms: by number; last_comm: returns a thread's last comm."""

    comms: Sequence[str]
    last_comm: Callable[[int], str]


class TraceData:
    """The distinct payloads of tracepoints, and their texts, each formatted once.

    words: None if the recording has no tracepoint formats.
    """

    def __init__(self, payloads: Sequence[bytes] = (), words: Payloads | None = None) -> None:
        self.payloads = payloads
        self.words = words
        self._texts: dict[int, str] = {}

    def texts(self, numbers: Sequence[int]) -> list[str]:
        """Return the texts of some payloads; "" without formats."""
        if self.words is None:
            return [""] * len(numbers)
        new = [number for number in dict.fromkeys(numbers) if number not in self._texts]
        self._texts.update(zip(new, self.words.texts([self.payloads[number] for number in new]), strict=True))
        return [self._texts[number] for number in numbers]


class RecordingText(NamedTuple):
    """The names of a recording: its file and host; seconds: from its first sample to its last (0: unknown)."""

    path: str
    host: str
    seconds: float = 0.0


class MachineTexts(NamedTuple):
    """Names of the machine.

    Attributes:
        socket_of: CPU -> socket.
        cgroup_name: id -> path, or None.
        cgroup_namespaces: (device, inode) by number.
        recordings: by number.
        container_name: path of a cgroup -> its container.
    """

    socket_of: Callable[[int], int] = lambda _cpu: -1
    cgroup_name: Callable[[int], str | None] = lambda _number: None
    cgroup_namespaces: Sequence[tuple[int, int]] = ()
    recordings: Sequence[RecordingText] = ()
    container_name: Callable[[str], str] = container_of


class KeyStyle(NamedTuple):
    """The style of texts.

    Attributes:
        verbose: perf's -v.
        nanoseconds, quantum: the format of times, and their resolution in ns.
        unnamed_dso_width: the least width of a dso column with locations without symbols.
        raw_trace: whether payloads are shown unformatted.
        clock_quantum: the resolution of times of day.
        unnamed_as_one: whether all code of a file without symbols is one function.
    """

    verbose: bool = False
    nanoseconds: bool = False
    quantum: int = 100_000_000
    unnamed_dso_width: int = 16
    raw_trace: bool = False
    clock_quantum: int = HOUR
    unnamed_as_one: bool = False


class Ipc(NamedTuple):
    """The instructions per cycle of a function. coverage: percentage of its instructions at which measured blocks end."""

    value: float
    coverage: float


class KeyTexts(NamedTuple):
    """All names, texts and styles.

    Attributes:
        sources: None if no key shows source lines.
        memory: None without formatter of memory accesses.
        parents: the names of rows' parents, by number.
        ipc: symbol -> its IPC; None if the recording's branches were not read.
    """

    locations: Locations
    sources: SourceTexts | None
    tasks: TaskComms
    trace: TraceData
    memory: MemoryWords | None = None
    machine: MachineTexts = MachineTexts()
    style: KeyStyle = KeyStyle()
    parents: Sequence[str] = ()
    ipc: Callable[[int], Ipc] | None = None

    @property
    def source_texts(self) -> SourceTexts:
        """The texts of source lines, for keys that show them."""
        assert self.sources is not None
        return self.sources
