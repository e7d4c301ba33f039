"""Map columns of addresses to frames, and frames to symbols.

Each (pid, ip, key, cpumode) of samples or callchain entries gets the int32 id of a distinct frame. The columns of `frames` (dso, address,
symbol) are valid after `resolve()`. Symbol tables and names are loaded only when they are needed.
"""

from __future__ import annotations

import numpy as np

from perfpy.abi.columns import Growing, distinct, rows_where
from perfpy.abi.flags import MISC_GUEST_KERNEL, MISC_GUEST_USER, MISC_KERNEL, MISC_RECORDED_USER, MISC_USER
from perfpy.abi.light_types import TYPE_CHECKING, NamedTuple, Protocol
from perfpy.symbols.address_spaces import NO_SPACE, TaskTimeline
from perfpy.symbols.dso import HOST, KERNEL_NAME, Dso, DsoKind, is_runtime
from perfpy.symbols.dso_symbols import SymbolLoader
from perfpy.symbols.files.debug_files import Inline, SymbolOptions
from perfpy.symbols.interning import IdTable
from perfpy.symbols.symbol_table import STT_OBJECT
from perfpy.symbols.tasks import GUEST_TASK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any, Final

    from numpy.typing import NDArray

    from perfpy.perfdata.kept_files import KeptFiles
    from perfpy.symbols.dso_symbols import KeptSymbols
    from perfpy.symbols.files.debug_files import DsoFiles, SharedFiles
    from perfpy.symbols.files.elf import ElfFile
    from perfpy.symbols.quality_notes import MissingSymbols, RefusedFile, UnreadableFile
    from perfpy.symbols.symbol_table import SymbolTable

    Ids = NDArray[np.int32]


_WIDTH: Final = np.uint64(32)
_END: Final = (1 << 64) - 1
_MIX: Final = np.uint64(0x9E3779B97F4A7C15)  # odd, so that different scenes stay different
_UNMIX: Final = np.uint64(pow(0x9E3779B97F4A7C15, -1, 1 << 64))
_OF_INLINED: Final = np.uint64(0xA3B195354A39B70D)
_NEVER: Final = -1
#: of the kernel, processes, others, the kernels and processes of guests, and processes' frames that stay apart from unwound ones
_LEVELS: Final = np.frombuffer(b"k.Hgu.", np.uint8)
_KERNEL_LEVEL, USER_LEVEL, _OTHER_LEVEL, _GUEST_LEVEL, _, _ = _LEVELS
_OF_KERNEL, _OF_USER, _OF_OTHER, _OF_GUEST_KERNEL, _OF_GUEST_USER, _OF_RECORDED_USER = range(len(_LEVELS))
_VIEW: Final = np.uint64(4)  # bits of a scene below its view
_LEVEL_BITS: Final = np.uint64(0b1110)
_NO_SCENE: Final = np.uint64(NO_SPACE << 4 | _OF_OTHER << 1)  # neither the kernel's nor the process's addresses


class Inliner(Protocol):
    """An expansion of callchains by inlined calls (perfpy.debuginfo.inlined_frames)."""

    def expand(
        self, frames: Ids, counts: NDArray[np.int64], *, callers_first: bool = False, calls: bool = False
    ) -> tuple[Ids, NDArray[np.int64]]:
        """Return callchains (frame ids, and frames per callchain) with inlined frames added; calls: whether all frames are callers."""

    def may_expand(self, number: int) -> bool:
        """Whether a dso may have inlined calls."""


class UserScenes(NamedTuple):
    """The scene of each sample's user-space addresses, and its rank: the number of preceding side-band records."""

    scene: NDArray[np.uint64]
    rank: NDArray[np.int32]


class FrameOrigins(NamedTuple):
    """The scene and address that identify each frame."""

    scene: NDArray[np.uint64]
    ip: NDArray[np.uint64]


