"""`perfpy top`: its screens and its keys."""

from __future__ import annotations

import os
import re
import select
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Self

import pytest
from rich.cells import cell_len

import perfpy
from perfpy.abi.records import Comm, Mmap, Mmap2, SampleId
from perfpy.analysis.report.options import CallGraph, ChainOptions, ColumnOptions, ReportOptions
from perfpy.disassembly.disassembler import CodeStyle
from perfpy.recording import Recording
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.tools.top import terminal as screen_run
from perfpy.tools.top.command import command
from perfpy.tools.top.model import CELLS, TopRow
from perfpy.tools.top.options import WINDOW, Rates, Subject
from perfpy.tools.top.screen import CodeView, Request, TopScreen, _ended, _truncate
from perfpy.tools.top.terminal import Changed, KeyTerminal, ScreenRun, split_keys
from tests.builders.annotated import program, recording, stand_in
from tests.builders.perfdata import USUAL, PerfDataBuilder, usual_attr

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from perfpy.analysis.annotation import AnnotatedFunction
    from perfpy.analysis.report.report import Report


# The screen of perfpy top: keys, and lines for every size.


SUBJECT = Subject("cpu-clock", 4000, True, True, "", "", "", "", 2)
USER = -512 & (1 << 64) - 1
SCREENS = Path(__file__).with_name("top_screens")


def report_of(path: Path, samples: Mapping[int, int], sort: str, *, chains: bool, children: bool = False) -> Report:
    builder = PerfDataBuilder(attrs=[usual_attr(USUAL | perfpy.SampleType.CALLCHAIN)])
    time = 10
    for tid, count in samples.items():
        for _ in range(count):
            time += 1
            builder.sample(ip=tid, pid=tid, tid=tid, time=time, period=1, misc=2, callchain=[USER, tid, 0x9000])
    path.write_bytes(builder.file())
    graph = ChainOptions(CallGraph(), children) if chains or children else ChainOptions()
    with perfpy.open(path) as recording:
        report = recording.report(options=ReportOptions(columns=ColumnOptions(sort=sort, children=children), chains=graph))
        assert report.histograms[0].trees is None or report.histograms[0].calls(0)
    for table in report.histograms:
        table.entries.measures[WINDOW] = table.entries.measures["period"]
    return report


class Shown:
    """A screen, and the intervals that it is given."""

    def __init__(self, path: Path, *, sort: str = "comm", chains: bool = False, children: bool = False) -> None:
        self.screen = TopScreen(SUBJECT)
        self._path, self._sort, self._chains, self._children = path, sort, chains, children

    def update(self, samples: Mapping[int, int]) -> None:
        report = report_of(self._path, samples, self._sort, chains=self._chains, children=self._children)
        self.screen.update(Rates(2.0, sum(samples.values()), 0, 0, 0, 0), report)

    def lines(self, width: int = 80, height: int = 24) -> list[str]:
        return ["".join(text for text, _ in line) for line in self.screen.lines(width, height)]

    def rows(self) -> list[int]:
        """Return the threads of the rows, from top to bottom."""
        return [int(line.rpartition(":")[2]) for line in self.lines() if "%" in line and ":" in line and "samples" not in line]

    def selected(self) -> list[int]:
        lines = self.screen.lines(80, 24)
        return [int(line[0][0].rpartition(":")[2]) for line in lines if line and line[0][1] == "7"]


@pytest.fixture
def shown(tmp_path: Path) -> Shown:
    return Shown(tmp_path / "perf.data")


def test_a_message_stands_before_the_first_interval(shown: Shown) -> None:
    assert shown.lines()[0] == "perfpy top: waiting for the first samples"


