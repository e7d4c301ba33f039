"""Options about symbols become SymbolOptions."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from perfpy.cli.line.perfconfig import Config
from perfpy.cli.line.shared import SymbolFileOptions
from perfpy.cli.line.symbol_values import symbol_options_of
from perfpy.errors import PerfError

if TYPE_CHECKING:
    from pathlib import Path

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
