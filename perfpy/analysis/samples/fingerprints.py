"""Hash samples by the properties that distinguish them, as 64-bit numbers.

The hashes use recorded data only: so samples can be grouped first, and
symbols, comms and mappings be looked up once for each group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.analysis.samples.row_hashes import combine_columns, row_fingerprints

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from perfpy.analysis.samples.sample_view import SampleView


def _payload_fingerprints(samples: SampleView) -> NDArray[np.uint64]:
    return row_fingerprints(samples.payloads())


_OF_TASK: Final = frozenset(("comm", "mode_space", "space"))
_FINGERPRINTS: Final[dict[str, Callable[[SampleView], NDArray[np.generic]]]] = {
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