class Symbolizer:
    """The symbols of a recording's addresses.

    A scene identifies the meaning of addresses: a view (see TaskTimeline), a level (kernel or user), and whether a mapping came later.

    Args:
        timeline: tasks and address spaces.
        options: where to search for symbols.
        loader: symbols loaded before.
        files: files stored in the recording.
        symbols: symbols of files that are not available.
        shared: files found for other recordings.

    Attributes:
        inliner: adds inlined frames to callchains; set by give_inlined.
        programs: returns the code and ELF machine of BPF programs, by name; set by the recording.
    """

    inliner: Inliner | None = None
    programs: Callable[[], Mapping[str, tuple[bytes, int]]] | None = None
    known_lines: LineColumns | None = None  #: source lines of frames, if they are resolved already
    last_valid_from: int  #: the highest rank from which any frame is valid

    def __init__(
        self,
        timeline: TaskTimeline,
        options: SymbolOptions | None = None,
        loader: SymbolLoader | None = None,
        *,
        files: KeptFiles | None = None,
        symbols: KeptSymbols | None = None,
        shared: SharedFiles | None = None,
    ) -> None:
        self._timeline = timeline
        self._options = options or SymbolOptions()
        self._loader = loader or SymbolLoader(timeline, self._options, files, symbols, shared)
        self.dsos: list[Dso] = timeline.dso_table.dsos
        self.frames = FrameTable()
        self.symbols = SymbolNames()
        self._scene_addresses = IdTable()  # keys that mix scene and address
        self._valid_from = Growing(np.int32)  # the rank from which each frame is valid (_NEVER: up to some rank)
        self._is_recorded = Growing(np.bool_)  # see is_recorded
        self.last_valid_from = 0
        self._symbol_ids = IdTable()
        self._spaces_with_files: dict[int, bool] = {}
        self._numbers_of_symbols = Growing(np.int32)  # symbols of inlined calls have numbers in between

    def frame_ids(
        self,
        pid: NDArray[Any],
        ip: NDArray[np.uint64],
        key: NDArray[np.uint64],
        cpumode: NDArray[np.uint8],
        counts: NDArray[np.int64] | None = None,
        *,
        are_data: bool = False,
    ) -> Ids:
        """Return the frame id of each address.

        Args:
            pid: of each sample.
            ip: addresses.
            key: the delivery key of each sample.
            cpumode: the low bits of misc (1 kernel, 2 user) for each address.
            counts: for callchains, the addresses of each sample; otherwise each sample has one.
            are_data: whether equal addresses of two processes differ, also if both have the same mappings.
        """
        rank = self._timeline.ranks(key)
        if counts is None:
            scene = self._scenes(pid, rank, cpumode, are_data=are_data)
        else:
            modes = (np.full(len(rank), mode, np.uint8) for mode in (MISC_USER, MISC_KERNEL))
            of_user, of_kernel = (_spread(self._scenes(pid, rank, mode), counts) for mode in modes)
            scene = np.where(cpumode == MISC_USER, of_user, np.where(cpumode == MISC_KERNEL, of_kernel, _NO_SCENE))
            if len(cpumode) and int(cpumode.max()) == MISC_RECORDED_USER:
                is_user = of_user & _LEVEL_BITS == np.uint64(_OF_USER << 1)  # not if the options are about guests alone
                recorded = np.where(is_user, of_user & ~_LEVEL_BITS | np.uint64(_OF_RECORDED_USER << 1), of_user)
                scene = np.where(cpumode == MISC_RECORDED_USER, recorded, scene)
            rank = _spread(rank, counts)
        return self._frames_at_rank(scene, rank, ip)

    def origins_since(self, first: int) -> FrameOrigins:
        """Return the origins of the frames from id `first` on. Another symbolizer of the recording can intern them."""
        ip = self.frames.ip[first:]
        return FrameOrigins((self._scene_addresses.keys[first:] ^ ip) * _UNMIX, ip)

    def origins(self, ids: Ids) -> FrameOrigins:
        """Return the origins of frames."""
        ip = self.frames.ip[ids]
        return FrameOrigins((self._scene_addresses.keys[ids] ^ ip) * _UNMIX, ip)

    def spaces_of(self, ids: Ids) -> NDArray[np.int64]:
        """Return the number of the address space of each frame."""
        view = (self.origins(ids).scene >> _VIEW).view(np.int64)
        return self._timeline.view_space[view].astype(np.int64)

    def intern(self, origins: FrameOrigins) -> Ids:
        """Return the frame ids of origins. New frames get ids in input order."""
        return self._intern(*origins)

    def companion(self) -> Symbolizer:
        """Return a symbolizer with the same files and frames of its own."""
        return Symbolizer(self._timeline, self._options, self._loader)

    def user_scenes(self, pid: NDArray[Any], key: NDArray[np.uint64]) -> UserScenes:
        """Return the scenes of samples' user-space addresses, for repeated use."""
        rank = self._timeline.ranks(key)
        return UserScenes(self._scenes(pid, rank, np.full(len(rank), MISC_USER, np.uint8)), rank)

    def has_files(self, scenes: UserScenes) -> NDArray[np.bool_]:
        """Return for each sample whether any file that its process ever mapped is available."""
        space = self._timeline.view_space[(scenes.scene >> _VIEW).view(np.int64)]
        present = distinct(space)
        space_has_file = np.array([self._maps_a_file(one) for one in present.tolist()], bool)
        has_file: NDArray[np.bool_] = space_has_file[np.searchsorted(present, space)]
        return has_file

    def _maps_a_file(self, space: int) -> bool:
        """Whether any file that a space or its ancestors ever mapped is available."""
        spaces, visited, has_file = self._timeline.spaces, [], False
        while space >= 0 and not has_file:
            visited.append(space)
            cached = self._spaces_with_files.get(space)
            if cached is not None:
                has_file = cached
                break
            has_file = any(map(self._has_file, spaces.dsos(space)))
            space = spaces.parent(space)
        self._spaces_with_files.update(dict.fromkeys(visited, has_file))
        return has_file

    def _has_file(self, number: int) -> bool:
        return self.dsos[number].kind in (DsoKind.FILE, DsoKind.VDSO) and self.files(number).runtime is not None

    def valid_from(self, ids: Ids) -> NDArray[np.int32]:
        """Return the rank from which each frame is valid; negative for frames valid before a later mapping."""
        ranks: NDArray[np.int32] = self._valid_from.values[ids]
        return ranks

    def is_recorded(self, ids: Ids) -> NDArray[np.bool_]:
        """Return a mask of the frames whose entries in callchains follow CONTEXT_RECORDED_USER, and of their copies."""
        mask: NDArray[np.bool_] = self._is_recorded.values[ids]
        return mask

    def frames_in(self, scenes: UserScenes, ip: NDArray[np.uint64], rows: NDArray[np.int64]) -> Ids:
        """Return the frames of addresses, one for each row of the scenes."""
        return self._frames_at_rank(scenes.scene[rows], scenes.rank[rows], ip)

    def _frames_at_rank(self, scene: NDArray[np.uint64], rank: NDArray[np.int32], ip: NDArray[np.uint64]) -> Ids:
        ids = self._intern(scene, ip)
        if not len(ids) or int(rank.min()) >= self.last_valid_from:
            return ids
        early = rows_where(rank < self._valid_from.values[ids])
        if len(early):  # the mapping is later than the sample: use the mapping before it
            ids[early] = self._intern(scene[early] | np.uint64(1), ip[early])
        return ids

    @property
    def folds_interpreters(self) -> bool:
        """Whether the options fold interpreters' own frames."""
        return bool(self._options.fold_interpreters)

    def fold_interpreters(self, ids: Ids, counts: NDArray[np.int64]) -> tuple[Ids, NDArray[np.int64]]:
        """Return callchains (frame ids, frames per callchain) without interpreters' own frames if the options request it."""
        if not self._options.fold_interpreters:
            return ids, counts
        return without_interpreters(ids, counts, self.frames.dso, self.dsos)

    def expand(
        self, ids: Ids, counts: NDArray[np.int64], *, callers_first: bool = False, calls: bool = False
    ) -> tuple[Ids, NDArray[np.int64]]:
        """Return callchains (as for `folded`) with inlined frames if there is an inliner; calls: whether all frames are callers."""
        return (ids, counts) if self.inliner is None else self.inliner.expand(ids, counts, callers_first=callers_first, calls=calls)

    def add_inlined(self, frames: Ids, symbols: Ids) -> Ids:
        """Append frames that differ from resolved ones in their symbols; return their ids."""
        table = self.frames
        ids = np.arange(len(table), len(table) + len(frames), dtype=np.int32)
        # Reserve ids with keys that no address has.
        self._scene_addresses.ids(ids.astype(np.uint64) * _MIX ^ _OF_INLINED)
        self._valid_from.append(np.zeros(len(frames), np.int32))
        self._is_recorded.append(self._is_recorded.values[frames])
        table.append_copies(frames, symbols)
        return ids

    def resolve(self) -> FrameTable:
        """Find the symbols of the frames added since the last call."""
        frames, first_new = self.frames, len(self.frames.symbol)
        self._bound_kernels(first_new)
        symbol = np.full(len(frames) - first_new, -1, np.int32)
        offset = np.zeros(len(symbol), np.uint64)
        for dso in distinct(frames.dso[first_new:]).tolist():
            table = self._loader.table(dso) if dso >= 0 else None
            if table is not None:
                rows = rows_where(frames.dso[first_new:] == dso)
                address = frames.address[first_new:][rows]
                row = table.find(address)
                hit = row >= 0
                symbol[rows[hit]] = self._symbol_numbers(table, dso, row[hit])
                offset[rows[hit]] = address[hit] - table.symbols.start[row[hit]]
        frames.extend(symbol=symbol, symbol_offset=offset)
        return frames

    def kernel_symbol(self, address: int) -> tuple[str, int] | None:
        """Return the symbol at a kernel address and the offset in it, at the end of the recording."""
        one = np.array([address], np.uint64)
        ids = self.frame_ids(np.array([-1], np.int32), one, np.array([_END], np.uint64), np.array([MISC_KERNEL], np.uint8))
        frames = self.resolve()
        symbol = int(frames.symbol[ids[0]])
        return None if symbol < 0 else (self.symbols.name(symbol), int(frames.symbol_offset[ids[0]]))

    def kernel_ranges(self, names: Iterable[str]) -> dict[str, tuple[int, int]]:
        """Return the start and the end of each named symbol that the kernel has."""
        kernel = self._timeline.kernel_dso
        table = self._loader.table(kernel) if kernel >= 0 else None
        return {name: extent for name in names if table is not None and (extent := table.range_of(name))}

    @property
    def kernel_code(self) -> str:
        """The file with the recorded kernel's code, if it was copied (record --kcore)."""
        return self._options.kernel_copy[1]

    def kernel_image(self) -> tuple[ElfFile, int] | None:
        """Return the vmlinux of the kernel's symbols and the distance of the recorded kernel from it, None for other sources."""
        return self._loader.kernel.image

    def in_memory(self, number: int, address: int) -> int:
        """Convert an address within a dso to the memory address of its first mapping."""
        spaces = self._timeline.spaces
        mapped = rows_where(spaces.dso == number)
        return (address - int(spaces.bias[mapped[0]])) % (1 << 64) if len(mapped) else address

    def running_kernel(self) -> int | None:
        """Return the distance of the recorded kernel from the running one, None if that is another kernel."""
        return self._loader.kernel.running_below

    def image(self, number: int) -> tuple[ElfFile, int] | None:
        """Return the file with debug information of the kernel or a module (index into `dsos`) and the offset of its frames."""
        kind = self.dsos[number].kind
        return self.kernel_image() if kind is DsoKind.KERNEL else self._loader.module_image(number) if kind is DsoKind.MODULE else None

    def module_code(self, number: int) -> tuple[ElfFile, int] | None:
        """Return the file with a module's code (index into `dsos`) and the offset of its frames, None if missing."""
        return self._loader.module_code(number)

    def files(self, number: int) -> DsoFiles:
        """Return the ELF files of a user-space dso (index into `dsos`)."""
        return self._loader.files(number)

    @property
    def root(self) -> str:
        """The folder that stands for /, "" for / itself."""
        return self._options.root

    @property
    def caches(self) -> bool:
        """Whether to use caches between runs."""
        return self._options.cache

    @property
    def inline(self) -> Inline:
        """Which callchains should get inlined frames."""
        return self._options.inline

    def shown_name(self, name: bytes) -> str:
        """Demangle a function name of the debug information."""
        return self._loader.demangle(name)

    def symbols_of(self, number: int, addresses: NDArray[np.uint64]) -> tuple[SymbolTable, NDArray[np.int64]]:
        """Return the symbols of a dso and the row of each address (-1 for none), without creating frames."""
        table = self._loader.table(number)
        return table, table.find(addresses)

    def has_grown(self, dso: int) -> bool:
        """Whether a dso's perf map has grown since it was read."""
        return self._loader.has_grown(dso)

    def found_files(self) -> dict[int, DsoFiles]:
        """Return the files that were searched so far, by dso."""
        return self._loader.found_files()

    def set_files(self, number: int, files: DsoFiles) -> None:
        """Set the files of a dso, found by an earlier Symbolizer of the recording."""
        self._loader.set_files(number, files)

    def origin(self, number: int) -> str:
        """Return perf's letter for the origin of a dso's symbols; valid after `resolve()`."""
        return self._loader.origin(number)

    def missing(self, samples: NDArray[Any]) -> list[MissingSymbols]:
        """Return the dsos with samples that have no symbol, most samples first; valid after `resolve()`.

        `samples`: int64[frames], samples by frame id.
        """
        frames = self.frames
        counts = np.zeros(len(frames), np.int64)
        counts[: len(samples)] = samples
        counts[frames.ip == 0] = 0  # samples without an address: waits without a stack
        lacks_symbol = (frames.symbol < 0) & (frames.dso >= 0) & (counts > 0)
        totals = np.bincount(frames.dso[lacks_symbol], weights=counts[lacks_symbol], minlength=len(self.dsos)).astype(np.int64)
        missing = [self._missing_of(number, int(totals[number])) for number in rows_where(totals).tolist()]
        if self._timeline.kernel_dso < 0:  # the kernel has no dso
            hidden = int(counts[(frames.symbol < 0) & (frames.dso < 0) & (frames.level == _KERNEL_LEVEL)].sum())
            if hidden:
                from perfpy.symbols.quality_notes import KERNEL_NOT_RECORDED, MissingSymbols

                missing.append(MissingSymbols(Dso(KERNEL_NAME, DsoKind.KERNEL), hidden, (), KERNEL_NOT_RECORDED))
        return sorted(missing, key=lambda item: -item.samples)

    def unusable(self) -> list[UnreadableFile | RefusedFile]:
        """Return the damaged files and those of other builds met so far."""
        return self._loader.unusable()

    def _missing_of(self, number: int, samples: int) -> MissingSymbols:
        from perfpy.symbols.quality_notes import MissingSymbols, advice  # most files have all symbols

        dso, loader = self.dsos[number], self._loader
        restricted = dso.kernel and loader.kernel.restricted
        text = advice(dso, restricted=restricted, is_found=loader.origin(number) != "!")
        return MissingSymbols(dso, samples, tuple(loader.searched_paths(number)), text)

    def _bound_kernels(self, first_new: int) -> None:
        """Replace the bounds of the kernels' mappings, which are arbitrary, by those of their symbols."""
        for kernel in self._timeline.kernels:
            level = _KERNEL_LEVEL if kernel.machine == HOST else _GUEST_LEVEL
            self._bound_kernel(first_new, kernel.dso, level, has_unmapped=kernel.machine == HOST)

    def _bound_kernel(self, first_new: int, kernel: int, level: np.uint8, *, has_unmapped: bool) -> None:
        """Do so for one kernel; has_unmapped: whether addresses without a mapping may be its own."""
        frames = self.frames
        dso = frames.dso[first_new:]  # a view of the column
        candidate = (frames.level[first_new:] == level) & ((dso == kernel) | ((dso < 0) & has_unmapped))
        if kernel < 0 or not candidate.any() or not (extent := self._loader.extent_of(kernel)):
            return
        start, end = extent
        inside = (frames.ip[first_new:] >= start) & (frames.ip[first_new:] < end)
        dso[candidate] = np.where(inside[candidate], kernel, -1)
        for column, bound in ((frames.map_start[first_new:], start), (frames.map_end[first_new:], end)):
            column[candidate] = np.where(inside[candidate], np.uint64(bound), np.uint64(0))

    def _scenes(
        self, pid: NDArray[Any], rank: NDArray[np.int32], cpumode: NDArray[np.uint8], *, are_data: bool = False
    ) -> NDArray[np.uint64]:
        """Return the scene of each sample: view * 16 + level * 2 (+ 1: before its mapping came)."""
        guests = self._options.guests
        if not guests.machines.host:
            cpumode = np.where(cpumode < MISC_GUEST_KERNEL, np.uint8(0), cpumode)
        user, kernel = cpumode == MISC_USER, cpumode == MISC_KERNEL
        view = np.full(len(rank), NO_SPACE, np.int32)
        level = np.where(kernel, _OF_KERNEL, np.where(user, _OF_USER, _OF_OTHER))
        if user.any():
            view = np.where(user, self._timeline.views(pid, rank), view)
            view = view if are_data else self._timeline.shared_views(view, rank)
        if kernel.any():
            view = np.where(kernel, self._timeline.kernel_views(rank), view)
        if guests.machines.guests and len(rank) and int(cpumode.max()) >= MISC_GUEST_KERNEL:
            of_kernel, of_user = rows_where(cpumode == MISC_GUEST_KERNEL), rows_where(cpumode == MISC_GUEST_USER)
            view[of_kernel] = self._timeline.guest_kernel_views(pid[of_kernel], rank[of_kernel])
            view[of_user] = self._timeline.views(pid[of_user].astype(np.int64) | GUEST_TASK, rank[of_user])
            level[of_kernel], level[of_user] = _OF_GUEST_KERNEL, _OF_GUEST_USER
        return (view.astype(np.uint64) << _VIEW) | (level.astype(np.uint64) << np.uint64(1))

    def _intern(self, scene: NDArray[np.uint64], ip: NDArray[np.uint64]) -> Ids:
        # A 64-bit address and a scene do not fit into a key. Two mixed keys collide once in 2^64 pairs.
        ids, new = self._scene_addresses.ids_and_new(ip ^ scene * _MIX)
        if len(new):
            self._add_frames(scene[new], ip[new])
        return ids

    def _add_frames(self, scene: NDArray[np.uint64], ip: NDArray[np.uint64]) -> None:
        timeline, spaces = self._timeline, self._timeline.spaces
        view = (scene >> _VIEW).astype(np.int64)
        early = (scene & np.uint64(1)).astype(bool)
        moment = np.where(early, timeline.view_first_rank[view], timeline.view_last_rank[view])
        mapping, valid_from = spaces.find(timeline.view_space[view], ip, moment.astype(np.int32))
        mapped = mapping >= 0
        dso = np.full(len(ip), -1, np.int32)
        bias, start, end = (np.zeros(len(ip), np.uint64) for _ in range(3))
        for column, source in ((dso, spaces.dso), (bias, spaces.bias), (start, spaces.map_start), (end, spaces.map_end)):
            column[mapped] = source[mapping[mapped]]
        valid_from[view >= timeline.first_shared_view] = 0
        valid_from[early] = _NEVER
        self._valid_from.append(valid_from)
        self.last_valid_from = max(self.last_valid_from, int(valid_from.max()))
        number = (scene & _LEVEL_BITS).astype(np.int64) >> 1
        level = _LEVELS[number]
        self._is_recorded.append(number == _OF_RECORDED_USER)
        self.frames.extend(ip=ip, level=level, dso=dso, address=ip + bias, map_start=start, map_end=end)

    def _symbol_numbers(self, table: SymbolTable, dso: int, row: NDArray[np.int64]) -> Ids:
        ids, new = self._symbol_ids.ids_and_new(np.uint64(dso) << _WIDTH | row.astype(np.uint64))
        first = len(self.symbols)
        self.symbols.extend(table, dso, row[new].tolist())
        self._numbers_of_symbols.append(np.arange(first, len(self.symbols), dtype=np.int32))
        numbers: Ids = self._numbers_of_symbols.values[ids]
        return numbers


