"""The events and features of a recording, before any record is read.

perfpy.perfdata.file_preamble fills it from the tables of a file, perfpy.perfdata.records.pipe_preamble from records of a pipe.
"""

from __future__ import annotations

from perfpy.perfdata.container.features import FEATURE_NAMES, Feature, decode_feature, key_of

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from perfpy.abi.attr import EventAttr
    from perfpy.abi.perf_records import user_records
    from perfpy.perfdata.container.header import FileSection

    Warn = Callable[[str], None]


class Preamble:
    """The events and features of a recording.

    Attributes:
        data: the section of the records.
        events: attrs and their ids.
        features: name -> value.
        feature_sections: the sections of all features, unknown ones included (offset 0 in pipes).
        updates: EVENT_UPDATE records of a pipe.
        attr_records: a pipe's HEADER_ATTR records, header included.
    """

    def __init__(self, data: FileSection) -> None:
        self.data = data
        self.events: list[tuple[EventAttr, tuple[int, ...]]] = []
        self.features: dict[str, Any] = {}
        self.feature_sections: dict[int, FileSection] = {}
        self.updates: list[user_records.EventUpdate] = []
        self.attr_records: list[bytes] = []

    def add_feature(self, number: int, data: bytes, endian: str, warn: Warn) -> None:
        """Decode a feature. Ignore an unknown one, and skip a damaged one with a warning."""
        if number not in FEATURE_NAMES:
            return
        try:
            count = self.features.get(key_of(Feature.NRCPUS))
            self.features[key_of(number)] = decode_feature(number, data, endian, cpus=count.available if count else None)
        except ValueError as error:
            warn(f"feature {FEATURE_NAMES[number]}: {error}; skipped")
