"""What sort keys know of a recording beside the numbers of its samples.

What enters: names, wordings and styles, each part from whoever knows it. What
leaves: one value, `KeyTexts`, from which every sort key takes its part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perfpy.analysis.samples.locations import Locations
    from perfpy.analysis.samples.source_texts import SourceTexts

#: in ns
HOUR: Final = 3600 * 10**9


class Payloads(Protocol):
    """Where the texts of tracepoints' payloads come from."""

    def texts(self, payloads: Sequence[bytes]) -> list[str]:
        """The payloads as perf script prints them."""

    def raw_text(self, payload: bytes) -> str:
        """The fields of one by name, not formatted."""

    def field_text(self, payload: bytes, name: str) -> str:
        """One field of it, as a number or a string."""


class MemoryWords(Protocol):
    """What words the parts of data_src."""

    def level_text(self, data_src: int) -> str:
        """What served the access."""

    def snoop_text(self, data_src: int) -> str:
        """What snooping found."""

    def lock_text(self, data_src: int) -> str:
        """Whether it was locked."""

    def tlb_text(self, data_src: int) -> str:
        """What the TLB had."""

    def block_text(self, data_src: int) -> str:
        """What blocked it."""


class TaskComms(NamedTuple):
    """comms: by number; last_comm: the comm that a thread had at the end."""

    comms: Sequence[str]
    last_comm: Callable[[int], str]


class TraceData:
    """The distinct payloads of tracepoints, and their texts, each worded once.

    words: None where the recording describes no tracepoints.
    """

    def __init__(self, payloads: Sequence[bytes] = (), words: Payloads | None = None) -> None:
        self.payloads = payloads
        self.words = words
        self._texts: dict[int, str] = {}

    def texts(self, numbers: Sequence[int]) -> list[str]:
        """The texts of some payloads; "" where nothing can word them."""
        if self.words is None:
            return [""] * len(numbers)
        new = [number for number in dict.fromkeys(numbers) if number not in self._texts]
        self._texts.update(zip(new, self.words.texts([self.payloads[number] for number in new]), strict=True))
        return [self._texts[number] for number in numbers]


class RecordingText(NamedTuple):
    """What a recording is called: its file, and the machine's name. seconds: from its first sample to its last (0: not known)."""

    path: str
    host: str
    seconds: float = 0.0


class MachineTexts(NamedTuple):
    """socket_of: CPU -> socket; cgroup_name: id -> path, or None; cgroup_namespaces: (device, inode), recordings: by number."""

    socket_of: Callable[[int], int] = lambda _cpu: -1
    cgroup_name: Callable[[int], str | None] = lambda _number: None
    cgroup_namespaces: Sequence[tuple[int, int]] = ()
    recordings: Sequence[RecordingText] = ()


class KeyStyle(NamedTuple):
    """How texts are written.

    verbose: perf's -v; nanoseconds, quantum: how times are written, and their grain in ns; clock_quantum: that of times of day;
    unnamed_dso_width: the least width of a DSO column with locations without
    symbols; raw_trace: whether payloads are shown unformatted.
    """

    verbose: bool = False
    nanoseconds: bool = False
    quantum: int = 100_000_000
    unnamed_dso_width: int = 16
    raw_trace: bool = False
    clock_quantum: int = HOUR


class KeyTexts(NamedTuple):
    """All parts.

    sources: None where no key shows source lines; memory: None where nothing words memory accesses; parents: the names
    that rows' parents have, by number.
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
        """What words source lines, for keys that show them."""
        assert self.sources is not None
        return self.sources