def test_functions_have_the_words_and_the_styles_of_reports(tmp_path: Path) -> None:
    """Own code is bold, the kernel's dim; [k] says no more than the file in the same row."""
    built = PerfDataBuilder(attrs=[usual_attr(USUAL)])
    ids = SampleId(pid=7, tid=7, time=100)
    built.record(Comm(0, 7, 7, "spin", ids)).record(Mmap2(2, 7, 7, 0x401000, 0x1000, 0x1000, 8, 1, 99, 0, 5, 2, "/bin/spin", b"", ids))
    built.record(Mmap(1, 0xFFFFFFFF, 0, 0xFFFFFFFF81000000, 0x1000000, 0xFFFFFFFF81000000, "[kernel.kallsyms]_text", SampleId()))
    for at in range(200, 300):
        built.sample(0, misc=2, ip=0x401012, pid=7, tid=7, time=at, period=9)
        built.sample(0, misc=1, ip=0xFFFFFFFF81000010, pid=7, tid=7, time=at, period=1)
    (tmp_path / "perf.data").write_bytes(built.file())
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "spin").write_bytes(program().build())
    (tmp_path / "kallsyms").write_text("ffffffff81000000 T _text\nffffffff81000010 T clear_page\nffffffff81001000 T _etext\n")
    symbols = SymbolOptions(cache=False, symfs=str(tmp_path), kallsyms=str(tmp_path / "kallsyms"))
    screen = TopScreen(SUBJECT._replace(event="cpu-clock:ppp"))
    with perfpy.open(tmp_path / "perf.data") as opened:
        report = opened.report(by=["dso", "symbol"], symbols=symbols)
        report.histograms[0].entries.measures[WINDOW] = report.histograms[0].entries.measures["period"]
        screen.update(Rates(2.0, 200, 100, 0, 0, 0), report)
        lines = screen.lines(80, 24)
    assert "".join(text for text, _ in lines[0]).endswith("4000 Hz cpu-clock  2 CPUs")
    assert "".join(text for text, _ in lines[2]).split() == ["Self", "last", "minute", "Object", "Symbol"]
    rows = [[(text.strip(), style) for text, style in line if text.strip(" █▇")] for line in lines[3:5]]
    assert rows == [[("90.00%", "1;31"), ("spin", ""), ("spin", "1")], [("10.00%", "1;31"), ("[kernel]", ""), ("clear_page", "2")]]


def test_other_keys_shrink_before_the_function_does(shown: Shown) -> None:
    shown._sort = "comm,dso,symbol"
    shown.update({101: 60, 102: 40})
    rows = [line for line in shown.lines(64, 10) if "%" in line and ":" in line and "samples" not in line]
    assert all(re.search(r"0x0{13}", row) for row in rows), rows


def test_rows_are_sorted_until_one_is_chosen(shown: Shown) -> None:
    shown.update({101: 10, 102: 30, 103: 20})
    assert (shown.rows(), shown.selected()) == ([102, 103, 101], [])
    shown.update({101: 40, 102: 30, 103: 20})
    assert shown.rows() == [101, 102, 103]


def test_the_chosen_row_keeps_its_place(shown: Shown) -> None:
    shown.update({101: 10, 102: 30, 103: 20})
    shown.screen.press("down")
    shown.screen.press("down")
    assert shown.selected() == [103]
    shown.update({101: 10, 102: 30, 103: 90})
    assert (shown.rows(), shown.selected()) == ([102, 103, 101], [103])
    shown.update({101: 10, 102: 30, 103: 1, 104: 80})
    assert (shown.rows(), shown.selected()) == ([104, 103, 102, 101], [103])


def test_the_chosen_row_stays_when_it_has_no_samples_any_more(shown: Shown) -> None:
    shown.update({101: 10, 102: 30})
    shown.screen.press("down")
    shown.update({101: 10})
    assert (shown.rows(), shown.selected()) == ([102, 101], [102])
    shown.screen.press("escape")
    assert (shown.rows(), shown.selected()) == ([101], [])


def test_rows_without_callers_have_no_other_order(shown: Shown) -> None:
    shown.update({101: 10, 102: 30})
    shown.screen.press("o")
    assert shown.lines()[-1] == "no callchains; start with -g"
    assert shown.rows() == [102, 101]


def test_rows_are_sorted_by_self_on_request(tmp_path: Path) -> None:
    shown = Shown(tmp_path / "perf.data", sort="symbol", children=True)
    shown.update({101: 10, 102: 30})
    assert [line.split()[:2] for line in shown.lines()[3:6]] == [["100.00%", "0.00%"], ["75.00%", "75.00%"], ["25.00%", "25.00%"]]
    shown.screen.press("o")
    assert [line.split()[:2] for line in shown.lines()[3:6]] == [["75.00%", "75.00%"], ["25.00%", "25.00%"], ["100.00%", "0.00%"]]
    assert shown.lines()[-1] == "sorted by Self"
    shown.screen.press("o")
    assert shown.lines()[3].startswith(" 100.00%")


