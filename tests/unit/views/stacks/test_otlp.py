"""OpenTelemetry profiles, read by the published protocol's own code where it is installed."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from perfpy.views.stacks.otlp import Origin, otlp
from tests.builders.stacks import At, stacks, timed_stacks

MS = 1_000_000
ORIGIN = Origin(1_700_000_000_000_000_000, 10 * MS, 30 * MS, {"host.name": "web-1", "os.type": "linux"}, "0.1")


def read(data: bytes) -> Any:
    """The message, by the package opentelemetry-proto (extra dev)."""
    reason = "opentelemetry-proto is not installed"
    profiles = pytest.importorskip("opentelemetry.proto.profiles.v1development.profiles_pb2", reason=reason)
    return profiles.ProfilesData.FromString(data)


def stack_of(found: Any, sample: Any) -> list[tuple[str, str, str]]:
    """The frames of a sample: name, file, kind."""
    tables = found.dictionary
    frames = []
    for index in tables.stack_table[sample.stack_index].location_indices:
        location = tables.location_table[index]
        function = tables.function_table[location.lines[0].function_index]
        module = tables.mapping_table[location.mapping_index].filename_strindex
        kind = tables.attribute_table[location.attribute_indices[0]].value.string_value
        frames.append((tables.string_table[function.name_strindex], tables.string_table[module], kind))
    return frames


def attributes_of(found: Any, sample: Any) -> dict[str, object]:
    tables = found.dictionary
    entries = [tables.attribute_table[index] for index in sample.attribute_indices]
    return {tables.string_table[one.key_strindex]: one.value.int_value or one.value.string_value for one in entries}


def test_a_sample_is_a_stack_of_a_thread_with_its_times_and_weights() -> None:
    part = timed_stacks(
        [At("app;main;hot", 10 * MS, 1 * MS, 7, 8), At("app;main", 20 * MS, 2 * MS, 7, 7), At("app;main;hot", 40 * MS, 3 * MS, 7, 8)]
    )
    message = read(otlp([part], ORIGIN))
    (profile,) = message.resource_profiles[0].scope_profiles[0].profiles
    tables = message.dictionary
    assert tables.string_table[profile.sample_type.type_strindex] == part.event
    assert tables.string_table[profile.sample_type.unit_strindex] == "nanoseconds"
    hot, main = profile.samples
    assert [name for name, _, _ in stack_of(message, hot)] == ["hot", "main"]
    assert stack_of(message, main)[0][1:] == (part.functions[0].dso, "native")
    assert list(hot.values) == [MS, 3 * MS]
    assert [time - ORIGIN.started for time in hot.timestamps_unix_nano] == [0, 30 * MS]
    assert attributes_of(message, hot) == {"process.pid": 7, "thread.id": 8, "thread.name": "app"}
    assert (profile.time_unix_nano, profile.duration_nano) == (ORIGIN.started, 30 * MS)


def test_a_resource_has_its_attributes_and_tables_begin_empty() -> None:
    message = read(otlp([timed_stacks([At("app;main", 10 * MS)])], ORIGIN))
    assert {one.key: one.value.string_value for one in message.resource_profiles[0].resource.attributes} == dict(ORIGIN.resource)
    tables = message.dictionary
    for table in (tables.mapping_table, tables.location_table, tables.function_table, tables.stack_table, tables.attribute_table):
        assert table[0] == type(table[0])()
    assert tables.string_table[0] == ""


def test_events_are_profiles_and_the_kernel_is_distinguished() -> None:
    part = timed_stacks([At("app;main;copy", 10 * MS)])
    part = dataclasses.replace(part, functions=[one._replace(kernel=one.name == "copy") for one in part.functions])
    faults = timed_stacks([At("app;main", 20 * MS, 1)], "page-faults", in_seconds=False)
    message = read(otlp([part, faults], ORIGIN))
    first, second = message.resource_profiles[0].scope_profiles[0].profiles
    assert [kind for _, _, kind in stack_of(message, first.samples[0])] == ["kernel", "native"]
    assert message.dictionary.string_table[second.sample_type.unit_strindex] == "count"


def test_hostile_names_are_values() -> None:
    message = read(otlp([timed_stacks([At("a\udcff\x1b;f\udc80<", 10 * MS)])], ORIGIN))
    assert "f?<" in message.dictionary.string_table


def test_samples_without_times_are_refused() -> None:
    with pytest.raises(ValueError, match="times"):
        otlp([stacks("a;f 1")], ORIGIN)
