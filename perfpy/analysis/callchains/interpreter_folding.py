"""Count samples of interpreters for the functions that they run: `--fold-interpreters`.

Each sample moves to the innermost function of its callchain that was
named by a runtime; all code run by this function (the interpreter, its
libraries, extension modules, the kernel) counts for it. Callchains keep
the named functions, and their outer callers except those in runtimes and the C
library: a program that embeds an interpreter. Samples whose callchains
contain no named function are unchanged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfpy.abi.columns import Ragged
from perfpy.abi.flags import CONTEXT_USER, MISC_USER
from perfpy.analysis.samples.callchains import entries_of
from perfpy.symbols.interpreters import is_c_library, is_runtime

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.analysis.samples.sample_view import SampleView
    from perfpy.symbols.symbolizer import Symbolizer


def with_interpreters_folded(samples: SampleView) -> SampleView:
    """Return the samples with addresses and callchains replaced where a runtime named a function."""
    chains = samples.chains().gather()
    if not len(chains.values) or not any(dso.made_code for dso in samples.symbolizer.dsos):
        return samples
    rows, counts, modes = entries_of(chains)
    values = chains.values[rows]
    frames = samples.symbolizer.frame_ids(samples.column("pid"), values, samples.key, modes, counts)
    is_named, is_outside = _kinds(samples.symbolizer, frames)
    sample = np.repeat(np.arange(len(counts)), counts)
    innermost, outermost = _first_and_last(sample, is_named, len(counts))
    folds = innermost >= 0
    if not folds.any():
        return samples
    position = np.arange(len(values))
    mask = folds[sample] & (is_named | (is_outside & (position > outermost[sample])))
    columns = {**samples.columns, "callchain": _replace_chains(chains, folds, values[mask], sample[mask])}
    columns["ip"] = np.where(folds, values[innermost], samples.column("ip").astype(np.uint64))
    columns["cpumode"] = np.where(folds, MISC_USER, samples.columns["cpumode"]).astype(samples.columns["cpumode"].dtype)
    return samples.with_columns(columns)


def _kinds(symbolizer: Symbolizer, frames: NDArray[np.int32]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which frames are functions named by a runtime, and which are outside of runtimes and the C library."""
    dso = symbolizer.frames.dso[frames]
    # one entry more: the Dso -1
    is_runtime_code = np.array([bool(one.made_code) for one in symbolizer.dsos] + [False])
    outside = np.array([not (one.made_code or is_runtime(one) or is_c_library(one)) for one in symbolizer.dsos] + [False])
    return is_runtime_code[dso], outside[dso]


def _first_and_last(sample: NDArray[np.int64], chosen: NDArray[np.bool_], count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the positions of each sample's first and last chosen entry; -1 for samples without one."""
    first, last = np.full(count, -1, np.int64), np.full(count, -1, np.int64)
    positions = np.flatnonzero(chosen)
    last[sample[positions]] = positions
    first[sample[positions[::-1]]] = positions[::-1]
    return first, last


def _replace_chains(chains: Ragged, folds: NDArray[np.bool_], values: NDArray[np.uint64], sample: NDArray[np.int64]) -> Ragged:
    """Return the chains; those that fold consist of a marker and the given values; sample: the chain of each value."""
    lengths = np.where(folds, 1 + np.bincount(sample, minlength=len(folds)), chains.lengths)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    entries = np.full(int(offsets[-1]), CONTEXT_USER, np.uint64)
    is_new = np.repeat(folds, lengths)
    is_marker = np.zeros(len(entries), bool)
    is_marker[offsets[:-1][folds]] = True
    entries[is_new & ~is_marker] = values
    entries[~is_new] = chains.values[np.repeat(~folds, chains.lengths)]
    return Ragged(entries, offsets)