def test_a_frozen_screen_stays_as_it_is(shown: Shown) -> None:
    shown.update({101: 10, 102: 30})
    shown.screen.press(" ")
    shown.update({101: 90, 102: 30})
    assert shown.rows() == [102, 101]
    assert "[frozen]" in shown.lines()[0]
    shown.screen.press(" ")
    shown.update({101: 90, 102: 30})
    assert shown.rows() == [101, 102]


def test_a_filter_is_typed_and_removed(shown: Shown) -> None:
    shown.update({101: 10, 102: 30})
    for key in ("/", "1", "0", "x", "backspace", "1"):
        assert shown.screen.press(key) is None
    assert shown.rows() == [101]
    assert shown.lines()[-1].startswith("filter: 101 (Enter")
    shown.screen.press("enter")
    assert shown.screen.press("q") == Request("quit")
    shown.screen.press("/")
    shown.screen.press("escape")
    assert shown.rows() == [102, 101]


@pytest.mark.parametrize(
    ("key", "name"), [("q", "quit"), ("ctrl+c", "quit"), ("w", "write"), ("s", "rows"), ("c", "callers"), ("z", "zero"), ("K", "kernel")]
)
def test_keys_ask_the_program(shown: Shown, key: str, name: str) -> None:
    assert shown.screen.press(key) == Request(name)


def test_help_shows_every_key_on_a_small_terminal(shown: Shown) -> None:
    shown.screen.press("?")
    text = "\n".join(shown.lines(80, 24))
    assert all(word in text for word in ("PgUp", "Enter", "Space", "write the last minute as perf.data", "any key returns"))
    assert max(map(len, shown.lines(80, 24))) < 80
    shown.screen.press("x")
    assert "PgUp" not in "\n".join(shown.lines())


def test_enter_opens_the_calls_of_a_row(tmp_path: Path) -> None:
    shown = Shown(tmp_path / "perf.data", chains=True)
    shown.update({101: 10, 102: 30})
    shown.screen.press("down")
    shown.screen.press("enter")
    assert any("0x9000" in line for line in shown.lines())
    shown.screen.press("enter")
    assert not any("0x9000" in line for line in shown.lines())


def test_enter_without_calls_shows_the_reason(shown: Shown) -> None:
    shown.update({101: 10})
    shown.screen.press("enter")
    assert shown.lines()[-1] == "choose a row first (up, down)"
    shown.screen.press("down")
    shown.screen.press("enter")
    assert shown.lines()[-1] == "no callchains; start with -g, or choose processes with s"


def test_enter_on_a_process_asks_for_it_alone(tmp_path: Path) -> None:
    shown = Shown(tmp_path / "perf.data", sort="tgid")
    shown.update({101: 10})
    shown.screen.press("down")
    assert shown.screen.press("enter") == Request("zoom", "tgid 101")


def test_the_cursor_scrolls_through_more_rows_than_fit(shown: Shown) -> None:
    shown.update({tid: 400 - tid for tid in range(101, 161)})
    for _ in range(3):
        shown.screen.press("pagedown")
    (selected,) = shown.selected()
    assert selected > 120
    shown.screen.press("end")
    assert shown.selected() == [160]
    shown.screen.press("home")
    assert shown.rows()[0] == 101


@pytest.mark.parametrize(("width", "height"), [(80, 24), (200, 60), (20, 5), (1, 1), (10, 2), (300, 3)])
def test_lines_fit_every_size(shown: Shown, width: int, height: int) -> None:
    shown.update({101: 10, 102: 30})
    shown.screen.press("down")
    for key in ("x", "?"):
        shown.screen.press(key)
        lines = shown.lines(width, height)
        assert len(lines) <= height
        assert all(len(line) <= width for line in lines)


