"""A release's tag, version and changelog agree, and the manual's site has a page for each link."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from perfpy.cli.commands import COMMANDS
from perfpy.cli.group import TOPICS

if TYPE_CHECKING:
    from types import ModuleType

CHECKOUT = Path(__file__).resolve().parents[1]
CHANGELOG = (CHECKOUT / "CHANGELOG.md").read_text()
KINDS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def script(path: str) -> ModuleType:
    """Return a script of the checkout as a module."""
    specification = importlib.util.spec_from_file_location(Path(path).stem, CHECKOUT / path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_the_changelog_has_the_form_of_keep_a_changelog():
    sections = re.findall(r"^## (.+)$", CHANGELOG, re.MULTILINE)
    assert sections[0] == "[Unreleased]"
    assert [section for section in sections[1:] if not re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d{2}-\d{2}", section)] == []
    assert set(re.findall(r"^### (.+)$", CHANGELOG, re.MULTILINE)) <= KINDS


@pytest.mark.parametrize(
    ("sections", "tag", "faults"),
    [
        ("## [Unreleased]\n\n## [1.2.0] - 2027-01-31\n", "v1.2.0", 0),
        ("## [Unreleased]\n\n## [1.2.0] - 2027-01-31\n", "v1.3.0", 2),
        ("## [Unreleased]\n\n## [1.1.0] - 2027-01-31\n", "v1.2.0", 1),
        ("## [Unreleased]\n", "v1.2.0", 1),
        ("## [Unreleased]\n\n## [1.2.0]\n", "v1.2.0", 1),
    ],
)
def test_a_tag_is_the_version_and_has_a_dated_section(sections, tag, faults, tmp_path, monkeypatch):
    (tmp_path / "perfpy").mkdir()
    (tmp_path / "perfpy" / "version.py").write_text('__version__ = "1.2.0"\n')
    (tmp_path / "CHANGELOG.md").write_text(sections)
    check = script(".ci/check_release.py")
    monkeypatch.setattr(check, "CHECKOUT", tmp_path)
    assert len(check.faults(tag)) == faults


def test_the_site_has_pages_for_all_commands_and_topics_and_all_links_lead_to_pages():
    pages = dict(script("man/site/sources.py").sources())  # raises KeyError for a link to a file without a page
    assert {f"commands/{name}.md" for name in COMMANDS} | {f"topics/{name}.md" for name in TOPICS} <= set(pages)


def test_dead_links_of_a_site_are_found(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "a.html").write_text(
        '<h1 id="top"></h1><a href="b.html#there">x</a><a href="#top">y</a><a href="https://example.org">z</a>'
    )
    (tmp_path / "b.html").write_text('<p id="here"></p><img src="c.png"><a href="a.html#top">x</a>')
    assert script("man/site/build.py").dead_links(tmp_path) == ["a.html: b.html#there", "b.html: c.png"]


def test_docstrings_become_restructured_text():
    lines = ["Return *all* `names`.", "", "Args:", "    one, two: 2 * x", "", "So:", "", "    literal *text*", "", ">>> f(*a)", "3"]
    assert list(script("man/site/docstrings.py").as_restructured_text(lines)) == [
        "Return \\*all\\* ``names``.",
        "",
        "Arguments:",
        "",
        "- ``one, two``: 2 \\* x",
        "",
        "So:",
        "",
        "",
        "::",
        "",
        "    literal *text*",
        "",
        ">>> f(*a)",
        "3",
    ]