def _spread(values: NDArray[Any], counts: NDArray[np.int64]) -> NDArray[Any]:
    """Repeat values by counts, or return one value if all are equal."""
    same = len(values) > 0 and bool((values == values[0]).all())
    return values[:1] if same else np.repeat(values, counts)


# Tables of the distinct frames of a recording, and of the symbols that they hit. The tables grow; row numbers are the ids of frames and
# symbols.
class FrameTable:
    """The distinct frames as columns, one row a frame.

    Attributes:
        ip: uint64.
        level: uint8, the letter that perf prints.
        dso: index into Symbolizer.dsos, -1 for none. This and the following columns are valid after `Symbolizer.resolve()`.
        address: uint64, within the dso; the ip without a mapping.
        symbol: id of Symbolizer.symbols, -1 for none.
        symbol_offset: uint64.
        map_start: uint64, 0 without a mapping.
        map_end: uint64, 0 without a mapping.
        called_from: for frames with inlined callees, the call's (offset of the unit in the debug information, file number in the unit's
            line
            program, line).
    """

    def __init__(self) -> None:
        self.ip = np.zeros(0, np.uint64)
        self.level = np.zeros(0, np.uint8)
        self.dso = np.zeros(0, np.int32)
        self.address = np.zeros(0, np.uint64)
        self.symbol = np.zeros(0, np.int32)
        self.symbol_offset = np.zeros(0, np.uint64)
        self.map_start = np.zeros(0, np.uint64)
        self.map_end = np.zeros(0, np.uint64)
        self.called_from: dict[int, tuple[int, int, int]] = {}
        self._columns = {name: Growing(values.dtype) for name, values in vars(self).items() if name != "called_from"}

    def __len__(self) -> int:
        return len(self.ip)

    def append_copies(self, rows: Ids, symbols: Ids) -> None:
        """Append copies of rows with other symbols."""
        self.extend(**{name: getattr(self, name)[rows] for name in self._columns if name != "symbol"}, symbol=symbols)

    def extend(self, **columns: NDArray[Any]) -> None:
        """Append rows, with some or all columns of the class by name."""
        for name, values in columns.items():
            column = self._columns[name]
            column.append(values)
            setattr(self, name, column.values)