@pytest.mark.parametrize("width", [1, 20, 59, 60, 80, 81])
@pytest.mark.parametrize("is_selected", [False, True])
def test_names_of_wide_characters_stay_on_their_line(shown: Shown, width: int, is_selected: bool) -> None:
    """A line that is too long for the terminal would be continued on the next row, over another name."""
    row = TopRow(("a",), ("喵" * 60, "[.] 漢字" * 30), 0, 50.0, None, " " * CELLS, has_risen=False)
    line = _truncate(shown.screen._row(row, [24, 100], width, is_selected=is_selected), width)
    assert sum(cell_len(text) for text, _ in line) <= width
    shown.screen.message = "喵" * 100
    assert all(sum(cell_len(text) for text, _ in line) <= width for line in shown.screen.lines(width, 24))


@pytest.mark.parametrize(("key", "rows"), [("p", "tgid"), ("t", "pid")])
def test_keys_choose_processes_and_threads(shown: Shown, key: str, rows: str) -> None:
    assert shown.screen.press(key) == Request("rows", rows)


def test_a_requests_the_code_of_the_chosen_function(tmp_path: Path) -> None:
    shown = Shown(tmp_path / "perf.data", sort="dso,symbol")
    shown.update({101: 30})
    assert shown.screen.press("a") == Request("code", "0x0000000000000065", "[unknown]")


def test_rows_that_are_no_functions_have_no_code(shown: Shown) -> None:
    shown.update({101: 30})
    assert shown.screen.press("a") is None
    assert shown.lines()[-1] == "these rows are no functions; choose functions with s"


def test_a_chosen_row_without_samples_keeps_its_columns(tmp_path: Path) -> None:
    shown = Shown(tmp_path / "perf.data", sort="pid", children=True, chains=True)
    shown.update({101: 30, 102: 10})
    shown.screen.press("down")
    (chosen,) = shown.selected()
    shown.update({203 - chosen: 10})
    (row,) = (line for line in shown.lines() if f"{chosen}:" in line)
    assert row.split()[:2] == ["0.00%", "0.00%"]


@pytest.mark.parametrize(
    ("name", "width", "height", "keys"),
    [
        ("rows", 80, 24, []),
        ("rows", 200, 60, []),
        ("calls", 80, 24, ["down", "enter"]),
        ("calls", 200, 60, ["down", "enter"]),
        ("help", 80, 24, ["?"]),
    ],
)
def test_the_screen_is_the_one_that_was_looked_at(name: str, width: int, height: int, keys: list[str], tmp_path: Path) -> None:
    """PERFPY_WRITE_SCREENS=1 writes the texts again; look at each before it is committed."""
    shown = Shown(tmp_path / "perf.data", chains=name == "calls")
    shown.update({101: 10, 102: 30, 103: 20})
    shown.update({101: 60, 102: 30, 103: 20})
    for key in keys:
        shown.screen.press(key)
    text = "".join(f"{line.rstrip()}\n" for line in shown.lines(width, height))
    path = SCREENS / f"{name}-{width}.txt"
    if os.environ.get("PERFPY_WRITE_SCREENS"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()
    assert len(text.splitlines()) <= height
    assert max(map(cell_len, text.splitlines())) <= width


def test_skipped_samples_are_reported_above_the_rows(shown: Shown) -> None:
    shown.screen._rates = Rates(2.0, 100, 0, 0, 0, 0, 7, 7)
    assert shown.lines()[1].startswith("7 samples were skipped: this machine is too busy")


def test_the_mark_of_a_row_that_rose_is_explained(shown: Shown) -> None:
    calm, busy = {101: 5, 102: 95}, {101: 60, 102: 40}
    for samples in [calm] * 5:
        shown.update(samples)
    assert "▲" not in "".join(shown.lines())
    for samples in [busy] * 4:
        shown.update(samples)
    (marked,) = [line for line in shown.lines() if " ▲ " in line]
    assert marked.rstrip().endswith(":101")
    assert shown.lines()[1].endswith("▲ rose in the last 10 s")
    assert "▲" not in shown.lines(width=20)[1]
    shown.screen.press("?")
    assert "▲                  the share of this row rose in the last 10 s" in "\n".join(shown.lines())


@pytest.mark.parametrize(
    ("text", "size", "short"),
    [
        ("work /srv/app/work.py", 30, "work /srv/app/work.py"),
        ("work /srv/app/work.py", 20, "work …rv/app/work.py"),
        ("work /srv/app/work.py", 12, "work /srv/a…"),
        ("work of many words", 8, "work of…"),
        ("喵 /srv/app/漢字.py", 14, "喵 …pp/漢字.py"),
        pytest.param(f"work /{'a' * 200_000}.py", 20, "work …aaaaaaaaaaa.py", id="endless path"),
    ],
)
def test_long_texts_keep_the_end_of_their_path(text: str, size: int, short: str) -> None:
    assert _ended(text, size).strip() == short
    assert cell_len(_ended(text, size)) <= size


# The code of a function on the screen of perfpy top.


@pytest.fixture
def function(tmp_path: Path) -> AnnotatedFunction:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "spin").write_bytes(program().build())
    (tmp_path / "perf.data").write_bytes(recording())
    with Recording(str(tmp_path / "perf.data")) as opened:
        annotation = opened.annotate("spin", symbols=SymbolOptions(symfs=str(tmp_path), cache=False))
        return annotation.function(style=CodeStyle(program=str(stand_in(tmp_path))))


