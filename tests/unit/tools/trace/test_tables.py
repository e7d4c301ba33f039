"""Percentiles and histograms of the times of calls."""

from __future__ import annotations

import json
import math

import numpy as np

from perfpy.tools.trace.call_text import CallTexts
from perfpy.tools.trace.calls import FollowedComms, Pairing
from perfpy.tools.trace.lines import LineOptions
from perfpy.tools.trace.tables import JsonCalls, json_summary, percentile_lines, row_texts
from perfpy.tools.trace.totals import CallTotals, ThreadRows, Totals
from tests.builders.call_events import CallEventList


def totals_of(*times: int) -> Totals:
    calls, totals = CallEventList(), Totals()
    for time in times:
        calls.enter(1, 0).exit(1, 0, after=time)
    totals.add(Pairing(np.zeros(0, np.int64)).pair(calls.events()))
    return totals


def read(_number: int) -> str:
    return "read"


def test_a_row_has_total_share_and_percentiles():
    lines = list(percentile_lines(totals_of(*[1_000_000] * 99, 100_000_000), read))

    words = lines[-1].split()
    assert words[:4] == ["read", "100", "0", "199.000"]
    assert 0.97 < float(words[5]) < 1.03
    assert float(words[8]) == 100


def test_a_histogram_counts_all_calls():
    lines = list(percentile_lines(totals_of(1000, 1000, 4000, 70_000), read, histograms=True))

    rows = [line for line in lines if " .. " in line]
    assert sum(int(row.split(" .. ")[1].split()[2]) for row in rows) == 4


def test_json_has_numbers_strings_and_text():
    calls, texts, names = CallEventList().call(1, 257, 0xFFFFFF9C, 0x1000, result=-2), CallTexts("x86_64"), FollowedComms()
    texts.strings = {0: {1: "/etc/passwd"}}

    (line,) = JsonCalls(LineOptions(as_json=True), texts, names).lines(Pairing(np.zeros(0, np.int64)).pair(calls.events())).lines()

    value = json.loads(line)
    assert (value["call"], value["duration"], value["result"], value["error"]) == ("openat", 1000, -2, "ENOENT")
    assert (value["arguments"]["dfd"], value["arguments"]["filename"]) == (0xFFFFFF9C, "/etc/passwd")
    assert value["text"] == 'openat(dfd: CWD, filename: "/etc/passwd")'


def test_json_of_a_return_without_entry_has_no_arguments():
    calls = CallEventList().exit(1, 59)

    (line,) = (
        JsonCalls(LineOptions(), CallTexts("x86_64"), FollowedComms()).lines(Pairing(np.zeros(0, np.int64)).pair(calls.events())).lines()
    )

    assert (json.loads(line)["arguments"], json.loads(line)["duration"]) == (None, None)


def test_json_tables_have_the_calls_of_each_thread():
    (line,) = json_summary(totals_of(1000, 3000), read, lambda _tid: "prog", of_all=False)

    value = json.loads(line)
    assert (value["tid"], value["comm"], value["call"], value["total"], value["max"]) == (1, "prog", "read", 4000, 3000)


def relative_error(call: CallTotals) -> float:
    """Return the standard error of the mean in percent of the mean."""
    return 100 * math.sqrt(call.squares / (call.calls - 1) / call.calls) / call.mean if call.calls > 1 and call.total else 0.0


def test_many_rows_have_the_texts_of_each_alone() -> None:
    numbers = np.random.default_rng(5)
    times = np.concatenate([np.arange(300) * 500, 10 ** numbers.uniform(0, 16, 2000)]).astype(np.int64)
    count, calls = len(times), np.arange(len(times)) % 7 + 1
    rows = ThreadRows(np.zeros(count, np.int64), calls, calls, calls * 0, times, times // calls, times, times.astype(np.float64), {})

    texts = row_texts(rows, lambda number: f"call{number}")

    alone = [
        CallTotals(number, number, 0, time, time // number, time, float(time), {}, {})
        for number, time in zip(calls.tolist(), times.tolist(), strict=True)
    ]
    assert texts == [
        f"   {f'call{call.number}':<15s} {call.calls:8d} {call.errors:6d} {call.total / 1e6:9.3f} {call.least / 1e6:9.3f}"
        f" {call.mean / 1e6:9.3f} {call.most / 1e6:9.3f} {relative_error(call):9.2f}%"
        for call in alone
    ]
