"""How the callchains of a report end, for the note if most of them are useless."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from perfpy.abi.flags import BranchSample, SampleType
from perfpy.perfdata.container.features import Feature, key_of
from perfpy.symbols.short_callchains import ChainEnds
from perfpy.symbols.symbolizer import USER_LEVEL

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.analysis.aggregate.profile import Profile
    from perfpy.perfdata.sample_source import SampleSource
    from perfpy.symbols.symbolizer import Symbolizer

_ABI_32, _ABI_64 = 1, 2  # PERF_SAMPLE_REGS_ABI_*


def chain_ends(profile: Profile, symbolizer: Symbolizer, *, of_stacks: bool) -> ChainEnds:
    """Return how the user part of all callchains ends. of_stacks: it comes from copied stacks."""
    if profile.chains is None:
        return ChainEnds(0, {})
    frames, offsets = profile.chains.chains()
    weights = np.bincount(profile.folded.chain, weights=profile.folded.count, minlength=len(offsets) - 1).astype(np.int64)
    table = symbolizer.frames
    entries = np.flatnonzero(table.level[frames] == USER_LEVEL)
    chain = np.searchsorted(offsets, entries, side="right") - 1
    first = np.flatnonzero(np.diff(chain, prepend=-1))  # of each chain the innermost user frame
    chain, entry = chain[first], entries[first]
    following = np.minimum(entry + 1, max(len(frames) - 1, 0))
    goes_on = (following < offsets[1:][chain]) & (following > entry) & (table.dso[frames[following]] >= 0)
    ended = np.bincount(table.dso[frames[entry]][~goes_on] + 1, weights=weights[chain[~goes_on]], minlength=len(symbolizer.dsos) + 1)
    alone = _without_chain(profile, symbolizer, chain) if of_stacks else np.zeros(len(ended), np.int64)
    early = (ended + alone).astype(np.int64)
    names = {symbolizer.dsos[number - 1].name if number else "": int(early[number]) for number in np.flatnonzero(early).tolist()}
    return ChainEnds(int(weights[chain].sum() + alone.sum()), names)


def _without_chain(profile: Profile, symbolizer: Symbolizer, chains_with_frames: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count the samples of user space without a user frame in their callchains, by dso + 1; known: the chains with user frames."""
    folded, table = profile.folded, symbolizer.frames
    frame = folded.dimensions.get("frame")
    count = len(symbolizer.dsos) + 1
    if frame is None:
        return np.zeros(count, np.int64)
    rows = np.flatnonzero((table.level[frame] == USER_LEVEL) & ~np.isin(folded.chain, chains_with_frames))
    return np.bincount(table.dso[frame[rows]] + 1, weights=folded.count[rows], minlength=count).astype(np.int64)


def chain_note(data: SampleSource, profile: Profile, symbolizer: Symbolizer) -> str:
    """Return the note on callchains; empty if they are useful, or not part of the report."""
    if any(event.attr.branch_sample_type & BranchSample.CALL_STACK for event in data.events):
        return ""
    of_stacks = data.has(SampleType.STACK_USER)
    ends = chain_ends(profile, symbolizer, of_stacks=of_stacks)
    if not ends.matter:
        return ""
    if not of_stacks:
        return ends.of_frame_pointers()
    from perfpy.unwind.architectures import architecture  # few recordings have stacks

    numbers = {dso.name: number for number, dso in enumerate(symbolizer.dsos)}
    missing = [name for name in ends.files if symbolizer.files(numbers[name]).runtime is None]
    machine = data.features.get(key_of(Feature.ARCH)) or os.uname().machine
    can_unwind = any(architecture(machine, abi) for abi in (_ABI_32, _ABI_64))
    return ends.of_stacks(missing, machine, can_unwind=can_unwind)