def texts(view: CodeView | TopScreen, width: int = 60, height: int = 24) -> list[str]:
    return ["".join(text for text, _ in line).rstrip() for line in view.lines(width, height)]


def chosen(view: CodeView) -> str:
    (line,) = (line for line in view.lines(60, 24) if line and line[0][1] == "7")
    return re.sub(r"[┌└─▶│]", "", line[0][0]).split()[2]


def test_the_code_stands_between_title_and_keys_with_heat_in_colour(function: AnnotatedFunction) -> None:
    view = CodeView(function)
    lines = view.lines(60, 24)
    assert len(lines) == 24
    assert lines[0] == [("spin  spin  76.92%  10 samples", "1")]
    assert texts(view)[1:4] == ["              while (--n)", " 10.00%       1010  nop", " 60.00% ┌▶    1011  dec    %rdi"]
    assert (" 20.00%", "1;31") in lines[5]  # a third of the hottest line
    assert "q Esc back" in texts(view)[-1]


def test_keys_move_follow_jumps_and_go_by_heat(function: AnnotatedFunction) -> None:
    view = CodeView(function)
    assert chosen(view) == "dec"  # the hottest
    steps = (("n", "jne"), ("enter", "dec"), ("up", "nop"), ("end", "ret"), ("H", "dec"), ("p", "ret"))
    for key, line in steps:
        assert view.press(key)
        assert chosen(view) == line, key
    view.press("enter")
    assert texts(view)[-1] == "no jump within the function at this line"


def test_source_lines_are_hidden_and_the_cursor_stays(function: AnnotatedFunction) -> None:
    view = CodeView(function)
    view.press("s")
    assert "while (--n)" not in "".join(texts(view))
    assert chosen(view) == "dec"


@pytest.mark.parametrize("height", [1, 2, 3, 5])
def test_small_screens_show_the_cursor(height: int, function: AnnotatedFunction) -> None:
    view = CodeView(function)
    for key in ("end", "home", "down", "pagedown", "pageup"):
        view.press(key)
        assert len(view.lines(10, height)[:height]) == height
        if height > 2:
            assert any(line and line[0][1] == "7" for line in view.lines(10, height))


def test_the_screen_shows_code_until_q(function: AnnotatedFunction) -> None:
    screen = TopScreen(Subject("cpu-clock", 4000, True, True, "", "", "", "", 2))
    assert screen.press("a") is None
    assert "no rows yet" in texts(screen)[-1]
    screen.show_code(function)
    assert texts(screen)[0].startswith("spin  spin")
    assert screen.press("a") == Request("code", "spin", "spin")
    assert screen.press("ctrl+c") == Request("quit")
    assert screen.press("q") is None
    assert "waiting for the first samples" in texts(screen)[0]


# Keys of terminals as names, and lines that command no terminal.


