"""A release's tag, version and changelog agree, CI runs all tests, and the manual's site has a page for each link."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from perfpy.cli.commands import COMMANDS
from perfpy.cli.top_level import TOPICS

if TYPE_CHECKING:
    from types import ModuleType

CHECKOUT = Path(__file__).resolve().parents[1]
CHANGELOG = (CHECKOUT / "CHANGELOG.md").read_text()
#: the most lines of a release's description
PAGE_LINES = 60
KINDS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def script(path: str) -> ModuleType:
    """Return a script of the checkout as a module."""
    specification = importlib.util.spec_from_file_location(Path(path).stem, CHECKOUT / path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_the_top_level_has_the_package_and_what_packaging_needs():
    """`git add` of everything in the folder once added another program's wheel."""
    if not (CHECKOUT / ".git").exists():
        pytest.skip("not a checkout")
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=CHECKOUT, capture_output=True, text=True, timeout=60, check=True).stdout
    tops = {name.split("/")[0] for name in tracked.split("\0") if name and not name.startswith(".")}
    expected = {"CHANGELOG.md", "LICENSE", "README.md", "completions", "man", "perfpy", "pyproject.toml", "scripts", "tests"}
    assert tops == expected


def test_the_changelog_has_the_form_of_keep_a_changelog():
    sections = re.findall(r"^## (.+)$", CHANGELOG, re.MULTILINE)
    assert sections[0] == "[Unreleased]"
    assert [section for section in sections[1:] if not re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d{2}-\d{2}", section)] == []
    assert set(re.findall(r"^### (.+)$", CHANGELOG, re.MULTILINE)) <= KINDS


def test_the_next_release_is_described_on_one_page():
    unreleased = CHANGELOG.partition("\n## [Unreleased]\n")[2].partition("\n## [")[0]
    assert 0 < len(unreleased.splitlines()) <= PAGE_LINES


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


def test_ci_runs_all_cases_and_the_readmes_own_command():
    commands = [check.command for check in script(".ci/checks.py").CHECKS if check.step != "beside"]
    assert any(command.startswith("python3 -m venv .venv && ") and ".venv/bin/pytest -q -n auto" in command for command in commands)
    assert any("--cases=rest" in command for command in commands)
    assert any("-n 0 --cases=alone" in command for command in commands)


@pytest.fixture
def ci(monkeypatch, tmp_path):
    """Return .ci/checks.py in a folder of its own, with nothing to install, and two checks that succeed."""
    checks = script(".ci/checks.py")
    monkeypatch.setattr(checks, "CHECKOUT", tmp_path)
    monkeypatch.setattr(checks, "install_packages", lambda scratch, environment: None)
    monkeypatch.setattr(checks, "separate", lambda scratch, environment: [])  # this folder is in /tmp, too
    rows = (checks.Check("first", "tests", "true"), checks.Check("lint", "beside", "echo no fault"))
    monkeypatch.setattr(checks, "CHECKS", rows)
    return checks


def test_ci_prints_what_its_checks_print_and_their_times(ci, capfd):
    assert ci.main(3.0) == 0
    output = capfd.readouterr().out
    assert "-- lint\nno fault\n" in output
    assert re.search(r"== times\n    3 s  tools\n    \d s  packages\n    \d s  first\n", output)


def test_a_failed_check_of_ci_does_not_end_the_run_and_has_its_status(ci, monkeypatch, capfd):
    added = (ci.Check("bad", "tests", "exit 7"), ci.Check("site", "beside", "exit 8"), ci.Check("last", "alone", "echo still here"))
    monkeypatch.setattr(ci, "CHECKS", (*ci.CHECKS, *added))
    assert ci.main(0.0) == 7
    output = capfd.readouterr().out
    assert "\nstill here\n" in output
    assert output.endswith("failed: bad (status 7)\nfailed: site (status 8)\n")


@pytest.mark.parametrize(
    ("failed", "passes_alone", "status"),
    [(["a.py::one[x]", "a.py::one[y]"], True, 0), (["a.py::one"], False, 1), ([f"a.py::test_{number}" for number in range(6)], True, 1)],
    ids=["disturbed", "really failed", "too many"],
)
def test_ci_runs_few_failed_tests_once_more(ci, failed, passes_alone, status, tmp_path, monkeypatch, capfd):
    cache = tmp_path / ".pytest_cache" / "v" / "cache" / "lastfailed"
    write = f"mkdir -p {cache.parent}; echo '{json.dumps(dict.fromkeys(failed, True))}' >{cache}; exit 1"
    monkeypatch.setattr(ci, "CHECKS", (ci.Check("first", "tests", write),))
    monkeypatch.setattr(ci, "RETRY", f"rm {cache}" if passes_alone else "exit 1")
    assert ci.main(0.0) == status
    output = capfd.readouterr().out
    assert ("passed alone: 1\na.py::one\n" in output) == (status == 0)
    assert ("first: status 1; 6 tests failed" in output) == (len(failed) == 6)


def test_the_site_has_pages_for_all_commands_and_topics_and_all_links_lead_to_pages():
    pages = dict(script("man/site/sources.py").sources())  # raises KeyError for a link to a file without a page
    assert {f"commands/{name}.md" for name in COMMANDS} | {f"topics/{name}.md" for name in TOPICS} <= set(pages)


def test_what_scrolls_can_be_reached_by_keys_and_landmarks_have_names():
    page = (
        '<aside class="toc-drawer no-toc"><p class="caption" role="heading"><pre>x</pre>'
        '<div class="table-wrapper wide"><th class="head"><p></p></th></div></aside>'
    )
    expected = (
        '<aside class="toc-drawer no-toc" aria-label="On this page"><p class="caption" role="heading" aria-level="2">'
        '<pre tabindex="0">x</pre><div class="table-wrapper wide" tabindex="0"><td></td></div></aside>'
    )
    assert script("man/site/build.py").with_roles(page) == expected


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
