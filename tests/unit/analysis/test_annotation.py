"""Annotated code and its source files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from perfpy.abi import records
from perfpy.abi.flags import SampleType
from perfpy.abi.records import SampleId
from perfpy.analysis import source_files
from perfpy.analysis.annotation import NamedLines, beginnings
from perfpy.analysis.filters import SampleFilter
from perfpy.cli import run
from perfpy.recording import Recording
from perfpy.symbols.files.debug_files import SymbolOptions
from tests.builders.annotated import spin_with_lines
from tests.builders.perfdata import USUAL, PerfDataBuilder, usual_attr

if TYPE_CHECKING:
    from pathlib import Path

    from perfpy.analysis.source_files import SourceShares


# Source lines in names of runtimes.


SOURCE = b"""\
import os
def one():
    def inner():
        pass
    return inner
class Shop:
    class Order:
        async def of(self):
            pass
    def of(self): pass
def one(): pass
"""


def test_names_are_qualified_as_python_does() -> None:
    assert beginnings(SOURCE) == {"one": 2, "one.<locals>.inner": 3, "Shop": 6, "Shop.Order": 7, "Shop.Order.of": 8, "Shop.of": 10}


def test_the_line_of_a_python_function(tmp_path: Path) -> None:
    path = tmp_path / "shop.py"
    path.write_bytes(SOURCE)
    lines = NamedLines()
    assert lines.of(f"py::Shop.of:{path}") == (str(path), 10)
    assert lines.of(f"py::<lambda>:{path}") == (str(path), 0)
    assert lines.of(f"py::Shop.of.<locals>.<lambda>.<locals>.<genexpr>:{path}") == (str(path), 10)
    assert lines.of(f"py::two.<locals>.<genexpr>:{path}") == (str(path), 0)
    assert lines.of(f"py::<module>:{path}") == (str(path), 0)
    assert lines.of("py::run:/no/such.py") == ("/no/such.py", 0)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("JS:*spin file:///srv/app.js:12:34", ("/srv/app.js", 12)),
        ("LazyCompile:~ /srv/app.js:1:1", ("/srv/app.js", 1)),
        ("JS:^parse node:internal/url:3:4", ("", 0)),
        ("main", ("", 0)),
        ("Builtin:ArrayMap", ("", 0)),
    ],
)
def test_the_line_of_a_function_of_v8(name: str, found: tuple[str, int]) -> None:
    assert NamedLines().of(name) == found


def test_a_device_in_the_place_of_a_file_has_no_lines() -> None:
    assert NamedLines().of("py::f:/dev/zero") == ("/dev/zero", 0)


# Shares of source lines: a line's own samples, and those of inlined code.


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Return a folder for --symfs with /bin/spin, built from b.h and a.c, and a recording of it."""
    return spin_with_lines(tmp_path)


def shares(files: Path, function: str | None = None) -> SourceShares:
    with Recording(str(files / "perf.data")) as opened:
        chosen = SampleFilter(symbols=(function,) if function else None)
        (result,) = opened.source_files(sample_filter=chosen, symbols=SymbolOptions(symfs=str(files), cache=False))
        return result


def test_a_line_has_its_own_samples_and_its_inlined_calls(files: Path) -> None:
    first, second = shares(files).files
    assert first.path == f"{files}/a.c"
    assert [(line.line, line.samples) for line in first.lines] == [(2, 1), (3, 1)]
    assert [line.percent for line in first.lines] == pytest.approx([100 / 13, 100 / 13])
    assert [line.with_inlined for line in first.lines] == pytest.approx([900 / 13, 100 / 13])
    assert (first.percent, first.with_inlined) == pytest.approx((200 / 13, 1000 / 13))
    assert second.path == f"{files}/b.h"
    assert [(line.line, line.samples) for line in second.lines] == [(9, 8)]


def test_code_without_lines_is_listed_by_file(files: Path) -> None:
    assert shares(files).without_lines == pytest.approx({"spin": 300 / 13})


def test_one_function_alone_keeps_its_share_of_all(files: Path) -> None:
    actual_shares = shares(files, "spin")
    assert actual_shares.samples == 10
    assert actual_shares.without_lines == {}
    assert actual_shares.files[1].percent == pytest.approx(800 / 13)


def test_the_listing(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "b.h").unlink(missing_ok=True)
    assert run(["annotate", "--by-line", "-i", str(files / "perf.data"), "--symfs", str(files)]) == 0
    assert capsys.readouterr().out == (
        "cpu-clock:u: 13 samples\n"
        f"\n{files}/a.c  15.38%, 76.92% with inlined code\n"
        "    own  +inlined    line\n"
        "                       1  first\n"
        "  7.69%  69.23%        2      second^[[2J\n"
        "  7.69%                3  third\n"
        "                       4  fourth\n"
        "                       5  fifth\n"
        f"\n{files}/b.h  61.54%  (file not found)\n"
        "    own  +inlined    line\n"
        " 61.54%                9\n"
        "\n23.08% in code without line numbers: spin 23.08%\n"
    )


