"""The page of `perfpy trace --html` in a real browser: lanes, arguments, search, and names that are no markup."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from perfpy.tools.trace.calls import ENTER, EXIT, CallEvents, Pairing
from perfpy.tools.trace.lane_page import lane_page
from perfpy.tools.trace.lanes import LaneCalls, Lanes
from perfpy.tools.trace.totals import Totals
from tests.builders.browser import Browser

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MS = 1_000_000
READ, OPENAT = 0, 257
NAMES = {READ: "read", OPENAT: "openat"}
HOSTILE = "<img src=x onerror=alert(1)>\u202e</script>"


def page() -> str:
    """Two threads: 10 reads of 8 ms each by the first, an open that fails by the second."""
    lanes = Lanes()
    begin = np.arange(10, dtype=np.int64) * 10 * MS
    texts = np.array([lanes.text(b"read(fd: %d) = 1" % at) for at in range(10)], np.int64)
    zeros = np.zeros(10, np.int64)
    lanes.add(LaneCalls(begin, zeros + 8 * MS, zeros + lanes.lane(7, 7, "app"), zeros + READ, zeros.astype(np.bool_), texts))
    lane, text = lanes.lane(7, 8, HOSTILE), lanes.text(f'openat(filename: "{HOSTILE}") = -1 ENOENT'.encode())
    one = np.ones(1, np.int64)
    lanes.add(LaneCalls(one * 40 * MS, one * 20 * MS, one * lane, one * OPENAT, one > 0, one * text))
    totals = Totals()
    number = np.repeat(np.array([READ] * 10 + [OPENAT]), 2)
    time = np.concatenate([np.stack([begin, begin + 8 * MS], 1).ravel(), [100 * MS, 120 * MS]])
    tid, result = np.repeat(np.array([7] * 10 + [8], np.int32), 2), np.repeat([1] * 10 + [-2], 2)
    kind = np.tile(np.array([ENTER, EXIT], np.uint8), 11)
    arguments, row = np.zeros((22, 6), np.uint64), np.arange(22)
    events = CallEvents(kind, tid, tid, tid, time, row.astype(np.uint64), number, arguments, result, row)
    totals.add(Pairing(np.zeros(0, np.int64)).pair(events))
    return lane_page(lanes, totals, NAMES.__getitem__, HOSTILE, ["a note"])


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    folder = tmp_path_factory.mktemp("lanes")
    file: Path = folder / "lanes.html"
    file.write_text(page(), encoding="utf-8")
    with Browser(folder) as started:
        started.open(file)
        yield started
        assert not started.errors
        assert started.requests == [file.as_uri()]


def test_the_headline_and_the_table_add_up_all_calls(browser: Browser) -> None:
    assert browser.text("#headline") == "11 system calls of 2 threads in 98.000 ms; most time in read, 80.000 ms"
    rows = [row.split("\t")[:4] for row in browser.texts("#calls tbody tr")]
    assert rows == [["read", "10", "0", "80.000 ms"], ["openat", "1", "1", "20.000 ms"]]
    assert browser.texts("#notes li") == ["a note"]


def test_a_click_shows_arguments_and_names_are_no_markup(browser: Browser) -> None:
    """The second lane has one call in the middle of the time; its names come from a hostile program."""
    names, width, height = 190, *browser.box("#chart")[2:]
    middle = (names + (width - names) * 50 / 98) / width
    browser.click("#chart", middle, (20 + 24 * 1.5) / height)

    details = browser.text("#details")
    assert "openat\n" in details
    assert '"<img src=x onerror=alert(1)>\\u202e</script>") = -1 ENOENT' in details
    assert "20.000 ms" in details
    assert browser.run("document.images.length") == 0


def test_a_dragged_range_is_shown_and_escape_shows_all_again(browser: Browser) -> None:
    names, width = 190, browser.box("#chart")[2]
    at = [(names + (width - names) * ms / 98) / width for ms in (20.5, 27.5)]
    browser.drag("#chart", (at[0], 0.5), (at[1], 0.5))
    browser.click("#chart", 0.7, 0.4)
    assert "read(fd: 2) = 1" in browser.text("#details")

    browser.focus("#chart")
    browser.press("Escape")
    browser.click("#chart", (names + (width - names) * 4 / 98) / width, 0.4)
    assert "read(fd: 0) = 1" in browser.text("#details")


def test_a_search_and_a_row_count_the_calls_they_find(browser: Browser) -> None:
    browser.type("#search", "fd: [0-3]")
    assert browser.text("#selected") == "4 calls found"
    browser.type("#search", "")
    browser.click("#calls tbody tr:nth-child(2) button")
    assert browser.text("#selected") == "1 call found"
