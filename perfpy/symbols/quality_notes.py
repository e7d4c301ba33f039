"""The notes on missing symbols (the files, their samples, the searched places, and a remedy), and on truncated stacks."""

from __future__ import annotations

import os

from perfpy.abi.light_types import TYPE_CHECKING, NamedTuple
from perfpy.errors import plural
from perfpy.symbols.tasks import is_memory

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Final

    from perfpy.symbols.dso import Dso


_SHOWN: Final = 3
_WORTH_A_NOTE: Final = 0.01  # share of the samples
#: advice for kernel samples of a recording without the kernel's address
KERNEL_NOT_RECORDED: Final = "its addresses were hidden when this was recorded: sysctl kernel.kptr_restrict=0, then record again as root"


class MissingSymbols(NamedTuple):
    """A dso with samples that have no symbol.

    Attributes:
        samples: their number.
        looked: the paths that were tried.
        advice: a remedy.
    """

    dso: Dso
    samples: int
    looked: tuple[str, ...]
    advice: str


class UnreadableFile(NamedTuple):
    """A damaged file of symbols and the reason."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path} cannot be read: {self.reason}"


class RefusedFile(NamedTuple):
    """A file that is not the recorded one, or not its debug file, and the reason: the rest of a sentence that begins with the path."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path} {self.reason}"


def advice(dso: Dso, *, restricted: bool = False, is_found: bool = False) -> str:
    """Return the remedy for missing symbols. `restricted`: the kernel hides addresses; `is_found`: the file exists, but is stripped."""
    from perfpy.symbols.dso import DsoKind

    match dso.kind:
        case DsoKind.KERNEL | DsoKind.MODULE if restricted:
            return "the kernel hides its addresses; run as root, or set sysctl kernel.kptr_restrict=0"
        case DsoKind.KERNEL:
            return "give --kallsyms or --vmlinux of the recorded kernel"
        case DsoKind.MODULE:
            return "load the module, or keep its .ko at the recorded path"
        case DsoKind.JIT if is_found:
            return "the runtime named no code at these addresses: its own stubs, or code that was gone before it told"
        case DsoKind.JIT:
            return "record --jit has its names, or a perf map (node --perf-basic-prof, python -X perf)"
        case DsoKind.VDSO:
            return "no image of it is here: record its build-id cache (perf archive)"
        case DsoKind.NONE | DsoKind.BPF | DsoKind.VSYSCALL:
            return "memory without a file"
    from perfpy.symbols.files import debuginfod

    packages = "install its debug symbols"
    if dso.build_id and not debuginfod.servers():
        packages += ", or set DEBUGINFOD_URLS"
    return f"stripped: {packages}" if is_found else f"not found, or another build: give --symfs, or {packages}"


def note(missing: Sequence[MissingSymbols], total: int, *, everything: bool = False) -> list[str]:
    """Return the lines to print at the end of a report of `total` samples, none if few samples lack symbols.

    `everything`: list all files and all searched paths; otherwise use at most two lines in most terminals.
    """
    sample_count = sum(item.samples for item in missing)
    if not sample_count or (not everything and sample_count < _WORTH_A_NOTE * total):
        return []
    head = f"{sample_count} of {total} samples ({sample_count / max(total, 1):.1%}) have no symbol:"
    if everything:
        return [head, *(line for item in missing for line in _details(item))]
    names = ", ".join(f"{item.samples} in {item.dso.short_name}" for item in missing[:_SHOWN])
    other_count = len(missing) - _SHOWN
    others = f" and {other_count} more file{'s' if other_count > 1 else ''}" if other_count > 0 else ""
    return [f"{head} {names}{others} (-v shows more)", f"  {missing[0].dso.short_name}: {missing[0].advice}"]


def _details(item: MissingSymbols) -> list[str]:
    """Return all details of one file."""
    build_id = f" (build-id {item.dso.build_id})" if item.dso.build_id else ""
    return [f"  {item.samples} in {item.dso.name}{build_id}: {item.advice}", *(f"      looked in {path}" for path in item.looked)]


