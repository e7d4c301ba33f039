"""Values of options with a syntax of their own."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from perfpy.cli.line.perfconfig import Config
from perfpy.cli.line.shared_options import (
    SymbolFileOptions,
    convert,
    parse_names,
    parse_numbers,
    parse_pattern,
    parse_quantum,
    parse_ranges,
    parse_widths,
    symbol_options_of,
)
from perfpy.errors import PerfError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (parse_names, "a,,b", ("a", "b")),
        (parse_names, "", None),
        (parse_numbers, "10,20", (10, 20)),
        (parse_ranges, "0-2,5", (0, 1, 2, 5)),
        (parse_ranges, "", None),
        (parse_pattern, "^a", "^a"),
        (parse_widths, "10,99999", (10, 10_000)),
        (parse_quantum, "3us", 3000),
    ],
)
def test_texts_become_values(parse: Callable[[str], Any], text: str, value: object):
    assert parse(text) == value


@pytest.mark.parametrize(
    ("parse", "text", "message"),
    [
        (parse_names, "file:///no/such", "expects a file with one name per line"),
        (parse_numbers, "1,x", "expects a list of numbers, for example 10,20, not '1,x'"),
        (parse_ranges, "5-2", "expects a list such as 0-2,5"),
        (parse_pattern, "(", "expects a regular expression"),
        (parse_widths, "x", "expects a list of numbers"),
        *((parse_quantum, text, "expects a number with s, ms, us or ns") for text in ("100", "ms", "100sm", "1m")),
    ],
)
def test_a_malformed_text_is_a_usage_error(parse: Callable[[str], Any], text: str, message: str):
    with pytest.raises(UsageError, match=f"option --x {message}"):
        convert("--x", text, parse)


def test_a_file_lists_one_name_per_line(tmp_path: Path):
    (tmp_path / "names").write_text("one\ntwo words\n")
    assert parse_names(f"a,file://{tmp_path}/names") == ("a", "one", "two words")


# Options about symbols become SymbolOptions.


RECORDING: Any = SimpleNamespace(data=SimpleNamespace(features={"osrelease": "6.12.1"}))


@pytest.fixture(autouse=True)
def _no_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DEBUGINFOD_URLS", raising=False)


def options(config: dict[str, str] | None = None, **values: Any) -> Any:
    return symbol_options_of(SymbolFileOptions(**values), Config(config or {}), RECORDING)


def test_options_of_the_command_line_and_of_the_recording_are_passed_on(tmp_path: Path):
    path = tmp_path / "kallsyms"
    path.write_text("")
    read_options = options(symfs="/root", kallsyms=str(path), demangle=False)
    assert (read_options.symfs, read_options.kallsyms, read_options.demangle, read_options.os_release) == (
        "/root",
        str(path),
        False,
        "6.12.1",
    )
    assert not read_options.debuginfod


@pytest.mark.parametrize("name", ["kallsyms", "vmlinux"])
def test_a_file_that_was_named_must_be_there(tmp_path: Path, name: str):
    with pytest.raises(PerfError, match=f"--{name} .*missing: no such file"):
        options({}, **{name: str(tmp_path / "missing")})


@pytest.mark.parametrize("name", ["kallsyms", "vmlinux"])
def test_a_file_that_was_named_must_be_a_file(tmp_path: Path, name: str):
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(PerfError, match=f"--{name} .*fifo: not a regular file"):
        options({}, **{name: str(tmp_path / "fifo")})
    assert getattr(options({}, **{name: "/dev/null"}), name) == "/dev/null"


@pytest.mark.parametrize("setting", ["debuginfod.urls", "buildid-cache.debuginfod"])
def test_configured_servers_are_used(setting: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DEBUGINFOD_URLS", "")
    monkeypatch.delenv("DEBUGINFOD_URLS")
    assert options({setting: "http://127.0.0.1:9"}).debuginfod


def test_the_build_id_cache_of_the_configuration_does_not_count_below_symfs():
    assert options({"buildid.dir": "/cache"}).buildid_dir == "/cache"
    assert options({"buildid.dir": "/cache"}, symfs="/root").buildid_dir == ""
