"""Tests of the browser, driven by its keys."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

import pytest

from perfpy.recording import Recording
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.views.report.screens.browsed import BrowsedReport
from tests.builders.hostile_names import FORGED, hostile, hostile_program, hostile_recording
from tests.builders.long_names import OWNER, SORT, recording_with_long_names

if TYPE_CHECKING:
    from pathlib import Path

    from rich.text import Text


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

    from perfpy.views.report.screens.browser import KeyHelp, ReportBrowser

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

    from perfpy.views.report.screens.browser import Box, ReportBrowser

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
    from perfpy.views.report.screens.browser import ReportBrowser

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


@pytest.mark.parametrize("keys", [("q",), ("ctrl+c",), ("slash", "x", "ctrl+c"), ("question_mark", "ctrl+c"), ("question_mark", "q", "q")])
def test_q_and_ctrl_c_quit(keys: tuple[str, ...], chains: Path) -> None:
    from perfpy.views.report.screens.browser import ReportBrowser

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
    from perfpy.views.report.screens.browser import ReportBrowser

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
