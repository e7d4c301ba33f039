"""Encode the features of a recording as sections of another file derived from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.perfdata.container.features import FEATURE_NAMES, Feature, encode_feature, key_of
from perfpy.perfdata.container.kept_files import KEPT_FILES

if TYPE_CHECKING:
    from collections.abc import Collection

    from perfpy.abi.perf_records.build_id_record import HeaderBuildId
    from perfpy.perfdata.reader import PerfData

_OWN_FEATURES: Final = (Feature.TRACING_DATA, Feature.COMPRESSED)  # encoded separately; not true of the new file


def features_of(data: PerfData, build_ids: Collection[HeaderBuildId] | None = None) -> dict[int, bytes]:
    """Return the sections of all known features, by number.

    build_ids: replace the recording's own, if given.
    """
    features: dict[int, bytes] = {
        feature: encode_feature(feature, data.features[key_of(feature)], data.endian)
        for feature in FEATURE_NAMES
        if key_of(feature) in data.features and feature not in _OWN_FEATURES
    }
    if key_of(Feature.TRACING_DATA) in data.features:
        features[Feature.TRACING_DATA] = data.features[key_of(Feature.TRACING_DATA)]
    if KEPT_FILES in data.feature_sections:
        features[KEPT_FILES] = data.section(KEPT_FILES)
    if build_ids is not None:
        features[Feature.BUILD_ID] = encode_feature(Feature.BUILD_ID, tuple(build_ids), data.endian)
    return features
