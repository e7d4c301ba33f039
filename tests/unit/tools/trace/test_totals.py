"""Calls, errors and times are added up by thread and call."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from perfpy.abi.system_calls import numbers_by_name
from perfpy.tools.trace import totals
from perfpy.tools.trace.calls import ENTER, EXIT, CallEvents, PairedEvents, Pairing
from perfpy.tools.trace.descriptors import Descriptors, DescriptorTable, OpenFile, peer_address
from perfpy.tools.trace.totals import PATH, PEER, CallTotals, NamedTotals, ThreadRows, Totals
from tests.builders.call_events import CallEventList

if TYPE_CHECKING:
    from collections.abc import Sequence


def totals_of(calls: CallEventList, *, batch: int = 1000) -> Totals:
    totals, pairs, events = Totals(), Pairing(np.zeros(0, np.int64)), calls.events()
    for start in range(0, events.size, batch):
        totals.add(pairs.pair(events.take(slice(start, start + batch))))
    return totals


def durations(*times: int, result: int = 0) -> CallEventList:
    calls = CallEventList()
    for time in times:
        calls.enter(1, 0).exit(1, 0, result, after=time)
    return calls


def test_times_of_a_call_are_added():
    (call,) = totals_of(durations(1000, 3000)).by_thread()[1]

    assert (call.calls, call.total, call.least, call.most, call.mean) == (2, 4000, 1000, 3000, 2000)


def test_the_relative_error_is_that_of_the_mean():
    totals = totals_of(durations(1000, 3000))

    for rows in (totals.thread_rows(), ThreadRows.of_all_threads(totals.of_all())):
        assert rows.relative_errors().tolist() == pytest.approx([50.0])


def test_single_calls_and_calls_without_time_have_no_relative_error():
    for calls in (durations(1000), durations(0, 0)):
        assert totals_of(calls).thread_rows().relative_errors().tolist() == [0]


@pytest.mark.parametrize("batch", [1, 2, 3, 1000])
def test_batches_of_any_size_give_the_same_sums(batch):
    times = [100 * (number * 37 % 101 + 1) for number in range(50)]
    (call,) = totals_of(durations(*times), batch=batch).by_thread()[1]

    assert (call.calls, call.total) == (50, sum(times))
    assert call.squares == pytest.approx(np.var(times) * 50)


def test_negative_error_numbers_are_errors():
    (call,) = totals_of(durations(1000, 1000, result=-2)).by_thread()[1]

    assert (call.errors, call.errnos) == (2, {2: 2})


def test_large_negative_results_are_no_errors():
    (call,) = totals_of(durations(1000, result=-4096)).by_thread()[1]

    assert call.errors == 0


def test_a_return_without_entry_counts_with_no_time():
    (call,) = totals_of(CallEventList().exit(1, 59)).by_thread()[1]

    assert (call.number, call.calls, call.total) == (59, 1, 0)


def test_calls_of_all_threads_are_added():
    calls = CallEventList().call(1, 0).call(2, 0).call(2, 1)

    assert [(call.number, call.calls) for call in sorted(totals_of(calls).of_all(), key=lambda call: call.number)] == [(0, 2), (1, 1)]


def test_percentiles_are_within_three_percent():
    times = np.random.default_rng(1).lognormal(10, 2, 2000).astype(int) + 1
    (call,) = totals_of(durations(*times.tolist())).by_thread()[1]

    for share in (0.5, 0.9, 0.99):
        assert call.percentile(share) == pytest.approx(np.quantile(times, share, method="inverted_cdf"), rel=0.03)


def test_sums_of_two_parts_equal_the_whole():
    one, two = (totals_of(durations(*times)).by_thread()[1][0] for times in ((100, 200, 900), (50, 4000)))
    whole = totals_of(durations(100, 200, 900, 50, 4000)).by_thread()[1][0]
    joined: CallTotals = one.plus(two)

    assert joined._replace(squares=0.0) == whole._replace(squares=0.0)
    assert joined.squares == pytest.approx(whole.squares)


# Calls added up by file and by peer.


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
    monkeypatch.setattr(totals, "_MOST_NAMES", 2)
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