class LineColumns(NamedTuple):
    """Source lines of frames, a row a frame.

    Attributes:
        paths: the paths that file numbers stand for; -1 is unknown.
        begins: file and line of each symbol.
        address: link-time address if `linked`.
        linked: whether the frame's file was available.
        file: of the frame's address.
        line: of the frame's address.
        caller_file: of the call before the frame's address.
        caller_line: of the call before the frame's address.
    """

    paths: list[str]
    begins: list[tuple[int, int]]
    address: NDArray[np.uint64]
    linked: NDArray[np.bool_]
    file: NDArray[np.int32]
    line: NDArray[np.int32]
    caller_file: NDArray[np.int32]
    caller_line: NDArray[np.int32]

    def take(self, frames: NDArray[Any]) -> LineColumns:
        """Select frames by id."""
        return LineColumns(self.paths, self.begins, *(column[frames] for column in self[2:]))


class SymbolNames:
    """The symbols of frames, by the ids of FrameTable.symbol."""

    def __init__(self) -> None:
        self._tables: list[SymbolTable] = []
        self._dso: list[int] = []
        self._row: list[int] = []
        self._names: list[str | None] = []
        self._inlined: dict[tuple[int, str], int] = {}
        self._outer: dict[int, int] = {}  # inlined function -> that into which it is inlined

    def __len__(self) -> int:
        return len(self._row)

    def name(self, symbol: int) -> str:
        """Return the name, demangled as perf prints it."""
        name = self._names[symbol]
        if name is None:
            name = self._names[symbol] = self._tables[symbol].name(self._row[symbol])
        return name

    def start(self, symbol: int) -> int:
        """Return the start, as an address within the dso."""
        return int(self._tables[symbol].symbols.start[self._row[symbol]])

    def end(self, symbol: int) -> int:
        """Return the end (exclusive), as an address within the dso."""
        return int(self._tables[symbol].symbols.end[self._row[symbol]])

    def is_data(self, symbol: int) -> bool:
        """Whether the symbol is an object, not a function."""
        return int(self._tables[symbol].symbols.type[self._row[symbol]]) == STT_OBJECT

    def is_inlined(self, symbol: int) -> bool:
        """Whether the symbol is a function inlined into another one, whose start and end it has."""
        return symbol in self._outer

    def outer(self, symbol: int) -> int:
        """Return the symbol into which a function is inlined, -1 for other functions."""
        return self._outer.get(symbol, -1)

    def inlined_into(self, symbol: int, name: str) -> int:
        """Return the symbol of a function inlined into a symbol, creating it on first use."""
        number = self._inlined.setdefault((symbol, name), len(self))
        if number == len(self):
            self._outer[number] = symbol
            self._tables.append(self._tables[symbol])
            self._dso.append(self._dso[symbol])
            self._row.append(self._row[symbol])
            self._names.append(name)
        return number

    def binding(self, symbol: int) -> int:
        """Return 0 for local, 1 for global, 2 for weak symbols."""
        return int(self._tables[symbol].symbols.binding[self._row[symbol]])

    def dso(self, symbol: int) -> int:
        """Return the dso, as an index into Symbolizer.dsos."""
        return self._dso[symbol]

    def functions(self) -> NDArray[np.int64] | None:
        """Return for each symbol the first one of the same function, None if dso and start identify functions."""
        return None

    def extend(self, table: SymbolTable, dso: int, rows: list[int]) -> None:
        """Append symbols, with consecutive ids."""
        self._tables += [table] * len(rows)
        self._dso += [dso] * len(rows)
        self._row += rows
        self._names += [None] * len(rows)


# Frames of an interpreter's program and libraries are removed if the callchain has frames that the interpreter named (in its perf map, or
# as images of its jitdump). Extension modules and the C library remain, as does the innermost frame, where the time was spent.


def without_interpreters(
    frames: NDArray[np.int32], counts: NDArray[np.int64], dso_of_frame: NDArray[np.int32], dsos: Sequence[Dso]
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Fold callchains (innermost frame first, `counts` frames each). `dso_of_frame`: by frame id, -1 for none."""
    if not len(frames):
        return frames, counts
    # The additional entry is for dso -1.
    interpreter = np.array([is_runtime(dso) for dso in dsos] + [False])
    is_runtime_code = np.array([bool(dso.made_code) for dso in dsos] + [False])
    dso = dso_of_frame[frames]
    chain = np.repeat(np.arange(len(counts)), counts)
    speaks = np.bincount(chain, weights=is_runtime_code[dso], minlength=len(counts)) > 0
    innermost = np.zeros(len(frames), np.bool_)
    innermost[(np.cumsum(counts) - counts)[counts > 0]] = True
    is_kept = ~(interpreter[dso] & speaks[chain]) | innermost
    return frames[is_kept], np.bincount(chain[is_kept], minlength=len(counts)).astype(np.int64)
