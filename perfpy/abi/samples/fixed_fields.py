"""The fields at the beginning of samples, one 8-byte word each. Layout: PERF_RECORD_SAMPLE in include/uapi/linux/perf_event.h."""

from __future__ import annotations

from perfpy.abi.flags import SampleType

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from typing import Final

#: in layout order: the bit, and the column of the word, or those of its two halves ("" for an unused half)
FIXED_FIELDS: Final[tuple[tuple[int, tuple[str, ...]], ...]] = (
    (SampleType.IDENTIFIER, ("identifier",)),
    (SampleType.IP, ("ip",)),
    (SampleType.TID, ("pid", "tid")),
    (SampleType.TIME, ("time",)),
    (SampleType.ADDR, ("addr",)),
    (SampleType.ID, ("id",)),
    (SampleType.STREAM_ID, ("stream_id",)),
    (SampleType.CPU, ("cpu", "")),
    (SampleType.PERIOD, ("period",)),
)


def words_before(sample_type: int, field: int = 0) -> int:
    """Return the number of 8-byte words before one of these fields, header included; 0 means before the variable fields."""
    words = 1
    for bit, _ in FIXED_FIELDS:
        if bit == field:
            break
        words += bool(sample_type & bit)
    return words
