"""Calls added up by file and by peer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from perfpy.abi.system_calls.numbers import numbers_by_name
from perfpy.tracing import named_totals
from perfpy.tracing.descriptor_rules import peer_address
from perfpy.tracing.descriptor_tables import DescriptorTable, OpenFile
from perfpy.tracing.descriptors import Descriptors
from perfpy.tracing.events import ENTER, EXIT, CallEvents
from perfpy.tracing.named_totals import PATH, PEER, NamedTotals
from perfpy.tracing.pairing import PairedEvents, Pairing

if TYPE_CHECKING:
    from collections.abc import Sequence

NUMBERS = numbers_by_name("x86_64")
SERVER = "{ .family: INET, port: 80, addr: 10.0.0.1 }"


def paired(calls: Sequence[tuple[str, tuple[int, ...], int]]) -> PairedEvents:
    """Return calls of process 1, one after the other: name, arguments, result. Each takes 10 ns."""
    count = 2 * len(calls)
    arguments = np.zeros((count, 6), np.uint64)
    for index, (_, values, _) in enumerate(calls):
        arguments[2 * index, : len(values)] = np.array(values, np.int64).view(np.uint64)
    ones = np.ones(count, np.int32)
    events = CallEvents(
        kind=np.tile(np.array([ENTER, EXIT], np.uint8), len(calls)),
        tid=ones,
        pid=ones,
        cpu=ones,
        time=10 * np.arange(1, count + 1),
        key=np.arange(1, count + 1).astype(np.uint64),
        number=np.repeat([NUMBERS[name] for name, _, _ in calls], 2),
        arguments=arguments,
        result=np.repeat([result for _, _, result in calls], 2),
        row=np.arange(count),
    )
    return Pairing(np.zeros(0, np.int64)).pair(events)


def table(
    kind: str, calls: Sequence[tuple[str, tuple[int, ...], int]], texts: dict[int, dict[int, str]]
) -> dict[str, tuple[int, int, int]]:
    """Return name -> calls, errors, bytes."""
    sums, batch, descriptors = NamedTotals(kind, "x86_64"), paired(calls), Descriptors("x86_64")
    descriptors.add_process(1, DescriptorTable({0: OpenFile("/dev/null"), 7: OpenFile("socket:[99]")}, "/home"))
    descriptors.follow(batch, texts)
    sums.add(batch, texts, descriptors.names_at(batch.events))
    return {sums.names[call.number]: (call.calls, call.errors, sums.bytes[call.number]) for call in sums.totals.of_all()}


def test_files_come_from_paths_and_descriptors():
    calls = [("openat", (-100, 1, 0), 3), ("read", (3,), 100), ("read", (3,), -5), ("read", (0,), 0), ("getpid", (), 1)]
    texts = {0: {1: "notes"}}

    assert table(PATH, calls, texts) == {"/home/notes": (3, 1, 100), "/dev/null": (1, 0, 0)}


def test_a_call_whose_path_is_unknown_has_no_file():
    """Without permission for BPF programs; the current folder would be an invention. "" is the folder itself (AT_EMPTY_PATH)."""
    calls = [("openat", (-100, 1, 0), 3), ("newfstatat", (-100, 1, 0), 0)]

    assert table(PATH, calls, {2: {1: ""}}) == {"/home": (1, 0, 0)}


def test_peers_come_from_connections_and_addresses():
    calls = [
        ("socket", (2, 1), 3),
        ("connect", (3, 1, 16), -115),
        ("sendto", (3, 1, 9), 9),
        ("accept4", (7, 1, 1), 4),
        ("read", (4,), 5),
        ("read", (0,), 6),
    ]
    texts = {2: {1: SERVER}, 6: {1: "{ .family: INET6, port: 9, addr: ::1, scope_id: 1 }"}}

    assert table(PEER, calls, texts) == {"TCP:10.0.0.1:80": (2, 1, 9), "[::1]:9": (1, 0, 0), "TCPv6:[::1]:9": (1, 0, 5)}


def test_names_are_bounded(monkeypatch: pytest.MonkeyPatch):
    """A program may open any number of files."""
    monkeypatch.setattr(named_totals, "_MOST_NAMES", 2)
    calls = [("unlink", (1,), 0)] * 5

    assert table(PATH, calls, {2 * index: {0: f"/{index}"} for index in range(5)}) == {
        "/0": (1, 0, 0),
        "/1": (1, 0, 0),
        "(others)": (3, 0, 0),
    }


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (SERVER, "10.0.0.1:80"),
        ("{ .family: LOCAL, path: /a }, b }", "/a }, b"),
        ("{ .family: LOCAL, path: { .family: INET, port: 1, addr: 1.1.1.1 } }", "{ .family: INET, port: 1, addr: 1.1.1.1 }"),
        ("{ .family: NETLINK }", ""),
        ("0x7f00", ""),
    ],
)
def test_an_address_is_that_of_its_family(text, address):
    assert peer_address(text) == address
