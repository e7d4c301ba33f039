"""KeyTexts: the names, texts and styles that sort keys need besides the numbers of samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from perfpy.abi.startup import NamedTuple
from perfpy.analysis.sortkeys.container_names import container_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perfpy.analysis.samples.locations import Locations
    from perfpy.analysis.samples.source_texts import SourceTexts

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
    """

    verbose: bool = False
    nanoseconds: bool = False
    quantum: int = 100_000_000
    unnamed_dso_width: int = 16
    raw_trace: bool = False
    clock_quantum: int = HOUR


class KeyTexts(NamedTuple):
    """All names, texts and styles.

    Attributes:
        sources: None if no key shows source lines.
        memory: None without formatter of memory accesses.
        parents: the names of rows' parents, by number.
    """

    locations: Locations
    sources: SourceTexts | None
    tasks: TaskComms
    trace: TraceData
    memory: MemoryWords | None = None
    machine: MachineTexts = MachineTexts()
    style: KeyStyle = KeyStyle()
    parents: Sequence[str] = ()

    @property
    def source_texts(self) -> SourceTexts:
        """The texts of source lines, for keys that show them."""
        assert self.sources is not None
        return self.sources
