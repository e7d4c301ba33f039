"""`perfpy config`: settings are read back by perf's rules; files that are invalid or belong to others stay unchanged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from perfpy import cli
from perfpy.cli.line import perfconfig

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def own_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PERF_CONFIG_NOSYSTEM", "1")
    monkeypatch.delenv("PERF_CONFIG", raising=False)
    return tmp_path / ".perfconfig"


def test_settings_are_written_in_perfs_layout_and_shown(own_file, capsys):
    assert cli.run(["config", "report.queue-size=10M", "ui.show-headers=no", "report.children=false"]) == 0
    assert own_file.read_text() == (
        "# this file is auto-generated.\n[report]\n\tqueue-size = 10M\n\tchildren = false\n[ui]\n\tshow-headers = no\n"
    )
    assert cli.run(["config", "--list"]) == 0
    assert capsys.readouterr().out == "report.queue-size=10M\nreport.children=false\nui.show-headers=no\n"
    assert cli.run(["config", "report.children", "report.nothing"]) == 0
    assert capsys.readouterr().out == "report.children=false\n"


@pytest.mark.parametrize("value", ['a "b" c', "one # two", "back\\slash", "semi;colon", "plain words"])
def test_every_value_is_read_back_as_it_was_given(own_file, value):
    assert cli.run(["config", f"x.y={value}"]) == 0
    assert perfconfig.load_config()["x.y"] == value


def test_a_name_of_three_parts_is_read_back(own_file):
    assert cli.run(["config", "call.graph.size=3"]) == 0
    assert perfconfig.load_config() == {"call.graph.size": "3"}


def test_an_old_setting_is_replaced_and_others_stay(own_file):
    own_file.write_text("[report]\nchildren = true\ngroup = true\n")
    assert cli.run(["config", "report.children=false"]) == 0
    assert perfconfig.load_config() == {"report.children": "false", "report.group": "true"}


@pytest.mark.parametrize("text", ["nothing", ".x=1", "report.=1", "report.x=", "re port.x=1", "a.b=1\n[c]\nd = 2", "a.1b=1"])
def test_unreadable_names_are_refused(own_file, text, capsys):
    assert cli.run(["config", text]) == 255
    assert capsys.readouterr().err.startswith("perfpy config: ")
    assert not own_file.exists()


def test_a_file_with_a_bad_line_stays_unchanged(own_file, capsys):
    own_file.write_text("[report]\nchildren = true\n[broken\n[ui]\nx = 1\n")
    before = own_file.read_text()
    assert cli.run(["config", "a.b=1"]) == 129
    assert "line 3" in capsys.readouterr().err
    assert own_file.read_text() == before


def test_a_file_of_another_user_stays_unchanged(own_file, monkeypatch, capsys):
    own_file.write_text("[report]\nchildren = true\n")
    monkeypatch.setattr(perfconfig, "trusted_file_owners", lambda: (12345,))
    assert cli.run(["config", "a.b=1"]) == 255
    assert "belongs to user" in capsys.readouterr().err
    assert own_file.read_text() == "[report]\nchildren = true\n"


def test_one_file_at_a_time(own_file):
    assert cli.run(["config", "--user", "--system", "--list"]) == 255


def test_a_broken_line_ends_a_file_and_nothing_else(own_file, capsys):
    own_file.write_text("[report]\nchildren = false\n[open\ngroup = true\n")
    assert perfconfig.load_config() == {"report.children": "false"}
    assert "line 3" in capsys.readouterr().err