# The note on callchains that end after one frame, by the dso of that frame. `record` counts a part of the samples without numpy, `report`
# all of them.

_FEW: Final = 20  # too few to judge by
_NAMED: Final = 3  # files named in a note
_WORTH_NAMING: Final = 0.1  # share of all callchains that end early


class ChainEnds(NamedTuple):
    """Counts of user callchains.

    Attributes:
        chains: all callchains.
        early: callchains that end after their first frame, by its file.
    """

    chains: int
    early: Mapping[str, int]

    @property
    def matter(self) -> bool:
        """Whether most callchains end early."""
        return self.chains >= _FEW and sum(self.early.values()) * 2 > self.chains

    @property
    def files(self) -> list[str]:
        """Return the files in which most callchains end, most first."""
        ended = sum(self.early.values())
        names = [name for name, count in sorted(self.early.items(), key=lambda item: -item[1]) if count >= ended * _WORTH_NAMING]
        return [name for name in names if name.startswith("/") and not is_memory(name)][:_NAMED]

    def of_frame_pointers(self) -> str:
        """Return the note on callchains from the kernel; empty if most are longer."""
        whose = f": no frame pointers in {_short(self.files)}" if self.files else ""
        return f"{self._share()}{whose}; record --unwind has their callers" if self.matter else ""

    def of_stacks(self, missing: Iterable[str], machine: str, *, can_unwind: bool) -> str:
        """Return the note on callchains from copied stacks. `missing`: the files that are not available."""
        if not self.matter:
            return ""
        if not can_unwind:
            return f"{self._share()}: stacks of {machine} are not unwound here"
        lost = [name for name in self.files if name in set(missing)]
        if lost:
            return f"{self._share()}: not found, or of another build: {', '.join(lost)}; give --symfs, or install them"
        whose = f" in {_short(self.files)}" if self.files else ""
        return f"{self._share()}: no call frame information{whose}"

    def _share(self) -> str:
        return f"{sum(self.early.values()) * 100 // self.chains}% of the user call chains end after one frame"


def _short(names: list[str]) -> str:
    return ", ".join(map(os.path.basename, names))


# Callchains that end early because a recording's copies of the stack are too short.

_LARGEST: Final = 65528  # bytes of a copy: a record has at most 64 kB
_MANY: Final = 0.3  # share of truncated stacks above which copies of twice the size would not be enough


class TruncatedStacks(NamedTuple):
    """The number of callchains that end where the copy of their stack ends.

    Attributes:
        truncated: number of these callchains
        stacks: number of all callchains with a copy of this size
        size: bytes of a copy
        machine: the machine's name if none of its stacks could be unwound, else ""
    """

    truncated: int
    stacks: int
    size: int
    machine: str = ""


def truncation_note(counts: Iterable[TruncatedStacks]) -> list[str]:
    """Return the lines to print after a report; none if no stack was truncated.

    >>> truncation_note([TruncatedStacks(5, 10, 8192)])
    ['5 of 10 callchains (50.0%) end early, because copies of 8192 bytes do not hold their stacks; record with --call-graph dwarf,32768']
    """
    return [_line(count) for count in counts if count.truncated or count.machine]


def _line(count: TruncatedStacks) -> str:
    if count.machine:
        lack = plural(count.stacks, "callchain lacks its", "callchains lack their")
        return f"{count.stacks} {lack} user part: perfpy cannot unwind stacks of {count.machine}"
    share = count.truncated / max(count.stacks, 1)
    remedy = f"record with --call-graph dwarf,{larger(count.size, share)}" if count.size < _LARGEST else "larger copies are not possible"
    return (
        f"{count.truncated} of {count.stacks} callchains ({share:.1%}) end early, because "
        f"copies of {count.size} bytes do not hold their stacks; {remedy}"
    )


def larger(size: int, share: float) -> int:
    """Return the size of copies to record with if `share` of the stacks were truncated."""
    return min(size * (4 if share >= _MANY else 2), _LARGEST)