def test_lines_below_the_limit_are_omitted(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(["annotate", "--by-line", "--percent-limit", "65", "-i", str(files / "perf.data"), "--symfs", str(files)])
    output = capsys.readouterr().out
    assert "second" in output
    assert "fifth" not in output
    assert "b.h" not in output


def test_only_regular_files_are_read(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "a.c").unlink()
    (files / "a.c").symlink_to("/dev/zero")
    assert run(["annotate", "--by-line", "-i", str(files / "perf.data"), "--symfs", str(files)]) == 0
    assert "a.c  15.38%, 76.92% with inlined code  (file not found)" in capsys.readouterr().out


def test_a_runtimes_own_time_counts_for_the_function_it_ran(tmp_path: Path) -> None:
    """libpython below a Python function, and the C library, count for the function; an extension module counts for itself."""
    built = PerfDataBuilder(attrs=[usual_attr(USUAL | SampleType.CALLCHAIN)])
    ids = SampleId(pid=7, tid=7, time=100)
    built.record(records.Comm(0, 7, 7, "python", ids))
    for number, path in enumerate(("/usr/bin/python3.12", "/lib/libc.so.6", "/lib/fast.so", "//anon")):
        start = 0x10000 * (number + 1)
        built.record(records.Mmap2(2, 7, 7, start, 0x1000, 0, 8, 1, 5 + number, 0, 5, 2, path, b"", ids))
    user, python, libc, fast, function = (1 << 64) - 512, 0x10010, 0x20010, 0x30010, 0x40010
    chains = [(python, function, python), (libc, python, function), (fast, python, function), (python, python), (function, python)]
    for number, chain in enumerate(chains):
        built.sample(misc=2, ip=chain[0], pid=7, tid=7, time=200 + number, period=1000, callchain=[user, *chain])
    (tmp_path / "perf.data").write_bytes(built.file())
    source = tmp_path / "app.py"
    source.write_text("import os\ndef total(): pass\n")
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp" / "perf-7.map").write_text(f"40000 100 py::total:{source}\n")
    with Recording(str(tmp_path / "perf.data")) as opened:
        (result,) = opened.source_files(symbols=SymbolOptions(symfs=str(tmp_path), cache=False))
    assert [(file.path, [(line.line, line.samples) for line in file.lines]) for file in result.files] == [(str(source), [(2, 3)])]
    assert result.without_lines == pytest.approx({"fast.so": 20.0, "python3.12": 20.0})


def test_only_samples_that_pass_where_count(files: Path) -> None:
    with Recording(str(files / "perf.data")) as opened:
        part = opened.where(time=(None, "50%"))
        assert 0 < part.source_files(symbols=SymbolOptions(symfs=str(files), cache=False))[0].samples < 13


@pytest.mark.parametrize("callers_at_once", [1, 3, 1 << 18])
def test_lines_have_the_samples_of_their_callees(
    callers_at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A caller's address is that after its call: 0x401016 begins line 3, but the call is the inlined line 9, called in line 2."""
    monkeypatch.setattr(source_files, "_BLOCK", callers_at_once)
    files = spin_with_lines(tmp_path)
    built = PerfDataBuilder(attrs=[usual_attr(USUAL | SampleType.CALLCHAIN)])
    ids = SampleId(pid=7, tid=7, time=100)
    built.record(records.Comm(0, 7, 7, "spin", ids))
    built.record(records.Mmap2(2, 7, 7, 0x401000, 0x1000, 0x1000, 8, 1, 99, 0, 5, 2, "/bin/spin", b"", ids))
    user, leaf, caller = (1 << 64) - 512, 0x401018, 0x401016
    for number, chain in enumerate([(leaf, caller, caller), (leaf, caller), (leaf,), (caller,)]):
        built.sample(misc=2, ip=chain[0], pid=7, tid=7, time=200 + number, period=1000, callchain=[user, *chain])
    (files / "perf.data").write_bytes(built.file())
    result = shares(files)
    assert result.with_calls
    lines = {(file.path.rpartition("/")[2], line.line): (line.percent, line.with_inlined) for file in result.files for line in file.lines}
    assert lines == {("a.c", 2): (0, 50), ("a.c", 3): (100, 100), ("b.h", 9): (0, 50)}
    assert run(["annotate", "--by-line", "-i", str(files / "perf.data"), "--symfs", str(files)]) == 0
    assert "   self    total     line\n" in capsys.readouterr().out
