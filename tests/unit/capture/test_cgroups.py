"""--for-each-cgroup: the cgroups that match a list of patterns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from perfpy.capture.cgroups import matching
from perfpy.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def root(tmp_path: Path) -> str:
    for name in ("user/b", "user/a", "system", "other"):
        (tmp_path / name).mkdir(parents=True)
    return str(tmp_path)


@pytest.mark.parametrize(
    ("patterns", "found"),
    [
        ("^user", ["user", "user/a", "user/b"]),
        ("user/[ab],^sys", ["system", "user/a", "user/b"]),
        ("none.*,^other$", ["other"]),
        ("^user$,", ["user"]),
    ],
)
def test_a_cgroup_is_meant_that_one_of_the_patterns_matches(patterns: str, found: list[str], root: str) -> None:
    assert matching(patterns, root) == found


@pytest.mark.parametrize(("patterns", "message"), [("none.*,nobody", "no cgroup below"), ("[", "unterminated")])
def test_patterns_that_mean_none(patterns: str, message: str, root: str) -> None:
    with pytest.raises(UsageError, match=message):
        matching(patterns, root)