ESC = chr(27)


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("q", ["q"]),
        ("ab", ["a", "b"]),
        (f"{ESC}[A{ESC}[B{ESC}OA", ["up", "down", "up"]),
        (f"{ESC}[5~{ESC}[6~{ESC}[H{ESC}[F", ["pageup", "pagedown", "home", "end"]),
        (ESC, ["escape"]),
        (f"{ESC}q", ["escape", "q"]),
        (f"{ESC}[1;5Cx", ["x"]),  # an unknown key
        (f"{ESC}[", []),
        ("\r\t\x7f\x03", ["enter", "tab", "backspace", "ctrl+c"]),
        ("é", ["é"]),
    ],
)
def test_keys_have_names(text: str, keys: list[str]) -> None:
    assert list(split_keys(text)) == keys


@pytest.mark.parametrize("style", ["", "1", "31"])
def test_texts_of_lines_do_not_command_the_terminal(style: str) -> None:
    """Messages of errors can contain names of files."""
    terminal = object.__new__(KeyTerminal)
    terminal._coloured = True
    paint = terminal._paint([(f"{ESC}]0;title\x07 \u202e\n", style)])
    assert paint.removeprefix(f"{ESC}[{style}m").removesuffix(f"{ESC}[0m") == "^[]0;title^G \\u202e^J"


def test_lines_of_a_longer_screen_are_cleared(capsys: pytest.CaptureFixture[str]) -> None:
    """The help is shorter than the screen that it replaces."""
    terminal = object.__new__(KeyTerminal)
    terminal._coloured, terminal._lines = False, []
    terminal.draw([[("one", "")], [("two", "")], [("three", "")]])
    capsys.readouterr()
    terminal.draw([[("one", "")]])
    assert capsys.readouterr().out == f"{ESC}[2;1H{ESC}[K{ESC}[3;1H{ESC}[K"


# The screen of perfpy top obeys keys while updates are computed; all that passes between the threads arrives once and in order.


KEY_LIMIT = 1.0  # seconds, with a margin for busy machines; without load it takes 0.02


class Terminal:
    """A terminal: keys through a pipe, times of drawing."""

    is_open = True

    def __init__(self) -> None:
        self._reading, self.writing = os.pipe2(os.O_NONBLOCK)
        self.drawn: list[float] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None: ...

    def fileno(self) -> int:
        return self._reading

    def size(self) -> tuple[int, int]:
        return 80, 24

    def draw(self, _lines: object) -> None:
        self.drawn.append(time.monotonic())

    def read_keys(self) -> str:
        try:
            return os.read(self._reading, 100).decode()
        except BlockingIOError:
            return ""


class Screen:
    """A screen that notes what it is told."""

    message = zoomed = ""

    def __init__(self, *_words: object, **_options: object) -> None:
        self.rows: list[object] = []
        self.pressed: list[float] = []

    def lines(self, _width: int, _height: int) -> list[str]:
        return []

    def update(self, rates: object, _report: object) -> None:
        self.rows.append(rates)

    def refresh(self, report: object) -> None:
        self.rows.append(report)

    def press(self, key: str) -> Request | None:
        self.pressed.append(time.monotonic())
        return Request("quit") if key == "q" else Request("rows", str(len(self.pressed))) if key == "s" else None


class Rings:
    """Ring buffers that are never full; they note the thread that reads them."""

    has_ended = False
    size = 0

    def __init__(self) -> None:
        self._poll = select.poll()
        self.threads: set[int] = set()

    def watch(self, fd: int) -> None:
        self._poll.register(fd, select.POLLIN)

    def wait(self, seconds: float) -> None:
        self._poll.poll(1000 * min(seconds, 0.05))

    def drain(self) -> None:
        self.threads.add(threading.get_ident())

    def adapt(self, *_numbers: float) -> None: ...

    def take(self, *, last: bool) -> object:
        self.drain()
        return last


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., tuple[ScreenRun, Terminal, Screen, Rings]]]:
    terminal, screen, rings = Terminal(), Screen(), Rings()
    monkeypatch.setattr(screen_run, "KeyTerminal", lambda: terminal)
    monkeypatch.setattr(screen_run, "TopScreen", lambda *_words, **_options: screen)

    def make(update: Callable[[object], Any], delay: str = "0.01") -> tuple[ScreenRun, Terminal, Screen, Rings]:
        monitor = SimpleNamespace(reader=rings, update=update)
        options = command.options_class.read(command.parser(["-d", delay]))
        return ScreenRun(rings, monitor, SimpleNamespace(), options), terminal, screen, rings  # type: ignore[arg-type]

    yield make
    os.close(terminal.fileno())
    os.close(terminal.writing)


