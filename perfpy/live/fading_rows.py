"""The rows of earlier windows, with falling weights, as perf top has them.

Each interval leaves 7/8 of every row (rounded down), so that a row without new samples fades and disappears.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.abi.columns import slices_index
from perfpy.analysis.aggregate.profile import Folded
from perfpy.analysis.samples.dimensions import DIMENSIONS
from perfpy.fleet.merging import Merging
from perfpy.views.top.rates import WINDOW

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.fleet.portable.profile import PortableProfile

_KEPT: Final = (7, 8)  # the share of a row that an interval leaves
_MOST_ROWS: Final = 20_000  # beyond it the smallest rows go first


def add_window(history: PortableProfile | None, window: PortableProfile) -> PortableProfile:
    """Return the rows of a window, and those of the windows before it with 7/8 of their weight."""
    faded = fade(history) if history is not None else None
    if faded is None or not len(faded.folded):
        return window
    merging = Merging()
    merging.add(window)
    merging.add(faded)
    return merging.result()


def fade(profile: PortableProfile) -> PortableProfile:
    """Return the rows with 7/8 of their weight, without rows that have none left, and without what only those referred to."""
    share, of = _KEPT
    rows = profile.folded
    period, count = rows.period * share // of, rows.count * share // of
    measures = {name: values * 0 if name == WINDOW else values * share // of for name, values in rows.measures.items()}
    chosen = period > 0
    if int(np.count_nonzero(chosen)) > _MOST_ROWS:
        least = np.partition(period, -_MOST_ROWS)[-_MOST_ROWS]
        chosen &= period >= max(int(least), 1)
    faded = Folded(rows.event, rows.filtered, rows.chain, rows.tid, period, count, rows.dimensions, measures)
    return select_rows(profile, faded.take(np.flatnonzero(chosen)))


def select_rows(profile: PortableProfile, rows: Folded) -> PortableProfile:
    """Return a profile with some of its rows, without chains, frames, symbols, files, comms and values that these do not use."""
    chains, chain_of = _renumber_used(rows.chain, len(profile.chain_lengths))
    lengths = profile.chain_lengths[chains]
    chain_frames = profile.chain_frames[slices_index(profile.offsets[chains], lengths)[0]]
    dimensions = dict(rows.dimensions)
    of_frames = [name for name in dimensions if name != "raw" and name not in profile.values and DIMENSIONS[name].table == "frame"]
    frames, frame_of = _renumber_used(np.concatenate([chain_frames, *(dimensions[name] for name in of_frames)]), len(profile.frames["ip"]))
    dimensions |= {name: frame_of[dimensions[name]] for name in of_frames}
    comms, values = profile.comms, {}
    for name in dimensions:
        if name in profile.values:
            used, number_of = _renumber_used(dimensions[name], len(profile.values[name]))
            dimensions[name], values[name] = number_of[dimensions[name]], [profile.values[name][index] for index in used.tolist()]
        elif name == "comm":
            used, number_of = _renumber_used(dimensions[name], len(comms))
            dimensions[name], comms = number_of[dimensions[name]], [comms[index] for index in used.tolist()]
    if "comm" not in dimensions:
        comms = []
    columns = {name: column[frames] for name, column in profile.frames.items()}
    symbols, symbol_of = _renumber_used(columns["symbol"], len(profile.symbols.names))
    columns["symbol"] = symbol_of[columns["symbol"]].astype(np.int32)
    table = profile.symbols.take(symbols.tolist())
    dsos, dso_of = _renumber_used(np.concatenate([columns["dso"], table.dso]), len(profile.dsos))
    columns["dso"] = dso_of[columns["dso"]].astype(np.int32)
    tids = set(rows.tid.tolist())
    return profile._replace(
        dsos=[profile.dsos[number] for number in dsos.tolist()],
        origins=[profile.origins[number] for number in dsos.tolist()],
        frames=columns,
        symbols=table._replace(dso=dso_of[table.dso].astype(np.int32)),
        chain_frames=frame_of[chain_frames].astype(np.int32),
        chain_lengths=lengths,
        comms=comms,
        last_comms={tid: comm for tid, comm in profile.last_comms.items() if tid in tids},
        folded=rows.with_dimensions(dimensions).with_chains(chain_of[rows.chain]),
        values=values,
        lines=None if profile.lines is None else profile.lines.take(frames),
    )


def _renumber_used(numbers: NDArray[Any], count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the numbers in use, and the new number of each old one; -1 stays."""
    mask = np.zeros(count + 1, np.bool_)
    mask[numbers] = True
    mask[-1] = False  # -1: none
    used = np.flatnonzero(mask)
    number_of = np.full(count + 1, -1, np.int64)
    number_of[used] = np.arange(len(used))
    return used, number_of
