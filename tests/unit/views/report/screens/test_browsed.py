"""Tests of the model of the interactive report, without a screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from perfpy.recording import Recording
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.views.report.screens.browsed import BrowsedReport, Filter
from tests.builders.long_names import OWNER, SORT, recording_with_long_names

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Browse = Callable[..., BrowsedReport]


@pytest.fixture
def browse(corpus: Path, tmp_path: Path) -> Browse:
    def model(name: str, by: tuple[str, ...] | None = None) -> BrowsedReport:
        with Recording(str(corpus / "recorded" / f"{name}.data")) as recording:
            symbols = SymbolOptions(symfs=str(tmp_path), cache=False)
            return BrowsedReport(recording.report(by, callers=by is None, symbols=symbols))

    return model


def texts(model: BrowsedReport, key: str) -> set[str]:
    return {model.histogram.text(key, entry) for entry in model.rows()}


def test_zooming_keeps_the_rows_of_one_file_and_zooming_again_shows_all(browse: Browse) -> None:
    model = browse("fp-a")
    every = model.rows()
    assert len(texts(model, "dso")) > 1
    assert model.zoom("dso", every[0])
    assert texts(model, "dso") == {model.histogram.text("dso", every[0])}
    assert model.zoom("dso", every[0])
    assert model.rows() == every


def test_without_a_column_of_threads_zooming_uses_the_command(browse: Browse) -> None:
    by_command, by_thread = browse("mt-a"), browse("mt-a", ("pid", "comm"))
    assert by_command.zoom_thread(by_command.rows()[0])
    assert [condition.key for condition in by_command.filters] == ["comm"]
    assert by_thread.zoom_thread(by_thread.rows()[0])
    assert [condition.key for condition in by_thread.filters] == ["pid"]


def test_zooming_needs_a_column(browse: Browse) -> None:
    model = browse("mt-a", ("symbol",))
    assert not model.zoom("dso", model.rows()[0])
    assert not model.filters


def test_filters_are_removed_one_by_one(browse: Browse) -> None:
    model = browse("fp-a")
    every = model.rows()
    model.zoom("comm", every[0])
    model.keep_symbols("0x")
    model.keep_symbols("55")
    assert model.filters == [Filter("comm", model.histogram.text("comm", every[0])), Filter("symbol", "55", part=True)]
    assert model.back()
    assert model.back()
    assert not model.back()
    assert model.rows() == every


def test_searches_ignore_case() -> None:
    assert Filter("symbol", "MALLOC", part=True).keeps("[.] _int_malloc")
    assert not Filter("symbol", "malloc").keeps("[.] malloc")


def test_the_title_has_the_share_of_the_filtered_rows(browse: Browse) -> None:
    model = browse("multi-a")
    assert "of 5 events" in model.title(model.rows())
    model.keep_symbols("no such function")
    assert "only symbol *no such function*: 0.00%" in model.title(model.rows())


def test_the_last_event_is_followed_by_the_first(browse: Browse) -> None:
    model = browse("multi-a")
    first = model.histogram
    names = []
    for _ in range(5):
        names.append(model.histogram.leader.event.name)
        model.turn(1)
    assert model.histogram is first
    assert len(set(names)) == 5
    model.turn(-1)
    assert model.histogram.leader.event.name == names[-1]


def test_lines_have_the_values_of_the_plain_report(browse: Browse) -> None:
    from perfpy.views.report.column_text import TextOptions
    from perfpy.views.report.text import table_lines

    model = browse("mt-a", ("comm", "dso", "symbol"))
    plain = [line.split() for line in table_lines(model.histogram, TextOptions()) if line and not line.startswith("#")]
    common = [text.split()[-1] for text in model.common]
    for words, entry in zip(plain, model.rows(), strict=True):
        actual_words = model.line(entry, 300).plain.replace("[kernel]", "[kernel.kallsyms]").split()
        assert [word for word in words if word not in (*common, "[.]", "[k]")] == [word for word in actual_words if word.strip("█▏▎▍▌▋▊▉")]


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_lines_and_heading_fit_the_window_and_their_columns_each_other(browse: Browse, width: int) -> None:
    model = browse("mt-a", ("comm", "dso", "symbol"))
    lines = [model.line(entry, width).plain for entry in model.rows()]
    assert max(map(len, [*lines, model.heading(width)])) <= width
    start = model.heading(width).index("Symbol")
    assert all(line[start - 1] == " " and line[start] != " " for line in lines)


def test_rows_can_be_sorted_by_own_share(browse: Browse) -> None:
    model = browse("fp-a")
    with_callees = model.rows()
    model.sort_by_own()
    own = [model.histogram.percent("period", entry) for entry in model.rows()]
    assert own == sorted(own, reverse=True)
    assert model.heading(120).split()[:2] == ["Self", "Children"]
    model.sort_by_own()
    assert model.rows() == with_callees
    assert model.heading(120).split()[:2] == ["Children", "Self"]


def test_calls_have_a_line_for_each_function_and_the_last_can_be_opened(browse: Browse) -> None:
    model = browse("fp-a")
    nodes = model.histogram.calls(model.rows()[0])
    lines = model.calls(nodes)
    assert len(lines) == sum(len(node.frames) for node in nodes) > 0
    assert sum(line.share is not None for line in lines) == len(nodes)
    assert [line.below for line in lines if line.below] == [node.children for node in nodes if node.children]


def test_searches_wrap_around(browse: Browse) -> None:
    model = browse("mt-a", ("comm", "dso", "symbol"))
    rows = model.rows()
    names = [model.histogram.text("symbol", row) for row in rows]
    only = next(number for number, name in enumerate(names) if number and names.count(name) == 1)
    assert model.find(names[only].upper(), rows, only + 1) == only
    assert model.find("no such row", rows, 0) is None
    assert model.find("x", [], 0) is None


def test_a_report_without_samples_cannot_be_browsed(browse: Browse) -> None:
    with pytest.raises(ValueError, match="without samples"):
        browse("nosamples-a")


def test_names_are_short_or_full_and_hidden_parts_are_found(tmp_path: Path) -> None:
    with Recording(str(recording_with_long_names(tmp_path))) as recording:
        model = BrowsedReport(recording.report(callers=True, symbols=SymbolOptions(symfs=str(tmp_path), cache=False)))
    rows = model.rows()
    row = next(index for index, entry in enumerate(rows) if SORT[1] in model.histogram.text("symbol", entry))
    short = model.line(rows[row], 200).plain.rstrip()
    assert short.endswith(SORT[2])
    assert [line.name for line in model.calls(model.histogram.calls(rows[row]))] == [OWNER[2], SORT[2]]
    assert model.find("_iter_less_iter>(int*", rows, 0) == row
    model.full_names = True
    model.rows()
    assert model.line(rows[row], 400).plain.rstrip().endswith(SORT[1])
    assert model.whole(rows[row]).endswith(SORT[1])
    assert [line.name for line in model.calls(model.histogram.calls(rows[row]))] == [OWNER[1], SORT[1]]
