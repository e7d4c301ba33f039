"""What is known of a recording before its records: events and features, from wherever they are read.

What enters: decoded parts, from the tables of a file (perfpy.perfdata.file_preamble) or the records of a pipe
(perfpy.perfdata.records.pipe_preamble). What leaves: a Preamble.
"""

from __future__ import annotations

from perfpy.perfdata.container.features import FEATURE_NAMES, Feature, decode_feature, key_of

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from perfpy.abi import user_records
    from perfpy.abi.attr import EventAttr
    from perfpy.perfdata.container.header import FileSection

    Warn = Callable[[str], None]


class Preamble:
    """data: where the records are; events: attrs and their ids; features: name -> value.

    feature_sections: the sections of all features present, also of those that
    are not known here (a pipe's have no offset in the file: 0);
    updates: what a pipe's EVENT_UPDATE records say of the events; attr_records:
    a pipe's records that announce the events, header and all.
    """

    def __init__(self, data: FileSection) -> None:
        self.data = data
        self.events: list[tuple[EventAttr, tuple[int, ...]]] = []
        self.features: dict[str, Any] = {}
        self.feature_sections: dict[int, FileSection] = {}
        self.updates: list[user_records.EventUpdate] = []
        self.attr_records: list[bytes] = []

    def add_feature(self, number: int, data: bytes, endian: str, warn: Warn) -> None:
        """Decode a feature; one that is not known here is only listed, one that is damaged left out with a warning."""
        if number not in FEATURE_NAMES:
            return
        try:
            count = self.features.get(key_of(Feature.NRCPUS))
            self.features[key_of(number)] = decode_feature(number, data, endian, cpus=count.available if count else None)
        except ValueError as error:
            warn(f"feature {FEATURE_NAMES[number]}: {error}; left out")
