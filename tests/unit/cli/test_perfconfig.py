"""perf's configuration files: the format, which files count, and how bad ones are told."""

from pathlib import Path

import pytest

from perfpy.cli import perfconfig
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


@pytest.mark.parametrize("text", ["key = value", "[open\n", '[a]\nx = "open', "[a]\nx = \\q", "[a]\n= 3", "[a]\n9x = 3", "[]\n"])
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
    for read in (config.flag, config.number):
        with pytest.raises(UsageError, match="many"):
            read("a.bad", 0)  # type: ignore[operator]


def test_later_files_win_and_perf_config_stands_alone(tmp_path: Path) -> None:
    home = tmp_path / ".perfconfig"
    home.write_text("[report]\nchildren = false\n")
    other = tmp_path / "other"
    other.write_text("[report]\ngroup = true\n")
    assert perfconfig.load({"HOME": str(tmp_path), "PERF_CONFIG_NOSYSTEM": "1"}) == {"report.children": "false"}
    assert perfconfig.load({"HOME": str(tmp_path), "PERF_CONFIG": str(other)}) == {"report.group": "true"}
    assert perfconfig.load({"HOME": str(tmp_path), "PERF_CONFIG": "/dev/null"}) == {}
    assert perfconfig.files({"HOME": "/home/me"}) == ["/etc/perfconfig", "/home/me/.perfconfig"]
    assert perfconfig.load({"PERF_CONFIG": str(tmp_path / "missing")}) == {}