NO_SIGNALS = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
SIGNALS = SimpleNamespace(fileno=lambda: NO_SIGNALS[0], arrived=False, read=set)


def test_keys_are_obeyed_while_an_update_computes(made: Callable[..., Any]) -> None:
    """The update runs Python code without end; a key is drawn soon, and q does not wait for the update."""
    ends = threading.Event()

    def update(_reading: object) -> Any:
        while not ends.is_set():
            sum(range(100))

    run, terminal, screen, _ = made(update)
    typed = []

    def type_keys() -> None:
        for key in "xyq":
            time.sleep(0.1)
            typed.append(time.monotonic())
            os.write(terminal.writing, key.encode())

    typist = threading.Thread(target=type_keys)
    typist.start()
    assert run.run(SIGNALS) == 0
    monotonic = time.monotonic()
    ends.set()
    typist.join()
    assert len(screen.pressed) == 3
    for before, pressed in zip(typed[:2], screen.pressed, strict=False):
        assert next(at for at in terminal.drawn if at > pressed) - before < KEY_LIMIT
    assert monotonic - typed[2] < 2 * KEY_LIMIT  # with the last wait for the other thread


def test_updates_and_changes_do_not_overlap_and_arrive_in_order(made: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """One thread computes, another reads ring buffers and draws."""
    running, computing, updates, changes = [0], set(), [0], []

    def compute(name: str) -> None:
        computing.add(threading.get_ident())
        running[0] += 1
        time.sleep(0.0005)
        assert running[0] == 1, name
        running[0] -= 1

    def update(_reading: object) -> Any:
        compute("update")
        updates[0] += 1
        return SimpleNamespace(rates=("update", updates[0]), report=None, size=0, seconds=0)

    def carry_out(request: Request) -> Changed:
        compute("change")
        changes.append(request.text)
        return Changed(report=("change", len(changes)))  # type: ignore[arg-type]

    run, terminal, screen, rings = made(update)
    monkeypatch.setattr(run, "_changes", SimpleNamespace(carry_out=carry_out))

    def type_keys() -> None:
        for _ in range(100):
            os.write(terminal.writing, b"s")
            time.sleep(0.001)
        while len(changes) < 100:
            time.sleep(0.01)
        time.sleep(0.05)
        os.write(terminal.writing, b"q")

    typist = threading.Thread(target=type_keys)
    typist.start()
    assert run.run(SIGNALS) == 0
    typist.join()
    assert changes == [str(number) for number in range(1, 101)]
    for name, least in (("update", 10), ("change", 100)):
        numbers = [number for kind, number in screen.rows if kind == name]
        assert numbers == list(range(1, len(numbers) + 1))
        assert len(numbers) >= least
    assert rings.threads == {threading.get_ident()}
    assert len(computing) == 1
    assert computing != rings.threads


def test_an_error_of_an_update_ends_the_run(made: Callable[..., Any]) -> None:
    def update(_reading: object) -> Any:
        raise MemoryError("no memory")

    run, *_ = made(update)
    with pytest.raises(MemoryError, match="no memory"):
        run.run(SIGNALS)


@pytest.mark.parametrize("is_rich", [False, True])
def test_first_rows_come_before_the_interval(made: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, *, is_rich: bool) -> None:
    """The first screen needs a hundred samples or a moment, the second one half a second."""
    if is_rich:
        monkeypatch.setattr(screen_run, "_FIRST", 1000.0)
    run, terminal, screen, rings = made(lambda _reading: SimpleNamespace(rates="", report=None, size=0, seconds=0), delay="1000")
    rings.size = screen_run._ENOUGH if is_rich else 0

    def type_quit() -> None:
        end = time.monotonic() + 30
        while len(screen.rows) < 2 and time.monotonic() < end:
            time.sleep(0.01)
        os.write(terminal.writing, b"q")

    typist = threading.Thread(target=type_quit)
    typist.start()
    assert run.run(SIGNALS) == 0
    typist.join()
    assert len(screen.rows) == 2
