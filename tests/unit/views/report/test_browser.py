"""Tests of the browser, driven by its keys."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

import pytest

from perfpy.recording import Recording
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.views.report.browser import BrowsedReport, Filter
from tests.builders.hostile_names import FORGED, hostile, hostile_program, hostile_recording
from tests.builders.long_names import OWNER, SORT, recording_with_long_names

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rich.text import Text

    Browse = Callable[..., BrowsedReport]


pytest.importorskip("textual", reason="the extra perfpy[tui] is not installed")


class Screen(NamedTuple):
    """The screen: title, lines indented by depth, the number of the current line, and whether the list of keys is shown."""

    title: str
    lines: list[str]
    cursor: int
    help: bool


#: recording and keys -> the screen: starting the browser takes most of a test's time
_SCREENS: dict[tuple[Path, tuple[str, ...]], Screen] = {}


def driven(path: Path, tmp_path: Path, *keys: str) -> Screen:
    """Return the screen after some keys. The screens after the first ones are kept for later calls."""
    from textual.widgets import Static

    from perfpy.views.report.browser import KeyHelp, ReportBrowser

    def screen(app: ReportBrowser) -> Screen:
        explained = isinstance(app.screen, KeyHelp)
        if explained:
            app.pop_screen()
        table = app.table
        lines = [table.text(number, 300).plain.rstrip() for number in range(len(table.lines))]
        return Screen(str(app.query_one("#title", Static).content), lines, table.cursor, explained)

    async def run() -> None:
        with Recording(str(path)) as recording:
            report = recording.report(callers=True, symbols=SymbolOptions(symfs=str(tmp_path), cache=False))
            app = ReportBrowser(report)
            async with app.run_test(size=(120, 40)) as pilot:
                await pilot.pause()
                for count, key in enumerate(keys):
                    if not isinstance(app.screen, KeyHelp):
                        _SCREENS[path, keys[:count]] = screen(app)
                    await pilot.press(key)
                    await pilot.pause()
                _SCREENS[path, keys] = screen(app)

    if (path, keys) not in _SCREENS:
        asyncio.run(run())
    return _SCREENS[path, keys]


@pytest.fixture
def chains(corpus: Path) -> Path:
    return corpus / "recorded" / "fp-a.data"


@pytest.fixture
def events(corpus: Path) -> Path:
    return corpus / "recorded" / "multi-a.data"


def test_rows_equal_the_report(chains: Path, tmp_path: Path) -> None:
    result = driven(chains, tmp_path)
    assert result.title.startswith("cpu-clock: 168 samples")
    assert result.lines[0].split()[:3] == ["▶", "100.00%", "0.00%"]
    assert result.cursor == 0


@pytest.mark.parametrize("key", ["enter", "plus", "right"])
def test_a_row_opens_to_its_calls_and_closes(key: str, chains: Path, tmp_path: Path) -> None:
    twice, closed, opened = (driven(chains, tmp_path, *keys).lines for keys in ((key, key), (), (key,)))
    assert len(opened) > len(closed)
    assert opened[1].startswith("  ")
    assert twice == closed
    assert driven(chains, tmp_path, key, "minus").lines == closed


def test_e_opens_all_levels_and_c_closes_from_anywhere_within(chains: Path, tmp_path: Path) -> None:
    shut = driven(chains, tmp_path, "e", "down", "down", "c")
    closed, one, every = (driven(chains, tmp_path, *keys).lines for keys in ((), ("enter",), ("e",)))
    assert len(every) > len(one)
    assert any(line.startswith("    ") for line in every)
    assert (shut.lines, shut.cursor) == (closed, 0)


def test_capitals_open_and_close_all_rows(chains: Path, tmp_path: Path) -> None:
    shut, closed, one, every = (driven(chains, tmp_path, *keys).lines for keys in (("E", "C"), (), ("e",), ("E",)))
    assert len(every) > len(one)
    assert shut == closed


@pytest.mark.parametrize("key", ["d", "t"])
def test_zooming_narrows_the_rows(key: str, events: Path, tmp_path: Path) -> None:
    widened = [driven(events, tmp_path, key, back)[:2] for back in (key, "escape", "left")]
    every, zoomed = driven(events, tmp_path), driven(events, tmp_path, key)
    assert 0 < len(zoomed.lines) < len(every.lines) or key == "t"
    assert {"d": "only dso", "t": "only comm"}[key] in zoomed.title
    assert widened == [every[:2]] * 3


def test_tab_and_n_and_p_change_the_event(events: Path, tmp_path: Path) -> None:
    for keys, name in ((("tab", "shift+tab"), "cpu-clock"), (("tab",), "task-clock"), (("n", "p"), "cpu-clock"), (("n",), "task-clock")):
        assert driven(events, tmp_path, *keys).title.startswith(name)


def test_slash_filters_functions_by_name(chains: Path, tmp_path: Path) -> None:
    all_rows = driven(chains, tmp_path, "slash", "5", "5", "enter", "escape")
    result = driven(chains, tmp_path, "slash", "5", "5", "enter")
    assert result.lines
    assert all("55" in line for line in result.lines)
    assert all_rows.lines == driven(chains, tmp_path).lines


def test_letters_are_typed_into_the_input_line(chains: Path, tmp_path: Path) -> None:
    assert "only symbol *qdn*" in driven(chains, tmp_path, "slash", "q", "d", "n", "enter").title
    assert driven(chains, tmp_path, "slash", "q", "escape").lines == driven(chains, tmp_path).lines


def test_search_moves_the_cursor_and_f3_continues(chains: Path, tmp_path: Path) -> None:
    every = driven(chains, tmp_path).lines
    having = [number for number, line in enumerate(every) if "55" in line]
    next_result = driven(chains, tmp_path, "ctrl+f", "5", "5", "enter", "f3")
    result = driven(chains, tmp_path, "ctrl+f", "5", "5", "enter")
    assert (result.lines, result.cursor) == (every, having[0])
    assert next_result.cursor == having[1 % len(having)]


def test_h_shows_the_keys(chains: Path, tmp_path: Path) -> None:
    assert driven(chains, tmp_path, "h").help
    assert not driven(chains, tmp_path, "h", "escape").help


def test_recordings_without_callchains_have_nothing_to_open(events: Path, tmp_path: Path) -> None:
    assert driven(events, tmp_path, "enter", "e", "E").lines == driven(events, tmp_path).lines


def test_k_keeps_the_rows_of_the_kernel(events: Path, tmp_path: Path) -> None:
    twice = driven(events, tmp_path, "k", "k")
    result = driven(events, tmp_path, "k")
    assert "only dso [kernel.kallsyms]" in result.title
    assert "Shared Object [kernel]" in result.title
    assert 0 < len(result.lines) < len(driven(events, tmp_path).lines)
    assert twice.lines == driven(events, tmp_path).lines


def test_l_asks_for_a_limit_and_hides_smaller_rows(events: Path, tmp_path: Path) -> None:
    every, output = driven(events, tmp_path), driven(events, tmp_path, "L", "2", "5", "full_stop", "5", "enter")
    assert 0 < len(output.lines) < len(every.lines)
    assert all(float(line.split("%")[0]) >= 25.5 for line in output.lines)
    assert "from 25.5% on" in output.title
    assert driven(events, tmp_path, "L", "x", "enter").lines == every.lines
    assert driven(events, tmp_path, "L", "9", "9", "enter", "L", "enter").lines == every.lines


def test_f_makes_shares_relative_to_the_filtered_rows(events: Path, tmp_path: Path) -> None:
    def total(*keys: str) -> float:
        return sum(float(line.split("%")[0]) for line in driven(events, tmp_path, *keys).lines)

    assert total("k") < 99
    assert total("k", "F") == pytest.approx(100, abs=0.5)
    assert total("k", "F", "F") == total("k")


def test_digits_sort_groups_only(events: Path, tmp_path: Path) -> None:
    assert driven(events, tmp_path, "1").lines == driven(events, tmp_path, "0").lines == driven(events, tmp_path).lines


def test_space_moves_down_a_page(events: Path, tmp_path: Path) -> None:
    assert driven(events, tmp_path, "space").cursor > 1


def test_p_writes_the_table_to_the_next_free_file(events: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "perf.hist.0").write_text("")
    (tmp_path / "perf.hist.1").symlink_to("nowhere")
    result = driven(events, tmp_path, "P")
    written = [line.split() for line in (tmp_path / "perf.hist.2").read_text().splitlines() if line and not line.startswith("#")]
    assert [(words[0], words[-1]) for words in written] == [(line.split()[0], line.split()[-1]) for line in result.lines]
    assert (tmp_path / "perf.hist.0").read_text() == ""


def test_i_shows_the_header_and_capital_h_hides_the_names_of_columns(chains: Path) -> None:
    from textual.widgets import Static

    from perfpy.views.report.browser import Box, ReportBrowser

    async def run() -> tuple[bool, str, bool]:
        with Recording(str(chains)) as recording:
            app = ReportBrowser(recording.report(), lambda: ["# hostname : here"])
            async with app.run_test(size=(120, 40)) as pilot:
                await pilot.press("i")
                await pilot.pause()
                boxed, text = isinstance(app.screen, Box), str(app.screen.query_one("#lines", Static).content)
                await pilot.press("escape", "H")
                await pilot.pause()
                return boxed, text, app.query_one("#heading", Static).display

    assert asyncio.run(run()) == (True, "# hostname : here", False)


async def _strips(path: Path, root: Path, *keys: str, size: tuple[int, int] = (400, 60)) -> list[str]:
    from perfpy.cli.output.header import lines_of_header
    from perfpy.views.report.browser import ReportBrowser

    texts = []
    with Recording(str(path)) as recording:
        report = recording.report(callers=True, symbols=SymbolOptions(symfs=str(root), cache=False))
        app = ReportBrowser(report, lambda: lines_of_header(recording, full=True))
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            for key in ("", *keys):
                await pilot.press(*([key] if key else []))
                await pilot.pause()
                texts += [strip.text for strip in app.screen._compositor.render_strips()]
    return texts


def test_names_with_control_sequences_are_shown(tmp_path: Path) -> None:
    """What textual sends to the terminal, for every key that shows other names."""
    path = tmp_path / "perf.data"
    path.write_bytes(hostile_recording().file())
    (tmp_path / hostile("file")).write_bytes(hostile_program())
    strips = asyncio.run(_strips(path, tmp_path, "enter", "E", "d", "t", "tab", "i", "escape", "escape"))
    for name in ("comm", "file", "hot", "event1", "event2", "feature"):
        assert any(f"{name}^[]0;owned^G" in strip for strip in strips), name
    screen_text = "".join(strips)
    assert not [char for char in screen_text if not char.isprintable() and char != "\u00a0"]
    assert not [strip for strip in strips if strip.strip().startswith(FORGED)]


def test_the_v_key_toggles_full_names(tmp_path: Path) -> None:
    path = recording_with_long_names(tmp_path)
    for keys, name in (((), SORT[2]), (("V",), SORT[1]), (("V", "V"), SORT[2])):
        assert any(line.endswith(f" {name}") for line in driven(path, tmp_path, *keys).lines)


def test_full_names_of_the_current_row_are_shown_below(tmp_path: Path) -> None:
    path = recording_with_long_names(tmp_path)
    for keys in (("down",), ("down", "enter", "down")):
        strips = asyncio.run(_strips(path, tmp_path, *keys, size=(60, 24)))
        assert not any(OWNER[1] in strip for strip in strips), keys
        assert OWNER[1].replace(" ", "") in "".join(strips[-24:]).replace(" ", "").replace("\u00a0", ""), keys


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (120, 30), (200, 50)])
def test_functions_are_visible_below_their_header_in_every_window(size: tuple[int, int], chains: Path, tmp_path: Path) -> None:
    strips = asyncio.run(_strips(chains, tmp_path, size=size))
    heading = next(number for number, strip in enumerate(strips) if "Symbol" in strip)
    column = strips[heading].index("Symbol")
    rows = [strip for strip in strips[heading + 1 : size[1]] if "%" in strip]
    assert len(rows) > 5
    assert all(strip[column - 1] == " " and strip[column : column + 3].strip() for strip in rows)


def test_all_keys_are_listed_in_a_window_of_80_by_24(chains: Path, tmp_path: Path) -> None:
    from perfpy.views.report.browser import _KEYS

    shown = asyncio.run(_strips(chains, tmp_path, "question_mark", size=(80, 24)))[-24:]
    for keys, meaning in _KEYS:
        assert any(keys in strip and meaning in strip for strip in shown), keys


@pytest.mark.parametrize("keys", [("q",), ("ctrl+c",), ("slash", "x", "ctrl+c"), ("question_mark", "ctrl+c"), ("question_mark", "q", "q")])
def test_q_and_ctrl_c_quit(keys: tuple[str, ...], chains: Path) -> None:
    from perfpy.views.report.browser import ReportBrowser

    async def run() -> bool:
        with Recording(str(chains)) as recording:
            app = ReportBrowser(recording.report())
            async with app.run_test(size=(80, 24)) as pilot:
                for key in keys:
                    assert app.is_running
                    await pilot.press(key)
                    await pilot.pause()
                return app._exit

    assert asyncio.run(run())


def test_rows_are_filtered_while_a_name_is_typed_and_esc_removes_the_filter(chains: Path, tmp_path: Path) -> None:
    every, typed = driven(chains, tmp_path), driven(chains, tmp_path, "slash", "5", "5")
    assert 0 < len(typed.lines) < len(every.lines)
    assert all("55" in line for line in typed.lines)
    assert driven(chains, tmp_path, "slash", "5", "5", "escape")[:2] == every[:2]
    result = driven(chains, tmp_path, "slash", "5", "5", "enter", "slash", "q", "escape")
    assert result[:2] == typed[:2]


def test_s_sorts_by_own_share(chains: Path, tmp_path: Path) -> None:
    own = [float(line.split("%")[0].split()[-1]) for line in driven(chains, tmp_path, "s").lines]
    assert own == sorted(own, reverse=True)
    assert driven(chains, tmp_path, "s", "s").lines == driven(chains, tmp_path).lines


def test_only_visible_rows_are_formatted(chains: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A report of a million samples may have many thousand rows."""
    from perfpy.views.report.browser import ReportBrowser

    results = []
    line, rows = BrowsedReport.line, BrowsedReport.rows

    def counted(model: BrowsedReport, entry: int, width: int) -> Text:
        results.append(entry)
        return line(model, entry, width)

    monkeypatch.setattr(BrowsedReport, "line", counted)
    monkeypatch.setattr(BrowsedReport, "rows", lambda model: rows(model) * 10_000)

    async def run() -> int:
        with Recording(str(chains)) as recording:
            app = ReportBrowser(recording.report(callers=True))
            async with app.run_test(size=(80, 24)) as pilot:
                for key in ("end", "pageup", "enter", "home", "enter"):
                    await pilot.press(key)
                    await pilot.pause()
                return len(app.table.lines)

    assert asyncio.run(run()) > 100_000
    assert len(results) < 2000


# Tests of the model of the interactive report, without a screen.


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
    from perfpy.views.report.text import TextOptions, table_lines

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
