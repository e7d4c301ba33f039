"""perf's configuration files: the format, the files that are read, and messages about bad ones."""

import os
import re
from pathlib import Path

import pytest

from perfpy.cli.line import perfconfig
from perfpy.errors import UsageError

TEXT = """
# a comment
[report]
    percent-limit = 3   ; cut
    children = off
[call-graph] record-mode = dwarf
[alias "My Sub"]
\tvalue = " two  words # kept "
    escaped = a\\tb\\\\c
    long = one \\
two
    Flag
"""


def test_sections_values_quotes_escapes_and_comments() -> None:
    assert dict(perfconfig.parse(TEXT)) == {
        "report.percent-limit": "3",
        "report.children": "off",
        "call-graph.record-mode": "dwarf",
        "alias.My Sub.value": " two  words # kept ",
        "alias.My Sub.escaped": "a\tb\\c",
        "alias.My Sub.long": "one two",
        "alias.My Sub.flag": "true",
    }


@pytest.mark.parametrize(
    "text", ["key = value", "[open\n", '[a]\nx = "open', "[a]\nx = \\q", "[a]\n= 3", "[a]\n9x = 3", "[]\n", "[a]\nx = y\0"]
)
def test_a_bad_line_is_named(text: str) -> None:
    with pytest.raises(UsageError, match=r"here, line \d"):
        list(perfconfig.parse(text, "here"))


def test_typed_settings() -> None:
    config = perfconfig.Config({"a.yes": "on", "a.no": "False", "a.one": "1", "a.size": "16k", "a.bad": "many"})
    assert config.flag("a.yes", False)
    assert not config.flag("a.no", True)
    assert config.flag("a.one", False)
    assert config.flag("a.none", True)
    assert config.number("a.size", 0) == 16384
    assert config.number("a.none", 2.5) == 2.5
    with pytest.raises(UsageError, match="many"):
        config.flag("a.bad", False)
    with pytest.raises(UsageError, match="many"):
        config.number("a.bad", 0)


def test_later_files_win_and_perf_config_stands_alone(tmp_path: Path) -> None:
    home = tmp_path / ".perfconfig"
    home.write_text("[report]\nchildren = false\n")
    other = tmp_path / "other"
    other.write_text("[report]\ngroup = true\n")
    assert perfconfig.load_config({"HOME": str(tmp_path), "PERF_CONFIG_NOSYSTEM": "1"}) == {"report.children": "false"}
    assert perfconfig.load_config({"HOME": str(tmp_path), "PERF_CONFIG": str(other)}) == {"report.group": "true"}
    assert perfconfig.load_config({"HOME": str(tmp_path), "PERF_CONFIG": "/dev/null"}) == {}
    assert perfconfig.files({"HOME": "/home/me"}) == ["/etc/perfconfig", "/home/me/.perfconfig"]
    assert perfconfig.load_config({"PERF_CONFIG": str(tmp_path / "missing")}) == {}


@pytest.mark.parametrize("text", ["inf", "nan", "1e999", "1e308g"])
def test_numbers_are_finite(text: str) -> None:
    with pytest.raises(UsageError, match="is not a number"):
        perfconfig.Config({"call-graph.print-limit": text}).number("call-graph.print-limit", 0)


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    (tmp_path / ".perfconfig").write_text("[buildid]\ndir = /chosen\n")
    return {"HOME": str(tmp_path), "PERF_CONFIG_NOSYSTEM": "1"}


def test_a_configuration_of_another_user_is_ignored_with_a_line(
    home: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert perfconfig.load_config(home) == {"buildid.dir": "/chosen"}
    monkeypatch.setattr(perfconfig, "trusted_file_owners", lambda: (12345,))
    assert perfconfig.load_config(home) == {}
    assert re.fullmatch(r"Warning: .*/\.perfconfig: belongs to user \d+; ignoring this configuration file\n", capsys.readouterr().err)
    assert perfconfig.load_config({"PERF_CONFIG": home["HOME"] + "/.perfconfig"}) == {"buildid.dir": "/chosen"}  # it was named


@pytest.mark.parametrize("kind", ["fifo", "folder"])
def test_an_unreadable_configuration_is_ignored_with_a_line(home: dict[str, str], kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(home["HOME"]) / ".perfconfig"
    path.unlink()
    os.mkfifo(path) if kind == "fifo" else path.mkdir()
    assert perfconfig.load_config(home) == {}
    assert capsys.readouterr().err.count("not a regular file") == 1


def test_the_empty_device_is_an_empty_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    assert perfconfig.load_config({"PERF_CONFIG": "/dev/null"}) == {}
    assert capsys.readouterr().err == ""
